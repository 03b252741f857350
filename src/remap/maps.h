/* The mappings of this process, as the kernel lists them in /proc/self/maps: by address. */
#ifndef WEFT_REMAP_MAPS_H
#define WEFT_REMAP_MAPS_H

#include "base/ranges.h"

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/types.h>

struct mapping {
	uint64_t start, end, offset;
	dev_t device;
	ino_t inode;
	bool is_readable, is_writable, is_executable, is_shared;
	bool is_stack;		/* of the first thread */
};

static inline struct range maps_range(const struct mapping *m)
{
	return (struct range){ m->start, m->end };
}

/* NULL where there is no /proc. fclose closes it. */
FILE *maps_open(void);
/* The next one; false: there is none. */
bool maps_next(FILE *maps, struct mapping *m);

/* The lowest mapping that ends behind `from`; false: there is none. Since Linux 6.11 the kernel looks for it, and those below
 * are not read; else they are, so `from` must not fall from call to call. [vsyscall] may be left out. Not mixed with
 * maps_next. */
bool maps_find(FILE *maps, uint64_t from, struct mapping *m);
/* Does the kernel look for it? */
bool maps_can_find(FILE *maps);

enum { MAPS_FLAGS = 256 };

/* The same with the kernel's flags (VmFlags of /proc/self/smaps): it counts the pages of each, which takes time. */
FILE *maps_open_flags(void);
bool maps_next_flags(FILE *maps, struct mapping *m, char flags[MAPS_FLAGS]);
/* By the two letters that the kernel has for it. */
bool maps_has_flag(const char *flags, const char *name);

#endif
