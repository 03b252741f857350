/* What a process shows the others of its host of its protection table: regions, windows and connected QPs, by key and by
 * QP number, in memory that they map. It alone writes the tables; all write the
 * lock of atomics and the bells. An entry is read under its sequence word. It holds numbers, no
 * pointers that a reader follows: readers copy an entry once and check the copy. What does not fit is not shown. */
#ifndef WEFT_DIRECT_SHARE_H
#define WEFT_DIRECT_SHARE_H

#include "direct/atomic_lock.h"
#include "direct/channel_bells.h"

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

enum {
	SHARE_MAGIC = 0x77647274,
	SHARE_VERSION = 7,
	SHARE_LINE = 64,
	SHARE_WORDS = SHARE_LINE / 8 - 1,	/* of an entry, after its sequence */
	SHARE_ENTRIES = 1 << 16,		/* of each kind: our choice, several times the largest program's of the tests */
	SHARE_WAYS = SHARE_LINE / 8,		/* a bucket is a line */
	SHARE_BUCKETS = 2 * SHARE_ENTRIES / SHARE_WAYS,
	SHARE_REST = 256,			/* entries that rest before one is used again: our choice */
};

/* One line each. The first word of both is what they are found by. */
struct share_region {
	uint32_t key, pd;
	uint64_t iova, length;
	uint64_t address;	/* of the byte at iova, in the owner's address space */
	uint32_t access;	/* IBV_ACCESS_* */
	uint32_t device;
	uint32_t qpn;		/* a window that only this QP may use, or 0 */
	uint32_t file;		/* the owner's memory file that holds all of it (CTL_MEMORY), or 0: private */
	uint64_t file_offset;	/* of the byte at iova */
};

struct share_qp {
	uint32_t qpn, pd;
	uint32_t peer_qpn;
	uint32_t access;	/* IBV_ACCESS_* that the QP allows */
	uint32_t type;
	uint16_t device, network;	/* as in struct ca_device */
	uint32_t depth;		/* reads and atomics it answers at a time */
	uint32_t dlid;		/* whom it takes packets from: the peer's LID, and a digest of the pair of GIDs or 0 */
	uint64_t gids;
	uint32_t pkey;
	uint32_t rsvd;
	uint64_t received;	/* the last PSN executed, when it was shown */
};

struct share_entry {
	_Alignas(SHARE_LINE) _Atomic uint64_t sequence;	/* odd: changing, or free */
	_Atomic uint64_t word[SHARE_WORDS];
};

struct share_table {
	_Alignas(SHARE_LINE) _Atomic uint64_t way[SHARE_BUCKETS][SHARE_WAYS];	/* key << 32 | entry + 1; 0: free */
	struct share_entry entry[SHARE_ENTRIES];
};

/* What its peer waits for: apart from the entry, which is read for every message and should not change. */
struct share_received {
	_Alignas(SHARE_LINE) _Atomic uint32_t psn;
};

struct share_memory {
	uint32_t magic, version;
	int32_t pid;		/* as its owner knows it; a reader proves it with the nonce */
	uint32_t rsvd;
	uint64_t nonce;		/* what stands at nonce_address in the owner */
	uint64_t nonce_address;
	uint64_t scratch_address;	/* 64 KiB of the owner's that others may read and write */
	_Alignas(SHARE_LINE) struct atomic_lock atomics;	/* around every atomic on the owner's memory; all write it */
	/* A thread of the owner's; FUTEX_OWNER_DIED is set by the kernel when it ends: before the process's memory goes, or
	 * gives way to another program's (exec). Linux, Documentation/locking/robust-futexes.rst. */
	_Alignas(SHARE_LINE) _Atomic uint32_t life;
	struct channel_bells bells;	/* the owner's; all write it */
	struct share_table regions, qps;
	struct share_received received[SHARE_ENTRIES];	/* of each QP */
};

/* An entry that somebody else shows, found once. */
struct share_watch {
	const struct share_entry *entry;	/* borrowed, shared */
	uint64_t sequence;
};

/* The owner's index of one table; the owner never reads what it has shown. */
struct share_index {
	struct share_table *table;	/* borrowed, shared */
	uint64_t *way;			/* owned: what table->way should be */
	uint32_t *free;			/* owned: entries given back, a ring, oldest first */
	uint32_t *key;			/* owned: by entry */
	uint32_t taken, given;		/* of the ring, cumulative */
	uint32_t fresh;			/* no entry from here on was ever used */
};

struct share {
	struct share_memory *memory;	/* borrowed, shared */
	struct share_index regions, qps;
};

/* memory is zero. -ENOMEM. */
int share_init(struct share *e, struct share_memory *memory);
void share_fini(struct share *e);

/* Shows an entry; returns its handle, or 0 when there is no room. */
uint32_t share_show_region(struct share *e, const struct share_region *region);
uint32_t share_show_qp(struct share *e, const struct share_qp *qp);
/* From now on nobody finds it; whoever has found it is the caller's to wait for (hazard.h). */
void share_hide_region(struct share *e, uint32_t handle);
void share_hide_qp(struct share *e, uint32_t handle);
/* A QP that is shown has executed its packets up to this PSN. */
static inline void share_set_received(struct share *e, uint32_t handle, uint32_t psn)
{
	atomic_store_explicit(&e->memory->received[handle - 1].psn, psn, memory_order_release);
}

/* For others. A consistent copy, or false: not there, or just changing. */
bool share_find_region(const struct share_memory *m, uint32_t key, struct share_region *out);
bool share_find_qp(const struct share_memory *m, uint32_t qpn, struct share_qp *out);
bool share_watch_region(const struct share_memory *m, uint32_t key, struct share_region *out, struct share_watch *watch);
bool share_watch_qp(const struct share_memory *m, uint32_t qpn, struct share_qp *out, struct share_watch *watch);
/* The words of the entry at the watch's sequence; false: it changed before or while it was read, or is free. */
bool share_read_entry(const struct share_watch *w, uint64_t word[SHARE_WORDS]);
/* Is it still shown, unchanged? */
static inline bool share_is_same(const struct share_watch *w)
{
	return atomic_load_explicit(&w->entry->sequence, memory_order_acquire) == w->sequence;
}
/* The last PSN it has executed, also when it has been hidden since; false: the entry is another's. */
bool share_read_received(const struct share_memory *m, const struct share_watch *w, uint32_t *psn);

#endif
