/* Trust: a directory must belong to this user, or to root (the system's), and be writable by nobody else. /tmp is open
 * to all, so a name there may have been taken by anybody, as a link too. */
#include "weftd/rundir.h"

#include "base/log.h"
#include "control/networks.h"
#include "control/protocol.h"
#include "weftd/entry.h"
#include "weftd/old_rundir.h"
#include "weftd/users.h"

#include <errno.h>
#include <fcntl.h>
#include <pwd.h>
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

/* A login shell has XDG_RUNTIME_DIR; cron, sudo and containers have not. Of the places that a user's network may have, the one
 * that a weftd serves counts. */
static int choose_of_user(char path[RUNDIR_PATH])
{
	const char *xdg = getenv("XDG_RUNTIME_DIR");
	char place[3][RUNDIR_PATH], login[32];
	int count = 0, n = 0;

	snprintf(login, sizeof(login), "/run/user/%u", geteuid());
	if (is_own_directory(xdg))
		n = snprintf(place[count++], RUNDIR_PATH, "%s/weft", xdg);
	if (is_own_directory(login))
		snprintf(place[count++], RUNDIR_PATH, "%s/weft", login);
	snprintf(place[count++], RUNDIR_PATH, "/tmp/weft-%u", geteuid());
	for (int i = 0; i < count; i++) {
		if (networks_is_served(place[i], geteuid()))
			return snprintf(path, RUNDIR_PATH, "%s", place[i]);
	}
	strcpy(path, place[0]);
	return n ? n : (int)strlen(path);
}

int rundir_choose(struct rundir *d, bool system)
{
	const char *env = getenv("WEFT_DIR");
	int n;

	*d = (struct rundir){ .system = system, .fd = -1, .own = -1 };
	if (env && *env) {
		if (env[0] != '/')
			return -EINVAL;
		n = snprintf(d->path, sizeof(d->path), "%s", env);
	} else if (system) {
		n = snprintf(d->path, sizeof(d->path), "%s", RUNDIR_SYSTEM);
	} else {
		n = choose_of_user(d->path);
	}
	if ((size_t)n >= sizeof(d->path))
		return -ENAMETOOLONG;
	/* with a slash at its end the path would mean what a link there points to */
	while (n > 1 && d->path[n - 1] == '/')
		d->path[--n] = '\0';
	return 0;
}

static int fails(const char **why)
{
	int err = -errno;

	*why = strerror(errno);
	return err;
}

/* ---- whether it can be used ---- */

static int check_trust(const struct stat *st, const char **why)
{
	if (!S_ISDIR(st->st_mode)) {
		*why = S_ISLNK(st->st_mode) ? "it is a symbolic link" : "it is not a directory";
		return -ENOTDIR;
	}
	if (st->st_uid != geteuid() && st->st_uid != 0) {
		*why = "it belongs to another user";
		return -EPERM;
	}
	if (!users_is_somebody(st->st_uid)) {
		*why = "nobody can tell whose it is: its owner is not mapped in this user namespace";
		return -EPERM;
	}
	if (st->st_mode & (S_IWGRP | S_IWOTH)) {
		*why = "other users may write to it";
		return -EPERM;
	}
	return 0;
}

static bool is_at(const struct stat *st, const char *path)
{
	struct stat of_path;

	return path && *path && stat(path, &of_path) == 0 && of_path.st_dev == st->st_dev && of_path.st_ino == st->st_ino;
}

static bool is_home(const struct stat *st)
{
	/* cppcheck-suppress getpwuidCalled ; weft and weftd have one thread */
	const struct passwd *user = getpwuid(geteuid());

	return is_at(st, getenv("HOME")) || (user && is_at(st, user->pw_dir));
}

static bool has_mark(int fd)
{
	struct stat st;

	return fstatat(fd, CONTROL_OWN, &st, AT_SYMLINK_NOFOLLOW) == 0 && S_ISDIR(st.st_mode) && st.st_uid == geteuid();
}

struct content {
	bool has_mark, has_more;
};

static bool note(void *arg, const char *name)
{
	struct content *c = arg;

	if (strcmp(name, CONTROL_OWN) == 0)
		c->has_mark = true;
	else
		c->has_more = true;
	return true;
}

/* Is it empty, or does it have a mark? One look, as others may make the mark or remove it now: it is the first that a weftd makes
 * in a directory and the last that goes. */
static bool is_usable(int fd)
{
	struct content c = { 0 };
	struct stat st;
	int err = entry_visit(fd, note, &c);

	/* -ENOENT: it was just removed, which who opens it sees next */
	if (err)
		return err == -ENOENT;
	if (!c.has_mark)
		return !c.has_more;
	if (fstatat(fd, CONTROL_OWN, &st, AT_SYMLINK_NOFOLLOW))
		return errno == ENOENT;
	return S_ISDIR(st.st_mode) && st.st_uid == geteuid();
}

/* Somebody else's directory is served by its owner's weftd, whose affair it is what is in it. */
static int check_content(int fd, const struct stat *st, const char **why)
{
	if (is_at(st, "/")) {
		*why = "it is the root of the file system";
		return -ENOTEMPTY;
	}
	if (st->st_uid != geteuid())
		return 0;
	if (is_home(st)) {
		*why = "it is a home directory";
		return -ENOTEMPTY;
	}
	if (is_usable(fd) || old_rundir_is_there(fd))
		return 0;
	*why = "it is not empty and was not made by weft";
	return -ENOTEMPTY;
}

/* Its descriptor, checked. The name is looked up once. */
static int open_checked(const struct rundir *d, const char **why)
{
	int path_fd = open(d->path, O_PATH | O_NOFOLLOW | O_CLOEXEC), fd = -1, err;
	struct stat st;

	if (path_fd < 0)
		return fails(why);
	err = fstat(path_fd, &st) ? fails(why) : check_trust(&st, why);
	if (!err) {
		fd = openat(path_fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
		if (fd < 0)
			err = fails(why);
	}
	close(path_fd);
	if (!err)
		err = check_content(fd, &st, why);
	if (!err)
		return fd;
	if (fd >= 0)
		close(fd);
	return err;
}

int rundir_check(const struct rundir *d, const char **why)
{
	int fd = open_checked(d, why);

	if (fd < 0)
		return fd;
	close(fd);
	return 0;
}

_Static_assert(RUNDIR_PATH == 96, "what PATH_MOST says");
#define PATH_MOST "95"

const char *rundir_refusal(int err)
{
	return err == -EINVAL ? "WEFT_DIR is not an absolute path" : "its path is too long";
}

const char *rundir_advice(int err)
{
	switch (err) {
	case -ENOTEMPTY:
		return "set WEFT_DIR to an empty or a new directory";
	case -EBUSY:
		return "weft down --force";
	case -ENOENT:
		return "make the directory above it, or set WEFT_DIR to another directory";
	case -EINVAL:
	case -ENAMETOOLONG:
		return "set WEFT_DIR to an absolute path of at most " PATH_MOST " bytes";
	default:
		return "make it yours alone (chmod 700), or set WEFT_DIR to another directory";
	}
}

/* ---- making, opening, removing ---- */

void rundir_close(struct rundir *d)
{
	if (d->own >= 0)
		close(d->own);
	if (d->fd >= 0)
		close(d->fd);
	d->fd = d->own = -1;
}

static int open_own(struct rundir *d, mode_t mode, const char **why)
{
	d->own = entry_enter(d->fd, CONTROL_OWN, mode);
	if (d->own >= 0)
		return 0;
	*why = d->own == -EEXIST ? CONTROL_OWN " in it was not made by weft" : strerror(-d->own);
	return d->own;
}

static int open_whole(struct rundir *d, mode_t mode, const char **why)
{
	int err = 0;

	d->fd = open_checked(d, why);
	if (d->fd < 0)
		return d->fd;
	if (mode && !has_mark(d->fd) && old_rundir_is_served(d->fd)) {
		*why = "a weftd of an earlier version serves it";
		err = -EBUSY;
	}
	if (!err)
		err = open_own(d, mode, why);
	if (err)
		rundir_close(d);
	return err;
}

int rundir_open(struct rundir *d, const char **why)
{
	mode_t mode = d->system ? 0755 : 0700;
	int err;

	do {
		rundir_close(d);
		if (mkdir(d->path, MADE_BY_WEFT | mode) && errno != EEXIST)
			return fails(why);
		err = open_whole(d, mode, why);
	} while (err == -ENOENT);	/* who leaves just now took it away */
	return err;
}

int rundir_visit(struct rundir *d, const char **why)
{
	rundir_close(d);
	return open_whole(d, 0, why);
}

bool rundir_is_current(const struct rundir *d)
{
	return entry_is(AT_FDCWD, d->path, d->fd);
}

struct names {
	const struct rundir *dir;
	bool has_others, has_more;	/* than the mark */
};

static bool is_weft_name(const char *name)
{
	static const char *const names[] = { CONTROL_OWN, "ctl", "ctl.new", "weftd.log" };

	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
		if (strcmp(names[i], name) == 0)
			return true;
	}
	return false;
}

static bool judge_name(void *arg, const char *name)
{
	struct names *n = arg;

	n->has_more |= strcmp(name, CONTROL_OWN) != 0;
	if (is_weft_name(name))
		return true;
	log_line(LOG_WARNING, "%s/%s was not made by weft: it stays, and the directory with it", n->dir->path, name);
	n->has_others = true;
	return true;
}

bool rundir_has_others(const struct rundir *d)
{
	struct names n = { .dir = d };

	entry_visit(d->fd, judge_name, &n);
	return n.has_others;
}

void rundir_leave(struct rundir *d)
{
	struct names n = { .dir = d };
	struct stat st;

	/* rmdir(2) judges the mark: who has come meanwhile has put its lock there */
	if (entry_visit(d->fd, judge_name, &n) == 0 && !n.has_more && entry_remove(d->fd, CONTROL_OWN, S_IFDIR) == 0 &&
	    fstat(d->fd, &st) == 0 && st.st_mode & MADE_BY_WEFT && rundir_is_current(d))
		rmdir(d->path);
	rundir_close(d);
}

void rundir_file(const struct rundir *d, const char *name, char path[RUNDIR_FILE])
{
	snprintf(path, RUNDIR_FILE, "%s/%s", d->path, name);
}

void rundir_tree_name(uint32_t at, uint32_t which, char name[RUNDIR_TREE_NAME])
{
	char port[12] = "", some[12] = "";

	if (at)
		snprintf(port, sizeof(port), "@%u", at - 1);
	if (which)
		snprintf(some, sizeof(some), "-%x", which);
	snprintf(name, RUNDIR_TREE_NAME, RUNDIR_TREE "%s%s", port, some);
}

void rundir_tree(const struct rundir *d, uint32_t at, uint32_t which, char path[RUNDIR_TREE_PATH])
{
	char name[RUNDIR_TREE_NAME];

	rundir_tree_name(at, which, name);
	snprintf(path, RUNDIR_TREE_PATH, "%s/%s/%s", d->path, CONTROL_OWN, name);
}
