/* Numbers far ahead of a path, made up by who knows a connection's name: what the peer sends seems to be overtaken, and its next
 * BARRIER sets that right. */
#include "multi_run.h"

enum { FAR = 0x700000, ALL = 0xf };

/* With the name of the connection: of a request that is too old to be answered, unless it is a BARRIER, or of its answer. */
static struct mp_packet packet_of(struct pair *pair, enum mp_type type)
{
	const struct mp_config *c = &multi_of(pair->side[0].qp)->requester.config;

	return (struct mp_packet){ .version = MP_VERSION, .type = (uint8_t)type, .order = MP_UNORDERED,
				   .code = type == MP_REQ ? MP_READ : 0, .connection = c->connection,
				   .pkn = serial_add(c->start, -100, c->width) };
}

static void jump(struct pair *pair, struct forgery *f, enum mp_type type, unsigned which)
{
	struct mp_packet p = packet_of(pair, type);

	for (unsigned path = 0; path < 4; path++)
		if (which >> path & 1)
			forge(pair, f, path, FAR, &p);
}

/* Of what one side sends, by one path or by all: the transfer goes on within the timeout, and all paths are used again. */
static void a_number_far_ahead_silences_no_path(void **state)
{
	static const struct { int from; enum mp_type type; } rows[] = { { 0, MP_REQ }, { 0, MP_BARRIER }, { 1, MP_RSP } };
	static const unsigned which[] = { 1, 1 << 2, 7, ALL };

	(void)state;
	paths = 4;
	for (unsigned row = 0; row < sizeof(rows) / sizeof(rows[0]); row++) {
		struct pair *pair = begin(be_slow);
		struct forgery f = { .from = rows[row].from };
		const struct multi *m = multi_of(pair->side[0].qp);
		struct run r = { 0 };
		uint64_t before[4];

		pair->sim->tap = remember;
		pair->sim->tap_arg = &f;
		run_for(pair, &r, 20 * WTIME_MS);
		for (unsigned i = 0; i < 40; i++) {
			jump(pair, &f, rows[row].type, which[i % 4]);
			run_for(pair, &r, 20 * WTIME_MS);
		}
		print_message("type %u: %u done, at most %u us between two\n", rows[row].type, r.done,
			      (unsigned)(r.longest / WTIME_US));
		assert_true(r.longest < 16 * WTIME_MS);		/* the ACK timeout: 4.096 us * 2^12 */
		assert_int_equal(m->requester.count.path_failures, 0);
		assert_true(pair->side[!rows[row].from].node->ca.counters.multipath_foreign > 40);
		for (unsigned i = 0; i < 4; i++) {
			assert_string_equal(state_of(pair, i), "good");
			before[i] = m->packets[i];
		}
		run_for(pair, &r, 20 * WTIME_MS);
		for (unsigned i = 0; i < 4; i++)
			assert_true(m->packets[i] > before[i] + 20);
		end(pair);
	}
}

/* The last answer to a BARRIER that side 1 gave. */
struct answer {
	struct forgery forgery;
	struct mp_packet last;
	unsigned count;
};

static void note(void *arg, int node, const struct packet *p)
{
	struct answer *a = arg;
	struct mp_packet packet;

	remember(&a->forgery, node, p);
	if (node != 1 || p->opcode != OPCODE_WEFT_MULTIPATH ||
	    !mp_packet_parse(&packet, p->payload->iov_base, p->payload_bytes) || packet.type != MP_BARRIER_RSP)
		return;
	a->last = packet;
	a->count++;
}

/* MPT-29: behind others it says nothing of what came before it; what it hears is the number that is awaited. */
static void a_barrier_that_was_overtaken_is_not_answered(void **state)
{
	struct pair *pair = begin(NULL);
	struct answer a = { .forgery.from = 0 };
	struct multi *sends = multi_of(pair->side[0].qp), *takes = multi_of(pair->side[1].qp);
	struct mp_packet p = packet_of(pair, MP_BARRIER);

	(void)state;
	pair->sim->tap = note;
	pair->sim->tap_arg = &a;
	post_wr(pair, 0, (struct pair_wr){ .wr_id = 1, .opcode = IBV_WR_RDMA_WRITE, .bytes = 64 * KB });
	pair_run(pair);
	expect_sent(pair, 0, 1, IBV_WC_SUCCESS);
	p.address = 0x1234;
	forge(pair, &a.forgery, 3, 0, &p);
	assert_int_equal(a.count, 1);
	assert_int_equal(a.last.address, p.address);
	assert_int_equal(a.last.extra, takes->heard[3] + 1);
	sends->sent[3] = psn_add(sends->sent[3], 1);
	forge(pair, &a.forgery, 3, -2, &p);
	assert_int_equal(a.count, 2);
	assert_int_not_equal(a.last.address, p.address);
	assert_int_equal(a.last.extra, takes->heard[3] + 1);
	post_wr(pair, 0, (struct pair_wr){ .wr_id = 2, .opcode = IBV_WR_RDMA_WRITE, .bytes = 64 * KB });
	pair_run(pair);
	expect_sent(pair, 0, 2, IBV_WC_SUCCESS);
	end(pair);
}

/* What is told moves numbers forwards alone, whatever it is. */
static void numbers_never_go_back(void **state)
{
	static const struct { uint32_t told; bool moves; } rows[] = {
		{ 0, false }, { 1, false }, { 5, false }, { 1000, true }, { 1000, false }, { 0x100f000, true },
		{ 0xffffffff, false }, { 0x500000, true }, { 0xc00000, true }, { 0x500000, false }, { 0x1000000, true },
		{ 0x1000, true },
	};
	struct pair *pair = begin(NULL);
	struct forgery f = { .from = 0 };
	struct multi *takes = multi_of(pair->side[1].qp), *sends = multi_of(pair->side[0].qp);
	struct mp_packet p = packet_of(pair, MP_BARRIER);

	(void)state;
	pair->sim->tap = remember;
	pair->sim->tap_arg = &f;
	for (uint64_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		psn_t before;

		post_wr(pair, 0, (struct pair_wr){ .wr_id = i, .opcode = IBV_WR_RDMA_WRITE, .bytes = 64 * KB });
		pair_run(pair);
		expect_sent(pair, 0, i, IBV_WC_SUCCESS);
		before = takes->sent[1];
		p.extra = rows[i].told;
		forge(pair, &f, 1, 0, &p);
		sends->sent[1] = psn_add(sends->sent[1], 1);
		/* one more is the answer's */
		assert_int_equal(takes->sent[1], psn_add(rows[i].moves ? rows[i].told & PSN_MASK : before, 1));
	}
	end(pair);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_number_far_ahead_silences_no_path),
		cmocka_unit_test(a_barrier_that_was_overtaken_is_not_answered),
		cmocka_unit_test(numbers_never_go_back),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
