/* The runtime directory: where it is, whether it can be trusted, and what lies in it. weftd and the weft command use the
 * same answers, so that both refuse a directory which somebody else has put there. */
#ifndef WEFT_WEFTD_RUNDIR_H
#define WEFT_WEFTD_RUNDIR_H

#include <stdbool.h>

#define RUNDIR_SYSTEM "/run/weft"

/* Bytes: a directory, and a file in it, which must fit a Unix socket's address. */
enum { RUNDIR_PATH = 96, RUNDIR_FILE = 108 };

struct rundir {
	char path[RUNDIR_PATH];	/* absolute */
	bool system;		/* shared by all users */
};

/* Chooses the directory: WEFT_DIR, else /run/weft for the system's weftd, else $XDG_RUNTIME_DIR/weft when that is ours, else
 * /tmp/weft-UID. 0, -ENAMETOOLONG, or -EINVAL when WEFT_DIR is not absolute. */
int rundir_choose(struct rundir *d, bool system);

/* Makes it if it is missing and checks it. 0 or -errno, and then *why says what is wrong with it. */
int rundir_make(const struct rundir *d, const char **why);

/* Removes it if some weftd made it and nothing is in it. */
void rundir_remove(const struct rundir *d);

/* Is it there, a directory, its owner's alone? -ENOENT, -ENOTDIR, -EPERM, other -errno; *why as above. */
int rundir_check(const struct rundir *d, const char **why);

/* path + "/" + name. */
void rundir_file(const struct rundir *d, const char *name, char path[RUNDIR_FILE]);

#endif
