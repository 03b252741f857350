/* What weft makes in a directory, each by its name there and the directory's descriptor. No link is followed. Nothing is used,
 * emptied or removed that is not of the kind asked for, is another user's, has another name too (a hard link) or is a mount
 * point: -EEXIST says that something which weft did not make has the name. */
#ifndef WEFT_WEFTD_ENTRY_H
#define WEFT_WEFTD_ENTRY_H

#include <stdbool.h>
#include <sys/types.h>

/* A descriptor of the directory, made if it is missing and `mode` is not 0. -EEXIST, other -errno. */
int entry_enter(int dir, const char *name, mode_t mode);

/* A descriptor of the regular file; flags as open(2), without O_TRUNC. -EEXIST, other -errno. */
int entry_open(int dir, const char *name, int flags, mode_t mode);

/* Removes a file of this type (S_IFREG, S_IFSOCK) or an empty directory (S_IFDIR). 0, also when it is missing; -EEXIST,
 * -ENOTEMPTY, other -errno. */
int entry_remove(int dir, const char *name, mode_t type);

/* Does the name still mean what the descriptor means? */
bool entry_is(int dir, const char *name, int fd);

/* Calls visit for each name in the directory until it says false. 0 or -errno. */
int entry_visit(int dir, bool (*visit)(void *arg, const char *name), void *arg);

#endif
