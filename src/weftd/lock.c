/* The lock file is removed by its holder when it leaves, so who gets a lock must look whether the file is still the one
 * with that name. */
#include "weftd/lock.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

/* Our choice: another weftd is just starting or just leaving, both of which take milliseconds. */
enum { TRIES = 2000, TRY_MS = 5 };

static bool is_served(const struct rundir *d)
{
	struct sockaddr_un address = { .sun_family = AF_UNIX };
	int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
	bool served;

	if (fd < 0)
		return false;
	rundir_file(d, "ctl", address.sun_path);
	served = connect(fd, (struct sockaddr *)&address, sizeof(address)) == 0;
	close(fd);
	return served;
}

static bool is_current(int fd, const char *path)
{
	struct stat of_fd, of_path;

	return fstat(fd, &of_fd) == 0 && lstat(path, &of_path) == 0 && of_fd.st_ino == of_path.st_ino &&
	       of_fd.st_dev == of_path.st_dev;
}

/* The lock, -EAGAIN when another holds it, -errno. */
static int try_lock(const struct rundir *d, const char *path)
{
	const char *why;
	int fd, err;

	/* who left a moment ago took the directory with it */
	err = rundir_make(d, &why);
	if (err)
		return err;
	fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
	if (fd < 0)
		return errno == ENOENT ? -EAGAIN : -errno;
	if (flock(fd, LOCK_EX | LOCK_NB) == 0 && is_current(fd, path))
		return fd;
	err = errno == EWOULDBLOCK || errno == 0 ? -EAGAIN : -errno;
	close(fd);
	return err;
}

int lock_take(const struct rundir *d)
{
	char path[RUNDIR_FILE];
	int fd = -EAGAIN;

	rundir_file(d, "lock", path);
	for (int i = 0; i < TRIES && fd == -EAGAIN; i++) {
		if (i)
			nanosleep(&(struct timespec){ .tv_nsec = TRY_MS * 1000000 }, NULL);
		errno = 0;
		fd = try_lock(d, path);
		if (fd == -EAGAIN && is_served(d))
			return -EALREADY;
	}
	if (fd == -EAGAIN)
		fprintf(stderr, "weftd: another weftd holds %s but does not answer; next: end it (fuser %s)\n", path, path);
	else if (fd < 0)
		fprintf(stderr, "weftd: %s cannot be locked: %s\n", path, strerror(-fd));
	return fd;
}

void lock_release(const struct rundir *d, int lock)
{
	char path[RUNDIR_FILE];

	rundir_file(d, "lock", path);
	unlink(path);
	rundir_remove(d);
	close(lock);
}
