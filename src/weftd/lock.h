/* Exactly one weftd serves a directory: who holds the lock on DIR/made-by-weft/lock. */
#ifndef WEFT_WEFTD_LOCK_H
#define WEFT_WEFTD_LOCK_H

#include "weftd/rundir.h"

/* Opens the directory, and waits until the lock is ours or another weftd answers at the socket. A descriptor, and the directory
 * is open; -EALREADY: another one serves; other -errno, told on the standard error. */
int lock_take(struct rundir *d);

/* Takes the lock of the directory that is open, if nobody has it. A descriptor, -EAGAIN, other -errno. */
int lock_try(const struct rundir *d);

/* A descriptor of the lock of the directory that is open, for looking at it; -ENOENT, other -errno. */
int lock_look(const struct rundir *d);

/* Removes the lock, the mark, and the directory too when a weftd made it, as far as nothing else is in them. */
void lock_release(struct rundir *d, int lock);

#endif
