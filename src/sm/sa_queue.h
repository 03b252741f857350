/* Requests to a subnet administration that wait until there is room for an answer: a request is a MAD, and an answer may be a
 * hundred thousand times as long. First come, first served, but for a sender that has as many answers under way as one may: it is
 * served when these have gone, and others meanwhile. One sender leaves places for others. Who asks the same again while the
 * question waits has asked once. */
#ifndef WEFT_SM_SA_QUEUE_H
#define WEFT_SM_SA_QUEUE_H

#include "base/list.h"
#include "mgmt/mad_clients.h"

enum { SA_WAITING = 4096, SA_WAITING_OF_ONE = 256 };	/* our choices: a megabyte; as REPLIES_MOST */

/* Of one that waits: the letter's data is behind it. */
struct sa_waiting {
	struct list_node node;
	struct sa_waiting *older, *newer;	/* of the same sender */
	struct mad_letter letter;
	uint8_t data[MAD_BYTES];
};

struct sa_queue {
	struct list waiting;		/* owned */
	uint32_t count;
	uint64_t search;		/* number of the last one */
	struct {
		struct sa_waiting *newest;
		uint32_t count;
		uint64_t in_vain;	/* the last search in which there was no room for it */
	} of_lid[UINT16_MAX + 1];	/* of each sender */
};

/* Is there room for an answer to this LID? Asked once a search. */
typedef bool sa_queue_may(void *arg, uint16_t lid);

void sa_queue_init(struct sa_queue *q);
void sa_queue_fini(struct sa_queue *q);
/* 0: it waits. -EALREADY: it does so already; -EDQUOT: there are too many, in all or of its sender, or there is no memory;
 * -EMSGSIZE: it is longer than a MAD, of which there is no more room here; -EINVAL: it has no whole header. */
int sa_queue_put(struct sa_queue *q, const struct mad_letter *letter);
/* Is there one that may be answered? */
bool sa_queue_has(struct sa_queue *q, sa_queue_may *may, void *arg);
/* Of these the one that has waited longest, which is the caller's to free; or NULL. */
struct sa_waiting *sa_queue_take(struct sa_queue *q, sa_queue_may *may, void *arg);

#endif
