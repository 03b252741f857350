#include "ib/descriptor.h"

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

void descriptor_settle(struct qp *qp)
{
	struct flight *f = &engine_of(qp)->flight;
	psn_t arrived = flight_empty(f) ? f->psn : flight_at(f, f->oldest)->psn;

	/* WQEs may lie in memory that others write: no more of them than there are */
	while (f->settled_psn != arrived && f->settled != qp->sq.announced) {
		psn_t next = psn_add(f->settled_psn, psns(qp, qp_send_wqe(qp, f->settled)));

		qp->ca->counters.ack_wqe_reads++;
		if (psn_cmp(next, arrived) > 0)
			return;
		f->settled++;
		f->settled_psn = next;
	}
}
