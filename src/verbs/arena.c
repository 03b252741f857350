/* The arena: runs of units, their lengths written at both ends, so that a freed run joins its neighbours at once; free runs
 * in lists by the power of two that they reach. What was never given away lies beyond `top` and is in no run. */
#include "base/log.h"
#include "verbs/queue.h"

#include <errno.h>
#include <stdlib.h>

enum { TRIES = 8 };	/* our choice: runs of the fitting class looked at before a larger one is cut */

static const uint32_t USED = 1u << 31, NONE = UINT32_MAX;

/* Of the first and the last unit of a run; what other units have means nothing. */
struct arena_run {
	uint32_t length;	/* units | USED */
	uint32_t next, prev;	/* first unit, free: the neighbours in its list, or NONE */
};

int arena_init(struct arena *a, void *base, uint64_t bytes)
{
	uint64_t units = bytes / ARENA_UNIT;

	if (!base || units == 0 || units >= USED || (uintptr_t)base % ARENA_PAGE)
		return -EINVAL;
	*a = (struct arena){ .base = base, .units = (uint32_t)units };
	for (unsigned class = 0; class < ARENA_CLASSES; class++)
		a->free[class] = NONE;
	return 0;
}

void arena_fini(struct arena *a)
{
	free(a->run);
	*a = (struct arena){ 0 };
}

static unsigned class_of(uint32_t length)
{
	return 31 - (unsigned)__builtin_clz(length);
}

static void mark(struct arena *a, uint32_t first, uint32_t length, uint32_t used)
{
	a->run[first].length = a->run[first + length - 1].length = length | used;
}

static void enlist(struct arena *a, uint32_t first, uint32_t length)
{
	uint32_t *list = &a->free[class_of(length)];

	mark(a, first, length, 0);
	a->run[first].prev = NONE;
	a->run[first].next = *list;
	if (*list != NONE)
		a->run[*list].prev = first;
	*list = first;
}

static void delist(struct arena *a, uint32_t first)
{
	struct arena_run *run = &a->run[first];

	if (run->next != NONE)
		a->run[run->next].prev = run->prev;
	if (run->prev != NONE)
		a->run[run->prev].next = run->next;
	else
		a->free[class_of(run->length)] = run->next;
}

/* The first of `tries` free runs of that class which is long enough, or NONE. */
static uint32_t find_in(const struct arena *a, unsigned class, uint32_t length, unsigned tries)
{
	uint32_t first = a->free[class];

	while (first != NONE && a->run[first].length < length)
		first = --tries ? a->run[first].next : NONE;
	return first;
}

static uint32_t find(const struct arena *a, uint32_t length)
{
	uint32_t first = find_in(a, class_of(length), length, TRIES);

	for (unsigned class = class_of(length) + 1; first == NONE && class < ARENA_CLASSES; class++)
		first = a->free[class];
	return first;
}

static uint32_t cut(struct arena *a, uint32_t first, uint32_t length)
{
	uint32_t rest = a->run[first].length - length;

	delist(a, first);
	if (rest)
		enlist(a, first + length, rest);
	return first;
}

/* Fresh units from `top` on, or NONE; the book grows with them. */
static uint32_t extend(struct arena *a, uint32_t length)
{
	uint32_t first = a->top;

	if (length > a->units - first)
		return NONE;
	if (first + length > a->room) {
		uint32_t twice = a->room < a->units / 2 ? 2 * a->room : a->units;
		uint32_t room = first + length > twice ? first + length : twice;
		struct arena_run *run = realloc(a->run, room * sizeof(*run));

		if (!run)
			return NONE;
		a->run = run;
		a->room = room;
	}
	a->top += length;
	return first;
}

static uint32_t take(struct arena *a, uint32_t length)
{
	uint32_t first = find(a, length);

	if (first == NONE) {
		first = extend(a, length);
		if (first != NONE)
			return first;
		first = find_in(a, class_of(length), length, UINT32_MAX);
	}
	return first == NONE ? NONE : cut(a, first, length);
}

int arena_alloc(struct arena *a, uint64_t bytes, uint64_t *offset)
{
	uint64_t units = bytes / ARENA_UNIT + (bytes % ARENA_UNIT != 0);
	uint32_t length = (uint32_t)units, first;

	if (units == 0 || units > a->units)
		return units ? -ENOMEM : -EINVAL;
	first = take(a, length);
	if (first == NONE)
		return -ENOMEM;
	mark(a, first, length, USED);
	a->pinned += (uint64_t)length * ARENA_UNIT;
	*offset = (uint64_t)first * ARENA_UNIT;
	return 0;
}

void arena_free(struct arena *a, uint64_t offset)
{
	uint32_t first = (uint32_t)(offset / ARENA_UNIT), length, after;

	if (weft_bug_on(offset % ARENA_UNIT || offset / ARENA_UNIT >= a->top || !(a->run[first].length & USED)))
		return;
	length = a->run[first].length & ~USED;
	a->pinned -= (uint64_t)length * ARENA_UNIT;
	after = first + length;
	if (after < a->top && !(a->run[after].length & USED)) {
		length += a->run[after].length;
		delist(a, after);
	}
	if (first && !(a->run[first - 1].length & USED)) {
		length += a->run[first - 1].length;
		first -= a->run[first - 1].length;
		delist(a, first);
	}
	if (first + length == a->top)
		a->top = first;
	else
		enlist(a, first, length);
}
