/* What a weftd leaves to the next when it is killed, or ends while processes are attached: the fabric page, which all of
 * them go on reading, and who has which slot, with the secret by which a process proves that it is the one. Two files of
 * weft's own part of the runtime directory, mapped, so that they are complete at every instruction. */
#ifndef WEFT_WEFTD_STATE_H
#define WEFT_WEFTD_STATE_H

#include "fabric/page.h"
#include "weftd/rundir.h"

#include <stdbool.h>

enum { STATE_SECRET = 16, STATE_LEASES = 1024, CLAIMS_MAGIC = 0x636c6d73, STATE_LINKS = 64, CLAIMS_VERSION = 5 };

/* A process, as nobody else will ever be; pid 0: nobody, or not to be seen from here. */
struct holder {
	int32_t pid;
	uint32_t awaited;	/* a lease of the last weftd's time */
	uint64_t start;		/* when the pid began to be this process: /proc/PID/stat, field 22 */
};

struct claim {
	uint32_t first;		/* the first slot of who has this one; 0: it is free */
	uint32_t number;	/* its number among the processes (CTL_HELLO, c) */
	struct holder holder;
	uint8_t secret[STATE_SECRET];
};

/* A link that is down for a time. */
struct outage {
	uint64_t until;		/* of the monotonic clock; 0: this place is free */
	uint32_t device;
	uint32_t port;		/* of the fabric, and 1; 0: the device's */
	uint32_t fabric;	/* its number */
	uint32_t rsvd;
};

struct claims {
	uint32_t magic, version;
	uint32_t channel_id;	/* the last given out */
	uint32_t keep;		/* weft up was said */
	uint64_t pids;		/* the PID namespace in which the holders are told: its inode number */
	struct claim slot[PAGE_SLOTS];
	struct holder lease[STATE_LEASES];
	uint32_t lease_port[STATE_LEASES];	/* of the fabric, and 1, where the lease's program is to be; 0: nowhere */
	struct outage outage[STATE_LINKS];
};

struct state {
	struct fabric_page *page;	/* owned mapping, writable */
	struct claims *claims;		/* owned mapping */
	int page_fd;			/* owned, read-only: what clients get */
};

/* Takes over what the last weftd left, or begins anew. 0 or -errno, logged; -EEXIST: weft did not make what has their names. */
int state_open(const struct rundir *d, struct state *s);
/* For those who are still attached, the files stay. */
void state_close(const struct rundir *d, struct state *s, bool is_needed);

/* Does a process live that has a slot, and comes back to the next weftd? */
bool state_is_needed(const struct claims *c);

/* May the files of a weftd that left be removed? Not while a process or a program of weft run may need them, nor where that
 * cannot be known: they tell processes of another PID namespace, or are of another version, unless `any_version`. */
bool state_is_over(const struct rundir *d, bool any_version);
/* Removes them. */
void state_remove(const struct rundir *d);

/* The process that has this pid now. */
struct holder state_holder(int pid);
/* Does it live? Of who cannot be seen this is not known: true. */
bool state_holder_lives(const struct holder *o);
bool state_same_holder(const struct holder *a, const struct holder *b);

#endif
