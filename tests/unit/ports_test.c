/* Listeners and ports of weftd, asked without a socket: however clients choose their services, a question is a few lookups. */
#include "weftd/hub.h"
#include "weftd/listeners.h"
#include "weftd/page.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

enum { TCP = 0x1060000, CLIENTS = 8, LONGEST = 16 };

static struct world {
	struct hub hub;
	struct fabric_page page;
	struct claims claims;
	struct client client[CLIENTS];
	struct control_msg last;
} *world;

static bool take_answer(struct hub *hub, struct client *c, const struct control_msg *msg, const char *text, const int *fds,
			int nfds)
{
	(void)hub;
	(void)c;
	(void)text;
	(void)fds;
	(void)nfds;
	world->last = *msg;
	return true;
}

static bool has_room(struct hub *hub, const struct client *c)
{
	(void)hub;
	(void)c;
	return true;
}

static void drop(struct hub *hub, struct client *c, const char *why)
{
	(void)hub;
	(void)c;
	fail_msg("%s", why);
}

static const struct hub_ops ops = { .send = take_answer, .has_room = has_room, .drop = drop };

static int set_up(void **state)
{
	enum control_limit limit;
	struct state s;

	(void)state;
	world = calloc(1, sizeof(*world));
	world->page.devices = control_default.devices;
	s = (struct state){ .page = &world->page, .claims = &world->claims, .page_fd = -1 };
	hub_init(&world->hub, &ops, &s, 1);
	for (uint32_t i = 0; i < CLIENTS; i++) {
		assert_int_equal(hub_join(&world->hub, &world->client[i], &limit), 0);
		world->client[i].kind = CLIENT_PROCESS;
		world->client[i].slot = i + 1;
		world->hub.process_count++;
	}
	return 0;
}

static int tear_down(void **state)
{
	(void)state;
	for (int i = 0; i < CLIENTS; i++)
		hub_leave(&world->hub, &world->client[i]);
	assert_int_equal(world->hub.listeners.count + world->hub.tallies.count + world->hub.ports.count, 0);
	free(world);
	return 0;
}

static int say(int client, struct control_msg msg)
{
	msg.seq = 1;
	hub_input(&world->hub, &world->client[client], 1, &msg, "", NULL, 0);
	return world->last.status;
}

static unsigned longest_bucket(const struct hash_table *k)
{
	unsigned longest = 0;

	for (uint32_t i = 0; i < k->buckets; i++) {
		unsigned n = 0;

		for (const struct hash_node *node = k->bucket[i]; node; node = node->next)
			n++;
		longest = n > longest ? n : longest;
	}
	return longest;
}

/* As many as a client may have, of services that meet in one bucket of any table that hashes them without a secret. */
static void chosen_services_do_not_share_a_bucket(void **state)
{
	uint64_t service = 0;
	int listens = 0;

	(void)state;
	for (; listens < QUOTA_LISTENERS; service++) {
		if (service * 0x9e3779b97f4a7c15 >> 54 & 1023)
			continue;
		assert_int_equal(say(listens & 1, (struct control_msg){ .type = CTL_PORT, .service = service << 32 | 1 }), 0);
		assert_int_equal(say(listens & 1, (struct control_msg){ .type = CTL_LISTEN, .service = service << 32 | 1 }), 0);
		listens++;
	}
	assert_true(longest_bucket(&world->hub.listeners) < LONGEST);
	assert_true(longest_bucket(&world->hub.tallies) < LONGEST);
	assert_true(longest_bucket(&world->hub.ports) < LONGEST);
}

/* Nor do many listeners of one service, each at an address of its own. */
static void addresses_of_a_service_do_not_share_a_bucket(void **state)
{
	(void)state;
	for (uint32_t i = 1; i < QUOTA_LISTENERS; i++) {
		struct control_msg msg = { .type = CTL_PORT, .service = TCP | 7471 };

		memcpy(msg.gid, &i, sizeof(i));
		assert_int_equal(say(0, msg), 0);
		msg.type = CTL_LISTEN;
		assert_int_equal(say(0, msg), 0);
	}
	assert_true(longest_bucket(&world->hub.listeners) < LONGEST);
	assert_true(longest_bucket(&world->hub.ports) < LONGEST);
	assert_int_equal(say(1, (struct control_msg){ .type = CTL_LISTEN, .service = TCP | 7471 }), EADDRINUSE);
	assert_int_equal(say(1, (struct control_msg){ .type = CTL_PORT, .service = TCP | 7471 }), EADDRINUSE);
}

static void two_tables_have_two_keys(void **state)
{
	struct hash_table a, b;

	(void)state;
	hash_table_init(&a);
	hash_table_init(&b);
	assert_true(hash_table_hash(&a, "service", 7) != hash_table_hash(&b, "service", 7));
}

/* Each port once, until none is left; one that is given back is found again, and another address has them all once more. */
static void every_port_is_chosen_once(void **state)
{
	static bool seen[65536];
	struct control_msg any = { .type = CTL_PORT, .service = TCP }, back = { .type = CTL_UNPORT };
	int taken = 0;

	(void)state;
	memset(seen, 0, sizeof(seen));
	any.gid[15] = 1;
	for (; say(taken / QUOTA_PORTS, any) == 0; taken++) {
		uint32_t port = (uint32_t)world->last.service & 0xffff;

		assert_true(port >= PORT_FIRST && port < PORT_FIRST + PORT_COUNT && !seen[port]);
		seen[port] = true;
		back.service = world->last.service;
	}
	assert_int_equal(world->last.status, EADDRNOTAVAIL);
	assert_int_equal(taken, PORT_COUNT);
	memcpy(back.gid, any.gid, sizeof(any.gid));
	assert_int_equal(say((taken - 1) / QUOTA_PORTS, back), 0);
	assert_int_equal(say(CLIENTS - 1, any), 0);
	assert_int_equal(world->last.service, back.service);
	any.gid[15] = 2;
	assert_int_equal(say(CLIENTS - 1, any), 0);
	any.gid[15] = 0;
	assert_int_equal(say(CLIENTS - 1, any), EADDRNOTAVAIL);
}

/* Several of one row at once, each a reservation of its own; who has much gets one. */
static void ports_are_chosen_in_rows(void **state)
{
	struct control_msg many = { .type = CTL_PORT, .service = TCP, .b = CONTROL_PORT_ROW - 1 }, back = { .type = CTL_UNPORT };
	uint64_t row, bits;
	unsigned had;

	(void)state;
	assert_int_equal(say(0, many), 0);
	back.service = world->last.service;
	bits = row = control_port_row(&world->last);
	had = (unsigned)__builtin_popcountll(row);
	assert_true(had > 8 && row >> back.service % CONTROL_PORT_ROW & 1);
	assert_int_equal(world->client[0].port_count, had);
	for (; bits; bits &= bits - 1) {
		uint64_t service = control_port_of_row(back.service, bits);

		assert_in_range(service & 0xffff, PORT_FIRST, PORT_FIRST + PORT_COUNT - 1);
		assert_int_equal(say(1, (struct control_msg){ .type = CTL_PORT, .service = service }), EADDRINUSE);
	}
	control_set_port_row(&back, row);
	assert_int_equal(say(1, back), ENOENT);
	assert_int_equal(say(0, back), 0);
	assert_int_equal(world->client[0].port_count, 0);
	assert_int_equal(say(1, (struct control_msg){ .type = CTL_PORT, .service = back.service }), 0);
	/* nonsense is one port */
	many.b = UINT32_MAX;
	assert_int_equal(say(0, many), 0);
	assert_int_equal(world->client[0].port_count, 1);
	many.b = CONTROL_PORT_ROW - 1;
	while (world->client[0].port_count <= QUOTA_PORTS / 2)
		assert_int_equal(say(0, many), 0);
	had = world->client[0].port_count;
	assert_int_equal(say(0, many), 0);
	assert_int_equal(world->client[0].port_count, had + 1);
}

/* The last row has fewer. */
static void no_row_goes_beyond_the_last_port(void **state)
{
	enum { LAST = PORT_FIRST + PORT_COUNT - 1, LAST_ROW = LAST / CONTROL_PORT_ROW * CONTROL_PORT_ROW };
	struct control_msg many = { .type = CTL_PORT, .service = TCP, .b = CONTROL_PORT_ROW - 1 };

	(void)state;
	for (uint32_t port = PORT_FIRST; port < LAST_ROW; port++)
		assert_int_equal(say((int)(port & 1), (struct control_msg){ .type = CTL_PORT, .service = TCP | port }), 0);
	assert_int_equal(say(2, many), 0);
	assert_true(world->last.service >= (TCP | LAST_ROW));
	assert_true(control_port_row(&world->last) == (2ull << LAST % CONTROL_PORT_ROW) - 1);
	assert_int_equal(say(2, many), EADDRNOTAVAIL);
}

/* What the kernel's rdma_cm answers without CAP_NET_BIND_SERVICE. */
static void low_ports_are_roots(void **state)
{
	struct control_msg bind = { .type = CTL_PORT, .service = TCP | 1023 }, listen = bind;

	(void)state;
	listen.type = CTL_LISTEN;
	world->client[1].uid = 20001;
	assert_int_equal(say(1, bind), EACCES);
	assert_int_equal(say(1, listen), EACCES);
	assert_int_equal(say(0, bind), 0);
	assert_int_equal(say(0, listen), 0);
	bind.service++;
	assert_int_equal(say(1, bind), 0);
}

static void shared_ports_are_shared_until_one_listens(void **state)
{
	struct control_msg bind = { .type = CTL_PORT, .service = TCP | 7000, .a = 1 }, at = bind;
	struct control_msg listen = { .type = CTL_LISTEN, .service = TCP | 7000 };

	(void)state;
	at.gid[15] = 7;
	assert_int_equal(say(0, bind), 0);
	assert_int_equal(say(1, at), 0);
	assert_int_equal(say(2, bind), 0);
	bind.a = 0;
	assert_int_equal(say(3, bind), EADDRINUSE);
	assert_int_equal(say(0, listen), EADDRINUSE);
	at.type = CTL_UNPORT;
	assert_int_equal(say(1, at), 0);
	assert_int_equal(say(0, listen), EADDRINUSE);
	assert_int_equal(say(2, (struct control_msg){ .type = CTL_UNPORT, .service = TCP | 7000 }), 0);
	assert_int_equal(say(0, listen), 0);
	bind.a = 1;
	assert_int_equal(say(3, bind), EADDRINUSE);
	assert_int_equal(say(0, bind), EADDRINUSE);
	assert_int_equal(say(0, (struct control_msg){ .type = CTL_UNLISTEN, .service = TCP | 7000 }), 0);
	assert_int_equal(say(3, bind), 0);
	/* each of them may have had it twice */
	assert_int_equal(say(3, bind), 0);
	for (int i = 0; i < 2; i++)
		assert_int_equal(say(3, (struct control_msg){ .type = CTL_UNPORT, .service = TCP | 7000 }), 0);
	assert_int_equal(say(0, listen), 0);
}

static struct control_msg of_family(uint32_t type, enum control_family family)
{
	struct control_msg msg = { .type = type, .service = TCP | 7000 };

	memcpy(msg.gid, control_any(family), 16);
	return msg;
}

static struct client *hears(const uint8_t gid[16])
{
	return listeners_find(&world->hub, TCP | 7000, LISTENERS_ANYWHERE, 0, gid);
}

static const uint8_t at_ipv4[16] = { [10] = 0xff, 0xff, 192, 0, 2, 2 }, at_ipv6[16] = { 0xfd, [15] = 2 };

/* As rdma_cm's ids that are AFONLY, of which IPv4's always are. */
static void families_have_their_own_ports_and_listeners(void **state)
{
	struct control_msg at = { .type = CTL_PORT, .service = TCP | 7000 };

	(void)state;
	for (int c = 0; c < 2; c++) {
		assert_int_equal(say(c, of_family(CTL_PORT, c ? FAMILY_IPV6 : FAMILY_IPV4)), 0);
		assert_int_equal(say(c, of_family(CTL_LISTEN, c ? FAMILY_IPV6 : FAMILY_IPV4)), 0);
	}
	assert_ptr_equal(hears(at_ipv4), &world->client[0]);
	assert_ptr_equal(hears(at_ipv6), &world->client[1]);
	/* what they overlap with: themselves, their addresses, and who has both */
	for (int family = 0; family < CONTROL_FAMILIES; family++) {
		assert_int_equal(say(2, of_family(CTL_PORT, family)), EADDRINUSE);
		assert_int_equal(say(2, of_family(CTL_LISTEN, family)), EADDRINUSE);
	}
	memcpy(at.gid, at_ipv6, 16);
	assert_int_equal(say(2, at), EADDRINUSE);
	at.type = CTL_LISTEN;
	assert_int_equal(say(2, at), EADDRINUSE);
	assert_int_equal(say(1, of_family(CTL_UNLISTEN, FAMILY_IPV6)), 0);
	assert_null(hears(at_ipv6));
	assert_int_equal(say(1, of_family(CTL_UNPORT, FAMILY_IPV6)), 0);
	assert_int_equal(say(2, at), 0);
	assert_ptr_equal(hears(at_ipv6), &world->client[2]);
	at.type = CTL_PORT;
	assert_int_equal(say(2, at), 0);
	assert_int_equal(say(1, of_family(CTL_PORT, FAMILY_IPV6)), EADDRINUSE);
	assert_int_equal(say(1, of_family(CTL_PORT, FAMILY_BOTH)), EADDRINUSE);
	/* who has both has them in a listener of its own */
	assert_int_equal(say(0, of_family(CTL_UNLISTEN, FAMILY_IPV4)), 0);
	assert_int_equal(say(0, of_family(CTL_UNPORT, FAMILY_IPV4)), 0);
	at.type = CTL_UNLISTEN;
	assert_int_equal(say(2, at), 0);
	at.type = CTL_UNPORT;
	assert_int_equal(say(2, at), 0);
	assert_int_equal(say(3, of_family(CTL_PORT, FAMILY_BOTH)), 0);
	for (int family = FAMILY_IPV4; family < CONTROL_FAMILIES; family++)
		assert_int_equal(say(2, of_family(CTL_PORT, family)), EADDRINUSE);
	assert_int_equal(say(3, of_family(CTL_LISTEN, FAMILY_BOTH)), 0);
	for (int family = FAMILY_IPV4; family < CONTROL_FAMILIES; family++)
		assert_int_equal(say(2, of_family(CTL_LISTEN, family)), EADDRINUSE);
	assert_ptr_equal(hears(at_ipv4), &world->client[3]);
	assert_ptr_equal(hears(at_ipv6), &world->client[3]);
}

/* Without a port that would be in the way. */
static void who_listens_at_a_family_hears_all_its_addresses(void **state)
{
	struct control_msg ipv4 = { .type = CTL_LISTEN, .service = TCP | 7000 }, ipv6 = ipv4;

	(void)state;
	memcpy(ipv4.gid, at_ipv4, 16);
	memcpy(ipv6.gid, at_ipv6, 16);
	assert_int_equal(say(0, of_family(CTL_LISTEN, FAMILY_IPV4)), 0);
	assert_int_equal(say(1, ipv4), EADDRINUSE);
	assert_int_equal(say(1, ipv6), 0);
	for (int family = 0; family < CONTROL_FAMILIES; family++)
		assert_int_equal(say(2, of_family(CTL_LISTEN, family)), EADDRINUSE);
	assert_int_equal(say(0, of_family(CTL_UNLISTEN, FAMILY_IPV4)), 0);
	assert_int_equal(say(2, of_family(CTL_LISTEN, FAMILY_BOTH)), EADDRINUSE);
	ipv6.type = CTL_UNLISTEN;
	assert_int_equal(say(1, ipv6), 0);
	assert_int_equal(say(2, of_family(CTL_LISTEN, FAMILY_BOTH)), 0);
	assert_int_equal(say(1, ipv4), EADDRINUSE);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(chosen_services_do_not_share_a_bucket, set_up, tear_down),
		cmocka_unit_test_setup_teardown(addresses_of_a_service_do_not_share_a_bucket, set_up, tear_down),
		cmocka_unit_test(two_tables_have_two_keys),
		cmocka_unit_test_setup_teardown(every_port_is_chosen_once, set_up, tear_down),
		cmocka_unit_test_setup_teardown(ports_are_chosen_in_rows, set_up, tear_down),
		cmocka_unit_test_setup_teardown(no_row_goes_beyond_the_last_port, set_up, tear_down),
		cmocka_unit_test_setup_teardown(low_ports_are_roots, set_up, tear_down),
		cmocka_unit_test_setup_teardown(shared_ports_are_shared_until_one_listens, set_up, tear_down),
		cmocka_unit_test_setup_teardown(families_have_their_own_ports_and_listeners, set_up, tear_down),
		cmocka_unit_test_setup_teardown(who_listens_at_a_family_hears_all_its_addresses, set_up, tear_down),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
