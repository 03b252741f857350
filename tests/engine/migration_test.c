/* Automatic path migration: how both ends arm, what makes them migrate, and who is left alone. Each node has two addresses; the
 * first of both are the primary path, the second ones the alternate (IBA 17.2.8). */
#include "engine_test.h"

#include "wire/packet.h"

enum { ALT_TIMEOUT = 9, BYTES = 5000, PSN_A = 0xfffff0, PSN_B = 7 };

struct seen {
	unsigned migrated[2], other[2];		/* packets of each node with MigReq, and without */
};

static void look(void *arg, int node, const struct packet *p)
{
	struct seen *seen = arg;

	(p->migrated ? seen->migrated : seen->other)[node]++;
}

static struct pair *start(enum ibv_qp_type type, enum packet_form form, uint32_t loss, uint64_t seed)
{
	struct pair *pair = pair_new(&(struct pair_config){
		.sim = { .seed = seed, .form = form, .two_addresses = true, .link = { .delay_ns = WTIME_US, .loss = loss } },
		.type = type, .psn = { PSN_A, PSN_B }, .retry_cnt = 3,
	});

	pattern_fill(pair->side[0].memory, BYTES, 1);
	return pair;
}

/* The path to one of the peer's two addresses. */
static struct ibv_ah_attr path_to(const struct pair *pair, int side, bool second)
{
	const struct ca_device *us = pair->side[side].node->dev, *peer = pair->side[!side].node->dev;
	struct ibv_ah_attr ah = { .port_num = 1 };

	if (device_has(us, DEVICE_LIDS)) {
		ah.dlid = peer->lid + second;
		ah.src_path_bits = second;
		return ah;
	}
	ah.is_global = 1;
	ah.dlid = peer->lid;
	ah.grh.sgid_index = second;
	memcpy(ah.grh.dgid.raw, peer->gid[second].raw, 16);
	return ah;
}

static int load(struct pair *pair, int side, struct qp *qp, bool second, enum ibv_mig_state to)
{
	const struct ibv_qp_attr attr = {
		.alt_ah_attr = path_to(pair, side, second), .alt_port_num = 1, .alt_timeout = ALT_TIMEOUT, .path_mig_state = to,
	};

	return qp_modify(qp, pair->sim->now, &attr, IBV_QP_ALT_PATH | IBV_QP_PATH_MIG_STATE);
}

static int set_state(struct pair *pair, struct qp *qp, enum ibv_mig_state to)
{
	return qp_modify(qp, pair->sim->now, &(struct ibv_qp_attr){ .path_mig_state = to }, IBV_QP_PATH_MIG_STATE);
}

static void write_to(struct pair *pair, int side, uint32_t bytes)
{
	post_wr(pair, side, (struct pair_wr){ .wr_id = 5, .opcode = IBV_WR_RDMA_WRITE, .bytes = bytes });
	pair_run(pair);
}

static void expect_states(const struct pair *pair, enum ibv_mig_state first, enum ibv_mig_state second)
{
	assert_int_equal(pair->side[0].qp->attr.path_mig_state, first);
	assert_int_equal(pair->side[1].target->attr.path_mig_state, second);
}

static void expect_migrations(const struct pair *pair, unsigned each)
{
	for (int i = 0; i < 2; i++) {
		assert_int_equal(sim_events(pair->side[i].node, IBV_EVENT_PATH_MIG), each);
		assert_int_equal(sim_events(pair->side[i].node, IBV_EVENT_PATH_MIG_ERR), 0);
		assert_int_equal(pair->side[i].node->ca.counters.path_migrations, each);
	}
}

static void arm(struct pair *pair, bool second)
{
	assert_int_equal(load(pair, 0, pair->side[0].qp, second, IBV_MIG_REARM), 0);
	assert_int_equal(load(pair, 1, pair->side[1].target, second, IBV_MIG_REARM), 0);
	expect_states(pair, IBV_MIG_REARM, IBV_MIG_REARM);
	write_to(pair, 0, 100);
	expect_sent(pair, 0, 5, IBV_WC_SUCCESS);
	expect_states(pair, IBV_MIG_ARMED, IBV_MIG_ARMED);
}

static void queried_path_is(struct pair *pair, bool second, uint8_t timeout)
{
	struct ibv_qp_init_attr init;
	struct ibv_ah_attr want = path_to(pair, 0, second);
	struct ibv_qp_attr attr;

	assert_int_equal(qp_query(pair->side[0].qp, &attr, 0, &init), 0);
	assert_int_equal(attr.ah_attr.dlid, want.dlid);
	assert_int_equal(attr.ah_attr.src_path_bits, want.src_path_bits);
	assert_memory_equal(attr.ah_attr.grh.dgid.raw, want.grh.dgid.raw, 16);
	assert_int_equal(attr.timeout, timeout);
}

static void whoever_has_no_alternate_path_says_migrated(void **state)
{
	struct pair *pair = start(IBV_QPT_RC, PACKET_ROCE, 0, 1);
	struct seen seen = { { 0 }, { 0 } };

	pair->sim->tap = look;
	pair->sim->tap_arg = &seen;
	write_to(pair, 0, BYTES);
	expect_sent(pair, 0, 5, IBV_WC_SUCCESS);
	assert_true(seen.migrated[0] >= 5 && seen.migrated[1] >= 1);
	assert_int_equal(seen.other[0] + seen.other[1], 0);
	expect_migrations(pair, 0);
	pair_delete(pair);
}

/* Nothing happens while only one of them has loaded a path, and the wire shows it. */
static void both_must_arm(void **state)
{
	struct pair *pair = start(IBV_QPT_RC, PACKET_IB, 0, 2);
	struct seen seen = { { 0 }, { 0 } };

	pair->sim->tap = look;
	pair->sim->tap_arg = &seen;
	assert_int_equal(load(pair, 0, pair->side[0].qp, true, IBV_MIG_REARM), 0);
	write_to(pair, 0, 100);
	expect_sent(pair, 0, 5, IBV_WC_SUCCESS);
	expect_states(pair, IBV_MIG_REARM, IBV_MIG_MIGRATED);
	assert_int_equal(seen.migrated[0], 0);
	assert_int_equal(seen.other[1], 0);
	pair->sim->is_cut[0] = true;
	write_to(pair, 0, 100);
	expect_sent(pair, 0, 5, IBV_WC_RETRY_EXC_ERR);
	expect_migrations(pair, 0);
	pair_delete(pair);
}

static void retries_run_out(enum ibv_qp_type type, enum packet_form form)
{
	struct pair *pair = start(type, form, 0, 3);

	arm(pair, true);
	queried_path_is(pair, false, 8);
	pair->sim->is_cut[0] = true;
	write_to(pair, 0, BYTES);
	expect_sent(pair, 0, 5, IBV_WC_SUCCESS);
	assert_true(pattern_holds(pair->side[1].memory, BYTES, 1));
	expect_states(pair, IBV_MIG_MIGRATED, IBV_MIG_MIGRATED);
	expect_migrations(pair, 1);
	queried_path_is(pair, true, ALT_TIMEOUT);
	/* and back, when the second is cut */
	pair->sim->is_cut[0] = false;
	arm(pair, false);
	pair->sim->is_cut[1] = true;
	write_to(pair, 0, BYTES);
	expect_sent(pair, 0, 5, IBV_WC_SUCCESS);
	expect_migrations(pair, 2);
	queried_path_is(pair, false, ALT_TIMEOUT);
	/* no further: nothing was loaded since */
	pair->sim->is_cut[0] = true;
	write_to(pair, 0, BYTES);
	expect_sent(pair, 0, 5, IBV_WC_RETRY_EXC_ERR);
	expect_migrations(pair, 2);
	pair_delete(pair);
}

static void exhausted_retries_migrate(void **state)
{
	retries_run_out(IBV_QPT_RC, PACKET_IB);
	retries_run_out(IBV_QPT_RC, PACKET_ROCE);
	retries_run_out(IBV_QPT_XRC_SEND, PACKET_IB);
}

/* The new path's retries are all there: two packets in a row may be lost as often as before. */
static void alternate_path_has_all_its_retries(void **state)
{
	struct pair *pair = start(IBV_QPT_RC, PACKET_ROCE, 0, 4);
	uint32_t sent;

	arm(pair, true);
	pair->sim->is_cut[0] = pair->sim->is_cut[1] = true;
	sent = pair->side[0].node->sent;
	write_to(pair, 0, 100);
	expect_sent(pair, 0, 5, IBV_WC_RETRY_EXC_ERR);
	/* one and three more by each path, probes apart */
	assert_int_equal(pair->side[0].node->sent - sent - pair->side[0].node->ca.counters.probes, 8);
	assert_int_equal(pair->side[0].node->ca.counters.path_migrations, 1);
	assert_int_equal(sim_events(pair->side[1].node, IBV_EVENT_PATH_MIG), 0);
	pair_delete(pair);
}

/* The peer is in the midst of sending by the old path, which holds until it has heard. */
static void consumer_migrates(enum ibv_qp_type type, enum packet_form form)
{
	struct pair *pair = start(type, form, 0, 5);

	assert_int_equal(load(pair, 0, pair->side[0].qp, true, IBV_MIG_REARM), 0);
	assert_int_equal(load(pair, 1, pair->side[1].qp, true, IBV_MIG_REARM), 0);
	for (int side = 0; side < 2; side++) {	/* UC arms with what its peer sends */
		write_to(pair, side, 100);
		expect_sent(pair, side, 5, IBV_WC_SUCCESS);
	}
	write_to(pair, 0, 100);
	expect_sent(pair, 0, 5, IBV_WC_SUCCESS);
	expect_states(pair, IBV_MIG_ARMED, IBV_MIG_ARMED);
	assert_int_equal(set_state(pair, pair->side[0].qp, IBV_MIG_MIGRATED), 0);
	pattern_fill(pair->side[1].memory, BYTES, 2);
	write_to(pair, 1, BYTES);
	expect_sent(pair, 1, 5, IBV_WC_SUCCESS);
	assert_true(pattern_holds(pair->side[0].memory, BYTES, 2));
	assert_int_equal(pair->side[1].node->ca.counters.completer_retry_err, 0);
	if (type == IBV_QPT_UC) {	/* its peer has said nothing yet */
		expect_states(pair, IBV_MIG_MIGRATED, IBV_MIG_ARMED);
		write_to(pair, 0, 100);
		expect_sent(pair, 0, 5, IBV_WC_SUCCESS);
	}
	expect_states(pair, IBV_MIG_MIGRATED, IBV_MIG_MIGRATED);
	expect_migrations(pair, 1);
	/* the peer has moved: what comes by the old path from now on is not its */
	write_to(pair, 1, 100);
	expect_sent(pair, 1, 5, IBV_WC_SUCCESS);
	assert_false(pair->side[0].qp->migration->has_left);
	pair_delete(pair);
}

static void consumers_migrate(void **state)
{
	consumer_migrates(IBV_QPT_RC, PACKET_IB);
	consumer_migrates(IBV_QPT_RC, PACKET_ROCE);
	consumer_migrates(IBV_QPT_UC, PACKET_ROCE);
}

/* 10.9.3: the alternate path may be of another partition; what still comes by the old one is of the old. */
static void each_path_has_its_partition(void **state)
{
	struct pair *pair = start(IBV_QPT_RC, PACKET_IB, 0, 8);

	(void)state;
	for (int i = 0; i < 2; i++) {
		struct ca_device *dev = pair->side[i].node->dev;
		struct ibv_qp_attr attr = {
			.alt_ah_attr = path_to(pair, i, true), .alt_port_num = 1, .alt_timeout = ALT_TIMEOUT, .alt_pkey_index = 1,
			.path_mig_state = IBV_MIG_REARM,
		};

		dev->attr.orig_attr.max_pkeys = 2;
		dev->pkey[1] = 0x8002;
		assert_int_equal(qp_modify(pair->side[i].qp, pair->sim->now, &attr, IBV_QP_ALT_PATH | IBV_QP_PATH_MIG_STATE), 0);
	}
	write_to(pair, 0, 100);
	expect_sent(pair, 0, 5, IBV_WC_SUCCESS);
	assert_int_equal(set_state(pair, pair->side[0].qp, IBV_MIG_MIGRATED), 0);
	assert_int_equal(pair->side[0].qp->attr.pkey_index, 1);
	write_to(pair, 1, BYTES);
	expect_sent(pair, 1, 5, IBV_WC_SUCCESS);
	assert_int_equal(pair->side[1].node->ca.counters.completer_retry_err, 0);
	expect_states(pair, IBV_MIG_MIGRATED, IBV_MIG_MIGRATED);
	write_to(pair, 1, BYTES);
	expect_sent(pair, 1, 5, IBV_WC_SUCCESS);
	assert_int_equal(pair->side[1].qp->attr.pkey_index, 1);
	pair_delete(pair);
}

/* The peer has armed with another alternate path: it says so once, and does not migrate. */
static void other_alternate_path_is_refused(void **state)
{
	struct pair *pair = start(IBV_QPT_RC, PACKET_ROCE, 0, 6);
	struct qp *peer = pair->side[1].qp;

	assert_int_equal(load(pair, 0, pair->side[0].qp, true, IBV_MIG_REARM), 0);
	assert_int_equal(load(pair, 1, peer, false, IBV_MIG_REARM), 0);
	write_to(pair, 0, 100);
	expect_sent(pair, 0, 5, IBV_WC_SUCCESS);
	expect_states(pair, IBV_MIG_ARMED, IBV_MIG_ARMED);
	assert_int_equal(set_state(pair, pair->side[0].qp, IBV_MIG_MIGRATED), 0);
	write_to(pair, 0, 100);
	expect_sent(pair, 0, 5, IBV_WC_RETRY_EXC_ERR);
	assert_int_equal(sim_events(pair->side[1].node, IBV_EVENT_PATH_MIG_ERR), 1);
	assert_int_equal(sim_events(pair->side[1].node, IBV_EVENT_PATH_MIG), 0);
	assert_int_equal(peer->attr.path_mig_state, IBV_MIG_ARMED);
	assert_int_equal(peer->state, IBV_QPS_RTS);
	pair_delete(pair);
}

static void values_are_checked(void **state)
{
	struct pair *pair = start(IBV_QPT_RC, PACKET_ROCE, 0, 7);
	struct qp *qp = pair->side[0].qp;
	struct ibv_qp_attr attr = { .alt_ah_attr = path_to(pair, 0, true), .alt_port_num = 2 };

	assert_true(pair->side[0].node->dev->attr.orig_attr.device_cap_flags & IBV_DEVICE_AUTO_PATH_MIG);
	assert_int_equal(set_state(pair, qp, IBV_MIG_REARM), -EINVAL);	/* nothing was loaded */
	assert_int_equal(set_state(pair, qp, IBV_MIG_ARMED), -EINVAL);
	assert_int_equal(set_state(pair, qp, IBV_MIG_MIGRATED), 0);
	assert_int_equal(qp_modify(qp, 1, &attr, IBV_QP_ALT_PATH), -EINVAL);
	attr.alt_port_num = 1;
	attr.alt_timeout = 32;
	assert_int_equal(qp_modify(qp, 1, &attr, IBV_QP_ALT_PATH), -EINVAL);
	attr.alt_timeout = 31;
	attr.alt_pkey_index = 1;
	assert_int_equal(qp_modify(qp, 1, &attr, IBV_QP_ALT_PATH), -EINVAL);
	attr.alt_pkey_index = 0;
	attr.alt_ah_attr.grh.sgid_index = 2;
	assert_int_equal(qp_modify(qp, 1, &attr, IBV_QP_ALT_PATH), -EINVAL);
	assert_null(qp->migration);
	attr.alt_ah_attr.grh.sgid_index = 1;
	assert_int_equal(qp_modify(qp, 1, &attr, IBV_QP_ALT_PATH), 0);
	assert_int_equal(qp->attr.path_mig_state, IBV_MIG_MIGRATED);
	assert_int_equal(set_state(pair, qp, IBV_MIG_REARM), 0);
	assert_int_equal(set_state(pair, qp, IBV_MIG_MIGRATED), -EINVAL);
	assert_int_equal(set_state(pair, qp, IBV_MIG_REARM), 0);
	assert_int_equal(load(pair, 1, pair->side[1].qp, true, IBV_MIG_REARM), 0);
	write_to(pair, 0, 100);
	assert_int_equal(qp->attr.path_mig_state, IBV_MIG_ARMED);
	assert_int_equal(set_state(pair, qp, IBV_MIG_REARM), -EINVAL);
	assert_int_equal(qp_modify(qp, 1, &(struct ibv_qp_attr){ .qp_state = IBV_QPS_RESET }, IBV_QP_STATE), 0);
	assert_null(qp->migration);
	pair_delete(pair);
}

/* Whatever is lost, and whenever the path is cut: each write arrives, and each end migrates once. */
static void cut_at_any_time(void **state)
{
	for (uint64_t seed = 1; seed <= 300; seed++) {
		struct pair *pair = start(IBV_QPT_RC, seed % 2 ? PACKET_IB : PACKET_ROCE, 20000, seed);
		struct rand rand;

		rand_seed(&rand, seed);
		arm(pair, true);
		for (uint32_t i = 0; i < 8; i++)
			post_wr(pair, 0, (struct pair_wr){ .wr_id = i, .bytes = BYTES,
				.opcode = i % 3 ? IBV_WR_RDMA_WRITE : IBV_WR_RDMA_READ, .local = i % 3 ? 0 : 8192 });
		for (uint64_t steps = rand_below(&rand, 60); steps && sim_step(pair->sim); steps--)
			;
		pair->sim->is_cut[0] = true;
		pattern_fill(pair->side[1].memory, BYTES, 3);
		post_wr(pair, 1, (struct pair_wr){ .wr_id = 9, .opcode = IBV_WR_RDMA_WRITE, .local = 0, .remote = 16384,
						   .bytes = 1000 });
		pair_run(pair);
		for (uint32_t i = 0; i < 8; i++)
			expect_sent(pair, 0, i, IBV_WC_SUCCESS);
		expect_sent(pair, 1, 9, IBV_WC_SUCCESS);
		expect_states(pair, IBV_MIG_MIGRATED, IBV_MIG_MIGRATED);
		expect_migrations(pair, 1);
		pair_delete(pair);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(whoever_has_no_alternate_path_says_migrated), cmocka_unit_test(both_must_arm),
		cmocka_unit_test(exhausted_retries_migrate), cmocka_unit_test(alternate_path_has_all_its_retries),
		cmocka_unit_test(consumers_migrate), cmocka_unit_test(each_path_has_its_partition),
		cmocka_unit_test(other_alternate_path_is_refused),
		cmocka_unit_test(values_are_checked), cmocka_unit_test(cut_at_any_time),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
