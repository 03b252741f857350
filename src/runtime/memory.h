/* Memory for the queues that programs and the adapter share. */
#ifndef WEFT_RUNTIME_MEMORY_H
#define WEFT_RUNTIME_MEMORY_H

#include <stddef.h>
#include <stdint.h>
#include <sys/uio.h>

enum { COPY_PIECES = 64 };	/* our choice: more than a turn of a link has packets */

struct arena_memory {
	void *base;
	size_t bytes;
	int fd;			/* owned */
};

int arena_memory_create(struct arena_memory *m);
void arena_memory_destroy(struct arena_memory *m);
/* In a forked child: the parent's queues as they were, private. */
void arena_memory_privatise(struct arena_memory *m);
/* A file through which bytes get into memory that may not be there: one system call that looks nothing up, where process_vm_readv
 * finds process and pages. */
struct copy_file {
	uint8_t *map;		/* NULL: there is none, and memory_write_safely does without */
	int fd;			/* owned */
	size_t used;		/* bytes that wait in the file ... */
	unsigned pieces;
	struct iovec piece[COPY_PIECES];	/* ... for these places */
};

void copy_file_create(struct copy_file *f);
void copy_file_destroy(struct copy_file *f);
/* In a forked child, which has no use for the parent's. */
void copy_file_forget(struct copy_file *f);

/* memcpy that answers -EFAULT instead of a signal, where `from`, or `to`, is not there. */
int memory_read_safely(void *to, const void *from, size_t bytes);
int memory_write_safely(struct copy_file *f, void *to, const void *from, size_t bytes);
/* The same of what is only to be there once memory_settle returns, pages of `to` that are not there left out: many pieces take
 * one system call. */
void memory_write_later(struct copy_file *f, void *to, const void *from, size_t bytes);
void memory_settle_all(struct copy_file *f);
static inline void memory_settle(struct copy_file *f)
{
	if (f->used)
		memory_settle_all(f);
}

#endif
