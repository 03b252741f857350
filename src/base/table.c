/* Slots are a dense array; an id's index is its slot's number, or a number that is drawn when the slot is used first. */
#include "base/table.h"

#include "base/log.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

enum {
	NONE = INT32_MAX,		/* no slot: there are at most 2^30 */
};

static uint32_t mask(unsigned bits)
{
	return (uint32_t)((1ull << bits) - 1);
}

/* Where to look for an index first: drawn indices are random, so their lower bits are. */
static uint32_t place_of(const struct table *t, uint32_t index)
{
	return index & (t->places - 1);
}

/* The slot that has the index, or NONE. */
static uint32_t slot_of(const struct table *t, uint32_t index)
{
	if (!t->is_random)
		return index < t->slots ? index : NONE;
	for (uint32_t at = place_of(t, index); t->places && t->by_index[at]; at = (at + 1) & (t->places - 1))
		if (t->slot[t->by_index[at] - 1].index == index)
			return t->by_index[at] - 1;
	return NONE;
}

static void note_index(struct table *t, uint32_t slot)
{
	uint32_t at = place_of(t, t->slot[slot].index);

	while (t->by_index[at])
		at = (at + 1) & (t->places - 1);
	t->by_index[at] = slot + 1;
}

/* A slot keeps its index for ever. Index 0 without a generation would be id 0. */
static void draw_index(struct table *t, uint32_t slot)
{
	uint32_t index;

	do
		index = (uint32_t)rand_u64(&t->rand) & mask(t->index_bits);
	while ((!index && !t->generation_bits) || slot_of(t, index) != NONE);
	t->slot[slot].index = index;
	note_index(t, slot);
}

static uint32_t id_of(const struct table *t, uint32_t slot)
{
	uint32_t generation = t->slot[slot].generation & mask(t->generation_bits);

	return (uint32_t)((uint64_t)t->slot[slot].index << t->generation_bits) | generation;
}

void table_init(struct table *t, unsigned index_bits, unsigned generation_bits, uint32_t max, const struct siphash_key *key)
{
	*t = (struct table){ .index_bits = index_bits, .generation_bits = generation_bits, .max = max, .is_random = key,
			     .free_first = NONE, .free_last = NONE };
	if (key)
		rand_key(&t->rand, key);
	weft_bug_on(index_bits > 30 || index_bits + generation_bits > 32 || max > 1u << index_bits);
}

void table_fini(struct table *t)
{
	free(t->slot);
	free(t->by_index);
	t->slot = NULL;
	t->by_index = NULL;
	t->places = 0;
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

/* Places for so many slots. */
static int grow_places(struct table *t, uint32_t slots)
{
	uint32_t places = t->places ? t->places : 2, *by_index;

	while (places < 2 * slots)
		places *= 2;
	by_index = calloc(places, sizeof(*by_index));
	if (!by_index)
		return -ENOMEM;
	free(t->by_index);
	t->by_index = by_index;
	t->places = places;
	for (uint32_t i = 0; i < t->slots; i++)
		if (t->slot[i].index != UINT32_MAX)
			note_index(t, i);
	return 0;
}

/* How many slots there may be: each random one needs an index; of the others the one whose id would be 0 is never used. */
static uint32_t slots_most(const struct table *t)
{
	uint32_t indices = mask(t->index_bits) + 1;

	if (!t->is_random)
		return t->max < indices ? t->max + 1 : indices;
	return t->max < indices ? t->max : indices - !t->generation_bits;
}

static int grow(struct table *t)
{
	uint32_t most = slots_most(t), slots = t->slots ? 2 * t->slots : 16;
	struct table_slot *slot;

	if (slots > most)
		slots = most;
	if (slots <= t->slots)
		return -ENOMEM;
	if (t->is_random && grow_places(t, slots))
		return -ENOMEM;
	slot = realloc(t->slot, slots * sizeof(*slot));
	if (!slot)
		return -ENOMEM;
	t->slot = slot;
	for (uint32_t i = t->slots; i < slots; i++) {
		slot[i] = (struct table_slot){ .index = t->is_random ? UINT32_MAX : i };
		if (t->generation_bits || slot[i].index)
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
	if (t->slot[slot].index == UINT32_MAX)
		draw_index(t, slot);
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
	if (slot == NONE || (t->slot[slot].generation & mask(t->generation_bits)) != (id & mask(t->generation_bits)))
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

	return slot != NONE ? t->slot[slot].object : NULL;
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
