/* What this process has of weftd, so that the next weftd can be told: ports, listeners, multicast groups, connections
 * with other hosts, and channels. */
#ifndef WEFT_CONTROL_JOURNAL_H
#define WEFT_CONTROL_JOURNAL_H

#include "base/list.h"
#include "control/protocol.h"
#include "fabric/page.h"

#include <stdbool.h>

enum { JOURNAL_BUCKETS = 1024 };	/* our choice: some connections in each where there are thousands */

struct journal {
	struct list entries;
	struct list connections[JOURNAL_BUCKETS];	/* with other hosts, by their own ids */
	uint32_t channel[PAGE_SLOTS];	/* the id of the channel to a slot's process; 0: none */
};

void journal_init(struct journal *j);
void journal_fini(struct journal *j);

/* weftd granted this request, answered it with a channel, or sent this unasked. Other messages are no matter. -ENOMEM: this one
 * will be forgotten. */
int journal_granted(struct journal *j, const struct control_msg *answer);
/* This request takes something that is not granted: CTL_CONN. -ENOMEM, as above. */
int journal_taken(struct journal *j, const struct control_msg *request);
/* This channel is no more, though the slot's process lives. */
void journal_lost(struct journal *j, const struct control_msg *msg);
/* The request gives something back. False: it is no such request, or nothing was there. */
bool journal_returned(struct journal *j, const struct control_msg *request);

/* Calls `tell` with one request for each thing and one that ends them, until it fails. */
int journal_replay(const struct journal *j, int (*tell)(void *arg, const struct control_msg *msg), void *arg);

#endif
