/* The calls by which programs get memory. Large blocks and page-aligned ones, which is what programs register, come from
 * heap.h; everything else is the next library's. Not reachable: what libc maps for itself (thread stacks, its own arenas)
 * and allocators inside the program that call the kernel without libc. */
#include "heap.h"

#include <dlfcn.h>
#include <errno.h>
#include <malloc.h>
#include <stdarg.h>
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
	void *(*mmap)(void *addr, size_t bytes, int prot, int flags, int fd, off_t offset);
	int (*munmap)(void *addr, size_t bytes);
	void *(*mremap)(void *addr, size_t bytes, size_t new_bytes, int flags, void *to);
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
	NEXT(mmap);
	NEXT(munmap);
	NEXT(mremap);
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
		heap_give(p, heap_size(p));
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

/* ---- mmap and its relatives ---- */

/* Private memory to read and write, wherever it comes to lie, and without properties that a shared mapping has not. */
static bool is_plain(int prot, int flags)
{
	return prot == (PROT_READ | PROT_WRITE) && (flags & ~(MAP_NORESERVE | MAP_POPULATE)) == (MAP_PRIVATE | MAP_ANONYMOUS);
}

static void *map(void *addr, size_t bytes, int prot, int flags, int fd, off_t offset)
{
	void *p = wants(bytes) && is_plain(prot, flags) ? heap_take(bytes, 1) : NULL;

	if (p) {
		if (flags & MAP_POPULATE)
			others()->madvise(p, bytes, MADV_POPULATE_WRITE);
		return p;
	}
	p = others()->mmap(addr, bytes, prot, flags, fd, offset);
	if (p != MAP_FAILED && flags & MAP_FIXED && heap_owns(p))
		heap_lose(p, bytes);
	return p;
}

EXPORT void *mmap(void *addr, size_t bytes, int prot, int flags, int fd, off_t offset)
{
	return map(addr, bytes, prot, flags, fd, offset);
}

EXPORT void *mmap64(void *addr, size_t bytes, int prot, int flags, int fd, off64_t offset)
{
	return map(addr, bytes, prot, flags, fd, offset);
}

static bool is_page(const void *p)
{
	return (uintptr_t)p % (uintptr_t)sysconf(_SC_PAGESIZE) == 0;
}

EXPORT int munmap(void *addr, size_t bytes)
{
	if (!heap_owns(addr) || !is_page(addr) || bytes == 0)
		return others()->munmap(addr, bytes);
	heap_give(addr, bytes);
	return 0;
}

/* The file's next pages may be another block's, so a mapping of ours grows by moving. */
static void *move(void *addr, size_t bytes, size_t new_bytes, int flags, void *to)
{
	int place = flags & MREMAP_FIXED ? MAP_FIXED : 0;
	void *p;

	if (new_bytes == 0 || flags & ~(MREMAP_MAYMOVE | MREMAP_FIXED)) {
		errno = EINVAL;
		return MAP_FAILED;
	}
	if (!place && new_bytes <= bytes) {
		size_t page = (size_t)sysconf(_SC_PAGESIZE), kept = (new_bytes + page - 1) & ~(page - 1);

		if (kept < bytes)
			heap_give((uint8_t *)addr + kept, bytes - kept);
		return addr;
	}
	if (!(flags & MREMAP_MAYMOVE)) {
		errno = ENOMEM;
		return MAP_FAILED;
	}
	p = map(to, new_bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | place, -1, 0);
	if (p == MAP_FAILED)
		return p;
	memcpy(p, addr, bytes < new_bytes ? bytes : new_bytes);
	heap_give(addr, bytes);
	return p;
}

EXPORT void *mremap(void *addr, size_t bytes, size_t new_bytes, int flags, ...)
{
	void *to = NULL;
	va_list ap;

	if (flags & MREMAP_FIXED) {
		va_start(ap, flags);
		to = va_arg(ap, void *);
		va_end(ap);
	}
	if (heap_owns(addr) && is_page(addr))
		return move(addr, bytes, new_bytes, flags, to);
	return others()->mremap(addr, bytes, new_bytes, flags, to);
}

/* Programs that free pages in this way count on zeroes, or on nothing (MADV_FREE). */
EXPORT int madvise(void *addr, size_t bytes, int advice)
{
	if (!heap_owns(addr) || !is_page(addr) || (advice != MADV_DONTNEED && advice != MADV_FREE))
		return others()->madvise(addr, bytes, advice);
	heap_clear(addr, bytes);
	return 0;
}
