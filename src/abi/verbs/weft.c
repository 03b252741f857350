/* The few calls of our own: include/weft/weft.h. */
#include "runtime/entry.h"
#include "runtime/runtime.h"
#include "weft/weft.h"

#include "abi/verbs/object.h"

ABI_EXPORT const char *weft_version(void)
{
	return WEFT_VERSION;
}

ABI_EXPORT size_t weft_counters(struct weft_counter *counters, size_t room)
{
	struct runtime *rt = runtime_peek();
	struct counters now;

	if (!rt)
		return 0;
	runtime_enter(rt);
	now = runtime_counters(rt);
	runtime_leave(rt);
	for (unsigned i = 0; i < COUNTERS && i < room; i++)
		counters[i] = (struct weft_counter){ counters_name(i), counters_text(i), counters_value(&now, i) };
	return COUNTERS;
}
