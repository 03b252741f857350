/* Slots are a dense array; an id's index is its slot's number, permuted by a small Feistel network when there is a seed. */
#include "base/table.h"

#include "base/log.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

enum {
	NONE = INT32_MAX,		/* no slot: there are at most 2^30 */
	ROUNDS = 4,			/* four Feistel rounds make a pseudo-random permutation (Luby and Rackoff) */
};

static uint32_t mask(unsigned bits)
{
	return (uint32_t)((1ull << bits) - 1);
}

static uint32_t round_function(const struct table *t, unsigned round, uint32_t half)
{
	uint64_t x = (t->seed + round * 0x9e3779b97f4a7c15) ^ half * 0xff51afd7ed558ccdull;

	x = (x ^ x >> 33) * 0xc4ceb9fe1a85ec53;
	return (uint32_t)(x >> 32) & mask(t->index_bits / 2);
}

static uint32_t index_of(const struct table *t, uint32_t slot)
{
	unsigned half = t->index_bits / 2;
	uint32_t left = slot >> half, right = slot & mask(half);

	if (!t->seed)
		return slot;
	for (unsigned i = 0; i < ROUNDS; i++) {
		uint32_t next = left ^ round_function(t, i, right);

		left = right;
		right = next;
	}
	return left << half | right;
}

static uint32_t slot_of(const struct table *t, uint32_t index)
{
	unsigned half = t->index_bits / 2;
	uint32_t left = index >> half, right = index & mask(half);

	if (!t->seed)
		return index;
	for (unsigned i = ROUNDS; i-- > 0;) {
		uint32_t before = right ^ round_function(t, i, left);

		right = left;
		left = before;
	}
	return left << half | right;
}

static uint32_t id_of(const struct table *t, uint32_t slot)
{
	uint32_t generation = t->slot[slot].generation & mask(t->generation_bits);

	return (uint32_t)((uint64_t)index_of(t, slot) << t->generation_bits) | generation;
}

void table_init(struct table *t, unsigned index_bits, unsigned generation_bits, uint32_t max, uint64_t seed)
{
	*t = (struct table){ .index_bits = index_bits, .generation_bits = generation_bits, .max = max, .seed = seed,
			     .free_first = NONE, .free_last = NONE };
	weft_bug_on(index_bits > 30 || index_bits + generation_bits > 32 || max > 1u << index_bits);
	weft_bug_on(seed && index_bits % 2);
}

void table_fini(struct table *t)
{
	free(t->slot);
	t->slot = NULL;
	t->slots = t->count = 0;
	memset(t->recent, 0, sizeof(t->recent));
	t->free_first = t->free_last = NONE;
}

static void free_append(struct table *t, uint32_t slot)
{
	t->slot[slot].next = NONE;
	if (t->free_first == NONE)
		t->free_first = slot;
	else
		t->slot[t->free_last].next = slot;
	t->free_last = slot;
}

static int grow(struct table *t)
{
	uint32_t limit = mask(t->index_bits), slots = t->slots ? 2 * t->slots : 16;
	struct table_slot *slot;

	/* One slot more than max may be needed: the one whose id would be 0 is never used when it has no generations. */
	if (limit > t->max)
		limit = t->max;
	if (slots > limit + 1)
		slots = limit + 1;
	if (slots <= t->slots)
		return -ENOMEM;
	slot = realloc(t->slot, slots * sizeof(*slot));
	if (!slot)
		return -ENOMEM;
	t->slot = slot;
	for (uint32_t i = t->slots; i < slots; i++) {
		slot[i] = (struct table_slot){ .generation = 0 };
		if (t->generation_bits || index_of(t, i) != 0)
			free_append(t, i);
	}
	t->slots = slots;
	return 0;
}

int table_insert(struct table *t, void *object, uint32_t *id)
{
	uint32_t slot;

	if (t->count == t->max)
		return -ENOMEM;
	if (t->free_first == NONE && grow(t) < 0)
		return -ENOMEM;
	slot = t->free_first;
	t->free_first = t->slot[slot].next;
	if (id_of(t, slot) == 0)
		t->slot[slot].generation++;
	t->slot[slot].object = object;
	t->count++;
	*id = id_of(t, slot);
	return 0;
}

/* The slot of an id that is given away, or NONE. */
static uint32_t find_slot(const struct table *t, uint32_t id)
{
	uint64_t index = (uint64_t)id >> t->generation_bits;
	uint32_t slot;

	if (index > mask(t->index_bits))
		return NONE;
	slot = slot_of(t, (uint32_t)index);
	if (slot >= t->slots || (t->slot[slot].generation & mask(t->generation_bits)) != (id & mask(t->generation_bits)))
		return NONE;
	return t->slot[slot].object ? slot : NONE;
}

static void forget(struct table *t, uint32_t id)
{
	if (table_recent(t, id)->id == id)
		*table_recent(t, id) = (struct table_recent){ 0 };
}

void *table_find(struct table *t, uint32_t id)
{
	uint32_t slot = find_slot(t, id);

	if (slot == NONE)
		return NULL;
	*table_recent(t, id) = (struct table_recent){ id, t->slot[slot].object };
	return t->slot[slot].object;
}

void *table_get_any(const struct table *t, uint32_t id)
{
	uint32_t index = id >> t->generation_bits, slot = index <= mask(t->index_bits) ? slot_of(t, index) : NONE;

	return slot < t->slots ? t->slot[slot].object : NULL;
}

void *table_remove(struct table *t, uint32_t id)
{
	uint32_t slot = find_slot(t, id);
	void *object;

	if (slot == NONE)
		return NULL;
	forget(t, id);
	object = t->slot[slot].object;
	t->slot[slot].object = NULL;
	t->slot[slot].generation++;
	t->count--;
	free_append(t, slot);
	return object;
}

int table_rekey(struct table *t, uint32_t id, uint32_t to)
{
	uint32_t slot = find_slot(t, id);

	if (slot == NONE || to == 0 || id >> t->generation_bits != to >> t->generation_bits)
		return -EINVAL;
	forget(t, id);
	t->slot[slot].generation = to & mask(t->generation_bits);
	return 0;
}

void *table_next(const struct table *t, uint32_t *cursor)
{
	while (*cursor < t->slots) {
		void *object = t->slot[(*cursor)++].object;

		if (object)
			return object;
	}
	return NULL;
}
