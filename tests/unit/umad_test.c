/* Files of management datagrams in weftd, asked without a socket: who may send what, and how much a user may have of it. There is
 * no fabric, so that nobody answers. */
#include "control/devices.h"
#include "weftd/hub.h"
#include "weftd/mads.h"
#include "weftd/page.h"
#include "weftd/umad.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

enum { OWNER, STRANGER, CLIENTS = 9 };	/* STRANGER and those behind it are of one user */
enum { LONG = (128 << 20) / 5 - (160 << 10) };	/* five are nearly all that the user may have */

static struct world {
	struct hub hub;
	struct fabric_page page;
	struct claims claims;
	struct client client[CLIENTS];
	struct control_msg last;
	char text[4096];		/* of it */
	uint8_t secret[CLIENTS][16];
	unsigned letters[CLIENTS], drops;
	struct control_mad letter;	/* the last one */
	unsigned room;			/* messages that there is room for */
	bool is_counted;		/* datagrams are made by count_bytes */
	uint32_t at;			/* bytes of the datagram of which pieces come */
} *world;

static bool take_message(struct hub *hub, struct client *c, const struct control_msg *msg, const char *text, const int *fds,
			 int nfds)
{
	(void)hub;
	(void)fds;
	(void)nfds;
	if (msg->type != CTL_MAD) {
		world->last = *msg;
		if (text)
			memcpy(world->text, text, msg->text_bytes);
		world->text[text ? msg->text_bytes : 0] = '\0';
		return true;
	}
	world->letters[c - world->client]++;
	memcpy(&world->letter, text, sizeof(world->letter));
	/* pieces of one follow each other, and bytes are what their place says */
	assert_int_equal(world->letter.at, world->at);
	for (uint32_t i = (uint32_t)sizeof(world->letter); i < msg->text_bytes; i++)
		assert_true(!world->is_counted || (uint8_t)text[i] == (uint8_t)((world->at + i - sizeof(world->letter)) / 7));
	world->at += msg->text_bytes - (uint32_t)sizeof(world->letter);
	world->at = world->at == world->letter.total ? 0 : world->at;
	world->room--;
	return true;
}

static bool has_room(struct hub *hub, const struct client *c)
{
	(void)hub;
	(void)c;
	return world->room > 0;
}

static void drop(struct hub *hub, struct client *c, const char *why)
{
	(void)hub;
	(void)c;
	(void)why;
	world->drops++;
}

static const struct hub_ops ops = { .send = take_message, .has_room = has_room, .drop = drop };

static int set_up(void **state)
{
	enum control_limit limit;
	struct state s;

	(void)state;
	world = calloc(1, sizeof(*world));
	world->room = UINT32_MAX;
	world->page.devices = control_default.devices;
	world->page.device[0].protocol = PAGE_IB;
	s = (struct state){ .page = &world->page, .claims = &world->claims, .page_fd = -1 };
	hub_init(&world->hub, &ops, &s, 1);
	world->hub.uid = 1000;
	for (uint32_t i = 0; i < CLIENTS; i++) {
		world->client[i].uid = i == OWNER ? 1000 : 1001;
		assert_int_equal(hub_join(&world->hub, &world->client[i], &limit), 0);
	}
	return 0;
}

static int tear_down(void **state)
{
	(void)state;
	for (int i = 0; i < CLIENTS; i++)
		hub_leave(&world->hub, &world->client[i]);
	assert_true(list_empty(&world->hub.mads.files));
	free(world);
	return 0;
}

static void open_file(int client)
{
	const struct control_msg msg = { .type = CTL_MAD_PORT, .seq = 1 };

	umad_port(&world->hub, &world->client[client], &msg, "", NULL, 0);
	assert_int_equal(world->last.status, 0);
	memcpy(world->secret[client], world->last.gid, 16);
}

/* The answer's status; the agent's number is in *id. */
static uint32_t add_agent(int client, uint8_t mgmt_class, uint32_t *id)
{
	struct control_agent agent = { .mgmt_class = mgmt_class, .class_version = 1 };
	struct control_msg msg = { .type = CTL_MAD_AGENT, .seq = 1, .text_bytes = sizeof(agent) };

	memcpy(msg.gid, world->secret[client], sizeof(msg.gid));
	umad_agent(&world->hub, &world->client[client], &msg, (const char *)&agent, NULL, 0);
	*id = world->last.b;
	return world->last.status;
}

/* A datagram of so many bytes, or its first ones. */
static void send_first(int client, uint32_t agent, uint8_t mgmt_class, uint32_t bytes, uint32_t total)
{
	const struct control_mad head = { .agent = agent, .timeout_ms = 1000, .total = total, .qpn = mad_class_qpn(mgmt_class) };
	const struct control_msg msg = { .type = CTL_MAD, .text_bytes = (uint32_t)sizeof(head) + bytes };
	char *text = calloc(1, msg.text_bytes);

	memcpy(text, &head, sizeof(head));
	text[sizeof(head)] = text[sizeof(head) + 2] = 1;
	text[sizeof(head) + 1] = (char)mgmt_class;
	text[sizeof(head) + 3] = MAD_SET;
	/* each with its own transaction id */
	memcpy(text + sizeof(head) + 12, &world->client[client].mads_sent, 4);
	umad_input(&world->hub, &world->client[client], &msg, text, NULL, 0);
	free(text);
}

static void send_one(int client, uint32_t agent, uint8_t mgmt_class)
{
	send_first(client, agent, mgmt_class, MAD_BYTES, MAD_BYTES);
}

static void qp0_is_the_owners(void **state)
{
	static const uint8_t qp0[] = { MAD_CLASS_SUBN_LID, MAD_CLASS_SUBN_DIRECTED };
	uint32_t agent, other;

	(void)state;
	for (int i = OWNER; i <= STRANGER; i++)
		open_file(i);
	assert_int_equal(add_agent(STRANGER, MAD_CLASS_PERF, &agent), 0);
	for (unsigned i = 0; i < sizeof(qp0); i++) {
		assert_int_equal(add_agent(STRANGER, qp0[i], &other), EPERM);
		send_one(STRANGER, agent, qp0[i]);
		assert_int_equal(world->letters[STRANGER], i + 1);
		assert_int_equal(world->letter.status, EPERM);
	}
	assert_int_equal(world->client[STRANGER].mads_sent, 0);
	send_one(STRANGER, agent, MAD_CLASS_PERF);
	assert_int_equal(world->client[STRANGER].mads_sent, 1);
	assert_int_equal(add_agent(OWNER, MAD_CLASS_SUBN_DIRECTED, &agent), 0);
	for (unsigned i = 0; i < sizeof(qp0); i++)
		send_one(OWNER, agent, qp0[i]);
	assert_int_equal(world->client[OWNER].mads_sent, 2);
	assert_int_equal(world->drops, 0);
}

static uint64_t held_by_all(void)
{
	uint64_t bytes = 0;

	for (int i = STRANGER; i < CLIENTS; i++)
		bytes += umad_bytes(&world->client[i]);
	return bytes;
}

static void send_piece(int client, uint32_t at, uint32_t bytes, uint32_t total)
{
	const struct control_mad head = { .timeout_ms = 1000, .total = total, .at = at };
	const struct control_msg msg = { .type = CTL_MAD, .text_bytes = (uint32_t)sizeof(head) + bytes };
	char *text = calloc(1, msg.text_bytes);

	memcpy(text, &head, sizeof(head));
	umad_input(&world->hub, &world->client[client], &msg, text, NULL, 0);
	free(text);
}

/* A datagram that is not whole takes its bytes; for whom there is no room, it comes back. */
static void pieces_are_on_the_account(void **state)
{
	enum { FIT = (128 << 20) / LONG };
	uint32_t agent;

	(void)state;
	for (int i = OWNER; i < CLIENTS; i++)
		open_file(i);
	for (int i = STRANGER; i < CLIENTS; i++) {
		add_agent(i, MAD_CLASS_PERF, &agent);
		send_first(i, agent, MAD_CLASS_PERF, MAD_BYTES, LONG);
		assert_int_equal(world->letters[i], i - STRANGER >= FIT);
	}
	assert_int_equal(world->letter.status, EDQUOT);
	assert_true(held_by_all() == (uint64_t)FIT * LONG);
	/* what belongs to it is nothing wrong */
	send_piece(CLIENTS - 1, MAD_BYTES, LONG - MAD_BYTES, LONG);
	assert_int_equal(world->drops, 0);
	send_piece(CLIENTS - 1, MAD_BYTES, MAD_BYTES, LONG);
	assert_int_equal(world->drops, 1);
	add_agent(OWNER, MAD_CLASS_PERF, &agent);
	send_first(OWNER, agent, MAD_CLASS_PERF, MAD_BYTES, LONG);
	assert_int_equal(world->letters[OWNER], 0);
	umad_leave(&world->hub, &world->client[STRANGER]);
	send_first(CLIENTS - 1, 0, MAD_CLASS_PERF, MAD_BYTES, LONG);
	assert_int_equal(world->letters[CLIENTS - 1], 1);
}

static void requests_are_on_the_account(void **state)
{
	uint32_t agent;

	(void)state;
	for (int i = STRANGER; i < CLIENTS; i++) {
		open_file(i);
		add_agent(i, MAD_CLASS_PERF, &agent);
	}
	for (int i = STRANGER; i < STRANGER + (128 << 20) / LONG; i++)
		send_first(i, 0, MAD_CLASS_PERF, MAD_BYTES, LONG);
	for (unsigned i = 0; i < 1024; i++)
		send_one(CLIENTS - 2, 0, MAD_CLASS_PERF);
	assert_true(world->letters[CLIENTS - 2] == 0 && held_by_all() > (128 << 20) - (300 << 10));
	for (unsigned i = 0; i < 1024; i++)
		send_one(CLIENTS - 1, 0, MAD_CLASS_PERF);
	assert_true(world->letters[CLIENTS - 1] > 0 && held_by_all() <= 128 << 20);
	assert_int_equal(world->letter.status, EDQUOT);
}

static struct mad_file *file_of(int client)
{
	list_for_each(f, &world->hub.mads.files, struct mad_file, node) {
		if (umad_client(f) == &world->client[client])
			return f;
	}
	return NULL;
}

/* What has come for a program. */
static void deliver(int client, uint32_t bytes)
{
	uint8_t *data = malloc(bytes), *kept = data;
	const struct mad_letter l = { .data = data, .bytes = bytes, .gift = bytes > MAD_BYTES ? &kept : NULL };

	for (uint32_t i = 0; world->is_counted && i < bytes; i++)
		data[i] = (uint8_t)(i / 7);
	world->hub.mads.ops->deliver(&world->hub, file_of(client), &l);
	free(kept);
}

/* A long datagram goes as its program reads; what comes meanwhile is behind it. */
static void long_ones_go_as_they_are_read(void **state)
{
	enum { BYTES = 10 * CONTROL_MAD_PIECE + 100 };
	struct client *c = &world->client[OWNER];

	(void)state;
	open_file(OWNER);
	world->is_counted = true;
	world->room = 4;
	deliver(OWNER, BYTES);
	deliver(OWNER, MAD_BYTES);
	deliver(OWNER, BYTES);
	assert_int_equal(world->letters[OWNER], 4);
	assert_in_range(umad_bytes(c), 2 * BYTES + MAD_BYTES, 2 * BYTES + MAD_BYTES + 1000);
	assert_true(umad_deadline(&world->hub) < WTIME_NEVER);
	world->room = 9;
	umad_resume(&world->hub, c);
	assert_int_equal(world->letters[OWNER], 13);
	/* who has room without having read is looked at by and by */
	world->room = UINT32_MAX;
	world->hub.now = umad_deadline(&world->hub);
	umad_expire(&world->hub);
	assert_int_equal(world->letters[OWNER], 2 * 11 + 1);
	assert_int_equal(umad_bytes(c), 0);
	assert_true(umad_deadline(&world->hub) == WTIME_NEVER);
	assert_int_equal(c->mads_dropped, 0);
	/* without any before it, one MAD goes at once or not at all */
	world->room = 0;
	deliver(OWNER, MAD_BYTES);
	assert_int_equal(c->mads_dropped, 1);
}

/* What nobody reads has an end, for each file and for each user, and is nobody's when its file is closed. */
static void unread_ones_have_an_end(void **state)
{
	enum { MANY = 20000 };

	(void)state;
	for (int i = OWNER; i < CLIENTS; i++)
		open_file(i);
	world->room = 0;
	for (int i = 0; i < 5; i++)
		deliver(OWNER, 50 << 20);
	assert_int_equal(world->client[OWNER].mads_dropped, 2);
	for (int i = 0; i < MANY; i++)
		deliver(OWNER, MAD_BYTES);
	assert_in_range(world->client[OWNER].mads_dropped, 2 + MANY - 14400, 2 + MANY - 14300);
	for (int i = 0; i < 7; i++)
		deliver(STRANGER + i, LONG);
	for (int i = 0; i < 7; i++)
		assert_int_equal(world->client[STRANGER + i].mads_dropped, i >= 5);
}

static void set(int client, const char *text)
{
	struct control_msg msg = { .type = CTL_MADS, .seq = 1, .text_bytes = (uint32_t)strlen(text) };

	mads_input(&world->hub, &world->client[client], &msg, text, NULL, 0);
}

/* RMP-12, 31, 61: all of a text holds or nothing, and the key that opens all is shown to who may set it alone. */
static void tunables_of_the_administration(void **state)
{
	const uint64_t *value = world->hub.sa_tunables.value;

	(void)state;
	set(STRANGER, "sa-trusted-key=7");
	assert_int_equal(world->last.status, EPERM);
	set(OWNER, "sa-lsb-first=1,each=40,sa-trusted-key=x");
	assert_int_equal(world->last.status, EINVAL);
	set(OWNER, "sa-lsb-first=1,each=0");
	assert_int_equal(world->last.status, EINVAL);
	set(OWNER, "sa-lsb-first=1,nothing=0");
	assert_int_equal(world->last.status, ENOENT);
	assert_true(!value[SA_TUNABLE_LSB_FIRST] && !value[SA_TUNABLE_TRUSTED_KEY]);
	assert_int_equal(world->hub.mads.buffers.tunables.each, GSA_DEFAULT);
	set(OWNER, "sa-lsb-first=1,each=40,sa-trusted-key=4711");
	assert_int_equal(world->last.status, 0);
	assert_true(value[SA_TUNABLE_LSB_FIRST] == 1 && value[SA_TUNABLE_TRUSTED_KEY] == 4711);
	assert_int_equal(world->hub.mads.buffers.tunables.each, 40);
	assert_non_null(strstr(world->text, "\"sa-trusted-key\":4711"));
	set(STRANGER, "");
	assert_int_equal(world->last.status, 0);
	assert_non_null(strstr(world->text, "\"sa-lsb-first\":1"));
	assert_null(strstr(world->text, "4711"));
	assert_non_null(strstr(world->text, "\"sa-longest-kb\":8192"));
	set(STRANGER, "sa-longest-kb=65536");
	assert_int_equal(world->last.status, EPERM);
	assert_int_equal(value[SA_TUNABLE_LONGEST_KB], SA_LONGEST_KB);
	set(OWNER, "sa-longest-kb=65536");
	assert_int_equal(value[SA_TUNABLE_LONGEST_KB], 65536);
}

/* Tunables are the owner's; what a program says of its datagrams is believed of its own file alone. */
static void tunables_are_the_owners(void **state)
{
	struct control_msg msg = { .type = CTL_MADS, .seq = 1, .text_bytes = 7 };
	const struct control_msg done = { .type = CTL_MAD_DONE, .a = 3, .b = UINT32_MAX };

	(void)state;
	mads_input(&world->hub, &world->client[STRANGER], &msg, "each=40", NULL, 0);
	assert_int_equal(world->last.status, EPERM);
	assert_int_equal(world->hub.mads.buffers.tunables.each, GSA_DEFAULT);
	mads_input(&world->hub, &world->client[OWNER], &msg, "each=40", NULL, 0);
	assert_int_equal(world->last.status, 0);
	assert_true(world->last.text_bytes > 0);
	assert_int_equal(world->hub.mads.buffers.tunables.each, 40);
	mads_input(&world->hub, &world->client[OWNER], &msg, "each=0,", NULL, 0);
	assert_int_equal(world->last.status, EINVAL);
	umad_done(&world->hub, &world->client[OWNER], &done);
	assert_int_equal(world->drops, 1);
	open_file(OWNER);
	umad_done(&world->hub, &world->client[OWNER], &done);
	assert_int_equal(world->drops, 1);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(qp0_is_the_owners),
		TEST(pieces_are_on_the_account),
		TEST(requests_are_on_the_account),
		TEST(long_ones_go_as_they_are_read),
		TEST(unread_ones_have_an_end),
		TEST(tunables_are_the_owners),
		TEST(tunables_of_the_administration),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
