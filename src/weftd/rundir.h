/* The runtime directory: where it is, whether it can be trusted, and whether it is weft's. weftd and the weft command use the
 * same answers, so that both refuse a directory which somebody else has put there, and one that holds somebody's files.
 *
 * DIR/made-by-weft/ (CONTROL_OWN) is the mark: a directory that has it is weft's to serve. It holds what is weft's alone: lock,
 * page, claims and the tree of device files. Beside it are ctl, ctl.new and weftd.log. */
#ifndef WEFT_WEFTD_RUNDIR_H
#define WEFT_WEFTD_RUNDIR_H

#include <stdbool.h>
#include <stdint.h>

#define RUNDIR_SYSTEM "/run/weft"
#define RUNDIR_TREE "devices"
#define RUNDIR_PORT_TREE RUNDIR_TREE "@"	/* and a port of a fabric: how the trees of programs there begin */

/* Bytes: a directory; a file in it, which must fit a Unix socket's address; the tree. */
enum { RUNDIR_PATH = 96, RUNDIR_FILE = 108, RUNDIR_TREE_NAME = 40, RUNDIR_TREE_PATH = 160 };

struct rundir {
	char path[RUNDIR_PATH];	/* absolute */
	bool system;		/* shared by all users */
	int fd, own;		/* owned: the directory, and the one that is its mark; -1 when it is not open */
};

/* Chooses the directory: WEFT_DIR, else /run/weft for the system's weftd, else of $XDG_RUNTIME_DIR/weft and /run/user/UID/weft,
 * when these are ours, and /tmp/weft-UID the first that has a weftd's socket, or just the first. 0, -ENAMETOOLONG, or -EINVAL
 * when WEFT_DIR is not absolute. */
int rundir_choose(struct rundir *d, bool system);

/* Is it there, a directory, its owner's alone, and weft's, or empty? -ENOENT, -ENOTDIR, -EPERM, -ENOTEMPTY when it is not weft's
 * to use, other -errno; *why says what is wrong with it. */
int rundir_check(const struct rundir *d, const char **why);

/* What an error of rundir_choose means. */
const char *rundir_refusal(int err);

/* What its user can do about an error of rundir_choose, rundir_check or rundir_open. */
const char *rundir_advice(int err);

/* Makes it and its mark if they are missing, checks it as above and opens it, again if it was open. 0 or -errno, *why; -EBUSY: a
 * weftd of an earlier version serves it. */
int rundir_open(struct rundir *d, const char **why);

/* As rundir_open, but makes nothing: -ENOENT when there is no directory with the mark. */
int rundir_visit(struct rundir *d, const char **why);

void rundir_close(struct rundir *d);

/* Does the path still mean the directory that is open? */
bool rundir_is_current(const struct rundir *d);

/* Is something in the directory that no weft makes? Each such name is logged. */
bool rundir_has_others(const struct rundir *d);

/* Removes the mark, and the directory if some weftd made it, and closes it. With anything else in it the directory keeps its
 * mark. */
void rundir_leave(struct rundir *d);

/* path + "/" + name. */
void rundir_file(const struct rundir *d, const char *name, char path[RUNDIR_FILE]);

/* The name in DIR/made-by-weft/ of the tree of device files: of all devices (which = 0), or of those of these bits; for programs
 * at the port `at` - 1 of a fabric, or (0) at none. */
void rundir_tree_name(uint32_t at, uint32_t which, char name[RUNDIR_TREE_NAME]);
/* Where programs find that tree. */
void rundir_tree(const struct rundir *d, uint32_t at, uint32_t which, char path[RUNDIR_TREE_PATH]);

#endif
