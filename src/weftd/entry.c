/* What a name means is looked at after it was opened, on the descriptor. Only unlinkat(2) has to look first; between the look and
 * the removal nobody but this user can change a directory that nobody else may write to. */
#include "weftd/entry.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static bool is_own(const struct stat *st, mode_t type)
{
	return (st->st_mode & S_IFMT) == type && st->st_uid == geteuid() && (type == S_IFDIR || st->st_nlink == 1);
}

/* Kernels before 5.8 do not say what a mount point is; then a directory of another file system is one. */
static bool is_mount_point(int fd, int dir)
{
	struct stat of_fd, of_dir;
	struct statx x;

	if (statx(fd, "", AT_EMPTY_PATH, 0, &x) == 0 && x.stx_attributes_mask & STATX_ATTR_MOUNT_ROOT)
		return x.stx_attributes & STATX_ATTR_MOUNT_ROOT;
	return fstat(fd, &of_fd) || fstat(dir, &of_dir) || (S_ISDIR(of_fd.st_mode) && of_fd.st_dev != of_dir.st_dev);
}

static int checked(int fd, int dir, mode_t type)
{
	struct stat st = { .st_nlink = 1 };

	if (fd < 0)
		return errno == ELOOP || errno == ENOTDIR || errno == ENXIO || errno == EISDIR ? -EEXIST : -errno;
	if (fstat(fd, &st) == 0 && is_own(&st, type) && !is_mount_point(fd, dir))
		return fd;
	close(fd);
	/* without a name it was removed just now */
	return st.st_nlink == 0 ? -ENOENT : -EEXIST;
}

int entry_enter(int dir, const char *name, mode_t mode)
{
	if (mode && mkdirat(dir, name, mode) && errno != EEXIST)
		return -errno;
	return checked(openat(dir, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC), dir, S_IFDIR);
}

int entry_open(int dir, const char *name, int flags, mode_t mode)
{
	/* a pipe or a terminal of that name must not make us wait, nor become ours */
	return checked(openat(dir, name, flags | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY | O_CLOEXEC, mode), dir, S_IFREG);
}

int entry_remove(int dir, const char *name, mode_t type)
{
	struct stat st;

	if (fstatat(dir, name, &st, AT_SYMLINK_NOFOLLOW))
		return errno == ENOENT ? 0 : -errno;
	if (!is_own(&st, type))
		return -EEXIST;
	if (unlinkat(dir, name, type == S_IFDIR ? AT_REMOVEDIR : 0) == 0 || errno == ENOENT)
		return 0;
	return errno == EBUSY ? -EEXIST : -errno;	/* EBUSY: a mount point */
}

bool entry_is(int dir, const char *name, int fd)
{
	struct stat of_fd, of_name;

	return fstat(fd, &of_fd) == 0 && fstatat(dir, name, &of_name, AT_SYMLINK_NOFOLLOW) == 0 &&
	       of_fd.st_ino == of_name.st_ino && of_fd.st_dev == of_name.st_dev;
}

int entry_visit(int dir, bool (*visit)(void *arg, const char *name), void *arg)
{
	int fd = openat(dir, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	DIR *list = fd < 0 ? NULL : fdopendir(fd);
	const struct dirent *e;
	int err = -errno;

	if (!list) {
		if (fd >= 0)
			close(fd);
		return err;
	}
	while ((e = readdir(list))) {
		if (strcmp(e->d_name, ".") != 0 && strcmp(e->d_name, "..") != 0 && !visit(arg, e->d_name))
			break;
	}
	closedir(list);
	return 0;
}
