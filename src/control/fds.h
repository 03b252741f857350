/* Descriptors by the list. */
#ifndef WEFT_CONTROL_FDS_H
#define WEFT_CONTROL_FDS_H

#include <unistd.h>

/* Closes those that are open; each becomes -1, which is none. */
static inline void fds_close(int *fd, int n)
{
	for (int i = 0; i < n; i++) {
		if (fd[i] >= 0)
			close(fd[i]);
		fd[i] = -1;
	}
}

#endif
