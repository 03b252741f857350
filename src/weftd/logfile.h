/* Where weftd's log goes: DIR/weftd.log, or the standard error in the foreground. */
#ifndef WEFT_WEFTD_LOGFILE_H
#define WEFT_WEFTD_LOGFILE_H

#include "weftd/rundir.h"

/* Begins a new file. Without one (disk full ...) nothing is logged. */
void logfile_open(const struct rundir *d, bool foreground);
void logfile_close(const struct rundir *d, bool remove);

#endif
