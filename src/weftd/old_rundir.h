/* What a weftd of before the mark left in a directory: page, claims, lock and root/ lay beside ctl and weftd.log. Such a
 * directory is taken over, when nothing else is in it and each file is told by its content. */
#ifndef WEFT_WEFTD_OLD_RUNDIR_H
#define WEFT_WEFTD_OLD_RUNDIR_H

#include <stdbool.h>

/* Is there something of it, and nothing else but the mark? */
bool old_rundir_is_there(int dir);

/* Does such a weftd serve the directory now? */
bool old_rundir_is_served(int dir);

/* A descriptor of its lock in the directory of this path; -1: there is none. */
int old_rundir_lock(const char *path);

/* Removes it; for who has made the mark and holds the lock. */
void old_rundir_remove(int dir);

#endif
