/* Congestion control over a switch with a short queue: that many senders fill a link, share it and leave the queue short, with
 * marks and without; that one alone is not slowed; that strangers' notifications are obeyed, and others' are not. */
#include "flows.h"

#include "ib/pace.h"
#include "wire/header.h"
#include "wire/packet.h"

enum { KB = 1 << 10, SEED = 5 };

static const wtime DELAY = 5 * WTIME_US;	/* of each of the four links of a round trip */

static struct flows_config config_of(unsigned n, uint32_t room_kb, uint32_t mark_kb, enum ibv_mtu mtu)
{
	return (struct flows_config){
		.n = n, .mtu = mtu, .sim = {
			.seed = SEED, .link = { .delay_ns = DELAY, .byte_ns = 1 },
			.hub = { .room_bytes = room_kb * KB, .mark_bytes = mark_kb * KB, .byte_ns = 1 },
		},
	};
}

/* What happened from one time to another before node 0. */
struct span {
	unsigned busy;			/* percent of what the link carries */
	unsigned least, most;		/* percent of an equal share, of the flows with the least and the most */
	uint64_t queue;			/* mean bytes that frames found waiting */
	uint64_t frames, dropped, marked;
};

static struct span run_span(struct flows *f, wtime ns)
{
	const struct sim_port *port = &f->sim->node[0].port;
	struct sim_port was = *port;
	uint64_t had[FLOWS_MOST], all = 0;
	wtime began = f->sim->now > was.free_at ? f->sim->now : was.free_at, ended;
	struct span s = { .least = UINT32_MAX };

	for (unsigned i = 0; i < f->n; i++)
		had[i] = flows_bytes(f, i);
	flows_run(f, f->sim->now + ns);
	for (unsigned i = 0; i < f->n; i++)
		all += flows_bytes(f, i) - had[i];
	for (unsigned i = 0; i < f->n; i++) {
		unsigned share = (unsigned)((flows_bytes(f, i) - had[i]) * f->n * 100 / (all + 1));

		s.least = share < s.least ? share : s.least;
		s.most = share > s.most ? share : s.most;
	}
	s.frames = port->frames - was.frames;
	ended = port->free_at > f->sim->now ? port->free_at : f->sim->now;
	s.busy = (unsigned)((port->bytes - was.bytes) * 100 / (ended - began));
	s.queue = (port->queued - was.queued) / (s.frames + 1);
	s.dropped = port->dropped - was.dropped;
	s.marked = port->marked - was.marked;
	return s;
}

static void show(const char *what, const struct span *s)
{
	print_message("%s: seed %d, %u %% busy, shares %u to %u %%, queue %llu bytes, %llu frames, %llu dropped, %llu marked\n",
		      what, SEED, s->busy, s->least, s->most, (unsigned long long)s->queue, (unsigned long long)s->frames,
		      (unsigned long long)s->dropped, (unsigned long long)s->marked);
}

static struct ib_options on_options, off_options, stranger_options;

static const struct ib_options *all_off(unsigned flow, bool sends)
{
	return &off_options;
}

/* 32 to 1. The first milliseconds belong to what all began at once. */
static void many_share_a_link(void **state)
{
	static const struct {
		const char *name;
		uint32_t room_kb, mark_kb;
		enum ibv_mtu mtu;
		unsigned ms;
		uint64_t queue;
	} rows[] = {
		{ "no marks", 256, 0, IBV_MTU_4096, 200, 150 * KB },
		{ "marks", 256, 64, IBV_MTU_4096, 500, 80 * KB },
		{ "marks, short packets", 256, 64, IBV_MTU_1024, 400, 80 * KB },
	};

	for (unsigned i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		struct flows_config config = config_of(32, rows[i].room_kb, rows[i].mark_kb, rows[i].mtu);
		struct span begin, s;
		struct flows f;

		flows_init(&f, &config, NULL);
		begin = run_span(&f, 20 * WTIME_MS);
		show("begin", &begin);
		s = run_span(&f, rows[i].ms * WTIME_MS);
		show(rows[i].name, &s);
		flows_fini(&f);
		assert_true(begin.dropped * 50 <= begin.frames);
		assert_int_equal(s.dropped, 0);
		assert_true(s.busy >= 90);
		assert_true(s.least >= 90 && s.most <= 110);
		assert_true(s.queue <= rows[i].queue);
		assert_true(!rows[i].mark_kb == !s.marked);
	}
}

/* What it is good for. */
static void without_it_most_is_lost(void **state)
{
	struct flows_config config = config_of(32, 256, 64, IBV_MTU_4096);
	struct flows f;
	struct span s;

	flows_init(&f, &config, all_off);
	s = run_span(&f, 20 * WTIME_MS);
	show("off", &s);
	assert_true(s.dropped > s.frames / 2);
	assert_int_equal(s.marked, 0);		/* nothing says that it obeys marks */
	assert_null(engine_of(f.flow[0].from.qp)->pace);
	flows_fini(&f);
}

/* A round trip is 28 us, and 23 with short packets; the link carries a window of 64 in 270 or 70. */
static void one_alone_has_the_link_in_a_few_round_trips(void **state)
{
	static const struct { uint32_t mark_kb; enum ibv_mtu mtu; } rows[] = {
		{ 0, IBV_MTU_4096 }, { 64, IBV_MTU_4096 }, { 0, IBV_MTU_1024 }, { 64, IBV_MTU_1024 },
	};

	for (unsigned i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		struct flows_config config = config_of(1, 256, rows[i].mark_kb, rows[i].mtu);
		struct span s, later;
		struct flows f;

		flows_init(&f, &config, NULL);
		flows_run(&f, 6 * 30 * WTIME_US);
		s = run_span(&f, 1 * WTIME_MS);
		show("after six round trips", &s);
		later = run_span(&f, 50 * WTIME_MS);
		show("later", &later);
		flows_fini(&f);
		assert_true(s.busy >= 90 && later.busy >= 95);
		assert_int_equal(s.dropped + later.dropped, 0);
	}
}

/* Losses by chance are no sign of a queue. */
static void losses_by_chance_slow_nobody_down(void **state)
{
	static const struct { uint32_t loss; enum ibv_mtu mtu; unsigned least; } rows[] = {
		{ 10000, IBV_MTU_4096, 90 }, { 10000, IBV_MTU_1024, 90 }, { 50000, IBV_MTU_4096, 70 },
	};

	for (unsigned i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		struct flows_config config = config_of(1, 256, 0, rows[i].mtu);
		struct flows f;
		struct span s;

		config.sim.link.loss = rows[i].loss;
		flows_init(&f, &config, NULL);
		s = run_span(&f, 200 * WTIME_MS);
		show("losses", &s);
		flows_fini(&f);
		assert_true(s.busy >= rows[i].least);
	}
}

/* A flow that comes when others have filled the queue takes the round trip with that queue for the path's. */
static void who_comes_late_has_the_same_share(void **state)
{
	for (uint32_t mark_kb = 0; mark_kb <= 64; mark_kb += 64) {
		struct flows_config config = config_of(8, 256, mark_kb, IBV_MTU_4096);
		struct flows f;
		struct span s;

		flows_init(&f, &config, NULL);
		f.flow[7].runs = false;
		flows_run(&f, 20 * WTIME_MS);
		f.flow[7].runs = true;
		flows_run(&f, 40 * WTIME_MS);
		s = run_span(&f, 200 * WTIME_MS);
		show("late", &s);
		flows_fini(&f);
		assert_true(s.busy >= 90 && s.least >= 80 && s.most <= 120);
	}
}

/* When others leave, who stays has the whole link after some milliseconds. */
static void who_stays_takes_what_is_free(void **state)
{
	struct flows_config config = config_of(8, 256, 64, IBV_MTU_4096);
	struct flows f;
	struct span s;

	flows_init(&f, &config, NULL);
	flows_run(&f, 20 * WTIME_MS);
	for (unsigned i = 1; i < 8; i++)
		f.flow[i].runs = false;
	flows_run(&f, 40 * WTIME_MS);
	s = run_span(&f, 20 * WTIME_MS);
	show("alone again", &s);
	flows_fini(&f);
	assert_true(s.busy >= 90);
}

static const struct ib_options *first_is_a_stranger(unsigned flow, bool sends)
{
	return flow == 0 ? &off_options : &on_options;
}

/* A flow that knows nothing of it, and goes back for what it loses, is not starved; where it keeps the queue full, and marks tell
 * of it, the others go on with what it leaves. */
static void a_stranger_has_its_share(void **state)
{
	for (uint32_t mark_kb = 0; mark_kb <= 64; mark_kb += 64) {
		struct flows_config config = config_of(4, 256, mark_kb, IBV_MTU_4096);
		uint64_t all = 0;
		struct flows f;
		struct span s;

		flows_init(&f, &config, first_is_a_stranger);
		s = run_span(&f, 100 * WTIME_MS);
		show("beside a stranger", &s);
		for (unsigned i = 0; i < 4; i++)
			all += flows_bytes(&f, i);
		print_message("the stranger has %llu %%\n", (unsigned long long)(flows_bytes(&f, 0) * 100 / all));
		assert_true(flows_bytes(&f, 0) * 4 > all);
		assert_true(s.least > 0);
		flows_fini(&f);
	}
}

static const struct ib_options *strangers_receive(unsigned flow, bool sends)
{
	return sends ? &on_options : &stranger_options;
}

/* Receivers that do not repeat selectively are strangers to the senders, and so told by notifications. */
static void notifications_of_strangers_are_obeyed(void **state)
{
	struct flows_config config = config_of(8, 256, 64, IBV_MTU_4096);
	struct counters sent = { 0 };
	const struct counters *told;
	struct flows f;
	struct span s;

	flows_init(&f, &config, strangers_receive);
	flows_run(&f, 20 * WTIME_MS);
	s = run_span(&f, 100 * WTIME_MS);
	show("strangers", &s);
	for (unsigned i = 0; i < 8; i++)
		sent.rp_cnp_handled += f.flow[i].from.node->ca.counters.rp_cnp_handled;
	print_message("%llu notifications\n", (unsigned long long)sent.rp_cnp_handled);
	assert_true(sent.rp_cnp_handled > 100);
	assert_true(sent.rp_cnp_handled <= f.sim->node[0].ca.counters.np_cnp_sent);
	told = &f.sim->node[0].ca.counters;
	assert_true(told->np_cnp_sent * 10 < told->np_ecn_marked_roce_packets * 9);	/* one for all in 50 us */
	assert_true(told->np_ecn_marked_roce_packets <= f.sim->node[0].port.marked);
	assert_true(s.busy >= 85 && s.queue <= 80 * KB && s.dropped == 0);
	flows_fini(&f);
}

static void notify(struct flows *f, int from, bool right_address)
{
	struct flow_end *e = &f->flow[0].from;
	uint8_t frame[PACKET_MAX_BYTES], reserved[16] = { 0 };
	struct iovec payload = { reserved, sizeof(reserved) };
	struct packet p = {
		.form = PACKET_ROCE, .opcode = OPCODE_CNP, .becn = true, .pkey = 0xffff, .dest_qpn = e->qp->qpn,
		.path = f->flow[0].to.qp->path, .payload = &payload, .payload_iovs = 1, .payload_bytes = sizeof(reserved),
	};

	if (!right_address)
		p.path.sgid[15] ^= 2;
	sim_inject(f->sim, from, 1, frame, packet_build(&p, frame, sizeof(frame)));
}

/* Whoever floods a QP with notifications leaves it the least rate; those that are not its peer's do nothing. After the flood it
 * recovers. */
static void a_flood_of_notifications_leaves_the_least(void **state)
{
	struct flows_config config = config_of(2, 256, 0, IBV_MTU_4096);
	const struct congestion *c;
	const struct counters *counters;
	uint64_t before;
	struct flows f;
	struct span s;

	flows_init(&f, &config, NULL);
	f.flow[1].runs = false;
	flows_run(&f, 5 * WTIME_MS);
	c = pace_out(f.flow[0].from.qp);
	counters = &f.flow[0].from.node->ca.counters;
	for (unsigned i = 0; i < 1000; i++) {
		notify(&f, 2, true);
		notify(&f, 0, false);
	}
	assert_int_equal(counters->rp_cnp_handled + counters->rp_cnp_ignored, 0);
	s = run_span(&f, 20 * WTIME_MS);
	show("before the flood", &s);
	assert_true(s.busy >= 90);
	before = flows_bytes(&f, 0);
	for (unsigned i = 0; i < 400; i++) {
		notify(&f, 0, true);
		flows_run(&f, f.sim->now + 100 * WTIME_US);
		congestion_check(c);
	}
	print_message("%llu notifications, %llu bytes meanwhile\n", (unsigned long long)counters->rp_cnp_handled,
		      (unsigned long long)(flows_bytes(&f, 0) - before));
	assert_int_equal(counters->rp_cnp_handled, 400);
	assert_true(flows_bytes(&f, 0) > before);
	assert_true(flows_bytes(&f, 0) - before < 4 * WTIME_MS);	/* a tenth of the link */
	flows_run(&f, f.sim->now + 100 * WTIME_MS);
	s = run_span(&f, 10 * WTIME_MS);
	show("after the flood", &s);
	assert_true(s.busy >= 90);
	flows_fini(&f);
}

static void begin_reads(struct flows *f)
{
	for (unsigned i = 0; i < f->n; i++)
		f->flow[i].opcode = IBV_WR_RDMA_READ;
}

/* A host answers READs over a link that carries a quarter of what it sends: a requester tells of marked responses. */
static void responses_to_reads_are_slowed_down(void **state)
{
	struct flows_config config = config_of(1, 256, 16, IBV_MTU_4096);
	struct flows f;
	struct span s;

	config.sim.hub.byte_ns = 4;
	flows_init(&f, &config, NULL);
	begin_reads(&f);
	flows_run(&f, 40 * WTIME_MS);
	s = (struct span){ .dropped = f.sim->node[1].port.dropped, .marked = f.sim->node[1].port.marked,
			   .frames = f.sim->node[1].port.frames };
	show("read", &s);
	assert_true(f.sim->node[0].ca.counters.rp_cnp_handled > 10);
	assert_true(s.marked > 10 && s.dropped * 20 < s.frames);
	assert_true(s.frames * 4200 * 4 > 28 * WTIME_MS);
	flows_fini(&f);
}

/* A QP that always has something to send, on a path with this round trip, for so long. */
static void send_to(bool is_stranger, struct congestion *c, wtime *now, psn_t *psn, wtime trip, wtime ns)
{
	for (wtime end = *now + ns; *now < end; *now += trip) {
		psn_t first = *psn;

		while (*psn - first < 64 && congestion_asks(c, *now, *psn - first) == CONGESTION_GOES)
			congestion_sent(c, *now, (*psn)++, true);
		(void)congestion_asks(c, *now, UINT32_MAX);	/* and it has more */
		if (*psn != first)
			congestion_heard(c, *now + trip, *psn - first, *psn - 1, !is_stranger, 0, *psn);
		congestion_check(c);
	}
}

static void send_for(struct congestion *c, wtime *now, psn_t *psn, wtime trip, wtime ns)
{
	send_to(false, c, now, psn, trip, ns);
}

/* A peer that knows nothing of congestion control, and answers between 0.3 and 30 ms late by its own doing. */
static void a_stranger_that_is_late_is_sent_to(void **state)
{
	struct congestion c;
	wtime now = 1;
	psn_t psn = 0;

	congestion_init(&c, now, 1024, 64, psn, 1);
	for (unsigned i = 0; i < 200; i++)
		send_to(true, &c, &now, &psn, (i % 100 + 1) * 300 * WTIME_US, 1);
	print_message("a window of %u packets\n", c.window / CONGESTION_ONE);
	assert_false(c.starts);
	assert_true(c.window >= CONGESTION_STRANGERS);
	for (unsigned i = 0; i < 40; i++) {
		congestion_notified(&c);
		send_to(true, &c, &now, &psn, 300 * WTIME_US, 1);
	}
	assert_true(c.window < CONGESTION_STRANGERS);
}

/* A process that did not run for a millisecond answers late once. */
static void one_late_answer_is_no_queue(void **state)
{
	struct congestion c;
	wtime now = 1;
	psn_t psn = 0;
	uint32_t window;

	congestion_init(&c, now, 4096, 64, psn, 1);
	send_for(&c, &now, &psn, 30 * WTIME_US, 20 * WTIME_MS);
	send_for(&c, &now, &psn, 1 * WTIME_MS, 10 * WTIME_MS);
	send_for(&c, &now, &psn, 30 * WTIME_US, 300 * WTIME_US);
	assert_false(c.starts);
	for (unsigned i = 0; i < 10; i++) {
		window = c.window;
		send_for(&c, &now, &psn, 1 * WTIME_MS, 1);
		send_for(&c, &now, &psn, 30 * WTIME_US, 300 * WTIME_US);
		assert_true(c.window >= window);
	}
	window = c.window;
	send_for(&c, &now, &psn, 1 * WTIME_MS, 2 * WTIME_MS);
	assert_true(c.window < window);
}

/* The path is another one, or the peer sleeps more: less is sent at first, in vain, and then as much as before. */
static void a_delay_that_is_not_ours_is_believed(void **state)
{
	struct congestion c;
	wtime now = 1;
	psn_t psn = 0, before;
	uint32_t least = UINT32_MAX;

	congestion_init(&c, now, 4096, 64, psn, 1);
	send_for(&c, &now, &psn, 30 * WTIME_US, 20 * WTIME_MS);
	for (unsigned i = 0; i < 200; i++) {
		send_for(&c, &now, &psn, 500 * WTIME_US, 500 * WTIME_US);
		if (congestion_rate(&c, 1) && congestion_rate(&c, 1) < least)
			least = (uint32_t)congestion_rate(&c, 1);
	}
	assert_true(least > 1000);		/* packets in a second */
	before = psn;
	send_for(&c, &now, &psn, 500 * WTIME_US, 50 * WTIME_MS);
	print_message("%u packets a second at least, then %u in 100 round trips\n", least, psn - before);
	assert_true(psn - before > 100 * 48);
}

/* A queue of ours falls as less is sent, though it is still long. */
static void a_long_queue_of_ours_is_not_believed(void **state)
{
	struct congestion c;
	wtime now = 1;
	psn_t psn = 0, first;

	congestion_init(&c, now, 4096, 64, psn, 1);
	send_for(&c, &now, &psn, 30 * WTIME_US, 20 * WTIME_MS);
	for (unsigned i = 0; i < 40; i++) {
		first = psn;
		while (psn - first < 64 && congestion_asks(&c, now, psn - first) == CONGESTION_GOES)
			congestion_sent(&c, now, psn++, true);
		if (psn == first)
			congestion_sent(&c, now, psn++, true);
		now += 30 * WTIME_US + c.window * WTIME_MS / CONGESTION_ONE;
		congestion_heard(&c, now, psn - first, psn - 1, true, 0, psn);
	}
	print_message("a window of %u / %d, a shortest round trip of %llu ns\n", c.window, CONGESTION_ONE,
		      (unsigned long long)congestion_shortest(&c));
	assert_true(congestion_shortest(&c) < 100 * WTIME_US);
	assert_true(c.window < CONGESTION_ONE);
}

/* A peer says that all are marked, over and over: of what has arrived alone that is believed. */
static void marks_that_are_told_of_are_no_more_than_arrived(void **state)
{
	struct congestion c;

	congestion_init(&c, 1, 4096, 64, 0, 1);
	for (psn_t psn = 0; psn < 1000; psn++) {
		congestion_sent(&c, psn * WTIME_MS, psn, true);
		congestion_heard(&c, psn * WTIME_MS + 10 * WTIME_US, 1, psn, true, (uint8_t)(psn * 63), psn + 1);
		congestion_heard(&c, psn * WTIME_MS + 20 * WTIME_US, 0, psn, true, (uint8_t)(psn * 63 + 5), psn + 1);
		congestion_check(&c);
	}
	assert_true(c.marks <= 1000);
	assert_true(c.window >= CONGESTION_LEAST);
}

/* Between processes of a host nothing is held back or marked. */
static void a_link_that_knows_when_it_is_full_is_not_slowed(void **state)
{
	struct pair_config config = { .sim = { .seed = SEED, .form = PACKET_ROCE }, .mtu = IBV_MTU_4096 };
	struct pair *pair = pair_new(&config);

	post_wr(pair, 0, (struct pair_wr){ .wr_id = 1, .opcode = IBV_WR_RDMA_WRITE, .flags = IBV_SEND_SIGNALED,
					   .bytes = 64 * KB });
	pair_run(pair);
	expect_sent(pair, 0, 1, IBV_WC_SUCCESS);
	assert_null(engine_of(pair->side[0].qp)->pace);
	assert_null(engine_of(pair->side[1].qp)->pace);
	pair_delete(pair);
}

static int set_up(void **state)
{
	on_options = off_options = stranger_options = ib_default_options;
	off_options.congestion_control = false;
	off_options.selective_repeat = false;
	stranger_options.selective_repeat = false;
	return 0;
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(many_share_a_link),
		cmocka_unit_test(without_it_most_is_lost),
		cmocka_unit_test(one_alone_has_the_link_in_a_few_round_trips),
		cmocka_unit_test(losses_by_chance_slow_nobody_down),
		cmocka_unit_test(who_comes_late_has_the_same_share),
		cmocka_unit_test(who_stays_takes_what_is_free),
		cmocka_unit_test(a_stranger_has_its_share),
		cmocka_unit_test(notifications_of_strangers_are_obeyed),
		cmocka_unit_test(a_flood_of_notifications_leaves_the_least),
		cmocka_unit_test(responses_to_reads_are_slowed_down),
		cmocka_unit_test(a_stranger_that_is_late_is_sent_to),
		cmocka_unit_test(one_late_answer_is_no_queue),
		cmocka_unit_test(a_delay_that_is_not_ours_is_believed),
		cmocka_unit_test(a_long_queue_of_ours_is_not_believed),
		cmocka_unit_test(marks_that_are_told_of_are_no_more_than_arrived),
		cmocka_unit_test(a_link_that_knows_when_it_is_full_is_not_slowed),
	};

	return cmocka_run_group_tests(tests, set_up, NULL);
}
