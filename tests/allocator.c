#include "allocator.h"

#include <malloc.h>
#include <stdbool.h>

void *__real_malloc(size_t bytes);
void *__real_calloc(size_t n, size_t bytes);
void *__real_realloc(void *old, size_t bytes);
void __real_free(void *old);
void *__wrap_malloc(size_t bytes);
void *__wrap_calloc(size_t n, size_t bytes);
void *__wrap_realloc(void *old, size_t bytes);
void __wrap_free(void *old);

struct allocator allocator;

static bool fails(void)
{
	return allocator.fail_at && --allocator.fail_at == 0;
}

static void *count(void *got)
{
	allocator.held += got != NULL;
	allocator.held_bytes += got ? malloc_usable_size(got) : 0;
	return got;
}

void *__wrap_malloc(size_t bytes)
{
	return fails() ? NULL : count(__real_malloc(bytes));
}

void *__wrap_calloc(size_t n, size_t bytes)
{
	return fails() ? NULL : count(__real_calloc(n, bytes));
}

void *__wrap_realloc(void *old, size_t bytes)
{
	size_t before = old ? malloc_usable_size(old) : 0;
	void *got = fails() ? NULL : __real_realloc(old, bytes);

	if (got) {
		allocator.held += !old;
		allocator.held_bytes += malloc_usable_size(got) - before;
	}
	return got;
}

void __wrap_free(void *old)
{
	allocator.held -= old != NULL;
	allocator.held_bytes -= old ? malloc_usable_size(old) : 0;
	__real_free(old);
}
