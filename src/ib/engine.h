/* What hangs at qp->engine: the sending half (flight), the receiving half (responder), and how the connection is run. */
#ifndef WEFT_IB_ENGINE_H
#define WEFT_IB_ENGINE_H

#include "ib/flight.h"
#include "ib/ib.h"
#include "ib/origin.h"
#include "ib/responder.h"
#include "verbs/qp.h"
#include "wire/mtu.h"

/* The direct request that was counted last, and what it weighed there and back (ib/direct_load.h). */
struct direct_load {
	uint8_t op, trailer;		/* enum opcode_op, HDR_IMM or HDR_IETH or 0 */
	uint32_t words, packets;
	uint64_t bytes;			/* UINT64_MAX: there is none */
};

struct engine {
	struct ib_options options;
	enum opcode_service service;	/* of the QP's type; raw packets have no opcodes */
	bool selective;			/* repeats selectively, when the peer does: loss.h, reorder.h */
	bool acks_as_usual;		/* nobody chose when and how: direct messages may do without */
	bool takes_short;		/* RC, and that: short messages have a way of their own */
	bool paces;			/* holds back where there is congestion, when the peer is on another host: pace.h */
	psn_t postponed_psn;			/* the ACK, while the QP is in ca.acks.postponed ... */
	bool trusts;			/* ... or as if there were one of trusted_psn, if the peer keeps its promise */
	bool is_ahead;			/* sends were completed so up to sure_psn, and nothing tells of their execution yet */
	psn_t trusted_psn, sure_psn;
	uint64_t trusted_path;		/* direct_path.sequence when it was sent: what was promised there is not promised anew */
	struct direct_load load;
	struct flight flight;		/* RC, UC, XRC_SEND; of UD and raw packet only the phase */
	struct responder responder;	/* RC, UC, XRC_RECV */
	struct spread *spread;		/* owned; NULL: what it requests goes by one path */
	bool spreads_by_lids;		/* which are pairs of LIDs (verbs/lid_paths.h) */
	struct reflect *reflect;	/* owned; NULL: so does what its peer requests */
	struct multi *multi;		/* owned; RC of the multipath profile: it has this in place of flight and responder */
	struct ud_wait *waiting;	/* owned, made when a datagram waited for a receive (ib/ud_wait.h); NULL: none has */
	struct pace *pace;		/* owned, made with the first packet to another host, or that came marked from one */
	struct origin origin;		/* of what it takes in */
	unsigned detours;		/* requests in a row that could have done without packets, but had to follow some */
};

static inline struct engine *engine_of(const struct qp *qp)
{
	return qp->engine;
}

static inline bool engine_completes_by_msn(const struct engine *e)
{
	if (e->options.completion == IB_COMPLETE_AS_PROFILE)
		return e->options.profile == IB_SEED;
	return e->options.completion == IB_COMPLETE_BY_MSN;
}

static inline bool engine_is_reliable(const struct qp *qp)
{
	return qp->type != IBV_QPT_UC && !qp_is_datagram(qp);
}

static inline bool engine_exchanges_start(const struct qp *qp)
{
	const struct ib_options *options = &engine_of(qp)->options;

	return options->exchange_start && options->profile == IB_SEED && engine_is_reliable(qp);
}

static inline enum opcode_service engine_service(const struct qp *qp)
{
	return engine_of(qp)->service;
}

/* Are there direct paths, and could the QP take one? What can migrate sends packets (verbs/migration.h). */
static inline bool engine_could_go_directly(const struct qp *qp)
{
	return qp->ca->direct && (qp->type == IBV_QPT_RC || qp->type == IBV_QPT_UC) &&
	       qp->attr.path_mig_state == IBV_MIG_MIGRATED;
}

/* May it now? The books of packets that are spread know of packets alone. */
static inline bool engine_may_go_directly(const struct qp *qp)
{
	return !engine_of(qp)->spreads_by_lids && engine_could_go_directly(qp);
}

static inline uint32_t engine_mtu(const struct qp *qp)
{
	return mtu_bytes(qp_is_datagram(qp) ? qp->dev->active_mtu : qp->attr.path_mtu);
}

/* May it take packets in? RTR, RTS, SQD and SQE: IBA 10.3.1. */
static inline bool engine_receives(const struct qp *qp)
{
	return qp->state == IBV_QPS_RTR || qp->state == IBV_QPS_RTS || qp->state == IBV_QPS_SQD || qp->state == IBV_QPS_SQE;
}

/* As qp_rearm, after what may have stopped a timer, if one ran: those of messages rest most often. */
static inline void engine_rearm(struct qp *qp)
{
	if (engine_of(qp)->flight.deadline != WTIME_NEVER || timer_heap_contains(&qp->timer))
		qp_rearm(qp);
}

#endif
