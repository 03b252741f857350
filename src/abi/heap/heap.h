/* Memory that other processes can map: whole pages of one sealed memory file, in one stretch of addresses that is kept
 * free for it. What is not taken has no memory and cannot be touched. All calls may come from any thread; errno stays.
 * In a forked child what the parent had taken is private from then on, and the child takes from a file of its own. */
#ifndef WEFT_ABI_HEAP_HEAP_H
#define WEFT_ABI_HEAP_HEAP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Zeroed; alignment: a power of two. NULL: not from here. */
void *heap_take(size_t bytes, size_t alignment);

/* Is this address in the stretch? Costs no lock. */
bool heap_owns(const void *p);
/* How long the block is that begins here; 0: none does. */
size_t heap_size(const void *p);

/* Gives the block that begins here back. */
void heap_give(void *p);
/* As madvise(MADV_DONTNEED) has it of private memory: zeroes from now on. */
void heap_clear(void *p, size_t bytes);

#endif
