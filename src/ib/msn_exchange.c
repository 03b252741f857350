#include "ib/msn_exchange.h"

#include "ib/engine.h"
#include "ib/path.h"
#include "ib/requester.h"
#include "ib/timer.h"
#include "wire/aeth.h"
#include "wire/packet.h"

/* The value under AETH_RESERVED; our choice, as the standard leaves it unused (IBA vol. 1, table 44). */
enum { MSN_EXCHANGE_TELL = 1, MSN_EXCHANGE_HEARD = 2 };

void msn_exchange_open(struct qp *qp)
{
	struct flight *f = &engine_of(qp)->flight;

	f->phase = FLIGHT_SENDING_MSN;
	f->start_msn = (uint32_t)rand_below(&qp->ca->rand, PSN_MASK + 1);
	f->msn = psn_add(f->start_msn, -1);
}

bool msn_exchange_output(struct qp *qp, wtime now, struct packet_out *out)
{
	struct flight *f = &engine_of(qp)->flight;
	struct packet *p = &out->packet;

	if (qp->sq.engine.started == qp->sq.engine.announced)
		return false;
	path_address(qp, p);
	p->opcode = (uint8_t)opcode_find(engine_service(qp), OP_ACK, POS_ONLY, 0);
	p->psn = f->psn;
	p->aeth.syndrome = aeth_syndrome(AETH_RESERVED, MSN_EXCHANGE_TELL);
	p->aeth.msn = f->start_msn;
	f->phase = FLIGHT_AWAITING_MSN;
	timer_packet_sent(qp, now);
	QP_COUNT(qp, sent_pkts, 1);
	return true;
}

bool msn_exchange_is_for(const struct qp *qp, const struct packet *p)
{
	return engine_exchanges_start(qp) && opcode_row(p->opcode)->op == OP_ACK && aeth_kind(p->aeth.syndrome) == AETH_RESERVED;
}

/* The number stands once requests have come. A number that is told again gets the same answer. */
static void told(struct qp *qp, const struct packet *p)
{
	struct responder *r = &engine_of(qp)->responder;

	if (r->phase == RESPONDER_WAITING && p->psn == r->psn) {
		r->start_msn = p->aeth.msn;
		r->msn = psn_add(r->start_msn, -1);
	}
	if (r->phase == RESPONDER_CLOSED || r->phase == RESPONDER_STOPPING || p->aeth.msn != r->start_msn ||
	    r->due != DUE_NOTHING)
		return;
	r->due = DUE_HEARD;
	qp_ready(qp);
}

static void heard(struct qp *qp, wtime now, const struct packet *p)
{
	struct flight *f = &engine_of(qp)->flight;

	if ((f->phase != FLIGHT_SENDING_MSN && f->phase != FLIGHT_AWAITING_MSN) || p->aeth.msn != f->start_msn)
		return;
	f->phase = FLIGHT_OPEN;
	requester_reset_retries(qp);
	timer_progress(qp, now);
	qp_ready(qp);
}

void msn_exchange_input(struct qp *qp, wtime now, const struct packet *p)
{
	switch (aeth_value(p->aeth.syndrome)) {
	case MSN_EXCHANGE_TELL:
		told(qp, p);
		break;
	case MSN_EXCHANGE_HEARD:
		heard(qp, now, p);
		break;
	default:
		break;
	}
}

void msn_exchange_say_heard(const struct qp *qp, struct packet *p)
{
	p->aeth.syndrome = aeth_syndrome(AETH_RESERVED, MSN_EXCHANGE_HEARD);
	p->aeth.msn = engine_of(qp)->responder.start_msn;
}
