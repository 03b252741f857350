/* In the middle of a move even a signal handler of the moving thread could wait for ever, so signals are blocked; and system
 * calls are made directly, as sanitizers would look into pages of others. */
#include "remap/pages.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/userfaultfd.h>
#include <signal.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#ifndef MADV_POPULATE_READ
#define MADV_POPULATE_READ 22
#endif
#ifndef UFFD_USER_MODE_ONLY
#define UFFD_USER_MODE_ONLY 1
#endif
#ifndef USERFAULTFD_IOC_NEW
#define USERFAULTFD_IOC_NEW _IO(0xAA, 0x00)
#endif
#ifndef UFFD_FEATURE_WP_UNPOPULATED
#define UFFD_FEATURE_WP_UNPOPULATED (1 << 13)
#endif

/* Our choices: how much is held at a time. Sharing leaves one mapping however often it is cut, unsharing one for each piece. */
static const size_t SHARED_AT_ONCE = 2u << 20, UNSHARED_AT_ONCE = 64u << 20;

/* ---- userfaultfd ---- */

static int open_privileged(void)
{
	int fd = (int)syscall(SYS_userfaultfd, O_CLOEXEC | O_NONBLOCK), device;

	if (fd >= 0)
		return fd;
	device = open("/dev/userfaultfd", O_RDWR | O_CLOEXEC);
	if (device < 0)
		return -1;
	fd = ioctl(device, USERFAULTFD_IOC_NEW, O_CLOEXEC | O_NONBLOCK);
	close(device);
	return fd;
}

/* WP_UNPOPULATED: pages that do not exist yet are protected as well. */
int pages_open(bool *kernel_waits)
{
	struct uffdio_api api = { .api = UFFD_API, .features = UFFD_FEATURE_WP_HUGETLBFS_SHMEM | UFFD_FEATURE_WP_UNPOPULATED };
	int fd = open_privileged();

	*kernel_waits = fd >= 0;
	if (fd < 0)
		fd = (int)syscall(SYS_userfaultfd, O_CLOEXEC | O_NONBLOCK | UFFD_USER_MODE_ONLY);
	if (fd < 0)
		return -errno;
	if (ioctl(fd, UFFDIO_API, &api) == 0)
		return fd;
	close(fd);
	return -EOPNOTSUPP;
}

static void thaw(int pages, uint8_t *at, size_t bytes)
{
	struct uffdio_range range = { (uintptr_t)at, bytes };

	ioctl(pages, UFFDIO_UNREGISTER, &range);
	ioctl(pages, UFFDIO_WAKE, &range);
}

static int freeze(int pages, uint8_t *at, size_t bytes)
{
	struct uffdio_range range = { (uintptr_t)at, bytes };
	struct uffdio_register reg = { .range = range, .mode = UFFDIO_REGISTER_MODE_WP };
	struct uffdio_writeprotect protect = { .range = range, .mode = UFFDIO_WRITEPROTECT_MODE_WP };
	int err;

	if (ioctl(pages, UFFDIO_REGISTER, &reg))
		return -errno;
	if (ioctl(pages, UFFDIO_WRITEPROTECT, &protect) == 0)
		return 0;
	err = -errno;
	thaw(pages, at, bytes);
	return err;
}

int pages_try(int pages, const void *at, size_t bytes)
{
	struct uffdio_register reg = { .range = { (uintptr_t)at, bytes }, .mode = UFFDIO_REGISTER_MODE_WP };

	if (ioctl(pages, UFFDIO_REGISTER, &reg))
		return -errno;
	ioctl(pages, UFFDIO_UNREGISTER, &reg.range);
	return 0;
}

/* ---- copying ---- */

/* Other threads wrote it, and it may be between two blocks of an allocator that watches them. */
__attribute__((no_sanitize("address", "thread"))) static bool is_zero(const uint8_t *page, size_t bytes)
{
	const volatile uint64_t *word = (const volatile void *)page;

	for (size_t i = 0; i < bytes / sizeof(*word); i++)
		if (word[i])
			return false;
	return true;
}

static int write_file(int fd, const uint8_t *from, size_t bytes, uint64_t offset)
{
	while (bytes) {
		long n = syscall(SYS_pwrite64, fd, from, bytes, offset);

		if (n <= 0)
			return n < 0 ? -errno : -ENOSPC;
		from += n;
		offset += (uint64_t)n;
		bytes -= (size_t)n;
	}
	return 0;
}

/* What is zero stays a hole. */
static int copy_out(const uint8_t *from, size_t bytes, int fd, uint64_t offset)
{
	size_t page = page_bytes(), at = 0;
	int err = 0;

	while (at < bytes && err == 0) {
		size_t start;

		for (; at < bytes && is_zero(from + at, page); at += page)
			;
		for (start = at; at < bytes && !is_zero(from + at, page); at += page)
			;
		err = write_file(fd, from + start, at - start, offset + start);
	}
	return err;
}

static int copy_in(uint8_t *to, size_t bytes, int fd, uint64_t offset)
{
	uint64_t end = offset + bytes;

	for (uint64_t at = offset; at < end;) {
		off_t data = lseek(fd, (off_t)at, SEEK_DATA), hole;
		long n;

		if (data < 0)
			return errno == ENXIO ? 0 : -errno;
		hole = lseek(fd, data, SEEK_HOLE);
		if ((uint64_t)data >= end)
			return 0;
		if (hole < 0 || (uint64_t)hole > end)
			hole = (off_t)end;
		n = syscall(SYS_pread64, fd, to + ((uint64_t)data - offset), (size_t)(hole - data), data);
		if (n <= 0)
			return n < 0 ? -errno : -EIO;
		at = (uint64_t)data + (uint64_t)n;
	}
	return 0;
}

/* ---- moving ---- */

static int share_piece(int pages, uint8_t *at, size_t bytes, int fd, uint64_t offset)
{
	int err = freeze(pages, at, bytes);

	if (err)
		return err;
	madvise(at, bytes, MADV_POPULATE_READ);		/* faster than one after the other; Linux 5.14 */
	err = copy_out(at, bytes, fd, offset);
	if (err == 0 &&
	    (void *)syscall(SYS_mmap, at, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, fd, offset) == MAP_FAILED)
		err = -errno;
	thaw(pages, at, bytes);
	return err;
}

static int unshare_piece(int pages, uint8_t *at, size_t bytes, int fd, uint64_t offset)
{
	uint8_t *fresh = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	int err;

	if (fresh == MAP_FAILED)
		return -ENOMEM;
	err = freeze(pages, at, bytes);
	if (err)
		goto unmap;
	err = copy_in(fresh, bytes, fd, offset);
	if (err == 0 && (void *)syscall(SYS_mremap, fresh, bytes, bytes, MREMAP_MAYMOVE | MREMAP_FIXED, at) == MAP_FAILED)
		err = -errno;
	thaw(pages, at, bytes);
	if (err == 0)
		return 0;
unmap:
	munmap(fresh, bytes);
	return err;
}

typedef int move_piece(int pages, uint8_t *at, size_t bytes, int fd, uint64_t offset);

/* Pieces end at multiples of `most`, which are those of huge pages too. */
static int move(move_piece *piece, size_t most, int pages, uint8_t *at, size_t bytes, int fd, uint64_t offset)
{
	sigset_t all, before;
	int err = 0;

	sigfillset(&all);
	while (bytes && err == 0) {
		size_t now = most - (uintptr_t)at % most;

		if (now > bytes)
			now = bytes;
		pthread_sigmask(SIG_SETMASK, &all, &before);
		err = piece(pages, at, now, fd, offset);
		pthread_sigmask(SIG_SETMASK, &before, NULL);
		at += now;
		offset += now;
		bytes -= now;
	}
	return err;
}

int pages_share(int pages, uint8_t *at, size_t bytes, int fd, uint64_t offset)
{
	return move(share_piece, SHARED_AT_ONCE, pages, at, bytes, fd, offset);
}

int pages_unshare(int pages, uint8_t *at, size_t bytes, int fd, uint64_t offset)
{
	return move(unshare_piece, UNSHARED_AT_ONCE, pages, at, bytes, fd, offset);
}
