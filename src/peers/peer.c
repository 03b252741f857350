/* Another process's memory: what lies in files that we can map through mapped_files.c; of the rest small pieces through its
 * /proc/self/mem, which it gave us itself and which is its address space whatever becomes of its pid; the others through
 * process_vm_writev and _readv, where the system allows them and the pid has proved to be the same process: they write the
 * tail apart at less cost, and copy once instead of twice. Both end short when the process or its memory is gone; but a
 * pid keeps its meaning over exec, so that `life` is looked at before each use of it, and of a read again after it. */
#include "peers/peer.h"

#include "base/log.h"
#include "link/calls.h"
#include "link/memfile.h"
#include "link/shm.h"
#include "peers/calibrate.h"
#include "peers/peers.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/futex.h>
#include <linux/magic.h>
#include <sched.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/uio.h>
#include <sys/vfs.h>
#include <unistd.h>

enum { IOVS = 34 };

struct peer {
	struct rma_peer rma;
	struct peers *peers;		/* borrowed */
	uint32_t slot;
	struct mapped_files files;
	struct rma_hit hits[RMA_HITS];
	struct share_memory *share;	/* owned mapping */
	int proc_mem_fd;		/* owned */
	pid_t pid;			/* 0: cannot be reached by it */
	struct crossover crossover;	/* to it */
	uint64_t nonce, nonce_address;	/* as they were when it was opened */
};

static bool moved_all(ssize_t moved, uint32_t bytes)
{
	return moved == (ssize_t)bytes;
}

/* The list cut so that its last `tail` bytes are elements of their own. How many elements. */
static int cut_tail(const struct iovec *iov, unsigned iovs, uint32_t head, struct iovec out[IOVS])
{
	uint64_t at = 0;
	int n = 0;

	for (unsigned i = 0; i < iovs && n + 1 < IOVS; at += iov[i++].iov_len) {
		if (at < head && at + iov[i].iov_len > head) {
			out[n++] = (struct iovec){ iov[i].iov_base, head - at };
			out[n++] = (struct iovec){ (uint8_t *)iov[i].iov_base + (head - at), at + iov[i].iov_len - head };
		} else {
			out[n++] = iov[i];
		}
	}
	return n;
}

/* The kernel writes element after element. */
static bool write_file(const struct peer *p, uint64_t address, const struct iovec *iov, unsigned iovs, uint32_t bytes)
{
	struct iovec cut[IOVS];

	if (iovs == 1 && bytes <= PEER_TAIL)
		return moved_all(call_pwrite(p->proc_mem_fd, iov->iov_base, bytes, address), bytes);
	iovs = cut_tail(iov, iovs, bytes > PEER_TAIL ? bytes - PEER_TAIL : bytes, cut);
	return moved_all(call_pwritev(p->proc_mem_fd, cut, (int)iovs, address), bytes);
}

bool peer_has_left(const struct peer *p)
{
	return atomic_load_explicit(&p->share->life, memory_order_acquire) & FUTEX_OWNER_DIED;
}

static bool may_use_pid(const struct peer *p, uint32_t crossover, uint32_t bytes)
{
	return p->pid && bytes >= crossover && !peer_has_left(p);
}

static bool peer_write(void *arg, uint64_t address, const struct iovec *iov, unsigned iovs, uint32_t bytes)
{
	const struct peer *p = arg;
	struct iovec remote[2] = { { (void *)(uintptr_t)address, bytes - PEER_TAIL },
				   { (void *)(uintptr_t)(address + bytes - PEER_TAIL), PEER_TAIL } };

	if (bytes > PEER_TAIL && may_use_pid(p, p->crossover.write_bytes, bytes) &&
	    moved_all(process_vm_writev(p->pid, iov, iovs, remote, 2, 0), bytes))
		return true;
	return write_file(p, address, iov, iovs, bytes);
}

static bool peer_read(void *arg, uint64_t address, const struct iovec *iov, unsigned iovs, uint32_t bytes)
{
	const struct peer *p = arg;
	struct iovec remote = { (void *)(uintptr_t)address, bytes };

	/* what came from another program's memory is not the answer */
	if (may_use_pid(p, p->crossover.read_bytes, bytes) &&
	    moved_all(process_vm_readv(p->pid, iov, iovs, &remote, 1, 0), bytes) && !peer_has_left(p))
		return true;
	if (iovs == 1)
		return moved_all(call_pread(p->proc_mem_fd, iov->iov_base, bytes, address), bytes);
	return moved_all(call_preadv(p->proc_mem_fd, iov, (int)iovs, address), bytes);
}

static void *peer_map(void *arg, uint32_t file, uint64_t offset, uint64_t bytes)
{
	struct peer *p = arg;

	return mapped_reach(p->peers, &p->files, p->slot, file, offset, bytes);
}

static const struct rma_mover mover = { .write = peer_write, .read = peer_read, .map = peer_map };

/* A slot and how often it was given away: no two processes have the same. */
static uint32_t holder_number(const struct fabric_page *page, uint32_t slot)
{
	return slot | atomic_load_explicit(&page->slot_generation[slot], memory_order_acquire) << 12;
}

static bool holder_is_alive(void *peers, uint32_t holder)
{
	const struct peers *ps = peers;

	return holder_number(ps->page, holder % PAGE_SLOTS) == holder;
}

static void relax(void *peers)
{
	(void)peers;
	sched_yield();
}

const struct atomic_lock_ops peer_lock_ops = { .is_alive = holder_is_alive, .relax = relax };

uint32_t peer_self(const struct peers *ps)
{
	return holder_number(ps->page, ps->slot);
}

static struct share_memory *map_share(int fd)
{
	struct share_memory *m;

	if (!memfile_is_fixed(fd, sizeof(*m)))
		return NULL;
	m = mmap(NULL, sizeof(*m), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_NORESERVE, fd, 0);
	if (m == MAP_FAILED)
		return NULL;
	madvise(m, sizeof(*m), MADV_DONTFORK);
	madvise(m, sizeof(*m), MADV_DONTDUMP);
	if (m->magic == SHARE_MAGIC && m->version == SHARE_VERSION)
		return m;
	munmap(m, sizeof(*m));
	return NULL;
}

bool peer_is_alive(const struct peer *p)
{
	uint64_t nonce = 0;

	return call_pread(p->proc_mem_fd, &nonce, sizeof(nonce), p->nonce_address) == sizeof(nonce) && nonce == p->nonce;
}

/* In another PID namespace the number may be somebody else's. */
static bool reaches_by_pid(const struct peer *p, pid_t pid)
{
	uint64_t nonce = 0;
	struct iovec local = { &nonce, sizeof(nonce) }, remote = { (void *)(uintptr_t)p->nonce_address, sizeof(nonce) };

	return pid > 0 && process_vm_readv(pid, &local, 1, &remote, 1, 0) == sizeof(nonce) && nonce == p->nonce;
}

static bool is_proc_mem(int fd)
{
	struct statfs fs;

	return fstatfs(fd, &fs) == 0 && fs.f_type == PROC_SUPER_MAGIC;
}

struct peer *peer_open(struct peers *ps, struct shm *shm, uint32_t slot, int share_fd, int proc_mem_fd)
{
	struct peer *p;
	pid_t pid;

	if (!publish_is_on(&ps->published) || !is_proc_mem(proc_mem_fd))
		return NULL;
	p = calloc(1, sizeof(*p));
	if (!p)
		return NULL;
	p->peers = ps;
	p->slot = slot;
	p->proc_mem_fd = fcntl(proc_mem_fd, F_DUPFD_CLOEXEC, 0);
	p->share = map_share(share_fd);
	if (p->proc_mem_fd < 0 || !p->share)
		goto fail;
	p->nonce = p->share->nonce;
	p->nonce_address = p->share->nonce_address;
	pid = p->share->pid;	/* once: the one that is proved is the one that is used */
	if (!peer_is_alive(p))
		goto fail;
	p->pid = reaches_by_pid(p, pid) ? pid : 0;
	if (p->pid)
		p->crossover = calibrate(&ps->published.calibration, p->proc_mem_fd, p->pid, p->share->scratch_address);
	p->rma = (struct rma_peer){
		.hits = p->hits, .era = &ps->published.era, .share = p->share, .hazard = shm_own_hazard(shm),
		.mover = &mover, .arg = p, .self = peer_self(ps), .lock_ops = &peer_lock_ops, .lock_arg = ps,
	};
	shm_ring_at(shm, &p->share->bells);
	return p;
fail:
	log_line(LOG_INFO, "a process has a direct path that we cannot use: packets");
	peer_close(p);
	return NULL;
}

void peer_close(struct peer *p)
{
	if (!p)
		return;
	mapped_close(&p->files);
	if (p->share)
		munmap(p->share, sizeof(*p->share));
	if (p->proc_mem_fd >= 0)
		close(p->proc_mem_fd);
	free(p);
}

void peer_forget(struct peer *p)
{
	if (!p)
		return;
	close(p->proc_mem_fd);
	free(p);
}

const struct rma_peer *peer_rma(const struct peer *p)
{
	return &p->rma;
}

struct mapped_files *peer_files(struct peer *p)
{
	return &p->files;
}

const char *peer_tier(const struct peer *p)
{
	if (mapped_any(&p->files))
		return p->pid ? "direct (mapped, mem fd, process_vm)" : "direct (mapped, mem fd)";
	return p->pid ? "direct (mem fd, process_vm)" : "direct (mem fd)";
}
