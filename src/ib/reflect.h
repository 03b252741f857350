/* By which paths a peer of weft sends requests (spread.h), and so by which it is answered: a response goes back the way the last
 * request came. Where a request comes twice, answers may be lost on their way: then it is acknowledged by each path.
 *
 * A path is what a probe came by, whose addresses the peer told of by a probe along the QP's own path, and which is no further
 * from what the QP expects than packets that it would hold: whoever makes one up must know as much as for a packet of data. */
#ifndef WEFT_IB_REFLECT_H
#define WEFT_IB_REFLECT_H

#include "ib/engine.h"
#include "wire/header.h"

struct reflect_path {
	bool is_known;
	uint8_t sgid[16], dgid[16];	/* ours, the peer's */
	struct lid_pair lids;		/* the same, of a device with LIDs */
	uint8_t variant;
	uint8_t marks;			/* how many requests by it came marked */
	/* the probe that waits for its answer */
	bool is_due;
	uint32_t number;
	psn_t psn;
};

struct reflect {
	uint8_t addresses;		/* of the peer */
	uint8_t address[PATH_ADDRESSES][16];
	uint8_t last;			/* the last request came by this path */
	uint8_t turn;			/* so many paths further an ACK goes, of which as many more are due */
	struct reflect_path path[BTH_PATHS];
};

static inline struct reflect *reflect_of(const struct qp *qp)
{
	return engine_of(qp)->reflect;
}

void reflect_close(struct qp *qp);

/* Does a request that says that it goes by this path come by it? */
bool reflect_knows(const struct qp *qp, unsigned path, const struct packet_path *from);
/* Is a probe from there to be looked at, which does not come by the QP's own path? */
bool reflect_expects(const struct qp *qp, const struct packet_path *from);
/* By which path a request came. */
static inline uint8_t reflect_path(const struct qp *qp, const struct packet *p)
{
	int path = bth_path(p->resv.bth7);

	return (uint8_t)(reflect_of(qp) && path > 0 && reflect_of(qp)->path[path].is_known ? path : 0);
}
/* A request was accepted. */
static inline void reflect_follow(struct qp *qp, const struct packet *p)
{
	if (reflect_of(qp))
		reflect_of(qp)->last = reflect_path(qp, p);
}
/* One came twice: each path has an ACK. */
void reflect_turn(struct qp *qp);
/* An ACK was made. True: one more is due, by the next path. */
static inline bool reflect_acked(struct qp *qp)
{
	if (!reflect_of(qp) || !reflect_of(qp)->turn)
		return false;
	reflect_of(qp)->turn--;
	return true;
}

/* Which path a response takes to what came by this one. */
unsigned reflect_choose(const struct qp *qp, unsigned path);
/* Addresses of a response, which is addressed to the first path, and what it says of marks. */
void reflect_address(const struct qp *qp, unsigned path, struct packet *p);

/* A probe. */
void reflect_probe(struct qp *qp, const struct packet *p);
bool reflect_output(struct qp *qp, struct packet_out *out);

#endif
