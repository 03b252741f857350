#include "counters.h"

#include <dlfcn.h>
#include <errno.h>
#include <stdbool.h>
#include <string.h>

void counters_refresh(const char *root, const char *path)
{
	static void (*refresh)(const char *root);
	bool is_count = strstr(path, "/ports/1/counters/") || strstr(path, "/ports/1/hw_counters/");
	int saved = errno;
	void *umad;

	if (!is_count)
		return;
	if (!__atomic_load_n(&refresh, __ATOMIC_RELAXED)) {
		umad = dlopen("libibumad.so.3", RTLD_NOW);
		if (umad)	/* it stays for as long as we do */
			__atomic_store_n(&refresh, (void (*)(const char *))dlsym(umad, "weft_umad_refresh_counters"),
					 __ATOMIC_RELAXED);
	}
	if (refresh)
		refresh(root);
	errno = saved;
}
