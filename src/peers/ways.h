/* The ways of what this process sends through a fabric, there and back, for the counters of the ports on them: kept by port, LID
 * and service level as long as routes hold (verbs/route.h). */
#ifndef WEFT_PEERS_WAYS_H
#define WEFT_PEERS_WAYS_H

#include "base/time.h"
#include "fabric/traffic.h"

struct way {
	uint16_t next;			/* in its bucket; 0: it is the last */
	uint32_t from;			/* our port */
	uint16_t dlid, own_lid, pkey;
	uint8_t sl;
	bool is_barred;			/* a port on it does not let the P_Key in */
	uint32_t untold;		/* packets that it did not let in: weftd does not know of them yet */
	wtime next_tell;
	bool has_faults;		/* a link on it, or on the way back, loses or slows what passes */
	struct traffic_way there;
	struct traffic_way back;	/* to our port; of no links when nothing gets there */
};

enum { WAYS_BUCKETS = 64, WAYS_MOST = 4096 };	/* our choices; what arrives names LIDs, too */

struct ways {
	uint64_t generation;		/* of the routes that the ways are kept for */
	uint16_t bucket[WAYS_BUCKETS];	/* the number of the first, or 0 */
	struct way **way;		/* owned, and each: by its number less 1 */
	uint16_t ways, places;
};

static inline const struct way *ways_at(const struct ways *w, uint16_t number)
{
	return w->way[number - 1];
}

/* The number of the way from this port to a LID, and back to one of the port's; it is there until another generation is asked
 * for. 0: no memory, or WAYS_MOST are kept. */
uint16_t ways_find(struct ways *w, uint64_t generation, const struct fabric *f, const struct walk_packet *p,
		   uint16_t own_lid);
void ways_fini(struct ways *w);

#endif
