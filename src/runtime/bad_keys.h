/* weftd is told of packets whose P_Key or Q_Key a port of the fabric does not let in: its ports count them and report them to the
 * subnet manager (CTL_BAD_KEY). A process tells at most so often: packets of one way in between are told with the next, and those
 * that came with the next of the same kind of key. */
#ifndef WEFT_RUNTIME_BAD_KEYS_H
#define WEFT_RUNTIME_BAD_KEYS_H

#include "base/time.h"
#include "verbs/burst.h"
#include "verbs/route.h"

struct qp;
struct runtime;

/* Packets with a key of one kind that have come. */
struct bad_keys {
	uint32_t untold;
	wtime next;		/* none are told before */
};

/* Of ours, that were cut off on their way. */
void bad_keys_sent(struct runtime *rt, const struct route *r, const struct burst_row *b);
/* As ca_ops.bad_key. */
void bad_keys_received(void *runtime, const struct qp *qp, const struct packet *p, bool is_qkey);

#endif
