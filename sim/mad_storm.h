/* Nodes of a subnet that ask its administration at once, in virtual time, and the receive buffers of QP1 where that is (gsa.h).
 *
 * A datagram that arrives takes a posted receive of the hardware, or is lost. The driver looks at what has come wake_ns after the
 * first, and posts what is to be posted; the administration takes serve_ns for each query, one after the other, and gives its
 * buffer back when it has answered. Who has no answer after retry_ns asks again. Beside it a client may be flooded. */
#ifndef WEFT_SIM_MAD_STORM_H
#define WEFT_SIM_MAD_STORM_H

#include "base/rand.h"
#include "mgmt/gsa.h"

enum { STORM_NODES_MOST = 4096 };

struct mad_storm_config {
	uint32_t nodes;
	uint64_t seed;
	struct gsa_tunables tunables;
	uint32_t hint;			/* buffers that the administration asks for beforehand; 0: it does not */
	wtime jitter_ns;		/* each asks within so long from the begin */
	wtime delay_ns, each_ns;	/* of the way; between two datagrams on the last link */
	wtime wake_ns, serve_ns, retry_ns;
	wtime flood_ns;			/* another client gets a datagram so often; 0: it does not */
	wtime flood_serve_ns;		/* which takes so long for each */
	wtime ends;			/* of the flood */
};

extern const struct mad_storm_config mad_storm_usual;

struct mad_storm_result {
	uint64_t queries, drops, discards;	/* of the nodes' queries: sent; lost without a receive; discarded */
	wtime last;				/* answer */
	wtime median, most_of_all;		/* of the time from a node's first query to its answer; of 99 of 100 */
	uint32_t most_posted;
	uint64_t flood_taken, flood_lost;
	wtime answered[STORM_NODES_MOST];	/* when, in order */
};

/* The published storms: the buffers are of a fixed depth, of one or of 16, or as many as are needed, announced or not. */
enum { STORM_MODES = 4 };
extern const char *const mad_storm_modes[STORM_MODES];
void mad_storm_configure(struct mad_storm_config *c, unsigned mode, uint32_t nodes, uint64_t seed);
/* And the published floods, of a client that takes one in a millisecond, beside 32 nodes that ask within 50 ms: none, one of a
 * datagram each microsecond, and the same where 16 buffers are fixed. */
enum { STORM_FLOODS = 3 };
extern const char *const mad_storm_floods[STORM_FLOODS];
void mad_storm_flood(struct mad_storm_config *c, unsigned flood, uint64_t seed);

void mad_storm_run(const struct mad_storm_config *c, struct mad_storm_result *r);

#endif
