/* Which paths belong to the RDMA devices, and where the daemon's tree of stand-ins has them.
 * Invariant: a path of no concern is returned as it came, after a few character tests and without any system call. */
#ifndef WEFT_ABI_SHIM_PATH_H
#define WEFT_ABI_SHIM_PATH_H

#include <limits.h>
#include <stdbool.h>

struct shim_path {
	char text[PATH_MAX];
};

/* True when WEFT_ROOT, read once, names a tree; without one every call passes through untouched. */
bool shim_active(void);

/* Returns path itself (NULL included), or its stand-in, kept in *room, which lives as long as the caller keeps it. A node of
 * /dev/infiniband that the tree has becomes /dev/null, a character device which everybody may read and write. */
const char *shim_path(const char *path, struct shim_path *room);

/* True when path is the connection manager's device, which is not a file at all. */
bool shim_path_is_rdma_cm(const char *path);

/* True, with the path of the tree's file of this name in room, when there is a tree. name begins with a slash. */
bool shim_tree_path(const char *name, struct shim_path *room);

/* True when path is a port's issmN: then room has the path of the tree's file, in which the device's name stands. */
bool shim_path_is_issm(const char *path, struct shim_path *room);

#endif
