/* The paths of a QP to a peer of weft (the option paths=N). To another host they are pairs of addresses of the two hosts, and
 * source ports, by which networks with several equal ways choose one; in a subnet with an LMC they are the pairs of LIDs that the
 * subnet administration names (verbs/lid_paths.h). One sequence of PSNs is spread over them, which the peer puts in
 * order again (reorder.h), so what verbs promise stays. Each path has its own round trip, its own order (loss_path) and its own
 * window and pace (congestion.h); a packet leaves by that with the shortest round trip which has room.
 *
 * A path is used once a probe was answered, the first one at once. The probe names a number which nobody can guess, so that no
 * answer can be made up by whoever does not hear at that address; the first probe's answer brings the peer's addresses. A path
 * by which nothing arrives for two of its round trips and a wait, while what left by others arrives, is set aside: what left by
 * it is sent again by others, and it is probed until it answers. The last one is never set aside: there the ACK timer counts, as
 * ever.
 *
 * Strangers get no probe, and see one path. Numbers of paths are of the sender of requests; the other end answers by the path
 * that a request came by (reflect.h). QPs with an alternate path have none of this (verbs/migration.h). */
#ifndef WEFT_IB_SPREAD_H
#define WEFT_IB_SPREAD_H

#include "ib/congestion.h"
#include "ib/engine.h"
#include "ib/reorder.h"
#include "wire/header.h"

/* Our choices. The UDP link has four source ports to a peer. */
enum {
	SPREAD_VARIANTS = 4,
	SPREAD_REQUESTS = 6,	/* of the peer that arrive while nothing comes by a path, as its answers are lost */
};
#define SPREAD_PROBE_MOST (100 * WTIME_MS)	/* a path that is set aside is probed after its wait, doubled up to this */

enum spread_state {
	SPREAD_UNPROVEN,	/* no probe was answered yet */
	SPREAD_UP,
	SPREAD_ASIDE,		/* it was up, and has gone silent */
};

struct spread_path {
	uint8_t sgid[16], dgid[16];
	uint8_t variant;		/* bits of the source port that differ from the QP's */
	struct lid_pair lids;		/* where the paths are pairs of LIDs, instead of all that ... */
	uint32_t epoch;			/* ... of this time */
	uint8_t state;			/* enum spread_state */
	bool probe_is_due;
	uint32_t number;		/* of the probe that waits for its answer; 0: none does */
	wtime probed;			/* it left then */
	wtime probe_at, wait_ns;	/* the next one leaves then */
	wtime look_at;			/* it is asked whether it is silent */
	uint32_t unasked;		/* packets since the last AckReq */
	uint32_t awaited;		/* responses that it owes */
	wtime response_ns;		/* from one to the next, smoothed; 0: not known */
	wtime response_at;		/* some were found, as the process looked, or the path began to owe any */
	wtime found_since, found_ns;	/* of those found at response_at: that and response_ns before */
	uint32_t found;			/* so many they are */
	bool is_first, found_first;	/* what is found next, or was, is the first since the path began to owe any */
	wtime away_ns, away_at;		/* the longest time between two looks, the last of which found several; it ended then */
	uint32_t heard, lost;		/* of loss_path, as congestion was told */
	uint64_t sent, setbacks;	/* packets; times that it was set aside */
	uint64_t losses;
	struct congestion congestion;	/* of those after the first, whose is pace.out */
};

struct spread {
	uint8_t paths, most;		/* there are; of path */
	wtime deadline;
	wtime silent_since;		/* of the path of the oldest packet, and how many requests of the peer came since */
	unsigned requests;
	struct loss_path loss[BTH_PATHS];
	uint8_t owed_by[REORDER_SPAN];	/* by PSN: a path and one, that is to bring this response of a READ; 0: none is */
	struct spread_path path[];
};

static inline struct spread *spread_of(const struct qp *qp)
{
	return engine_of(qp)->spread;
}

/* The peer repeats selectively. Without memory there is one path. */
void spread_open(struct qp *qp, wtime now);
void spread_close(struct qp *qp);

/* By which path the next packet leaves; -1: by none now, and the QP is ready when one has room. There are some. */
int spread_choose(struct qp *qp, wtime now, bool is_fresh);
/* By which path what is asked for again leaves, that left by `path` before: another if there is one, and that is probed. */
unsigned spread_instead(struct qp *qp, unsigned path);
/* The usual one for what needs no room. */
unsigned spread_usual(const struct qp *qp);
/* Pairs of LIDs may be others since. */
void spread_follow(struct qp *qp);
/* Addresses of the packet, which is addressed to the first path, or to the usual pair of LIDs. */
void spread_address(const struct qp *qp, unsigned path, struct packet *p);
/* A READ request leaves by this path for so many responses, from this PSN on, fresh or again: no other owes them any more. */
void spread_reads(struct qp *qp, wtime now, unsigned path, psn_t psn, uint32_t responses);
/* It leaves, fresh or again. */
void spread_sent(struct qp *qp, wtime now, unsigned path);
/* Does it ask for an answer, as the window of its path is full? Counts it. */
bool spread_asks(struct qp *qp, unsigned path, bool asks_anyway);
/* How many packets its window holds. */
uint32_t spread_window(const struct qp *qp, unsigned path);

/* The probe that is due. */
bool spread_output(struct qp *qp, wtime now, struct packet_out *out);
/* An answer to a probe. */
void spread_answered(struct qp *qp, wtime now, const struct packet *p);
/* A response came; of a READ: by the path that its request took, too. */
void spread_heard(struct qp *qp, wtime now, const struct packet *p);
/* A request of the peer arrived. */
void spread_peer_sends(struct qp *qp, wtime now);
/* Does a response by this path, not the first, come from where it leads? */
bool spread_leads_to(const struct qp *qp, unsigned path, const struct packet_path *from);
/* Nothing at all came for an ACK timeout. */
void spread_timeout(struct qp *qp);
void spread_expire(struct qp *qp, wtime now);
static inline wtime spread_deadline(const struct qp *qp)
{
	return spread_of(qp) ? spread_of(qp)->deadline : WTIME_NEVER;
}

/* For people. */
struct qp_context;
void spread_describe(const struct qp *qp, struct qp_context *c);
void spread_check(const struct qp *qp);

/* Of spread_read.c, for spread.c. A path for a READ request, as spread_choose; a response to one has come by this path; and what
 * left by this path is given up. */
int spread_choose_for_read(struct qp *qp, wtime now, bool is_fresh);
void spread_response_came(struct qp *qp, wtime now, unsigned path, psn_t psn);
void spread_owes_nothing(struct qp *qp, unsigned path);

/* This host's addresses of the QP's kind, the QP's first; how many. */
unsigned spread_addresses(const struct qp *qp, uint8_t address[PATH_ADDRESSES][16]);
/* Writes the payload of a probe or answer, into out->bounce. */
void spread_write(const struct qp *qp, uint32_t number, unsigned variant, struct packet_out *out);

#endif
