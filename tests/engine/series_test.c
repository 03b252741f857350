/* Transactions of the seed's subnet administration over a bad path in virtual time: whatever is lost, repeated, swapped or late,
 * a table comes whole and exact, a Config is applied once and whole, or both ends end without it. */
#include "fault_sweep.h"
#include "series_run.h"

/* A way shorter than the flight that is said: no timer ends without a loss. */
static const struct series_config plain = { .subnet_timeout = 10, .response_time = 8, .retries = 7 };
static const struct mad_path_config calm = { .delay_ns = WTIME_MS, .each_ns = 1000, .fault_at = { -1, -1 } };

static void check_lines(const struct run *r, const struct line *want, unsigned lines)
{
	for (unsigned i = 0; i < lines; i++) {
		const struct line *a = &want[i], *b = &r->line[i];

		if (i >= r->lines || a->from != b->from || a->segment != b->segment || a->length != b->length ||
		    a->flags != b->flags || a->window != b->window)
			fail_msg("line %u: from %d segment %u length %u flags %02x window %u", i, b->from, b->segment, b->length,
				 b->flags, b->window);
	}
	assert_int_equal(r->lines, lines);
}

/* REQUIREMENTS 10.5: 1400 bytes by a window of 3. */
static void vector_10_5(void **state)
{
	static const struct line want[] = {
		{ 0, 0, 0, 0, 3 },
		{ 1, 1, 1400, 0x80, 3 }, { 1, 2, 0, 0, 3 }, { 1, 3, 0, 0, 3 }, { 0, 3, 0, 0x04, 3 },
		{ 1, 4, 0, 0, 3 }, { 1, 5, 0, 0, 3 }, { 1, 6, 0, 0, 3 }, { 0, 6, 0, 0x04, 3 },
		{ 1, 7, 0, 0, 3 }, { 1, 8, 56, 0x20, 3 }, { 0, 8, 0, 0x04, 3 },
	};
	struct run r;

	(void)state;
	begin(&r, &calm, &plain, TXN_GET_TABLE, 3, 0, 1400);
	go(&r);
	check_lines(&r, want, sizeof(want) / sizeof(want[0]));
	assert_int_equal(r.end[0].phase, TXN_DONE);
	assert_int_equal(r.end[1].phase, TXN_DONE);
	assert_true(has_answer(&r));
	end(&r);
}

static void vector_10_5_without_segment_5(void **state)
{
	static const struct line want[] = {
		{ 0, 0, 0, 0, 3 },
		{ 1, 1, 1400, 0x80, 3 }, { 1, 2, 0, 0, 3 }, { 1, 3, 0, 0, 3 }, { 0, 3, 0, 0x04, 3 },
		{ 1, 4, 0, 0, 3 }, { 1, 5, 0, 0, 3 }, { 1, 6, 0, 0, 3 }, { 0, 5, 0, 0x10, 0 },
		{ 1, 5, 0, 0, 3 }, { 1, 6, 0, 0, 3 }, { 0, 6, 0, 0x04, 3 },
		{ 1, 7, 0, 0, 3 }, { 1, 8, 56, 0x20, 3 }, { 0, 8, 0, 0x04, 3 },
	};
	struct mad_path_config path = calm;
	struct run r;

	(void)state;
	path.fault_at[0] = 6;
	path.fault[0] = MAD_DROPPED;
	begin(&r, &path, &plain, TXN_GET_BULK, 3, 0, 1400);
	go(&r);
	check_lines(&r, want, sizeof(want) / sizeof(want[0]));
	assert_true(has_answer(&r));
	end(&r);
}

static void vector_10_6(void **state)
{
	static const struct { uint8_t subnet, response; wtime response_ns, segment_ns; } want[] = {
		{ 0, 0, 12288, 8192 }, { 10, 8, 9437184, 5242880 }, { 18, 16, 2415919104, 1342177280 },
	};

	(void)state;
	for (int i = 0; i < 3; i++) {
		const struct series_config c = { .subnet_timeout = want[i].subnet, .response_time = want[i].response };

		assert_true(series_response_ns(&c) == want[i].response_ns);
		assert_true(series_segment_ns(&c) == want[i].segment_ns);
	}
}

/* RMP-33: what ports and responders say makes the timers, however large it is. */
static void times_that_others_say(void **state)
{
	static const struct { unsigned subnet, response; wtime response_ns; } want[] = {
		{ 0, 0, 12288 }, { 10, 8, 9437184 }, { 18, 16, 2415919104 }, { 20, 20, 3 * (4096ull << 20) },
		{ 21, 16, (2 * 4096ull << 20) + (4096ull << 16) }, { 31, 255, 3 * (4096ull << 20) },
		{ UINT_MAX, UINT_MAX, 3 * (4096ull << 20) },
	};

	(void)state;
	for (size_t i = 0; i < sizeof(want) / sizeof(want[0]); i++) {
		struct series_config c = plain;
		struct run r;

		series_config_times(&c, want[i].subnet, want[i].response);
		assert_true(series_response_ns(&c) == want[i].response_ns);
		/* each of its packets is lost: it is silent for a response timeout after each */
		begin(&r, &(struct mad_path_config){ .loss_ppm = 1000000, .fault_at = { -1, -1 } }, &c, TXN_GET_TABLE, 4, 0, 10);
		while (r.end[0].phase < TXN_DONE) {
			send_all(&r);
			r.now = transaction_deadline(&r.end[0]);
			transaction_expire(&r.end[0], r.now);
		}
		assert_true(r.now == 8 * want[i].response_ns);
		assert_true(r.now < 2 * 60 * WTIME_S);
		end(&r);
	}
}

static void vector_10_7(void **state)
{
	static const struct { uint8_t flag, msb, lsb; } want[] = {
		{ SERIES_FIRST, 0x80, 0x01 }, { SERIES_LAST, 0x20, 0x04 }, { SERIES_RESEND, 0x10, 0x08 },
		{ SERIES_ACK, 0x04, 0x20 }, { SERIES_KEEP_ALIVE, 0x01, 0x80 },
	};

	(void)state;
	for (int lsb = 0; lsb < 2; lsb++)
		for (int i = 0; i < 5; i++) {
			const struct series_config c = { .is_lsb_first = lsb };
			struct series_header h = { .flags = want[i].flag, .segment = 7, .length = 8, .window = 9, .key = 5 }, got;
			uint8_t mad[MAD_BYTES] = { 0 };

			series_build(&h, &c, mad);
			assert_int_equal(mad[40], lsb ? want[i].lsb : want[i].msb);
			series_parse(&got, &c, mad);
			assert_memory_equal(&got, &h, sizeof(h));
			/* reserved bits */
			mad[40] = 0x4a;
			series_parse(&got, &(struct series_config){ 0 }, mad);
			assert_int_equal(got.flags, 0);
		}
}

/* RMP-56: 150 packets of records by windows of 64; the answer acknowledges the last one. */
static void a_config_of_150_packets(void **state)
{
	struct run r;
	unsigned at = 0;

	(void)state;
	begin(&r, &calm, &plain, TXN_CONFIG, 0, SERIES_DATA * 149 + 40, 10);
	go(&r);
	for (uint32_t i = 1; i <= 150; i++) {
		const struct line *l = &r.line[at++];

		assert_true(!l->from && l->segment == i && l->window == 64);
		assert_int_equal(l->length, i == 1 ? SERIES_DATA * 149 + 40 : 0);
		assert_int_equal(l->flags, i == 1 ? 0x80 : i == 150 ? 0x20 : 0);
		if (i == 64 || i == 128) {
			l = &r.line[at++];
			assert_true(l->from && l->segment == i && l->flags == 0x04 && l->window == 64);
		}
	}
	assert_true(r.line[at].from == 1 && !r.line[at].segment && !r.line[at].flags && r.line[at].length == 10);
	assert_int_equal(r.lines, at + 1);
	assert_int_equal(r.applied, 1);
	assert_true(has_records(&r) && has_answer(&r));
	assert_int_equal(r.end[0].phase, TXN_DONE);
	end(&r);
}

/* RMP-02 */
static void a_config_may_be_answered_by_a_series(void **state)
{
	struct run r;

	(void)state;
	begin(&r, &calm, &plain, TXN_CONFIG, 0, 1000, 193);
	go(&r);
	assert_true(has_records(&r) && has_answer(&r));
	assert_int_equal(r.end[0].phase, TXN_DONE);
	assert_int_equal(r.end[1].phase, TXN_DONE);
	end(&r);
}

/* May both ends have ended so? */
static void check_end(const struct run *r, const char *what, uint64_t which)
{
	const struct transaction *a = &r->end[0], *b = &r->end[1];
	bool is_config = a->method == TXN_CONFIG;
	bool is_good = (a->phase == TXN_DONE && has_answer(r)) ||
		       (a->phase == TXN_FAILED && (!a->status || a->status == MAD_STATUS_BAD_VALUE));

	/* a Resend that arrives behind the Ack asks for what is gone (RMP-44), and nothing else does */
	for (int i = 0; i < 1 + r->serves; i++)
		if (r->end[i].out.is_gone != r->is_asked_late[i])
			is_good = false;
	if (a->status == MAD_STATUS_BAD_VALUE && !r->is_asked_late[0] && !r->is_asked_late[1])
		is_good = false;
	if (r->serves && b->phase != TXN_DONE && b->phase != TXN_FAILED)
		is_good = false;
	/* who has the Ack of the last packet knows that all of them have come */
	if (r->serves && b->phase == TXN_DONE && b->out.end > 1 && (a->phase != TXN_DONE || !has_answer(r)))
		is_good = false;
	if (r->applied > 1 || (is_config && r->applied && !has_records(r)) ||
	    (is_config && a->phase == TXN_DONE && !r->applied))
		is_good = false;
	if (!is_good)
		fail_msg("%s %lx: requester %d (%x), SA %d, %u bytes, applied %u", what, (unsigned long)which, a->phase,
			 a->status, b->phase, a->in.bytes, r->applied);
}

static unsigned count(const struct run *r, int from, unsigned flags)
{
	unsigned n = 0;

	for (unsigned i = 0; i < r->lines; i++)
		n += r->line[i].from == from && r->line[i].flags == flags;
	return n;
}

enum kind { GET, CONFIG, CONFIG_LONG, CONFIG_WINDOWS };

static void run_faults(const struct mad_path_config *path, int kind)
{
	static const struct { unsigned method; uint32_t records, answer; } kinds[] = {
		{ TXN_GET_TABLE, 0, 9 * SERIES_DATA + 77 }, { TXN_CONFIG, 9 * SERIES_DATA + 77, 100 },
		{ TXN_CONFIG, 3 * SERIES_DATA, 9 * SERIES_DATA + 1 }, { TXN_CONFIG, (SERIES_WINDOW + 2) * SERIES_DATA, 100 },
	};
	struct run r;

	begin(&r, path, &plain, kinds[kind].method, 4, kinds[kind].records, kinds[kind].answer);
	go(&r);
	check_end(&r, "faults at", (uint64_t)kind << 48 | (uint64_t)path->fault_at[0] << 24 | (uint64_t)(path->fault_at[1] + 1));
	sweep_check(&r.path);
	/* RMP-49: a copy is no gap, however late it comes */
	if (sweep_is_copy_alone(path))
		assert_int_equal(count(&r, 0, SERIES_RESEND) + count(&r, 1, SERIES_RESEND), 0);
	/* two faults are few: both ends have all of it, and neither has an error, unless one is asked for what is gone */
	if (r.is_asked_late[0] || r.is_asked_late[1]) {
		assert_int_not_equal(path->fault[1], MAD_PASSES);
	} else {
		assert_true(r.serves && has_answer(&r));
		for (int i = 0; i < 2; i++) {
			assert_int_equal(r.end[i].phase, TXN_DONE);
			assert_int_equal(r.end[i].status, 0);
		}
		assert_int_equal(r.applied, kind != GET);
		assert_true(kind == GET || has_records(&r));
	}
	end(&r);
}

static void every_single_and_double_fault(void **state)
{
	struct fault_sweep sweep = { .kinds = CONFIG_WINDOWS, .datagrams = 22, .hold_ns = 15 * WTIME_MS,
				     .late_ns = { 3 * WTIME_MS, 15 * WTIME_MS }, .run = run_faults };

	(void)state;
	sweep_faults(&sweep);
	/* around the Ack of a Config, which comes behind a window of 64 */
	sweep.kind = CONFIG_WINDOWS;
	sweep.kinds = 1;
	sweep.from = SERIES_WINDOW - 4;
	sweep.datagrams = 14;
	sweep_faults(&sweep);
}

static void seeded(uint64_t seed, struct run *r)
{
	static const unsigned methods[] = { TXN_GET_TABLE, TXN_GET_BULK, TXN_CONFIG };
	struct mad_path_config path = { .seed = seed, .each_ns = 1000, .fault_at = { -1, -1 } };
	struct series_config config = plain;
	struct rand rand;
	unsigned method;
	uint32_t answer, records;
	uint16_t window;

	rand_seed(&rand, seed);
	config.is_lsb_first = rand_below(&rand, 2);
	path.delay_ns = 1 + rand_below(&rand, 3 * WTIME_MS);
	path.loss_ppm = (uint32_t)rand_below(&rand, 300000);
	path.repeat_ppm = (uint32_t)rand_below(&rand, 300000);
	path.swap_ppm = (uint32_t)rand_below(&rand, 300000);
	path.hold_ns = rand_below(&rand, 100 * WTIME_MS);
	path.late_ns = rand_below(&rand, 100 * WTIME_MS);
	method = methods[rand_below(&rand, 3)];
	answer = 1 + (uint32_t)rand_below(&rand, 30 * SERIES_DATA);
	window = (uint16_t)rand_below(&rand, 12);
	records = 1 + (uint32_t)rand_below(&rand, 90 * SERIES_DATA);
	begin(r, &path, &config, method, window, records, answer);
	r->prepares_ns = rand_below(&rand, 4) ? 0 : rand_below(&rand, 100 * WTIME_MS);
	if (answer >= SERIES_DATA && !rand_below(&rand, 4)) {
		r->change_to = 1 + (uint32_t)rand_below(&rand, 2 * answer);
		r->change_at = 1 + (uint32_t)rand_below(&rand, answer / SERIES_DATA);
	}
	go(r);
}

static void random_runs_end_well(void **state)
{
	unsigned whole = 0, gone = 0;

	(void)state;
	for (uint64_t seed = 0; seed < 100000; seed++) {
		struct run r;

		seeded(seed, &r);
		check_end(&r, "seed", seed);
		whole += r.end[0].phase == TXN_DONE;
		gone += r.end[0].phase != TXN_DONE && (r.is_asked_late[0] || r.is_asked_late[1]);
		end(&r);
	}
	/* these aside, as every wait has eight tries */
	assert_true(whole > 80000 && whole + gone > 95000);
}

static void the_same_seed_gives_the_same_trace(void **state)
{
	(void)state;
	for (uint64_t seed = 0; seed < 100; seed++) {
		struct run a, b;

		seeded(seed, &a);
		seeded(seed, &b);
		assert_true(a.path.trace == b.path.trace && a.now == b.now);
		end(&a);
		end(&b);
	}
}

/* RMP-40: an SA that takes five timeouts says so, and is not asked again. */
static void a_slow_sa_keeps_its_requester_waiting(void **state)
{
	(void)state;
	for (int config = 0; config < 2; config++) {
		struct run r;

		begin(&r, &calm, &plain, config ? TXN_CONFIG : TXN_GET_TABLE, 4, 1000, 1000);
		r.prepares_ns = 5 * series_response_ns(&plain);
		go(&r);
		assert_int_equal(r.end[0].phase, TXN_DONE);
		assert_true(count(&r, 1, SERIES_KEEP_ALIVE) > 5);
		assert_int_equal(r.end[0].retries + r.end[0].out.retries, 0);
		assert_int_equal(count(&r, 0, config ? SERIES_LAST : 0), config ? 1 : 1);
		assert_true(has_answer(&r));
		end(&r);
	}
}

/* RMP-40: the same without its KeepAlives, which are lost: it is asked again each response timeout, and serves once. */
static void a_slow_sa_that_is_not_heard_is_asked_again(void **state)
{
	(void)state;
	for (int config = 0; config < 2; config++) {
		struct run r;

		begin(&r, &calm, &plain, config ? TXN_CONFIG : TXN_GET_TABLE, 4, 1000, 1000);
		r.prepares_ns = 5 * series_response_ns(&plain);
		r.drop = (struct line){ .from = 1, .flags = SERIES_KEEP_ALIVE };
		r.drops = UINT_MAX;
		go(&r);
		assert_int_equal(r.end[0].phase, TXN_DONE);
		assert_int_equal(r.end[1].phase, TXN_DONE);
		assert_int_equal(count(&r, 0, config ? SERIES_LAST : 0) - 4 * config, config ? 2 : 6);
		assert_int_equal(r.applied, config);
		assert_true(has_answer(&r));
		end(&r);
	}
}

struct gaps {
	unsigned count;
	wtime most, sum;
};

/* Between packets of one sender, while its window of 4 lets it send more. Their numbers follow each other (RMP-41). */
static struct gaps gaps_of(const struct run *r, int from)
{
	wtime before = WTIME_NEVER;
	struct gaps g = { .count = 0 };
	uint32_t segment = 0;

	for (unsigned i = 0; i < r->lines; i++) {
		const struct line *l = &r->line[i];
		bool is_first = before == WTIME_NEVER || segment % 4 == 0;
		wtime gap = r->sent_at[i] - before;

		if (l->from != from || l->flags & (SERIES_ACK | SERIES_RESEND))
			continue;
		if (l->flags != SERIES_KEEP_ALIVE)
			assert_int_equal(l->segment, ++segment);
		if (!is_first) {
			g.count++;
			g.sum += gap;
			g.most = gap > g.most ? gap : g.most;
		}
		before = r->sent_at[i];
	}
	return g;
}

/* RMP-39: a sender whose data come late says so in time, and one that has them waits for nothing. */
static void a_sender_is_never_silent_for_longer_than_is_said(void **state)
{
	/* 1048576: RespTimeValue 8 */
	static const wtime gathers[] = { 0, 300000, 1048576, 1048577, 5 * WTIME_MS, 20 * WTIME_MS };

	(void)state;
	for (size_t i = 0; i < sizeof(gathers) / sizeof(gathers[0]); i++) {
		wtime most = series_processing_ns(&plain);
		struct gaps g;
		struct run r;

		begin(&r, &calm, &plain, TXN_GET_TABLE, 4, 0, 10 * SERIES_DATA + 1);
		r.gathers_ns = gathers[i];
		go(&r);
		g = gaps_of(&r, 1);
		assert_true(has_answer(&r) && r.lines < LINES);
		assert_true(g.most <= most && g.most == (gathers[i] < most ? gathers[i] : most));
		assert_true(g.count >= 8 && g.sum <= g.count * most);
		assert_int_equal(count(&r, 0, SERIES_RESEND), 0);
		assert_true((count(&r, 1, SERIES_KEEP_ALIVE) > 0) == (gathers[i] > most));
		end(&r);
	}
}

/* RMP-09: what was said first counts for nothing; RMP-41: KeepAlives have no numbers. */
static void a_table_grows_and_shrinks_on_its_way(void **state)
{
	static const uint32_t to[] = { 1, 5 * SERIES_DATA, 5 * SERIES_DATA + 1, 10 * SERIES_DATA, 20 * SERIES_DATA - 1 };

	(void)state;
	for (int i = 0; i < 5; i++) {
		struct run r;

		begin(&r, &calm, &plain, TXN_GET_BULK, 4, 0, 10 * SERIES_DATA);
		r.change_to = to[i];
		r.change_at = 5;
		go(&r);
		assert_int_equal(r.end[0].phase, TXN_DONE);
		assert_int_equal(r.end[0].in.total, 10 * SERIES_DATA);
		assert_int_equal(r.end[0].in.bytes, to[i] < 5 * SERIES_DATA ? 5 * SERIES_DATA : to[i]);
		assert_true(has_answer(&r));
		end(&r);
	}
}

/* RMP-37, RMP-47: how often, and that it ends. */
static void retries_have_an_end(void **state)
{
	(void)state;
	for (uint8_t retries = 0; retries <= 7; retries++)
		for (int config = 0; config < 2; config++) {
			struct series_config c = plain;
			struct mad_path_config path = calm;
			struct run r;

			c.retries = retries;
			path.loss_ppm = 1000000;
			begin(&r, &path, &c, config ? TXN_CONFIG : TXN_GET_TABLE, 1, 100, 10);
			go(&r);
			assert_int_equal(r.end[0].phase, TXN_FAILED);
			assert_int_equal(r.path.sent[0], 1 + retries);
			assert_true(r.now == (1 + retries) * series_response_ns(&c) + (retries + 2u) * series_response_ns(&c));
			end(&r);
		}
}

/* RMP-53: the Ack of the last packet is lost, which comes again: as often as it is repeated. */
static void a_last_ack_is_said_again(void **state)
{
	(void)state;
	for (unsigned drops = 1; drops <= 8; drops++) {
		struct run r;

		begin(&r, &calm, &plain, TXN_GET_TABLE, 3, 0, 1400);
		r.drop = (struct line){ .from = 0, .segment = 8, .flags = SERIES_ACK };
		r.drops = drops;
		go(&r);
		assert_int_equal(r.end[0].phase, TXN_DONE);
		assert_true(has_answer(&r));
		assert_int_equal(r.end[1].phase, drops < 8 ? TXN_DONE : TXN_FAILED);
		assert_int_equal(count(&r, 1, SERIES_LAST), drops < 8 ? drops + 1 : 8);
		end(&r);
	}
}

/* RMP-47: one that never comes is asked for seven times, by whoever waits for it. */
static void a_packet_that_never_comes_ends_it(void **state)
{
	(void)state;
	for (int from = 0; from < 2; from++) {
		struct run r;

		begin(&r, &calm, &plain, from ? TXN_GET_BULK : TXN_CONFIG, 12, 12 * SERIES_DATA, from ? 12 * SERIES_DATA : 10);
		r.drop = (struct line){ .from = from, .segment = 5 };
		r.drops = UINT_MAX;
		go(&r);
		assert_int_equal(count(&r, !from, SERIES_RESEND), 7);
		for (int i = 0; i < 2; i++) {
			assert_int_equal(r.end[i].phase, TXN_FAILED);
			assert_int_equal(r.end[i].status, 0);
		}
		assert_int_equal(r.applied, 0);
		end(&r);
	}
}

/* RMP-42: as slow as is said, in windows, both ways: nothing is asked for that is on its way. */
static void the_longest_way_repeats_nothing(void **state)
{
	(void)state;
	for (int config = 0; config < 2; config++) {
		struct mad_path_config path = calm;
		struct run r;

		path.delay_ns = 4096ull << plain.subnet_timeout;
		path.each_ns = 0;
		begin(&r, &path, &plain, config ? TXN_CONFIG : TXN_GET_TABLE, 3, 150 * SERIES_DATA, 1400);
		r.prepares_ns = series_processing_ns(&plain) - 1;
		go(&r);
		for (int i = 0; i < 2; i++) {
			assert_int_equal(r.end[i].phase, TXN_DONE);
			assert_int_equal(count(&r, i, SERIES_RESEND), 0);
			assert_int_equal(r.end[i].retries + r.end[i].out.retries, 0);
		}
		assert_int_equal(count(&r, 0, 0), config ? 148 : 1);
		assert_true(has_answer(&r));
		end(&r);
	}
}

/* RMP-59 */
static void no_records_are_an_answer(void **state)
{
	struct run r;

	(void)state;
	begin(&r, &calm, &plain, TXN_GET_TABLE, 4, 0, 0);
	go(&r);
	assert_int_equal(r.end[0].phase, TXN_DONE);
	assert_int_equal(r.end[0].status, TXN_NO_RECORDS);
	assert_int_equal(r.end[0].in.bytes, 0);
	end(&r);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(vector_10_5),
		cmocka_unit_test(vector_10_5_without_segment_5),
		cmocka_unit_test(vector_10_6),
		cmocka_unit_test(times_that_others_say),
		cmocka_unit_test(vector_10_7),
		cmocka_unit_test(a_config_of_150_packets),
		cmocka_unit_test(a_config_may_be_answered_by_a_series),
		cmocka_unit_test(every_single_and_double_fault),
		cmocka_unit_test(random_runs_end_well),
		cmocka_unit_test(the_same_seed_gives_the_same_trace),
		cmocka_unit_test(a_slow_sa_keeps_its_requester_waiting),
		cmocka_unit_test(a_slow_sa_that_is_not_heard_is_asked_again),
		cmocka_unit_test(a_sender_is_never_silent_for_longer_than_is_said),
		cmocka_unit_test(a_table_grows_and_shrinks_on_its_way),
		cmocka_unit_test(retries_have_an_end),
		cmocka_unit_test(a_last_ack_is_said_again),
		cmocka_unit_test(a_packet_that_never_comes_ends_it),
		cmocka_unit_test(the_longest_way_repeats_nothing),
		cmocka_unit_test(no_records_are_an_answer),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
