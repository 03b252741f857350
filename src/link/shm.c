/* Sleeping: the owner says in its state that it does not look, passes a full fence and looks once more; the peer commits,
 * passes a full fence and looks at the state. One of the two sees the other, so no wake is lost and a polling pair makes
 * none. */
#include "link/shm.h"

#include "link/calls.h"
#include "link/memfile.h"
#include "link/ring.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/futex.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

/* What the owner of a side does about its channel. */
enum {
	LOOKS = 0,
	SLEEPS = 1,	/* wake it by its eventfd */
	RESTS = 2,	/* ring the bell that the upper bits name */
	WATCHES = 3,	/* wake it by the futex of its news */
	BELL_SHIFT = 2,
};

struct shm_side {
	_Alignas(RING_LINE) _Atomic uint32_t state;	/* set by its owner, back to LOOKS by either */
	_Atomic uint32_t rings;		/* its owner can ring the other's bells; set once */
	_Atomic uint32_t reads;		/* its owner can read the other's memory; set once */
	_Alignas(RING_LINE) _Atomic uint64_t access;	/* written by its owner at each direct access, read by the other seldom */
};

struct shm_memory {
	struct shm_side side[2];
	struct ring_words words[2];	/* [s]: of the ring that side s produces */
	_Alignas(4096) uint8_t lines[2][RING_BYTES];
};

struct shm {
	struct link link;
	struct shm_memory *memory;	/* owned mapping */
	struct shm_side *own, *peer;	/* in memory */
	int wake_fd;			/* owned, or -1 */
	struct news *peer_news;		/* borrowed, or NULL */
	bool waiting;			/* room() or send() said no */
	struct ring_producer tx;
	struct ring_consumer rx;
	_Alignas(RING_LINE) uint8_t frame[RING_MAX_RECORD];
};

_Static_assert((int)PACKET_MAX_BYTES <= (int)RING_MAX_RECORD, "a frame is a record");
_Static_assert((int)LINK_SHORT_BYTES == (int)RING_SHORT, "a short message is a line");
_Static_assert((int)LINK_MESSAGE_BYTES <= (int)RING_MAX_RECORD && (int)LINK_MESSAGE < (int)RING_KINDS, "so is a message");

static struct shm *shm_of(struct link *l)
{
	return (struct shm *)l;
}

/* Nothing came of a ring: is that its peer's fault? */
static void note_broken(struct shm *s)
{
	s->link.broken = s->rx.broken || s->tx.broken;
	s->link.line = ring_line(&s->tx);
}

static bool shm_room(struct link *l)
{
	struct shm *s = shm_of(l);

	s->waiting = !ring_room(&s->tx, RING_MAX_RECORD);
	if (s->waiting)
		note_broken(s);
	return !s->waiting;
}

static inline void commit(struct shm *s, size_t bytes, unsigned kind)
{
	ring_commit(&s->tx, bytes, kind);
	s->link.line = ring_line(&s->tx);
}

static void *reserve(struct shm *s, size_t bytes)
{
	void *frame = ring_reserve(&s->tx, bytes);

	if (!frame) {
		s->waiting = true;
		note_broken(s);
	}
	return frame;
}

static bool shm_send(struct link *l, const struct packet *p)
{
	struct shm *s = shm_of(l);
	size_t bytes = packet_bytes(p);
	void *frame = reserve(s, bytes);

	if (frame)
		commit(s, packet_build(p, frame, bytes), p->form);
	return frame;
}

static bool shm_send_frame(struct link *l, enum packet_form form, const void *built, size_t bytes)
{
	struct shm *s = shm_of(l);
	void *frame = reserve(s, bytes);

	if (frame) {
		memcpy(frame, built, bytes);
		commit(s, bytes, form);
	}
	return frame;
}

static void *shm_reserve(struct link *l, size_t bytes)
{
	return reserve(shm_of(l), bytes);
}

static void shm_commit(struct link *l, size_t bytes)
{
	commit(shm_of(l), bytes, LINK_MESSAGE);
}

/* How the peer's owner, who was in this state, is to be woken. */
static enum news_wake wake_of(const struct shm *s, uint32_t state)
{
	switch (state & ((1 << BELL_SHIFT) - 1)) {
	case SLEEPS:
		return NEWS_WAKE_FD;
	case WATCHES:
		return NEWS_WAKE_FUTEX;
	case RESTS:
		return s->peer_news ? news_ring(s->peer_news, state >> BELL_SHIFT & (NEWS_BELLS - 1)) : NEWS_AWAKE;
	default:
		return NEWS_AWAKE;
	}
}

bool shm_wake(struct news *news)
{
	atomic_fetch_add(&news->wakes, 1);
	return syscall(SYS_futex, &news->wakes, FUTEX_WAKE, INT_MAX, NULL, NULL, 0) > 0;
}

static void wake_peer(struct shm *s)
{
	enum news_wake how;
	uint32_t state;

	atomic_thread_fence(memory_order_seq_cst);
	if (atomic_load_explicit(&s->peer->state, memory_order_relaxed) == LOOKS)
		return;
	state = atomic_exchange_explicit(&s->peer->state, LOOKS, memory_order_relaxed);
	how = wake_of(s, state);
	/* a thread that is not asleep on the futex may never look at it again; the helper will */
	if (how == NEWS_AWAKE || (how == NEWS_WAKE_FUTEX && s->peer_news && shm_wake(s->peer_news)))
		return;
	/* it cannot fail in a way that matters: a full counter is readable all the same */
	if (s->wake_fd >= 0)
		call_wake(s->wake_fd);
}

static void shm_flush(struct link *l)
{
	wake_peer(shm_of(l));
}

static void publish(struct shm *s, bool idle)
{
	if (ring_publish(&s->rx, idle))
		wake_peer(s);
}

static const void *shm_receive(struct link *l, unsigned *kind, size_t *bytes)
{
	struct shm *s = shm_of(l);

	*bytes = ring_take(&s->rx, s->frame, sizeof(s->frame), kind);
	l->arrival = ring_arrival(&s->rx);
	if (*bytes == 0) {
		note_broken(s);
		return NULL;
	}
	if (*kind != LINK_MESSAGE && (*kind > PACKET_ETHERNET || *bytes > PACKET_MAX_BYTES)) {
		s->rx.broken = s->link.broken = true;
		return NULL;
	}
	return s->frame;
}

static void shm_release(struct link *l)
{
	struct shm *s = shm_of(l);

	publish(s, !ring_pending(&s->rx));
}

static bool stop_looking(struct link *l, uint32_t state)
{
	struct shm *s = shm_of(l);

	publish(s, true);
	atomic_store_explicit(&s->own->state, state, memory_order_relaxed);
	atomic_thread_fence(memory_order_seq_cst);
	if (ring_pending(&s->rx) || (s->waiting && shm_room(l)))
		return false;
	/* a producer that found no room just before our word was visible: it looks no more, so we must */
	publish(s, true);
	return true;
}

static bool can_ring(const struct shm *s)
{
	return atomic_load_explicit(&s->peer->rings, memory_order_acquire);
}

static bool shm_may_sleep(struct link *l, enum news_wake how)
{
	return stop_looking(l, how == NEWS_WAKE_FUTEX && can_ring(shm_of(l)) ? WATCHES : SLEEPS);
}

static void shm_awake(struct link *l)
{
	atomic_store_explicit(&shm_of(l)->own->state, LOOKS, memory_order_relaxed);
}

static bool shm_may_rest(struct link *l, uint32_t bell)
{
	if (can_ring(shm_of(l)) && bell < NEWS_BELLS && stop_looking(l, RESTS | bell << BELL_SHIFT))
		return true;
	shm_awake(l);
	return false;
}

static void shm_close(struct link *l)
{
	struct shm *s = shm_of(l);

	munmap(s->memory, sizeof(*s->memory));
	if (s->wake_fd >= 0)
		close(s->wake_fd);
	free(s);
}

static const struct link_ops shm_ops = {
	.name = "shm",
	.room = shm_room,
	.send = shm_send,
	.send_frame = shm_send_frame,
	.reserve = shm_reserve,
	.commit = shm_commit,
	.flush = shm_flush,
	.receive = shm_receive,
	.release = shm_release,
	.may_sleep = shm_may_sleep,
	.awake = shm_awake,
	.may_rest = shm_may_rest,
	.close = shm_close,
};

int shm_memory_create(void)
{
	int fd = memfd_create("weft-channel", MFD_CLOEXEC | MFD_ALLOW_SEALING);
	int err;

	if (fd < 0)
		return -errno;
	err = memfile_resize(fd, sizeof(struct shm_memory));
	if (!err && fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL) == 0)
		return fd;
	err = err ? err : -errno;
	close(fd);
	return err;
}

static bool is_channel_memory(int fd)
{
	struct stat st;
	int seals = fcntl(fd, F_GET_SEALS);

	return seals >= 0 && seals & F_SEAL_SHRINK && fstat(fd, &st) == 0 && st.st_size >= (off_t)sizeof(struct shm_memory);
}

static int open_memory(int fd, int flags, int wake_fd, unsigned tx, unsigned rx, struct link **link)
{
	struct shm *s = aligned_alloc(RING_LINE, sizeof(*s));

	if (!s)
		return -ENOMEM;
	*s = (struct shm){ .link.ops = &shm_ops, .wake_fd = wake_fd };
	s->memory = mmap(NULL, sizeof(*s->memory), PROT_READ | PROT_WRITE, flags, fd, 0);
	if (s->memory == MAP_FAILED) {
		free(s);
		return -ENOMEM;
	}
	/* a forked child attaches anew; writing into its parent's channel would be a second producer */
	madvise(s->memory, sizeof(*s->memory), MADV_DONTFORK);
	s->own = &s->memory->side[tx];
	s->peer = &s->memory->side[tx ^ 1];
	ring_producer_init(&s->tx, &s->memory->words[tx], s->memory->lines[tx]);
	ring_consumer_init(&s->rx, &s->memory->words[rx], s->memory->lines[rx]);
	s->link.arrival = ring_arrival(&s->rx);
	s->link.line = ring_line(&s->tx);
	*link = &s->link;
	return 0;
}

int shm_open_channel(int memory_fd, int wake_fd, unsigned side, struct link **link)
{
	if (side > 1 || !is_channel_memory(memory_fd))
		return -EPROTO;
	return open_memory(memory_fd, MAP_SHARED, wake_fd, side, side ^ 1, link);
}

_Atomic uint64_t *shm_own_access(struct link *link)
{
	return &shm_of(link)->own->access;
}

const _Atomic uint64_t *shm_peer_access(const struct link *link)
{
	return &((const struct shm *)link)->peer->access;
}

void shm_ring_at(struct link *link, struct news *peer_news)
{
	struct shm *s = shm_of(link);

	s->peer_news = peer_news;
	atomic_store_explicit(&s->own->rings, 1, memory_order_release);
}

void shm_set_reads(struct link *link)
{
	atomic_store_explicit(&shm_of(link)->own->reads, 1, memory_order_release);
}

bool shm_peer_reads(const struct link *link)
{
	return atomic_load_explicit(&((const struct shm *)link)->peer->reads, memory_order_acquire);
}

int shm_open_loop(struct link **link)
{
	return open_memory(-1, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0, 0, link);
}
