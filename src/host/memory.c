/* The memory that queues live in, and copying from memory that may not be there. */
#include "host/internal.h"

#include "link/memfile.h"

#include <errno.h>
#include <sys/mman.h>
#include <unistd.h>

/* Sparse: pages exist once a queue uses them. A limit on address space or file sizes (ulimit -v, -f) makes us ask for less. */
static const size_t ARENA_MOST = 4ull << 30;
static const size_t ARENA_LEAST = 16ull << 20;

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

int memory_copy_safely(void *to, const void *from, size_t bytes)
{
	struct iovec local = { to, bytes };
	struct iovec remote = { (void *)(uintptr_t)from, bytes };
	ssize_t done = process_vm_readv(getpid(), &local, 1, &remote, 1, 0);

	if (done == (ssize_t)bytes)
		return 0;
	if (done < 0 && (errno == EPERM || errno == ENOSYS))
		return copy_by_pipe(to, from, bytes);
	return -EFAULT;
}
