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
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
