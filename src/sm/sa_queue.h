/* Requests to a subnet administration that wait until there is room for an answer: a request is a MAD, and an answer may be a
 * thousand times as long. First come, first served; one sender leaves places for others. Who asks the same again while the
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
	struct {
		struct sa_waiting *newest;
		uint32_t count;
	} of_lid[UINT16_MAX + 1];	/* of each sender */
};

void sa_queue_init(struct sa_queue *q);
void sa_queue_fini(struct sa_queue *q);
/* False: it does not wait, as it does already, there are too many, or it is longer than a MAD. */
bool sa_queue_put(struct sa_queue *q, const struct mad_letter *letter);
/* The one that has waited longest, which is the caller's to free; or NULL. */
struct sa_waiting *sa_queue_take(struct sa_queue *q);

#endif
