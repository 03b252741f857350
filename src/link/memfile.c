#include "link/memfile.h"

#include <errno.h>
#include <sys/resource.h>
#include <unistd.h>

int memfile_resize(int fd, size_t bytes)
{
	struct rlimit l;

	if (getrlimit(RLIMIT_FSIZE, &l) == 0 && l.rlim_cur != RLIM_INFINITY && bytes > l.rlim_cur)
		return -EFBIG;
	return ftruncate(fd, (off_t)bytes) ? -errno : 0;
}
