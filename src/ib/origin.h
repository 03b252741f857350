/* Whose packets a QP takes: addresses and QP numbers in a packet are its sender's to write, the origin of its frame is not. A
 * connected QP accepts packets only from its peer's origin (IBA 9.6.1.4), a datagram must name a source that is its sender's
 * (9.8.3.1). What the owner allowed once is remembered, so that the next packet costs a comparison. */
#ifndef WEFT_IB_ORIGIN_H
#define WEFT_IB_ORIGIN_H

#include "verbs/qp.h"

#include <string.h>

struct origin {
	origin_t from;		/* allowed last, or ORIGIN_NONE */
	/* datagrams: with this source */
	uint32_t src_qpn;
	uint16_t slid;
	uint8_t sgid[16];
};

/* The QP's peer may be another from now on. */
static inline void origin_forget(struct origin *o)
{
	o->from = ORIGIN_NONE;
}

/* These two ask the owner, and count a packet that is not to be taken. */
bool origin_ask_peer(struct origin *o, const struct qp *qp, origin_t from, const struct packet *p);
bool origin_ask_source(struct origin *o, const struct qp *qp, origin_t from, const struct packet *p);

/* Does the packet come from where the peer of the connected QP is? */
static inline bool origin_is_peer(struct origin *o, const struct qp *qp, origin_t from, const struct packet *p)
{
	return o->from == from || origin_ask_peer(o, qp, from, p);
}

/* Is the datagram's source its sender's? */
static inline bool origin_owns_source(struct origin *o, const struct qp *qp, origin_t from, const struct packet *p)
{
	return (o->from == from && o->src_qpn == p->deth.src_qpn && o->slid == p->path.slid &&
		memcmp(o->sgid, p->path.sgid, sizeof(o->sgid)) == 0) || origin_ask_source(o, qp, from, p);
}

#endif
