/* The calls by which programs get memory. Large blocks and page-aligned ones, which is what programs register, come from
 * heap.h; everything else is the next library's. What programs map themselves stays as it is: there live the small objects
 * of their own allocators, which a forked child must find unchanged. */
#include "heap.h"

#include <dlfcn.h>
#include <errno.h>
#include <malloc.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define EXPORT __attribute__((visibility("default")))

/* glibc's own, for what dlsym itself may want while the others are being looked up. */
void *__libc_malloc(size_t bytes);
void *__libc_calloc(size_t count, size_t bytes);

static struct next {
	void *(*malloc)(size_t bytes);
	void *(*calloc)(size_t count, size_t bytes);
	void *(*realloc)(void *p, size_t bytes);
	void (*free)(void *p);
	int (*posix_memalign)(void **p, size_t alignment, size_t bytes);
	void *(*aligned_alloc)(size_t alignment, size_t bytes);
	void *(*memalign)(size_t alignment, size_t bytes);
	void *(*valloc)(size_t bytes);
	void *(*pvalloc)(size_t bytes);
	size_t (*malloc_usable_size)(void *p);
	int (*madvise)(void *addr, size_t bytes, int advice);
	bool is_ready;
} next;

static __thread bool looking;

/* Threads that come at once find the same. */
static void look_up(void)
{
	looking = true;
#define NEXT(name) next.name = (__typeof__(next.name))dlsym(RTLD_NEXT, #name)
	NEXT(malloc);
	NEXT(calloc);
	NEXT(realloc);
	NEXT(free);
	NEXT(posix_memalign);
	NEXT(aligned_alloc);
	NEXT(memalign);
	NEXT(valloc);
	NEXT(pvalloc);
	NEXT(malloc_usable_size);
	NEXT(madvise);
#undef NEXT
	looking = false;
	__atomic_store_n(&next.is_ready, true, __ATOMIC_RELEASE);
}

static inline const struct next *others(void)
{
	if (!__atomic_load_n(&next.is_ready, __ATOMIC_ACQUIRE) && !looking)
		look_up();
	return &next;
}

/* Blocks from this size on; 0 until it was read. */
static size_t least_bytes;

__attribute__((constructor)) static void read_environment(void)
{
	const char *bytes = getenv("WEFT_SHARED_HEAP");

	least_bytes = bytes ? strtoull(bytes, NULL, 10) : 0;
}

static bool wants(size_t bytes)
{
	return least_bytes && bytes >= least_bytes;
}

/* Small ones too: nobody asks for whole pages of his own without a reason. */
static bool wants_aligned(size_t alignment, size_t bytes)
{
	return wants(bytes) || (least_bytes && alignment && alignment % (size_t)sysconf(_SC_PAGESIZE) == 0);
}

/* ---- malloc and its relatives ---- */

EXPORT void *malloc(size_t bytes)
{
	void *p = wants(bytes) ? heap_take(bytes, 1) : NULL;

	if (p)
		return p;
	return others()->malloc ? next.malloc(bytes) : __libc_malloc(bytes);
}

EXPORT void *calloc(size_t count, size_t bytes)
{
	size_t all;
	void *p = !__builtin_mul_overflow(count, bytes, &all) && wants(all) ? heap_take(all, 1) : NULL;

	if (p)
		return p;
	return others()->calloc ? next.calloc(count, bytes) : __libc_calloc(count, bytes);
}

EXPORT void free(void *p)
{
	if (!p)
		return;
	if (!heap_owns(p))
		others()->free(p);
	else
		heap_give(p);
}

EXPORT size_t malloc_usable_size(void *p)
{
	return heap_owns(p) ? heap_size(p) : others()->malloc_usable_size(p);
}

/* A block that becomes large moves here, one that shrinks stays. */
EXPORT void *realloc(void *p, size_t bytes)
{
	size_t had;
	void *moved;

	if (!p)
		return malloc(bytes);
	if (!heap_owns(p) && !wants(bytes))
		return others()->realloc(p, bytes);
	had = malloc_usable_size(p);
	if (heap_owns(p) && bytes && bytes <= had)
		return p;
	moved = bytes ? malloc(bytes) : NULL;
	if (!moved && bytes)
		return NULL;
	if (moved)
		memcpy(moved, p, had < bytes ? had : bytes);
	free(p);
	return moved;
}

EXPORT int posix_memalign(void **out, size_t alignment, size_t bytes)
{
	bool is_valid = alignment >= sizeof(void *) && (alignment & (alignment - 1)) == 0;
	void *p = is_valid && wants_aligned(alignment, bytes) ? heap_take(bytes, alignment) : NULL;

	if (!p)
		return others()->posix_memalign(out, alignment, bytes);
	*out = p;
	return 0;
}

EXPORT void *aligned_alloc(size_t alignment, size_t bytes)
{
	void *p = (alignment & (alignment - 1)) == 0 && wants_aligned(alignment, bytes) ? heap_take(bytes, alignment) : NULL;

	return p ? p : others()->aligned_alloc(alignment, bytes);
}

EXPORT void *memalign(size_t alignment, size_t bytes)
{
	void *p = (alignment & (alignment - 1)) == 0 && wants_aligned(alignment, bytes) ? heap_take(bytes, alignment) : NULL;

	return p ? p : others()->memalign(alignment, bytes);
}

EXPORT void *valloc(size_t bytes)
{
	void *p = least_bytes ? heap_take(bytes, 1) : NULL;

	return p ? p : others()->valloc(bytes);
}

EXPORT void *pvalloc(size_t bytes)
{
	void *p = least_bytes ? heap_take(bytes, 1) : NULL;

	return p ? p : others()->pvalloc(bytes);
}

/* ---- pages ---- */

static bool is_page(const void *p)
{
	return (uintptr_t)p % (uintptr_t)sysconf(_SC_PAGESIZE) == 0;
}

/* Programs that free pages in this way count on zeroes, or on nothing (MADV_FREE). */
EXPORT int madvise(void *addr, size_t bytes, int advice)
{
	if (!heap_owns(addr) || !is_page(addr) || (advice != MADV_DONTNEED && advice != MADV_FREE))
		return others()->madvise(addr, bytes, advice);
	heap_clear(addr, bytes);
	return 0;
}
