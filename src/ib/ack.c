/* What goes out of the responder. ACKs are made when they leave, so that one says everything that happened until then
 * (MSN-21); responses come first, as an ACK for a later PSN would say that they were sent. IBA 9.7.5.1. */
#include "ib/ack.h"

#include "ib/engine.h"
#include "ib/msn_exchange.h"
#include "ib/pace.h"
#include "ib/path.h"
#include "ib/reflect.h"
#include "ib/request.h"
#include "ib/responder_resources.h"
#include "wire/aeth.h"
#include "wire/packet.h"

static bool wants_ack(const struct qp *qp, bool asked, bool message_ended)
{
	const struct ib_options *options = &engine_of(qp)->options;

	if (asked)
		return true;
	switch (options->ack_mode) {
	case IB_ACK_PER_PACKET:
		return true;
	case IB_ACK_COALESCED:
		return engine_of(qp)->responder.unacked >= options->ack_every;
	case IB_ACK_MESSAGE_END:
		return message_ended;
	default:
		return false;
	}
}

void ack_if_asked(struct qp *qp, bool asked, bool message_ended)
{
	struct responder *r = &engine_of(qp)->responder;

	r->unacked++;
	if (r->due == DUE_ACK)
		QP_COUNT(qp, ack_deferred, 1);
	else if (wants_ack(qp, asked, message_ended))
		r->due = DUE_ACK;
}

void ack_again(struct qp *qp)
{
	struct responder *r = &engine_of(qp)->responder;

	if (r->due == DUE_NOTHING)
		r->due = DUE_ACK;
}

void ack_refuse(struct qp *qp, psn_t psn, uint8_t syndrome)
{
	struct responder *r = &engine_of(qp)->responder;

	r->due = DUE_NAK;
	r->syndrome = syndrome;
	r->nak_psn = psn;
}

/* What is answered came by this path. */
static void address_back(struct qp *qp, struct packet *p, enum opcode_op op, enum opcode_position position, psn_t psn,
			 unsigned path)
{
	path_address(qp, p);
	p->opcode = (uint8_t)opcode_find(engine_service(qp), op, position, 0);
	p->psn = psn;
	p->resv.bth6 = pace_marks(qp);
	if (reflect_of(qp))
		reflect_address(qp, reflect_choose(qp, path), p);
	p->aeth.syndrome = aeth_syndrome(AETH_ACK, AETH_NO_CREDITS);
	QP_COUNT(qp, sent_pkts, 1);
}

static void address(struct qp *qp, struct packet *p, enum opcode_op op, enum opcode_position position, psn_t psn)
{
	address_back(qp, p, op, position, psn, reflect_of(qp) ? reflect_of(qp)->last : 0);
}

static void say_held(const struct responder *r, struct packet *p)
{
	p->opcode = OPCODE_WEFT_SELECTIVE_ACK;
	reorder_bits(r->reorder, r->psn, p->heldeth.held);
	p->heldeth.repeats = r->reorder->repeats;
	p->heldeth.repeated = r->reorder->repeated;
	r->reorder->must_say = false;
}

/* An ACK names the last PSN executed, and in its MSN the messages up to there. A READ or an atomic is acknowledged by its
 * response alone (9.7.5.1.2): rdma_rxe takes an ACK of that very PSN for the response, and a READ whose response was lost
 * succeeds without data. So an ACK ends before it, unless the peer repeats selectively: it learns so that the response was
 * lost. */
static psn_t last_acknowledged(const struct qp *qp, uint32_t *msn)
{
	const struct responder *r = &engine_of(qp)->responder;
	const struct resource *first;

	*msn = r->msn;
	if (r->selective || engine_of(qp)->options.profile == IB_SEED || !r->newest)
		return psn_add(r->psn, -1);
	first = responder_resource(r, r->resources - r->newest);
	*msn = psn_add(first->msn, -1);
	return psn_add(first->psn, -1);
}

/* So does a sequence NAK in the seed profile, MSN-25. */
static bool say(struct qp *qp, struct packet *p)
{
	struct responder *r = &engine_of(qp)->responder;
	uint32_t msn = r->msn;
	psn_t psn;

	if (r->due == DUE_NOTHING)
		return false;
	psn = r->due == DUE_ACK ? last_acknowledged(qp, &msn) : psn_add(r->psn, -1);
	if (r->due == DUE_NAK)
		psn = r->nak_psn;
	if (r->due == DUE_NAK && engine_of(qp)->options.profile == IB_SEED &&
	    r->syndrome == aeth_syndrome(AETH_NAK, NAK_PSN_SEQUENCE))
		psn = psn_add(psn, -1);
	address(qp, p, OP_ACK, POS_ONLY, psn);
	p->aeth.msn = msn;
	if (r->due == DUE_NAK)
		p->aeth.syndrome = r->syndrome;
	else if (r->due == DUE_ACK && reorder_has_news(r->reorder))
		say_held(r, p);
	else if (r->due == DUE_HEARD)
		msn_exchange_say_heard(qp, p);
	r->due = r->due == DUE_ACK && reflect_acked(qp) ? DUE_ACK : DUE_NOTHING;
	r->unacked = r->unacked_receives = 0;
	list_remove(&qp->withheld);
	return true;
}

static struct resource *oldest_unanswered(const struct responder *r)
{
	uint32_t i = r->resources > r->depth ? r->resources - r->depth : 0;

	for (; r->owing > r->parts && i < r->resources; i++) {
		struct resource *res = responder_resource(r, i);

		if (res->next != res->end)
			return res;
	}
	return NULL;
}

/* The region is checked for every response: it may have gone since the request came (9.7.4.1.5). */
static bool read_memory(struct qp *qp, const struct resource *res, uint32_t offset, struct packet_out *out)
{
	struct packet *p = &out->packet;
	const struct pd *pd;
	struct mr *mr;

	p->payload = out->iov;
	p->payload_iovs = 1;
	if (!responder_pd(qp, res->srqn, &pd) ||
	    remote_check_pd(qp, pd, res->rkey, res->va + offset, p->payload_bytes, IBV_ACCESS_REMOTE_READ, &mr) != REMOTE_OK)
		return false;
	out->iov[0] = (struct iovec){ mr ? mr_borrow_to_copy(mr, res->va + offset) : out->bounce, p->payload_bytes };
	if (out->iov[0].iov_base)
		return true;
	out->iov[0].iov_base = out->bounce;
	return mr_read(mr, res->va + offset, out->bounce, p->payload_bytes) == 0;
}

static bool respond_read(struct qp *qp, struct resource *res, struct packet_out *out)
{
	struct packet *p = &out->packet;
	uint32_t mtu = engine_mtu(qp), packet = res->next;
	bool is_first = packet == res->asked, is_last = packet + 1 == res->end;
	enum opcode_position position = is_first ? (is_last ? POS_ONLY : POS_FIRST) : is_last ? POS_LAST : POS_MIDDLE;

	address_back(qp, p, OP_READ_RESPONSE, position, psn_add(res->psn, packet), res->path);
	p->payload_bytes = request_bytes(res->length, mtu, packet);
	return read_memory(qp, res, packet * mtu, out);
}

/* Each of a part stands alone, so that a part may end anywhere. They leave first: the requester holds what comes after them. */
static bool respond_part(struct qp *qp, const struct resource *res, uint32_t packet, struct packet_out *out)
{
	uint32_t mtu = engine_mtu(qp);

	address(qp, &out->packet, OP_READ_RESPONSE, POS_ONLY, psn_add(res->psn, packet));
	out->packet.payload_bytes = request_bytes(res->length, mtu, packet);
	return read_memory(qp, res, packet * mtu, out);
}

static void respond_atomic(struct qp *qp, const struct resource *res, struct packet *p)
{
	if (res->op == OP_ATOMIC_WRITE) {
		address(qp, p, OP_READ_RESPONSE, POS_ONLY, res->psn);
		return;
	}
	address(qp, p, OP_ATOMIC_ACK, POS_ONLY, res->psn);
	p->atomicack = res->original;
}

/* What the QP still owed is not paid any more: the requester will hear the NAK. */
static void withdraw_responses(struct qp *qp)
{
	struct responder *r = &engine_of(qp)->responder;
	struct resource *res;

	resources_drop_parts(qp);
	for (; (res = oldest_unanswered(r)); r->owing--)
		res->next = res->end;
}

/* SAN-31: any answer acknowledges what came before it, so all of them wait. Reaping makes the QP ready. */
static bool awaits_consumer(struct qp *qp)
{
	const struct engine *e = engine_of(qp);

	qp->held_by_consumer = e->options.ack_when_consumed && e->responder.phase != RESPONDER_STOPPING &&
			       qp->rq.engine.completed != qp->rq.ulp.reaped;
	return qp->held_by_consumer;
}

static void read_refused(struct qp *qp, wtime now, psn_t psn)
{
	struct responder *r = &engine_of(qp)->responder;

	withdraw_responses(qp);
	if (r->phase != RESPONDER_STOPPING)
		responder_stop(qp, now, psn, aeth_syndrome(AETH_NAK, NAK_REMOTE_ACCESS), IBV_EVENT_QP_ACCESS_ERR);
}

static void responded(struct qp *qp, const struct resource *res, struct packet *p)
{
	p->aeth.msn = res->msn;
	qp->bytes_sent += p->payload_bytes;
}

static bool output_part(struct qp *qp, wtime now, struct packet_out *out)
{
	uint32_t packet;
	const struct resource *res = resources_part(qp, &packet);

	if (!res || !pace_allows_response(qp, now))
		return false;
	pace_response_sent(qp, now);
	if (!respond_part(qp, res, packet, out)) {
		read_refused(qp, now, out->packet.psn);
		return false;
	}
	responded(qp, res, &out->packet);
	resources_part_sent(qp);
	return true;
}

bool responder_output(struct qp *qp, wtime now, struct packet_out *out)
{
	struct responder *r = &engine_of(qp)->responder;
	struct resource *res;

	if (r->phase == RESPONDER_CLOSED || awaits_consumer(qp))
		return false;
	if (r->parts && output_part(qp, now, out))
		return true;
	res = oldest_unanswered(r);
	if (res && res->op == OP_READ_REQUEST && !pace_allows_response(qp, now))
		return false;
	if (res && res->op == OP_READ_REQUEST && !respond_read(qp, res, out)) {
		read_refused(qp, now, out->packet.psn);
		res = NULL;
	}
	if (!res) {
		bool said = say(qp, &out->packet);

		if (r->phase == RESPONDER_STOPPING)
			r->phase = RESPONDER_CLOSED;
		return said;
	}
	if (res->op == OP_READ_REQUEST)
		pace_response_sent(qp, now);
	else
		respond_atomic(qp, res, &out->packet);
	responded(qp, res, &out->packet);
	res->next++;
	if (res->next == res->end) {
		res->answered = true;
		r->owing--;
	}
	return true;
}
