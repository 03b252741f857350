/* LD_PRELOAD is a list of files, separated by colons or blanks (ld.so(8)). */
#include "cli/preload.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define SEPARATORS ": "

/* Those of weft, in their order: the heap's malloc is before everybody's. */
enum { HEAP, SHIM, VERBS, OURS };

static const char *const names[OURS] = { [HEAP] = "libweft-heap.so", [SHIM] = "libweft-shim.so", [VERBS] = "libibverbs.so.1" };

struct item {
	const char *text;
	size_t bytes;
};

/* The next item of the list; false at its end. */
static bool next_item(const char **list, struct item *item)
{
	*list += strspn(*list, SEPARATORS);
	item->text = *list;
	item->bytes = strcspn(*list, SEPARATORS);
	*list += item->bytes;
	return item->bytes != 0;
}

bool preload_is_sanitizer(const char *file)
{
	static const char *const kinds[] = { "asan", "hwasan", "lsan", "msan", "tsan", "ubsan" };
	const char *slash = strrchr(file, '/'), *name = slash ? slash + 1 : file;

	if (strncmp(name, "lib", 3) != 0)
		return false;
	name += 3;
	if (strncmp(name, "clang_rt.", 9) == 0)
		name += 9;
	for (size_t i = 0; i < sizeof(kinds) / sizeof(*kinds); i++) {
		size_t bytes = strlen(kinds[i]);

		/* libasan.so.8, libclang_rt.asan-x86_64.so, libclang_rt.ubsan_standalone.so */
		if (strncmp(name, kinds[i], bytes) == 0 && name[bytes] && strchr(".-_", name[bytes]))
			return true;
	}
	return false;
}

static bool is_sanitizer(struct item item)
{
	char file[4096];

	return (size_t)snprintf(file, sizeof(file), "%.*s", (int)item.bytes, item.text) < sizeof(file) &&
	       preload_is_sanitizer(file);
}

static bool is_ours(struct item item, const char *folder)
{
	size_t bytes = strlen(folder);

	if (item.bytes <= bytes || strncmp(item.text, folder, bytes) != 0 || item.text[bytes] != '/')
		return false;
	for (int i = 0; i < OURS; i++)
		if (item.bytes - bytes - 1 == strlen(names[i]) && strncmp(item.text + bytes + 1, names[i], strlen(names[i])) == 0)
			return true;
	return false;
}

struct output {
	char *text;
	size_t room, bytes;
};

static void add(struct output *out, const char *folder, struct item item)
{
	size_t room = out->room > out->bytes ? out->room - out->bytes : 0;

	out->bytes += (size_t)snprintf(room ? out->text + out->bytes : NULL, room, "%s%s%s%.*s", out->bytes ? ":" : "", folder,
				       *folder ? "/" : "", (int)item.bytes, item.text);
}

static void add_old(struct output *out, const char *old, const char *folder, bool sanitizers)
{
	struct item item;

	while (next_item(&old, &item))
		if (!is_ours(item, folder) && is_sanitizer(item) == sanitizers)
			add(out, "", item);
}

int preload_join(const char *old, const char *folder, bool with_heap, char *text, size_t room)
{
	struct output out = { .text = text, .room = room };

	add_old(&out, old ? old : "", folder, true);
	for (int i = with_heap ? HEAP : SHIM; i < OURS; i++)
		add(&out, folder, (struct item){ names[i], strlen(names[i]) });
	add_old(&out, old ? old : "", folder, false);
	return out.bytes < room ? 0 : -ENAMETOOLONG;
}

int preload_set(const char *folder, bool with_heap)
{
	const char *old = getenv("LD_PRELOAD");
	size_t room = (old ? strlen(old) : 0) + OURS * (strlen(folder) + 32) + 1;
	char *text = malloc(room);
	int err = text ? preload_join(old, folder, with_heap, text, room) : -ENOMEM;

	if (!err && setenv("LD_PRELOAD", text, 1))
		err = -ENOMEM;
	free(text);
	return err;
}
