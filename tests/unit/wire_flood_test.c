/* Floods of CM requests of other hosts, without a socket: what weftd takes in, answers and passes on. */
#include "link/link.h"
#include "mgmt/cm.h"
#include "weftd/farewells.h"
#include "weftd/hub.h"
#include "weftd/page.h"
#include "weftd/qp1.h"
#include "weftd/roce_port.h"

#include <limits.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <cmocka.h>

enum { DEVICE = 1, WAITING = 1000, AT_ONCE = 64 };

static const uint64_t service = 0x1060000 | 7000;
static const uint8_t here[16] = { [10] = 0xff, 0xff, 10, 0, 0, 1 }, there[16] = { [10] = 0xff, 0xff, 10, 0, 0, 2 };

static struct hub hub;
static struct client listener;
static struct link wire;
static unsigned answered, passed, waiting, sources = 100;
static bool reads;	/* the listener */

static bool send_to(struct hub *h, struct client *c, const struct control_msg *msg, const char *text, const int *fds, int nfds)
{
	(void)h;
	(void)c;
	(void)text;
	(void)fds;
	(void)nfds;
	passed += msg->type == CTL_FRAME;
	return true;
}

static bool has_room(struct hub *h, const struct client *c)
{
	(void)h;
	(void)c;
	return reads;
}

static unsigned space = UINT_MAX;

static bool send_frame(struct link *l, unsigned kind, const void *frame, size_t bytes)
{
	(void)l;
	(void)kind;
	(void)frame;
	(void)bytes;
	if (!space)
		return false;
	space--;
	answered++;
	return true;
}

static unsigned room(struct link *l)
{
	(void)l;
	return space;
}

/* The socket has taken what waited. */
static void take_event(struct link *l)
{
	(void)l;
	space = AT_ONCE;
}

/* From address and id number n of the attacker. */
static size_t build(uint64_t to_service, uint32_t n, uint8_t frame[GMP_FRAME])
{
	struct cm_msg msg = { .attribute = CM_REQ, .tid = n, .req = { .local_comm_id = n + 1, .service_id = to_service } };
	struct gmp gmp = { .device = DEVICE, .pkey = 0xffff, .path = { .has_grh = true, .hop_limit = 64, .is_ipv4 = true } };

	memcpy(gmp.path.dgid, here, 16);
	memcpy(gmp.path.sgid, there, 16);
	gmp.path.sgid[13] = (uint8_t)(1 + n % sources);
	cm_build(&msg, gmp.mad);
	return gmp_build(&gmp, PACKET_ROCE, frame);
}

static enum qp1_fate ask(uint64_t to_service, uint32_t n)
{
	uint8_t frame[GMP_FRAME];

	return qp1_input_wire(&hub, frame, build(to_service, n, frame));
}

static const void *receive(struct link *l, unsigned *kind, size_t *bytes)
{
	static uint8_t frame[GMP_FRAME];

	(void)l;
	if (!waiting)
		return NULL;
	*kind = link_kind(DEVICE, PACKET_ROCE);
	*bytes = build(service + 1, waiting--, frame);
	return frame;
}

static bool may_sleep(struct link *l, bool by_futex)
{
	(void)l;
	(void)by_futex;
	return !waiting;
}

static const struct hub_ops ops = { .send = send_to, .has_room = has_room };
static const struct link_ops link_ops = { .send_frame = send_frame, .room = room, .take_event = take_event,
					 .receive = receive, .may_sleep = may_sleep };

static int set_up(void **state)
{
	static const struct page_address address = { .raw = { [10] = 0xff, 0xff, 10, 0, 0, 1 }, .ifindex = 2, .ifname = "d0" };
	static struct fabric_page page;
	static struct claims claims;
	static struct state kept = { .page = &page, .claims = &claims };
	struct control_msg hello = { .type = CTL_HELLO, .a = CONTROL_PROCESS, .b = CONTROL_VERSION };
	struct control_msg listens = { .type = CTL_LISTEN, .service = service };
	enum control_limit limit;

	(void)state;
	kept.page_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	page_set_devices(&page, &control_default, 0x0200000000000100);
	page_set_addresses(&page, &address, 1);
	hub_init(&hub, &ops, &kept, 1);
	/* by this key the flooding host and the next have places of their own: rate.h */
	memset(&hub.listeners.key, 7, sizeof(hub.listeners.key));
	hub.now = WTIME_S;
	wire.ops = &link_ops;
	hub.roce.link = &wire;
	listener.pid = 1000000000;
	listener.uid = geteuid();
	if (kept.page_fd < 0 || hub_join(&hub, &listener, &limit))
		return -1;
	hub_input(&hub, &listener, 1, &hello, "", &kept.page_fd, 1);
	hub_input(&hub, &listener, 1, &listens, "", NULL, 0);
	listener.has_socket = true;
	return listener.listener_count == 1 ? 0 : -1;
}

/* Processes of this host have their turn in between. */
static void so_many_are_taken_in_at_a_time(void **state)
{
	(void)state;
	waiting = WAITING;
	hub.roce.is_pending = true;
	for (unsigned left = WAITING; left; left = waiting) {
		assert_int_equal(roce_port_deadline(&hub), hub.now);
		roce_port_expire(&hub);
		assert_int_equal(waiting, left > AT_ONCE ? left - AT_ONCE : 0);
	}
	assert_int_equal(roce_port_deadline(&hub), WTIME_NEVER);
}

static void so_many_are_answered_in_a_second(void **state)
{
	(void)state;
	hub.now += WTIME_S;
	answered = 0;
	for (uint32_t n = 0; n < 3 * QP1_ANSWERS; n++)
		assert_int_equal(ask(service + 1, n), n < QP1_ANSWERS ? QP1_ANSWERED : QP1_NO_ROOM);
	assert_int_equal(answered, QP1_ANSWERS);
	hub.now += WTIME_S;
	assert_int_equal(ask(service + 1, 1), QP1_ANSWERED);
}

/* One host asks without end: others are answered and heard. */
static void a_flood_of_one_host_takes_nothing_from_others(void **state)
{
	(void)state;
	hub.now += WTIME_S;
	sources = 1;
	for (uint32_t n = 0; n < 2 * QP1_ANSWERS; n++)
		assert_int_equal(ask(service + 1, n), n < QP1_ANSWERS_EACH ? QP1_ANSWERED : QP1_NO_ROOM);
	reads = true;
	for (uint32_t n = 0; n < 2 * QP1_PASSED_EACH; n++)
		assert_int_equal(ask(service, n), n < QP1_PASSED_EACH ? QP1_PASSED : QP1_NO_ROOM);
	sources = 100;
	assert_int_equal(ask(service + 1, 1), QP1_ANSWERED);
	assert_int_equal(ask(service, 1), QP1_PASSED);
	hub.now += WTIME_S;
	passed = 0;
}

/* Who listens and reads no more gets no more, and weftd answers nothing for it. */
static void a_listener_that_does_not_read_is_spared(void **state)
{
	(void)state;
	answered = 0;
	for (uint32_t n = 0; n < WAITING; n++) {
		reads = n < 10;
		assert_int_equal(ask(service, n), reads ? QP1_PASSED : QP1_NO_ROOM);
	}
	assert_int_equal(passed, 10);
	assert_int_equal(answered, 0);
}

/* A process with many connections ends, and then weftd does: each peer hears of it, though the socket takes some at a time. */
static void all_farewells_are_said(void **state)
{
	struct control_msg conn = { .type = CTL_CONN, .device = DEVICE };

	(void)state;
	hub.roce.port = 4791;
	memcpy(conn.gid, here, 16);
	memcpy(conn.dgid, there, 16);
	for (uint32_t i = 0; i < WAITING; i++) {
		conn.a = listener.slot << CM_SLOT_SHIFT | (i + 1);
		conn.b = i + 1;
		hub_input(&hub, &listener, 1, &conn, "", NULL, 0);
	}
	assert_int_equal(listener.connection_count, WAITING);
	hub.roce.group = (struct udp_group *)&wire;	/* as if there were one */
	farewells_leave(&hub, &listener);
	hub.roce.group = NULL;
	assert_int_equal(farewells_count(&hub), WAITING);
	wire.event_fd = eventfd(1, EFD_CLOEXEC);
	answered = 0;
	space = 0;
	farewells_say_all(&hub);
	assert_int_equal(answered, WAITING);
	close(wire.event_fd);
	farewells_free(&hub);
}

/* Nobody answers, and the peer has asked for hours: weftd may leave after half a minute. */
static void a_farewell_has_an_end(void **state)
{
	struct control_msg conn = { .type = CTL_CONN, .device = DEVICE, .service = 31ull << CONN_ACK_TIMEOUT };
	wtime began = hub.now;

	(void)state;
	memcpy(conn.gid, here, 16);
	memcpy(conn.dgid, there, 16);
	conn.a = listener.slot << CM_SLOT_SHIFT | 1;
	conn.b = 1;
	hub_input(&hub, &listener, 1, &conn, "", NULL, 0);
	hub.roce.group = (struct udp_group *)&wire;
	farewells_leave(&hub, &listener);
	hub.roce.group = NULL;
	answered = 0;
	space = UINT_MAX;
	while (farewells_count(&hub)) {
		if (farewells_deadline(&hub) > hub.now)
			hub.now = farewells_deadline(&hub);
		farewells_expire(&hub);
	}
	assert_in_range(answered, 5, 15);
	assert_in_range(hub.now - began, 15 * WTIME_S, 30 * WTIME_S);
	farewells_free(&hub);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(so_many_are_taken_in_at_a_time),
		cmocka_unit_test(so_many_are_answered_in_a_second),
		cmocka_unit_test(a_flood_of_one_host_takes_nothing_from_others),
		cmocka_unit_test(a_listener_that_does_not_read_is_spared),
		cmocka_unit_test(all_farewells_are_said),
		cmocka_unit_test(a_farewell_has_an_end),
	};

	return cmocka_run_group_tests(tests, set_up, NULL);
}
