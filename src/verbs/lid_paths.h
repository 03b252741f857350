/* The paths of a connected QP through a subnet whose ports have several LIDs each (LMC, IBA 4.1.3): pairs of a LID of this port
 * and one of the peer's, as the subnet administration names them (ca_ops.lid_paths). The first pair is the QP's own. A pair keeps
 * its number until it is named no more and another one needs the place. QPs whose program chose a LID besides the ports' first
 * ones, or that have an alternate path, go by that alone, as do those of a transport that goes by one (qp.paths_most). */
#ifndef WEFT_VERBS_LID_PATHS_H
#define WEFT_VERBS_LID_PATHS_H

#include "verbs/route.h"

enum { LID_PATHS = 8 };		/* as BTH_PATHS of wire/header.h */

struct lid_pair {
	uint16_t slid, dlid;
};

struct lid_path {
	struct lid_pair lids;
	struct route route;	/* of the generation of qp.route */
	uint32_t epoch;		/* how often its pair was another one */
	uint64_t messages;	/* that went by it without packets */
};

struct lid_paths {
	uint8_t paths;		/* at least 1 */
	uint8_t usual;		/* the first of those that lead there best: what has no other number goes by it */
	uint8_t turn;		/* the one that the last message without packets went by */
	struct lid_path path[LID_PATHS];
	struct lid_path other;	/* the last pair that was asked for besides these */
};

/* Several, at present. */
static inline bool lid_paths_are_several(const struct lid_paths *l)
{
	return l && l->paths > 1;
}

/* As qp_route(), where its answer is out of date. */
void lid_paths_ask(struct qp *qp);
/* No pair is known any more. */
void lid_paths_forget(struct qp *qp);
/* The route of a packet that the QP sends by this pair. Valid until this is called again. */
const struct route *lid_paths_route(struct qp *qp, uint16_t slid, uint16_t dlid);
/* The route of the next message that goes without packets: of those that go both ways, one after the other. */
const struct route *lid_paths_next(struct qp *qp);
/* The same that this answered last. */
const struct route *lid_paths_last(struct qp *qp);
/* Is it a LID of the peer, as far as these say? */
bool lid_paths_have_peer(const struct lid_paths *l, uint16_t lid);

#endif
