/* Links that lose or slow what passes: who loses what, when it arrives, and what ports count. */
#include "fabric.h"

#include "agents/port_counters.h"
#include "fabric/passage.h"
#include "fabric/speed.h"
#include "fabric/route.h"

enum { WORDS = 300, MILLION = 1000000 };

struct world {
	struct test_fabric t;
	struct traffic_block *all;
	struct traffic_way there, back;
	uint32_t h1, s1;		/* the ends of the first link */
};

static void make_way(struct world *w, const char *from, const char *to, struct traffic_way *way)
{
	struct walk_packet p = { .from = port_named(&w->t.f, from, 1), .dlid = w->t.f.port[port_named(&w->t.f, to, 1)].lid,
				 .pkey = 0xffff, .switches = SWITCHES_MOST };
	struct walk_route r;

	assert_int_equal(fabric_walk(&w->t.f, &p, &r), WALK_DELIVERED);
	traffic_way_set(way, &w->t.f, &r);
}

static void start(struct world *w)
{
	*w = (struct world){ .all = NULL };
	MAKE(&w->t, "line", "switches=2");
	assert_int_equal(fabric_route(&w->t.f, ROUTE_MIN_HOP), 0);
	fabric_activate(&w->t.f);
	w->all = calloc(1, traffic_bytes(&w->t.f));
	assert_non_null(w->all);
	make_way(w, "h1", "h2", &w->there);
	make_way(w, "h2", "h1", &w->back);
	w->h1 = w->there.out[0];
	w->s1 = w->t.f.port[w->h1].peer;
}

static void end(struct world *w)
{
	end_fabric(&w->t);
	free(w->all);
}

static uint64_t total(const struct world *w, uint32_t port, enum port_count c)
{
	struct port_counters none = { 0 };
	struct port_view v = { .fabric = &w->t.f, .counters = &none, .traffic = w->all, .port = port };

	return port_counters_total(&v, c);
}

static bool take(struct world *w, struct passage *p, uint32_t process, wtime now, wtime *due)
{
	return passage_take(p, &w->t.f, w->all, &w->there, process, now, WORDS, due);
}

static void a_fault_is_of_both_directions_until_it_ends(void **state)
{
	struct world w;

	(void)state;
	start(&w);
	assert_false(fabric_has_faults(&w.t.f) || passage_has_faults(&w.t.f, &w.there));
	fabric_set_fault(&w.t.f, w.s1, 10, 0, 7);
	assert_true(fabric_has_faults(&w.t.f) && passage_has_faults(&w.t.f, &w.there) && passage_has_faults(&w.t.f, &w.back));
	fabric_set_fault(&w.t.f, w.h1, 0, 5, 7);
	assert_true(fabric_has_faults(&w.t.f) && passage_has_faults(&w.t.f, &w.there));
	fabric_set_fault(&w.t.f, w.h1, 0, 0, 0);
	assert_false(fabric_has_faults(&w.t.f) || passage_has_faults(&w.t.f, &w.there) || passage_has_faults(&w.t.f, &w.back));
	end(&w);
}

/* Which of the first 64 packets are lost, as bits. */
static uint64_t draw(struct world *w, uint32_t process)
{
	struct passage *p = calloc(1, sizeof(*p));
	uint64_t lost = 0;
	wtime due;

	assert_non_null(p);
	for (unsigned i = 0; i < 64; i++)
		lost |= (uint64_t)!take(w, p, process, 1, &due) << i;
	free(p);
	return lost;
}

static void the_same_seed_loses_the_same_packets(void **state)
{
	struct world w;
	uint64_t first, other;

	(void)state;
	start(&w);
	fabric_set_fault(&w.t.f, w.h1, MILLION / 2, 0, 7);
	first = draw(&w, 1);
	assert_true(first && ~first);
	assert_int_equal(draw(&w, 1), first);
	assert_int_not_equal(draw(&w, 2), first);
	fabric_set_fault(&w.t.f, w.h1, MILLION / 2, 0, 8);
	other = draw(&w, 1);
	assert_int_not_equal(other, first);
	end(&w);
}

/* Which of 32 packets the link of this port loses, while another one loses as many. */
static uint32_t draw_beside(const struct fabric *f, uint32_t port, uint32_t other)
{
	struct passage *p = calloc(1, sizeof(*p));
	uint32_t lost = 0;

	assert_non_null(p);
	for (unsigned i = 0; i < 32; i++) {
		if (other != PORT_NONE)
			passage_loses(p, f, other, 1);
		lost |= (uint32_t)passage_loses(p, f, port, 1) << i;
	}
	free(p);
	return lost;
}

static void each_link_draws_by_itself(void **state)
{
	struct test_fabric t;
	uint32_t port = 1, alone;

	(void)state;
	MAKE(&t, "star", "hosts=200");
	for (uint32_t i = 0; i < t.f.ports; i++)
		if (fabric_peer(&t.f, i) != PORT_NONE && !fabric_is_switch(&t.f, t.f.owner[i]))
			fabric_set_fault(&t.f, i, MILLION / 2, 0, 7);
	while (!t.f.port[port].loss_ppm || port + PASSAGE_LINKS >= t.f.ports || !t.f.port[port + PASSAGE_LINKS].loss_ppm)
		port++;
	alone = draw_beside(&t.f, port, PORT_NONE);
	assert_true(alone && ~alone);
	assert_int_equal(draw_beside(&t.f, port, port + PASSAGE_LINKS), alone);
	assert_int_equal(draw_beside(&t.f, port + PASSAGE_LINKS, port), draw_beside(&t.f, port + PASSAGE_LINKS, PORT_NONE));
	end_fabric(&t);
}

/* 16.1.3.5: what is spoilt was sent and not received, and goes no further. */
static void ports_count_what_a_link_loses(void **state)
{
	struct passage p = { 0 };
	struct world w;
	unsigned lost = 0;
	wtime due;

	(void)state;
	start(&w);
	fabric_set_fault(&w.t.f, w.h1, MILLION / 4, 0, 7);
	for (unsigned i = 0; i < 1000; i++) {
		due = 0;
		if (take(&w, &p, 1, 5, &due))
			assert_int_equal(due, 5);
		else
			lost++;
	}
	assert_in_range(lost, 150, 350);
	assert_int_equal(total(&w, w.h1, COUNT_XMIT_PKTS), 1000);
	assert_int_equal(total(&w, w.h1, COUNT_XMIT_DATA), 1000 * WORDS);
	assert_int_equal(total(&w, w.s1, COUNT_SYMBOL_ERRORS), lost);
	assert_int_equal(total(&w, w.s1, COUNT_RCV_ERRORS), lost);
	assert_int_equal(total(&w, w.s1, COUNT_RCV_PKTS), 1000 - lost);
	assert_int_equal(total(&w, w.s1, COUNT_RCV_DATA), (1000 - lost) * WORDS);
	assert_int_equal(total(&w, w.there.out[1], COUNT_XMIT_PKTS), 1000 - lost);
	assert_int_equal(total(&w, w.there.out[2], COUNT_XMIT_PKTS), 1000 - lost);
	fabric_set_fault(&w.t.f, w.h1, MILLION, 0, 7);
	assert_false(take(&w, &p, 1, 5, &due));
	end(&w);
}

/* 1200 bytes take 96 us at 100 Mbit/s, whoever sends them. */
static void a_slow_link_serves_one_packet_after_another(void **state)
{
	struct passage a = { 0 }, b = { 0 };
	struct world w;
	wtime due;

	(void)state;
	start(&w);
	fabric_set_fault(&w.t.f, w.there.out[1], 0, 100000, 0);
	assert_true(take(&w, &a, 1, 1000, &due));
	assert_int_equal(due, 1000 + 96 * WTIME_US);
	assert_true(take(&w, &b, 2, 1000, &due));
	assert_int_equal(due, 1000 + 192 * WTIME_US);
	assert_int_equal(total(&w, w.there.out[1], COUNT_XMIT_WAIT), 1);
	/* the other direction is idle, and so is this one later */
	assert_true(passage_take(&a, &w.t.f, w.all, &w.back, 1, 1000, WORDS, &due));
	assert_int_equal(due, 1000 + 96 * WTIME_US);
	assert_true(take(&w, &a, 1, WTIME_S, &due));
	assert_int_equal(due, WTIME_S + 96 * WTIME_US);
	end(&w);
}

static void a_queue_ends_and_nonsense_holds_nobody_up(void **state)
{
	struct passage p = { 0 };
	struct world w;
	unsigned sent = 0;
	wtime due;

	(void)state;
	start(&w);
	fabric_set_fault(&w.t.f, w.h1, 0, 100000, 0);
	while (take(&w, &p, 1, 1, &due))
		sent++;
	assert_in_range(sent, 1000, 1100);	/* 100 ms of 96 us each */
	assert_int_equal(total(&w, w.h1, COUNT_XMIT_DISCARDS), 1);
	assert_int_equal(total(&w, w.h1, COUNT_XMIT_PKTS), sent);
	atomic_store(&w.all[w.h1].busy_until, UINT64_MAX);
	atomic_store(&w.all[w.h1].lane_until[0], UINT64_MAX);
	assert_true(take(&w, &p, 1, 1, &due));
	assert_int_equal(due, 1 + 96 * WTIME_US);
	end(&w);
}

/* 2 Gbit/s of 2.5, as 8 of 10 bits are data. */
static void a_link_with_a_rate_carries_what_its_width_and_speed_say(void **state)
{
	struct passage p = { 0 };
	struct world w;
	wtime due;

	(void)state;
	start(&w);
	w.t.f.port[w.h1].width = WIDTH_1X;
	w.t.f.port[w.h1].speed = SPEED_SDR;
	assert_int_equal(fabric_rate(&w.t.f, w.h1), 0);
	assert_false(fabric_has_faults(&w.t.f));
	assert_false(passage_has_faults(&w.t.f, &w.there));
	w.t.f.head->rated = 1;
	assert_true(fabric_has_faults(&w.t.f));
	assert_true(passage_has_faults(&w.t.f, &w.there));
	assert_int_equal(fabric_rate(&w.t.f, w.h1), 2000000);
	w.t.f.port[w.h1].width = WIDTH_4X;
	assert_int_equal(fabric_rate(&w.t.f, w.h1), 8000000);
	w.t.f.port[w.h1].speed = SPEED_QDR;
	assert_int_equal(fabric_rate(&w.t.f, w.h1), 32000000);
	w.t.f.port[w.h1].width = WIDTH_12X;
	w.t.f.port[w.h1].speed = SPEED_XDR;
	assert_int_equal(fabric_rate(&w.t.f, w.h1), 2400000000u);
	/* the slower of both */
	fabric_set_fault(&w.t.f, w.h1, 0, 100000, 0);
	assert_int_equal(fabric_rate(&w.t.f, w.h1), 100000);
	w.t.f.port[w.h1].width = WIDTH_1X;
	w.t.f.port[w.h1].speed = SPEED_SDR;
	fabric_set_fault(&w.t.f, w.h1, 0, 5000000, 0);
	assert_int_equal(fabric_rate(&w.t.f, w.h1), 2000000);
	/* all links of the way take their time */
	for (uint32_t i = 1; i < w.there.links; i++) {
		w.t.f.port[w.there.out[i]].width = WIDTH_1X;
		w.t.f.port[w.there.out[i]].speed = SPEED_SDR;
	}
	assert_true(take(&w, &p, 1, 1000, &due));
	assert_int_equal(due, 1000 + w.there.links * (WORDS * 32ull * WTIME_MS / 2000000));
	end(&w);
}

/* A sender of packets of a service level, so many of them under way: what it sends next leaves when its first one is there. */
struct sender {
	struct traffic_way way;
	uint64_t words, sent, bytes;
	wtime due[64];
	unsigned window;
	wtime first, last;		/* it sends between these alone */
};

static void add_sender(struct world *w, struct sender *s, uint8_t sl, unsigned window, uint64_t words)
{
	struct walk_packet p = { .from = w->h1, .dlid = w->t.f.port[port_named(&w->t.f, "h2", 1)].lid, .pkey = 0xffff,
				 .switches = SWITCHES_MOST, .sl = sl };
	struct walk_route r;

	assert_int_equal(fabric_walk(&w->t.f, &p, &r), WALK_DELIVERED);
	*s = (struct sender){ .words = words, .window = window, .last = WTIME_NEVER };
	traffic_way_set(&s->way, &w->t.f, &r);
}

/* Until then. What is there within a second counts. */
static void let_send(struct world *w, struct sender *s, unsigned senders, wtime ends)
{
	struct passage p = { 0 };

	for (;;) {
		struct sender *next = NULL;
		wtime at = ends, due;

		for (unsigned i = 0; i < senders; i++) {
			wtime free = s[i].due[s[i].sent % s[i].window];

			free = free > s[i].first ? free : s[i].first;
			if (free < at && free < s[i].last) {
				at = free;
				next = &s[i];
			}
		}
		if (!next)
			return;
		/* monotonic clocks do not begin at 0 */
		if (passage_take(&p, &w->t.f, w->all, &next->way, 1, WTIME_S + at, next->words, &due)) {
			due -= WTIME_S;
			next->bytes += due <= WTIME_S ? next->words * 4 : 0;
		} else {
			due = at + WTIME_MS;
		}
		next->due[next->sent++ % next->window] = due;
	}
}

/* What the port that sends over the slow link arbitrates by: low and high entries for two lanes. */
static void set_weights(struct world *w, uint8_t limit, const uint8_t high[2], const uint8_t low[2])
{
	struct fabric_vlarb *arb = fabric_vlarb(&w->t.f, w->there.out[1]);

	memset(arb, 0, FABRIC_VLARB * sizeof(*arb));
	w->t.f.port[w->there.out[1]].vl_high_limit = limit;
	for (unsigned i = 0; i < 2; i++) {
		/* more than one entry of a lane adds up */
		arb[i] = (struct fabric_vlarb){ (uint8_t)(2 + i), high[i] };
		arb[FABRIC_VLARB / 2 + i] = (struct fabric_vlarb){ (uint8_t)(2 + i), (uint8_t)(low[i] / 2) };
		arb[FABRIC_VLARB / 2 + 9 + i] = (struct fabric_vlarb){ (uint8_t)(2 + i), (uint8_t)(low[i] - low[i] / 2) };
	}
}

/* 7.6.9.2: what each of two levels gets of a link of 100 Mbit/s in a second, in thousandths. */
static void lanes_share_a_slow_link_by_their_weights(void **state)
{
	enum { KBPS = 100000, SMALL = 125, LARGE = 1000 };
	static const struct {
		uint8_t limit, high[2], low[2];
		uint64_t words[2];
		unsigned window[2], first_gets;
	} rows[] = {
		{ 0, { 0, 0 }, { 3, 1 }, { SMALL, SMALL }, { 8, 8 }, 750 },
		{ 0, { 0, 0 }, { 3, 1 }, { LARGE, SMALL }, { 8, 32 }, 750 },
		{ 0, { 0, 0 }, { 255, 1 }, { SMALL, SMALL }, { 8, 8 }, 996 },
		{ 0, { 0, 0 }, { 1, 1 }, { SMALL, SMALL }, { 64, 4 }, 500 },
		{ 9, { 4, 12 }, { 0, 0 }, { SMALL, SMALL }, { 8, 8 }, 250 },
		/* a packet of each in turn, and as many bytes as the limit says for each packet */
		{ 0, { 4, 0 }, { 0, 4 }, { SMALL, SMALL }, { 8, 8 }, 500 },
		{ 1, { 4, 0 }, { 0, 4 }, { SMALL, SMALL }, { 8, 8 }, 891 },
		{ 255, { 4, 0 }, { 0, 4 }, { SMALL, SMALL }, { 8, 8 }, 1000 },
		/* a lane of both tables, and none of any */
		{ 0, { 4, 0 }, { 1, 1 }, { SMALL, SMALL }, { 8, 8 }, 750 },
		{ 0, { 0, 0 }, { 0, 0 }, { SMALL, SMALL }, { 8, 32 }, 500 },
	};

	(void)state;
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		struct sender s[2];
		struct world w;
		uint64_t all;

		start(&w);
		fabric_set_fault(&w.t.f, w.there.out[1], 0, KBPS, 0);
		set_weights(&w, rows[i].limit, rows[i].high, rows[i].low);
		for (unsigned k = 0; k < 2; k++)
			add_sender(&w, &s[k], (uint8_t)(2 + k), rows[i].window[k], rows[i].words[k]);
		let_send(&w, s, 2, WTIME_S);
		all = s[0].bytes + s[1].bytes;
		print_message("row %zu: %lu of 1000 of %lu KB\n", i, (unsigned long)(s[0].bytes * 1000 / all),
			      (unsigned long)(all / 1000));
		assert_in_range(s[0].bytes * 1000 / all, rows[i].first_gets > 15 ? rows[i].first_gets - 15 : 0,
				rows[i].first_gets + 15);
		/* no more than the link carries, and no less */
		assert_in_range(all, KBPS * 125ull * 98 / 100, KBPS * 125ull * 101 / 100);
		end(&w);
	}
}

/* A slow link whose two lanes have equal weights. */
static void start_even(struct world *w, uint32_t kbps)
{
	start(w);
	fabric_set_fault(&w->t.f, w->there.out[1], 0, kbps, 0);
	set_weights(w, 0, (const uint8_t[]){ 0, 0 }, (const uint8_t[]){ 1, 1 });
}

/* Nobody waits for a lane that has nothing to send, and what it sends now and then is no bonus for the others. */
static void an_idle_lane_takes_nothing(void **state)
{
	enum { KBPS = 100000, WORDS_EACH = 125, OF_OTHER = 10 };
	struct sender s[2];
	struct world w;
	uint64_t alone;

	(void)state;
	start_even(&w, KBPS);
	add_sender(&w, &s[0], 2, 8, WORDS_EACH);
	let_send(&w, s, 1, WTIME_S);
	alone = s[0].bytes;
	assert_in_range(alone, KBPS * 125ull * 99 / 100, KBPS * 125ull);
	end(&w);
	start_even(&w, KBPS);
	add_sender(&w, &s[0], 2, 8, WORDS_EACH);
	add_sender(&w, &s[1], 3, 8, WORDS_EACH);
	/* a quarter of each tenth of a second, in which it has half of the link */
	for (unsigned i = 0; i < OF_OTHER; i++) {
		s[1].first = i * WTIME_S / OF_OTHER;
		s[1].last = s[1].first + WTIME_S / OF_OTHER / 4;
		let_send(&w, s, 2, (i + 1) * WTIME_S / OF_OTHER);
	}
	assert_in_range(s[0].bytes + s[1].bytes, KBPS * 125ull * 98 / 100, KBPS * 125ull * 101 / 100);
	assert_in_range(s[1].bytes, KBPS * 125ull * 11 / 100, KBPS * 125ull * 14 / 100);
	end(&w);
}

/* What passes another lane's queue is time that this one has not, also where it was reckoned already. */
static void what_passes_a_queue_is_taken_from_it(void **state)
{
	enum { KBPS = 100000, WORDS_EACH = 125, EACH_US = 40, BURST = 100, OTHERS = 10, ROUNDS = 200 };
	struct passage p = { 0 };
	struct sender s[2];
	struct world w;
	wtime due = 0;

	(void)state;
	start_even(&w, KBPS);
	add_sender(&w, &s[0], 2, 1, WORDS_EACH);
	add_sender(&w, &s[1], 3, 1, WORDS_EACH);
	for (unsigned i = 0; i < ROUNDS; i++) {
		wtime now = WTIME_S + i * BURST * EACH_US * WTIME_US, late = now + WTIME_MS;

		/* all of a lane at once, and then, one by one, packets of the other one */
		for (unsigned k = 0; k < OTHERS; k++)
			assert_true(passage_take(&p, &w.t.f, w.all, &s[1].way, 1, late + k * 4 * EACH_US * WTIME_US, WORDS_EACH,
						 &due));
		for (unsigned k = 0; k < BURST; k++)
			assert_true(passage_take(&p, &w.t.f, w.all, &s[0].way, 1, now + 3 * WTIME_MS, WORDS_EACH, &due));
	}
	assert_in_range((due - WTIME_S) / WTIME_US, ROUNDS * (BURST + OTHERS) * EACH_US * 98 / 100,
			(ROUNDS + 1) * (BURST + OTHERS) * EACH_US);
	end(&w);
}

/* Whoever fills its queue loses packets, and the other lane none. */
static void a_full_lane_is_no_other_lanes(void **state)
{
	struct passage p = { 0 };
	struct sender s[2];
	struct world w;
	unsigned sent = 0;
	wtime due;

	(void)state;
	start_even(&w, 100000);
	add_sender(&w, &s[0], 2, 1, WORDS);
	add_sender(&w, &s[1], 3, 1, WORDS);
	while (passage_take(&p, &w.t.f, w.all, &s[0].way, 1, WTIME_S, WORDS, &due))
		sent++;
	assert_in_range(sent, 1000, 1100);
	assert_true(passage_take(&p, &w.t.f, w.all, &s[1].way, 1, WTIME_S, WORDS, &due));
	assert_int_equal(due, WTIME_S + 2 * 96 * WTIME_US);
	/* and what somebody wrote there holds nobody up */
	for (unsigned i = 0; i < TRAFFIC_LANES; i++)
		atomic_store(&w.all[w.there.out[1]].lane_until[i], UINT64_MAX);
	assert_true(passage_take(&p, &w.t.f, w.all, &s[1].way, 1, 2 * WTIME_S, WORDS, &due));
	assert_int_equal(due, 2 * WTIME_S + 96 * WTIME_US);
	end(&w);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_fault_is_of_both_directions_until_it_ends),
		cmocka_unit_test(the_same_seed_loses_the_same_packets),
		cmocka_unit_test(each_link_draws_by_itself),
		cmocka_unit_test(ports_count_what_a_link_loses),
		cmocka_unit_test(a_slow_link_serves_one_packet_after_another),
		cmocka_unit_test(a_queue_ends_and_nonsense_holds_nobody_up),
		cmocka_unit_test(a_link_with_a_rate_carries_what_its_width_and_speed_say),
		cmocka_unit_test(lanes_share_a_slow_link_by_their_weights),
		cmocka_unit_test(an_idle_lane_takes_nothing),
		cmocka_unit_test(what_passes_a_queue_is_taken_from_it),
		cmocka_unit_test(a_full_lane_is_no_other_lanes),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
