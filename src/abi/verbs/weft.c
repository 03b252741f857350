/* The few calls of our own: include/weft/weft.h. */
#include "weft/weft.h"

#include "abi/verbs/object.h"

ABI_EXPORT const char *weft_version(void)
{
	return WEFT_VERSION;
}

ABI_EXPORT size_t weft_counters(struct weft_counter *counters, size_t room)
{
	struct host *host = host_peek();
	struct counters now;

	if (!host)
		return 0;
	host_enter(host);
	now = host_counters(host);
	host_leave(host);
	for (unsigned i = 0; i < COUNTERS && i < room; i++)
		counters[i] = (struct weft_counter){ counters_name(i), counters_text(i), counters_value(&now, i) };
	return COUNTERS;
}
