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
	bool is_readable, is_writable, is_shared;
};

/* NULL where there is no /proc. fclose closes it. */
FILE *maps_open(void);
/* The next one; false: there is none. */
bool maps_next(FILE *maps, struct mapping *m);

#endif
