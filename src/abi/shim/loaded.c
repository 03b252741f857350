#include "loaded.h"

#include <dlfcn.h>
#include <errno.h>
#include <limits.h>
#include <link.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* One of weft's libraries stands in the folder of the shim. */
static bool is_beside_us(const char *path)
{
	Dl_info self;
	char ours[PATH_MAX], other[PATH_MAX];

	if (!dladdr(loaded_check, &self) || !self.dli_fname || !realpath(self.dli_fname, ours) || !realpath(path, other))
		return true;
	*strrchr(ours, '/') = '\0';
	*strrchr(other, '/') = '\0';
	return strcmp(ours, other) == 0;
}

/* Of libibverbs.so.1, by their paths; our choice: nobody has more. */
enum { MOST = 4 };

struct found {
	char path[MOST][PATH_MAX];
	unsigned paths;
};

/* Called with a lock of the loader's: dladdr and realpath take others, so they must wait. */
static int note(struct dl_phdr_info *info, size_t bytes, void *to)
{
	const char *slash = strrchr(info->dlpi_name, '/');
	struct found *f = to;

	(void)bytes;
	if (slash && strncmp(slash, "/libibverbs.so.1", 16) == 0 && (!slash[16] || slash[16] == '.'))
		snprintf(f->path[f->paths++], PATH_MAX, "%s", info->dlpi_name);
	return f->paths == MOST;
}

/* A libibverbs that is not weft's, or NULL. */
static const char *find_other(struct found *f)
{
	f->paths = 0;
	dl_iterate_phdr(note, f);
	for (unsigned i = 0; i < f->paths; i++)
		if (!is_beside_us(f->path[i]))
			return f->path[i];
	return NULL;
}

void loaded_check(void)
{
	static bool told;
	struct found found;
	const char *path;
	int saved = errno;

	if (!__atomic_load_n(&told, __ATOMIC_RELAXED) && (path = find_other(&found)) &&
	    !__atomic_exchange_n(&told, true, __ATOMIC_RELAXED))
		dprintf(STDERR_FILENO, "weft: %s has loaded %s, which has none of weft's devices; weft's is found by "
			"dlopen(\"libibverbs.so.1\"), without a folder\n", program_invocation_short_name, path);
	errno = saved;
}
