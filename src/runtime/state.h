/* Everything that belongs to one attached process hangs at a struct runtime. It is guarded by `lock` unless it says otherwise. */
#ifndef WEFT_RUNTIME_STATE_H
#define WEFT_RUNTIME_STATE_H

#include "peers/peers.h"
#include "runtime/bad_keys.h"
#include "runtime/cm.h"
#include "runtime/gsi.h"
#include "runtime/runtime.h"
#include "runtime/lock.h"
#include "runtime/memory.h"
#include "runtime/qpn_pool.h"
#include "runtime/posts.h"
#include "runtime/progress.h"

#include <pthread.h>

/* What runtime_leave has to do. */
enum runtime_leaving {
	LEAVE_POSTED,		/* as LEAVE_FULLY, but packets for another host may wait for more of the kind: entry.c */
	LEAVE_FULLY,		/* whatever became possible; where the engine runs apart (ca.doorbells), wake the helper for it */
	LEAVE_IF_READY,		/* the same if a QP is ready, else give the lock back */
	LEAVE_AT_ONCE,		/* give the lock back */
	LEAVE_HERE,		/* whatever became possible, in this thread */
};

struct runtime {
	struct runtime_lock lock;
	struct runtime *_Atomic next;	/* in process.runtimes */
	_Atomic uintptr_t forking;	/* the thread that holds the lock over fork: lock_self */
	const struct config *config;	/* borrowed; constant */
	const struct runtime_events *events;	/* borrowed, or NULL */
	struct ca ca;
	struct session session;	/* has its own lock */
	struct arena_memory arena;
	struct copy_file copy_file;
	bool gathers;		/* what is written to the program's memory may wait for the end of a link's turn */
	struct rand rand;
	struct qpn_pool qpns;
	struct peers peers;
	bool now_is_old;	/* the clock was not read in this entry */
	enum runtime_leaving leaving;	/* of the entry under way */
	unsigned polls, collected;	/* collected: the value of polls when ACKs were last read */
	unsigned ticked;	/* the same of the helper's last look at them */
	bool waited;		/* the thread that polls has polled in vain just before */
	struct posts posts;
	bool wakes_sleeper;	/* once the lock is free, as it needs it at once; then leaving is LEAVE_FULLY or LEAVE_HERE */
	uint64_t frames;	/* taken in */
	bool copies;		/* a thread is in copy_on: pump.c */

	/* helper thread */
	pthread_t thread;
	_Atomic bool is_closing;	/* it shall end */
	int wake_fd;		/* owned: eventfd, known to all peers; constant */
	struct progress progress;
	pthread_key_t sleeper;	/* of threads that have waited: wait.c; constant */
	wtime helper_until;	/* when the helper wakes by itself */
	bool helper_rests;	/* the engine runs apart, and nobody has woken the helper since it went to sleep */
	struct runtime_cm cm;
	struct gsi gsi;
	wtime cm_deadline;	/* the helper's own */
	_Atomic bool cm_kicked;
	_Atomic bool told_missing;	/* a listener that no process of this network is */
	bool is_away;		/* weftd has gone; the helper's own */
	struct bad_keys bad_keys[2];	/* P_Keys, Q_Keys */
	uint32_t losses;	/* session.losses as it was; the helper's own */
	unsigned linger_luck, linger_tries;	/* the helper's own */

	/* what an adapter's operation needs of weftd, got outside the lock: runtime_join */
	pthread_mutex_t asking;	/* held over such an operation, before the lock */
	struct control_msg join;	/* CTL_MCAST */
	enum { JOIN_NONE, JOIN_WANTED, JOIN_GRANTED } join_state;

	struct faults *faults;	/* owned: faults.h, or NULL */
	struct faults *idle_faults;	/* owned: a stage that was put aside, or NULL */
	_Atomic bool calls_fail;	/* some calls of the program, on demand: device_faults.h */
	struct burst burst;	/* the pump's; too large for a stack */
};

/* What the adapter asks of its runtime. */
extern const struct ca_ops runtime_ca_ops;

/* Reads the clock: rt->ca.now is that from now on. */
wtime runtime_read_clock(struct runtime *rt);
/* Between two parts of long work: lets those in who wait for the lock. Tells the time. */
void runtime_yield_lock(struct runtime *rt);

#endif
