/* Time as every engine sees it: nanoseconds of a monotonic clock that the caller injects. */
#ifndef WEFT_BASE_TIME_H
#define WEFT_BASE_TIME_H

#include <stdint.h>

typedef uint64_t wtime;

#define WTIME_NEVER UINT64_MAX
#define WTIME_US 1000ull
#define WTIME_MS 1000000ull
#define WTIME_S 1000000000ull

static inline wtime wtime_min(wtime a, wtime b)
{
	return a < b ? a : b;
}

#endif
