#include "ib/complete_by_wqe.h"

#include "ib/engine.h"
#include "ib/request.h"

static uint32_t psns(const struct qp *qp, const struct send_wqe *wqe)
{
	switch (request_row(wqe)->kind) {
	case REQUEST_BIND:
	case REQUEST_INVALIDATE:
		return 0;
	case REQUEST_DATA:
	case REQUEST_READ:
		return request_packets(wqe->length, engine_mtu(qp));
	default:
		return 1;
	}
}

void complete_by_wqe_advance(struct qp *qp)
{
	struct flight *f = &engine_of(qp)->flight;
	psn_t arrived = flight_empty(f) ? f->psn : flight_at(f, f->oldest)->psn;

	/* the lengths are the consumer's: no more WQEs than were begun */
	while (f->wqe_completed_psn != arrived && f->wqe_completed != qp->sq.engine.fetched) {
		psn_t next = psn_add(f->wqe_completed_psn, psns(qp, qp_send_wqe(qp, f->wqe_completed)));

		qp->ca->counters.ack_wqe_reads++;
		if (psn_cmp(next, arrived) > 0)
			return;
		f->wqe_completed++;
		f->wqe_completed_psn = next;
	}
}
