#include "weftd/hash_table.h"

#include "weftd/random.h"

#include <errno.h>
#include <stdlib.h>

enum { FEWEST = 64 };

void hash_table_init(struct hash_table *k)
{
	*k = (struct hash_table){ 0 };
	random_bytes(&k->key, sizeof(k->key));
}

uint64_t hash_table_hash(const struct hash_table *k, const void *key, size_t bytes)
{
	return siphash(&k->key, key, bytes);
}

static struct hash_node **bucket_of(const struct hash_table *k, uint64_t hash)
{
	return &k->bucket[hash & (k->buckets - 1)];
}

static void put(struct hash_table *k, struct hash_node *n)
{
	struct hash_node **at = bucket_of(k, n->hash);

	n->next = *at;
	*at = n;
}

int hash_table_reserve(struct hash_table *k, uint32_t more)
{
	uint32_t buckets = k->buckets ? k->buckets : FEWEST;
	struct hash_table old = *k;

	while (buckets < k->count + more)
		buckets *= 2;
	if (buckets == k->buckets)
		return 0;
	k->bucket = calloc(buckets, sizeof(struct hash_node *));
	if (!k->bucket) {
		*k = old;
		return -ENOMEM;
	}
	k->buckets = buckets;
	for (uint32_t i = 0; i < old.buckets; i++) {
		for (struct hash_node *n = old.bucket[i], *next; n; n = next) {
			next = n->next;
			put(k, n);
		}
	}
	free(old.bucket);
	return 0;
}

void hash_table_add(struct hash_table *k, struct hash_node *n, uint64_t hash)
{
	n->hash = hash;
	put(k, n);
	k->count++;
}

void hash_table_remove(struct hash_table *k, struct hash_node *n)
{
	struct hash_node **at = bucket_of(k, n->hash);

	while (*at != n)
		at = &(*at)->next;
	*at = n->next;
	if (--k->count)
		return;
	free(k->bucket);
	k->bucket = NULL;
	k->buckets = 0;
}

struct hash_node *hash_table_first(const struct hash_table *k, uint64_t hash)
{
	struct hash_node *n = k->count ? *bucket_of(k, hash) : NULL;

	while (n && n->hash != hash)
		n = n->next;
	return n;
}

struct hash_node *hash_table_next(const struct hash_node *n)
{
	uint64_t hash = n->hash;

	do
		n = n->next;
	while (n && n->hash != hash);
	return (struct hash_node *)n;
}
