/* A hash table that clients fill. Its key is random, so that nobody can choose what shares a bucket, and it grows with what is
 * in it: a question costs one hash and about one entry, whatever was put in. */
#ifndef WEFT_WEFTD_HASH_TABLE_H
#define WEFT_WEFTD_HASH_TABLE_H

#include "base/siphash.h"

#include <stddef.h>
#include <stdint.h>

/* In what the table holds. */
struct hash_node {
	struct hash_node *next;
	uint64_t hash;
};

struct hash_table {
	struct siphash_key key;
	struct hash_node **bucket;	/* owned; NULL while the table is empty */
	uint32_t buckets, count;
};

void hash_table_init(struct hash_table *k);
/* Sees that `more` entries can be added. 0 or -ENOMEM. */
int hash_table_reserve(struct hash_table *k, uint32_t more);

/* Of an entry's key, which has no padding. */
uint64_t hash_table_hash(const struct hash_table *k, const void *key, size_t bytes);
/* After hash_table_reserve. */
void hash_table_add(struct hash_table *k, struct hash_node *n, uint64_t hash);
void hash_table_remove(struct hash_table *k, struct hash_node *n);

/* The entries with this hash, one after the other, or NULL. The caller compares their keys. */
struct hash_node *hash_table_first(const struct hash_table *k, uint64_t hash);
struct hash_node *hash_table_next(const struct hash_node *n);

#endif
