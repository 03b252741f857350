/* The arena: runs of pages, first fit. map[p] describes the run that starts at page p: its length, and whether it is
 * given away; entries inside a run mean nothing. Free neighbours are joined when a search passes them. */
#include "base/log.h"
#include "verbs/queue.h"

#include <errno.h>
#include <stdlib.h>

static const uint32_t USED = 1u << 31;

int arena_init(struct arena *a, void *base, uint64_t bytes)
{
	uint64_t pages = bytes / ARENA_PAGE;

	if (!base || pages == 0 || pages >= USED || (uintptr_t)base % ARENA_PAGE)
		return -EINVAL;
	*a = (struct arena){ .base = base, .bytes = pages * ARENA_PAGE, .pages = (uint32_t)pages };
	a->map = calloc(pages, sizeof(*a->map));
	if (!a->map)
		return -ENOMEM;
	a->map[0] = a->pages;
	return 0;
}

void arena_fini(struct arena *a)
{
	free(a->map);
	*a = (struct arena){ 0 };
}

/* Joins the free run at `page` with the free runs after it and returns its length. */
static uint32_t join(struct arena *a, uint32_t page)
{
	uint32_t length = a->map[page];

	while (page + length < a->pages && !(a->map[page + length] & USED))
		length += a->map[page + length];
	a->map[page] = length;
	return length;
}

int arena_alloc(struct arena *a, uint64_t bytes, uint64_t *offset)
{
	uint64_t want = (bytes + ARENA_PAGE - 1) / ARENA_PAGE;
	bool first_free = true;

	if (bytes == 0 || bytes > a->bytes)
		return bytes ? -ENOMEM : -EINVAL;
	for (uint32_t page = a->lowest, length; page < a->pages; page += length) {
		if (a->map[page] & USED) {
			length = a->map[page] & ~USED;
			continue;
		}
		length = join(a, page);
		if (length < want) {
			first_free = false;
			continue;
		}
		if (length > want)
			a->map[page + want] = length - (uint32_t)want;
		a->map[page] = (uint32_t)want | USED;
		if (first_free)
			a->lowest = page + (uint32_t)want;
		*offset = (uint64_t)page * ARENA_PAGE;
		return 0;
	}
	return -ENOMEM;
}

void arena_free(struct arena *a, uint64_t offset)
{
	uint32_t page = (uint32_t)(offset / ARENA_PAGE);

	if (weft_bug_on(offset >= a->bytes || !(a->map[page] & USED)))
		return;
	a->map[page] &= ~USED;
	if (page < a->lowest)
		a->lowest = page;
}
