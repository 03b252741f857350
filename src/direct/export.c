/* Readers never wait: an entry that changes under them is one that they do not use. */
#include "direct/export.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

_Static_assert(sizeof(struct export_region) == EXPORT_WORDS * sizeof(uint64_t), "a region is an entry");
_Static_assert(sizeof(struct export_qp) == EXPORT_WORDS * sizeof(uint64_t), "a QP is an entry");

/* Multiplicative hashing, Knuth 6.4; the upper bits are the good ones. */
static uint32_t bucket_of(uint32_t key)
{
	return (uint32_t)((key * 0x9e3779b97f4a7c15ull) >> 32) % EXPORT_BUCKETS;
}

static int book_init(struct export_book *b, struct export_table *table)
{
	*b = (struct export_book){ .table = table };
	b->way = calloc(EXPORT_BUCKETS * EXPORT_WAYS, sizeof(*b->way));
	b->free = calloc(EXPORT_ENTRIES, sizeof(*b->free));
	b->key = calloc(EXPORT_ENTRIES, sizeof(*b->key));
	return b->way && b->free && b->key ? 0 : -ENOMEM;
}

static void book_fini(struct export_book *b)
{
	free(b->way);
	free(b->free);
	free(b->key);
}

int export_init(struct export *e, struct export_memory *memory)
{
	int regions = book_init(&e->regions, &memory->regions), qps = book_init(&e->qps, &memory->qps);

	e->memory = memory;
	memory->magic = EXPORT_MAGIC;
	memory->version = EXPORT_VERSION;
	if (regions == 0 && qps == 0)
		return 0;
	export_fini(e);
	return -ENOMEM;
}

void export_fini(struct export *e)
{
	book_fini(&e->regions);
	book_fini(&e->qps);
}

/* The way of this key and entry in its bucket; key 0 and entry 0: a free one. -1: none. */
static int find_way(const struct export_book *b, uint32_t bucket, uint64_t content)
{
	for (int w = 0; w < EXPORT_WAYS; w++)
		if (b->way[bucket * EXPORT_WAYS + (uint32_t)w] == content)
			return w;
	return -1;
}

static void set_way(struct export_book *b, uint32_t bucket, int w, uint64_t content)
{
	b->way[bucket * EXPORT_WAYS + (uint32_t)w] = content;
	atomic_store_explicit(&b->table->way[bucket][w], content, memory_order_release);
}

static uint64_t way_content(uint32_t key, uint32_t handle)
{
	return (uint64_t)key << 32 | handle;
}

static void write_entry(struct export_entry *e, const void *content)
{
	uint64_t sequence = atomic_load_explicit(&e->sequence, memory_order_relaxed) | 1, word[EXPORT_WORDS];

	memcpy(word, content, sizeof(word));
	atomic_store_explicit(&e->sequence, sequence, memory_order_relaxed);
	for (int i = 0; i < EXPORT_WORDS; i++)
		atomic_store_explicit(&e->word[i], word[i], memory_order_release);
	atomic_store_explicit(&e->sequence, sequence + 1, memory_order_release);
}

static uint32_t show(struct export_book *b, uint32_t key, const void *content)
{
	uint32_t bucket = bucket_of(key), handle;
	int w = find_way(b, bucket, 0);

	if (w < 0 || (!b->frees && b->fresh == EXPORT_ENTRIES))
		return 0;
	handle = (b->frees ? b->free[--b->frees] : b->fresh++) + 1;
	b->key[handle - 1] = key;
	write_entry(&b->table->entry[handle - 1], content);
	set_way(b, bucket, w, way_content(key, handle));
	return handle;
}

/* The sequence becomes odd in the one order of all sequentially consistent accesses: see access.h. */
static void hide(struct export_book *b, uint32_t handle)
{
	uint32_t key = b->key[handle - 1], bucket = bucket_of(key);
	struct export_entry *e = &b->table->entry[handle - 1];

	set_way(b, bucket, find_way(b, bucket, way_content(key, handle)), 0);
	atomic_store(&e->sequence, atomic_load_explicit(&e->sequence, memory_order_relaxed) | 1);
	b->free[b->frees++] = handle - 1;
}

static bool read_entry(const struct export_entry *e, uint64_t word[EXPORT_WORDS])
{
	uint64_t sequence = atomic_load(&e->sequence);

	if (sequence & 1)
		return false;
	for (int i = 0; i < EXPORT_WORDS; i++)
		word[i] = atomic_load_explicit(&e->word[i], memory_order_acquire);
	return atomic_load_explicit(&e->sequence, memory_order_relaxed) == sequence;
}

static bool find(const struct export_table *t, uint32_t key, void *out)
{
	const _Atomic uint64_t *way = t->way[bucket_of(key)];
	uint64_t word[EXPORT_WORDS];
	uint32_t found;

	for (int w = 0; w < EXPORT_WAYS; w++) {
		uint64_t content = atomic_load_explicit(&way[w], memory_order_acquire);

		if (content >> 32 != key || (uint32_t)content == 0 || (uint32_t)content > EXPORT_ENTRIES)
			continue;
		if (!read_entry(&t->entry[(uint32_t)content - 1], word))
			return false;
		memcpy(&found, word, sizeof(found));
		if (found != key)
			return false;
		memcpy(out, word, sizeof(word));
		return true;
	}
	return false;
}

uint32_t export_show_region(struct export *e, const struct export_region *region)
{
	return show(&e->regions, region->key, region);
}

uint32_t export_show_qp(struct export *e, const struct export_qp *qp)
{
	return show(&e->qps, qp->qpn, qp);
}

void export_hide_region(struct export *e, uint32_t handle)
{
	hide(&e->regions, handle);
}

void export_hide_qp(struct export *e, uint32_t handle)
{
	hide(&e->qps, handle);
}

bool export_find_region(const struct export_memory *m, uint32_t key, struct export_region *out)
{
	return find(&m->regions, key, out);
}

bool export_find_qp(const struct export_memory *m, uint32_t qpn, struct export_qp *out)
{
	return find(&m->qps, qpn, out);
}
