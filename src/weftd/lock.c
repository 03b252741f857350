/* The lock file is removed by its holder when it leaves, so who gets a lock must look whether the file is still the one
 * with that name. */
#include "weftd/lock.h"

#include "control/protocol.h"
#include "weftd/entry.h"
#include "weftd/old_rundir.h"

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

#define LOCK_NAME "lock"

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

int lock_try(const struct rundir *d)
{
	int fd = entry_open(d->own, LOCK_NAME, O_RDWR | O_CREAT, 0600), err;

	if (fd < 0)
		return fd == -ENOENT ? -EAGAIN : fd;
	if (flock(fd, LOCK_EX | LOCK_NB) == 0) {
		if (entry_is(d->own, LOCK_NAME, fd) && rundir_is_current(d))
			return fd;
		err = -EAGAIN;
	} else {
		err = errno == EWOULDBLOCK ? -EAGAIN : -errno;
	}
	close(fd);
	return err;
}

int lock_look(const struct rundir *d)
{
	return entry_open(d->own, LOCK_NAME, O_RDONLY, 0);
}

int lock_take(struct rundir *d)
{
	const char *why = NULL;
	int fd = -EAGAIN;

	for (int i = 0; i < TRIES && fd == -EAGAIN; i++) {
		if (i)
			nanosleep(&(struct timespec){ .tv_nsec = TRY_MS * 1000000 }, NULL);
		/* who left a moment ago took the directory with it */
		fd = rundir_open(d, &why);
		if (fd == 0)
			fd = lock_try(d);
		if (fd == -EAGAIN && is_served(d))
			return -EALREADY;
	}
	if (fd == -EAGAIN)
		fprintf(stderr, "weftd: another weftd holds %s/" CONTROL_OWN "/" LOCK_NAME
			" but does not answer; next: weft down --force\n", d->path);
	else if (fd < 0)
		fprintf(stderr, "weftd: %s cannot be locked: %s\n", d->path, why ? why : strerror(-fd));
	else
		old_rundir_remove(d->fd);
	return fd;
}

void lock_release(struct rundir *d, int lock)
{
	if (entry_is(d->own, LOCK_NAME, lock))
		entry_remove(d->own, LOCK_NAME, S_IFREG);
	rundir_leave(d);
	close(lock);
}
