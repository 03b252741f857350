#include "control/clock.h"

#include <time.h>

wtime clock_now(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (wtime)t.tv_sec * WTIME_S + (wtime)t.tv_nsec;
}
