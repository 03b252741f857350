/* Readers never wait: an entry that changes under them is one that they do not use. */
#include "direct/share.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

_Static_assert(sizeof(struct share_region) == SHARE_WORDS * sizeof(uint64_t), "a region is an entry");
_Static_assert(sizeof(struct share_qp) == SHARE_WORDS * sizeof(uint64_t), "a QP is an entry");

/* Multiplicative hashing, Knuth 6.4; the upper bits are the good ones. */
static uint32_t bucket_of(uint32_t key)
{
	return (uint32_t)((key * 0x9e3779b97f4a7c15ull) >> 32) % SHARE_BUCKETS;
}

static int book_init(struct share_index *b, struct share_table *table)
{
	*b = (struct share_index){ .table = table };
	b->way = calloc(SHARE_BUCKETS * SHARE_WAYS, sizeof(*b->way));
	b->free = calloc(SHARE_ENTRIES, sizeof(*b->free));
	b->key = calloc(SHARE_ENTRIES, sizeof(*b->key));
	return b->way && b->free && b->key ? 0 : -ENOMEM;
}

static void book_fini(struct share_index *b)
{
	free(b->way);
	free(b->free);
	free(b->key);
}

int share_init(struct share *e, struct share_memory *memory)
{
	int regions = book_init(&e->regions, &memory->regions), qps = book_init(&e->qps, &memory->qps);

	e->memory = memory;
	memory->magic = SHARE_MAGIC;
	memory->version = SHARE_VERSION;
	if (regions == 0 && qps == 0)
		return 0;
	share_fini(e);
	return -ENOMEM;
}

void share_fini(struct share *e)
{
	book_fini(&e->regions);
	book_fini(&e->qps);
}

/* The way of this key and entry in its bucket; key 0 and entry 0: a free one. -1: none. */
static int find_way(const struct share_index *b, uint32_t bucket, uint64_t content)
{
	for (int w = 0; w < SHARE_WAYS; w++)
		if (b->way[bucket * SHARE_WAYS + (uint32_t)w] == content)
			return w;
	return -1;
}

static void set_way(struct share_index *b, uint32_t bucket, int w, uint64_t content)
{
	b->way[bucket * SHARE_WAYS + (uint32_t)w] = content;
	atomic_store_explicit(&b->table->way[bucket][w], content, memory_order_release);
}

static uint64_t way_content(uint32_t key, uint32_t handle)
{
	return (uint64_t)key << 32 | handle;
}

/* The place is taken. What is written after this belongs to the next owner. */
static void take_entry(struct share_entry *e)
{
	uint64_t sequence = atomic_load_explicit(&e->sequence, memory_order_relaxed);

	atomic_store_explicit(&e->sequence, (sequence | 1) + 2, memory_order_relaxed);
}

static void write_entry(struct share_entry *e, const void *content)
{
	uint64_t sequence = atomic_load_explicit(&e->sequence, memory_order_relaxed), word[SHARE_WORDS];

	memcpy(word, content, sizeof(word));
	for (int i = 0; i < SHARE_WORDS; i++)
		atomic_store_explicit(&e->word[i], word[i], memory_order_release);
	atomic_store_explicit(&e->sequence, sequence + 1, memory_order_release);
}

/* The handle that the next entry shown would get, or 0. */
static uint32_t next_handle(const struct share_index *b)
{
	uint32_t free = b->given - b->taken;

	if (b->fresh < SHARE_ENTRIES && free < SHARE_REST)
		return b->fresh + 1;
	return free ? b->free[b->taken % SHARE_ENTRIES] + 1 : 0;
}

/* A place for the key, which finish shows. */
static uint32_t take(struct share_index *b, uint32_t key)
{
	uint32_t handle = next_handle(b);

	if (!handle || find_way(b, bucket_of(key), 0) < 0)
		return 0;
	if (handle > b->fresh)
		b->fresh++;
	else
		b->taken++;
	b->key[handle - 1] = key;
	take_entry(&b->table->entry[handle - 1]);
	return handle;
}

static void finish(struct share_index *b, uint32_t handle, const void *content)
{
	uint32_t key = b->key[handle - 1], bucket = bucket_of(key);

	write_entry(&b->table->entry[handle - 1], content);
	set_way(b, bucket, find_way(b, bucket, 0), way_content(key, handle));
}

/* The sequence becomes odd in the one order of all sequentially consistent accesses: see hazard.h. */
static void hide(struct share_index *b, uint32_t handle)
{
	uint32_t key = b->key[handle - 1], bucket = bucket_of(key);
	struct share_entry *e = &b->table->entry[handle - 1];

	set_way(b, bucket, find_way(b, bucket, way_content(key, handle)), 0);
	atomic_store(&e->sequence, atomic_load_explicit(&e->sequence, memory_order_relaxed) | 1);
	b->free[b->given++ % SHARE_ENTRIES] = handle - 1;
}

bool share_read_entry(const struct share_watch *w, uint64_t word[SHARE_WORDS])
{
	if (w->sequence & 1)
		return false;
	for (int i = 0; i < SHARE_WORDS; i++)
		word[i] = atomic_load_explicit(&w->entry->word[i], memory_order_acquire);
	return atomic_load_explicit(&w->entry->sequence, memory_order_relaxed) == w->sequence;
}

static bool find(const struct share_table *t, uint32_t key, void *out, struct share_watch *watch)
{
	const _Atomic uint64_t *way = t->way[bucket_of(key)];
	uint64_t word[SHARE_WORDS];
	uint32_t found;

	for (int w = 0; w < SHARE_WAYS; w++) {
		uint64_t content = atomic_load_explicit(&way[w], memory_order_acquire);

		if (content >> 32 != key || (uint32_t)content == 0 || (uint32_t)content > SHARE_ENTRIES)
			continue;
		watch->entry = &t->entry[(uint32_t)content - 1];
		watch->sequence = atomic_load(&watch->entry->sequence);
		if (!share_read_entry(watch, word))
			return false;
		memcpy(&found, word, sizeof(found));
		if (found != key)
			return false;
		memcpy(out, word, sizeof(word));
		return true;
	}
	return false;
}

uint32_t share_show_region(struct share *e, const struct share_region *region)
{
	uint32_t handle = take(&e->regions, region->key);

	if (handle)
		finish(&e->regions, handle, region);
	return handle;
}

uint32_t share_show_qp(struct share *e, const struct share_qp *qp)
{
	uint32_t handle = take(&e->qps, qp->qpn);

	if (!handle)
		return 0;
	share_set_received(e, handle, (uint32_t)qp->received);
	finish(&e->qps, handle, qp);
	return handle;
}

void share_hide_region(struct share *e, uint32_t handle)
{
	hide(&e->regions, handle);
}

void share_hide_qp(struct share *e, uint32_t handle)
{
	hide(&e->qps, handle);
}

bool share_find_region(const struct share_memory *m, uint32_t key, struct share_region *out)
{
	struct share_watch watch;

	return find(&m->regions, key, out, &watch);
}

bool share_find_qp(const struct share_memory *m, uint32_t qpn, struct share_qp *out)
{
	struct share_watch watch;

	return find(&m->qps, qpn, out, &watch);
}

bool share_watch_region(const struct share_memory *m, uint32_t key, struct share_region *out, struct share_watch *watch)
{
	return find(&m->regions, key, out, watch);
}

bool share_watch_qp(const struct share_memory *m, uint32_t qpn, struct share_qp *out, struct share_watch *watch)
{
	return find(&m->qps, qpn, out, watch);
}

/* The PSN first: one of another owner is not read without seeing that it took the place. */
bool share_read_received(const struct share_memory *m, const struct share_watch *w, uint32_t *psn)
{
	*psn = atomic_load_explicit(&m->received[w->entry - m->qps.entry].psn, memory_order_acquire);
	return (atomic_load_explicit(&w->entry->sequence, memory_order_relaxed) & ~1ull) == w->sequence;
}
