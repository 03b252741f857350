/* A growable table from ids to objects: memory keys, object handles. An id is an index in its upper bits and a generation
 * in its lower bits; the generation changes whenever an index is given away again, so that a stale id misses. With a key
 * the indices are drawn at random (base/rand.h), without, they are small. 0 is never an id. */
#ifndef WEFT_BASE_TABLE_H
#define WEFT_BASE_TABLE_H

#include "base/rand.h"

#include <stdbool.h>
#include <stdint.h>

struct table_slot {
	void *object;		/* borrowed; NULL when free */
	uint32_t next;		/* free: the next free slot */
	uint32_t index;		/* UINT32_MAX: not drawn yet */
	uint32_t generation;
};

enum { TABLE_RECENT = 8 };	/* our choice: a program's hot path names few keys */

struct table_recent {
	uint32_t id;
	void *object;
};

struct table {
	struct table_slot *slot;	/* owned */
	uint32_t slots, count;
	uint32_t free_first, free_last;	/* reused in order of freeing: a generation comes back as late as possible */
	uint32_t max;
	unsigned index_bits, generation_bits;
	bool is_random;
	struct rand rand;		/* draws indices */
	uint32_t *by_index;		/* owned: slot + 1 at a drawn index's place or, where that is taken, behind it; 0: free */
	uint32_t places;		/* a power of two, at least twice the slots */
	struct table_recent recent[TABLE_RECENT];	/* found lately, and still in; id 0: none */
};

/* At most max objects. index_bits + generation_bits <= 32; max <= 2^index_bits. key: NULL for small indices. */
void table_init(struct table *t, unsigned index_bits, unsigned generation_bits, uint32_t max, const struct siphash_key *key);
void table_fini(struct table *t);	/* the objects are the caller's */

/* 0 and *id, or -ENOMEM: no memory, or max objects are in. May allocate. object is not NULL. */
int table_insert(struct table *t, void *object, uint32_t *id);
/* As table_get, for an id that was not found lately. */
void *table_find(struct table *t, uint32_t id);

/* Where an id is remembered: by the lowest bits of its index, wherever they are. */
static inline struct table_recent *table_recent(struct table *t, uint32_t id)
{
	return &t->recent[(id ^ id >> 8) % TABLE_RECENT];
}

/* The object, or NULL for an id that is not, or no longer, given away. */
static inline void *table_get(struct table *t, uint32_t id)
{
	const struct table_recent *recent = table_recent(t, id);

	return recent->id == id ? recent->object : table_find(t, id);
}

/* The object at the id's index whatever its generation, or NULL. */
void *table_get_any(const struct table *t, uint32_t id);
/* Takes it out and returns it, or NULL. */
void *table_remove(struct table *t, uint32_t id);

/* Gives the object another generation: `to` has the index of `id`, and is its id from now on. -EINVAL: no such object,
 * another index, or 0. */
int table_rekey(struct table *t, uint32_t id, uint32_t to);

/* Visits all objects: start with *cursor = 0; NULL at the end. Objects may be removed meanwhile. */
void *table_next(const struct table *t, uint32_t *cursor);

#endif
