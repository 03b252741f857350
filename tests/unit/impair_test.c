/* Faults on demand: what specifications mean and which are refused; and what a lane does to frames, whose numbers are their
 * contents. */
#include "impair/lanes.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>

#include <cmocka.h>

enum { FRAMES = 100000, BYTES = 64 };

/* ---- specifications ---- */

static struct impair_spec parsed(const char *text)
{
	struct impair_spec spec;
	char why[256] = "";

	if (impair_parse(text, &spec, why, sizeof(why)))
		fail_msg("%s: %s", text, why);
	return spec;
}

static void settings(void **state)
{
	struct impair_spec s = parsed("loss=5%,reorder=1%,dup=0.25%,corrupt=0.0001%,delay=50us,jitter=1.5us,rate=10Gbit,queue=7,"
				      "gap=2,hold=2ms,drop=3+7,drop-ack=100,seed=18446744073709551615");

	assert_true(s.has_seed && s.seed == UINT64_MAX);
	for (int device = 0; device < IMPAIR_DEVICES; device++) {
		const struct impair_rules *r = &s.rules[device][IMPAIR_OUT];

		assert_int_equal(r->loss_ppm, 50000);
		assert_int_equal(r->reorder_ppm, 10000);
		assert_int_equal(r->dup_ppm, 2500);
		assert_int_equal(r->corrupt_ppm, 1);
		assert_int_equal(r->delay_ns, 50000);
		assert_int_equal(r->jitter_ns, 1500);
		assert_int_equal(r->rate_bps, 10000000000);
		assert_int_equal(r->queue_frames, 7);
		assert_int_equal(r->gap_frames, 2);
		assert_int_equal(r->hold_ns, 2000000);
		assert_int_equal(r->drop[0], 3);
		assert_int_equal(r->drop[1], 7);
		assert_int_equal(r->drop[2], 0);
		assert_int_equal(r->drop_ack, 100);
		assert_false(impair_rules_act(&s.rules[device][IMPAIR_IN]));
	}
}

static void bursts_and_windows(void **state)
{
	struct impair_spec s = parsed("burst=0.1%,burst-length=20,in.burst-loss=75%,at=1.5s..2s,weft1.at=0s..7us");

	(void)state;
	assert_int_equal(s.rules[0][IMPAIR_OUT].burst_ppm, 1000);
	assert_int_equal(s.rules[0][IMPAIR_OUT].burst_frames, 20);
	assert_int_equal(s.rules[0][IMPAIR_OUT].burst_loss_ppm, 1000000);
	assert_int_equal(s.rules[0][IMPAIR_IN].burst_loss_ppm, 750000);
	assert_true(impair_rules_act(&s.rules[0][IMPAIR_OUT]));
	assert_false(impair_rules_act(&s.rules[0][IMPAIR_IN]));
	assert_int_equal(s.rules[0][IMPAIR_OUT].from_ns, 1500 * WTIME_MS);
	assert_int_equal(s.rules[0][IMPAIR_OUT].until_ns, 2 * WTIME_S);
	assert_int_equal(s.rules[1][IMPAIR_OUT].from_ns, 0);
	assert_int_equal(s.rules[1][IMPAIR_OUT].until_ns, 7000);
	assert_int_equal(s.rules[0][IMPAIR_IN].until_ns, 0);
}

static void prefixes(void **state)
{
	struct impair_spec s = parsed("loss=1%,in.loss=2%,weft1.loss=3%,in.weft0.loss=4%,out.weft0.delay=1us");

	assert_int_equal(s.rules[0][IMPAIR_OUT].loss_ppm, 10000);
	assert_int_equal(s.rules[0][IMPAIR_IN].loss_ppm, 40000);
	assert_int_equal(s.rules[1][IMPAIR_OUT].loss_ppm, 30000);
	assert_int_equal(s.rules[1][IMPAIR_IN].loss_ppm, 20000);
	assert_int_equal(s.rules[0][IMPAIR_OUT].delay_ns, 1000);
	assert_int_equal(s.rules[1][IMPAIR_OUT].delay_ns, 0);
	assert_false(s.has_seed);
}

static void each_rule_acts(void **state)
{
	static const char *const texts[] = {
		"loss=1%", "dup=1%", "reorder=1%", "corrupt=1%", "delay=1ns", "jitter=1ns", "rate=1Kbit", "drop=1", "drop-ack=1",
	};
	struct impair_spec none = parsed("loss=0%,queue=5,seed=1");

	assert_false(impair_rules_act(&none.rules[0][0]));
	for (size_t i = 0; i < sizeof(texts) / sizeof(*texts); i++) {
		struct impair_spec s = parsed(texts[i]);

		assert_true(impair_rules_act(&s.rules[0][0]));
	}
}

/* The message names the part that is wrong. */
static void refusals(void **state)
{
	static const struct { const char *text, *names; } rows[] = {
		{ "", "nothing between commas" }, { "loss=5%,", "nothing between commas" }, { "loss", "loss" },
		{ "loss=", "loss=" }, { "dup=1%,loss=101%", "loss=101%" }, { "loss=-1%", "loss=-1%" },
		{ "loss=5", "loss=5" }, { "loss=.5%", "loss=.5%" },
		{ "loss=5%%", "loss=5%%" }, { "delay=5", "delay=5" }, { "delay=11s", "delay=11s" }, { "rate=10", "rate=10" },
		{ "rate=0Gbit", "rate=0Gbit" }, { "rate=1001Gbit", "rate=1001Gbit" }, { "queue=0", "queue=0" },
		{ "queue=65537", "queue=65537" }, { "queue=1.5", "queue=1.5" },
		{ "gap=65", "gap=65" }, { "hold=0ns", "hold=0ns" },
		{ "drop=0", "drop=0" }, { "drop=3+", "drop=3+" }, { "drop=3;7", "drop=3;7" }, { "drop=99999999999", "drop=" },
		{ "drop=1+2+3+4+5+6+7+8+9+10+11+12+13+14+15+16+17", "drop=" },
		{ "drop-ack=0", "drop-ack=0" }, { "seed=", "seed=" },
		{ "seed=x", "seed=x" }, { "seed=18446744073709551616", "seed=" }, { "in.seed=1", "seed=1" }, { "los=5%", "los" },
		{ "at=1s", "at=1s" }, { "at=2s..1s", "at=2s..1s" }, { "at=1s..1s", "at=" }, { "at=1..2s", "at=" },
		{ "at=..2s", "at=" }, { "at=0s..86401s", "at=" }, { "at=1s..2s..3s", "at=" },
		{ "burst-length=0", "burst-length=0" },
		{ "at=00000000000000000000000000000001s..2s", "at=" }, { "burst=1", "burst=1" },
		{ "burst-loss=101%", "burst-loss=" },
		{ "weft16.loss=5%", "weft16" }, { ".loss=5%", ".loss" }, { "delay=99999999999999999999999s", "delay=" },
	};
	struct impair_spec s = { .seed = 77 };
	char why[256];

	for (size_t i = 0; i < sizeof(rows) / sizeof(*rows); i++) {
		why[0] = '\0';
		if (impair_parse(rows[i].text, &s, why, sizeof(why)) != -EINVAL || !strstr(why, rows[i].names))
			fail_msg("'%s' gives: %s", rows[i].text, why);
	}
	assert_int_equal(s.seed, 77);
}

/* Two devices whose frames have one form. */
static void devices_are_told_apart(void **state)
{
	struct impair_spec s = parsed("weft1.loss=3%,weft2.reorder=7%");

	(void)state;
	assert_int_equal(s.rules[1][IMPAIR_OUT].loss_ppm, 30000);
	assert_int_equal(s.rules[1][IMPAIR_OUT].reorder_ppm, 0);
	assert_int_equal(s.rules[2][IMPAIR_OUT].loss_ppm, 0);
	assert_int_equal(s.rules[2][IMPAIR_OUT].reorder_ppm, 70000);
	assert_true(impair_reorders(&s, 2));
	assert_false(impair_reorders(&s, 1) || impair_reorders(&s, 0));
	assert_int_equal(s.named, 1 << 1 | 1 << 2);
}

static void long_texts(void **state)
{
	struct impair_spec s;
	char text[2 * IMPAIR_TEXT], why[256];

	memset(text, '1', sizeof(text));
	memcpy(text, "seed=", 5);
	text[sizeof(text) - 1] = '\0';
	assert_int_equal(impair_parse(text, &s, why, sizeof(why)), -EINVAL);
	assert_non_null(strstr(why, "longer"));
}

/* ---- lanes ---- */

static struct impair_lane lane;

static void open_lane(const char *text)
{
	struct impair_spec s = parsed(text);

	assert_int_equal(impair_init(&lane, &s, 0, IMPAIR_OUT), 0);
}

static unsigned push(wtime now, uint32_t number)
{
	uint8_t frame[BYTES] = { 0 };

	memcpy(frame, &number, sizeof(number));
	return impair_push(&lane, now, PACKET_IB, frame, sizeof(frame), number + 1);
}

/* The number of the next frame, -1: nothing is due. */
static int64_t pop(wtime now)
{
	const struct impair_frame *f = impair_pop(&lane, now);

	return f ? (int64_t)f->to - 1 : -1;
}

static void without_chance_nothing_happens(void **state)
{
	open_lane("loss=0%");
	for (uint32_t i = 0; i < 5000; i++) {
		assert_int_equal(push(i, i), 0);
		assert_int_equal(pop(i), i);
		assert_int_equal(pop(i), -1);
	}
	assert_true(impair_deadline(&lane) == WTIME_NEVER);
	impair_fini(&lane);
}

/* 5 standard deviations around the expected number. */
static void rates_are_kept(void **state)
{
	static const struct { const char *text; unsigned mark, least, most; } rows[] = {
		{ "loss=5%,seed=7", IMPAIR_LOST, 4656, 5344 },
		{ "dup=1%,seed=7", IMPAIR_DUPLICATED, 843, 1157 },
		{ "reorder=2%,seed=7", IMPAIR_REORDERED, 1779, 2221 },
		{ "corrupt=0.5%,seed=7", IMPAIR_CORRUPTED, 389, 611 },
		{ "loss=100%,seed=7", IMPAIR_LOST, FRAMES, FRAMES },
	};

	for (size_t k = 0; k < sizeof(rows) / sizeof(*rows); k++) {
		unsigned hits = 0, others = 0;

		open_lane(rows[k].text);
		for (uint32_t i = 0; i < FRAMES; i++) {
			unsigned marks = push(i, i);

			hits += !!(marks & rows[k].mark);
			others += !!(marks & ~rows[k].mark);
			while (pop(i) >= 0)
				;
		}
		assert_int_equal(others, 0);
		assert_in_range(hits, rows[k].least, rows[k].most);
		impair_fini(&lane);
	}
}

/* What comes out of 20000 frames, as one number. */
static uint64_t digest(const char *text)
{
	uint64_t sum = 0;

	open_lane(text);
	for (uint32_t i = 0; i < 20000; i++) {
		const struct impair_frame *f;

		sum = sum * 31 + push(i * 100, i);
		while ((f = impair_pop(&lane, i * 100))) {
			for (unsigned k = 0; k < f->bytes; k++)
				sum = sum * 31 + f->data[k];
		}
	}
	impair_fini(&lane);
	return sum;
}

static void one_seed_one_outcome(void **state)
{
	static const char all[] = "loss=5%,reorder=2%,dup=1%,corrupt=1%,delay=1us,jitter=1us,rate=10Gbit,seed=7";
	static const char other[] = "loss=5%,reorder=2%,dup=1%,corrupt=1%,delay=1us,jitter=1us,rate=10Gbit,seed=8";

	assert_true(digest(all) == digest(all));
	assert_true(digest(all) != digest(other));
}

/* Another rule's rate leaves the choice of lost frames alone. */
static void rules_draw_apart(void **state)
{
	static unsigned char lost[2000];

	open_lane("loss=10%,seed=3");
	for (uint32_t i = 0; i < 2000; i++)
		lost[i] = push(0, i) == IMPAIR_LOST;
	impair_fini(&lane);
	open_lane("loss=10%,dup=100%,queue=65536,seed=3");
	for (uint32_t i = 0; i < 2000; i++)
		assert_int_equal(!!(push(0, i) & IMPAIR_LOST), lost[i]);
	impair_fini(&lane);
}

/* The rate of loss leaves the choice of doubled frames alone. */
static void loss_shifts_no_other_choice(void **state)
{
	static unsigned char twice[2000];
	unsigned lost = 0, doubled = 0;

	open_lane("dup=10%,queue=65536,seed=3");
	for (uint32_t i = 0; i < 2000; i++)
		twice[i] = push(0, i) == IMPAIR_DUPLICATED;
	impair_fini(&lane);
	open_lane("loss=10%,dup=10%,queue=65536,seed=3");
	for (uint32_t i = 0; i < 2000; i++) {
		unsigned marks = push(0, i);

		lost += marks == IMPAIR_LOST;
		doubled += marks == IMPAIR_DUPLICATED;
		if (marks != IMPAIR_LOST)
			assert_int_equal(marks == IMPAIR_DUPLICATED, twice[i]);
	}
	assert_in_range(lost, 130, 270);
	assert_in_range(doubled, 110, 250);
	impair_fini(&lane);
}

/* Neither the two directions of a device nor its packets' forms share their choices. */
/* The runs of frames that are lost together. */
struct runs {
	unsigned lost, runs, longest;
};

static struct runs lose(const char *text)
{
	struct runs r = { 0 };
	unsigned run = 0;

	open_lane(text);
	for (uint32_t i = 0; i < FRAMES; i++) {
		bool is_lost = push(i, i) & IMPAIR_LOST;

		run = is_lost ? run + 1 : 0;
		r.lost += is_lost;
		r.runs += run == 1;
		r.longest = run > r.longest ? run : r.longest;
		while (pop(i) >= 0)
			;
	}
	impair_fini(&lane);
	return r;
}

/* 5 standard deviations: a burst begins at every 500th frame that is in none, and has 20 on average. */
static void losses_come_in_bursts(void **state)
{
	struct runs r = lose("burst=0.2%,burst-length=20,seed=7");
	struct runs half = lose("burst=0.2%,burst-length=20,burst-loss=50%,seed=7");

	(void)state;
	assert_in_range(r.runs, 192 - 70, 192 + 70);
	assert_in_range(r.lost, 3846 - 1950, 3846 + 1950);
	assert_in_range(r.longest, 50, 400);
	/* the same bursts, of which every other frame is lost */
	assert_in_range(half.lost, r.lost * 45 / 100, r.lost * 55 / 100);
	assert_in_range(half.runs, r.runs * 4, r.runs * 6);
	/* those between them have the chance of loss= */
	assert_in_range(lose("burst=0.2%,burst-length=20,loss=5%,seed=7").lost, r.lost + 4400, r.lost + 5200);
	assert_int_equal(lose("burst=0%,burst-length=20,seed=7").lost, 0);
	assert_int_equal(lose("burst=100%,burst-length=1000000,seed=7").lost, FRAMES);
}

static void bursts_shift_no_other_choice(void **state)
{
	static bool twice[2][1000];

	(void)state;
	for (int k = 0; k < 2; k++) {
		open_lane(k ? "dup=10%,burst=5%,burst-loss=0%,seed=3" : "dup=10%,seed=3");
		for (uint32_t i = 0; i < 1000; i++) {
			twice[k][i] = push(i, i) & IMPAIR_DUPLICATED;
			while (pop(i) >= 0)
				;
		}
		impair_fini(&lane);
	}
	assert_memory_equal(twice[0], twice[1], sizeof(twice[0]));
}

/* From the lane's first frame on, whenever that comes. */
static void rules_have_their_time(void **state)
{
	const wtime first = 77 * WTIME_S;
	unsigned marks;

	(void)state;
	open_lane("loss=100%,at=2ms..4ms");
	for (uint32_t i = 0; i < 6000; i++) {
		marks = push(first + i * WTIME_US, i);
		assert_int_equal(marks, i >= 2000 && i < 4000 ? IMPAIR_LOST : 0);
		assert_int_equal(pop(first + i * WTIME_US), marks ? -1 : (int64_t)i);
	}
	impair_fini(&lane);
}

/* What comes when the rules are over does not pass what waits. */
static void the_end_of_rules_keeps_order(void **state)
{
	(void)state;
	open_lane("delay=10us,at=0s..5us,queue=10");
	assert_int_equal(push(0, 0), IMPAIR_DELAYED);
	assert_int_equal(push(4000, 1), IMPAIR_DELAYED);
	assert_int_equal(push(6000, 2), IMPAIR_DELAYED);
	assert_int_equal(pop(13999), 0);
	assert_int_equal(pop(13999), -1);
	assert_int_equal(pop(14000), 1);
	assert_int_equal(pop(14000), 2);
	assert_int_equal(push(20000, 3), 0);
	assert_int_equal(pop(20000), 3);
	impair_fini(&lane);
	/* and none is taken beyond the queue's end */
	open_lane("delay=1ms,at=0s..5us,queue=2");
	push(0, 0);
	push(1, 1);
	assert_int_equal(push(6000, 2), IMPAIR_OVERRUN);
	impair_fini(&lane);
}

static void lanes_with_one_seed_lose_different_frames(void **state)
{
	static unsigned char lost[IMPAIR_DEVICES * IMPAIR_DIRECTIONS][2000];
	struct impair_spec spec = parsed("loss=10%,in.loss=10%,seed=3");

	for (unsigned n = 0; n < IMPAIR_DEVICES * IMPAIR_DIRECTIONS; n++) {
		assert_int_equal(impair_init(&lane, &spec, n / IMPAIR_DIRECTIONS, n % IMPAIR_DIRECTIONS), 0);
		for (uint32_t i = 0; i < 2000; i++)
			lost[n][i] = push(0, i) == IMPAIR_LOST;
		impair_fini(&lane);
		for (unsigned other = 0; other < n; other++) {
			unsigned both = 0;

			for (uint32_t i = 0; i < 2000; i++)
				both += lost[n][i] && lost[other][i];
			assert_in_range(both, 1, 45);	/* of 20 that are to be expected */
		}
	}
}

static unsigned lost_of_process(uint32_t number, unsigned char lost[2000])
{
	struct impair_spec spec = parsed("loss=10%,seed=3");
	unsigned n = 0;

	impair_for_process(&spec, number);
	assert_int_equal(impair_init(&lane, &spec, 0, IMPAIR_OUT), 0);
	for (uint32_t i = 0; i < 2000; i++)
		n += lost[i] = push(0, i) == IMPAIR_LOST;
	impair_fini(&lane);
	return n;
}

/* One loses a frame where the other would lose its answer: nothing that both repeat in turn would ever arrive. */
static void processes_with_one_seed_lose_different_frames(void **state)
{
	static unsigned char first[2000], second[2000];
	unsigned both = 0;

	assert_in_range(lost_of_process(0, first), 130, 270);
	assert_in_range(lost_of_process(1, second), 130, 270);
	for (uint32_t i = 0; i < 2000; i++)
		both += first[i] && second[i];
	assert_in_range(both, 1, 45);	/* of 20 that are to be expected */
}

static void a_spoilt_frame_differs_in_one_to_three_bits(void **state)
{
	static const uint8_t clean[BYTES];
	unsigned seen = 0;

	open_lane("corrupt=100%,seed=1");
	for (uint32_t i = 0; i < 10000; i++) {
		const struct impair_frame *f;
		unsigned bits = 0;

		impair_push(&lane, 0, PACKET_IB, clean, sizeof(clean), 0);
		f = impair_pop(&lane, 0);
		for (unsigned k = 0; k < BYTES; k++)
			bits += (unsigned)__builtin_popcount(f->data[k]);
		assert_in_range(bits, 1, 3);
		seen |= 1U << bits;
	}
	assert_int_equal(seen, 0xe);
	impair_fini(&lane);
}

static void a_late_frame_comes_behind_the_next(void **state)
{
	open_lane("reorder=100%,gap=1,hold=1ms");
	assert_int_equal(push(0, 0), IMPAIR_REORDERED);
	assert_int_equal(pop(0), -1);
	assert_true(impair_deadline(&lane) == WTIME_MS);
	lane.rules.reorder_ppm = 0;
	assert_int_equal(push(5, 1), 0);
	assert_int_equal(pop(5), 1);
	assert_int_equal(pop(5), 0);
	assert_int_equal(pop(5), -1);
	impair_fini(&lane);
}

static void a_late_frame_comes_by_itself_in_the_end(void **state)
{
	open_lane("reorder=100%,hold=1ms");
	push(0, 0);
	assert_int_equal(pop(WTIME_MS - 1), -1);
	assert_int_equal(pop(WTIME_MS), 0);
	/* it is forgotten: the next one passes nothing */
	lane.rules.reorder_ppm = 0;
	push(WTIME_MS, 1);
	assert_int_equal(pop(WTIME_MS), 1);
	assert_int_equal(pop(WTIME_MS), -1);
	impair_fini(&lane);
}

static void a_late_frame_passes_at_most_gap(void **state)
{
	open_lane("reorder=100%,gap=3");
	push(0, 0);
	lane.rules.reorder_ppm = 0;
	for (uint32_t i = 1; i <= 3; i++)
		push(0, i);
	for (int i = 0; i < 4; i++)
		assert_in_range(pop(0), 0, 3);
	assert_int_equal(pop(0), -1);
	impair_fini(&lane);
}

/* One frame, two or three: each comes up. */
static void a_late_frame_passes_up_to_gap(void **state)
{
	unsigned seen = 0;

	for (uint32_t round = 0; round < 100; round++) {
		char text[64];
		unsigned passed = 0;

		snprintf(text, sizeof(text), "reorder=100%%,gap=3,seed=%u", round);
		open_lane(text);
		push(0, 0);
		lane.rules.reorder_ppm = 0;
		for (uint32_t i = 1; i <= 4; i++)
			push(0, i);
		while (pop(0) != 0)
			passed++;
		seen |= 1U << passed;
		impair_fini(&lane);
	}
	assert_int_equal(seen, 0xe);
}

static void duplicates_follow(void **state)
{
	open_lane("dup=100%");
	assert_int_equal(push(0, 0), IMPAIR_DUPLICATED);
	push(0, 1);
	assert_int_equal(pop(0), 0);
	assert_int_equal(pop(0), 0);
	assert_int_equal(pop(0), 1);
	assert_int_equal(pop(0), 1);
	impair_fini(&lane);
}

static void delay_keeps_order(void **state)
{
	wtime before = 0;

	open_lane("delay=50us,jitter=10us");
	for (uint32_t i = 0; i < 500; i++)
		assert_int_equal(push(i, i), IMPAIR_DELAYED);
	for (uint32_t i = 0; i < 500; i++) {
		wtime at = impair_deadline(&lane);

		assert_true(at >= before && at >= 50000 + i && at <= 60000 + 499);
		assert_int_equal(pop(at - 1), -1);
		assert_int_equal(pop(at), i);
		before = at;
	}
	impair_fini(&lane);
}

/* 64 bytes at 512 Mbit/s take a microsecond. */
static void rate_spaces_frames(void **state)
{
	open_lane("rate=512Mbit");
	for (uint32_t i = 0; i < 10; i++)
		push(0, i);
	for (uint32_t i = 0; i < 10; i++) {
		assert_true(impair_deadline(&lane) == (i + 1) * 1000);
		assert_int_equal(pop((i + 1) * 1000), i);
	}
	/* an idle link gathers no credit */
	push(1000000, 10);
	assert_true(impair_deadline(&lane) == 1001000);
	impair_fini(&lane);
}

static void a_full_queue_drops_the_tail(void **state)
{
	open_lane("delay=1us,queue=2");
	assert_int_equal(push(0, 0), IMPAIR_DELAYED);
	assert_int_equal(push(0, 1), IMPAIR_DELAYED);
	assert_int_equal(push(0, 2), IMPAIR_OVERRUN);
	assert_int_equal(pop(1000), 0);
	/* the frame given out does not count */
	assert_int_equal(push(1000, 3), IMPAIR_DELAYED);
	assert_int_equal(push(1000, 4), IMPAIR_OVERRUN);
	assert_int_equal(pop(2000), 1);
	assert_int_equal(pop(2000), 3);
	assert_int_equal(pop(2000), -1);
	impair_fini(&lane);
}

/* A device has faults while its packets wait for the engine, so a queue costs nothing before frames are in it. */
static void frames_that_never_wait_touch_no_memory(void **state)
{
	enum { QUEUE = 10000, PAGE = 4096, PAGES = QUEUE * sizeof(struct impair_frame) / PAGE - 1 };
	static unsigned char is_there[PAGES];
	unsigned touched = 0;
	char *at;

	open_lane("delay=1us,queue=10000");
	at = (char *)lane.pool + PAGE - (uintptr_t)lane.pool % PAGE;
	for (unsigned i = 0; i < 10 * QUEUE; i++) {
		assert_int_equal(push((wtime)i * 1000, i), IMPAIR_DELAYED);
		assert_int_equal(pop((wtime)(i + 1) * 1000), i);
	}
	assert_int_equal(mincore(at, sizeof(is_there) * PAGE, is_there), 0);
	for (unsigned i = 0; i < PAGES; i++)
		touched += is_there[i] & 1;
	assert_in_range(touched, 1, PAGES / 4);	/* large pages count as many */
	impair_fini(&lane);
}

/* ---- schedules ---- */

static unsigned push_packet(uint8_t opcode, uint32_t qpn)
{
	struct packet p = {
		.form = PACKET_IB, .path = { .slid = 1, .dlid = 2 }, .opcode = opcode, .pkey = 0xffff, .dest_qpn = qpn,
	};
	uint8_t frame[PACKET_MAX_BYTES];

	return impair_push(&lane, 0, PACKET_IB, frame, packet_build(&p, frame, sizeof(frame)), 0);
}

static void the_nth_packet_of_each_qp_is_dropped(void **state)
{
	open_lane("drop=3+7");
	for (unsigned n = 1; n <= 10; n++) {
		for (uint32_t qpn = 16; qpn < 48; qpn++)
			assert_int_equal(push_packet(OPCODE_RC_SEND_ONLY, qpn), n == 3 || n == 7 ? IMPAIR_SCHEDULED : 0);
	}
	impair_fini(&lane);
}

static void qps_beyond_the_table_lose_nothing(void **state)
{
	open_lane("drop=1,queue=65536");
	for (uint32_t qpn = 0; qpn < IMPAIR_QPS + 10; qpn++)
		assert_int_equal(push_packet(OPCODE_RC_SEND_ONLY, qpn), qpn < IMPAIR_QPS ? IMPAIR_SCHEDULED : 0);
	impair_fini(&lane);
}

static void every_nth_acknowledgement_is_dropped(void **state)
{
	open_lane("drop-ack=100,queue=65536");
	for (unsigned n = 1; n <= 1000; n++) {
		assert_int_equal(push_packet(n % 2 ? OPCODE_RC_ACKNOWLEDGE : OPCODE_RC_ATOMIC_ACKNOWLEDGE, n % 7),
				 n % 100 ? 0 : IMPAIR_SCHEDULED);
		assert_int_equal(push_packet(OPCODE_RC_SEND_ONLY, 5), 0);
	}
	impair_fini(&lane);
}

/* The earliest frame of any lane is due first, and a lane is where rules are. */
static void each_device_and_direction_has_its_lane(void **state)
{
	static struct impair_lanes lanes;
	struct impair_spec s = parsed("weft0.out.delay=9ms,weft1.in.delay=2ms");
	static const uint8_t frame[BYTES];

	assert_int_equal(impair_lanes_init(&lanes, &s), 0);
	for (unsigned device = 0; device < IMPAIR_DEVICES; device++) {
		assert_int_equal(!!impair_lane(&lanes, device, IMPAIR_OUT), device == 0);
		assert_int_equal(!!impair_lane(&lanes, device, IMPAIR_IN), device == 1);
	}
	assert_true(impair_lanes_deadline(&lanes) == WTIME_NEVER);
	impair_push(impair_lane(&lanes, 0, IMPAIR_OUT), 0, PACKET_IB, frame, sizeof(frame), 1);
	assert_true(impair_lanes_deadline(&lanes) == 9 * WTIME_MS);
	impair_push(impair_lane(&lanes, 1, IMPAIR_IN), 0, PACKET_IB, frame, sizeof(frame), 1);
	assert_true(impair_lanes_deadline(&lanes) == 2 * WTIME_MS);
	impair_lanes_fini(&lanes);
	assert_null(impair_lane(&lanes, 0, IMPAIR_OUT));
	impair_lanes_fini(&lanes);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(settings),
		cmocka_unit_test(bursts_and_windows),
		cmocka_unit_test(prefixes),
		cmocka_unit_test(each_rule_acts),
		cmocka_unit_test(refusals),
		cmocka_unit_test(devices_are_told_apart),
		cmocka_unit_test(long_texts),
		cmocka_unit_test(without_chance_nothing_happens),
		cmocka_unit_test(rates_are_kept),
		cmocka_unit_test(one_seed_one_outcome),
		cmocka_unit_test(rules_draw_apart),
		cmocka_unit_test(loss_shifts_no_other_choice),
		cmocka_unit_test(losses_come_in_bursts),
		cmocka_unit_test(bursts_shift_no_other_choice),
		cmocka_unit_test(rules_have_their_time),
		cmocka_unit_test(the_end_of_rules_keeps_order),
		cmocka_unit_test(lanes_with_one_seed_lose_different_frames),
		cmocka_unit_test(processes_with_one_seed_lose_different_frames),
		cmocka_unit_test(a_spoilt_frame_differs_in_one_to_three_bits),
		cmocka_unit_test(a_late_frame_comes_behind_the_next),
		cmocka_unit_test(a_late_frame_comes_by_itself_in_the_end),
		cmocka_unit_test(a_late_frame_passes_at_most_gap),
		cmocka_unit_test(a_late_frame_passes_up_to_gap),
		cmocka_unit_test(duplicates_follow),
		cmocka_unit_test(delay_keeps_order),
		cmocka_unit_test(rate_spaces_frames),
		cmocka_unit_test(a_full_queue_drops_the_tail),
		cmocka_unit_test(frames_that_never_wait_touch_no_memory),
		cmocka_unit_test(the_nth_packet_of_each_qp_is_dropped),
		cmocka_unit_test(qps_beyond_the_table_lose_nothing),
		cmocka_unit_test(every_nth_acknowledgement_is_dropped),
		cmocka_unit_test(each_device_and_direction_has_its_lane),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
