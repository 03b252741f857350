/* Pages of this process that move between private memory and a memory file while other threads use them. Who writes into
 * them meanwhile waits, so that no write is lost: the pages are write-protected by a userfaultfd, copied, and replaced by one
 * system call. Reading goes on. No memory is allocated and no lock taken while somebody may wait. */
#ifndef WEFT_REMAP_PAGES_H
#define WEFT_REMAP_PAGES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <unistd.h>

static inline size_t page_bytes(void)
{
	return (size_t)sysconf(_SC_PAGESIZE);
}

/* A descriptor for the calls below, to be closed by the caller; or -errno: EPERM, ENOSYS, EOPNOTSUPP (Linux before 6.4).
 * kernel_waits: system calls that write into the pages wait too; else they fail with EFAULT. */
int pages_open(bool *kernel_waits);

/* Nothing moves: 0 if the call below could hold up who writes into the pages, -EBUSY if another userfaultfd has some of them. */
int pages_try(int pages, const void *at, size_t bytes);

/* Replaces private pages by those of the file from `offset` on, which are holes before. Whole pages. 0 or -errno: then some may
 * have moved. The caller's own stack must not be among them. */
int pages_share(int pages, uint8_t *at, size_t bytes, int fd, uint64_t offset);
/* And back. The file keeps its content. */
int pages_unshare(int pages, uint8_t *at, size_t bytes, int fd, uint64_t offset);

#endif
