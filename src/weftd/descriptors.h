/* Ranges of descriptors. glibc has close_range since 2.34, and weftd runs with 2.31 too. */
#ifndef WEFT_WEFTD_DESCRIPTORS_H
#define WEFT_WEFTD_DESCRIPTORS_H

#include <sys/syscall.h>
#include <unistd.h>

/* Closes descriptors first to last, whichever are open; Linux 5.9. */
static inline void descriptors_close(unsigned first, unsigned last)
{
	syscall(__NR_close_range, first, last, 0);
}

#endif
