/* The one clock: nanoseconds of CLOCK_MONOTONIC, the same in all processes of a host. */
#ifndef WEFT_CONTROL_CLOCK_H
#define WEFT_CONTROL_CLOCK_H

#include "base/time.h"

wtime clock_now(void);

#endif
