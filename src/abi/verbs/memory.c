/* Whether a program may register a range. A driver pins every page and so finds holes and wrong rights; here nothing is
 * pinned, so the mappings are asked: msync(MS_ASYNC) writes nothing since Linux 2.6.19 but walks the mappings and names
 * a hole, and MADV_POPULATE on the first and last page answers for the rights. Both cost O(mappings): a region of 1 GB
 * takes microseconds. A mapping in the middle with other rights than both ends goes unnoticed. */
#include "abi/verbs/object.h"

#include <sys/mman.h>
#include <unistd.h>

#ifndef MADV_POPULATE_READ
#define MADV_POPULATE_READ 22
#define MADV_POPULATE_WRITE 23
#endif

static int populate_known;	/* 1: the kernel knows MADV_POPULATE (5.14), -1: it does not */

static bool has_populate(size_t page)
{
	static const char constant;
	uintptr_t own = (uintptr_t)&constant & ~(page - 1);

	if (populate_known == 0)
		populate_known = madvise((void *)own, page, MADV_POPULATE_READ) == 0 ? 1 : -1;
	return populate_known > 0;
}

static int page_probe(uintptr_t at, size_t page, bool writes)
{
	if (madvise((void *)at, page, writes ? MADV_POPULATE_WRITE : MADV_POPULATE_READ) == 0)
		return 0;
	return errno == EFAULT || errno == EINVAL || errno == ENOMEM ? -EFAULT : 0;
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
	if (!has_populate(page))
		return 0;
	if (page_probe(first, page, writes) < 0 || page_probe(last, page, writes) < 0)
		return -EFAULT;
	return 0;
}
