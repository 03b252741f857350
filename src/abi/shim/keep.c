/* See keep.h. The values are copied when the shim is loaded, as programs write over their first environment. */
#include "keep.h"

#include <dlfcn.h>
#include <limits.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define PRELOAD "LD_PRELOAD="
#define ROOT "WEFT_ROOT="
#define ASAN "ASAN_OPTIONS="
#define ANY_ORDER "verify_asan_link_order=0"

enum {
	MOST_BYTES = 16 << 10,		/* our choice: paths and options; a process with more keeps nothing */
	MOST_ENTRIES = 1 << 16,		/* our choice: so many pointers are half a MiB of stack */
};

static const char *const names[] = {
	"WEFT_DIR=", ROOT, "WEFT_DEVICES=", "WEFT_SHARED_HEAP=", "WEFT_REMAP=", "WEFT_PATH=", "WEFT_PROFILE=", "WEFT_IMPAIR=",
	"WEFT_TRACE=", "WEFT_LOG=", "WEFT_ENGINE=", "WEFT_STATS=", "WEFT_NODE=",
	"WEFT_NODES=",
};

enum { VARIABLES = sizeof(names) / sizeof(names[0]) };

static struct {
	char text[MOST_BYTES];
	char *variable[VARIABLES];		/* NAME=VALUE, in text */
	unsigned variables;			/* 0: this is no process of weft run */
	const char *shim;			/* its path, in text */
	const char *libraries;			/* what LD_PRELOAD must have, in text */
} kept;

static bool begins(const char *text, const char *start)
{
	return strncmp(text, start, strlen(start)) == 0;
}

static const char *find(char *const *envp, const char *name)
{
	for (; envp && *envp; envp++)
		if (begins(*envp, name))
			return *envp;
	return NULL;
}

/* The list of weft's libraries, as weft run makes it, behind the shim's own path. The bytes used, or -1. */
static int name_libraries(char *text, size_t room)
{
	const char *heap = getenv("WEFT_SHARED_HEAP"), *slash;
	Dl_info self;
	int folder;

	if (!dladdr(&kept, &self) || !self.dli_fname || !(slash = strrchr(self.dli_fname, '/')))
		return -1;
	folder = (int)(slash - self.dli_fname);
	return snprintf(text, room, "%s%c%.*s%s%s:%.*s/libibverbs.so.1", self.dli_fname, '\0', heap ? folder : 0, self.dli_fname,
			heap ? "/libweft-heap.so:" : "", self.dli_fname, folder, self.dli_fname);
}

__attribute__((constructor)) static void keep(void)
{
	const char *root = getenv("WEFT_ROOT");
	size_t used = 0;
	unsigned n = 0;
	int bytes;

	if (!root || !*root)
		return;
	for (unsigned i = 0; i < VARIABLES; i++) {
		const char *entry = find(environ, names[i]);
		size_t length = entry ? strlen(entry) + 1 : 0;

		if (length > sizeof(kept.text) - used)
			return;
		if (!entry)
			continue;
		memcpy(kept.text + used, entry, length);
		kept.variable[n++] = kept.text + used;
		used += length;
	}
	bytes = name_libraries(kept.text + used, sizeof(kept.text) - used);
	if (bytes < 0 || (size_t)bytes >= sizeof(kept.text) - used)
		return;
	kept.shim = kept.text + used;
	kept.libraries = kept.shim + strlen(kept.shim) + 1;
	kept.variables = n;
}

/* Is the shim one of the list's? The list may have another library whose path goes on after the shim's. */
static bool has_shim(const char *list)
{
	size_t bytes = strlen(kept.shim);

	for (const char *at = list; (at = strstr(at, kept.shim)); at += bytes)
		if (at[bytes] == '\0' || at[bytes] == ':' || at[bytes] == ' ')
			return true;
	return false;
}

/* What is to be added: all, or the libraries to an LD_PRELOAD that has others. */
static bool lacks(char *const *envp, bool *all)
{
	const char *root = find(envp, ROOT), *preload = find(envp, PRELOAD);

	*all = !root;
	if (!kept.variables || *all)
		return kept.variables != 0;
	if (!root[strlen(ROOT)])
		return false;
	return preload && preload[strlen(PRELOAD)] && !has_shim(preload);
}

struct keep_room keep_measure(char *const *envp)
{
	struct keep_room room = { 0, 0 };
	const char *preload, *asan;
	size_t n = 0;
	bool all;

	if (!lacks(envp, &all))
		return room;
	while (envp && envp[n])
		n++;
	if (n > MOST_ENTRIES)
		return room;
	preload = find(envp, PRELOAD);
	asan = find(envp, ASAN);
	room.entries = n + VARIABLES + 3;
	room.bytes = (preload ? strlen(preload) : 0) + (asan ? strlen(asan) : 0) + strlen(kept.libraries) +
		     sizeof(PRELOAD) + sizeof(ASAN) + sizeof(ANY_ORDER) + 2;
	return room;
}

/* Both values come behind those of the environment: libraries of sanitizers must be first, and options are its own choice. */
static char *append(char *text, const char *name, const char *entry, const char *more)
{
	bool has_some = entry && entry[strlen(name)];

	text = stpcpy(text, has_some ? entry : name);
	if (has_some)
		*text++ = ':';
	return stpcpy(text, more) + 1;
}

static bool has_same(char *const *envp, const char *entry)
{
	size_t bytes = strcspn(entry, "=") + 1;

	for (; envp && *envp; envp++)
		if (strncmp(*envp, entry, bytes) == 0)
			return true;
	return false;
}

char **keep_complete(char *const *envp, char **list, char *text)
{
	const char *preload = find(envp, PRELOAD), *asan = find(envp, ASAN);
	char *const *entry;
	size_t n = 0;
	bool all;

	lacks(envp, &all);
	for (entry = envp; entry && *entry; entry++)
		if (*entry != preload && *entry != asan)
			list[n++] = *entry;
	for (unsigned i = 0; all && i < kept.variables; i++)
		if (!has_same(envp, kept.variable[i]))
			list[n++] = kept.variable[i];
	list[n++] = text;
	text = append(text, PRELOAD, preload, kept.libraries);
	list[n++] = text;
	if (asan && strstr(asan, "verify_asan_link_order"))
		strcpy(text, asan);
	else
		append(text, ASAN, asan, ANY_ORDER);
	list[n] = NULL;
	return list;
}
