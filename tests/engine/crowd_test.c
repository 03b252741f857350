/* Hundreds of nodes: each has addresses of its own, QP numbers mean something only beside an address, and the loop looks at those
 * alone that something happens to. */
#include "crowd.h"
#include "engine_test.h"

#include "wire/packet.h"

/* QPs of nodes so far apart have the same number. */
enum { SAME_QPN = 15, NODES = 600, QPN = 77, BYTES = 64, GRH = 40 };

static struct crowd *start(enum ibv_qp_type type, enum packet_form form, int nodes, bool keeps)
{
	return crowd_new(&(struct crowd_config){
		.sim = { .seed = 5, .form = form, .nodes = nodes, .link = { .delay_ns = WTIME_US, .keeps = keeps } },
		.type = type, .next_qpn = QPN,
	});
}

static void run(struct crowd *crowd)
{
	sim_run(crowd->sim, crowd->sim->now + 10 * WTIME_S);
}

static void say(struct crowd *crowd, int from, int to)
{
	pattern_fill(crowd->member[from].memory, BYTES, (uint32_t)from);
	assert_int_equal(crowd_send(crowd, from, to, 0, BYTES), 0);
}

/* The next completion is a success of that request. */
static struct cqe expect(struct crowd *crowd, int member, uint32_t at)
{
	struct cqe cqe;

	assert_true(cq_poll(crowd->member[member].cq, &cqe));
	assert_int_equal(cqe.status, IBV_WC_SUCCESS);
	assert_int_equal(cqe.wr_id, at);
	return cqe;
}

static void expect_none(struct crowd *crowd, int member)
{
	struct cqe cqe;

	assert_false(cq_poll(crowd->member[member].cq, &cqe));
}

/* Everybody to somebody whose address has the same last byte. */
static void datagrams_reach_the_node_of_their_address(void **state)
{
	static const int distance[] = { 1, 256, 2 * 256, SAME_QPN };

	for (enum packet_form form = PACKET_IB; form <= PACKET_ROCE; form++)
		for (unsigned d = 0; d < sizeof(distance) / sizeof(distance[0]); d++) {
			struct crowd *crowd = start(IBV_QPT_UD, form, NODES, false);

			for (int i = 0; i < NODES; i++)
				assert_int_equal(crowd_recv(crowd, i, 1024, BYTES + GRH), 0);
			for (int i = 0; i < NODES; i++)
				say(crowd, i, (i + distance[d]) % NODES);
			run(crowd);
			for (int i = 0; i < NODES; i++) {
				const struct crowd_member *to = &crowd->member[(i + distance[d]) % NODES];
				struct cqe cqe;

				assert_true(cq_poll(to->cq, &cqe));
				if (cqe.kind == CQE_SEND)
					assert_true(cq_poll(to->cq, &cqe));
				assert_int_equal(cqe.kind, CQE_RECV);
				assert_int_equal(cqe.src_qp, crowd->member[i].qp->qpn);
				assert_true(pattern_holds(to->memory + 1024 + GRH, BYTES, (uint32_t)i));
				assert_int_equal(to->node->ca.counters.dropped_source, 0);
			}
			crowd_delete(crowd);
		}
}

/* Node i with node i + 15, while the same numbers are connected elsewhere. */
static void connections_of_equal_numbers_are_apart(void **state)
{
	for (enum packet_form form = PACKET_IB; form <= PACKET_ROCE; form++) {
		struct crowd *crowd = start(IBV_QPT_RC, form, 4 * SAME_QPN, false);

		for (int i = 0; i < 4 * SAME_QPN; i++) {
			int peer = i / SAME_QPN % 2 ? i - SAME_QPN : i + SAME_QPN;

			assert_int_equal(crowd->member[i].qp->qpn, crowd->member[peer].qp->qpn);
			if (peer > i)
				crowd_connect(crowd, i, peer);
		}
		for (int i = 0; i < 4 * SAME_QPN; i++)
			assert_int_equal(crowd_recv(crowd, i, 1024, BYTES), 0);
		for (int i = 0; i < 4 * SAME_QPN; i++)
			if (i / SAME_QPN % 2 == 0)
				say(crowd, i, 0);
		run(crowd);
		for (int i = 0; i < 4 * SAME_QPN; i++) {
			bool sends = i / SAME_QPN % 2 == 0;

			expect(crowd, i, sends ? 0 : 1024);
			expect_none(crowd, i);
			if (!sends)
				assert_true(pattern_holds(crowd->member[i].memory + 1024, BYTES, (uint32_t)(i - SAME_QPN)));
		}
		crowd_delete(crowd);
	}
}

/* Its number is the peer's, and the packet says that it is the peer; the address is not its own. */
static void same_number_elsewhere_is_not_the_peer(void **state)
{
	struct crowd *crowd = start(IBV_QPT_RC, PACKET_IB, 3 * SAME_QPN, false);
	struct sim_node *node = crowd->member[0].node;
	uint8_t frame[PACKET_MAX_BYTES];
	struct packet p = {
		.form = PACKET_IB, .opcode = OPCODE_RC_SEND_ONLY, .pkey = 0xffff, .dest_qpn = crowd->member[0].qp->qpn,
		.path = { .slid = SAME_QPN + 1, .dlid = 1 }, .payload = &(struct iovec){ "forged", 7 }, .payload_iovs = 1,
		.payload_bytes = 7,
	};

	crowd_connect(crowd, 0, SAME_QPN);
	assert_int_equal(crowd_recv(crowd, 0, 1024, BYTES), 0);
	sim_inject(crowd->sim, 2 * SAME_QPN, 0, frame, packet_build(&p, frame, sizeof(frame)));
	expect_none(crowd, 0);
	assert_int_equal(node->ca.counters.dropped_source, 1);
	sim_inject(crowd->sim, SAME_QPN, 0, frame, packet_build(&p, frame, sizeof(frame)));
	expect(crowd, 0, 1024);
	assert_int_equal(node->ca.counters.dropped_source, 1);
	crowd_delete(crowd);
}

/* A stopped node is waited for; the one of the same number that runs is not meant. */
static void stopped_node_is_found_by_its_address(void **state)
{
	struct crowd *crowd = start(IBV_QPT_RC, PACKET_ROCE, 2 * SAME_QPN, true);

	crowd_connect(crowd, 0, SAME_QPN);
	assert_int_equal(crowd_recv(crowd, SAME_QPN, 1024, BYTES), 0);
	sim_stop(crowd->sim, SAME_QPN);
	say(crowd, 0, SAME_QPN);
	run(crowd);
	expect_none(crowd, 0);
	sim_continue(crowd->sim, SAME_QPN);
	run(crowd);
	expect(crowd, 0, 0);
	expect(crowd, SAME_QPN, 1024);
	crowd_delete(crowd);
}

static void more_nodes_than_addresses_are_refused(void **state)
{
	assert_null(sim_new(&(struct sim_config){ .nodes = 0xc000, .form = PACKET_IB }));
	assert_null(sim_new(&(struct sim_config){ .nodes = (1 << 24) - 1, .form = PACKET_ROCE }));
}

/* ---- in which order, and for how much ---- */

enum { RING = 40 };

/* Two messages from each to the next but one, on links that lose, double, delay and spoil. */
static struct crowd *start_ring(uint64_t seed, int nodes)
{
	struct crowd *crowd = crowd_new(&(struct crowd_config){
		.sim = { .seed = seed, .form = PACKET_ROCE, .nodes = nodes, .trace = true,
			 .link = { .delay_ns = WTIME_US, .byte_ns = 1, .loss = 30000, .duplicate = 10000, .reorder = 10000,
				   .corrupt = 10000, .reorder_ns = 5 * WTIME_US, .room = 1 } },
		.type = IBV_QPT_RC,
	});

	for (int i = 0; i < nodes; i += 2)
		crowd_connect(crowd, i, i + 1);
	for (int i = 0; i < nodes; i++)
		for (uint32_t k = 0; k < 2; k++) {
			assert_int_equal(crowd_recv(crowd, i, 2048 + k * 1024, 1024), 0);
			assert_int_equal(crowd_send(crowd, i, i, 0, 1024), 0);
		}
	return crowd;
}

/* To look at every node before and after each thing that happens gives the same trace as to look at those that it touches. */
static void who_is_looked_at_does_not_change_the_trace(void **state)
{
	for (uint64_t seed = 1; seed <= 20; seed++) {
		struct crowd *all = start_ring(seed, RING), *touched = start_ring(seed, RING);

		while (sim_step(all->sim))
			sim_pump(all->sim);
		sim_run(touched->sim, WTIME_NEVER - 1);
		if (strcmp(sim_trace(all->sim), sim_trace(touched->sim)) != 0)
			fail_msg("seed %llu: another trace", (unsigned long long)seed);
		assert_true(touched->sim->steps == all->sim->steps);
		assert_true(touched->sim->turns < 3 * all->sim->steps + RING && all->sim->turns > RING * all->sim->steps);
		crowd_delete(all);
		crowd_delete(touched);
	}
}

static void post_once(void *arg, int node, const struct packet *p)
{
	struct crowd *crowd = arg;

	if (node != 0 || crowd->member[2].qp->sq.engine.announced)
		return;
	say(crowd, 2, 3);
	sim_touch(crowd->sim, 2);
}

static void what_is_posted_while_it_runs_leaves(void **state)
{
	struct crowd *crowd = start(IBV_QPT_RC, PACKET_IB, 4, false);

	for (int i = 0; i < 4; i += 2) {
		crowd_connect(crowd, i, i + 1);
		assert_int_equal(crowd_recv(crowd, i + 1, 1024, BYTES), 0);
	}
	crowd->sim->tap = post_once;
	crowd->sim->tap_arg = crowd;
	say(crowd, 0, 1);
	run(crowd);
	for (int i = 0; i < 4; i++)
		expect(crowd, i, i % 2 ? 1024 : 0);
	crowd_delete(crowd);
}

struct order {
	const struct sim *sim;
	wtime at;
	int node;
	unsigned frames, faults;
};

static void note_order(void *arg, int node, const struct packet *p)
{
	struct order *o = arg;

	o->faults += o->sim->now == o->at && node < o->node;
	o->at = o->sim->now;
	o->node = node;
	o->frames++;
}

/* All post at one time, in whichever order, and hear nothing, so that all timers expire at one time as well. */
static void nodes_send_in_the_order_of_their_numbers(void **state)
{
	struct crowd *crowd = start(IBV_QPT_RC, PACKET_IB, RING, false);
	struct order order = { .sim = crowd->sim };

	crowd->sim->config.link.loss = 1000000;
	crowd->sim->tap = note_order;
	crowd->sim->tap_arg = &order;
	for (int i = 0; i < RING; i += 2)
		crowd_connect(crowd, i, i + 1);
	for (int i = 0; i < RING; i++) {
		say(crowd, i * 7 % RING, 0);
		sim_touch(crowd->sim, i * 7 % RING);
	}
	run(crowd);
	assert_true(order.frames >= 4 * RING);
	assert_int_equal(order.faults, 0);
	crowd_delete(crowd);
}

/* Its timers wait with it. */
static void a_stopped_node_does_nothing(void **state)
{
	struct crowd *crowd = start(IBV_QPT_RC, PACKET_IB, 2, false);
	uint64_t steps;

	crowd_connect(crowd, 0, 1);
	assert_int_equal(crowd_recv(crowd, 1, 1024, BYTES), 0);
	crowd->sim->config.link.loss = 1000000;
	say(crowd, 0, 1);
	sim_pump(crowd->sim);
	sim_stop(crowd->sim, 0);
	steps = crowd->sim->steps;
	run(crowd);
	expect_none(crowd, 0);
	assert_true(crowd->sim->steps == steps);
	crowd->sim->config.link.loss = 0;
	sim_continue(crowd->sim, 0);
	run(crowd);
	expect(crowd, 0, 0);
	expect(crowd, 1, 1024);
	crowd_delete(crowd);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(datagrams_reach_the_node_of_their_address),
		cmocka_unit_test(connections_of_equal_numbers_are_apart),
		cmocka_unit_test(same_number_elsewhere_is_not_the_peer),
		cmocka_unit_test(stopped_node_is_found_by_its_address),
		cmocka_unit_test(more_nodes_than_addresses_are_refused),
		cmocka_unit_test(who_is_looked_at_does_not_change_the_trace),
		cmocka_unit_test(what_is_posted_while_it_runs_leaves),
		cmocka_unit_test(nodes_send_in_the_order_of_their_numbers),
		cmocka_unit_test(a_stopped_node_does_nothing),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
