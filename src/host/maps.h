/* The mappings of this process, as the kernel lists them in /proc/self/maps: by address. */
#ifndef WEFT_HOST_MAPS_H
#define WEFT_HOST_MAPS_H

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

/* NULL where there is no /proc. fclose closes it. */
FILE *maps_open(void);
/* The next one; false: there is none. */
bool maps_next(FILE *maps, struct mapping *m);

enum { MAPS_FLAGS = 256 };

/* The same with the kernel's flags (VmFlags of /proc/self/smaps): it counts the pages of each, which takes time. */
FILE *maps_open_flags(void);
bool maps_next_flags(FILE *maps, struct mapping *m, char flags[MAPS_FLAGS]);
/* By the two letters that the kernel has for it. */
bool maps_has_flag(const char *flags, const char *name);

#endif
