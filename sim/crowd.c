/* Setting up and using many QPs. */
#include "crowd.h"

#include <stdlib.h>
#include <string.h>

enum { QKEY = 0x1234, HOPS = 64 };

#define MUST(call) do { if ((call) < 0) abort(); } while (0)
#define DEFAULT(member, value) do { if (!c->member) c->member = (value); } while (0)

static void fill_path(const struct crowd *crowd, int to, struct ibv_ah_attr *ah)
{
	const struct ca_device *peer = crowd->member[to].node->dev;

	*ah = (struct ibv_ah_attr){ .dlid = peer->lid, .port_num = 1 };
	if (device_has(peer, DEVICE_LIDS))
		return;
	ah->is_global = 1;
	ah->grh.hop_limit = HOPS;
	memcpy(ah->grh.dgid.raw, peer->gid[0].raw, sizeof(ah->grh.dgid.raw));
}

/* To INIT, RTR and RTS; of a datagram QP without a peer. */
static void bring_up(struct crowd *crowd, struct crowd_member *m, int to)
{
	bool is_ud = m->qp->type == IBV_QPT_UD;
	struct ibv_qp_attr attr = {
		.qp_state = IBV_QPS_INIT, .port_num = 1, .qkey = QKEY, .path_mtu = IBV_MTU_1024,
		.dest_qp_num = crowd->member[to].qp->qpn, .max_rd_atomic = 1, .max_dest_rd_atomic = 1,
		.timeout = 8, .retry_cnt = 7, .rnr_retry = 7, .min_rnr_timer = 1,
	};
	wtime now = crowd->sim->now;

	fill_path(crowd, to, &attr.ah_attr);
	MUST(qp_modify(m->qp, now, &attr, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT |
		       (is_ud ? IBV_QP_QKEY : IBV_QP_ACCESS_FLAGS)));
	attr.qp_state = IBV_QPS_RTR;
	MUST(qp_modify(m->qp, now, &attr, is_ud ? IBV_QP_STATE : IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN |
		       IBV_QP_RQ_PSN | IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER));
	attr.qp_state = IBV_QPS_RTS;
	MUST(qp_modify(m->qp, now, &attr, IBV_QP_STATE | IBV_QP_SQ_PSN | (is_ud ? 0 : IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT |
		       IBV_QP_RNR_RETRY | IBV_QP_MAX_QP_RD_ATOMIC)));
}

static void make_member(struct crowd *crowd, int i)
{
	const struct crowd_config *c = &crowd->config;
	struct crowd_member *m = &crowd->member[i];
	struct ibv_qp_init_attr_ex attr = {
		.qp_type = c->type, .sq_sig_all = 1,
		.cap = { .max_send_wr = c->depth, .max_recv_wr = c->depth, .max_send_sge = 1, .max_recv_sge = 1 },
	};

	m->node = &crowd->sim->node[i];
	m->memory = crowd->memory + (size_t)i * c->memory_bytes;
	if (c->next_qpn)
		m->node->next_qpn = c->next_qpn;
	MUST(pd_create(&m->node->ca, m->node->dev, &m->pd));
	MUST(cq_create(&m->node->ca, m->node->dev, 4 * (int)c->depth, &m->cq));
	MUST(mr_create(m->pd, m->memory, c->memory_bytes, CROWD_IOVA, IBV_ACCESS_LOCAL_WRITE, &m->mr));
	MUST(qp_create(&m->node->ca, m->node->dev, &attr, m->pd, m->cq, m->cq, NULL, NULL, &m->qp));
	if (c->type == IBV_QPT_UD)
		bring_up(crowd, m, i);
}

struct crowd *crowd_new(const struct crowd_config *config)
{
	struct crowd *crowd = calloc(1, sizeof(*crowd));
	struct crowd_config *c = &crowd->config;

	if (!crowd)
		abort();
	*c = *config;
	DEFAULT(sim.mtu, IBV_MTU_4096);
	DEFAULT(memory_bytes, 4096);
	DEFAULT(depth, 8);
	DEFAULT(sim.arena_bytes, 64 << 10);
	crowd->sim = sim_new(&c->sim);
	crowd->member = calloc((size_t)c->sim.nodes, sizeof(*crowd->member));
	crowd->memory = calloc((size_t)c->sim.nodes, c->memory_bytes);
	if (!crowd->sim || !crowd->member || !crowd->memory)
		abort();
	for (int i = 0; i < c->sim.nodes; i++)
		make_member(crowd, i);
	return crowd;
}

void crowd_delete(struct crowd *crowd)
{
	sim_delete(crowd->sim);
	free(crowd->member);
	free(crowd->memory);
	free(crowd);
}

void crowd_connect(struct crowd *crowd, int a, int b)
{
	bring_up(crowd, &crowd->member[a], b);
	bring_up(crowd, &crowd->member[b], a);
}

int crowd_send(struct crowd *crowd, int from, int to, uint32_t at, uint32_t bytes)
{
	struct crowd_member *m = &crowd->member[from];
	struct ibv_sge sge = { CROWD_IOVA + at, bytes, m->mr->key };
	struct ibv_send_wr *bad, wr = { .wr_id = at, .opcode = IBV_WR_SEND, .sg_list = &sge, .num_sge = 1 };
	struct ah ah = { .pd = m->pd };
	struct ibv_ah_attr attr;

	if (m->qp->type == IBV_QPT_UD) {
		fill_path(crowd, to, &attr);
		MUST(av_from_attr(m->node->dev, &attr, &ah.av));
		wr.wr.ud.ah = &ah.ibv;
		wr.wr.ud.remote_qpn = crowd->member[to].qp->qpn;
		wr.wr.ud.remote_qkey = QKEY;
	}
	return qp_post_send(m->qp, crowd->sim->now, &wr, &bad);
}

int crowd_recv(struct crowd *crowd, int member, uint32_t at, uint32_t bytes)
{
	struct crowd_member *m = &crowd->member[member];
	struct ibv_sge sge = { CROWD_IOVA + at, bytes, m->mr->key };
	struct ibv_recv_wr wr = { .wr_id = at, .sg_list = &sge, .num_sge = 1 };
	const struct ibv_recv_wr *bad;

	return qp_post_recv(m->qp, crowd->sim->now, &wr, &bad);
}
