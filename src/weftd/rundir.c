/* Trust: a directory must belong to this user, or to root (the system's), and be writable by nobody else. /tmp is open
 * to all, so a name there may have been taken by anybody, as a link too. */
#include "weftd/rundir.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* Of several weftds that start at once one makes the directory and perhaps another serves and removes it: the sticky bit,
 * which has no other meaning in a directory with one writer, tells it that it may. */
#define MADE_BY_WEFT S_ISVTX

static bool is_own_directory(const char *path)
{
	struct stat st;

	return path && path[0] == '/' && stat(path, &st) == 0 && S_ISDIR(st.st_mode) && st.st_uid == geteuid();
}

int rundir_choose(struct rundir *d, bool system)
{
	const char *env = getenv("WEFT_DIR"), *xdg = getenv("XDG_RUNTIME_DIR");
	int n;

	*d = (struct rundir){ .system = system };
	if (env && *env) {
		if (env[0] != '/')
			return -EINVAL;
		n = snprintf(d->path, sizeof(d->path), "%s", env);
	} else if (system) {
		n = snprintf(d->path, sizeof(d->path), "%s", RUNDIR_SYSTEM);
	} else if (is_own_directory(xdg)) {
		n = snprintf(d->path, sizeof(d->path), "%s/weft", xdg);
	} else {
		n = snprintf(d->path, sizeof(d->path), "/tmp/weft-%u", geteuid());
	}
	return (size_t)n < sizeof(d->path) ? 0 : -ENAMETOOLONG;
}

int rundir_check(const struct rundir *d, const char **why)
{
	struct stat st;

	if (lstat(d->path, &st)) {
		*why = strerror(errno);
		return -errno;
	}
	if (!S_ISDIR(st.st_mode)) {
		*why = S_ISLNK(st.st_mode) ? "it is a symbolic link" : "it is not a directory";
		return -ENOTDIR;
	}
	if (st.st_uid != geteuid() && st.st_uid != 0) {
		*why = "it belongs to another user";
		return -EPERM;
	}
	if (st.st_mode & (S_IWGRP | S_IWOTH)) {
		*why = "other users may write to it";
		return -EPERM;
	}
	return 0;
}

static int fails(const char **why)
{
	int err = -errno;

	*why = strerror(errno);
	return err;
}

int rundir_make(const struct rundir *d, const char **why)
{
	mode_t mode = MADE_BY_WEFT | (d->system ? 0755 : 0700);
	int err;

	do {
		bool is_made = mkdir(d->path, mode) == 0;

		if (!is_made && errno != EEXIST)
			return fails(why);
		/* the umask may have taken bits away */
		err = is_made && chmod(d->path, mode) ? fails(why) : rundir_check(d, why);
	} while (err == -ENOENT);	/* who leaves just now took it away */
	return err;
}

void rundir_remove(const struct rundir *d)
{
	struct stat st;

	if (lstat(d->path, &st) == 0 && st.st_mode & MADE_BY_WEFT)
		rmdir(d->path);
}

void rundir_file(const struct rundir *d, const char *name, char path[RUNDIR_FILE])
{
	snprintf(path, RUNDIR_FILE, "%s/%s", d->path, name);
}
