/* The reliable multi-packet protocol over a bad path in virtual time: whatever is lost, repeated, swapped or late, a
 * transfer ends whole and exact on both sides, or both sides know that it did not. */
#include "fault_sweep.h"
#include "rmpp_run.h"

enum { SEGMENTS = 10 };

static const struct rmpp_config quick = { .window = 4, .flight_ns = WTIME_MS, .ack_ns = 10 * WTIME_MS };

/* May both sides have ended so? A sender may have failed though all came: its last ACKs were lost. */
static void check_end(const struct run *r, const char *what, uint64_t which)
{
	bool is_good = (r->in == RMPP_DONE && is_exact(r) && (r->out == RMPP_DONE || r->send.status)) ||
		       (r->in == RMPP_FAILED && r->out == RMPP_FAILED && r->send.status && r->recv.status) ||
		       (r->in == RMPP_GOES_ON && !r->recv.last && r->out == RMPP_FAILED);

	if (!is_good)
		fail_msg("%s %lu: sender %d (%u), receiver %d (%u), %u bytes", what, (unsigned long)which, r->out, r->send.status,
			 r->in, r->recv.status, r->recv.bytes);
}

enum kind { AT_HAND, MADE_MEANWHILE, KINDS };

static void run_faults(const struct mad_path_config *path, int kind)
{
	struct run r;

	begin(&r, path, &quick, OFFSET + ROOM * (SEGMENTS - 1) + 77);
	if (kind == MADE_MEANWHILE)
		make_it(&r, &quick, OFFSET + 250, 333);
	go(&r);
	check_end(&r, "faults at", (uint64_t)path->fault_at[0] << 32 | (uint64_t)path->fault_at[1]);
	sweep_check(&r.path);
	/* an ACK that is old is no news */
	if (sweep_is_copy_alone(path) && r.path.overtaken[1])
		assert_int_equal(r.path.sent[0], SEGMENTS);
	/* two faults are few: all comes */
	assert_int_equal(r.in, RMPP_DONE);
	assert_int_equal(r.out, RMPP_DONE);
	end(&r);
}

static void every_single_and_double_fault(void **state)
{
	const struct fault_sweep sweep = { .kinds = KINDS, .datagrams = 20, .hold_ns = 15 * WTIME_MS,
					   .late_ns = { 3 * WTIME_MS, 15 * WTIME_MS }, .run = run_faults };

	(void)state;
	sweep_faults(&sweep);
}

static void seeded(uint64_t seed, struct run *r)
{
	struct mad_path_config path = { .seed = seed, .each_ns = 1000 };
	struct rmpp_config config = quick;
	struct rand rand;

	rand_seed(&rand, seed);
	path.delay_ns = 1 + rand_below(&rand, 3 * WTIME_MS);
	path.loss_ppm = (uint32_t)rand_below(&rand, 500000);
	path.repeat_ppm = (uint32_t)rand_below(&rand, 300000);
	path.swap_ppm = (uint32_t)rand_below(&rand, 300000);
	path.hold_ns = rand_below(&rand, 100 * WTIME_MS);
	path.late_ns = rand_below(&rand, 100 * WTIME_MS);
	config.window = (uint32_t)(1 + rand_below(&rand, 40));
	begin(r, &path, &config, OFFSET + (uint32_t)rand_below(&rand, ROOM * 60));
	/* every other one is made while it is sent */
	if (seed & 1)
		make_it(r, &config, OFFSET + (uint32_t)rand_below(&rand, r->bytes - OFFSET + 1),
			1 + (uint32_t)rand_below(&rand, 2000));
	go(r);
	if (r->out == RMPP_DONE)
		assert_int_equal(r->ends, seed & 1);
}

static enum mad_given give_nothing(struct mad_source *s, uint8_t *to, uint32_t room, uint32_t *bytes)
{
	(void)s;
	(void)to;
	(void)room;
	*bytes = 0;
	return MAD_GIVES_UP;
}

/* What is at hand has moved to where there is room for more, which does not come: the end is said by what is there now. */
static void who_gives_up_has_a_head(void **state)
{
	const struct mad_path_config path = { .delay_ns = 1000 };
	uint8_t last[MAD_BYTES];
	struct run r;

	(void)state;
	begin(&r, &path, &quick, OFFSET + ROOM * SEGMENTS);
	make_it(&r, &quick, OFFSET, UINT32_MAX);
	r.source.give = give_nothing;
	mad_flow_fill(&r.flow, &r.send, &r.at_hand);
	assert_true(r.flow.gave_up);
	assert_int_equal(r.flow.room, MAD_AT_HAND_BYTES);
	assert_ptr_equal(r.send.data, r.at_hand);
	rmpp_send_abort(&r.send, RMPP_UNSPECIFIED, last);
	assert_memory_equal(last, r.data, 24);
	end(&r);
}

/* 100,000 segments by a window of any width: no more is in memory than two windows have, and each byte comes once. */
static void what_is_made_while_it_is_sent_is_not_kept(void **state)
{
	enum { SEGMENTS_SENT = 100000 };

	(void)state;
	for (uint32_t window = 1; window <= RMPP_WINDOW_MOST; window *= 32) {
		const struct mad_path_config path = { .delay_ns = 10000, .each_ns = 205, .loss_ppm = 10000, .seed = window };
		const struct rmpp_config config = { .window = window, .soonest_ns = WTIME_MS / 2 };
		struct run r;

		begin(&r, &path, &config, OFFSET + ROOM * SEGMENTS_SENT + 1);
		make_it(&r, &config, OFFSET + 100 * ROOM * 32, UINT32_MAX);
		go(&r);
		assert_int_equal(r.out, RMPP_DONE);
		assert_true(is_exact(&r));
		assert_int_equal(r.flow.room, MAD_AT_HAND_BYTES);
		end(&r);
	}
}

/* In a wide window that loses much the ACK of the last segment comes after a timeout each time. How long ACKs take is learnt all
 * the same, also where the first one was lost. */
static void a_wide_window_that_loses_much_is_not_slow(void **state)
{
	enum { SEGMENTS_SENT = 8 * RMPP_WINDOW_MOST, RUNS = 24 };
	const struct rmpp_config wide = { .window = RMPP_WINDOW_MOST, .soonest_ns = WTIME_MS / 2 };
	wtime slowest = 0;

	(void)state;
	for (uint64_t seed = 1; seed <= RUNS; seed++) {
		const struct mad_path_config path = { .delay_ns = 10000, .each_ns = 205, .loss_ppm = 100000, .seed = seed };
		struct run r;

		begin(&r, &path, &wide, OFFSET + ROOM * SEGMENTS_SENT);
		go(&r);
		assert_int_equal(r.out, RMPP_DONE);
		assert_true(is_exact(&r));
		slowest = r.now > slowest ? r.now : slowest;
		end(&r);
	}
	print_message("the slowest of %d took %lu ms\n", RUNS, (unsigned long)(slowest / WTIME_MS));
	assert_true(slowest < 8 * RMPP_ACK_NS);
}

static void random_runs_end_well(void **state)
{
	unsigned whole = 0;

	(void)state;
	for (uint64_t seed = 0; seed < 100000; seed++) {
		struct run r;

		seeded(seed, &r);
		check_end(&r, "seed", seed);
		whole += r.out == RMPP_DONE;
		end(&r);
	}
	/* as every wait has eight tries */
	assert_true(whole > 90000);
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

static void what_is_lost_alone_goes_again(void **state)
{
	const struct mad_path_config path = { .delay_ns = WTIME_MS, .each_ns = 1000, .fault_at = { 40, 50 },
					      .fault = { MAD_DROPPED, MAD_DROPPED } };
	const struct rmpp_config config = { .window = 64, .ack_ns = WTIME_S };
	struct run r;

	(void)state;
	begin(&r, &path, &config, OFFSET + ROOM * 129);
	go(&r);
	assert_int_equal(r.out, RMPP_DONE);
	assert_int_equal(r.path.sent[0], 129 + 2);
	assert_true(r.now < 100 * WTIME_MS);
	end(&r);
}

/* Nobody hears the sender: it says so eight times, and then that it gives up. */
static void a_sender_that_is_not_heard_gives_up(void **state)
{
	const struct mad_path_config path = { .delay_ns = 1, .loss_ppm = 1000000 };
	struct run r;

	(void)state;
	begin(&r, &path, &quick, OFFSET + ROOM);
	go(&r);
	assert_int_equal(r.out, RMPP_FAILED);
	assert_int_equal(r.send.status, RMPP_RETRIES_OVER);
	assert_int_equal(r.path.sent[0], RMPP_RETRIES + 2);
	/* each wait is twice the last one */
	assert_int_equal(r.now, ((1 << (RMPP_RETRIES + 1)) - 1) * quick.ack_ns);
	end(&r);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(every_single_and_double_fault), cmocka_unit_test(what_is_made_while_it_is_sent_is_not_kept),
		cmocka_unit_test(who_gives_up_has_a_head),
		cmocka_unit_test(a_wide_window_that_loses_much_is_not_slow),
		cmocka_unit_test(random_runs_end_well),
		cmocka_unit_test(the_same_seed_gives_the_same_trace),
		cmocka_unit_test(what_is_lost_alone_goes_again),
		cmocka_unit_test(a_sender_that_is_not_heard_gives_up),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
