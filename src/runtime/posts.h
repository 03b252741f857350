/* Sends to other hosts that a program posts one by one. A call costs as much for a burst as for a packet, so those that come
 * close together are kept until there are enough for a burst, the program looks at anything of the adapter's, or the time is
 * over. For a program that does none of these the helper ticks. Pure. */
#ifndef WEFT_RUNTIME_POSTS_H
#define WEFT_RUNTIME_POSTS_H

#include "base/time.h"
#include "verbs/burst.h"

#include <stdbool.h>

/* Our choices: messages of a program that posts some few leave at once; as many as a burst of long packets has are enough; and
 * a program needs no longer to post these. */
enum { POSTS_ALONE = 4, POSTS_KEPT = BURST_LONG };
#define POSTS_KEPT_NS (5 * WTIME_US)

struct posts {
	unsigned after;		/* the program's polls until now */
	unsigned count;		/* posts since the last of them */
	unsigned kept;		/* of these, the last have not left */
	wtime kept_since;
};

/* One more is posted, after so many polls of the program. False: it leaves at once, and so does what is kept. */
static inline bool posts_are_many(struct posts *p, unsigned polls)
{
	if (p->after != polls)
		*p = (struct posts){ .after = polls };
	return ++p->count > POSTS_ALONE;
}

/* It is one of many, and may be kept. Is it? */
static inline bool posts_keep(struct posts *p, wtime now)
{
	if (!p->kept++)
		p->kept_since = now;
	if (p->kept < POSTS_KEPT && now - p->kept_since < POSTS_KEPT_NS)
		return true;
	p->kept = 0;
	return false;
}

#endif
