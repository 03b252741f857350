/* Every allocation fails once: whatever is being made does without it, or says -ENOMEM and can be made right afterwards, and
 * nothing is lost. */
#include "engine_test.h"

#include "../allocator.h"
#include "direct/share.h"
#include "mgmt/cm.h"

#include <fcntl.h>

enum { NEVER = 0, TRIES_MOST = 1000 };

/* All that the steps below make, each from what stands before it. */
static struct {
	struct sim *sim;
	struct pd *pd;
	struct cq *cq;
	struct mr *mr, *mw;
	struct xrcd *xrcd;
	struct srq *srq, *xrc_srq;
	struct qp *qp[3];
	struct cm cm;
	struct cm_id *cm_id[2];
	struct share share;
} world;

static uint8_t memory[4096];
static struct share_memory share_memory;

static int make_sim(void)
{
	struct sim_config config = { .nodes = 1, .mtu = IBV_MTU_1024, .arena_bytes = 1 << 20 };

	world.sim = sim_new(&config);
	return world.sim ? 0 : -ENOMEM;
}

static int delete_sim(void)
{
	sim_delete(world.sim);
	return 0;
}

static struct sim_node *node(void)
{
	return &world.sim->node[0];
}

static int make_pd(void)
{
	return pd_create(&node()->ca, node()->dev, &world.pd);
}

static int delete_pd(void)
{
	return pd_destroy(world.pd);
}

static int make_cq(void)
{
	return cq_create(&node()->ca, node()->dev, 64, &world.cq);
}

static int delete_cq(void)
{
	return cq_destroy(world.cq);
}

static int make_mr(void)
{
	return mr_create(world.pd, memory, sizeof(memory), PAIR_IOVA, PAIR_ACCESS, &world.mr);
}

static int delete_mr(void)
{
	return mr_destroy(world.mr);
}

static int make_mw(void)
{
	return mw_create(world.pd, IBV_MW_TYPE_2, &world.mw);
}

static int delete_mw(void)
{
	return mw_destroy(world.mw);
}

static int make_xrcd(void)
{
	return xrcd_open(&node()->ca, node()->dev, 1, 2, O_CREAT, &world.xrcd);
}

static int delete_xrcd(void)
{
	return xrcd_close(world.xrcd);
}

static int make_srq(void)
{
	struct ibv_srq_init_attr_ex attr = { .attr = { .max_wr = 8, .max_sge = 2 } };

	return srq_create(world.pd, &attr, NULL, NULL, &world.srq);
}

static int delete_srq(void)
{
	return srq_destroy(world.srq);
}

static int make_xrc_srq(void)
{
	struct ibv_srq_init_attr_ex attr = {
		.attr = { .max_wr = 8, .max_sge = 2 }, .srq_type = IBV_SRQT_XRC,
		.comp_mask = IBV_SRQ_INIT_ATTR_TYPE | IBV_SRQ_INIT_ATTR_XRCD | IBV_SRQ_INIT_ATTR_CQ | IBV_SRQ_INIT_ATTR_PD,
	};

	return srq_create(world.pd, &attr, world.xrcd, world.cq, &world.xrc_srq);
}

static int delete_xrc_srq(void)
{
	return srq_destroy(world.xrc_srq);
}

static int make_qp(enum ibv_qp_type type, struct srq *srq, struct qp **qp)
{
	struct ibv_qp_init_attr_ex attr = {
		.qp_type = type,
		.cap = { .max_send_wr = 8, .max_recv_wr = 8, .max_send_sge = 2, .max_recv_sge = 2, .max_inline_data = 64 },
	};

	return qp_create(&node()->ca, node()->dev, &attr, world.pd, world.cq, world.cq, srq, NULL, qp);
}

static int make_rc(void)
{
	return make_qp(IBV_QPT_RC, NULL, &world.qp[0]);
}

static int delete_rc(void)
{
	return qp_destroy(world.qp[0]);
}

static int make_rc_with_srq(void)
{
	return make_qp(IBV_QPT_RC, world.srq, &world.qp[1]);
}

static int delete_rc_with_srq(void)
{
	return qp_destroy(world.qp[1]);
}

static int make_ud(void)
{
	return make_qp(IBV_QPT_UD, NULL, &world.qp[2]);
}

static int delete_ud(void)
{
	return qp_destroy(world.qp[2]);
}

/* Resources of a responder come with its path. */
static int connect_rc(void)
{
	struct ibv_qp_attr init = { .qp_state = IBV_QPS_INIT, .port_num = 1 };
	struct ibv_qp_attr rtr = {
		.qp_state = IBV_QPS_RTR, .path_mtu = IBV_MTU_1024, .dest_qp_num = world.qp[1]->qpn, .max_dest_rd_atomic = 4,
		.ah_attr = { .dlid = node()->dev->lid, .port_num = 1 },
	};
	int err = 0;

	if (world.qp[0]->state == IBV_QPS_RESET)
		err = qp_modify(world.qp[0], world.sim->now, &init,
				IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS);
	if (err)
		return err;
	return qp_modify(world.qp[0], world.sim->now, &rtr, IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN |
			 IBV_QP_RQ_PSN | IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER);
}

static int make_cm(void)
{
	struct cm_config config = { .slot = 5, .max_ids = 4 };

	return cm_init(&world.cm, &config);
}

static int delete_cm(void)
{
	cm_fini(&world.cm);
	return 0;
}

static int make_cm_id(void)
{
	world.cm_id[0] = cm_id_create(&world.cm, NULL);
	return world.cm_id[0] ? 0 : -ENOMEM;
}

static int make_export(void)
{
	memset(&share_memory, 0, sizeof(share_memory));
	return share_init(&world.share, &share_memory);
}

static int delete_export(void)
{
	share_fini(&world.share);
	return 0;
}

static int delete_nothing(void)
{
	return 0;
}

static const struct step {
	const char *name;
	int (*make)(void);
	int (*unmake)(void);
} steps[] = {
	{ "simulator and adapter", make_sim, delete_sim },
	{ "PD", make_pd, delete_pd },
	{ "CQ", make_cq, delete_cq },
	{ "MR", make_mr, delete_mr },
	{ "MW", make_mw, delete_mw },
	{ "XRC domain", make_xrcd, delete_xrcd },
	{ "SRQ", make_srq, delete_srq },
	{ "XRC SRQ", make_xrc_srq, delete_xrc_srq },
	{ "RC QP", make_rc, delete_rc },
	{ "RC QP with SRQ", make_rc_with_srq, delete_rc_with_srq },
	{ "UD QP", make_ud, delete_ud },
	{ "responder's resources", connect_rc, delete_nothing },
	{ "CM", make_cm, delete_cm },
	{ "CM id", make_cm_id, delete_nothing },
	{ "export", make_export, delete_export },
};

enum { STEPS = sizeof(steps) / sizeof(steps[0]) };

/* Makes one thing while its n-th allocation fails, and again if that was in its way. True: there was an n-th. */
static bool make_failing(const struct step *s, unsigned n)
{
	bool failed;
	int err;

	allocator.fail_at = n;
	err = s->make();
	failed = allocator.fail_at == 0;
	allocator.fail_at = NEVER;
	if (err != 0 && (err != -ENOMEM || !failed))
		fail_msg("%s: allocation %u %s, and it says %d", s->name, n, failed ? "failed" : "succeeded", err);
	if (err && s->make() != 0)
		fail_msg("%s: cannot be made after allocation %u failed", s->name, n);
	return failed;
}

/* Everything in order, and the i-th with a failure; then all of it away. */
static bool build(unsigned which, unsigned n)
{
	bool failed = false;
	long before = allocator.held;

	for (unsigned i = 0; i < STEPS; i++) {
		if (i == which)
			failed = make_failing(&steps[i], n);
		else
			assert_int_equal(steps[i].make(), 0);
	}
	for (unsigned i = STEPS; i--; )
		assert_int_equal(steps[i].unmake(), 0);
	if (allocator.held != before)
		fail_msg("%s: %ld allocations are lost after the %uth failed", steps[which].name, allocator.held - before, n);
	return failed;
}

static void every_failure_is_clean(void **state)
{
	for (unsigned i = 0; i < STEPS; i++) {
		unsigned n = 1;

		while (build(i, n))
			assert_true(++n < TRIES_MOST);
		print_message("%s: %u allocations\n", steps[i].name, n - 1);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = { cmocka_unit_test(every_failure_is_clean) };

	return cmocka_run_group_tests(tests, NULL, NULL);
}
