/* Exactly one weftd serves a directory: who holds the lock on DIR/lock. */
#ifndef WEFT_WEFTD_LOCK_H
#define WEFT_WEFTD_LOCK_H

#include "weftd/rundir.h"

/* Waits until the lock is ours, or another weftd answers at the socket. A descriptor; -EALREADY: another one serves; other
 * -errno, told on the standard error. */
int lock_take(const struct rundir *d);

/* Removes the lock, and the directory too when a weftd made it and nothing else is in it. */
void lock_release(const struct rundir *d, int lock);

#endif
