#include "impair/trace_engine.h"

#include "ib/ib.h"

#include <endian.h>
#include <string.h>

enum { NUMBER = 8 };	/* bytes of one in a record */

void trace_put_numbers(const void *members, uint32_t bytes, uint8_t *to)
{
	for (uint32_t i = 0; i < bytes; i += NUMBER) {
		uint64_t number;

		memcpy(&number, (const uint8_t *)members + i, NUMBER);
		number = htole64(number);
		memcpy(to + i, &number, NUMBER);
	}
}

bool trace_get_numbers(const struct trace_record *r, void *members, uint32_t bytes)
{
	if (r->bytes != bytes)
		return false;
	for (uint32_t i = 0; i < bytes; i += NUMBER) {
		uint64_t number;

		memcpy(&number, r->data + i, NUMBER);
		number = le64toh(number);
		memcpy((uint8_t *)members + i, &number, NUMBER);
	}
	return true;
}

static void alternate_of(const struct qp *qp, struct trace_qp *t)
{
	const struct packet_path *path = &qp->migration->alternate;
	const struct ibv_qp_attr *a = &qp->attr;

	t->path_mig_state = a->path_mig_state;
	t->alt_pkey_index = a->alt_pkey_index;
	t->alt_pkey = qp->dev->pkey[a->alt_pkey_index];
	t->alt_timeout = a->alt_timeout;
	t->alt_has_grh = path->has_grh;
	t->alt_slid = path->slid;
	t->alt_dlid = path->dlid;
	memcpy(t->alt_sgid, path->sgid, sizeof(t->alt_sgid));
	memcpy(t->alt_dgid, path->dgid, sizeof(t->alt_dgid));
}

void trace_qp_of(const struct qp *qp, int mask, struct trace_qp *t)
{
	const struct ib_options *o = ib_options_of(qp->ca);
	const struct ibv_qp_attr *a = &qp->attr;

	*t = (struct trace_qp){
		.type = qp->type, .state = qp->state, .mask = (unsigned)mask, .max_send_wr = qp->cap.max_send_wr,
		.max_recv_wr = qp->cap.max_recv_wr, .srq = qp->srq ? qp->srq->srqn + UINT64_C(1) : 0,
		.pkey_index = a->pkey_index, .pkey = qp->dev->pkey[a->pkey_index], .qkey = a->qkey,
		.path_mtu = qp_is_datagram(qp) ? qp->dev->active_mtu : a->path_mtu, .dest_qpn = a->dest_qp_num,
		.rq_psn = a->rq_psn, .sq_psn = a->sq_psn, .access = a->qp_access_flags, .timeout = a->timeout,
		.retry_cnt = a->retry_cnt, .rnr_retry = a->rnr_retry, .min_rnr_timer = a->min_rnr_timer,
		.max_rd_atomic = a->max_rd_atomic, .max_dest_rd_atomic = a->max_dest_rd_atomic,
		.has_grh = qp->path.has_grh, .slid = qp->path.slid, .dlid = qp->path.dlid,
		.profile = o->profile, .ack_mode = o->ack_mode, .window_pkts = o->window_pkts, .ack_every = o->ack_every,
		.report_last_only = o->report_last_only, .start_msn = o->start_msn, .exchange_start = o->exchange_start,
		.completion = o->completion, .ack_when_consumed = o->ack_when_consumed,
		.selective_repeat = o->selective_repeat,
	};
	memcpy(t->sgid, qp->path.sgid, sizeof(t->sgid));
	memcpy(t->dgid, qp->path.dgid, sizeof(t->dgid));
	if (qp->migration)
		alternate_of(qp, t);
}

int trace_qp_attr(const struct trace_qp *t, struct ibv_qp_attr *attr)
{
	*attr = (struct ibv_qp_attr){
		.qp_state = (enum ibv_qp_state)t->state, .pkey_index = (uint16_t)t->pkey_index, .port_num = 1,
		.qkey = (uint32_t)t->qkey, .path_mtu = (enum ibv_mtu)t->path_mtu, .dest_qp_num = (uint32_t)t->dest_qpn,
		.rq_psn = (uint32_t)t->rq_psn, .sq_psn = (uint32_t)t->sq_psn, .qp_access_flags = (unsigned)t->access,
		.timeout = (uint8_t)t->timeout, .retry_cnt = (uint8_t)t->retry_cnt, .rnr_retry = (uint8_t)t->rnr_retry,
		.min_rnr_timer = (uint8_t)t->min_rnr_timer,
		.max_rd_atomic = (uint8_t)t->max_rd_atomic, .max_dest_rd_atomic = (uint8_t)t->max_dest_rd_atomic,
		.ah_attr = { .port_num = 1, .dlid = 1, .is_global = 1 },
		.alt_ah_attr = { .port_num = 1, .dlid = 1, .is_global = 1 }, .alt_port_num = 1,
		.alt_pkey_index = (uint16_t)t->alt_pkey_index, .alt_timeout = (uint8_t)t->alt_timeout,
		.path_mig_state = (enum ibv_mig_state)t->path_mig_state,
	};
	return (int)t->mask & (IBV_QP_STATE | IBV_QP_ACCESS_FLAGS | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_QKEY | IBV_QP_AV |
			       IBV_QP_PATH_MTU | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY | IBV_QP_RQ_PSN |
			       IBV_QP_MAX_QP_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER | IBV_QP_SQ_PSN | IBV_QP_MAX_DEST_RD_ATOMIC |
			       IBV_QP_DEST_QPN | IBV_QP_ALT_PATH | IBV_QP_PATH_MIG_STATE);
}

void trace_send_of(const struct qp *qp, const struct send_wqe *wqe, struct trace_send *t)
{
	*t = (struct trace_send){ .opcode = wqe->opcode, .flags = wqe->flags, .imm = wqe->imm, .length = wqe->length,
				  .remote_qpn = wqe->remote_qpn };
	if (qp->type == IBV_QPT_UD)
		t->qkey = wqe->qkey;
	if (qp_is_datagram(qp) || wqe->opcode == IBV_WR_BIND_MW)
		return;
	t->remote_addr = wqe->remote_addr;
	t->rkey = wqe->rkey;
	t->swap = wqe->swap;
	*(wqe->opcode == IBV_WR_ATOMIC_WRITE ? &t->atomic_write : &t->compare_add) = wqe->compare_add;
}
