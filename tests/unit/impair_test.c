/* Faults on demand: what specifications mean and which are refused; and what a lane does to frames, whose numbers are their
 * contents. */
#include "link/impair.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

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
	for (int form = 0; form < IMPAIR_FORMS; form++) {
		const struct impair_rules *r = &s.rules[form][IMPAIR_OUT];

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
		assert_false(impair_rules_act(&s.rules[form][IMPAIR_IN]));
	}
}

static void prefixes(void **state)
{
	struct impair_spec s = parsed("loss=1%,in.loss=2%,weft1.loss=3%,in.weft0.loss=4%,out.weft0.delay=1us");

	assert_int_equal(s.rules[PACKET_IB][IMPAIR_OUT].loss_ppm, 10000);
	assert_int_equal(s.rules[PACKET_IB][IMPAIR_IN].loss_ppm, 40000);
	assert_int_equal(s.rules[PACKET_ROCE][IMPAIR_OUT].loss_ppm, 30000);
	assert_int_equal(s.rules[PACKET_ROCE][IMPAIR_IN].loss_ppm, 20000);
	assert_int_equal(s.rules[PACKET_IB][IMPAIR_OUT].delay_ns, 1000);
	assert_int_equal(s.rules[PACKET_ROCE][IMPAIR_OUT].delay_ns, 0);
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
		{ "weft2.loss=5%", "weft2" }, { ".loss=5%", ".loss" }, { "delay=99999999999999999999999s", "delay=" },
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

	assert_int_equal(impair_init(&lane, &s, PACKET_IB, IMPAIR_OUT), 0);
}

static unsigned push(wtime now, uint32_t number)
{
	uint8_t frame[BYTES] = { 0 };

	memcpy(frame, &number, sizeof(number));
	return impair_push(&lane, now, frame, sizeof(frame), number + 1);
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

static unsigned lost_of_process(uint32_t number, unsigned char lost[2000])
{
	struct impair_spec spec = parsed("loss=10%,seed=3");
	unsigned n = 0;

	impair_for_process(&spec, number);
	assert_int_equal(impair_init(&lane, &spec, PACKET_IB, IMPAIR_OUT), 0);
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

		impair_push(&lane, 0, clean, sizeof(clean), 0);
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

/* ---- schedules ---- */

static unsigned push_packet(uint8_t opcode, uint32_t qpn)
{
	struct packet p = {
		.form = PACKET_IB, .path = { .slid = 1, .dlid = 2 }, .opcode = opcode, .pkey = 0xffff, .dest_qpn = qpn,
	};
	uint8_t frame[PACKET_MAX_BYTES];

	return impair_push(&lane, 0, frame, packet_build(&p, frame, sizeof(frame)), 0);
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

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(settings),
		cmocka_unit_test(prefixes),
		cmocka_unit_test(each_rule_acts),
		cmocka_unit_test(refusals),
		cmocka_unit_test(long_texts),
		cmocka_unit_test(without_chance_nothing_happens),
		cmocka_unit_test(rates_are_kept),
		cmocka_unit_test(one_seed_one_outcome),
		cmocka_unit_test(rules_draw_apart),
		cmocka_unit_test(processes_with_one_seed_lose_different_frames),
		cmocka_unit_test(a_spoilt_frame_differs_in_one_to_three_bits),
		cmocka_unit_test(a_late_frame_comes_behind_the_next),
		cmocka_unit_test(a_late_frame_comes_by_itself_in_the_end),
		cmocka_unit_test(a_late_frame_passes_at_most_gap),
		cmocka_unit_test(duplicates_follow),
		cmocka_unit_test(delay_keeps_order),
		cmocka_unit_test(rate_spaces_frames),
		cmocka_unit_test(a_full_queue_drops_the_tail),
		cmocka_unit_test(the_nth_packet_of_each_qp_is_dropped),
		cmocka_unit_test(qps_beyond_the_table_lose_nothing),
		cmocka_unit_test(every_nth_acknowledgement_is_dropped),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
