/* What a process shows the others of its host of its protection table: regions, windows and connected QPs, by key and by
 * QP number, in memory that they map and it alone writes. An entry is read under its sequence word. It holds numbers, no
 * pointers that a reader follows: readers copy an entry once and check the copy. What does not fit is not shown. */
#ifndef WEFT_DIRECT_EXPORT_H
#define WEFT_DIRECT_EXPORT_H

#include "direct/lock.h"
#include "direct/news.h"

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

enum {
	EXPORT_MAGIC = 0x77647274,
	EXPORT_VERSION = 3,
	EXPORT_LINE = 64,
	EXPORT_WORDS = EXPORT_LINE / 8 - 1,	/* of an entry, after its sequence */
	EXPORT_ENTRIES = 1 << 16,		/* of each kind: our choice, several times the largest program's of the tests */
	EXPORT_WAYS = EXPORT_LINE / 8,		/* a bucket is a line */
	EXPORT_BUCKETS = 2 * EXPORT_ENTRIES / EXPORT_WAYS,
	EXPORT_REST = 256,			/* entries that rest before one is used again: our choice */
};

/* One line each. The first word of both is what they are found by. */
struct export_region {
	uint32_t key, pd;
	uint64_t iova, length;
	uint64_t address;	/* of the byte at iova, in the owner's address space */
	uint32_t access;	/* IBV_ACCESS_* */
	uint32_t device;
	uint32_t qpn;		/* a window that only this QP may use, or 0 */
	uint32_t file;		/* the owner's memory file that holds all of it (CTL_MEMORY), or 0: private */
	uint64_t file_offset;	/* of the byte at iova */
};

struct export_qp {
	uint32_t qpn, pd;
	uint32_t peer_qpn;
	uint32_t access;	/* IBV_ACCESS_* that the QP allows */
	uint32_t type, device;
	uint32_t depth;		/* reads and atomics it answers at a time */
	uint32_t dlid;		/* whom it takes packets from: the peer's LID, and a digest of the pair of GIDs or 0 */
	uint64_t gids;
	uint64_t rsvd;
	uint64_t received;	/* the last PSN executed, when it was shown */
};

struct export_entry {
	_Alignas(EXPORT_LINE) _Atomic uint64_t sequence;	/* odd: changing, or free */
	_Atomic uint64_t word[EXPORT_WORDS];
};

struct export_table {
	_Alignas(EXPORT_LINE) _Atomic uint64_t way[EXPORT_BUCKETS][EXPORT_WAYS];	/* key << 32 | entry + 1; 0: free */
	struct export_entry entry[EXPORT_ENTRIES];
};

/* What its peer waits for: apart from the entry, which is read for every message and should not change. */
struct export_received {
	_Alignas(EXPORT_LINE) _Atomic uint32_t psn;
};

struct export_memory {
	uint32_t magic, version;
	int32_t pid;		/* as its owner knows it; a reader proves it with the nonce */
	uint32_t rsvd;
	uint64_t nonce;		/* what stands at nonce_address in the owner */
	uint64_t nonce_address;
	uint64_t scratch_address;	/* 64 KiB of the owner's that others may read and write */
	_Alignas(EXPORT_LINE) struct atomic_lock atomics;	/* around every atomic on the owner's memory; all write it */
	/* A thread of the owner's; FUTEX_OWNER_DIED is set by the kernel when it ends: before the process's memory goes, or
	 * gives way to another program's (exec). Linux, Documentation/locking/robust-futexes.rst. */
	_Alignas(EXPORT_LINE) _Atomic uint32_t life;
	struct news news;	/* the owner's; all write it */
	struct export_table regions, qps;
	struct export_received received[EXPORT_ENTRIES];	/* of each QP */
};

/* A QP that somebody else shows, found once. */
struct export_watch {
	const struct export_entry *entry;	/* borrowed, shared */
	uint64_t sequence;
};

/* The owner's book of one table; it never reads what it has shown. */
struct export_book {
	struct export_table *table;	/* borrowed, shared */
	uint64_t *way;			/* owned: what table->way should be */
	uint32_t *free;			/* owned: entries given back, a ring, oldest first */
	uint32_t *key;			/* owned: by entry */
	uint32_t taken, given;		/* of the ring, cumulative */
	uint32_t fresh;			/* no entry from here on was ever used */
};

struct export {
	struct export_memory *memory;	/* borrowed, shared */
	struct export_book regions, qps;
};

/* memory is zero. -ENOMEM. */
int export_init(struct export *e, struct export_memory *memory);
void export_fini(struct export *e);

/* Shows an entry; returns its handle, or 0 when there is no room. */
uint32_t export_show_region(struct export *e, const struct export_region *region);
uint32_t export_show_qp(struct export *e, const struct export_qp *qp);
/* From now on nobody finds it; whoever has found it is the caller's to wait for (access.h). */
void export_hide_region(struct export *e, uint32_t handle);
void export_hide_qp(struct export *e, uint32_t handle);
/* A QP that is shown has executed its packets up to this PSN. */
static inline void export_set_received(struct export *e, uint32_t handle, uint32_t psn)
{
	atomic_store_explicit(&e->memory->received[handle - 1].psn, psn, memory_order_release);
}

/* For others. A consistent copy, or false: not there, or just changing. */
bool export_find_region(const struct export_memory *m, uint32_t key, struct export_region *out);
bool export_find_qp(const struct export_memory *m, uint32_t qpn, struct export_qp *out);
bool export_watch_region(const struct export_memory *m, uint32_t key, struct export_region *out, struct export_watch *watch);
bool export_watch_qp(const struct export_memory *m, uint32_t qpn, struct export_qp *out, struct export_watch *watch);
/* Is it still shown, unchanged? */
static inline bool export_is_same(const struct export_watch *w)
{
	return atomic_load_explicit(&w->entry->sequence, memory_order_acquire) == w->sequence;
}
/* The last PSN it has executed, also when it has been hidden since; false: the entry is another's. */
bool export_read_received(const struct export_memory *m, const struct export_watch *w, uint32_t *psn);

#endif
