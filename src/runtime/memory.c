/* The memory that queues live in, and copying from memory that may not be there. */
#include "runtime/memory.h"

#include "link/memfile.h"

#include <errno.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

/* Sparse: pages exist once a queue uses them. A limit on address space or file sizes (ulimit -v, -f) makes us ask for less. */
static const size_t ARENA_MOST = 4ull << 30;
static const size_t ARENA_LEAST = 16ull << 20;

enum { COPY_BYTES = 144 << 10, PAGE = 4096 };	/* our choice: 32 of the longest packets, a turn of a link */

int arena_memory_create(struct arena_memory *m)
{
	int fd = memfd_create("weft-queues", MFD_CLOEXEC), err = -ENOMEM;

	if (fd < 0)
		return -errno;
	for (size_t bytes = ARENA_MOST; bytes >= ARENA_LEAST; bytes /= 2) {
		void *base;

		err = memfile_resize(fd, bytes);
		if (err)
			continue;
		base = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_NORESERVE, fd, 0);
		if (base == MAP_FAILED) {
			err = -ENOMEM;
			continue;
		}
		madvise(base, bytes, MADV_DONTDUMP);
		*m = (struct arena_memory){ .base = base, .bytes = bytes, .fd = fd };
		return 0;
	}
	close(fd);
	return err;
}

void arena_memory_destroy(struct arena_memory *m)
{
	munmap(m->base, m->bytes);
	close(m->fd);
}

void arena_memory_privatise(struct arena_memory *m)
{
	/* cppcheck-suppress leakReturnValNotUsed ; it replaces the mapping we have */
	if (mmap(m->base, m->bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_NORESERVE | MAP_FIXED, m->fd, 0) == MAP_FAILED)
		munmap(m->base, m->bytes);	/* better to fault than to write into the parent's queues */
	close(m->fd);
	m->fd = -1;
}

/* Where a filter forbids process_vm_readv: the kernel copies through a pipe and says EFAULT by itself. */
static int copy_by_pipe(uint8_t *to, const uint8_t *from, size_t bytes)
{
	int fd[2], err = 0;

	if (pipe(fd) < 0)
		return -errno;
	while (bytes && err == 0) {
		size_t piece = bytes < 4096 ? bytes : 4096;	/* PIPE_BUF: whole or not at all */

		if (write(fd[1], from, piece) != (ssize_t)piece || read(fd[0], to, piece) != (ssize_t)piece)
			err = -EFAULT;
		from += piece;
		to += piece;
		bytes -= piece;
	}
	close(fd[0]);
	close(fd[1]);
	return err;
}

int memory_read_safely(void *to, const void *from, size_t bytes)
{
	struct iovec local = { to, bytes };
	struct iovec remote = { (void *)(uintptr_t)from, bytes };
	/* Not through libc: a sanitizer would take this for an access of the program. It is the device's, which has no part in
	 * what the program's threads do with that memory. */
	ssize_t done = syscall(SYS_process_vm_readv, (long)getpid(), &local, 1ul, &remote, 1ul, 0ul);

	if (done == (ssize_t)bytes)
		return 0;
	if (done < 0 && (errno == EPERM || errno == ENOSYS))
		return copy_by_pipe(to, from, bytes);
	return -EFAULT;
}

void copy_file_create(struct copy_file *f)
{
	void *map;

	*f = (struct copy_file){ .fd = memfile_create_fixed("weft-copies", COPY_BYTES) };
	if (f->fd < 0)
		return;
	map = mmap(NULL, COPY_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, f->fd, 0);
	if (map != MAP_FAILED)
		f->map = map;
}

void copy_file_destroy(struct copy_file *f)
{
	if (f->map)
		munmap(f->map, COPY_BYTES);
	copy_file_forget(f);
}

void copy_file_forget(struct copy_file *f)
{
	if (f->fd >= 0)
		close(f->fd);
	*f = (struct copy_file){ .fd = -1 };
}

int memory_write_safely(struct copy_file *f, void *to, const void *from, size_t bytes)
{
	memory_settle(f);
	if (!f->map)
		return memory_read_safely(to, from, bytes);
	for (size_t at = 0, n; at < bytes; at += n) {
		n = bytes - at < COPY_BYTES ? bytes - at : COPY_BYTES;
		memcpy(f->map, (const uint8_t *)from + at, n);
		/* not through libc, as above */
		if (syscall(SYS_pread64, (long)f->fd, (uint8_t *)to + at, n, 0L) != (long)n)
			return -EFAULT;
	}
	return 0;
}

void memory_write_later(struct copy_file *f, void *to, const void *from, size_t bytes)
{
	struct iovec *last = f->pieces ? &f->piece[f->pieces - 1] : NULL;
	bool extends = last && (uint8_t *)last->iov_base + last->iov_len == to;

	if (!f->map || bytes > COPY_BYTES) {
		memory_write_safely(f, to, from, bytes);
		return;
	}
	if (f->used + bytes > COPY_BYTES || (!extends && f->pieces == COPY_PIECES)) {
		memory_settle_all(f);
		extends = false;
	}
	memcpy(f->map + f->used, from, bytes);
	f->used += bytes;
	if (extends)
		last->iov_len += bytes;
	else
		f->piece[f->pieces++] = (struct iovec){ to, bytes };
}

/* So many bytes of the pieces from *first on are dealt with. */
static void pass(struct copy_file *f, unsigned *first, size_t bytes)
{
	for (; *first < f->pieces && bytes >= f->piece[*first].iov_len; ++*first)
		bytes -= f->piece[*first].iov_len;
	if (bytes) {
		f->piece[*first].iov_base = (uint8_t *)f->piece[*first].iov_base + bytes;
		f->piece[*first].iov_len -= bytes;
	}
}

void memory_settle_all(struct copy_file *f)
{
	unsigned first = 0;
	size_t at = 0;

	while (first < f->pieces) {
		/* not through libc, as above */
		long done = syscall(SYS_preadv, (long)f->fd, f->piece + first, (long)(f->pieces - first), (long)at, 0L);
		size_t bytes = done > 0 ? (size_t)done : 0;

		at += bytes;
		pass(f, &first, bytes);
		if (first == f->pieces)
			break;
		/* it stopped at a page that is not there */
		bytes = PAGE - (uintptr_t)f->piece[first].iov_base % PAGE;
		bytes = bytes < f->piece[first].iov_len ? bytes : f->piece[first].iov_len;
		at += bytes;
		pass(f, &first, bytes);
	}
	f->used = 0;
	f->pieces = 0;
}
