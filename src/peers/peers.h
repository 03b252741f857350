/* The other processes of this host: where they are, the channels to them, what of this process they may use directly, and their
 * memory; and all links, also those to other hosts. All of it is under the adapter's lock unless it says otherwise. */
#ifndef WEFT_PEERS_PEERS_H
#define WEFT_PEERS_PEERS_H

#include "control/session.h"
#include "fabric/loads.h"
#include "fabric/page.h"
#include "peers/channel.h"
#include "peers/node.h"
#include "peers/publish.h"
#include "peers/roce_socket.h"
#include "peers/sa_paths.h"
#include "verbs/ca.h"

struct peers {
	struct ca *ca;			/* borrowed, and so are: */
	struct session *session;
	const struct fabric_page *page;	/* mapped read-only; own rules */
	uint32_t slot;			/* the first of our slots; constant */
	struct node node;		/* where we are in a fabric */
	struct sa_paths sa_paths;	/* the paths that its administration has named */
	struct port_loads *loads;	/* owned mapping: peers/loads.h; NULL: nothing is counted */
	bool in_forked_child;		/* the parent's, seen in a forked child: nothing moves any more */
	struct links links;
	struct channels channels;
	struct published published;
	struct roce_socket roce;		/* to other hosts */
};

/* How often the slot was given away and back; odd: it is some process's now. 0: there is no such slot. */
static inline uint32_t peers_generation(const struct peers *ps, uint32_t slot)
{
	return slot < PAGE_SLOTS ? atomic_load_explicit(&ps->page->slot_generation[slot], memory_order_acquire) : 0;
}

/* Is the slot some process's now? slot < PAGE_SLOTS. */
static inline bool peers_has_owner(const struct peers *ps, uint32_t slot)
{
	return atomic_load_explicit(&ps->page->slot_generation[slot], memory_order_acquire) & 1;
}

#endif
