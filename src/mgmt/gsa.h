/* Receive buffers of a QP that several clients of management datagrams share: QP1, QP0, or a program's own (seed 004,
 * GSA-01..42). Pure: it counts; who has the QP posts and frees what it says. One struct gsa per port and QP.
 *
 * Each client has a number of buffers: its own choice, or the default. What comes takes a posted buffer, whomever that was meant
 * for, and the client gives it back. When too few are posted more are added, automatically, and counted with the client that
 * holds the most; they go when too many are posted. A buffer that is posted cannot be taken back from a QP: one that is to go is
 * not posted again when it comes back. Memory that other clients need for their own numbers is kept for them: what comes for a
 * client that has its number, and all the rest of the memory, is discarded at once. */
#ifndef WEFT_MGMT_GSA_H
#define WEFT_MGMT_GSA_H

#include "base/time.h"

#include <stdbool.h>
#include <stdint.h>

enum {
	GSA_CLIENTS = 4096,		/* our choice: what looks at all of them takes some microseconds */
	GSA_DEFAULT = 16,		/* buffers of a client: one for each of 16 ports of a usual subnet (GSA-08) */
	GSA_GRH_BYTES = 40, GSA_MAD_BYTES = 256,
	GSA_BUFFER_BYTES = GSA_GRH_BYTES + GSA_MAD_BYTES,	/* GSA-31 */
	GSA_MOST = 1 << 24,		/* buffers: 5 GB, so that sums over all clients are numbers of 32 bits */
	GSA_WINDOW = 64,		/* our choice, as Linux with its default receive queue */
	GSA_WINDOW_MOST = 1024,		/* our choice: rmpp.h keeps as many segments */
	GSA_LONGEST_KB = 96 << 10,	/* our choice: all paths between 1,200 hosts */
	GSA_PROGRAM_KB = 192 << 10,	/* our choice: two of them */
	GSA_NONE = UINT32_MAX,		/* no client; no number of its own */
};

#define GSA_ANY_CLASS UINT32_MAX		/* of a client that its owner finds by other means than its class */

/* Of a period: our choice. A shorter one is a timer that never rests; in a longer one arrivals may pass 32 bits. */
#define GSA_PERIOD_LEAST WTIME_MS
#define GSA_PERIOD_MOST (3600 * WTIME_S)

/* What an administrator may set, at any time (GSA-39); gsa_tunable.def has their names for people. */
struct gsa_tunables {
	uint32_t each;			/* buffers of a client without a number of its own */
	uint32_t floor;			/* no client has fewer; 0: a client may have none of its own (GSA-06) */
	uint32_t low_percent;		/* of all that clients have: fewer are posted, and more are added */
	uint32_t low, high;		/* numbers in place of that, and of twice what clients have; 0: none */
	uint32_t growth;		/* a further addition within the period is so many times the last one; 1: as the first */
	uint32_t most;			/* buffers that there is memory for */
	wtime period_ns;
	uint32_t watch_factor;		/* who has so many times its number in a period is raised, and told; 0: nobody is */
	uint32_t fixed;			/* so many buffers, whoever is registered, and nothing else: the baseline; 0: not */
	uint32_t window;		/* segments of a datagram that may come at once: a client is lent so many */
	uint32_t longest_kb;		/* of an answer in segments; counts for mad_clients.h alone, as the next one */
	uint32_t program_kb;		/* of datagrams that a program has under way, each way */
};

extern const struct gsa_tunables gsa_defaults;

struct gsa_client {
	bool is_used, is_told;
	uint32_t mgmt_class;		/* or what else tells clients apart; or GSA_ANY_CLASS */
	uint32_t asked;			/* its own number; GSA_NONE: it has none */
	uint32_t lent;			/* beside that, while series come to it */
	uint32_t target, boost;		/* buffers; of these, what it has for its traffic */
	uint32_t raised;		/* of the automatic ones, those that are counted with it */
	uint32_t held;			/* messages that it has and has not given back */
	uint32_t lately;		/* arrivals of this period */
	uint32_t should;		/* ask for so many, as it was told last; 0: it asks for enough */
	uint64_t arrivals, drops, discards;
};

/* A client has asked for too little: it should ask for so many. */
typedef void gsa_feedback(void *arg, uint32_t client, uint32_t asked, uint32_t arrived, uint32_t should);

struct gsa {
	struct gsa_tunables tunables;
	gsa_feedback *feedback;		/* may be NULL */
	void *arg;
	struct gsa_client *client;	/* owned: of so many places */
	uint32_t places;
	uint32_t clients, target, automatic;	/* target: of all clients, without the automatic ones */
	uint32_t own;			/* of all clients: targets without boosts */
	uint32_t sharers;		/* clients of which that is not 0 */
	uint32_t posted, held;
	bool is_trimming;
	bool is_watched;		/* there is something to look at when the period ends */
	uint32_t added;			/* by the last addition */
	wtime added_at, watched_at;
	uint64_t arrivals, drops, discards, unknown, additions, trims;
};

/* t: NULL for the defaults. -EINVAL: they make no sense, and the defaults hold. */
int gsa_init(struct gsa *g, wtime now, const struct gsa_tunables *t, gsa_feedback *feedback, void *arg);
void gsa_fini(struct gsa *g);
/* 0; -EINVAL: they make no sense, and nothing changes. */
int gsa_set(struct gsa *g, const struct gsa_tunables *t);

/* count: its own number, or GSA_NONE. 0 and *client; -EBUSY: the class is registered; -ENOSPC: too many clients, or no memory for
 * that number beside the others'; -ENOMEM: none for its place. */
int gsa_register(struct gsa *g, uint32_t mgmt_class, uint32_t count, uint32_t *client);
/* What it holds is given back. -ENOENT. */
int gsa_unregister(struct gsa *g, uint32_t client);
/* Buffers more or fewer for a client, which has a number of its own then. -ENOENT; -EINVAL: fewer than none; -ENOSPC: there
 * is no memory for more. */
int gsa_change(struct gsa *g, uint32_t client, int32_t by);
/* So many more while a series comes to it, and so many fewer when that is over: its own number stays. As gsa_change. */
int gsa_lend(struct gsa *g, uint32_t client, int32_t by);

uint32_t gsa_low(const struct gsa *g);
uint32_t gsa_high(const struct gsa *g);
/* Memory of all buffers that there are, posted and held, each of GSA_BUFFER_BYTES (GSA-12). */
uint64_t gsa_bytes(const struct gsa *g);

/* A message has come. The client whose it is, which holds it till gsa_release; GSA_NONE: it is dropped, discarded, or of a class
 * that nobody is registered for, and its buffer is posted again. */
uint32_t gsa_arrive(struct gsa *g, wtime now, uint32_t mgmt_class);
/* Whose this class is; GSA_NONE: nobody's. */
uint32_t gsa_find(const struct gsa *g, uint32_t mgmt_class);
/* The same of one whose client its owner knows; GSA_NONE: it is nobody's. False: it is dropped or discarded. */
bool gsa_arrive_at(struct gsa *g, wtime now, uint32_t client);
/* One has come that its owner does not give to the client, whatever its quota: it is discarded. */
void gsa_discard(struct gsa *g, wtime now, uint32_t client);
/* A client gives a message back. -EINVAL: it has none. */
int gsa_release(struct gsa *g, uint32_t client);

/* The period ends: what clients have had in it is looked at. */
void gsa_expire(struct gsa *g, wtime now);
/* WTIME_NEVER: nothing came in it, and no client has buffers for past traffic. */
wtime gsa_deadline(const struct gsa *g);

#endif
