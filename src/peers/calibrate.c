/* From which size on process_vm_writev and _readv cost less than the memory file: measured once, with the first peer that both
 * reach, on a stretch of its memory that every process has for this. Takes some hundred microseconds. */
#include "peers/calibrate.h"

#include "base/log.h"
#include "control/clock.h"

#include <sys/mman.h>
#include <sys/uio.h>
#include <unistd.h>

enum {
	MOST_BYTES = 64 << 10,
	TRIES = 5,		/* the best of them counts */
};

static const uint32_t sizes[] = { 128, 256, 512, 1024, 2048, 4096, 8192, 16384, 32768, MOST_BYTES };

enum { SIZES = sizeof(sizes) / sizeof(sizes[0]) };

struct far {
	uint8_t *local;
	int proc_mem_fd;
	pid_t pid;
	uint64_t address;
};

void calibration_init(struct calibration *c)
{
	*c = (struct calibration){ 0 };
	c->scratch = mmap(NULL, MOST_BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (c->scratch == MAP_FAILED)
		c->scratch = NULL;
}

void calibration_fini(struct calibration *c)
{
	if (c->scratch)
		munmap(c->scratch, MOST_BYTES);
	c->scratch = NULL;
}

/* What is compared. The tail of a write is an element of its own in both. */
static bool file_write(const struct far *f, uint32_t bytes)
{
	struct iovec iov[2] = { { f->local, bytes - PEER_TAIL }, { f->local + bytes - PEER_TAIL, PEER_TAIL } };

	return pwritev(f->proc_mem_fd, iov, 2, (off_t)f->address) == bytes;
}

static bool process_write(const struct far *f, uint32_t bytes)
{
	struct iovec iov = { f->local, bytes }, to[2] = { { (void *)(uintptr_t)f->address, bytes - PEER_TAIL },
						       { (void *)(uintptr_t)(f->address + bytes - PEER_TAIL), PEER_TAIL } };

	return process_vm_writev(f->pid, &iov, 1, to, 2, 0) == bytes;
}

static bool file_read(const struct far *f, uint32_t bytes)
{
	return pread(f->proc_mem_fd, f->local, bytes, (off_t)f->address) == bytes;
}

static bool process_read(const struct far *f, uint32_t bytes)
{
	struct iovec iov = { f->local, bytes }, from = { (void *)(uintptr_t)f->address, bytes };

	return process_vm_readv(f->pid, &iov, 1, &from, 1, 0) == bytes;
}

static wtime best_of(bool (*copy)(const struct far *f, uint32_t bytes), const struct far *f, uint32_t bytes)
{
	wtime best = WTIME_NEVER;

	for (int i = 0; i < TRIES; i++) {
		wtime start = clock_now();

		if (!copy(f, bytes))
			return WTIME_NEVER;
		best = wtime_min(best, clock_now() - start);
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

struct crossover calibrate(struct calibration *c, int proc_mem_fd, pid_t pid, uint64_t address)
{
	const struct far f = { c->scratch, proc_mem_fd, pid, address };

	if (!c->is_known) {
		c->found.write_bytes = compare(&f, file_write, process_write);
		c->found.read_bytes = compare(&f, file_read, process_read);
		log_line(LOG_DEBUG, "process_vm is used for writes from %u and reads from %u bytes on",
			 c->found.write_bytes, c->found.read_bytes);
	}
	c->is_known = true;
	return c->found;
}
