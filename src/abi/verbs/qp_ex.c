/* The builders of extended QPs. A request is written straight into the next slot of the send queue, which is the program's
 * until wr_complete announces it; the lock is taken only to get a slot and to announce. `builder` keeps other posters out. */
#include "abi/verbs/object.h"
#include "base/qpn.h"
#include "runtime/entry.h"

static void wr_start(struct ibv_qp_ex *ibv)
{
	struct abi_qp *qp = to_qp_ex(ibv);

	pthread_mutex_lock(&qp->builder);
	qp->wqe = NULL;
	qp->built = 0;
	qp->error = 0;
}

/* Under the runtime's lock. */
static void finish(struct abi_qp *qp)
{
	if (qp->wqe && qp->error == 0) {
		qp->error = qp_send_written(qp->qp, qp->wqe);
		if (qp->error == 0)
			qp->built++;
	}
	qp->wqe = NULL;
}

/* The next request, zeroed but for what all have; NULL after a fault. */
static struct send_wqe *begin(struct ibv_qp_ex *ibv, enum ibv_wr_opcode opcode)
{
	struct abi_qp *qp = to_qp_ex(ibv);

	runtime_enter_briefly(qp->rt);
	finish(qp);
	if (qp->error == 0) {
		qp->wqe = qp_send_slot(qp->qp);
		if (!qp->wqe)
			qp->error = -ENOMEM;
	}
	runtime_leave(qp->rt);
	if (qp->wqe) {
		qp->wqe->wr_id = ibv->wr_id;
		qp->wqe->flags = qp_send_flags(ibv->wr_flags & ~(unsigned)IBV_SEND_INLINE);	/* who sets the data says so */
		qp->wqe->opcode = (uint8_t)opcode;
	}
	return qp->wqe;
}

static int wr_complete(struct ibv_qp_ex *ibv)
{
	struct abi_qp *qp = to_qp_ex(ibv);
	wtime now = runtime_enter_post(qp->rt);
	int err;

	finish(qp);
	if (qp->error < 0)
		qp_send_abort(qp->qp, qp->built);
	else
		qp_send_ring(qp->qp, now);
	runtime_leave(qp->rt);
	err = qp->error;
	pthread_mutex_unlock(&qp->builder);
	return answer(err);
}

static void wr_abort(struct ibv_qp_ex *ibv);

static int wr_complete_or_fail(struct ibv_qp_ex *ibv)
{
	struct abi_qp *qp = to_qp_ex(ibv);
	struct fault_objects objects = qp_objects(qp, false);
	int err = runtime_call(qp->rt, to_context(ibv->qp_base.context)->dev, FAULT_post_send, &objects);

	if (err == 0)
		return wr_complete(ibv);
	wr_abort(ibv);
	return answer(err);
}

static void wr_abort(struct ibv_qp_ex *ibv)
{
	struct abi_qp *qp = to_qp_ex(ibv);

	runtime_enter_briefly(qp->rt);
	qp_send_abort(qp->qp, qp->built);
	runtime_leave(qp->rt);
	qp->wqe = NULL;
	pthread_mutex_unlock(&qp->builder);
}

/* ---- operations ---- */

static void wr_send(struct ibv_qp_ex *ibv)
{
	begin(ibv, IBV_WR_SEND);
}

static void wr_send_imm(struct ibv_qp_ex *ibv, __be32 imm)
{
	struct send_wqe *wqe = begin(ibv, IBV_WR_SEND_WITH_IMM);

	if (wqe)
		wqe->imm = imm;
}

static void wr_send_inv(struct ibv_qp_ex *ibv, uint32_t rkey)
{
	struct send_wqe *wqe = begin(ibv, IBV_WR_SEND_WITH_INV);

	if (wqe)
		wqe->imm = rkey;
}

static void wr_local_inv(struct ibv_qp_ex *ibv, uint32_t rkey)
{
	struct send_wqe *wqe = begin(ibv, IBV_WR_LOCAL_INV);

	if (wqe)
		wqe->imm = rkey;
}

static struct send_wqe *begin_remote(struct ibv_qp_ex *ibv, enum ibv_wr_opcode opcode, uint32_t rkey, uint64_t addr)
{
	struct send_wqe *wqe = begin(ibv, opcode);

	if (wqe) {
		wqe->rkey = rkey;
		wqe->remote_addr = addr;
	}
	return wqe;
}

static void wr_rdma_read(struct ibv_qp_ex *ibv, uint32_t rkey, uint64_t addr)
{
	begin_remote(ibv, IBV_WR_RDMA_READ, rkey, addr);
}

static void wr_rdma_write(struct ibv_qp_ex *ibv, uint32_t rkey, uint64_t addr)
{
	begin_remote(ibv, IBV_WR_RDMA_WRITE, rkey, addr);
}

static void wr_rdma_write_imm(struct ibv_qp_ex *ibv, uint32_t rkey, uint64_t addr, __be32 imm)
{
	struct send_wqe *wqe = begin_remote(ibv, IBV_WR_RDMA_WRITE_WITH_IMM, rkey, addr);

	if (wqe)
		wqe->imm = imm;
}

static void wr_atomic_cmp_swp(struct ibv_qp_ex *ibv, uint32_t rkey, uint64_t addr, uint64_t compare, uint64_t swap)
{
	struct send_wqe *wqe = begin_remote(ibv, IBV_WR_ATOMIC_CMP_AND_SWP, rkey, addr);

	if (wqe) {
		wqe->compare_add = compare;
		wqe->swap = swap;
	}
}

static void wr_atomic_fetch_add(struct ibv_qp_ex *ibv, uint32_t rkey, uint64_t addr, uint64_t add)
{
	struct send_wqe *wqe = begin_remote(ibv, IBV_WR_ATOMIC_FETCH_AND_ADD, rkey, addr);

	if (wqe)
		wqe->compare_add = add;
}

static void wr_atomic_write(struct ibv_qp_ex *ibv, uint32_t rkey, uint64_t addr, const void *data)
{
	struct send_wqe *wqe = begin_remote(ibv, IBV_WR_ATOMIC_WRITE, rkey, addr);

	if (wqe) {
		memcpy(&wqe->compare_add, data, sizeof(wqe->compare_add));
		wqe->length = sizeof(wqe->compare_add);
	}
}

static void wr_bind_mw(struct ibv_qp_ex *ibv, struct ibv_mw *mw, uint32_t rkey, const struct ibv_mw_bind_info *info)
{
	struct send_wqe *wqe = begin(ibv, IBV_WR_BIND_MW);

	if (!wqe)
		return;
	wqe->bind_mw_rkey = mw->rkey;
	wqe->bind_new_rkey = rkey;
	wqe->bind_mr_lkey = info->mr ? info->mr->lkey : 0;
	wqe->bind_access = info->mw_access_flags;
	wqe->bind_addr = info->addr;
	wqe->bind_length = info->length;
}

/* Segmentation offload is of raw packet QPs, and not among the device's capabilities. */
static void wr_send_tso(struct ibv_qp_ex *ibv, void *hdr, uint16_t hdr_sz, uint16_t mss)
{
	to_qp_ex(ibv)->error = -EOPNOTSUPP;
}

/* ---- addresses and data of the request just begun ---- */

static void wr_set_ud_addr(struct ibv_qp_ex *ibv, struct ibv_ah *ah, uint32_t remote_qpn, uint32_t remote_qkey)
{
	struct abi_qp *qp = to_qp_ex(ibv);
	const struct ah *to = &to_ah(ah)->ah;

	if (!qp->wqe)
		return;
	qp->wqe->av = to->av;
	qp->wqe->remote_qpn = remote_qpn & QPN_MASK;
	qp->wqe->qkey = remote_qkey;
	if (to->pd != qp->qp->pd)
		qp->wqe->bad_status = IBV_WC_LOC_QP_OP_ERR;
}

static void wr_set_xrc_srqn(struct ibv_qp_ex *ibv, uint32_t remote_srqn)
{
	struct abi_qp *qp = to_qp_ex(ibv);

	if (qp->wqe)
		qp->wqe->remote_qpn = remote_srqn & QPN_MASK;
}

static void wr_set_inline_data_list(struct ibv_qp_ex *ibv, size_t num_buf, const struct ibv_data_buf *buf)
{
	struct abi_qp *qp = to_qp_ex(ibv);
	uint32_t room = qp->qp->cap.max_inline_data, used = 0;

	if (!qp->wqe)
		return;
	for (size_t i = 0; i < num_buf; i++) {
		if (buf[i].length > room - used) {
			qp->error = -ENOMEM;
			return;
		}
		memcpy((uint8_t *)qp->wqe->seg + used, buf[i].addr, buf[i].length);
		used += (uint32_t)buf[i].length;
	}
	qp->wqe->flags |= IBV_SEND_INLINE;
	qp->wqe->length = used;
}

static void wr_set_inline_data(struct ibv_qp_ex *ibv, void *addr, size_t length)
{
	const struct ibv_data_buf buf = { addr, length };

	wr_set_inline_data_list(ibv, 1, &buf);
}

static void wr_set_sge_list(struct ibv_qp_ex *ibv, size_t num_sge, const struct ibv_sge *sg)
{
	struct abi_qp *qp = to_qp_ex(ibv);

	if (!qp->wqe)
		return;
	if (num_sge > qp->qp->cap.max_send_sge) {
		qp->error = -EINVAL;
		return;
	}
	qp->wqe->flags &= (uint8_t)~IBV_SEND_INLINE;
	qp_send_data(qp->wqe, sg, (uint32_t)num_sge);
}

static void wr_set_sge(struct ibv_qp_ex *ibv, uint32_t lkey, uint64_t addr, uint32_t length)
{
	const struct ibv_sge sg = { addr, length, lkey };

	wr_set_sge_list(ibv, 1, &sg);
}

void qp_ex_choose_complete(struct abi_qp *qp, bool may_fail)
{
	qp->ibv.wr_complete = may_fail ? wr_complete_or_fail : wr_complete;
}

void qp_ex_setup(struct abi_qp *qp)
{
	struct ibv_qp_ex *ex = &qp->ibv;

	ex->wr_start = wr_start;
	ex->wr_complete = wr_complete;
	ex->wr_abort = wr_abort;
	ex->wr_send = wr_send;
	ex->wr_send_imm = wr_send_imm;
	ex->wr_send_inv = wr_send_inv;
	ex->wr_send_tso = wr_send_tso;
	ex->wr_local_inv = wr_local_inv;
	ex->wr_rdma_read = wr_rdma_read;
	ex->wr_rdma_write = wr_rdma_write;
	ex->wr_rdma_write_imm = wr_rdma_write_imm;
	ex->wr_atomic_cmp_swp = wr_atomic_cmp_swp;
	ex->wr_atomic_fetch_add = wr_atomic_fetch_add;
	ex->wr_atomic_write = wr_atomic_write;
	ex->wr_bind_mw = wr_bind_mw;
	ex->wr_set_ud_addr = wr_set_ud_addr;
	ex->wr_set_xrc_srqn = wr_set_xrc_srqn;
	ex->wr_set_inline_data = wr_set_inline_data;
	ex->wr_set_inline_data_list = wr_set_inline_data_list;
	ex->wr_set_sge = wr_set_sge;
	ex->wr_set_sge_list = wr_set_sge_list;
}
