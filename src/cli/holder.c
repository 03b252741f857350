/* proc(5): fd/N is the file itself, fdinfo/N tells the locks that the process holds by it. A descriptor of /proc/PID means one
 * process and is empty after its end: if it is not empty after the pid was opened, the two are one process. */
#include "cli/holder.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

int holder_signal(int holder, int signal)
{
	return syscall(SYS_pidfd_send_signal, holder, signal, NULL, 0) ? -errno : 0;
}

static bool holds_by(int process, const char *number)
{
	char path[64], text[1024], *at;
	ssize_t n;
	int fd;

	snprintf(path, sizeof(path), "fdinfo/%.20s", number);
	fd = openat(process, path, O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return false;
	n = read(fd, text, sizeof(text) - 1);
	close(fd);
	text[n > 0 ? n : 0] = '\0';
	at = strstr(text, "FLOCK");
	return at && strstr(at, "WRITE");
}

static bool holds(int process, const struct stat *lock)
{
	int fds = openat(process, "fd", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	DIR *list = fds < 0 ? NULL : fdopendir(fds);
	const struct dirent *e;
	struct stat st;
	bool is_so = false;

	if (!list) {
		if (fds >= 0)
			close(fds);
		return false;
	}
	while (!is_so && (e = readdir(list))) {
		is_so = fstatat(fds, e->d_name, &st, 0) == 0 && st.st_dev == lock->st_dev && st.st_ino == lock->st_ino &&
			holds_by(process, e->d_name);
	}
	closedir(list);
	return is_so;
}

static bool is_weftd(int process)
{
	char name[16] = "";
	struct stat st;
	int fd;

	if (fstat(process, &st) || st.st_uid != geteuid())
		return false;
	fd = openat(process, "comm", O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return false;
	if (read(fd, name, sizeof(name) - 1) < 0)
		name[0] = '\0';
	close(fd);
	return strcmp(name, "weftd\n") == 0;
}

/* The process, if it is the one. */
static int look_at(int proc, const char *pid, const struct stat *lock)
{
	int process = openat(proc, pid, O_RDONLY | O_DIRECTORY | O_CLOEXEC), holder;
	bool is_it;

	if (process < 0)
		return -ESRCH;
	is_it = is_weftd(process) && holds(process, lock);
	holder = is_it ? (int)syscall(SYS_pidfd_open, atoi(pid), 0) : -1;
	if (is_it && holder < 0) {
		holder = -errno;
	} else if (is_it && !holds(process, lock)) {
		/* what was opened by its pid may be another process, this one having ended */
		close(holder);
		is_it = false;
	}
	close(process);
	return is_it ? holder : -ESRCH;
}

int holder_find(int lock)
{
	int proc = open("/proc", O_RDONLY | O_DIRECTORY | O_CLOEXEC), found = -ESRCH;
	DIR *list = proc < 0 ? NULL : fdopendir(proc);
	const struct dirent *e;
	struct stat st;

	if (!list) {
		found = -errno;
		if (proc >= 0)
			close(proc);
		return found;
	}
	while (found == -ESRCH && fstat(lock, &st) == 0 && (e = readdir(list))) {
		if (e->d_name[0] >= '1' && e->d_name[0] <= '9')
			found = look_at(proc, e->d_name, &st);
	}
	closedir(list);
	return found;
}
