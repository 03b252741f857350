/* What the responder's checks can find, and what follows from it: the rows of verdict.def. */
#ifndef WEFT_IB_VERDICT_H
#define WEFT_IB_VERDICT_H

#include "wire/aeth.h"

#include <infiniband/verbs.h>
#include <stdint.h>

enum verdict {
	VERDICT_NEXT,	/* this check has nothing to object: on to the next */
#define VERDICT(name, ...) VERDICT_##name,
#include "ib/verdict.def"
#undef VERDICT
	VERDICTS,
};

enum verdict_reply {
	REPLY_NONE,
	REPLY_IF_ASKED,		/* an ACK when the packet or the ACK mode asks for one */
	REPLY_ACK,
	REPLY_NAK,
	REPLY_RNR,
	REPLY_FATAL_NAK,	/* a NAK, and nothing after it */
};

struct verdict_row {
	const char *name, *clause;
	int counter;		/* index of the counter, or -1 */
	enum verdict_reply reply;
	uint8_t syndrome;
	enum ibv_wc_status status;
	int event;
};

extern const struct verdict_row verdict_rows[VERDICTS];

static inline const struct verdict_row *verdict_row(enum verdict v)
{
	return &verdict_rows[v];
}

#endif
