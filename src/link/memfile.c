#include "link/memfile.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

enum { FAR_FD = 900 };		/* our choice: below RLIMIT_NOFILE's usual 1024 */

int memfile_resize(int fd, size_t bytes)
{
	struct rlimit l;

	if (getrlimit(RLIMIT_FSIZE, &l) == 0 && l.rlim_cur != RLIM_INFINITY && bytes > l.rlim_cur)
		return -EFBIG;
	return ftruncate(fd, (off_t)bytes) ? -errno : 0;
}

int memfile_create_fixed(const char *name, size_t bytes)
{
	int fd = memfd_create(name, MFD_CLOEXEC | MFD_ALLOW_SEALING), err;

	if (fd < 0)
		return -errno;
	err = memfile_resize(fd, bytes);
	if (!err && fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL) == 0)
		return fd;
	err = err ? err : -errno;
	close(fd);
	return err;
}

bool memfile_is_fixed(int fd, size_t least)
{
	struct stat st;
	int seals = fcntl(fd, F_GET_SEALS);

	return seals >= 0 && seals & F_SEAL_SHRINK && fstat(fd, &st) == 0 && st.st_size >= 0 && (size_t)st.st_size >= least;
}

int memfile_move_away(int fd)
{
	int far = fcntl(fd, F_DUPFD_CLOEXEC, FAR_FD);

	if (far < 0)
		return fd;
	close(fd);
	return far;
}
