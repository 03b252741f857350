/* weft run --remap: registered private memory is moved into memory files, which peers map, and back when no region needs it.
 * What a program may do with private memory (fork, realloc, MADV_DONTNEED, munmap) is then as it was. Around a fork, pages
 * that a region has in part go back and come again, as others' memory is in them. At most REMAP_FILES files are made, which
 * hold no more than the pages of regions. All under the adapter's lock.
 *
 * The offset in a file is the address less the address where the file begins. So neighbouring and overlapping regions always
 * fit together, and /proc/self/maps alone tells what is where.
 *
 * Pages move while other threads use them (remap/pages.h). Two other ways were not taken: a signal that stops all threads
 * interrupts their system calls and fails where it is blocked; moving the pages aside first (mremap) makes readers wait too,
 * futexes among them, whose EFAULT ends programs.
 *
 * What a region costs does not grow with their number: neighbours are found in a tree (base/ranges.h), the kernel is asked
 * about the mappings of the region alone, and the flags of a mapping are found by calls that change nothing in the usual case
 * (remap/movable.h). All mappings are looked at when part of a region is not where it should be, since the program may have
 * moved it; otherwise once for every so many regions. */
#ifndef WEFT_REMAP_REMAP_H
#define WEFT_REMAP_REMAP_H

#include "remap/region.h"

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

enum { REMAP_FILES = 4 };

/* A descriptor that the program may close, and use its number again. */
struct remap_fd {
	int fd;			/* owned */
	dev_t device;
	ino_t inode;
};

struct remap_file {
	uint64_t base;		/* the address of its first byte */
	struct remap_fd memory;
};

struct remap {
	struct ca *ca;		/* borrowed */
	uint64_t least_bytes;	/* of a region that is moved; 0: none is */
	struct remap_file file[REMAP_FILES];
	uint32_t files;
	uint32_t regions;	/* in them */
	struct remap_fd pages;	/* of pages_open; inode 0: none yet. Kept, as the kernel looks at all mappings to close it */
	/* struct region.pages of what others use: in private memory, in our files, in other files */
	struct ranges in_private, in_files, in_others;
	uint64_t mappings, due;	/* when all were last looked at; and how many could have been since */
	bool has_looked;	/* at all of them, for what is being done now */
	bool is_over;		/* the program has moved such memory to other addresses: nothing more is moved */
};

struct mapping;

/* ca: borrowed. least_bytes: as in struct remap. */
void remap_init(struct remap *rm, struct ca *ca, uint64_t least_bytes);

/* The calls with a region need its struct region.
 * Moves the region's pages if that can be done; struct region.placed says why not. Again: what is not there yet. */
void remap_enter(struct remap *rm, struct mr *mr);
/* Nobody else uses the region any more. Pages that are in no other one become private. v: for struct region.placed. */
void remap_leave(struct remap *rm, struct mr *mr, enum remap_verdict v);
/* Others have been shown the region: published, is_mapped. */
void remap_shown(struct remap *rm, struct mr *mr);
/* The region is published no more; remap_shown or remap_leave follows. */
void remap_hidden(struct mr *mr);
/* The file of ours that is mapped there, or NULL. */
const struct remap_file *remap_file_behind(const struct remap *rm, const struct mapping *m);
/* enum remap_verdict for people. NULL: off. */
const char *remap_reason(enum remap_verdict placed);

/* Around fork, when nobody else uses the regions. What shares a page with a region, and is none, is the child's as fork has
 * it. */
void remap_before_fork(struct remap *rm);
void remap_after_fork(struct remap *rm);
/* In the child: what was moved becomes private, and whatever is wrong with the rest of the process does not matter. */
void remap_forget(struct remap *rm);

#endif
