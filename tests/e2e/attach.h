/* How programs of several processes that stand on the object model begin. */
#ifndef WEFT_TESTS_E2E_ATTACH_H
#define WEFT_TESTS_E2E_ATTACH_H

#include "fail.h"
#include "runtime/entry.h"
#include "runtime/runtime.h"

#include <sys/mman.h>

/* The process's host; the program ends when there is no weftd. */
static inline struct runtime *attach(void)
{
	struct runtime *rt = runtime_get();

	if (!rt)
		die("no weftd");
	return rt;
}

/* The helper thread may have placed what a peer wrote; from here on that is before what this thread does. */
static inline void see_what_was_placed(struct runtime *rt)
{
	runtime_enter(rt);
	runtime_leave(rt);
}

/* Zeroed memory that children share. */
static inline void *share_with_children(size_t bytes)
{
	void *memory = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);

	if (memory == MAP_FAILED)
		die("no memory");
	return memory;
}

#endif
