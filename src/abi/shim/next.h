/* The function of the same name that the next library in the search order has: libc's, or another preloaded library's. */
#ifndef WEFT_ABI_SHIM_NEXT_H
#define WEFT_ABI_SHIM_NEXT_H

#include <dlfcn.h>
#include <errno.h>

#define SHIM_EXPORT __attribute__((visibility("default")))

/* Two threads may both look up, and both store the same answer. */
static inline void *shim_next(void **slot, const char *name)
{
	void *next = __atomic_load_n(slot, __ATOMIC_RELAXED);

	if (!next) {
		next = dlsym(RTLD_NEXT, name);
		__atomic_store_n(slot, next, __ATOMIC_RELAXED);
		if (!next)
			errno = ENOSYS;
	}
	return next;
}

#define SHIM_NEXT(name)                              \
	({                                           \
		static void *slot_;                  \
		(__typeof__(&name))shim_next(&slot_, #name); \
	})

#endif
