/* Congestion control of a QP: where its packets, and what comes back, meet the law of congestion.h. It holds for packets to other
 * hosts, and for those of QPs that go by several paths through a subnet (spread.h): what else is on this host knows when it is
 * full, and is not held back.
 *
 * How a sender hears of marks (RFC 3168). Peers of weft tell how many of its requests came marked, modulo 64, in the reserved
 * bits beside FECN and BECN of what acknowledges them; they know each other by BTH_SELECTIVE. Others, and whoever sends
 * responses, hear it by a congestion notification packet (A17.9.3), at most one in PACE_NOTIFY_NS of a QP. */
#ifndef WEFT_IB_PACE_H
#define WEFT_IB_PACE_H

#include "ib/congestion.h"
#include "ib/engine.h"
#include "wire/header.h"

#define PACE_NOTIFY_NS (50 * WTIME_US)		/* DCQCN, 3.1: N */

struct pace {
	bool has_out, has_back;		/* requests left for another host; responses to READs did */
	struct congestion out, back;	/* of these */
	bool notifies;			/* a congestion notification is due */
	uint8_t marks;			/* how many requests of a peer of weft came marked */
	wtime notify_at;		/* no other notification before that */
};

/* NULL: none left. */
static inline struct congestion *pace_out(const struct qp *qp)
{
	struct pace *pace = engine_of(qp)->pace;

	return pace && pace->has_out ? &pace->out : NULL;
}

static inline struct congestion *pace_back(const struct qp *qp)
{
	struct pace *pace = engine_of(qp)->pace;

	return pace && pace->has_back ? &pace->back : NULL;
}

/* What holds back requests by one of the QP's paths (spread.h); NULL: nothing does. */
struct congestion *pace_of(const struct qp *qp, unsigned path);
/* A path is there, of which nothing is known. */
void pace_path_begin(struct qp *qp, wtime now, unsigned path);

/* Is what the QP sends now held back where there is congestion? After qp_route. */
static inline bool pace_applies(const struct qp *qp)
{
	return engine_of(qp)->paces && (qp->route.kind == ROUTE_LINK || engine_of(qp)->spreads_by_lids);
}

/* May a request leave, fresh or again? If not, the QP is ready when it may, or when something is acknowledged. */
bool pace_allows_request(struct qp *qp, wtime now, bool is_fresh);
int pace_choose_path(struct qp *qp, wtime now, bool is_fresh);
/* By which of its paths: 0 where there is one; -1: not. */
static inline int pace_allows(struct qp *qp, wtime now, bool is_fresh)
{
	if (engine_of(qp)->spread)
		return pace_choose_path(qp, now, is_fresh);
	return !pace_applies(qp) || pace_allows_request(qp, now, is_fresh) ? 0 : -1;
}

/* May a response to a READ leave? If not, the QP is ready when it may. */
bool pace_allows_response(struct qp *qp, wtime now);
/* It leaves. */
void pace_response_sent(struct qp *qp, wtime now);

/* How many packets may be under way because of it. */
static inline uint32_t pace_packets(const struct qp *qp)
{
	const struct congestion *c = pace_out(qp);

	return c && pace_applies(qp) ? congestion_packets(c) : UINT32_MAX;
}

/* A request leaves, as the out->packet of this PSN. */
void pace_sent(struct qp *qp, wtime now, const struct packet *p, bool is_fresh, unsigned path);
/* What was under way and is known to have arrived, as a number that grows with each, and falls where the peer lost what it
 * held. */
uint32_t pace_arrived(const struct qp *qp);
/* The requester took this in; `before`: pace_arrived before that. */
void pace_heard(struct qp *qp, wtime now, const struct packet *p, uint32_t before);
void pace_lost(struct qp *qp, unsigned packets);
void pace_timeout(struct qp *qp);

/* A packet of the QP's peer: was it marked on its way? */
void pace_input(struct qp *qp, wtime now, const struct packet *p);
/* A congestion notification of the QP's peer. */
void pace_notified(struct qp *qp);
/* How many requests of a peer of weft came marked, modulo 64. */
static inline uint8_t pace_marks(const struct qp *qp)
{
	const struct pace *pace = engine_of(qp)->pace;

	return pace ? pace->marks & BTH_MARKS : 0;
}

/* The notification that is due. */
bool pace_output(struct qp *qp, struct packet_out *out);

/* A connection begins or ends; nothing is known of its path. */
void pace_forget(struct qp *qp);
wtime pace_deadline_by_paths(const struct qp *qp);
static inline wtime pace_deadline(const struct qp *qp)
{
	const struct congestion *out = pace_out(qp), *back = pace_back(qp);
	wtime others = engine_of(qp)->spread ? pace_deadline_by_paths(qp) : WTIME_NEVER;

	return wtime_min(wtime_min(out ? out->deadline : WTIME_NEVER, back ? back->deadline : WTIME_NEVER), others);
}
/* For people. */
struct qp_context_path;
void pace_describe(const struct qp *qp, struct qp_context_path *path);
void pace_check(const struct qp *qp);
/* Nobody waits for the pace any more. */
void pace_stop(struct qp *qp);
/* Whoever waited for the pace goes on. */
void pace_expire(struct qp *qp, wtime now);

#endif
