/* The target of such a QP's peer: the checks of IBA 9.7.4.1 that order of packets leaves to make, and execution. Each packet of a
 * WRITE or READ names its address and answers for the whole range of its request. Verdicts are those of verdict.def. */
#include "ib/multi.h"

#include "ib/explain.h"
#include "ib/word.h"
#include "wire/aeth.h"

#include "base/log.h"

#include <endian.h>
#include <string.h>

enum { MP_OPCODES_END = MP_ATOMIC_WRITE + 1 };

static const enum opcode_op ops[MP_OPCODES_END] = {
	[MP_SEND] = OP_SEND, [MP_WRITE] = OP_WRITE, [MP_READ] = OP_READ_REQUEST, [MP_COMPARE_SWAP] = OP_CMP_SWAP,
	[MP_FETCH_ADD] = OP_FETCH_ADD, [MP_NOP] = OP_SEND, [MP_ATOMIC_WRITE] = OP_ATOMIC_WRITE,
};

static bool is_atomic(const struct mp_packet *p)
{
	return p->code == MP_COMPARE_SWAP || p->code == MP_FETCH_ADD || p->code == MP_ATOMIC_WRITE;
}

/* 9.7.4.1.3, 9.7.4.1.4 */
static enum verdict check_enabled(const struct qp *qp, const struct mp_packet *p)
{
	uint32_t need = remote_rights(ops[p->code]);

	if ((qp->attr.qp_access_flags & need) != need)
		return VERDICT_NOT_ENABLED;
	return p->code != MP_SEND && p->code != MP_WRITE && !qp->attr.max_dest_rd_atomic ? VERDICT_TOO_MANY : VERDICT_NEXT;
}

/* Bytes of its request before it. */
static uint64_t bytes_before(const struct qp *qp, const struct mp_packet *p)
{
	return (uint64_t)p->number * multi_of(qp)->responder.config.mtu_bytes;
}

/* 9.7.4.1.6 */
static enum verdict check_length(const struct qp *qp, const struct mp_packet *p)
{
	uint64_t before = bytes_before(qp, p), end = before + p->length;

	if (is_atomic(p))
		return p->address % ATOMIC_BYTES ? VERDICT_MISALIGNED :
		       p->length != ATOMIC_BYTES || p->total != ATOMIC_BYTES ? VERDICT_BAD_LENGTH : VERDICT_NEXT;
	if (p->total > MESSAGE_MAX_BYTES || (p->last ? end != p->total : end >= p->total))
		return VERDICT_BAD_LENGTH;
	if (p->code == MP_SEND && p->address != before)
		return VERDICT_BAD_LENGTH;
	return VERDICT_NEXT;
}

/* 9.7.4.1.5 */
static enum verdict check_memory(struct qp *qp, const struct mp_packet *p, struct mr **mr)
{
	int need = (int)remote_rights(ops[p->code]);
	uint64_t before = is_atomic(p) ? 0 : bytes_before(qp, p);

	*mr = NULL;
	if (!need)
		return VERDICT_NEXT;
	if (p->address < before || remote_check(qp, p->key, p->address - before, p->total, need, mr) != REMOTE_OK)
		return VERDICT_REFUSED;
	return VERDICT_NEXT;
}

/* 9.7.5.2.8: a SEND uses up a receive at its first packet, a WRITE with immediate data at its last. */
static enum verdict check_receive(struct qp *qp, const struct mp_packet *p)
{
	struct multi *m = multi_of(qp);
	bool needs_receive = p->code == MP_SEND ? p->number == 0 : p->trailer == MP_IMMEDIATE;

	if (p->code == MP_SEND && p->address != m->placed)
		return VERDICT_BAD_SEQUENCE;
	if (!needs_receive)
		return p->code == MP_SEND || !m->has_receive ? VERDICT_NEXT : VERDICT_BAD_SEQUENCE;
	if (m->has_receive)
		return VERDICT_BAD_SEQUENCE;
	if (!qp_recv_take(qp, NULL, &m->receive))
		return VERDICT_NOT_READY;
	m->has_receive = true;
	return VERDICT_NEXT;
}

static enum verdict place_send(struct qp *qp, const struct mp_packet *p)
{
	struct multi *m = multi_of(qp);
	struct recv_ref *ref = &m->receive;
	struct pd *pd = ref->is_srq ? ref->srq->pd : qp->pd;

	if (!m->has_receive || (!qp->taken.own && !qp->taken.srq))
		return VERDICT_NO_SRQ;	/* destroyed while the message was under way */
	if (p->total > ref->length)
		return VERDICT_TOO_LONG;
	if (seg_scatter(pd, ref->seg, ref->num_sge, p->address, p->payload, p->length) != IBV_WC_SUCCESS)
		return VERDICT_RECEIVE_PROTECTED;
	wq_transferred(ref->is_srq ? &ref->srq->wq.engine : &qp->rq.engine, ref->seg, ref->num_sge, p->address + p->length);
	if (p->trailer == MP_INVALIDATE && mr_invalidate(qp, p->extra, true) != IBV_WC_SUCCESS)
		return VERDICT_NOT_INVALIDATED;
	m->placed = p->last ? 0 : (uint32_t)p->address + p->length;
	return VERDICT_EXECUTED;
}

static enum verdict change_word(struct qp *qp, const struct mp_packet *p, struct mr *mr, uint8_t *answer)
{
	bool swaps = p->code == MP_COMPARE_SWAP;
	uint64_t original = 0, compare = swaps ? wire_get(p->payload, 0, 0, 64) : 0;

	if (word_change(qp, mr, p->address, ops[p->code], compare, wire_get(p->payload, swaps ? 8 : 0, 0, 64), &original) < 0)
		return VERDICT_MEMORY_GONE;
	wire_put(answer, original, 0, 0, 64);
	return VERDICT_EXECUTED;
}

static enum verdict execute(struct qp *qp, const struct mp_packet *p, struct mr *mr, uint8_t *answer)
{
	int err = 0;

	switch (p->code) {
	case MP_SEND:
		return place_send(qp, p);
	case MP_WRITE:
		err = p->length ? mr_write(mr, p->address, p->payload, p->length) : 0;
		break;
	case MP_READ:
		err = p->length ? mr_read(mr, p->address, answer, p->length) : 0;
		break;
	case MP_ATOMIC_WRITE:
		err = word_write(qp, mr, p->address, p->payload);
		break;
	default:
		return change_word(qp, p, mr, answer);
	}
	return err < 0 ? VERDICT_MEMORY_GONE : VERDICT_EXECUTED;
}

static void complete_receive(struct qp *qp, const struct mp_packet *p)
{
	struct multi *m = multi_of(qp);
	struct cqe cqe = {
		.status = IBV_WC_SUCCESS, .byte_len = p->total,
		.opcode = p->code == MP_SEND ? IBV_WC_RECV : IBV_WC_RECV_RDMA_WITH_IMM,
		.src_qp = qp->attr.dest_qp_num, .slid = qp->path.dlid, .sl = qp->path.sl, .pkey_index = qp->attr.pkey_index,
	};

	if (p->trailer == MP_IMMEDIATE) {
		cqe.wc_flags = IBV_WC_WITH_IMM;
		cqe.imm = htobe32(p->extra);
	} else if (p->trailer == MP_INVALIDATE) {
		cqe.wc_flags = IBV_WC_WITH_INV;
		cqe.imm = p->extra;
	}
	m->has_receive = false;
	QP_COUNT(qp, rdma_recvs, 1);
	qp_recv_complete(qp, &m->receive, &cqe, p->solicited);
}

static enum verdict judge(struct qp *qp, const struct mp_packet *p, uint8_t *answer)
{
	enum verdict v;
	struct mr *mr;

	if ((v = check_enabled(qp, p)) || (v = check_length(qp, p)) || (v = check_memory(qp, p, &mr)) ||
	    (v = check_receive(qp, p)))
		return v;
	return execute(qp, p, mr, answer);
}

static enum mp_status status_of(const struct verdict_row *row)
{
	if (row->reply == REPLY_RNR)
		return MP_NAK_NO_BUFFER;
	switch (aeth_value(row->syndrome)) {
	case NAK_INVALID_REQUEST:
		return MP_NAK_INVALID;
	case NAK_REMOTE_ACCESS:
		return MP_NAK_ACCESS;
	default:
		return MP_NAK_FAILED;
	}
}

enum mp_status multi_execute(void *arg, const struct mp_packet *p, uint8_t *answer)
{
	struct qp *qp = arg;
	struct multi *m = multi_of(qp);

	if (p->code == MP_NOP)
		return MP_OK;
	m->verdict = judge(qp, p, answer);
	if (m->verdict != VERDICT_EXECUTED)
		return status_of(verdict_row(m->verdict));
	qp->bytes_received += p->payload_bytes;
	qp->messages_received += p->last && p->order == MP_ORDERED;	/* of others the last packet says nothing */
	if (p->last && m->has_receive)
		complete_receive(qp, p);
	return MP_OK;
}

static void fail_receive(struct qp *qp, enum ibv_wc_status status)
{
	struct multi *m = multi_of(qp);
	struct cqe cqe = { .status = status, .opcode = IBV_WC_RECV, .src_qp = qp->attr.dest_qp_num };

	if (!m->has_receive)
		return;
	m->has_receive = false;
	if (status == IBV_WC_SUCCESS)
		qp_recv_untake(qp, &m->receive);
	else
		qp_recv_complete(qp, &m->receive, &cqe, true);
}

void multi_refused(struct qp *qp, wtime now, struct mp_packet *reply)
{
	const struct verdict_row *row = verdict_row(multi_of(qp)->verdict);

	if (row->counter >= 0)
		ca_count(qp->ca, qp->dev, (unsigned)row->counter, 1);
	if (row->reply == REPLY_RNR) {
		reply->extra = (uint32_t)(rnr_timer_ns(qp->attr.min_rnr_timer) / (10 * WTIME_US));
		return;
	}
	log_line(LOG_INFO, "QP 0x%06x stops: a request of its peer over several paths is %s (IBA %s)", qp->qpn, row->name,
		 row->clause);
	explain_verdict(qp, now, row);
	fail_receive(qp, row->status);
	qp_error(qp, now, row->event);
}
