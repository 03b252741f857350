/* What a weftd leaves to the next when it is killed, or ends while processes are attached: the fabric page, which all of
 * them go on reading, and who has which slot, with the secret by which a process proves that it is the one. Two files of
 * the runtime directory, mapped, so that they are complete at every instruction. */
#ifndef WEFT_WEFTD_STATE_H
#define WEFT_WEFTD_STATE_H

#include "fabric/page.h"
#include "weftd/rundir.h"

#include <stdbool.h>

enum { STATE_SECRET = 16, STATE_LEASES = 1024 };

/* A process, as nobody else will ever be; pid 0: nobody, or not to be seen from here. */
struct holder {
	int32_t pid;
	uint32_t awaited;	/* a lease of the last weftd's time */
	uint64_t start;		/* when the pid began to be this process: /proc/PID/stat, field 22 */
};

struct claim {
	uint32_t first;		/* the first slot of who has this one; 0: it is free */
	struct holder holder;
	uint8_t secret[STATE_SECRET];
};

struct claims {
	uint32_t magic, version;
	uint32_t channel_id;	/* the last given out */
	uint32_t keep;		/* weft up was said */
	struct claim slot[PAGE_SLOTS];
	struct holder lease[STATE_LEASES];
};

struct state {
	struct fabric_page *page;	/* owned mapping, writable */
	struct claims *claims;		/* owned mapping */
	int page_fd;			/* owned, read-only: what clients get */
};

/* Takes over what the last weftd left, or begins anew. 0 or -errno, logged. */
int state_open(const struct rundir *d, struct state *s);
/* For those who are still attached, the files stay. */
void state_close(const struct rundir *d, struct state *s, bool is_needed);

/* The process that has this pid now. */
struct holder state_holder(int pid);
/* Does it live? Of who cannot be seen this is not known: true. */
bool state_holder_lives(const struct holder *o);
bool state_same_holder(const struct holder *a, const struct holder *b);

#endif
