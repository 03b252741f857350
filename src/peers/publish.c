#include "peers/publish.h"

#include "base/log.h"
#include "control/clock.h"
#include "control/fds.h"
#include "direct/hazard.h"
#include "direct/rma.h"
#include "link/memfile.h"
#include "link/shm.h"
#include "peers/calibrate.h"
#include "peers/peer.h"
#include "peers/peers.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/futex.h>
#include <sched.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <sys/syscall.h>
#include <unistd.h>

/* Our choices: runnable threads get their turn many times; and a system call sees that the peer lives. */
static const wtime PATIENCE = 2 * WTIME_S, LOOK_EVERY = WTIME_MS;

static int make_memory(struct share_memory **memory)
{
	int fd = memfile_create_fixed("weft-share", sizeof(**memory));
	void *m;

	if (fd < 0)
		return fd;
	m = mmap(NULL, sizeof(**memory), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_NORESERVE, fd, 0);
	if (m == MAP_FAILED) {
		close(fd);
		return -ENOMEM;
	}
	madvise(m, sizeof(**memory), MADV_DONTFORK);
	madvise(m, sizeof(**memory), MADV_DONTDUMP);
	*memory = m;
	return fd;
}

static void introduce(struct published *pub, struct share_memory *m)
{
	while (pub->nonce == 0 && getrandom(&pub->nonce, sizeof(pub->nonce), 0) == sizeof(pub->nonce))
		;
	m->pid = getpid();	/* NOLINT(clang-analyzer-core.NullDereference) ; NULL comes with a negative descriptor only */
	m->nonce = pub->nonce;
	m->nonce_address = (uintptr_t)&pub->nonce;
	calibration_init(&pub->calibration);
	m->scratch_address = (uintptr_t)pub->calibration.scratch;
}

void publish_life(struct published *pub)
{
	_Atomic uint32_t *life;

	if (!publish_is_on(pub))
		return;
	life = &pub->share.memory->life;
	atomic_store(life, (uint32_t)gettid());
	pub->life.node.next = &pub->life.head.list;
	pub->life.head = (struct robust_list_head){
		.list.next = &pub->life.node, .futex_offset = (long)((uintptr_t)life - (uintptr_t)&pub->life.node),
	};
	syscall(SYS_set_robust_list, &pub->life.head, sizeof(pub->life.head));
}

void unpublish_all(struct published *pub)
{
	pub->fd[0] = pub->fd[1] = pub->pagemap = -1;
}

void publish_init(struct published *pub)
{
	struct share_memory *memory = NULL;
	int fd, own;

	unpublish_all(pub);
	own = open("/proc/self/mem", O_RDWR | O_CLOEXEC);
	fd = own < 0 ? -errno : make_memory(&memory);
	if (fd < 0)
		goto none;
	if (share_init(&pub->share, memory) < 0) {
		munmap(memory, sizeof(*memory));
		close(fd);
		goto none;
	}
	introduce(pub, memory);
	pub->era = 1;
	pub->pagemap = open("/proc/self/pagemap", O_RDONLY | O_CLOEXEC);
	pub->fd[0] = fd;
	pub->fd[1] = own;
	return;
none:
	log_line(LOG_INFO, "no direct path to this process: packets");
	if (own >= 0)
		close(own);
}

static void close_fds(struct published *pub)
{
	fds_close(pub->fd, 2);
	fds_close(&pub->pagemap, 1);
}

void publish_fini(struct published *pub)
{
	if (!publish_is_on(pub))
		return;
	munmap(pub->share.memory, sizeof(*pub->share.memory));
	share_fini(&pub->share);
	calibration_fini(&pub->calibration);
	close_fds(pub);
}

/* The mapping did not come along (MADV_DONTFORK). */
void publish_forget(struct published *pub)
{
	if (!publish_is_on(pub))
		return;
	pub->nonce = 0;
	share_fini(&pub->share);
	calibration_fini(&pub->calibration);
	close_fds(pub);
}

/* ---- what we show, and hide ---- */

/* Without a path to it, it is as alive as weftd says. */
static bool has_living_slot(const struct peers *ps, const struct channel *ch)
{
	for (uint32_t slot = 1; slot < PAGE_SLOTS; slot++)
		if (ps->channels.by_slot[slot] == ch && peers_generation(ps, slot) & 1)
			return true;
	return false;
}

static bool may_be_at_it(const struct peers *ps, const struct channel *ch)
{
	if (ch->gone)
		return false;
	return ch->peer ? peer_is_alive(ch->peer) : has_living_slot(ps, ch);
}

/* Until no peer that was given our memory names it. A peer copies without waiting for anybody, so this takes microseconds.
 * False: one was stopped in the midst of it, and what it would write into when it goes on must stay what it is. *give_up: when
 * that is; WTIME_NEVER: not known before one names it. */
static bool wait_for_peers(struct peers *ps, bool (*names)(const _Atomic uint64_t *word, uint32_t number), uint32_t number,
			   wtime *give_up)
{
	for (uint32_t i = 0; i < ps->channels.count; i++) {
		const struct channel *ch = ps->channels.open[i];
		const _Atomic uint64_t *word;
		wtime now, look = 0;

		if (!ch->sees_us)
			continue;	/* it cannot be at it, whatever its word says */
		word = shm_peer_hazard(ch->shm);
		while (names(word, number)) {
			sched_yield();	/* where all processors are busy, many of these take minutes */
			now = clock_now();
			*give_up = wtime_min(*give_up, now + PATIENCE);
			if (now < look)
				continue;
			if (!may_be_at_it(ps, ch))
				break;
			if (now >= *give_up)
				return false;
			look = now + LOOK_EVERY;
		}
	}
	return true;
}

static void show_placed(struct peers *ps, struct mr *mr)
{
	struct region *g = region_of(mr);
	struct share_region region;

	rma_describe_region(mr, &region);
	region.file = mapped_find(ps, mr->memory, mr->length, &region.file_offset);
	g->is_mapped = region.file;
	/* before peers see it as private memory: its pages move */
	if (g->placed == REMAP_DONE && !g->is_mapped)
		remap_leave(&ps->published.remap, mr, REMAP_SYSTEM);
	g->published = share_show_region(&ps->published.share, &region);
	if (g->placed == REMAP_DONE && !g->published)
		remap_leave(&ps->published.remap, mr, REMAP_SYSTEM);
	remap_shown(&ps->published.remap, mr);
}

void publish_mr(void *peers, struct mr *mr)
{
	struct peers *ps = peers;

	if (!rma_shows_region(mr))
		return;
	if (!mr->direct)
		mr->direct = calloc(1, sizeof(struct region));
	if (!mr->direct)
		return;		/* others use packets */
	remap_enter(&ps->published.remap, mr);
	show_placed(ps, mr);
}

static bool hide_region(struct peers *ps, struct mr *mr)
{
	wtime give_up = WTIME_NEVER;

	share_hide_region(&ps->published.share, region_of(mr)->published);
	region_of(mr)->published = 0;
	remap_hidden(mr);
	if (wait_for_peers(ps, hazard_names_key, mr->key, &give_up))
		return true;
	log_line(LOG_WARNING, "region 0x%08x stays: a process was stopped while it used it", mr->key);
	show_placed(ps, mr);
	return false;
}

bool unpublish_mr(void *peers, struct mr *mr)
{
	struct peers *ps = peers;
	bool was_shown = region_of(mr)->published;

	if (was_shown && !hide_region(ps, mr))
		return false;
	if (was_shown)
		remap_leave(&ps->published.remap, mr, REMAP_OFF);
	free(mr->direct);
	mr->direct = NULL;
	return true;
}

/* 0 is none. */
static void new_era(struct peers *ps)
{
	ps->published.era += 1 + (ps->published.era == UINT32_MAX);
}

/* The transport knows which PSN it expects. */
static psn_t last_executed(const struct qp *qp)
{
	struct ibv_qp_attr attr = { .rq_psn = qp->attr.rq_psn };

	qp->dev->transport->qp_query(qp, &attr);
	return psn_add(attr.rq_psn, -1);
}

void publish_qp(void *peers, struct qp *qp)
{
	struct peers *ps = peers;
	struct share_qp shown;

	new_era(ps);
	rma_describe_qp(qp, &shown);
	shown.received = last_executed(qp);
	qp->published = share_show_qp(&ps->published.share, &shown);
}

static void hide_qp(struct peers *ps, struct qp *qp, wtime *give_up)
{
	new_era(ps);
	share_hide_qp(&ps->published.share, qp->published);
	qp->published = 0;
	/* its regions wait for themselves */
	(void)wait_for_peers(ps, hazard_names_qp, qp->qpn, give_up);
}

void unpublish_qp(void *peers, struct qp *qp)
{
	wtime give_up = WTIME_NEVER;

	hide_qp(peers, qp, &give_up);
}

void republish_qp(void *peers, struct qp *qp, wtime *give_up)
{
	hide_qp(peers, qp, give_up);
	publish_qp(peers, qp);
}

/* ---- fork ---- */

void publish_before_fork(struct peers *ps)
{
	uint32_t cursor = 0;
	struct mr *mr;

	if (!ps->published.remap.regions)
		return;
	while ((mr = table_next(&ps->ca->keys, &cursor)))
		if (mr->direct && region_of(mr)->published && !hide_region(ps, mr))
			return;		/* a peer stands still: the pages stay */
	remap_before_fork(&ps->published.remap);
}

void publish_after_fork(struct peers *ps)
{
	uint32_t cursor = 0;
	struct mr *mr;

	if (!ps->published.remap.regions)
		return;
	remap_after_fork(&ps->published.remap);
	while ((mr = table_next(&ps->ca->keys, &cursor)))
		if (mr->direct && !region_of(mr)->published)
			show_placed(ps, mr);
}
