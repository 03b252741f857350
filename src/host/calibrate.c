/* From which size on process_vm_writev and _readv cost less than the memory file: measured once a process, with the first
 * peer that both reach, on a stretch of its memory that every process has for this. Takes some hundred microseconds. */
#include "host/internal.h"

#include "base/log.h"

#include <sys/uio.h>
#include <unistd.h>

enum {
	MOST_BYTES = 64 << 10,
	TRIES = 5,		/* the best of them counts */
};

static const uint32_t sizes[] = { 128, 256, 512, 1024, 2048, 4096, 8192, 16384, 32768, MOST_BYTES };

enum { SIZES = sizeof(sizes) / sizeof(sizes[0]) };

/* Read and written by peers while they measure. */
static uint8_t scratch[MOST_BYTES];

static uint8_t local[MOST_BYTES];

struct far {
	int memory_fd;
	pid_t pid;
	uint64_t address;
};

uint64_t calibrate_scratch(void)
{
	return (uintptr_t)scratch;
}

/* What is compared. The tail of a write is an element of its own in both. */
static bool file_write(const struct far *f, uint32_t bytes)
{
	struct iovec iov[2] = { { local, bytes - PEER_TAIL }, { local + bytes - PEER_TAIL, PEER_TAIL } };

	return pwritev(f->memory_fd, iov, 2, (off_t)f->address) == bytes;
}

static bool process_write(const struct far *f, uint32_t bytes)
{
	struct iovec iov = { local, bytes }, to[2] = { { (void *)(uintptr_t)f->address, bytes - PEER_TAIL },
						       { (void *)(uintptr_t)(f->address + bytes - PEER_TAIL), PEER_TAIL } };

	return process_vm_writev(f->pid, &iov, 1, to, 2, 0) == bytes;
}

static bool file_read(const struct far *f, uint32_t bytes)
{
	return pread(f->memory_fd, local, bytes, (off_t)f->address) == bytes;
}

static bool process_read(const struct far *f, uint32_t bytes)
{
	struct iovec iov = { local, bytes }, from = { (void *)(uintptr_t)f->address, bytes };

	return process_vm_readv(f->pid, &iov, 1, &from, 1, 0) == bytes;
}

static wtime best_of(bool (*copy)(const struct far *f, uint32_t bytes), const struct far *f, uint32_t bytes)
{
	wtime best = WTIME_NEVER;

	for (int i = 0; i < TRIES; i++) {
		wtime start = host_now();

		if (!copy(f, bytes))
			return WTIME_NEVER;
		best = wtime_min(best, host_now() - start);
	}
	return best;
}

/* The least size from which on the file is never better. */
static uint32_t compare(const struct far *f, bool (*by_file)(const struct far *f, uint32_t bytes),
			bool (*by_process)(const struct far *f, uint32_t bytes))
{
	uint32_t from = UINT32_MAX;

	for (int i = SIZES - 1; i >= 0; i--) {
		wtime process = best_of(by_process, f, sizes[i]);

		if (process == WTIME_NEVER || best_of(by_file, f, sizes[i]) < process)
			break;
		from = sizes[i];
	}
	return from;
}

struct crossover calibrate(int memory_fd, pid_t pid, uint64_t address)
{
	static struct crossover found;
	static bool is_known;
	const struct far f = { memory_fd, pid, address };

	if (!is_known) {
		found.write_bytes = compare(&f, file_write, process_write);
		found.read_bytes = compare(&f, file_read, process_read);
		log_line(LOG_DEBUG, "process_vm is used for writes from %u and reads from %u bytes on",
			 found.write_bytes, found.read_bytes);
	}
	is_known = true;
	return found;
}
