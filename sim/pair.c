/* Setting up and using pairs of QPs. */
#include "pair.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_PIECES = 8, RUN_SECONDS_MAX = 100 };

#define MUST(call) do { if ((call) < 0) abort(); } while (0)
#define DEFAULT(member, value) do { if (!c->member) c->member = (value); } while (0)

static void fill_defaults(struct pair_config *c)
{
	DEFAULT(sim.nodes, 2);
	DEFAULT(sim.mtu, IBV_MTU_4096);
	DEFAULT(sim.link.delay_ns, 1 * WTIME_US);
	DEFAULT(type, IBV_QPT_RC);
	DEFAULT(mtu, IBV_MTU_1024);
	DEFAULT(memory_bytes, 64 << 10);
	DEFAULT(sends, 32);
	DEFAULT(recvs, 32);
	DEFAULT(sges, 4);
	DEFAULT(timeout, 8);
	DEFAULT(rd_atomic, 4);
	DEFAULT(dest_rd_atomic, c->rd_atomic);
	DEFAULT(qp_access, IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC);
	if (c->qp_access < 0)
		c->qp_access = 0;
	if (!c->options.window_pkts)
		c->options = ib_default_options;
}

static void fill_path(const struct pair *pair, int side, struct ibv_ah_attr *ah)
{
	const struct ca_device *peer = pair->side[!side].node->dev;

	*ah = (struct ibv_ah_attr){ .dlid = peer->lid, .port_num = 1 };
	if (!pair->config.with_grh && !device_has(peer, DEVICE_GRH_REQUIRED))
		return;
	ah->is_global = 1;
	ah->grh.hop_limit = 64;
	memcpy(ah->grh.dgid.raw, peer->gid[0].raw, sizeof(ah->grh.dgid.raw));
}

static int to_init(struct pair *pair, struct qp *qp)
{
	struct ibv_qp_attr attr = {
		.qp_state = IBV_QPS_INIT, .port_num = 1, .qkey = 0x1234, .qp_access_flags = (unsigned)pair->config.qp_access,
	};
	int mask = IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | (qp->type == IBV_QPT_UD ? IBV_QP_QKEY : IBV_QP_ACCESS_FLAGS);

	return qp_modify(qp, pair->sim->now, &attr, mask);
}

static int to_rtr(struct pair *pair, int side, struct qp *qp, struct qp *remote)
{
	const struct pair_config *c = &pair->config;
	struct ibv_qp_attr attr = {
		.qp_state = IBV_QPS_RTR, .path_mtu = c->mtu, .dest_qp_num = remote->qpn, .rq_psn = c->psn[!side],
		.max_dest_rd_atomic = c->dest_rd_atomic, .min_rnr_timer = c->min_rnr_timer,
	};
	int mask = IBV_QP_STATE;

	fill_path(pair, side, &attr.ah_attr);
	if (qp->type != IBV_QPT_UD)
		mask |= IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN;
	if (qp->type == IBV_QPT_RC || qp->type == IBV_QPT_XRC_RECV)
		mask |= IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER;
	return qp_modify(qp, pair->sim->now, &attr, mask);
}

static int to_rts(struct pair *pair, int side, struct qp *qp)
{
	const struct pair_config *c = &pair->config;
	struct ibv_qp_attr attr = {
		.qp_state = IBV_QPS_RTS, .sq_psn = c->psn[side], .timeout = c->timeout, .retry_cnt = c->retry_cnt,
		.rnr_retry = c->rnr_retry, .max_rd_atomic = c->rd_atomic,
	};
	int mask = IBV_QP_STATE | IBV_QP_SQ_PSN;

	if (qp->type == IBV_QPT_RC || qp->type == IBV_QPT_XRC_SEND)
		mask |= IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY | IBV_QP_MAX_QP_RD_ATOMIC;
	else if (qp->type == IBV_QPT_XRC_RECV)
		mask |= IBV_QP_TIMEOUT;
	return qp_modify(qp, pair->sim->now, &attr, mask);
}

int pair_connect(struct pair *pair, int side, struct qp *qp, struct qp *remote, enum ibv_qp_state to)
{
	int err = 0;

	if (qp->state == IBV_QPS_RESET)
		err = to_init(pair, qp);
	if (err == 0 && to >= IBV_QPS_RTR && qp->state == IBV_QPS_INIT)
		err = to_rtr(pair, side, qp, remote);
	if (err == 0 && to >= IBV_QPS_RTS)
		err = to_rts(pair, side, qp);
	return err;
}

static void make_srq(struct pair *pair, struct pair_side *s)
{
	const struct pair_config *c = &pair->config;
	struct ibv_srq_init_attr_ex attr = {
		.attr = { .max_wr = c->recvs, .max_sge = c->sges }, .comp_mask = IBV_SRQ_INIT_ATTR_TYPE,
	};

	attr.srq_type = c->type == IBV_QPT_XRC_SEND ? IBV_SRQT_XRC : IBV_SRQT_BASIC;
	if (attr.srq_type == IBV_SRQT_XRC) {
		attr.comp_mask |= IBV_SRQ_INIT_ATTR_XRCD | IBV_SRQ_INIT_ATTR_CQ | IBV_SRQ_INIT_ATTR_PD;
		MUST(xrcd_open(&s->node->ca, s->node->dev, 0, 0, O_CREAT, &s->xrcd));
	}
	MUST(srq_create(s->pd, &attr, s->xrcd, s->xrcd ? s->recv_cq : NULL, &s->srq));
}

static struct qp *make_qp(struct pair *pair, struct pair_side *s, enum ibv_qp_type type)
{
	const struct pair_config *c = &pair->config;
	struct ibv_qp_init_attr_ex attr = {
		.qp_type = type, .sq_sig_all = !c->unsignaled,
		.cap = { .max_send_wr = c->sends, .max_recv_wr = c->recvs, .max_send_sge = c->sges, .max_recv_sge = c->sges,
			 .max_inline_data = 128 },
	};
	struct srq *srq = type == IBV_QPT_XRC_SEND || type == IBV_QPT_XRC_RECV ? NULL : s->srq;
	struct ib_options options = c->options;
	struct qp *qp;

	MUST(qp_create(&s->node->ca, s->node->dev, &attr, s->pd, s->send_cq, s->recv_cq, srq, s->xrcd, &qp));
	options.selective_repeat &= !(c->stranger && s == &pair->side[1]);
	MUST(ib_set_options(qp, &options));
	return qp;
}

static void make_side(struct pair *pair, int side)
{
	const struct pair_config *c = &pair->config;
	struct pair_side *s = &pair->side[side];
	int cqes = (int)(c->cqes ? c->cqes : 2 * (c->sends + c->recvs) + 64);

	s->node = &pair->sim->node[side];
	s->node->ca.seed_cq_profile = c->options.profile == IB_SEED;
	s->memory = calloc(1, c->memory_bytes);
	if (!s->memory)
		abort();
	MUST(pd_create(&s->node->ca, s->node->dev, &s->pd));
	MUST(cq_create(&s->node->ca, s->node->dev, cqes, &s->send_cq));
	MUST(cq_create(&s->node->ca, s->node->dev, cqes, &s->recv_cq));
	MUST(mr_create(s->pd, s->memory, c->memory_bytes, PAIR_IOVA, PAIR_ACCESS, &s->mr));
	if (c->shared_receives || c->type == IBV_QPT_XRC_SEND)
		make_srq(pair, s);
	s->qp = make_qp(pair, s, c->type);
	s->target = c->type == IBV_QPT_XRC_SEND ? make_qp(pair, s, IBV_QPT_XRC_RECV) : s->qp;
	s->target_qpn = s->target->qpn;
}

struct pair *pair_new(const struct pair_config *config)
{
	struct pair *pair = calloc(1, sizeof(*pair));

	if (!pair)
		abort();
	pair->config = *config;
	fill_defaults(&pair->config);
	pair->sim = sim_new(&pair->config.sim);
	if (!pair->sim)
		abort();
	for (int i = 0; i < 2; i++)
		make_side(pair, i);
	for (int i = 0; i < 2; i++) {
		struct pair_side *s = &pair->side[i], *peer = &pair->side[!i];

		MUST(pair_connect(pair, i, s->qp, peer->target, IBV_QPS_RTS));
		if (s->target != s->qp)
			MUST(pair_connect(pair, i, s->target, peer->qp, IBV_QPS_RTS));
	}
	return pair;
}

void pair_delete(struct pair *pair)
{
	sim_delete(pair->sim);
	free(pair->side[0].memory);
	free(pair->side[1].memory);
	free(pair);
}

static int cut(const struct pair_side *s, uint32_t local, uint32_t bytes, uint32_t pieces, struct ibv_sge *sge)
{
	uint32_t each;

	if (!pieces)
		pieces = 1;
	each = bytes / pieces;
	for (uint32_t i = 0; i < pieces; i++) {
		uint32_t n = i == pieces - 1 ? bytes - i * each : each;

		sge[i] = (struct ibv_sge){ PAIR_IOVA + local + i * each, n, s->mr->key };
	}
	return bytes ? (int)pieces : 0;
}

static bool is_atomic(enum ibv_wr_opcode opcode)
{
	return opcode == IBV_WR_ATOMIC_CMP_AND_SWP || opcode == IBV_WR_ATOMIC_FETCH_AND_ADD;
}

static void fill_target(struct pair *pair, int side, const struct pair_wr *from, struct ibv_send_wr *wr)
{
	const struct pair_side *peer = &pair->side[!side];
	uint64_t va = PAIR_IOVA + from->remote;
	uint32_t rkey = from->rkey ? from->rkey : peer->mr->key;

	if (is_atomic(from->opcode)) {
		wr->wr.atomic.remote_addr = va;
		wr->wr.atomic.rkey = rkey;
		wr->wr.atomic.compare_add = from->compare_add;
		wr->wr.atomic.swap = from->swap;
	} else {
		wr->wr.rdma.remote_addr = va;
		wr->wr.rdma.rkey = rkey;
	}
	if (pair->config.type == IBV_QPT_XRC_SEND)
		wr->qp_type.xrc.remote_srqn = peer->srq->srqn;
}

int pair_send(struct pair *pair, int side, const struct pair_wr *from)
{
	struct pair_side *s = &pair->side[side];
	struct ibv_sge sge[MAX_PIECES];
	struct ibv_send_wr *bad, wr = {
		.wr_id = from->wr_id, .opcode = from->opcode, .send_flags = from->flags, .sg_list = sge,
		.num_sge = cut(s, from->local, from->bytes, from->pieces, sge),
		.imm_data = from->opcode == IBV_WR_SEND_WITH_INV ? from->imm : htobe32(from->imm),
	};
	struct ah ah = { .pd = s->pd };
	int err;

	/* what is taken at once is taken from where it is, not from where the region says that it is */
	for (int i = 0; from->flags & IBV_SEND_INLINE && i < wr.num_sge; i++)
		sge[i].addr += (uintptr_t)s->memory - PAIR_IOVA;
	if (pair->config.type == IBV_QPT_UD) {
		struct ibv_ah_attr attr;

		fill_path(pair, side, &attr);
		MUST(av_from_attr(s->node->dev, &attr, &ah.av));
		wr.wr.ud.ah = &ah.ibv;
		wr.wr.ud.remote_qpn = pair->side[!side].target_qpn;
		wr.wr.ud.remote_qkey = 0x1234;
	} else {
		fill_target(pair, side, from, &wr);
	}
	err = qp_post_send(s->qp, pair->sim->now, &wr, &bad);
	sim_pump(pair->sim);
	return err;
}

int pair_recv(struct pair *pair, int side, uint64_t wr_id, uint32_t local, uint32_t bytes)
{
	struct pair_side *s = &pair->side[side];
	struct ibv_sge sge[MAX_PIECES];
	struct ibv_recv_wr wr = { .wr_id = wr_id, .sg_list = sge, .num_sge = cut(s, local, bytes, 1, sge) };
	const struct ibv_recv_wr *bad;
	int err = s->srq ? srq_post(s->srq, &wr, &bad) : qp_post_recv(s->qp, pair->sim->now, &wr, &bad);

	sim_pump(pair->sim);
	return err;
}

bool pair_poll_send(struct pair *pair, int side, struct cqe *cqe)
{
	return cq_poll(pair->side[side].send_cq, cqe);
}

bool pair_poll_recv(struct pair *pair, int side, struct cqe *cqe)
{
	return cq_poll(pair->side[side].recv_cq, cqe);
}

void pair_run(struct pair *pair)
{
	sim_run(pair->sim, pair->sim->now + RUN_SECONDS_MAX * WTIME_S);
}
