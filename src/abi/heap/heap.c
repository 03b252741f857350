/* Taken pages are a sorted array of ranges, which is enough for blocks that are large and so are few. The descriptor is
 * looked at before each use: a program that closes what it does not know may have something else under its number. */
#include "heap.h"

#include "link/memfile.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <string.h>
#include <time.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

enum { MOST_RANGES = 1 << 14 };	/* our choice: with the gaps half of the mappings that the kernel allows a process */
static const size_t LEAST_BYTES = 64ull << 20;	/* our choice */

struct range {
	size_t first, pages;
	bool is_inherited;	/* the parent's: private, and never used again */
};

static struct {
	pthread_mutex_t lock;
	uint8_t *base;		/* set once */
	size_t bytes, page;
	struct range *range;
	size_t ranges;
	int fd;
	dev_t device;
	ino_t inode;		/* of the file behind fd; 0: there is none */
	bool has_failed;	/* once is enough */
	bool is_locked;		/* over a fork */
} heap = { .lock = PTHREAD_MUTEX_INITIALIZER, .fd = -1 };

bool heap_owns(const void *p)
{
	const uint8_t *base = __atomic_load_n(&heap.base, __ATOMIC_ACQUIRE);

	return base && (uintptr_t)p - (uintptr_t)base < heap.bytes;
}

static void *address_of(size_t page)
{
	return heap.base + page * heap.page;
}

static size_t page_of(const void *p)
{
	return (size_t)((const uint8_t *)p - heap.base) / heap.page;
}

/* The calls of these names in this library are the program's. */
static void *map_pages(void *at, size_t bytes, int prot, int flags, int fd, size_t offset)
{
	return (void *)syscall(SYS_mmap, at, bytes, prot, flags, fd, offset);
}

static void advise_pages(void *at, size_t bytes, int advice)
{
	syscall(SYS_madvise, at, bytes, advice);
}

static bool has_file(void)
{
	struct stat st;

	return heap.inode && fstat(heap.fd, &st) == 0 && st.st_ino == heap.inode && st.st_dev == heap.device;
}

/* ---- the stretch and its file ---- */

/* As much as there is memory: more cannot be in use. */
static size_t wanted_bytes(void)
{
	size_t memory = (size_t)sysconf(_SC_PHYS_PAGES) * (size_t)sysconf(_SC_PAGESIZE), bytes = LEAST_BYTES;
	struct rlimit limit;

	while (bytes < memory && bytes < MEMFILE_STRETCH_MOST)
		bytes *= 2;
	/* a larger file would be answered with a signal */
	if (getrlimit(RLIMIT_FSIZE, &limit) == 0)
		while (bytes > limit.rlim_cur)
			bytes /= 2;
	return bytes;
}

static void *reserve(void *at, size_t bytes)
{
	return map_pages(at, bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | (at ? MAP_FIXED : 0), -1, 0);
}

static bool make_stretch(void)
{
	void *base = MAP_FAILED;
	size_t bytes = wanted_bytes();

	heap.range = map_pages(NULL, MOST_RANGES * sizeof(*heap.range), PROT_READ | PROT_WRITE,
			       MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	if (heap.range == MAP_FAILED)
		return false;
	for (; bytes >= LEAST_BYTES && base == MAP_FAILED; bytes /= 2) {
		heap.bytes = bytes;
		base = reserve(NULL, bytes);
	}
	if (base == MAP_FAILED)
		return false;
	heap.page = (size_t)sysconf(_SC_PAGESIZE);
	__atomic_store_n(&heap.base, base, __ATOMIC_RELEASE);
	return true;
}

static bool make_file(void)
{
	int fd = memfile_create_fixed("weft-heap", heap.bytes);
	struct stat st;

	if (fd < 0)
		return false;
	fd = memfile_move_away(fd);
	if (fstat(fd, &st) < 0) {
		close(fd);
		return false;
	}
	heap.fd = fd;
	heap.device = st.st_dev;
	heap.inode = st.st_ino;
	return true;
}

/* ---- fork ---- */

/* With patience only: what handlers after this one wait for may be held by a thread that waits for us. */
static void before_fork(void)
{
	struct timespec limit;

	clock_gettime(CLOCK_REALTIME, &limit);
	limit.tv_sec += 1;
	heap.is_locked = pthread_mutex_timedlock(&heap.lock, &limit) == 0;
}

static void in_parent(void)
{
	if (heap.is_locked)
		pthread_mutex_unlock(&heap.lock);
}

/* What was taken becomes private, as fork has it: else the child would write into the parent. */
static void in_child(void)
{
	bool had_file = has_file();

	for (size_t i = 0; i < heap.ranges; i++) {
		struct range *r = &heap.range[i];

		if (!r->is_inherited && had_file)
			map_pages(address_of(r->first), r->pages * heap.page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_FIXED,
				  heap.fd, r->first * heap.page);
		r->is_inherited = true;
	}
	if (had_file)
		close(heap.fd);
	heap.inode = 0;
	heap.has_failed = heap.has_failed || !heap.is_locked;
	pthread_mutex_init(&heap.lock, NULL);
}

__attribute__((constructor)) static void watch_forks(void)
{
	pthread_atfork(before_fork, in_parent, in_child);
}

static bool open_heap(void)
{
	if (has_file())
		return true;
	if (heap.has_failed || (heap.base && heap.inode))
		return false;	/* the program closed it */
	heap.has_failed = (!heap.base && !make_stretch()) || !make_file();
	return !heap.has_failed;
}

/* ---- ranges ---- */

/* The first range that ends after this page. */
static size_t find_range(size_t page)
{
	size_t low = 0, high = heap.ranges;

	while (low < high) {
		size_t middle = (low + high) / 2;

		if (heap.range[middle].first + heap.range[middle].pages > page)
			high = middle;
		else
			low = middle + 1;
	}
	return low;
}

static bool insert_range(size_t at, struct range r)
{
	if (heap.ranges == MOST_RANGES)
		return false;
	memmove(&heap.range[at + 1], &heap.range[at], (heap.ranges - at) * sizeof(r));
	heap.range[at] = r;
	heap.ranges++;
	return true;
}

static void remove_range(size_t at)
{
	heap.ranges--;
	memmove(&heap.range[at], &heap.range[at + 1], (heap.ranges - at) * sizeof(heap.range[0]));
}

/* First fit: the place in the array, and the first page. */
static bool find_gap(size_t pages, size_t align, size_t *at, size_t *first)
{
	uintptr_t base = (uintptr_t)heap.base / heap.page;
	size_t from = 0;

	for (size_t i = 0; i <= heap.ranges; i++) {
		size_t end = i < heap.ranges ? heap.range[i].first : heap.bytes / heap.page;
		size_t start = ((base + from + align - 1) / align * align) - base;

		if (start <= end && pages <= end - start) {
			*at = i;
			*first = start;
			return true;
		}
		if (i < heap.ranges)
			from = end + heap.range[i].pages;
	}
	return false;
}

static void *take(size_t pages, size_t align)
{
	size_t at, first;
	void *p;

	if (!open_heap() || !find_gap(pages, align, &at, &first) ||
	    !insert_range(at, (struct range){ .first = first, .pages = pages }))
		return NULL;
	p = map_pages(address_of(first), pages * heap.page, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED,
		      heap.fd, first * heap.page);
	if (p != MAP_FAILED)
		return p;
	remove_range(at);
	return NULL;
}

void *heap_take(size_t bytes, size_t alignment)
{
	size_t page = (size_t)sysconf(_SC_PAGESIZE);
	int saved = errno;
	void *p;

	if (bytes == 0 || bytes > MEMFILE_STRETCH_MOST || alignment > MEMFILE_STRETCH_MOST)
		return NULL;
	pthread_mutex_lock(&heap.lock);
	p = take((bytes + page - 1) / page, alignment > page ? alignment / page : 1);
	pthread_mutex_unlock(&heap.lock);
	errno = saved;
	return p;
}

size_t heap_size(const void *p)
{
	size_t i, bytes = 0;

	pthread_mutex_lock(&heap.lock);
	i = find_range(page_of(p));
	if (i < heap.ranges && address_of(heap.range[i].first) == p)
		bytes = heap.range[i].pages * heap.page;
	pthread_mutex_unlock(&heap.lock);
	return bytes;
}

static void drop_pages(size_t first, size_t pages)
{
	if (has_file())
		fallocate(heap.fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE,
			  (off_t)(first * heap.page), (off_t)(pages * heap.page));
	else
		advise_pages(address_of(first), pages * heap.page, MADV_REMOVE);
}

/* Nothing else of the process may get these addresses, or we would take it for ours. */
void heap_give(void *p)
{
	int saved = errno;
	size_t i;

	pthread_mutex_lock(&heap.lock);
	i = find_range(page_of(p));
	if (i < heap.ranges && address_of(heap.range[i].first) == p) {
		const struct range r = heap.range[i];

		if (!r.is_inherited)
			drop_pages(r.first, r.pages);
		reserve(p, r.pages * heap.page);
		if (!r.is_inherited)
			remove_range(i);
	}
	pthread_mutex_unlock(&heap.lock);
	errno = saved;
}

static void clear_piece(bool is_inherited, size_t first, size_t pages)
{
	if (is_inherited)
		map_pages(address_of(first), pages * heap.page, PROT_READ | PROT_WRITE,
			  MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0);
	else
		drop_pages(first, pages);
}

void heap_clear(void *p, size_t bytes)
{
	size_t first, end;
	int saved = errno;

	pthread_mutex_lock(&heap.lock);
	first = page_of(p);
	end = first + (bytes + heap.page - 1) / heap.page;
	for (size_t i = find_range(first); i < heap.ranges && heap.range[i].first < end; i++) {
		const struct range *r = &heap.range[i];
		size_t from = r->first > first ? r->first : first, to = r->first + r->pages < end ? r->first + r->pages : end;

		clear_piece(r->is_inherited, from, to - from);
	}
	pthread_mutex_unlock(&heap.lock);
	errno = saved;
}
