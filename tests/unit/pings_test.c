/* Pings of other hosts, asked without a socket: what weftd answers, what it does not, and how often. */
#include "link/link.h"
#include "mgmt/gmp.h"
#include "mgmt/ping.h"
#include "weftd/hub.h"
#include "weftd/page.h"
#include "weftd/probes.h"
#include "weftd/qp1.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

static const uint8_t here[16] = { [10] = 0xff, 0xff, 10, 0, 0, 1 }, there[16] = { [10] = 0xff, 0xff, 10, 0, 0, 2 };

enum { FRAMES = 16 };

static struct world {
	struct hub hub;
	struct fabric_page page;
	struct claims claims;
	struct client client;
	struct control_msg told;
	struct link link;
	unsigned sent;
	uint8_t frame[PACKET_MAX_BYTES];
	size_t bytes;
	uint8_t frames[FRAMES][PING_FRAME];	/* the first ones */
	size_t frame_bytes[FRAMES];
} *world;

static bool tell(struct hub *hub, struct client *c, const struct control_msg *msg, const char *text, const int *fds, int nfds)
{
	(void)hub;
	(void)c;
	(void)text;
	(void)fds;
	(void)nfds;
	world->told = *msg;
	return true;
}

static bool take_frame(struct link *l, unsigned kind, const void *frame, size_t bytes)
{
	(void)l;
	(void)kind;
	memcpy(world->frame, frame, bytes);
	if (world->sent < FRAMES) {
		memcpy(world->frames[world->sent], frame, bytes);
		world->frame_bytes[world->sent] = bytes;
	}
	world->bytes = bytes;
	world->sent++;
	return true;
}

static const struct hub_ops ops = { .send = tell };
static const struct link_ops link_ops = { .send_frame = take_frame };

static int set_up(void **state)
{
	static const struct page_address address = { .raw = { [10] = 0xff, 0xff, 10, 0, 0, 1 }, .ifindex = 2, .ifname = "d0" };
	struct state kept;

	(void)state;
	world = calloc(1, sizeof(*world));
	assert_non_null(world);
	page_set_devices(&world->page, &control_default, 0x0200000000000100);
	page_set_addresses(&world->page, &address, 1);
	kept = (struct state){ .page = &world->page, .claims = &world->claims, .page_fd = -1 };
	hub_init(&world->hub, &ops, &kept, 1);
	world->hub.now = WTIME_S;
	world->link.ops = &link_ops;
	world->hub.roce.link = &world->link;
	return 0;
}

static int tear_down(void **state)
{
	(void)state;
	free(world);
	return 0;
}

static struct ping a_question(uint32_t bytes)
{
	struct ping ping = { .pkey = 0xffff, .path = { .has_grh = true, .hop_limit = 64, .is_ipv4 = true }, .bytes = bytes,
			     .tid = 0x1122334455667788, .version = "7.8.9" };

	memcpy(ping.path.sgid, there, 16);
	memcpy(ping.path.dgid, here, 16);
	return ping;
}

static enum qp1_fate arrive(const struct ping *ping)
{
	uint8_t frame[PING_FRAME];

	return qp1_input_wire(&world->hub, frame, ping_build(ping, frame));
}

static void an_answer_is_as_long_as_its_question(void **state)
{
	struct ping answer;

	(void)state;
	for (uint32_t bytes = PING_LEAST; bytes <= PING_MOST; bytes += bytes < 260 ? 1 : 641) {
		struct ping question = a_question(bytes);
		uint8_t frame[PING_FRAME];

		assert_int_equal(arrive(&question), QP1_ANSWERED);
		assert_int_equal(world->bytes, ping_build(&question, frame));
		assert_true(ping_parse(&answer, world->frame, world->bytes));
		assert_true(answer.is_answer);
		assert_int_equal(answer.bytes, bytes);
		assert_int_equal(answer.tid, question.tid);
		assert_memory_equal(answer.path.dgid, there, 16);
		assert_memory_equal(answer.path.sgid, here, 16);
		assert_string_equal(answer.version, WEFT_VERSION);
		world->hub.now += WTIME_S;
	}
}

static void one_source_gets_so_many_answers_in_a_second(void **state)
{
	struct ping question = a_question(PING_LEAST);

	(void)state;
	for (unsigned i = 0; i < 3 * PINGS_EACH; i++)
		assert_int_equal(arrive(&question), i < PINGS_EACH ? QP1_ANSWERED : QP1_NO_ROOM);
	world->hub.now += WTIME_S;
	assert_int_equal(arrive(&question), QP1_ANSWERED);
}

static void all_sources_get_so_many_answers_in_a_second(void **state)
{
	struct ping question = a_question(PING_LEAST);

	(void)state;
	for (unsigned i = 0; i < 65536; i++) {
		question.path.sgid[14] = (uint8_t)(i >> 8);
		question.path.sgid[15] = (uint8_t)i;
		if (memcmp(question.path.sgid, here, 16) != 0)
			arrive(&question);
	}
	assert_in_range(world->sent, PINGS_ALL / 2, PINGS_ALL);
}

static void an_answer_to_nobody_is_dropped(void **state)
{
	struct ping ping = a_question(PING_LEAST);

	(void)state;
	ping.is_answer = true;
	assert_int_equal(arrive(&ping), QP1_NOBODY);
	assert_int_equal(world->sent, 0);
	assert_int_equal(world->told.type, 0);
}

/* What was asked, of whom, and in which length must all be right. */
static void an_answer_is_its_questions(void **state)
{
	struct ping ping = a_question(PING_LEAST);

	(void)state;
	world->hub.pings.asked[3] = (struct ping_asked){ &world->client, 17, PING_LEAST, ping.tid, WTIME_S / 2, { 0 } };
	memcpy(world->hub.pings.asked[3].gid, there, 16);
	ping.is_answer = true;
	ping.tid ^= 1;
	assert_int_equal(arrive(&ping), QP1_NOBODY);
	ping.tid ^= 1;
	ping.bytes += 4;
	assert_int_equal(arrive(&ping), QP1_NOBODY);
	ping.bytes -= 4;
	ping.path.sgid[15] ^= 4;
	assert_int_equal(arrive(&ping), QP1_NOBODY);
	ping.path.sgid[15] ^= 4;
	assert_int_equal(arrive(&ping), QP1_PASSED);
	assert_int_equal(world->told.seq, 17);
	assert_int_equal(world->told.service, WTIME_S / 2);
	assert_int_equal(arrive(&ping), QP1_NOBODY);	/* once */
}

static void who_says_that_it_is_this_host_gets_nothing(void **state)
{
	struct ping ping = a_question(PING_LEAST);

	(void)state;
	memcpy(ping.path.sgid, here, 16);
	assert_int_equal(arrive(&ping), QP1_WRONG_SOURCE);
	ping = a_question(PING_LEAST);
	ping.path.dgid[15] = 9;
	assert_int_equal(arrive(&ping), QP1_WRONG_SOURCE);
	ping = a_question(PING_LEAST);
	ping.pkey = 0x8001;
	assert_int_equal(arrive(&ping), QP1_WRONG_PARTITION);
	assert_int_equal(world->sent, 0);
}

/* Each byte of the MAD's head that says that it is a ping. */
static void what_is_no_ping_is_none(void **state)
{
	static const unsigned bytes[] = { 0, 1, 2, 3, 16, 17, 37, 38, 39 };
	struct ping ping = a_question(300), read;
	uint8_t frame[PING_FRAME], payload[PING_MOST];
	size_t n = ping_build(&ping, frame);
	struct packet p;
	struct iovec iov;

	(void)state;
	assert_true(ping_parse(&read, frame, n));
	assert_string_equal(read.version, "7.8.9");
	for (unsigned i = 0; i < sizeof(bytes) / sizeof(bytes[0]); i++) {
		n = ping_build(&ping, frame);
		assert_int_equal(packet_parse(&p, PACKET_ROCE, frame, n, true), PACKET_OK);
		memcpy(payload, p.payload->iov_base, p.payload_bytes);
		payload[bytes[i]] ^= 0x40;
		iov = (struct iovec){ payload, p.payload_bytes };
		p.payload = &iov;
		n = packet_build(&p, frame, sizeof(frame));
		assert_false(ping_parse(&read, frame, n));
		assert_int_equal(qp1_input_wire(&world->hub, frame, n), QP1_NO_MAD);
	}
	n = ping_build(&ping, frame);
	frame[n - 1] ^= 1;
	assert_false(ping_parse(&read, frame, n));
}

static void a_version_is_text_for_a_terminal(void **state)
{
	struct ping ping = a_question(PING_LEAST), read;
	uint8_t frame[PING_FRAME];

	(void)state;
	memcpy(ping.version, "\033[2J1.0\x7f\xff", 9);
	assert_true(ping_parse(&read, frame, ping_build(&ping, frame)));
	assert_string_equal(read.version, "?[2J1.0??");
	memset(ping.version, 'x', sizeof(ping.version));
	assert_true(ping_parse(&read, frame, ping_build(&ping, frame)));
	assert_int_equal(strlen(read.version), PING_VERSION - 1);
}

/* ---- how long packets may be on a path ---- */

static void ask_path(uint32_t seq, uint32_t bytes)
{
	struct control_msg msg = { .type = CTL_PATH_MTU, .seq = seq, .b = bytes };

	memcpy(msg.gid, here, 16);
	memcpy(msg.dgid, there, 16);
	world->told = (struct control_msg){ 0 };
	probes_input(&world->hub, &world->client, &msg);
}

/* The answer to the n-th of the pings that were sent since `first`, which are kept by take_frame. */
static struct ping answer_to(unsigned n)
{
	struct ping ping;

	assert_true(ping_parse(&ping, world->frames[n], world->frame_bytes[n]));
	assert_false(ping.is_answer);
	assert_memory_equal(ping.path.dgid, there, 16);
	ping.path = gmp_path_back(&ping.path);
	ping.is_answer = true;
	return ping;
}

static void expect_told(uint32_t seq, uint32_t bytes)
{
	assert_int_equal(world->told.type, CTL_PATH_MTU);
	assert_int_equal(world->told.seq, seq);
	assert_int_equal(world->told.status, 0);
	assert_int_equal(world->told.b, bytes);
}

static void pass(wtime ns)
{
	world->hub.now += ns;
	probes_expire(&world->hub);
}

static void the_longest_that_comes_back_is_told(void **state)
{
	struct ping ping;

	(void)state;
	ask_path(1, 4096);
	assert_int_equal(world->sent, 1);		/* the shortest: of who does not know it, more would end QP1 */
	ping = answer_to(0);
	assert_int_equal(ping.bytes, PING_LEAST);
	assert_int_equal(arrive(&ping), QP1_PASSED);
	assert_int_equal(world->sent, 5);
	ping = answer_to(3);
	assert_int_equal(ping.bytes, 1024);
	ping.tid ^= 1;
	assert_int_equal(arrive(&ping), QP1_NOBODY);	/* somebody's guess */
	ping.tid ^= 1;
	assert_int_equal(arrive(&ping), QP1_PASSED);
	ping = answer_to(4);
	assert_int_equal(arrive(&ping), QP1_PASSED);
	assert_int_equal(world->told.type, 0);
	assert_int_equal(probes_deadline(&world->hub), world->hub.now + 25 * WTIME_MS);
	pass(25 * WTIME_MS);
	assert_int_equal(world->sent, 7);		/* those that are longer once more */
	pass(24 * WTIME_MS);
	assert_int_equal(world->told.type, 0);
	pass(WTIME_MS);
	expect_told(1, 1024);
	assert_int_equal(probes_deadline(&world->hub), WTIME_NEVER);
	/* the next one has it at once, for some time */
	ask_path(2, 4096);
	expect_told(2, 1024);
	assert_int_equal(world->sent, 7);
	world->hub.now += 10 * WTIME_S;
	ask_path(3, 4096);
	assert_int_equal(world->told.type, 0);
	assert_int_equal(world->sent, 8);
	ping = answer_to(7);
	assert_int_equal(arrive(&ping), QP1_PASSED);
	assert_int_equal(world->sent, 12);
	ping = answer_to(8);
	assert_int_equal(arrive(&ping), QP1_PASSED);
	expect_told(3, 4096);
	assert_int_equal(arrive(&ping), QP1_NOBODY);	/* once */
	probes_free(&world->hub);
}

/* The same frame, whose MAD has a status. */
static void with_status(uint8_t *frame, size_t bytes)
{
	struct packet p;

	assert_int_equal(packet_parse(&p, PACKET_ROCE, frame, bytes, true), PACKET_OK);
	((uint8_t *)p.payload->iov_base)[5] = MAD_STATUS_BAD_METHOD;
	p.payload_iovs = 1;
	memcpy(world->frames[0], p.payload->iov_base, p.payload_bytes);
	p.payload = &(struct iovec){ world->frames[0], p.payload_bytes };
	assert_int_equal(packet_build(&p, frame, PING_FRAME), bytes);
}

static void who_does_not_answer_is_believed(void **state)
{
	struct ping ping;
	uint8_t frame[PING_FRAME];
	size_t bytes;

	(void)state;
	ask_path(1, 1024);
	assert_int_equal(world->sent, 1);
	ask_path(2, 1024);				/* the same question */
	assert_int_equal(world->sent, 1);
	ping = answer_to(0);
	bytes = ping_build(&ping, frame);
	assert_true(ping_parse(&ping, frame, bytes));
	with_status(frame, bytes);			/* as rdma_rxe answers */
	assert_false(ping_parse(&ping, frame, bytes));
	pass(25 * WTIME_MS);
	pass(25 * WTIME_MS);
	expect_told(2, 1024);
	ask_path(3, 1000);
	assert_int_equal(world->told.status, EINVAL);
	ask_path(4, 8192);
	assert_int_equal(world->told.status, EINVAL);
	/* who asked has left */
	world->hub.now += 10 * WTIME_S;
	ask_path(5, 1024);
	probes_leave(&world->hub, &world->client);
	pass(25 * WTIME_MS);
	pass(25 * WTIME_MS);
	assert_int_equal(world->told.type, 0);
	probes_free(&world->hub);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)
	const struct CMUnitTest tests[] = {
		TEST(an_answer_is_as_long_as_its_question),
		TEST(one_source_gets_so_many_answers_in_a_second),
		TEST(all_sources_get_so_many_answers_in_a_second),
		TEST(an_answer_to_nobody_is_dropped),
		TEST(an_answer_is_its_questions),
		TEST(who_says_that_it_is_this_host_gets_nothing),
		TEST(what_is_no_ping_is_none),
		TEST(a_version_is_text_for_a_terminal),
		TEST(the_longest_that_comes_back_is_told),
		TEST(who_does_not_answer_is_believed),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
