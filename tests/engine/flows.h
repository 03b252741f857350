/* Flows of WRITEs from many hosts to one, over a switch: node 0 receives, node n sends flow n - 1. */
#ifndef WEFT_TESTS_ENGINE_FLOWS_H
#define WEFT_TESTS_ENGINE_FLOWS_H

#include "engine_test.h"

#include "ib/engine.h"
#include "ib/ib.h"
#include "sim.h"

#include <stdlib.h>
#include <string.h>

enum { FLOWS_MOST = 32, FLOW_MESSAGE = 64 << 10, FLOW_DEPTH = 8 };

#define FLOW_IOVA 0x100000ull

struct flow_end {
	struct sim_node *node;
	struct pd *pd;
	struct cq *cq;
	struct mr *mr;
	struct qp *qp;
};

struct flows {
	struct sim *sim;
	unsigned n;
	uint8_t *memory;		/* owned; everybody's */
	struct pd *pd;			/* of node 0, as its region */
	struct mr *mr;
	struct {
		struct flow_end from, to;
		enum ibv_wr_opcode opcode;
		uint32_t bytes;		/* of a message */
		bool runs;
		unsigned posted, done;
	} flow[FLOWS_MOST];
};

struct flows_config {
	struct sim_config sim;		/* nodes, form, mtu are filled here */
	unsigned n;
	enum ibv_mtu mtu;
};

static inline void flows_end_init(struct flows *f, int node, struct flow_end *e, struct pd *pd, struct mr *mr,
				  const struct ib_options *options)
{
	struct ibv_qp_init_attr_ex attr = {
		.qp_type = IBV_QPT_RC, .sq_sig_all = 1,
		.cap = { .max_send_wr = 2 * FLOW_DEPTH, .max_recv_wr = 1, .max_send_sge = 1, .max_recv_sge = 1 },
	};

	e->node = &f->sim->node[node];
	e->pd = pd;
	e->mr = mr;
	if (!pd) {
		assert_int_equal(pd_create(&e->node->ca, e->node->dev, &e->pd), 0);
		assert_int_equal(mr_create(e->pd, f->memory, FLOW_MESSAGE, FLOW_IOVA, IBV_ACCESS_LOCAL_WRITE, &e->mr), 0);
	}
	assert_int_equal(cq_create(&e->node->ca, e->node->dev, 4 * FLOW_DEPTH, &e->cq), 0);
	assert_int_equal(qp_create(&e->node->ca, e->node->dev, &attr, e->pd, e->cq, e->cq, NULL, NULL, &e->qp), 0);
	assert_int_equal(ib_set_options(e->qp, options), 0);
}

static inline void flows_bring_up(struct flows *f, const struct flow_end *e, const struct flow_end *peer, enum ibv_mtu mtu)
{
	struct ibv_qp_attr attr = {
		.qp_state = IBV_QPS_INIT, .port_num = 1, .path_mtu = mtu, .dest_qp_num = peer->qp->qpn, .max_rd_atomic = 4,
		.max_dest_rd_atomic = 4, .timeout = 14, .retry_cnt = 7, .rnr_retry = 7, .min_rnr_timer = 1,
		.qp_access_flags = IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ,
		.ah_attr = { .port_num = 1, .is_global = 1, .grh.hop_limit = 64 },
	};

	memcpy(attr.ah_attr.grh.dgid.raw, peer->node->dev->gid[0].raw, 16);
	assert_int_equal(qp_modify(e->qp, f->sim->now, &attr, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT |
				   IBV_QP_ACCESS_FLAGS), 0);
	attr.qp_state = IBV_QPS_RTR;
	assert_int_equal(qp_modify(e->qp, f->sim->now, &attr, IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN |
				   IBV_QP_RQ_PSN | IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER), 0);
	attr.qp_state = IBV_QPS_RTS;
	assert_int_equal(qp_modify(e->qp, f->sim->now, &attr, IBV_QP_STATE | IBV_QP_SQ_PSN | IBV_QP_TIMEOUT |
				   IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY | IBV_QP_MAX_QP_RD_ATOMIC), 0);
}

/* Flow i has the options of its ends; by default everybody's. */
static inline void flows_init(struct flows *f, const struct flows_config *config,
			      const struct ib_options *(*options)(unsigned flow, bool sends))
{
	struct sim_config sim = config->sim;
	const int access = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ;

	*f = (struct flows){ .n = config->n, .memory = calloc(1, FLOW_MESSAGE) };
	sim.nodes = 1 + (int)config->n;
	sim.form = PACKET_ROCE;
	sim.mtu = config->mtu;
	sim.is_network = true;
	sim.arena_bytes = 1 << 20;
	f->sim = sim_new(&sim);
	assert_true(f->sim && f->memory);
	assert_int_equal(pd_create(&f->sim->node[0].ca, f->sim->node[0].dev, &f->pd), 0);
	assert_int_equal(mr_create(f->pd, f->memory, FLOW_MESSAGE, FLOW_IOVA, access, &f->mr), 0);
	for (unsigned i = 0; i < f->n; i++) {
		const struct ib_options *from = options ? options(i, true) : &ib_default_options;
		const struct ib_options *to = options ? options(i, false) : &ib_default_options;

		f->flow[i].opcode = IBV_WR_RDMA_WRITE;
		f->flow[i].bytes = FLOW_MESSAGE;
		f->flow[i].runs = true;
		flows_end_init(f, 1 + (int)i, &f->flow[i].from, NULL, NULL, from);
		flows_end_init(f, 0, &f->flow[i].to, f->pd, f->mr, to);
		flows_bring_up(f, &f->flow[i].from, &f->flow[i].to, config->mtu);
		flows_bring_up(f, &f->flow[i].to, &f->flow[i].from, config->mtu);
	}
}

static inline void flows_fini(struct flows *f)
{
	sim_delete(f->sim);
	free(f->memory);
}

static inline void flows_post(struct flows *f, unsigned i)
{
	struct flow_end *from = &f->flow[i].from;
	struct ibv_sge sge = { FLOW_IOVA, f->flow[i].bytes, from->mr->key };
	struct ibv_send_wr *bad, wr = {
		.opcode = f->flow[i].opcode, .sg_list = &sge, .num_sge = 1,
		.wr.rdma = { .remote_addr = FLOW_IOVA, .rkey = f->mr->key },
	};

	assert_int_equal(qp_post_send(from->qp, f->sim->now, &wr, &bad), 0);
	f->flow[i].posted++;
	sim_touch(f->sim, 1 + (int)i);
}

static inline void flows_refill(struct flows *f)
{
	for (unsigned i = 0; i < f->n; i++) {
		struct cqe cqe;

		while (cq_poll(f->flow[i].from.cq, &cqe)) {
			assert_int_equal(cqe.status, IBV_WC_SUCCESS);
			f->flow[i].done++;
		}
		while (f->flow[i].runs && f->flow[i].posted - f->flow[i].done < FLOW_DEPTH)
			flows_post(f, i);
	}
}

/* All flows that run have something to send until then. */
static inline void flows_run(struct flows *f, wtime until)
{
	while (f->sim->now < until) {
		wtime step = f->sim->now + 20 * WTIME_US;

		flows_refill(f);
		sim_run(f->sim, step < until ? step : until);
		if (f->sim->now < step)
			sim_advance(f->sim, (step < until ? step : until) - f->sim->now);
	}
}

/* Payload that the flow has delivered. */
static inline uint64_t flows_bytes(const struct flows *f, unsigned i)
{
	return f->flow[i].to.qp->bytes_received;
}

#endif
