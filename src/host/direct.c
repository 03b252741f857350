/* Our side of the direct path: what we show of us, and waiting for those who use it; and where our requests go. */
#include "host/internal.h"

#include "base/log.h"
#include "direct/access.h"
#include "direct/direct.h"
#include "host/config.h"
#include "link/memfile.h"
#include "link/shm.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/futex.h>
#include <sched.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <sys/syscall.h>
#include <unistd.h>

/* Our choices: runnable threads get their turn many times; and a system call sees that the peer lives. */
static const wtime PATIENCE = 2 * WTIME_S, LOOK_EVERY = WTIME_MS;

/* What peers find at the address in our export: it proves that a descriptor or a pid is ours. */
static uint64_t nonce;

static int make_memory(struct export_memory **memory)
{
	int fd = memfd_create("weft-export", MFD_CLOEXEC | MFD_ALLOW_SEALING);
	void *m;

	if (fd < 0)
		return -errno;
	if (memfile_resize(fd, sizeof(**memory)) < 0 || fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL) < 0)
		goto fail;
	m = mmap(NULL, sizeof(**memory), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_NORESERVE, fd, 0);
	if (m == MAP_FAILED)
		goto fail;
	madvise(m, sizeof(**memory), MADV_DONTFORK);
	madvise(m, sizeof(**memory), MADV_DONTDUMP);
	*memory = m;
	return fd;
fail:
	close(fd);
	return -ENOMEM;
}

static void introduce(struct export_memory *m)
{
	while (nonce == 0 && getrandom(&nonce, sizeof(nonce), 0) == sizeof(nonce))
		;
	m->pid = getpid();	/* NOLINT(clang-analyzer-core.NullDereference) ; NULL comes with a negative descriptor only */
	m->nonce = nonce;
	m->nonce_address = (uintptr_t)&nonce;
	m->scratch_address = calibrate_scratch();
}

void direct_live(struct host *h)
{
	static struct robust_list node;
	static struct robust_list_head head;
	_Atomic uint32_t *life;

	if (!direct_is_on(h))
		return;
	life = &h->direct.export.memory->life;
	atomic_store(life, (uint32_t)gettid());
	node.next = &head.list;
	head = (struct robust_list_head){ .list.next = &node, .futex_offset = (long)((uintptr_t)life - (uintptr_t)&node) };
	syscall(SYS_set_robust_list, &head, sizeof(head));
}

void direct_init(struct host *h)
{
	struct export_memory *memory = NULL;
	int fd, own;

	h->direct.fd[0] = h->direct.fd[1] = -1;
	if (strcmp(config_get()->path, "packet") == 0)
		return;
	own = open("/proc/self/mem", O_RDWR | O_CLOEXEC);
	fd = own < 0 ? -errno : make_memory(&memory);
	if (fd < 0)
		goto none;
	if (export_init(&h->direct.export, memory) < 0) {
		munmap(memory, sizeof(*memory));
		close(fd);
		goto none;
	}
	introduce(memory);
	h->direct.era = 1;
	h->direct.pagemap = open("/proc/self/pagemap", O_RDONLY | O_CLOEXEC);
	h->direct.fd[0] = fd;
	h->direct.fd[1] = own;
	return;
none:
	log_line(LOG_INFO, "no direct path to this process: packets");
	if (own >= 0)
		close(own);
}

static void close_fds(struct host *h)
{
	for (int i = 0; i < 2; i++)
		close(h->direct.fd[i]);
	if (h->direct.pagemap >= 0)
		close(h->direct.pagemap);
	h->direct.fd[0] = h->direct.fd[1] = h->direct.pagemap = -1;
}

void direct_fini(struct host *h)
{
	if (!direct_is_on(h))
		return;
	munmap(h->direct.export.memory, sizeof(*h->direct.export.memory));
	export_fini(&h->direct.export);
	close_fds(h);
}

/* The mapping did not come along (MADV_DONTFORK). */
void direct_forget(struct host *h)
{
	h->ca.direct = NULL;
	if (!direct_is_on(h))
		return;
	nonce = 0;
	export_fini(&h->direct.export);
	close_fds(h);
}

/* ---- what we show, and hide ---- */

/* Without a path to it, it is as alive as weftd says. */
static bool has_living_slot(const struct host *h, const struct channel *ch)
{
	for (uint32_t slot = 1; slot < PAGE_SLOTS; slot++)
		if (h->channels.by_slot[slot] == ch && atomic_load(&h->page->slot_generation[slot]) & 1)
			return true;
	return false;
}

static bool may_be_at_it(const struct host *h, const struct channel *ch)
{
	if (ch->gone)
		return false;
	return ch->peer ? peer_is_alive(ch->peer) : has_living_slot(h, ch);
}

/* Until no peer names it. A peer copies without waiting for anybody, so this takes microseconds. False: one was stopped in the
 * midst of it, and what it would write into when it goes on must stay what it is. */
static bool wait_for_peers(struct host *h, bool (*names)(const _Atomic uint64_t *word, uint32_t number), uint32_t number)
{
	wtime give_up = WTIME_NEVER;

	for (uint32_t i = 0; i < h->channels.count; i++) {
		const struct channel *ch = h->channels.open[i];
		const _Atomic uint64_t *word;
		wtime now, look = 0;

		if (ch->is_loop)
			continue;
		word = shm_peer_access(ch->link);
		while (names(word, number)) {
			sched_yield();	/* where all processors are busy, many of these take minutes */
			now = host_now();
			give_up = wtime_min(give_up, now + PATIENCE);
			if (now < look)
				continue;
			if (!may_be_at_it(h, ch))
				break;
			if (now >= give_up)
				return false;
			look = now + LOOK_EVERY;
		}
	}
	return true;
}

void direct_show_placed(struct host *h, struct mr *mr)
{
	struct export_region region;

	if (!direct_shows_region(mr))
		return;
	direct_describe_region(mr, &region);
	region.file = mapped_find(h, mr->memory, mr->length, &region.file_offset);
	mr->is_mapped = region.file;
	/* before peers see it as private memory: its pages move */
	if (mr->placed == REMAP_DONE && !mr->is_mapped)
		remap_leave(h, mr, REMAP_SYSTEM);
	mr->shown = export_show_region(&h->direct.export, &region);
	if (mr->placed == REMAP_DONE && !mr->shown)
		remap_leave(h, mr, REMAP_SYSTEM);
}

static void show_mr(void *host, struct mr *mr)
{
	if (direct_shows_region(mr))
		remap_enter(host, mr);
	direct_show_placed(host, mr);
}

bool direct_hide_region(struct host *h, struct mr *mr)
{
	export_hide_region(&h->direct.export, mr->shown);
	mr->shown = 0;
	if (wait_for_peers(h, access_names_key, mr->key))
		return true;
	log_line(LOG_WARNING, "region 0x%08x stays: a process was stopped while it used it", mr->key);
	direct_show_placed(h, mr);
	return false;
}

static bool hide_mr(void *host, struct mr *mr)
{
	bool hidden = direct_hide_region(host, mr);

	if (hidden)
		remap_leave(host, mr, REMAP_OFF);
	return hidden;
}

/* 0 is none. */
static void new_era(struct host *h)
{
	h->direct.era += 1 + (h->direct.era == UINT32_MAX);
}

static void show_qp(void *host, struct qp *qp)
{
	struct host *h = host;
	struct export_qp shown;

	new_era(h);
	direct_describe_qp(qp, &shown);
	qp->shown = export_show_qp(&h->direct.export, &shown);
}

static void hide_qp(void *host, struct qp *qp)
{
	struct host *h = host;

	new_era(h);
	export_hide_qp(&h->direct.export, qp->shown);
	qp->shown = 0;
	/* its regions wait for themselves */
	(void)wait_for_peers(h, access_names_qp, qp->qpn);
}

/* ---- atomics on our memory, whoever wants them ---- */

static struct atomic_lock *own_lock(struct host *h)
{
	return &h->direct.export.memory->atomics;
}

/* A holder that was stopped in the middle must not stop us: then the lock is ours all the same. */
static void atomic_begin(void *host)
{
	struct host *h = host;

	if (!atomic_lock_take(own_lock(h), peer_self(h), &peer_lock_ops, h))
		atomic_store(&own_lock(h)->holder, peer_self(h));
}

static void atomic_end(void *host)
{
	struct host *h = host;

	atomic_lock_give(own_lock(h), peer_self(h));
}

/* ---- where our requests go ---- */

struct channel *direct_channel(const struct host *h, const struct qp *qp)
{
	uint32_t slot = QPN_SLOT(qp->attr.dest_qp_num);
	uint32_t generation = slot < PAGE_SLOTS ? atomic_load_explicit(&h->page->slot_generation[slot], memory_order_acquire) : 0;

	return generation & 1 && !h->forgotten ? h->channels.by_slot[slot] : NULL;
}

static bool execute_own(struct host *h, struct qp *qp, struct direct_request *r)
{
	bool is_atomic = direct_is_atomic(r), done;

	if (!lane_is_good(&qp->lane) && !lane_connect(h, qp))
		return false;
	if (is_atomic)
		atomic_begin(h);
	done = direct_execute_own(qp, r);
	if (is_atomic)
		atomic_end(h);
	return done;
}

static bool execute(void *host, struct qp *qp, struct direct_request *r)
{
	struct host *h = host;
	const struct channel *ch = direct_channel(h, qp);

	if (!ch)
		return false;
	if (ch->is_loop)
		return execute_own(h, qp, r);
	return ch->peer && !ch->gone && !peer_has_left(ch->peer) && direct_execute(qp, peer_direct(ch->peer), r);
}

static bool reaches(void *host, struct qp *qp)
{
	struct host *h = host;
	const struct channel *ch = direct_channel(h, qp);

	return ch && (ch->is_loop || (ch->peer && !ch->gone && direct_is_connected(qp, peer_direct(ch->peer))));
}

const char *direct_path_name(struct host *h, struct qp *qp)
{
	const struct channel *ch;

	if (!h->ca.direct || !qp->shown || !reaches(h, qp))
		return "packets";
	ch = direct_channel(h, qp);
	return ch->is_loop ? "direct (own memory)" : peer_tier(ch->peer);
}

const struct direct_ops host_direct_ops = {
	.show_mr = show_mr,
	.hide_mr = hide_mr,
	.show_qp = show_qp,
	.hide_qp = hide_qp,
	.execute = execute,
	.reaches = reaches,
	.connect = lane_connect,
	.send = lane_send,
	.send_plain = lane_send_plain,
	.pull = lane_pull,
	.publish = lane_publish,
	.received = lane_received,
	.atomic_begin = atomic_begin,
	.atomic_end = atomic_end,
};
