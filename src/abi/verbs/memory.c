/* Whether a program may register a range. A driver pins every page and so finds holes and wrong rights; here nothing is
 * pinned, so the mappings are asked: msync(MS_ASYNC) writes nothing since Linux 2.6.19 but walks the mappings and names
 * a hole, and MADV_POPULATE answers for the rights of pages, which then exist. For more than a few pages
 * /proc/self/maps answers: a region of 1 GB is not made to exist, and costs what looking at its mappings costs. */
#include "abi/verbs/object.h"

#include "remap/maps.h"

#include <sys/mman.h>
#include <unistd.h>

#ifndef MADV_POPULATE_READ
#define MADV_POPULATE_READ 22
#define MADV_POPULATE_WRITE 23
#endif

enum { PAGES_PROBED = 16 };	/* our choice: these take less time than reading the mappings */

static int populate_known;	/* 1: the kernel knows MADV_POPULATE (5.14), -1: it does not */

static bool has_populate(size_t page)
{
	static const char constant;
	uintptr_t own = (uintptr_t)&constant & ~(page - 1);

	if (populate_known == 0)
		populate_known = madvise((void *)own, page, MADV_POPULATE_READ) == 0 ? 1 : -1;
	return populate_known > 0;
}

static int pages_probe(uintptr_t at, size_t bytes, bool writes)
{
	if (madvise((void *)at, bytes, writes ? MADV_POPULATE_WRITE : MADV_POPULATE_READ) == 0)
		return 0;
	return errno == EFAULT || errno == EINVAL || errno == ENOMEM ? -EFAULT : 0;
}

/* The rights of all mappings in [first, end); that there are no holes is known. */
static int mappings_probe(uintptr_t first, uintptr_t end, bool writes)
{
	FILE *maps = maps_open();
	struct mapping m = { .end = first };
	int err = 0;

	if (!maps)
		return 0;
	while (err == 0 && maps_find(maps, m.end, &m) && m.start < end)
		if (!m.is_readable || (writes && !m.is_writable))
			err = -EFAULT;
	fclose(maps);
	return err;
}

int memory_probe(const void *addr, size_t length, int access)
{
	size_t page = (size_t)sysconf(_SC_PAGESIZE);
	uintptr_t first = (uintptr_t)addr & ~(page - 1), last;
	bool writes = access & (IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_ATOMIC);

	if ((uintptr_t)addr + (length - 1) < (uintptr_t)addr)
		return -EINVAL;
	last = ((uintptr_t)addr + length - 1) & ~(page - 1);
	if (msync((void *)first, last - first + page, MS_ASYNC) < 0)
		return -EFAULT;
	if (has_populate(page) && last - first < PAGES_PROBED * page)
		return pages_probe(first, last - first + page, writes);
	return mappings_probe(first, last + page, writes);
}
