/* weft run --remap: registered private memory is moved into memory files, which peers map, and back when it is deregistered.
 * What is at an address of the process is at the same place of a file, counted from where the file begins: so neighbours and
 * overlapping regions always fit together, and nothing is kept in books. At most REMAP_FILES files are made, which hold no
 * more than the pages of regions. All under the host's lock. */
#ifndef WEFT_HOST_REMAP_H
#define WEFT_HOST_REMAP_H

#include "verbs/mr.h"

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

enum { REMAP_FILES = 4 };

enum remap_verdict {
	REMAP_OFF,
	REMAP_DONE,
	REMAP_SMALL,
	REMAP_SHARED,
	REMAP_FILE,
	REMAP_STACK,
	REMAP_RIGHTS,
	REMAP_LOCKED,
	REMAP_FORK,
	REMAP_WATCHED,
	REMAP_NEIGHBOUR,
	REMAP_MANY,
	REMAP_FAR,
	REMAP_TAKEN,
	REMAP_SYSTEM,
};

struct remap_file {
	uint64_t base;		/* the address of its first byte */
	int fd;			/* owned; the program may close it */
	dev_t device;
	ino_t inode;
};

struct remap {
	struct remap_file file[REMAP_FILES];
	uint32_t files;
	uint32_t regions;	/* in them */
	bool is_over;		/* the program has moved such memory to other addresses: nothing more is moved */
};

struct host;

/* Moves the region's pages if that can be done; mr->placed says why not. Again: what is not there yet. */
void remap_enter(struct host *h, struct mr *mr);
/* Nobody else uses the region any more. Pages that are in no other one become private. v: for mr->placed. */
void remap_leave(struct host *h, struct mr *mr, enum remap_verdict v);
/* enum remap_verdict for people. NULL: off. */
const char *remap_reason(int placed);

/* Around fork. What shares a page with a region, and is none, is the child's as fork has it. */
void remap_before_fork(struct host *h);
void remap_after_fork(struct host *h);
/* In the child: what was moved becomes private, and whatever is wrong with the rest of the host does not matter. */
void remap_forget(struct host *h);

#endif
