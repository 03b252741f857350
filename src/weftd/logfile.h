/* Where weftd's log goes: DIR/weftd.log, or the standard error in the foreground. */
#ifndef WEFT_WEFTD_LOGFILE_H
#define WEFT_WEFTD_LOGFILE_H

#include "weftd/rundir.h"

/* Begins a new file. Without one (disk full ...) nothing is logged. 0, or -EEXIST: what has its name was not made by weft. */
int logfile_open(const struct rundir *d, bool foreground);
void logfile_close(const struct rundir *d, bool remove);

/* Is this file empty, or a log of weftd? */
bool logfile_is_weft(int fd);

/* Removes the log of a weftd that left. */
void logfile_remove(const struct rundir *d);

#endif
