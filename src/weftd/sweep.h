/* What a weftd left that was killed, or that ended while processes were attached. */
#ifndef WEFT_WEFTD_SWEEP_H
#define WEFT_WEFTD_SWEEP_H

#include "weftd/rundir.h"

/* Removes it, and the directory, when no weftd serves it and no process that lives may need it. With `force` also what another
 * version left, of which it cannot be known who needs it. 0; -EAGAIN: a weftd serves it, or another sweeps; other -errno. */
int sweep_left(const struct rundir *dir, bool force);

#endif
