/* Queue pairs: attributes, state machine (IBA 10.3, table of modify masks in qp_state.c), posting, completion, flush.
 * The transport's part hangs at qp->engine. */
#ifndef WEFT_VERBS_QP_H
#define WEFT_VERBS_QP_H

#include "verbs/cq.h"
#include "verbs/direct.h"
#include "verbs/doorbells.h"
#include "verbs/lid_paths.h"
#include "verbs/migration.h"
#include "verbs/mr.h"
#include "verbs/srq.h"
#include "verbs/transport.h"

/* An address handle. The ABI's object comes first, so that the `ah` of a work request leads here. */
struct ah {
	struct ibv_ah ibv;
	struct pd *pd;			/* ref */
	struct av av;
};

/* The receives of a QP that its peer may count on: those before index `until`, as each is of one segment, in memory of the QP's
 * PD that may be written. Whatever changes that breaks the promise: qp_state.c. */
struct qp_receives {
	uint32_t until;			/* an index of the receive queue; not after `started`: none */
	uint8_t size;			/* each has 2^size bytes at least */
	bool are_promised;		/* the peer was told of some */
	struct known_region region;	/* of the last one */
};

struct qp {
	struct ca *ca;			/* borrowed */
	struct ca_device *dev;		/* borrowed */
	struct pd *pd;			/* ref; NULL for XRC_RECV */
	struct cq *send_cq, *recv_cq;	/* ref; NULL for XRC_RECV (and recv_cq for XRC_SEND) */
	struct srq *srq;		/* ref or NULL */
	struct xrcd *xrcd;		/* ref: XRC_RECV */
	enum ibv_qp_type type;
	uint8_t kind;			/* enum qp_kind, of the type */
	uint8_t paths_most;		/* the transport's: by so many paths its packets may go */
	uint32_t qpn;
	enum ibv_qp_state state;
	struct ibv_qp_attr attr;	/* as modified; qp_state inside is not used */
	struct packet_path path;	/* derived from attr.ah_attr: addresses of every packet this QP sends (not UD) */
	struct route route;		/* where they go: qp_route */
	struct lid_paths *lid_paths;	/* owned; NULL: they go by one pair of LIDs, or have none */
	struct migration *migration;	/* owned; NULL: it never had an alternate path */
	struct ibv_qp_cap cap;
	bool sq_sig_all;
	bool sends_packets;	/* and takes them alone: its peer never goes directly */
	uint64_t send_ops_flags;	/* extended QP */
	uint32_t send_ops;		/* 1 << IBV_WR_* of those that its type and its transport have */
	struct wq sq, rq;
	struct qp_receives receives;
	struct known_region sends_from;
	void *engine;			/* owned by the transport */
	struct list_node ready;		/* in ca.ready, ca.blocked or ca.slices */
	struct list_node all;
	struct timer_heap_node timer;
	uint32_t refs;			/* handles: 1, more for a shared XRC QP */
	uint32_t mcasts;
	uint32_t windows;		/* type 2, bound on it */
	uint32_t flows;			/* raw packet: rules and tables that lead to it */
	struct rss *rss;		/* owned; raw packet: frames are spread over other QPs */
	uint32_t handle;
	uint32_t published;		/* the direct path's: 0 when its peer cannot use it */
	void *user;			/* the ABI's object */
	struct direct_path direct_path;		/* the direct path's */
	struct list_node unacked;	/* in ca.acks.untimed or ca.acks.unacked */
	struct list_node postponed;	/* in ca.acks.postponed */
	struct list_node withheld;	/* in ca.acks.withheld */
	void *observer;			/* owned, from malloc: of who watches the transport; NULL: nobody does */
	bool sqd_async;			/* en_sqd_async_notify */
	bool is_failing;		/* qp_error is at it */
	uint8_t ip_version;		/* of its path, when the consumer said so: 4, 6 or 0 */
	bool held_by_consumer;		/* the transport has something to say once completed receives are reaped */
	struct {			/* the receive a half-arrived message holds; taken while `srq` or `own` */
		struct srq *srq;	/* borrowed: it outlives the QP or is the QP's */
		uint64_t wr_id;
		uint32_t index;
		bool own;
	} taken;
	struct ibv_ece ece;
	uint64_t bytes_sent, bytes_received, messages_sent, messages_received;
	uint64_t datagrams_dropped;	/* as the counter dropped_datagrams, of this QP */
};

int qp_create(struct ca *ca, struct ca_device *dev, struct ibv_qp_init_attr_ex *attr, struct pd *pd, struct cq *send_cq,
	      struct cq *recv_cq, struct srq *srq, struct xrcd *xrcd, struct qp **qp);
/* As ibv_modify_qp, checked against the standard's table. -EINVAL changes nothing. */
int qp_modify(struct qp *qp, wtime now, const struct ibv_qp_attr *attr, int mask);
int qp_query(struct qp *qp, struct ibv_qp_attr *attr, int mask, struct ibv_qp_init_attr *init);
/* Gives back one handle, the last one destroys. -EBUSY while attached to multicast groups or rules lead to it. */
int qp_destroy(struct qp *qp);
/* Another handle for the XRC_RECV QP of that number in that domain: -ENOENT, -EINVAL. */
int qp_open(struct xrcd *xrcd, uint32_t qpn, struct qp **qp);
/* The QP of that number, or NULL; any number may be asked for. */
static inline struct qp *qp_find(const struct ca *ca, uint32_t qpn)
{
	const struct qp_table *t = &ca->by_number;
	uint32_t at = qp_table_home(t, qpn);
	struct qp *qp;

	while ((qp = t->place[at]) && qp->qpn != qpn)
		at = qp_table_after(t, at);
	return qp;
}

/* The P_Key of its packets: what the port's table has at its index now. */
static inline uint16_t qp_pkey(const struct qp *qp)
{
	return qp->dev->pkey[qp->attr.pkey_index];
}

/* Counts n more of a counter of base/counters.def. */
#define QP_COUNT(qp, name, n) ca_count((qp)->ca, (qp)->dev, COUNTER_INDEX(name), n)

/* Where what the connected QP sends goes. */
static inline const struct route *qp_route(struct qp *qp)
{
	if (qp->route.generation != qp->ca->routes.generation)
		lid_paths_ask(qp);
	return &qp->route;
}

/* A direct message that came over a channel. A QP whose transport takes none gets none. */
static inline void ca_message(struct ca *ca, wtime now, const void *channel, const struct direct_message *m)
{
	struct qp *qp = qp_find(ca, m->dest_qpn);

	ca->now = now;
	if (qp && qp->dev->transport->messages)
		qp->dev->transport->messages->qp_message(qp, now, channel, m);
	else
		ca->counters.dropped_no_qp++;
}

/* The peer's promise came with what it has executed. */
static inline void qp_note_promise(struct qp *qp, psn_t received, struct direct_promise p)
{
	qp->direct_path.limit = psn_add(received, 1 + p.receives);
	qp->direct_path.promised = p.receives ? 1u << p.size : 0;
}

/* The same for a short one (message_ops.qp_short), 0 < bytes. False: ca_message is to be called. */
static inline bool ca_short_message(struct ca *ca, const void *channel, uint32_t dest_qpn, uint32_t src_qpn, psn_t psn,
				    psn_t received, struct direct_promise promise, const void *data, uint32_t bytes,
				    bool solicited)
{
	struct qp *qp = qp_find(ca, dest_qpn);

	if (!qp || qp->direct_path.channel != channel || qp->attr.dest_qp_num != src_qpn || !qp->dev->transport->messages ||
	    !qp->dev->transport->messages->qp_short(qp, psn, received, data, bytes, solicited))
		return false;
	qp_note_promise(qp, received, promise);
	return true;
}

/* Posting copies the list into WQEs and rings the doorbell for what was good; 0 or -errno with *bad set.
 * -EINVAL: wrong state, opcode, flags, too many SGEs, inline too long; -ENOMEM: queue full. */
int qp_post_send(struct qp *qp, wtime now, struct ibv_send_wr *wr, struct ibv_send_wr **bad);
int qp_post_recv(struct qp *qp, wtime now, const struct ibv_recv_wr *wr, const struct ibv_recv_wr **bad);
/* For the wr_* builders: validate a WQE written by qp_send_slot, then qp_send_ring announces all. Without credit: NULL. */
struct send_wqe *qp_send_slot(struct qp *qp);
enum {
	SEND_FLAGS_KNOWN = IBV_SEND_FENCE | IBV_SEND_SIGNALED | IBV_SEND_SOLICITED | IBV_SEND_INLINE,
	SEND_FLAG_REFUSED = 1 << 7,	/* none of IBV_SEND_* that a WQE can have */
};
/* What a WQE holds of a program's flags; of those it has no room for, one that is refused. */
static inline uint8_t qp_send_flags(unsigned flags)
{
	return flags <= UINT8_MAX ? (uint8_t)flags : SEND_FLAG_REFUSED;
}

/* Its data, when that is not inline: n <= cap.max_send_sge segments. A sum that its length cannot hold is too long anyway. */
static inline void qp_send_data(struct send_wqe *wqe, const struct ibv_sge *sge, uint32_t n)
{
	struct wqe_seg *seg = wqe->seg;
	uint64_t length = 0;

	wqe->num_sge = (uint8_t)n;
	for (; n; n--, sge++, seg++) {
		*seg = (struct wqe_seg){ sge->addr, sge->length, sge->lkey };
		length += sge->length;
	}
	wqe->length = length < UINT32_MAX ? (uint32_t)length : UINT32_MAX;
}

int qp_send_written(struct qp *qp, struct send_wqe *wqe);
void qp_send_abort(struct qp *qp, uint32_t n);
void qp_send_ring(struct qp *qp, wtime now);

/* ---- the engine's, and for transports ---- */

/* Where a completion of the QP is to be written, but for wqe_index and srqn: in the CQ, or in the list of who polls it, which
 * holds the first bytes of it. qp_completed follows with the index of its WQE, which counts as completed. */
static inline struct cqe *qp_completion_place(const struct qp *qp, struct cq *cq, bool may_be_polled)
{
	return may_be_polled && cq_is_awaited(cq) && !qp->held_by_consumer ? (struct cqe *)(void *)cq->awaiting : cq_next(cq);
}

/* queue: of the WQE; what went to who polls is as if it had been in the CQ and was removed. srqn: of a shared one, whose credits
 * come back in any order; or 0. */
static inline void qp_completed(struct cq *cq, struct cqe *place, struct wq_ulp *queue, uint32_t index, uint32_t srqn,
				bool solicited)
{
	if ((void *)place == cq->awaiting) {
		cq->awaiting++;
		wq_reaped(queue, srqn ? queue->reaped : index);
		return;
	}
	place->wqe_index = index;
	place->srqn = srqn;
	cq_publish(cq, place, solicited);
}

/* As seg_memory, of bytes > 0 that the QP sends. */
const void *qp_find_send_memory(struct qp *qp, const struct wqe_seg *seg);
static inline const void *qp_send_memory(struct qp *qp, const struct wqe_seg *seg)
{
	const void *memory = known_region_at(&qp->sends_from, seg->addr, seg->length, seg->lkey);

	return memory ? memory : qp_find_send_memory(qp, seg);
}

/* Completes everything announced with WR_FLUSH_ERR. */
void qp_flush_send(struct qp *qp);
void qp_flush_recv(struct qp *qp);

/* sq.engine.announced has grown. */
static inline void qp_send_announced(struct qp *qp, wtime now)
{
	qp->ca->now = now;
	if (qp->state == IBV_QPS_ERR || qp->state == IBV_QPS_SQE)
		qp_flush_send(qp);
	else
		qp->dev->transport->qp_doorbell(qp, now);
}

enum { WQE_WORKED = 1 << 7 };	/* in the flags of the engine's copy: the local work of the WQE is done */

/* The next send WQE that was not copied yet (fetched < announced) becomes the engine's copy, which is returned. Each byte of the
 * ring is read once, as another process may write it at any time. A copy that could not be executed within the bounds of its
 * slot has a bad_status, no segments and no inline bytes. */
struct send_wqe *qp_send_fetch(struct qp *qp);
/* The send WQE of that cumulative index as the engine has it, sq.engine.completed <= index < sq.engine.fetched. */
static inline struct send_wqe *qp_send_wqe(const struct qp *qp, uint32_t index)
{
	return wq_copy_at(&qp->sq.engine, wq_position(&qp->sq.engine, index));
}

/* The oldest WQE that is not complete, sq.engine.completed < sq.engine.announced; copied here where it is flushed or fails before
 * it started. */
static inline struct send_wqe *qp_send_oldest(struct qp *qp)
{
	const struct wq_engine *sq = &qp->sq.engine;

	return sq->fetched == sq->completed ? qp_send_fetch(qp) : qp_send_wqe(qp, sq->completed);
}

/* The WQE that starts next, sq.engine.started < sq.engine.announced. */
static inline struct send_wqe *qp_send_next(struct qp *qp)
{
	return qp->sq.engine.fetched == qp->sq.engine.started ? qp_send_fetch(qp) : qp_send_wqe(qp, qp->sq.engine.started);
}

/* Send WQE sq.engine.completed (the oldest) is finished; a CQE is made when it is signaled or failed. In order only.
 * On an error status the caller moves the QP to error with qp_error afterwards. When the CQ is dead the QP is in the error
 * state already: that also holds for qp_recv_complete and qp_recv_short. */
void qp_send_complete(struct qp *qp, enum ibv_wc_status status);
/* The same, successfully, of all WQEs before that cumulative index. A completion that finds its CQ dead completes all there
 * is. */
void qp_send_complete_until(struct qp *qp, uint32_t index);

/* rq.engine.announced has grown. */
static inline void qp_recv_announced(struct qp *qp, wtime now)
{
	qp->ca->now = now;
	if (qp->state == IBV_QPS_ERR)
		qp_flush_recv(qp);
	else
		qp->dev->transport->qp_recv_doorbell(qp, now);
}

/* A receive WQE taken by an inbound message. */
struct recv_ref {
	uint64_t wr_id;
	uint32_t index;		/* in its WQ */
	uint32_t num_sge, length;
	bool is_srq;
	struct srq *srq;
	struct wqe_seg seg[32];	/* the validated copy */
};
/* Takes the next receive from the RQ, the SRQ, or the given XRC SRQ. False: none posted (RNR, or drop for UC and UD). */
bool qp_recv_take(struct qp *qp, struct srq *xrc_srq, struct recv_ref *ref);
/* Has the QP an RQ of its own, and no receive in it? */
bool qp_recv_is_dry(struct qp *qp);
/* A short send, which arrives in one piece: takes the next receive of the RQ or SRQ, if it has one segment, fills and completes
 * it. False: nothing was taken; qp_recv_take and its followers tell why. */
bool qp_recv_short(struct qp *qp, const void *data, uint32_t bytes, bool solicited);
/* The same of a datagram without GRH, before whose bytes the receive has room for one. */
bool qp_recv_datagram(struct qp *qp, uint32_t before, const struct direct_message *m);
/* Completes it: cqe->status, opcode, byte_len, imm, wc_flags, src_qp, slid, sl ... are the caller's; the rest is filled. */
void qp_recv_complete(struct qp *qp, const struct recv_ref *ref, struct cqe *cqe, bool solicited);
/* Gives back a receive that was taken but not used (UC and UD messages that fail): it is next again. */
void qp_recv_untake(struct qp *qp, const struct recv_ref *ref);

/* Writes a list of receives into a queue and rings its doorbell: for RQs and SRQs. */
int recv_post(struct wq *wq, uint32_t max_sge, const struct ibv_recv_wr *wr, const struct ibv_recv_wr **bad);

/* To the error state: transport forgets, both queues flush with WR_FLUSH_ERR, LAST_WQE_REACHED for SRQ QPs.
 * event: 0 or the async event to raise first (e.g. IBV_EVENT_QP_ACCESS_ERR, -1 for none). */
void qp_error(struct qp *qp, wtime now, int event);
/* Datagram and UC: a failed send stops the send queue alone (SQE, IBA 10.3.1.6); otherwise as qp_error. */
void qp_send_error(struct qp *qp, wtime now, int event);
/* Marks the QP as having something to send, or re-reads its deadline into the timers. Idempotent. */
void qp_ready(struct qp *qp);
/* Its next slice comes after other QPs: ca_resume. */
void qp_next_slice(struct qp *qp);
void qp_rearm(struct qp *qp);
/* A direct message was sent without starting the ACK timer: into ca.acks.untimed. */
static inline void qp_await_ack(struct qp *qp)
{
	list_remove(&qp->unacked);
	list_append(&qp->ca->acks.untimed, &qp->unacked);
}
/* The ACK that is due waits for what the program sends next: into ca.acks.withheld. */
static inline void qp_withhold_ack(struct qp *qp)
{
	if (!list_linked(&qp->withheld))
		list_append(&qp->ca->acks.withheld, &qp->withheld);
}
void qp_event(struct qp *qp, enum ibv_event_type event);
/* The first packet arrived. In RTR that raises COMM_EST, and only from now on the peer may do without packets. */
void qp_established(struct qp *qp);

/* UD and raw packet: every WQE says where it goes. */
static inline bool qp_is_datagram(const struct qp *qp)
{
	return qp->type == IBV_QPT_UD || qp->type == IBV_QPT_RAW_PACKET;
}

/* Multicast: UD QPs by group. */
struct mcast_member {
	struct list_node node;
	struct qp *qp;
	struct ca_device *dev;		/* borrowed: the port of the QP when it was attached, where it listens */
	uint8_t gid[16];
	uint16_t lid;
};
int mcast_attach(struct qp *qp, const uint8_t gid[16], uint16_t lid);
int mcast_detach(struct qp *qp, const uint8_t gid[16], uint16_t lid);
void mcast_detach_all(struct qp *qp);

/* What a message of the QP tells its peer. */
static inline struct direct_promise qp_promise(struct qp *qp)
{
	uint32_t n = qp->receives.until - qp->rq.engine.started;

	if ((int32_t)n <= 0)
		return (struct direct_promise){ 0 };
	qp->receives.are_promised = true;
	return (struct direct_promise){ (uint8_t)(n < PROMISE_RECEIVES ? n : PROMISE_RECEIVES), qp->receives.size };
}

/* Before what its peer sent is refused, as where it is leads no longer to the QP: its peer finds it anew, and what was promised
 * until now is executed. */
void qp_break_promise(struct qp *qp);

/* ---- between the files of this room ---- */

/* The region changes, or goes: no QP knows it, or has promised anything of it. */
void qps_forget_region(const struct mr *mr);

/* What posting, completing and capabilities must know of an ibv_wr_opcode; NULL for one that is refused. */
struct send_op {
	uint8_t types;		/* 1 << qp_kind of every QP type that may post it */
	uint8_t wc_opcode;	/* enum ibv_wc_opcode */
	enum { DATA_NONE, DATA_OUT, DATA_IN, DATA_ATOMIC, DATA_ATOMIC_WRITE } data;	/* the last two are of 8 bytes */
	uint32_t ops_flag;	/* IBV_QP_EX_WITH_* */
};
enum { SEND_OPS = IBV_WR_ATOMIC_WRITE + 1 };
extern const struct send_op send_ops[SEND_OPS];
static inline const struct send_op *send_op(unsigned opcode)
{
	return opcode < SEND_OPS && send_ops[opcode].types ? &send_ops[opcode] : NULL;
}
/* The same, if the QP has the operation. */
static inline const struct send_op *send_op_of(const struct qp *qp, unsigned opcode)
{
	return opcode < SEND_OPS && qp->send_ops & 1u << opcode ? &send_ops[opcode] : NULL;
}

enum qp_kind { QP_KIND_RC, QP_KIND_UC, QP_KIND_UD, QP_KIND_XRC_SEND, QP_KIND_XRC_RECV, QP_KIND_RAW, QP_KINDS };
/* One segment on a connected QP, as most WQEs have: there is nothing to judge but what is asked here. */
static inline bool send_is_plain(const struct qp *qp, const struct send_op *op, const struct send_wqe *wqe)
{
	return op->data <= DATA_IN && wqe->num_sge == 1 && !(wqe->flags & IBV_SEND_INLINE) &&
	       wqe->length <= MESSAGE_MAX_BYTES && qp->cap.max_send_sge && qp->kind <= QP_KIND_UC;
}
/* -1 for types that are not supported. */
int qp_kind(enum ibv_qp_type type);
/* 0, or -EINVAL when the table does not allow the transition with that mask. */
int transition_check(const struct qp_transitions *table, enum ibv_qp_type type, enum ibv_qp_state from, enum ibv_qp_state to,
		     int mask);
/* The values of the masked attributes: -EINVAL, -EOPNOTSUPP. */
int qp_attr_check(const struct qp *qp, const struct ibv_qp_attr *attr, int mask);
void qp_attr_store(struct qp *qp, const struct ibv_qp_attr *attr, int mask);
/* The longest packets that this path of the QP takes: enum ibv_mtu; 0: of any length. */
int qp_path_mtu(const struct qp *qp, const struct packet_path *path);
/* Does the path take packets as long as those of the QP, which is connected? Before it is: true. */
bool qp_path_fits(const struct qp *qp, const struct ibv_ah_attr *attr);
/* qp->path is another: where it leads is asked again, and its peer finds it anew. */
void qp_path_changed(struct qp *qp);
/* A half-arrived message is forgotten: its SRQ gets the credit back. */
void qp_recv_forget(struct qp *qp);
/* Drops all completions and WQEs of the QP: reset and destroy. */
void qp_queues_reset(struct qp *qp);

/* UD and connected paths: the packet_path of an address vector; -EINVAL for a bad GID index or LID of this port.
 * The port that *attr names is not looked at. */
int av_from_attr(struct ca_device *dev, const struct ibv_ah_attr *attr, struct av *av);
bool av_is_ipv4(const struct av *av);
/* Do both lead to the same place, in the same way? */
bool av_is_same(const struct av *a, const struct av *b);
/* Could av_from_attr have made it, but for GIDs that come and go? */
bool av_is_sound(const struct ca_device *dev, const struct av *av);
/* The flow label of a connection that was given none: lqpn * rqpn folded to 20 bits, the same at both ends. */
uint32_t av_flow_label(uint32_t lqpn, uint32_t rqpn);
/* qpn_hint: av_flow_label or 0. 0, or -EINVAL when the GID index is no longer valid. */
int av_path(const struct ca_device *dev, const struct av *av, uint32_t qpn_hint, struct packet_path *path);

#endif
