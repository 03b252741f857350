/* What a trace says of the transport engine beside its frames: each entry that is not a packet, as a record of numbers. With
 * these and the frames that passed inwards the engine can be run again; those that came out must be the same. */
#ifndef WEFT_IMPAIR_TRACE_ENGINE_H
#define WEFT_IMPAIR_TRACE_ENGINE_H

#include "impair/trace.h"
#include "verbs/qp.h"

/* TRACE_QP: attributes were modified. Everything of the QP that the engine reads; the record's `to` is its number. */
struct trace_qp {
	uint64_t type, state, mask, max_send_wr, max_recv_wr, srq;	/* its number + 1; 0: none */
	uint64_t pkey_index, pkey, qkey, path_mtu, dest_qpn, rq_psn, sq_psn, access, timeout, retry_cnt, rnr_retry, min_rnr_timer;
	uint64_t max_rd_atomic, max_dest_rd_atomic;
	uint64_t has_grh, slid, dlid, sgid[2], dgid[2];
	uint64_t profile, ack_mode, window_pkts, ack_every, report_last_only, start_msn, exchange_start, completion;
	uint64_t ack_when_consumed, selective_repeat;
	uint64_t path_mig_state, alt_pkey_index, alt_pkey, alt_timeout;	/* 0 but of a QP with an alternate path; and its: */
	uint64_t alt_has_grh, alt_slid, alt_dlid, alt_sgid[2], alt_dgid[2];
};

/* TRACE_SEND: a send WQE was announced. Of a datagram's address nothing but the QP and Q_Key: the rest is not compared. */
struct trace_send {
	uint64_t opcode, flags, imm, length, remote_qpn, qkey, remote_addr, rkey, compare_add, swap, atomic_write;
};

/* TRACE_RECEIVES: so many receives were announced in all. */
struct trace_receives {
	uint64_t announced;
};

/* TRACE_SRQ: what a frame, which follows, finds in the shared receive queue that it needs. */
struct trace_srq {
	uint64_t is_xrc, max_wr;	/* max_wr 0: an XRC packet named one that does not exist */
	uint64_t is_new, announced;	/* is_new: whatever had that number before is gone */
};

/* TRACE_CALL: the errno that it ended with, and bits of the faults whose events happened with it. TRACE_EVENT: bits of the
 * devices that it happened to. */
struct trace_call {
	uint64_t error, bits;
};

/* The members as the record's data: `bytes` of them, a multiple of 8. */
void trace_put_numbers(const void *members, uint32_t bytes, uint8_t *to);
/* False: the record has not as many. */
bool trace_get_numbers(const struct trace_record *r, void *members, uint32_t bytes);

void trace_qp_of(const struct qp *qp, int mask, struct trace_qp *t);
/* The attributes, and what can be modified of them. The path and the P_Key are the caller's to set. */
int trace_qp_attr(const struct trace_qp *t, struct ibv_qp_attr *attr);
void trace_send_of(const struct qp *qp, const struct send_wqe *wqe, struct trace_send *t);

#endif
