/* The requester: takes WQEs in order, cuts them into packets, sends again what was lost, completes what is settled. */
#ifndef WEFT_IB_REQUESTER_H
#define WEFT_IB_REQUESTER_H

#include "verbs/direct.h"
#include "verbs/qp.h"

/* The next packet: one to send again, or a fresh one. False: nothing may leave now. */
bool requester_output(struct qp *qp, wtime now, struct packet_out *out);

/* Executes what needs no packets, as far as that goes. True: nothing is left for packets. */
bool requester_run_direct(struct qp *qp);

/* To RTS: from the PSN in the attributes, or (after SQE, SQD) on from where it was. */
void requester_open(struct qp *qp, psn_t psn);

/* Nothing leaves any more, and nothing is waited for. */
void requester_close(struct qp *qp);

/* Every retry is allowed again: something got through. */
void requester_reset_retries(struct qp *qp);
/* The QP has migrated: all its retries are given back, and soon it asks by the new path for what is in flight. */
void requester_migrated(struct qp *qp, wtime now);

/* WQEs before the oldest packet in flight are done. Tells SQ_DRAINED when that was waited for. */
void requester_complete(struct qp *qp);

/* The oldest WQE fails; the send queue stops (RC: the QP). */
void requester_fail(struct qp *qp, wtime now, enum ibv_wc_status status);

/* Points the packet at its payload_bytes of the WQE's data from `offset` on: at inline bytes, or gathered. */
enum ibv_wc_status requester_gather(struct qp *qp, const struct send_wqe *wqe, uint32_t offset, struct packet_out *out);
/* All of the WQE's data where it lies, inline or in memory that allows `access`: so many pieces. -1: some cannot be borrowed. */
static inline int requester_borrow(const struct qp *qp, const struct send_wqe *wqe, int access, struct iovec iov[DIRECT_IOVS])
{
	if (wqe->flags & IBV_SEND_INLINE) {
		iov[0] = (struct iovec){ (uint8_t *)(uintptr_t)wqe->seg, wqe->length };
		return wqe->length > 0;
	}
	if (wqe->num_sge == 1 && wqe->length && wqe->seg->length == wqe->length) {	/* as most have: no list to walk */
		iov[0] = (struct iovec){ seg_memory(qp->pd, wqe->seg, wqe->length, access), wqe->length };
		return iov[0].iov_base ? 1 : -1;
	}
	return seg_borrow(qp->pd, wqe->seg, wqe->num_sge, access, wqe->length, iov);
}

/* Everything from this PSN on was lost: sends it again, unless that is so already. The QP fails when no retries are left. */
void requester_go_back(struct qp *qp, wtime now, psn_t psn);

/* Looks for packets that were lost by themselves (loss.h). */
void requester_find_lost(struct qp *qp, wtime now);

void requester_expire(struct qp *qp, wtime now);

#endif
