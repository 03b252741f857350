#include "cli/own_network.h"

#include "cli/cli.h"
#include "cli/daemon.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

/* A runtime directory has a short path, so not $TMPDIR. */
#define PLACE "/tmp"
#define PREFIX "weft-pair."

static int name_in_environment(const char *path)
{
	char dir[80];

	snprintf(dir, sizeof(dir), "%s/run", path);
	return setenv("WEFT_DIR", dir, 1) || unsetenv("WEFT_NODE");
}

static bool is_there(const char *path, int fd)
{
	struct stat at, opened;

	return lstat(path, &at) == 0 && fstat(fd, &opened) == 0 && at.st_dev == opened.st_dev && at.st_ino == opened.st_ino;
}

/* Another's sweep may find the directory before its lock is taken, and removes it then. */
int own_network_make(struct own_network *n)
{
	for (;;) {
		strcpy(n->path, PLACE "/" PREFIX "XXXXXX");
		if (!mkdtemp(n->path))
			return cli_fail("make room in " PLACE, "no directory can be made in " PLACE ": %s", strerror(errno));
		n->lock = open(n->path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
		if (n->lock >= 0 && flock(n->lock, LOCK_EX) == 0 && is_there(n->path, n->lock))
			break;
		if (n->lock < 0 && errno != ENOENT)
			return cli_fail(NULL, "%s cannot be opened: %s", n->path, strerror(errno));
		if (n->lock >= 0)
			close(n->lock);
	}
	if (name_in_environment(n->path) == 0)
		return EXIT_OK;
	rmdir(n->path);
	return cli_fail(NULL, "%s", strerror(errno));
}

/* An exit status, with everything told. */
static int end_daemon(const char *path, bool force)
{
	struct rundir d;
	bool was_running;

	if (name_in_environment(path))
		return cli_fail(NULL, "%s", strerror(errno));
	return daemon_directory(false, &d) == EXIT_OK ? daemon_end(&d, force, &was_running) : EXIT_FAILED;
}

void own_network_remove(struct own_network *n)
{
	if (is_there(n->path, n->lock)) {
		end_daemon(n->path, true);
		if (rmdir(n->path))
			cli_fail("look into it, and remove it", "%s cannot be removed: %s", n->path, strerror(errno));
	}
	close(n->lock);
	n->lock = -1;
}

static void sweep(const char *path)
{
	int fd = open(path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	struct stat st;

	if (fd >= 0 && fstat(fd, &st) == 0 && st.st_uid == geteuid() && flock(fd, LOCK_EX | LOCK_NB) == 0 &&
	    is_there(path, fd) && rmdir(path)) {
		fprintf(stderr, "weft: a weft pair that was killed left WEFT_DIR=%s/run\n", path);
		if (end_daemon(path, false) == EXIT_OK && rmdir(path))
			cli_fail("look into it, and remove it", "%s cannot be removed: %s", path, strerror(errno));
	}
	if (fd >= 0)
		close(fd);
}

void own_network_sweep(void)
{
	DIR *place = opendir(PLACE);
	char path[sizeof(PLACE) + 256];
	const struct dirent *e;

	while (place && (e = readdir(place))) {
		if (strncmp(e->d_name, PREFIX, strlen(PREFIX)) != 0 || strlen(e->d_name) != strlen(PREFIX "XXXXXX"))
			continue;
		snprintf(path, sizeof(path), PLACE "/%s", e->d_name);
		sweep(path);
	}
	if (place)
		closedir(place);
}
