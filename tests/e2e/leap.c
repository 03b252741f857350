/* Preloaded: each time it is asked, the clock is a minute later, as for a process that was stopped in between. */
#include <time.h>

__attribute__((visibility("default"))) time_t time(time_t *now)
{
	static time_t leaps;
	struct timespec t;

	clock_gettime(CLOCK_REALTIME, &t);
	t.tv_sec += 60 * leaps++;
	if (now)
		*now = t.tv_sec;
	return t.tv_sec;
}
