/* A send WQE as the engine takes it from the ring. The ring belongs to the consumer, which may be another process and may write
 * it at any time: each byte is read once, and the copy is judged. What a consumer's library finds before it posts (qp_post.c) is
 * not repeated to answer the consumer, but where the engine or other QPs depend on it. */
#include "base/qpn.h"
#include "verbs/qp.h"
#include "wire/mtu.h"

#include <string.h>

static const uint32_t qkey_privileged = 1u << 31;	/* IBA 10.2.5: the QP's own Q_Key is sent instead */

static void fault(struct send_wqe *wqe, enum ibv_wc_status status)
{
	if (!wqe->bad_status)
		wqe->bad_status = (uint8_t)status;
}

/* Where a datagram goes. IBA 10.8.2.1 */
static void judge_datagram(const struct qp *qp, struct send_wqe *wqe)
{
	if (qp->type == IBV_QPT_RAW_PACKET) {
		wqe->remote_qpn = QPN_MASK;	/* all who have rules: flow_group */
		return;
	}
	if (wqe->length > mtu_bytes(qp->dev->active_mtu))
		fault(wqe, IBV_WC_LOC_LEN_ERR);
	if (wqe->qkey & qkey_privileged)
		wqe->qkey = qp->attr.qkey;
	if (!av_is_sound(qp->dev, &wqe->av))
		fault(wqe, IBV_WC_LOC_QP_OP_ERR);
}

/* Has the slot the data that the head names? */
static bool fits(const struct qp *qp, const struct send_op *op, const struct send_wqe *wqe)
{
	if (wqe->flags & IBV_SEND_INLINE)
		return (op->data == DATA_OUT || op->data == DATA_ATOMIC_WRITE) && wqe->length <= qp->cap.max_inline_data;
	return wqe->num_sge <= qp->cap.max_send_sge;
}

static void copy_data(struct send_wqe *wqe, const struct send_wqe *posted)
{
	if (wqe->flags & IBV_SEND_INLINE) {
		memcpy(wqe->seg, posted->seg, wqe->length);
		wqe->num_sge = 0;
		return;
	}
	for (unsigned i = 0, n = wqe->num_sge; i < n; i++)
		wqe->seg[i] = posted->seg[i];
}

/* Nothing of its data is looked at. */
static void refuse(struct send_wqe *wqe)
{
	wqe->flags &= (uint8_t)~IBV_SEND_INLINE;
	wqe->num_sge = 0;
	wqe->length = 0;
	fault(wqe, IBV_WC_LOC_QP_OP_ERR);
}

/* `wqe` is a copy of the head; `op` is NULL when QPs of this type have no such operation. Apart, so that the usual case saves no
 * registers. */
__attribute__((noinline))
static struct send_wqe *judge(const struct qp *qp, const struct send_op *op, struct send_wqe *wqe, const struct send_wqe *posted)
{
	if (!op || !fits(qp, op, wqe)) {
		refuse(wqe);
		return wqe;
	}
	copy_data(wqe, posted);
	if (wqe->length > MESSAGE_MAX_BYTES || (op->data >= DATA_ATOMIC && wqe->length != ATOMIC_BYTES))
		fault(wqe, IBV_WC_LOC_LEN_ERR);
	if (qp_is_datagram(qp))
		judge_datagram(qp, wqe);
	return wqe;
}

struct send_wqe *qp_send_fetch(struct qp *qp)
{
	uint32_t position = wq_position(&qp->sq.engine, qp->sq.engine.fetched++);
	const struct send_wqe *posted = queue_ring_at(&qp->sq.engine.ring, position);
	struct send_wqe *wqe = wq_copy_at(&qp->sq.engine, position);
	const struct send_op *op;

	*wqe = *posted;
	atomic_signal_fence(memory_order_seq_cst);	/* the compiler reads the copy from here on */
	wqe->flags &= SEND_FLAGS_KNOWN;
	wqe->remote_qpn &= QPN_MASK;	/* of a refused one too: the way to it is looked up */
	op = send_op_of(qp, wqe->opcode);
	if (!op || !send_is_plain(qp, op, wqe))
		return judge(qp, op, wqe, posted);
	wqe->seg[0] = posted->seg[0];
	return wqe;
}
