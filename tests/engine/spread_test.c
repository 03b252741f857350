/* A QP over several ways between two hosts: what they carry together, and what one that is slow, loses or is cut costs. */
#include "spread_run.h"

#include "ib/answers.h"
#include "ib/flight.h"
#include "ib/path.h"
#include "ib/reflect.h"
#include "wire/header.h"
#include "wire/packet.h"

enum { TAG = 7 };

static void links_add_up(void **state)
{
	static const struct { enum ibv_wr_opcode opcode; unsigned two, four; } rows[] = {
		{ IBV_WR_RDMA_WRITE, 190, 360 }, { IBV_WR_RDMA_READ, 190, 360 },
	};

	for (unsigned i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		enum ibv_wr_opcode opcode = rows[i].opcode;
		unsigned one = rate_of(&(struct setting){ .paths = 1, .lanes = 4 }, opcode, "one path of four links");
		unsigned two = rate_of(&(struct setting){ .paths = 2, .lanes = 2 }, opcode, "two ports");
		unsigned four = rate_of(&(struct setting){ .paths = 4, .lanes = 4 }, opcode, "four ports");
		unsigned addresses = rate_of(&(struct setting){ .paths = 2, .lanes = 2, .two_addresses = true }, opcode,
					     "two addresses");

		print_message("two links %u %%, four %u %%, two addresses %u %%\n", two * 100 / one, four * 100 / one,
			      addresses * 100 / one);
		assert_true(two * 100 >= one * rows[i].two && addresses * 100 >= one * rows[i].two);
		assert_true(four * 100 >= one * rows[i].four);
	}
}

/* A round trip of 100 us is longer than the answer to a READ request takes. */
static void long_links_add_up(void **state)
{
	struct setting one = { .paths = 1, .lanes = 4 }, two = { .paths = 2, .lanes = 2, .two_addresses = true };
	unsigned alone, both;

	for (unsigned i = 0; i < SIM_LANES; i++)
		one.lane[i].delay_ns = two.lane[i].delay_ns = 9 * DELAY;
	alone = rate_of(&one, IBV_WR_RDMA_READ, "one long path");
	both = rate_of(&two, IBV_WR_RDMA_READ, "two long paths");
	print_message("two long links %u %%\n", both * 100 / alone);
	assert_true(both * 100 >= alone * 190);
}

/* By which link the first path's requests go, and so the others'. */
static struct sim_lane *lane_of(struct pair *pair, unsigned variant)
{
	return &pair->sim->config.lane[(pair->side[0].qp->path.udp_sport ^ variant) % pair->sim->config.lanes];
}

static unsigned rate_with(enum ibv_wr_opcode opcode, unsigned paths, wtime byte_ns, uint32_t loss, const char *what)
{
	struct setting s = { .paths = 2, .lanes = 2, .two_addresses = true };
	struct run r = { .opcode = opcode };
	struct pair *pair;
	unsigned rate;

	s.paths = paths;
	s.lane[1].byte_ns = byte_ns;
	s.lane[1].loss = loss;
	pair = begin(&s);
	run_for(pair, &r, 20 * WTIME_MS);
	rate = run_for(pair, &r, 100 * WTIME_MS);
	show(pair, what);
	print_message("  %u.%02u bytes/ns, %u us without a completion at most\n", rate / 100 / 1000, rate / 1000 % 100,
		      (unsigned)(r.longest / WTIME_US));
	assert_int_equal(r.failed, 0);
	/* none looks lost because another is faster */
	for (unsigned i = 0; opcode == IBV_WR_RDMA_WRITE && paths > 1 && i < paths; i++)
		assert_int_equal(!spread_of(pair->side[0].qp)->path[i].losses, !(loss && i));
	pair_delete(pair);
	return rate;
}

/* A path that is ten times slower, or loses one packet of a hundred, adds what it can carry; it takes nothing from the other. */
static void a_bad_path_costs_its_share(void **state)
{
	static const struct { enum ibv_wr_opcode opcode; unsigned slow, lossy; } rows[] = {
		{ IBV_WR_RDMA_WRITE, 100, 180 }, { IBV_WR_RDMA_READ, 95, 185 },
	};

	for (unsigned i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		enum ibv_wr_opcode opcode = rows[i].opcode;
		unsigned one = rate_with(opcode, 1, 1, 0, "one good"), two = rate_with(opcode, 2, 1, 0, "two good");
		unsigned slow = rate_with(opcode, 2, 10, 0, "one ten times slower");
		unsigned lossy = rate_with(opcode, 2, 1, 10000, "one loses 1 %");

		print_message("of one: two %u %%, one of them slow %u %%, one of them lossy %u %%\n", two * 100 / one,
			      slow * 100 / one, lossy * 100 / one);
		assert_true(slow * 100 >= one * rows[i].slow);
		assert_true(lossy * 100 >= one * rows[i].lossy);
	}
}

/* What all others would wait for. */
static void a_path_too_slow_for_reads_is_asked_for_none(void **state)
{
	unsigned one = rate_with(IBV_WR_RDMA_READ, 1, 1, 0, "one good");
	unsigned slow = rate_with(IBV_WR_RDMA_READ, 2, 50, 0, "one fifty times slower");

	print_message("of one: %u %%\n", slow * 100 / one);
	assert_true(slow * 100 >= one * 95);
}

/* Two wires of 25 MB/s, on which a packet of 1 KB takes 41 us. */
static struct setting slow_wires(void)
{
	struct setting s = { .paths = 2, .lanes = 2, .two_addresses = true, .mtu = IBV_MTU_1024 };

	for (unsigned i = 0; i < 2; i++)
		s.lane[i] = (struct sim_lane){ .delay_ns = 4 * DELAY, .byte_ns = 40, .room_bytes = 200 * KB };
	return s;
}

/* READs: their rate, and how many packets asked for responses again. */
static unsigned read_by(const struct setting *s, const char *what, uint64_t *repeats)
{
	struct run r = { .opcode = IBV_WR_RDMA_READ };
	struct pair *pair = begin(s);
	const struct counters *c = &pair->side[0].node->ca.counters;
	unsigned rate;

	run_for(pair, &r, 50 * WTIME_MS);
	*repeats = c->answer_repeats;
	rate = run_for(pair, &r, 500 * WTIME_MS);
	*repeats = c->answer_repeats - *repeats;
	show(pair, what);
	print_message("  %u.%02u bytes/us, asked again %u times\n", rate / 100, rate % 100, (unsigned)*repeats);
	assert_int_equal(r.failed, 0);
	pair_delete(pair);
	return rate;
}

/* A response that is lost is missed when the next one comes by its path: before all is there that the requester can hold. */
static void lost_responses_are_missed_by_their_path(void **state)
{
	struct setting s = slow_wires();
	uint64_t repeats;
	unsigned good = read_by(&s, "two wires", &repeats), lossy;

	assert_int_equal(repeats, 0);
	s.lane[1].loss = 10000;
	lossy = read_by(&s, "two wires, one loses 1 %", &repeats);
	print_message("one lossy: %u %%\n", lossy * 100 / good);
	assert_true(lossy * 100 >= good * 85);
}

/* One that others of its path have overtaken has the time that packets are late by there. */
static void late_responses_are_waited_for(void **state)
{
	struct setting s = { .paths = 2, .lanes = 2, .two_addresses = true, .reorder = 20000 };
	uint64_t repeats;

	read_by(&s, "two wires that reorder 2 %", &repeats);
	assert_true(repeats < 500);
}

/* Responses of READs in flight that have not come. */
static unsigned count_missing(const struct qp *qp)
{
	const struct flight *f = &engine_of(qp)->flight;
	const uint64_t *held = f->answers ? f->answers->early.held : NULL;
	unsigned missing = 0;

	for (uint32_t i = f->oldest; i != f->newest; i++)
		for (uint32_t k = 0; k < flight_at(f, i)->span; k++) {
			unsigned slot = psn_add(flight_at(f, i)->psn, k) % REORDER_SPAN;

			missing += !(held && held[slot / 64] >> slot % 64 & 1);
		}
	return missing;
}

/* Each is owed by one path, whatever comes twice and is asked for again. */
static void a_response_that_comes_twice_counts_once(void **state)
{
	struct setting s = slow_wires();
	struct run r = { .opcode = IBV_WR_RDMA_READ };
	const struct spread *spread;
	struct pair *pair;

	s.duplicate = 50000;
	s.lane[1].loss = 10000;
	pair = begin(&s);
	run_for(pair, &r, 50 * WTIME_MS);
	spread = spread_of(pair->side[0].qp);
	for (unsigned i = 0; i < 1000; i++) {
		unsigned missing;

		run_for(pair, &r, 100 * WTIME_US);
		missing = count_missing(pair->side[0].qp);
		/* of two that differ, as a repeat does from what it repeats, none is held: owed when it is asked for again */
		assert_in_range(missing - spread->path[0].awaited - spread->path[1].awaited, 0, 4);
	}
	show(pair, "each response in twenty comes twice");
	assert_true(pair->side[0].node->ca.counters.answer_repeats > 10);
	assert_int_equal(r.failed, 0);
	pair_delete(pair);
}

/* A process that has a processor now and then asks for what the wires bring meanwhile. */
static void a_process_that_looks_seldom_keeps_its_paths_busy(void **state)
{
	struct setting s = slow_wires();
	struct run r = { .opcode = IBV_WR_RDMA_READ };
	struct pair *pair = begin(&s);
	unsigned before, good, rate;
	wtime from;

	run_for(pair, &r, 50 * WTIME_MS);
	good = run_for(pair, &r, 100 * WTIME_MS);
	before = r.done;
	from = pair->sim->now;
	for (unsigned i = 0; i < 100; i++) {
		wtime next = pair->sim->now + 2 * WTIME_MS;

		sim_stop(pair->sim, 0);
		sim_run(pair->sim, next);
		sim_advance(pair->sim, next - pair->sim->now);
		sim_continue(pair->sim, 0);
		run_for(pair, &r, 10 * WTIME_US);
	}
	rate = rate_since(pair, &r, from, before, MESSAGE);
	show(pair, "looks each 2 ms");
	print_message("  %u of %u bytes/100 us: %u %%\n", rate, good, rate * 100 / good);
	assert_int_equal(r.failed, 0);
	assert_true(rate * 100 >= good * 80);
	for (unsigned i = 0; i < 2; i++) {
		wtime ns = spread_of(pair->side[0].qp)->path[i].response_ns;

		assert_true(ns > 30 * WTIME_US && ns < 60 * WTIME_US);
	}
	pair_delete(pair);
}

static void cut_and_heal(bool two_addresses, unsigned cut)
{
	struct pair *pair = begin(&(struct setting){ .paths = 2, .lanes = 2, .two_addresses = two_addresses });
	struct run r = { .opcode = IBV_WR_RDMA_WRITE };
	struct sim_lane *lane = two_addresses ? &pair->sim->config.lane[cut] : lane_of(pair, cut);
	unsigned both, one, again;
	const struct spread *s;
	wtime wait, trip;

	run_for(pair, &r, 10 * WTIME_MS);
	both = run_for(pair, &r, 20 * WTIME_MS);
	s = spread_of(pair->side[0].qp);
	assert_non_null(s);
	wait = engine_of(pair->side[0].qp)->flight.rtt.wait_ns;
	trip = pace_of(pair->side[0].qp, cut)->smooth_ns;
	r.longest = 0;
	lane->is_cut = true;
	run_for(pair, &r, 10 * WTIME_MS);
	show(pair, "cut");
	print_message("  %u us without a completion at most; a wait of %u us, a round trip of %u\n",
		      (unsigned)(r.longest / WTIME_US), (unsigned)(wait / WTIME_US), (unsigned)(trip / WTIME_US));
	assert_int_equal(r.failed, 0);
	assert_int_equal(s->path[cut].state, SPREAD_ASIDE);
	assert_true(r.longest <= 2 * trip + 2 * wait + 200 * WTIME_US);
	one = run_for(pair, &r, 200 * WTIME_MS);
	lane->is_cut = false;
	run_for(pair, &r, 2 * SPREAD_PROBE_MOST);
	assert_int_equal(s->path[cut].state, SPREAD_UP);
	again = run_for(pair, &r, 20 * WTIME_MS);
	print_message("  %u, with one %u, again %u bytes/100 us\n", both, one, again);
	assert_true(one * 100 >= both * 45 && again * 100 >= both * 95);
	assert_int_equal(r.failed, 0);
	pair_delete(pair);
}

static void paths_are_told_of(void **state)
{
	struct pair *pair = begin(&(struct setting){ .paths = 2, .lanes = 2, .two_addresses = true });
	struct run r = { .opcode = IBV_WR_RDMA_WRITE };
	struct qp_context c;

	qp_context_get(pair->side[0].qp, &c);
	assert_int_equal(c.ways, 0);
	pair->sim->config.lane[1].is_cut = true;
	run_for(pair, &r, 5 * WTIME_MS);
	qp_context_get(pair->side[0].qp, &c);
	assert_int_equal(c.ways, 2);
	assert_string_equal(c.way[0].state, "up");
	assert_string_equal(c.way[1].state, "unproven");
	assert_int_equal(c.way[1].sent + c.way[1].bytes_per_s, 0);
	assert_memory_equal(c.way[1].dgid, pair->side[1].node->dev->gid[1].raw, 16);
	assert_memory_equal(c.way[1].sgid, pair->side[0].node->dev->gid[1].raw, 16);
	pair->sim->config.lane[1].is_cut = false;
	run_for(pair, &r, 200 * WTIME_MS);
	pair->sim->config.lane[1].is_cut = true;
	run_for(pair, &r, 5 * WTIME_MS);
	qp_context_get(pair->side[0].qp, &c);
	assert_string_equal(c.way[1].state, "aside");
	assert_int_equal(c.way[1].set_aside, 1);
	assert_true(c.way[1].sent > 100 && c.way[1].lost && c.way[1].round_trip_ns && c.way[0].round_trip_ns);
	qp_context_get(pair->side[1].qp, &c);
	assert_int_equal(c.ways, 0);
	pair_delete(pair);
}

static void a_cut_path_is_left_and_taken_again(void **state)
{
	for (unsigned cut = 0; cut < 2; cut++) {
		cut_and_heal(true, cut);
		cut_and_heal(false, cut);
	}
}

/* Requests arrive and their answers do not: these take another way when they are asked for again, those of a READ too. */
static void a_path_that_is_cut_one_way_is_left(void **state)
{
	static const enum ibv_wr_opcode opcodes[] = { IBV_WR_RDMA_READ, IBV_WR_RDMA_WRITE };

	(void)state;
	for (int i = 0; i < 2; i++) {
		struct pair *pair = begin(&(struct setting){ .paths = 2, .lanes = 2, .two_addresses = true,
							     .lane[0].delay_ns = 4 * DELAY });
		struct run r = { .opcode = opcodes[i] };
		wtime cut_at;
		struct cqe cqe;

		run_for(pair, &r, 10 * WTIME_MS);
		while (r.posted != r.done) {
			sim_run(pair->sim, pair->sim->now + WTIME_MS);
			while (pair_poll_send(pair, 0, &cqe))
				r.done++;
		}
		pair->sim->config.lane[1].is_cut_back = true;	/* the nearer one */
		cut_at = pair->sim->now;
		post_wr(pair, 0, (struct pair_wr){ .wr_id = TAG, .opcode = opcodes[i], .flags = IBV_SEND_SIGNALED, .bytes = 64 });
		sim_touch(pair->sim, 0);
		while (!pair_poll_send(pair, 0, &cqe)) {
			wtime step = pair->sim->now + WTIME_MS;

			sim_run(pair->sim, step);
			if (pair->sim->now < step)
				sim_advance(pair->sim, step - pair->sim->now);
		}
		print_message("seed %llu: an answer after %llu us\n", (unsigned long long)seed,
			      (unsigned long long)((pair->sim->now - cut_at) / WTIME_US));
		assert_int_equal(cqe.status, IBV_WC_SUCCESS);
		assert_true(pair->sim->now - cut_at < 300 * WTIME_MS);
		pair_delete(pair);
	}
}

/* Two programs that answer each other by messages, of which the answers of one end's adapter are lost on the nearer path: they
 * get on, and what waits for its acknowledgement fits into a short send queue. */
static void lost_answers_fill_no_send_queue(void **state)
{
	struct pair *pair = begin(&(struct setting){ .paths = 2, .lanes = 2, .two_addresses = true,
						     .lane[1].delay_ns = DELAY });
	unsigned posted = 0, done = 0, most = 0, returned = 0;
	wtime cut_at = 2 * WTIME_MS, until = 30 * WTIME_MS;
	struct cqe cqe;

	for (unsigned i = 0; i < DEPTH; i++)
		for (int side = 0; side < 2; side++)
			assert_int_equal(pair_recv(pair, side, i, 0, 64), 0);
	while (pair->sim->now < until) {
		if (posted == returned) {
			post_wr(pair, 0, (struct pair_wr){ .opcode = IBV_WR_SEND, .flags = IBV_SEND_SIGNALED, .bytes = 64 });
			posted++;
		}
		while (pair_poll_recv(pair, 1, &cqe)) {
			assert_int_equal(pair_recv(pair, 1, cqe.wr_id, 0, 64), 0);
			post_wr(pair, 1, (struct pair_wr){ .opcode = IBV_WR_SEND, .flags = IBV_SEND_SIGNALED, .bytes = 64 });
		}
		for (; pair_poll_recv(pair, 0, &cqe); returned++)
			assert_int_equal(pair_recv(pair, 0, cqe.wr_id, 0, 64), 0);
		for (; pair_poll_send(pair, 0, &cqe); done++)
			assert_int_equal(cqe.status, IBV_WC_SUCCESS);
		while (pair_poll_send(pair, 1, &cqe))
			assert_int_equal(cqe.status, IBV_WC_SUCCESS);
		most = posted - done > most ? posted - done : most;
		sim_touch(pair->sim, 0);
		sim_touch(pair->sim, 1);
		sim_run(pair->sim, pair->sim->now + WTIME_US);
		sim_advance(pair->sim, WTIME_US);
		if (pair->sim->now < cut_at)
			continue;
		pair->sim->config.lane[0].is_cut_back = true;
		pace_of(pair->side[1].qp, 0)->smooth_ns = WTIME_MS;	/* it has gone over to the other */
	}
	print_message("%u messages, %u unacknowledged at most\n", returned, most);
	assert_true(returned > 500 && most <= SPREAD_REQUESTS + 2);
	pair_delete(pair);
}

static void all_cut_is_the_standards_error(void **state)
{
	struct pair *pair = begin(&(struct setting){ .paths = 4, .lanes = 4 });
	struct run r = { .opcode = IBV_WR_RDMA_WRITE };
	struct cqe cqe;
	unsigned flushed = 0;
	wtime since;

	run_for(pair, &r, 10 * WTIME_MS);
	for (unsigned i = 0; i < 4; i++)
		pair->sim->config.lane[i].is_cut = true;
	since = pair->sim->now;
	while (pair_poll_send(pair, 0, &cqe))
		r.done++;
	sim_run(pair->sim, since + 20 * WTIME_S);
	while (pair_poll_send(pair, 0, &cqe) && cqe.status == IBV_WC_SUCCESS)	/* what was on its way when they were cut */
		r.done++;
	assert_int_equal(cqe.wr_id, r.done);
	assert_int_equal(cqe.status, IBV_WC_RETRY_EXC_ERR);
	for (; pair_poll_send(pair, 0, &cqe); flushed++)
		assert_int_equal(cqe.status, IBV_WC_WR_FLUSH_ERR);
	assert_int_equal(flushed, r.posted - r.done - 1);
	assert_null(spread_of(pair->side[0].qp));
	pair_delete(pair);
}

/* What a stranger sees. */
struct seen {
	unsigned ports, by_path, probes, frames;
	uint16_t first;
};

static void note_frame(void *arg, int node, const struct packet *p)
{
	struct seen *seen = arg;

	if (node)
		return;
	if (!seen->frames++)
		seen->first = p->path.udp_sport;
	seen->ports += p->path.udp_sport != seen->first;
	seen->by_path += p->resv.bth7 != BTH_SELECTIVE;
	seen->probes += p->opcode == OPCODE_WEFT_PATH_PROBE;
}

static void a_stranger_sees_one_path(void **state)
{
	for (unsigned stranger = 0; stranger < 2; stranger++) {
		struct pair *pair = begin(&(struct setting){ .paths = 4, .lanes = 4, .stranger = stranger });
		struct run r = { .opcode = IBV_WR_RDMA_WRITE };
		struct seen seen = { 0 };

		pair->sim->tap = note_frame;
		pair->sim->tap_arg = &seen;
		run_for(pair, &r, 5 * WTIME_MS);
		assert_true(seen.frames > 100);
		assert_int_equal(!seen.ports, stranger);
		assert_int_equal(!seen.by_path, stranger);
		assert_int_equal(seen.probes, stranger ? 0 : 4);
		pair_delete(pair);
	}
}

/* What came twice is acknowledged by each path that there is, once. */
static void what_comes_twice_is_acknowledged_by_each_path(void **state)
{
	for (unsigned paths = 2; paths <= 4; paths += 2) {
		struct pair *pair = begin(&(struct setting){ .paths = paths, .lanes = 4 });
		struct run r = { .opcode = IBV_WR_RDMA_WRITE };
		const struct qp *qp = pair->side[1].qp;
		struct packet p = { .form = PACKET_ROCE, .opcode = OPCODE_RC_RDMA_WRITE_ONLY, .pkey = 0xffff,
				    .dest_qpn = qp->qpn, .resv.bth7 = BTH_SELECTIVE };
		uint64_t sent;

		run_for(pair, &r, 5 * WTIME_MS);
		pair_run(pair);
		sent = pair->side[1].node->sent;
		p.path = pair->side[0].qp->path;
		p.psn = psn_add(engine_of(qp)->responder.psn, -1);
		ca_input(&pair->side[1].node->ca, pair->side[1].node->dev, pair->sim->now, 1, &p);
		pair_run(pair);
		assert_int_equal(pair->side[1].node->sent - sent, paths);
		pair_delete(pair);
	}
}

/* ---- hostile ---- */

enum { ONE_PATH = -1 };

/* A probe arrives at the responder, or an answer at the requester: by this path, from the first or second address of node 0. */
static void forge(struct pair *pair, int to, uint8_t opcode, int path, bool from_second, int32_t later, unsigned addresses,
		  uint32_t number)
{
	uint8_t payload[PATH_PROBE_BYTES] = { 0 };
	struct iovec iov = { payload, sizeof(payload) };
	const struct sim_node *peer = pair->side[!to].node;
	struct packet p = {
		.form = PACKET_ROCE, .opcode = opcode, .pkey = 0xffff, .dest_qpn = pair->side[to].qp->qpn,
		.path = pair->side[!to].qp->path, .payload = &iov, .payload_iovs = 1, .payload_bytes = sizeof(payload),
		.resv.bth7 = path == ONE_PATH ? 0 : bth_by_path((unsigned)path),
		.psn = psn_add(engine_of(pair->side[1].qp)->responder.psn, later),
	};

	wire_put(payload, number, PATH_PROBE_NUMBER);
	wire_put(payload, addresses, PATH_PROBE_ADDRESSES);
	memcpy(payload + PATH_PROBE_ADDRESS, peer->dev->gid[0].raw, 16);
	memcpy(payload + PATH_PROBE_ADDRESS + 16, peer->dev->gid[1].raw, 16);
	if (from_second)
		memcpy(p.path.sgid, peer->dev->gid[1].raw, 16);
	ca_input(&pair->side[to].node->ca, pair->side[to].node->dev, pair->sim->now, (origin_t)!to + 1, &p);
}

/* What nobody of weft sends makes no path and is counted; an address counts once the peer has told of it by its own path. */
static void forged_probes_make_no_path(void **state)
{
	static const struct { int path; bool from_second; int32_t later; unsigned addresses, bad; bool known; } rows[] = {
		{ 1, true, 0, 2, 0, false }, { 1, false, 1, 2, 1, false }, { 1, false, -REORDER_SPAN - 1, 2, 1, false },
		{ 1, false, 0, PATH_ADDRESSES + 1, 1, false }, { ONE_PATH, false, 0, 2, 1, false }, { 1, false, 0, 2, 0, true },
		{ 1, false, -REORDER_SPAN, 2, 0, true },
	};

	for (unsigned i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		struct pair *pair = begin(&(struct setting){ .paths = 1, .lanes = 2, .two_addresses = true });
		const struct reflect *r;

		forge(pair, 1, OPCODE_WEFT_PATH_PROBE, rows[i].path, rows[i].from_second, rows[i].later, rows[i].addresses, 5);
		r = reflect_of(pair->side[1].qp);
		assert_int_equal(r && r->path[1].is_known, rows[i].known);
		assert_int_equal(pair->side[1].node->ca.counters.bad_path_probes, rows[i].bad);
		forge(pair, 1, OPCODE_WEFT_PATH_PROBE, 2, true, 0, 2, 6);	/* the second address */
		r = reflect_of(pair->side[1].qp);
		assert_int_equal(r && r->path[2].is_known, rows[i].known);
		pair->side[0].node->dev->gid[1].raw[15] ^= 0x40;		/* another, which was not told of */
		forge(pair, 1, OPCODE_WEFT_PATH_PROBE, 3, true, 0, 2, 7);
		assert_false(r && r->path[3].is_known);
		pair_delete(pair);
	}
}

/* An answer with another number than the probe's, or once more, brings no path up. */
static void forged_answers_bring_no_path_up(void **state)
{
	struct pair *pair = begin(&(struct setting){ .paths = 2, .lanes = 2, .two_addresses = true });
	struct run r = { .opcode = IBV_WR_RDMA_WRITE };
	const struct counters *c = &pair->side[0].node->ca.counters;
	const struct spread *s;

	pair->sim->config.lane[1].is_cut = true;
	run_for(pair, &r, 1 * WTIME_MS);
	s = spread_of(pair->side[0].qp);
	assert_int_equal(s->paths, 2);
	assert_int_equal(s->path[1].state, SPREAD_UNPROVEN);
	forge(pair, 0, OPCODE_WEFT_PATH_ANSWER, 0, false, 0, 2, s->path[1].number + 1);
	forge(pair, 0, OPCODE_WEFT_PATH_ANSWER, 0, false, 0, 2, 0);
	forge(pair, 0, OPCODE_WEFT_PATH_ANSWER, 0, false, 0, PATH_ADDRESSES + 1, s->path[1].number);
	assert_int_equal(s->path[1].state, SPREAD_UNPROVEN);
	assert_int_equal(c->bad_path_answers, 3);
	forge(pair, 0, OPCODE_WEFT_PATH_ANSWER, 0, false, 0, 2, s->path[1].number);	/* whatever way it takes */
	assert_int_equal(s->path[1].state, SPREAD_UP);
	run_for(pair, &r, 20 * WTIME_MS);		/* which was a lie */
	assert_int_equal(s->path[1].state, SPREAD_ASIDE);
	assert_int_equal(r.failed, 0);
	pair_delete(pair);
}

/* A peer that answers by the first path whatever a request came by: what arrives counts for the path that it left by. */
static void forget_paths(void *arg, int node, const struct packet *p)
{
	struct pair *pair = arg;

	for (unsigned i = 1; reflect_of(pair->side[1].qp) && i < BTH_PATHS; i++)
		reflect_of(pair->side[1].qp)->path[i] = (struct reflect_path){ 0 };
}

static void answers_by_another_path_stall_nothing(void **state)
{
	struct pair *pair = begin(&(struct setting){ .paths = 2, .lanes = 2 });
	struct run r = { .opcode = IBV_WR_RDMA_WRITE };
	unsigned rate;

	run_for(pair, &r, 10 * WTIME_MS);
	pair->sim->tap = forget_paths;
	pair->sim->tap_arg = pair;
	rate = run_for(pair, &r, 50 * WTIME_MS);
	show(pair, "answers by the first path");
	assert_int_equal(r.failed, 0);
	assert_true(rate > 150000 && r.longest < 2 * WTIME_MS);
	reflect_of(pair->side[1].qp)->path[1].is_known = true;
	assert_int_equal(reflect_choose(pair->side[1].qp, 1), 1);
	forget_paths(pair, 0, NULL);		/* while a response for it is still to be sent: it has no addresses */
	assert_int_equal(reflect_choose(pair->side[1].qp, 1), 0);
	pair_delete(pair);
}

/* An acknowledgement that comes from or to an address of another path than it names says nothing. */
static void acknowledgements_by_a_wrong_path_are_not_taken(void **state)
{
	static const struct { int path; bool from_second, from_another, to_second, is_taken; } rows[] = {
		{ ONE_PATH, true, false, false, false }, { 0, true, false, true, false }, { 1, true, true, true, false },
		{ 1, true, false, false, false }, { 2, true, false, true, false }, { 1, true, false, true, true },
	};
	struct pair *pair = begin(&(struct setting){ .paths = 2, .lanes = 2, .two_addresses = true });
	const struct sim_node *us = pair->side[0].node, *peer = pair->side[1].node;
	struct run r = { .opcode = IBV_WR_RDMA_WRITE };
	struct qp *qp = pair->side[0].qp;
	const struct flight *f = &engine_of(qp)->flight;

	run_for(pair, &r, 10 * WTIME_MS);
	for (unsigned i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		struct packet p = { .form = PACKET_ROCE, .opcode = OPCODE_RC_ACKNOWLEDGE, .pkey = 0xffff, .dest_qpn = qp->qpn,
				    .path = pair->side[1].qp->path, .psn = psn_add(f->fresh, -1),
				    .resv.bth7 = rows[i].path == ONE_PATH ? 0 : bth_by_path((unsigned)rows[i].path) };
		uint32_t oldest = f->oldest;

		assert_false(flight_empty(f));
		if (rows[i].from_second)
			memcpy(p.path.sgid, peer->dev->gid[1].raw, 16);
		if (rows[i].from_another)
			p.path.sgid[15] ^= 0x40;
		if (rows[i].to_second)
			memcpy(p.path.dgid, us->dev->gid[1].raw, 16);
		ca_input(&pair->side[0].node->ca, us->dev, pair->sim->now, 2, &p);
		assert_int_equal(f->oldest != oldest, rows[i].is_taken);
	}
	pair_delete(pair);
}

/* The last answer that node 1 gave, and how many. */
struct probe_answers {
	uint32_t number;
	unsigned count;
};

static void note_answer(void *arg, int node, const struct packet *p)
{
	struct probe_answers *a = arg;

	if (!node || p->opcode != OPCODE_WEFT_PATH_ANSWER)
		return;
	a->number = (uint32_t)wire_get((const uint8_t *)p->payload->iov_base, PATH_PROBE_NUMBER);
	a->count++;
}

/* What was on the wire before comes again: an answer is none of a later probe, and a probe has one answer at most. */
static void replays_gain_nothing(void **state)
{
	struct pair *pair = begin(&(struct setting){ .paths = 2, .lanes = 2, .two_addresses = true });
	struct run r = { .opcode = IBV_WR_RDMA_WRITE };
	struct probe_answers answers = { 0 };
	const struct spread *s;

	pair->sim->tap = note_answer;
	pair->sim->tap_arg = &answers;
	run_for(pair, &r, 10 * WTIME_MS);
	s = spread_of(pair->side[0].qp);
	assert_int_equal(answers.count, 2);
	pair->sim->config.lane[1].is_cut = true;
	run_for(pair, &r, 10 * WTIME_MS);
	assert_int_equal(s->path[1].state, SPREAD_ASIDE);
	for (unsigned i = 0; i < 1000; i++)
		forge(pair, 0, OPCODE_WEFT_PATH_ANSWER, 0, false, 0, 2, answers.number);
	assert_int_equal(s->path[1].state, SPREAD_ASIDE);
	assert_int_equal(pair->side[0].node->ca.counters.bad_path_answers, 1000);
	answers.count = 0;
	for (unsigned i = 0; i < 1000; i++)
		forge(pair, 1, OPCODE_WEFT_PATH_PROBE, 0, false, 0, 2, 5);
	run_for(pair, &r, WTIME_MS);
	assert_int_equal(answers.count, 1);
	assert_int_equal(r.failed, 0);
	pair_delete(pair);
}

/* A probe of before, by which the path led elsewhere: its requests are no one's until it is probed again, which is soon. */
static void a_path_that_is_led_astray_comes_back(void **state)
{
	struct pair *pair = begin(&(struct setting){ .paths = 2, .lanes = 2, .two_addresses = true });
	struct run r = { .opcode = IBV_WR_RDMA_WRITE };
	const struct spread *s;

	run_for(pair, &r, 10 * WTIME_MS);
	s = spread_of(pair->side[0].qp);
	for (unsigned i = 0; i < 20; i++) {
		forge(pair, 1, OPCODE_WEFT_PATH_PROBE, 1, false, 0, 2, 5);
		run_for(pair, &r, 5 * WTIME_MS);
	}
	show(pair, "led astray");
	assert_int_equal(r.failed, 0);
	assert_true(s->path[1].setbacks >= 10 && r.longest < 3 * WTIME_MS);
	run_for(pair, &r, SPREAD_PROBE_MOST);
	assert_int_equal(s->path[1].state, SPREAD_UP);
	pair_delete(pair);
}

/* A path that fails on demand (ca.cut) loses requests and their answers, and not those of the peer. */
static void a_path_fails_on_demand(void **state)
{
	struct pair *pair = begin(&(struct setting){ .paths = 2, .lanes = 2, .two_addresses = true });
	struct run r = { .opcode = IBV_WR_RDMA_WRITE };
	struct qp *qp = pair->side[0].qp;
	struct packet p = { .form = PACKET_ROCE, .opcode = OPCODE_RC_ACKNOWLEDGE, .dest_qpn = qp->qpn,
			    .resv.bth7 = bth_by_path(1) };

	run_for(pair, &r, 5 * WTIME_MS);
	assert_false(path_loses(qp->ca, &p));
	qp->ca->cuts = 1;
	qp->ca->cut[0].paths = 1 << 1;
	memcpy(qp->ca->cut[0].dgid, qp->path.dgid, 16);
	assert_true(path_loses(qp->ca, &p));
	assert_false(path_is_cut(qp, &p, true));
	p.opcode = OPCODE_WEFT_PATH_ANSWER;
	assert_true(path_loses(qp->ca, &p));
	p.opcode = OPCODE_RC_RDMA_WRITE_ONLY;
	assert_false(path_loses(qp->ca, &p));
	assert_true(path_is_cut(qp, &p, true));
	p.opcode = OPCODE_WEFT_PATH_PROBE;
	assert_true(path_is_cut(qp, &p, true));
	p.resv.bth7 = 0;	/* a stranger's are those of the first */
	assert_false(path_is_cut(qp, &p, true));
	qp->ca->cut[0].paths = 1;
	assert_true(path_is_cut(qp, &p, true));
	qp->ca->cut[0].dgid[15] ^= 1;
	assert_false(path_is_cut(qp, &p, true));
	pair_delete(pair);
}

/* A path that comes and goes all the time costs some repeats, and nothing waits for it. */
static void a_path_that_flaps_is_borne(void **state)
{
	struct pair *pair = begin(&(struct setting){ .paths = 2, .lanes = 2, .two_addresses = true });
	struct run r = { .opcode = IBV_WR_RDMA_WRITE };
	unsigned rate, before;

	run_for(pair, &r, 10 * WTIME_MS);
	before = r.done;
	for (unsigned i = 0; i < 200; i++) {
		pair->sim->config.lane[1].is_cut = !pair->sim->config.lane[1].is_cut;
		run_for(pair, &r, 700 * WTIME_US);
	}
	rate = (unsigned)((uint64_t)(r.done - before) * MESSAGE * 100 * WTIME_US / (200 * 700 * WTIME_US));
	show(pair, "flapping");
	print_message("  %u.%02u bytes/ns, %u us without a completion at most\n", rate / 100 / 1000, rate / 1000 % 100,
		      (unsigned)(r.longest / WTIME_US));
	assert_int_equal(r.failed, 0);
	assert_true(rate > 70000 && r.longest < 2 * WTIME_MS);
	pair_delete(pair);
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(links_add_up),
		cmocka_unit_test(long_links_add_up),
		cmocka_unit_test(a_bad_path_costs_its_share),
		cmocka_unit_test(a_path_too_slow_for_reads_is_asked_for_none),
		cmocka_unit_test(lost_responses_are_missed_by_their_path),
		cmocka_unit_test(late_responses_are_waited_for),
		cmocka_unit_test(a_response_that_comes_twice_counts_once),
		cmocka_unit_test(a_process_that_looks_seldom_keeps_its_paths_busy),
		cmocka_unit_test(paths_are_told_of),
		cmocka_unit_test(a_cut_path_is_left_and_taken_again),
		cmocka_unit_test(a_path_that_is_cut_one_way_is_left),
		cmocka_unit_test(lost_answers_fill_no_send_queue),
		cmocka_unit_test(all_cut_is_the_standards_error),
		cmocka_unit_test(a_stranger_sees_one_path),
		cmocka_unit_test(what_comes_twice_is_acknowledged_by_each_path),
		cmocka_unit_test(forged_probes_make_no_path),
		cmocka_unit_test(forged_answers_bring_no_path_up),
		cmocka_unit_test(a_path_that_flaps_is_borne),
		cmocka_unit_test(answers_by_another_path_stall_nothing),
		cmocka_unit_test(acknowledgements_by_a_wrong_path_are_not_taken),
		cmocka_unit_test(replays_gain_nothing),
		cmocka_unit_test(a_path_that_is_led_astray_comes_back),
		cmocka_unit_test(a_path_fails_on_demand),
	};

	if (argc > 1)
		seed = strtoull(argv[1], NULL, 0);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
