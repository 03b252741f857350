/* From WQEs to requests of the protocol, and back to completions. A WQE that cannot be sent fails in its turn, as with the other
 * profiles: when those before it are complete. */
#include "ib/multi.h"

#include "ib/explain.h"
#include "ib/request.h"
#include "ib/requester.h"

#include <endian.h>
#include <errno.h>
#include <string.h>

uint16_t multi_mtu(const struct qp *qp)
{
	return (uint16_t)((qp->attr.path_mtu ? engine_mtu(qp) : mtu_bytes(IBV_MTU_256)) - MULTI_OVERHEAD);
}

/* ---- what begins ---- */

static void fail(struct qp *qp, wtime now, enum ibv_wc_status status)
{
	if (status == IBV_WC_RETRY_EXC_ERR)
		QP_COUNT(qp, retry_exceeded_err, 1);
	multi_of(qp)->sends = false;
	requester_fail(qp, now, status);
}

/* SQD begins none, nor does a queue whose CQ awaits room; a fenced one waits for the answers to earlier READs and atomics
 * (IBA 10.8.3.3), and these for the initiator depth. */
static bool may_begin(const struct qp *qp, const struct send_wqe *wqe, const struct request_row *row)
{
	uint32_t unanswered = multi_of(qp)->unanswered;

	if (qp->state == IBV_QPS_SQD || qp->send_cq->asked || (wqe->flags & IBV_SEND_FENCE && unanswered))
		return false;
	return row->answer == ANSWER_ACK || !unanswered || unanswered < qp->attr.max_rd_atomic;
}

static bool is_local(const struct request_row *row)
{
	return row->kind == REQUEST_BIND || row->kind == REQUEST_INVALIDATE;
}

/* Nothing before it is under way. */
static enum ibv_wc_status work_locally(struct qp *qp, struct send_wqe *wqe, const struct request_row *row)
{
	if (wqe->bad_status)
		return wqe->bad_status;
	return row->kind == REQUEST_BIND ? mw_bind(qp, wqe) : mr_invalidate(qp, wqe->imm, false);
}

static enum ibv_wc_status judge(struct qp *qp, const struct send_wqe *wqe, const struct request_row *row)
{
	bool is_data = row->kind == REQUEST_DATA || row->kind == REQUEST_ATOMIC_WRITE;

	if (wqe->bad_status)
		return wqe->bad_status;
	if (wqe->length > MESSAGE_MAX_BYTES || (row->kind == REQUEST_ATOMIC && wqe->length < ATOMIC_BYTES))
		return IBV_WC_LOC_LEN_ERR;
	if (row->kind == REQUEST_NONE || (row->kind != REQUEST_DATA && qp->attr.max_rd_atomic == 0))
		return IBV_WC_LOC_QP_OP_ERR;
	if (wqe->flags & IBV_SEND_INLINE || row->kind == REQUEST_ATOMIC_WRITE)
		return IBV_WC_SUCCESS;
	return seg_check(qp->pd, wqe->seg, wqe->num_sge, is_data ? 0 : IBV_ACCESS_LOCAL_WRITE);
}

static enum mp_opcode opcode_of(enum opcode_op op)
{
	switch (op) {
	case OP_SEND:
		return MP_SEND;
	case OP_WRITE:
		return MP_WRITE;
	case OP_READ_REQUEST:
		return MP_READ;
	case OP_CMP_SWAP:
		return MP_COMPARE_SWAP;
	case OP_FETCH_ADD:
		return MP_FETCH_ADD;
	case OP_ATOMIC_WRITE:
		return MP_ATOMIC_WRITE;
	default:
		return MP_NOP;
	}
}

static struct mp_request request_of(const struct send_wqe *wqe, const struct request_row *row, uint32_t index)
{
	struct mp_request q = {
		.opcode = opcode_of(row->op), .bytes = wqe->length, .id = index,
		.is_solicited = wqe->flags & IBV_SEND_SOLICITED,
		.operand = { wqe->compare_add, wqe->swap },
	};

	if (row->op != OP_SEND) {
		q.key = q.space = wqe->rkey;
		q.address = wqe->remote_addr;
	}
	if (row->op == OP_ATOMIC_WRITE)
		q.operand[0] = be64toh(wqe->compare_add);	/* its bytes as they are */
	if (row->op == OP_READ_REQUEST || row->op == OP_WRITE)
		*(row->trailer ? &q.ends_ordered : &q.is_unordered) = true;
	if (row->trailer) {
		q.trailer = row->trailer == HDR_IMM ? MP_IMMEDIATE : MP_INVALIDATE;
		q.extra = row->trailer == HDR_IMM ? be32toh(wqe->imm) : wqe->imm;
	}
	return q;
}

/* True: there may be more. */
static bool begin(struct qp *qp, wtime now)
{
	struct send_wqe *wqe = qp_send_next(qp);
	const struct request_row *row = request_row(wqe);
	struct multi *m = multi_of(qp);
	uint32_t index = qp->sq.engine.started;
	enum ibv_wc_status status;
	struct mp_request q;
	bool is_first = qp->sq.engine.completed == index;
	int err;

	if (!may_begin(qp, wqe, row) || (is_local(row) && !is_first))
		return false;
	status = is_local(row) ? work_locally(qp, wqe, row) : judge(qp, wqe, row);
	if (status != IBV_WC_SUCCESS) {
		if (is_first)
			fail(qp, now, status);
		return false;
	}
	if (is_local(row)) {
		qp_send_complete(qp, IBV_WC_SUCCESS);
		return true;
	}
	q = request_of(wqe, row, index);
	err = mp_requester_post(&m->requester, &q);
	if (err == -EINVAL && is_first)		/* the only one that the target alone could refuse: the range wraps */
		fail(qp, now, IBV_WC_REM_ACCESS_ERR);
	if (err < 0)
		return false;
	m->unanswered += row->answer != ANSWER_ACK;
	qp->sq.engine.started++;
	qp->messages_sent++;
	return true;
}

void multi_feed(struct qp *qp, wtime now)
{
	struct multi *m = multi_of(qp);

	if (m->requester.error)
		multi_complete(qp, now);
	while (m->sends && !m->requester.error && mp_requester_is_through(&m->requester) &&
	       qp->sq.engine.started != qp->sq.engine.announced)
		if (!begin(qp, now))
			return;
}

/* ---- payload ---- */

static bool end_here(struct qp *qp, enum ibv_wc_status status)
{
	multi_of(qp)->local = status;
	mp_requester_end(&multi_of(qp)->requester, MP_FAILED_HERE);
	return false;
}

bool multi_gather(struct qp *qp, struct mp_packet *p, uint8_t *to)
{
	struct multi *m = multi_of(qp);
	struct iovec iov[PACKET_OUT_IOVS];
	struct packet_out data = { .packet = { .payload_bytes = p->payload_bytes }, .iov = iov, .bounce = m->bounce };
	enum ibv_wc_status status;
	uint32_t offset;
	const struct mp_request *q = mp_requester_left(&m->requester, &offset);
	const struct send_wqe *wqe = qp_send_wqe(qp, (uint32_t)q->id);

	status = requester_gather(qp, wqe, offset, &data);
	if (status != IBV_WC_SUCCESS)
		return end_here(qp, status);
	p->payload = to;
	for (unsigned i = 0; i < data.packet.payload_iovs; i++) {
		memcpy(to, iov[i].iov_base, iov[i].iov_len);
		to += iov[i].iov_len;
	}
	if (!(wqe->flags & IBV_SEND_INLINE))
		wq_transferred(&qp->sq.engine, wqe->seg, wqe->num_sge, (uint64_t)offset + p->payload_bytes);
	return true;
}

enum mp_status multi_place(void *arg, const struct mp_request *q, uint32_t offset, const void *data, uint32_t bytes)
{
	struct qp *qp = arg;
	const struct send_wqe *wqe = qp_send_wqe(qp, (uint32_t)q->id);
	enum ibv_wc_status status;
	uint64_t word;

	if (q->opcode != MP_READ) {
		word = wire_get(data, 0, 0, 64);
		data = &word;
	}
	status = seg_scatter(qp->pd, wqe->seg, wqe->num_sge, offset, data, bytes);
	qp->bytes_received += bytes;
	if (status == IBV_WC_SUCCESS)
		return MP_OK;
	multi_of(qp)->local = status;
	return MP_FAILED_HERE;
}

/* ---- completions ---- */

static enum ibv_wc_status status_of(const struct multi *m, enum mp_status status)
{
	switch (status) {
	case MP_OK:
		return IBV_WC_SUCCESS;
	case MP_NAK_ACCESS:
		return IBV_WC_REM_ACCESS_ERR;
	case MP_NAK_INVALID:
		return IBV_WC_REM_INV_REQ_ERR;
	case MP_NAK_FAILED:
		return IBV_WC_REM_OP_ERR;
	case MP_NAK_NO_BUFFER:
		return IBV_WC_RNR_RETRY_EXC_ERR;
	case MP_FAILED_HERE:
		return m->local;
	case MP_FLUSHED:
		return IBV_WC_WR_FLUSH_ERR;
	case MP_NAK_SEQUENCE: case MP_NAK_BUSY: case MP_NO_PATH: case MP_RETRIES_EXCEEDED:
		break;
	}
	return IBV_WC_RETRY_EXC_ERR;
}

/* IBA 10.3.1.5: in SQD the WQEs begun are finished, then the consumer is told. */
static void tell_drained(struct qp *qp)
{
	if (!qp->attr.sq_draining || qp->sq.engine.started != qp->sq.engine.completed)
		return;
	qp->attr.sq_draining = 0;
	if (qp->sqd_async)
		qp_event(qp, IBV_EVENT_SQ_DRAINED);
}

void multi_complete(struct qp *qp, wtime now)
{
	struct multi *m = multi_of(qp);
	struct mp_completion c;

	while (m->sends && mp_requester_poll(&m->requester, &c)) {
		if (c.status != MP_OK) {
			fail(qp, now, status_of(m, c.status));
			return;
		}
		m->unanswered -= request_row(qp_send_oldest(qp))->answer != ANSWER_ACK;
		qp_send_complete(qp, IBV_WC_SUCCESS);
	}
	/* it ended with nothing under way: the next WQE fails */
	if (m->sends && m->requester.error && wq_pending(&qp->sq.engine))
		fail(qp, now, status_of(m, m->requester.error));
	if (qp->state == IBV_QPS_SQD)
		tell_drained(qp);
}
