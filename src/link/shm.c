/* Sleeping: the owner says in its state that it does not look, passes a full fence and looks once more; the peer commits,
 * passes a full fence and looks at the state. One of the two sees the other, so no wake is lost and a polling pair makes
 * none. */
#include "link/shm.h"

#include "base/list.h"
#include "link/calls.h"
#include "link/memfile.h"
#include "link/ring.h"
#include "link/wake.h"

#include <errno.h>
#include <limits.h>
#include <linux/futex.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

/* What the owner of a side does about its channel. */
enum {
	LOOKS = 0,
	SLEEPS_ON_FD = 1,	/* wake it by its eventfd or timer */
	RESTS = 2,		/* ring the bell that the upper bits name */
	SLEEPS_ON_FUTEX = 3,	/* wake it by the futex of its bells */
	BELL_SHIFT = 2,
};

enum { FETCHED_LINES = 8 };	/* our choice: what follows is fetched as lines in a row are */

#define HELD_ANY UINT32_MAX

struct shm_side {
	_Alignas(RING_LINE) _Atomic uint32_t state;	/* set by its owner, back to LOOKS by either */
	_Atomic uint32_t rings;		/* its owner can ring the other's bells; set once */
	_Atomic uint32_t reads;		/* its owner can read the other's memory; set once */
	_Atomic uint32_t held;		/* its owner's QP to which the other is to send no datagrams; 0: none; or HELD_ANY */
	_Atomic uint32_t reads_hazards;		/* its owner waits for the other's accesses: from when it takes the channel up */
	_Alignas(RING_LINE) _Atomic uint64_t hazard;	/* written by its owner at each direct access, read by the other seldom */
};

struct shm_memory {
	struct shm_side side[2];
	struct ring_words words[2];	/* [s]: of the ring that side s produces */
	_Alignas(4096) uint8_t lines[2][RING_BYTES];
};

struct end {
	struct shm shm;
	struct shm_memory *memory;	/* owned mapping */
	struct shm_side *own, *peer;	/* in memory */
	int wake_fd;			/* owned, or -1 */
	bool is_foreign;		/* wake_fd is a timer; and shm_may_rest needs no bell */
	struct channel_bells *peer_bells;	/* borrowed, or NULL */
	bool waiting;			/* room() or send() said no */
	bool held;			/* shm_is_held() said yes */
	struct ring_producer tx;
	struct ring_consumer rx;
	uint32_t answered;	/* rx.head at the last record of several lines */
	_Alignas(RING_LINE) uint8_t frame[RING_MAX_RECORD];
};

_Static_assert((int)PACKET_MAX_BYTES <= (int)RING_MAX_RECORD, "a frame is a record");
_Static_assert((int)SHM_SHORT_BYTES == (int)RING_SHORT, "a short message is a line");
_Static_assert((int)SHM_MESSAGE_BYTES <= (int)RING_MAX_RECORD && (int)SHM_MESSAGE < 1 << LINK_FORM_BITS, "so is a message");
_Static_assert((int)LINK_DEVICES << (int)LINK_FORM_BITS == (int)RING_KINDS, "a kind fits");

static struct end *end_of(struct shm *shm)
{
	return container_of(shm, struct end, shm);
}

static struct end *end_of_link(struct link *l)
{
	return end_of(container_of(l, struct shm, link));
}

/* Marks the link broken when either ring found that its peer broke the ring's rules. */
static void note_broken(struct end *s)
{
	s->shm.link.broken = s->rx.broken || s->tx.broken;
	s->shm.line = ring_line(&s->tx);
}

static unsigned shm_room(struct link *l)
{
	struct end *s = end_of_link(l);
	unsigned room = ring_room(&s->tx, RING_MAX_RECORD);

	s->waiting = !room;
	if (s->waiting)
		note_broken(s);
	return room;
}

static inline void commit(struct end *s, size_t bytes, unsigned kind)
{
	if (bytes > RING_SHORT) {
		s->tx.is_answered = s->rx.head != s->answered;
		s->answered = s->rx.head;
	}
	ring_commit(&s->tx, bytes, kind);
	s->shm.line = ring_line(&s->tx);
}

static void *reserve(struct end *s, size_t bytes)
{
	void *frame = ring_reserve(&s->tx, bytes);

	if (!frame) {
		s->waiting = true;
		note_broken(s);
	}
	return frame;
}

static unsigned shm_send(struct link *l, unsigned device, const struct packet *const p[], unsigned n)
{
	struct end *s = end_of_link(l);
	unsigned i;

	for (i = 0; i < n; i++) {
		size_t bytes = packet_bytes(p[i]);
		void *frame = reserve(s, bytes);

		if (!frame)
			break;
		commit(s, packet_build(p[i], frame, bytes), link_kind(device, p[i]->form));
	}
	return i;
}

static bool shm_send_frame(struct link *l, unsigned kind, const void *built, size_t bytes)
{
	struct end *s = end_of_link(l);
	void *frame = reserve(s, bytes);

	if (frame) {
		memcpy(frame, built, bytes);
		commit(s, bytes, kind);
	}
	return frame;
}

void *shm_reserve_any(struct shm *shm, size_t bytes)
{
	return reserve(end_of(shm), bytes);
}

void shm_commit(struct shm *shm, size_t bytes)
{
	commit(end_of(shm), bytes, SHM_MESSAGE);
}

/* How the peer's owner, who was in this state, is to be woken. */
static enum bell_wake wake_of(const struct end *s, uint32_t state)
{
	switch (state & ((1 << BELL_SHIFT) - 1)) {
	case SLEEPS_ON_FD:
		return BELL_WAKE_FD;
	case SLEEPS_ON_FUTEX:
		return BELL_WAKE_FUTEX;
	case RESTS:
		if (!s->peer_bells)
			return BELL_AWAKE;
		return bells_ring(s->peer_bells, state >> BELL_SHIFT & (CHANNEL_BELLS - 1));
	default:
		return BELL_AWAKE;
	}
}

bool shm_wake(struct channel_bells *bells)
{
	atomic_fetch_add(&bells->wakes, 1);
	return syscall(SYS_futex, &bells->wakes, FUTEX_WAKE, INT_MAX, NULL, NULL, 0) > 0;
}

static void wake_peer(struct end *s)
{
	enum bell_wake how;
	uint32_t state;

	atomic_thread_fence(memory_order_seq_cst);
	if (atomic_load_explicit(&s->peer->state, memory_order_relaxed) == LOOKS)
		return;
	state = atomic_exchange_explicit(&s->peer->state, LOOKS, memory_order_relaxed);
	how = wake_of(s, state);
	/* a thread that is not asleep on the futex may never look at it again; the helper will */
	if (how == BELL_AWAKE || (how == BELL_WAKE_FUTEX && s->peer_bells && shm_wake(s->peer_bells)))
		return;
	/* neither can fail in a way that matters: a full counter is readable all the same */
	if (s->is_foreign)
		wake_timer_set(s->wake_fd);
	else if (s->wake_fd >= 0)
		call_wake(s->wake_fd);
}

static void shm_flush(struct link *l)
{
	wake_peer(end_of_link(l));
}

static void publish(struct end *s, bool idle)
{
	if (ring_publish(&s->rx, idle))
		wake_peer(s);
}

static const void *shm_receive(struct link *l, unsigned *kind, size_t *bytes)
{
	struct end *s = end_of_link(l);

	*kind = SHM_MESSAGE;
	*bytes = ring_take_line(&s->rx, s->frame, SHM_MESSAGE);
	if (*bytes) {	/* as most messages are */
		l->arrival = ring_arrival(&s->rx);
		return s->frame;
	}
	*bytes = ring_take(&s->rx, s->frame, sizeof(s->frame), kind);
	l->arrival = ring_arrival(&s->rx);
	if (*bytes == 0) {
		note_broken(s);
		return NULL;
	}
	if (*kind != SHM_MESSAGE && (link_form(*kind) > PACKET_ETHERNET || *bytes > PACKET_MAX_BYTES)) {
		s->rx.broken = l->broken = true;
		return NULL;
	}
	return s->frame;
}

/* The lines behind the first are under way from the peer's CPU while the message's head is judged. */
size_t shm_peek_long(const struct shm *shm, uint32_t word)
{
	size_t bytes = ring_record_bytes(&((const struct end *)shm)->rx, word, SHM_MESSAGE);
	const uint8_t *line = (const uint8_t *)(const void *)shm->link.arrival;

	for (size_t at = RING_LINE; at < bytes + RING_HEAD && at <= FETCHED_LINES * RING_LINE; at += RING_LINE)
		__builtin_prefetch(line + at);
	return bytes;
}

struct ring_consumer shm_oldest(const struct shm *shm)
{
	return ((const struct end *)shm)->rx;
}

void shm_took(struct shm *shm, size_t bytes)
{
	struct end *s = end_of(shm);

	s->rx.head += ring_record_lines(bytes);
	shm->link.arrival = ring_arrival(&s->rx);
	publish(s, false);
}

static void shm_release(struct link *l)
{
	struct end *s = end_of_link(l);

	publish(s, !ring_pending(&s->rx));
}

bool shm_undelivered(struct shm *shm, uint64_t *mark)
{
	struct end *s = end_of(shm);

	if (!*mark)
		*mark = ring_mark(&s->tx);
	return ring_undelivered(&s->tx, *mark);
}

void shm_hold(struct shm *shm, uint32_t qpn)
{
	_Atomic uint32_t *held = &end_of(shm)->own->held;
	uint32_t now = atomic_load_explicit(held, memory_order_relaxed);

	if (now != qpn && now != HELD_ANY)
		atomic_store_explicit(held, now ? HELD_ANY : qpn, memory_order_relaxed);
}

void shm_let_go(struct shm *shm, uint32_t qpn)
{
	struct end *s = end_of(shm);
	uint32_t now = atomic_load_explicit(&s->own->held, memory_order_relaxed);

	if (now != qpn && now != HELD_ANY)
		return;
	atomic_store_explicit(&s->own->held, 0, memory_order_relaxed);
	wake_peer(s);
}

bool shm_is_held(struct shm *shm, uint32_t qpn)
{
	struct end *s = end_of(shm);
	uint32_t now = atomic_load_explicit(&s->peer->held, memory_order_relaxed);

	if (!now || (now != qpn && now != HELD_ANY && qpn))
		return false;
	s->held = true;
	return true;
}

/* Has the peer taken back what it asked for? */
static bool was_let_go(struct end *s)
{
	if (!s->held || atomic_load_explicit(&s->peer->held, memory_order_relaxed))
		return false;
	s->held = false;
	return true;
}

static bool stop_looking(struct end *s, uint32_t state)
{
	publish(s, true);
	atomic_store_explicit(&s->own->state, state, memory_order_relaxed);
	atomic_thread_fence(memory_order_seq_cst);
	if (ring_pending(&s->rx) || (s->waiting && shm_room(&s->shm.link)) || was_let_go(s))
		return false;
	/* a producer that found no room just before our word was visible: it looks no more, so we must */
	publish(s, true);
	return true;
}

static bool can_ring(const struct end *s)
{
	return atomic_load_explicit(&s->peer->rings, memory_order_acquire);
}

static bool shm_may_sleep(struct link *l, bool by_futex)
{
	struct end *s = end_of_link(l);

	return stop_looking(s, by_futex && can_ring(s) ? SLEEPS_ON_FUTEX : SLEEPS_ON_FD);
}

static void shm_awake(struct link *l)
{
	atomic_store_explicit(&end_of_link(l)->own->state, LOOKS, memory_order_relaxed);
}

bool shm_may_rest(struct shm *shm, uint32_t bell)
{
	struct end *s = end_of(shm);

	if (s->is_foreign ? stop_looking(s, SLEEPS_ON_FD) :
			    can_ring(s) && bell < CHANNEL_BELLS && stop_looking(s, RESTS | bell << BELL_SHIFT))
		return true;
	shm_awake(&shm->link);
	return false;
}

static void shm_take_event(struct link *l)
{
	wake_timer_clear(l->event_fd);
}

static void shm_forget(struct link *l)
{
	struct end *s = end_of_link(l);

	if (s->wake_fd >= 0)
		close(s->wake_fd);
	if (l->event_fd >= 0)
		close(l->event_fd);
	free(s);
}

static void shm_close(struct link *l)
{
	/* nobody will look at what the peer uses of our memory */
	atomic_store(&end_of_link(l)->own->reads_hazards, 0);
	munmap(end_of_link(l)->memory, sizeof(struct shm_memory));
	shm_forget(l);
}

static const struct link_ops shm_ops = {
	.name = "shm",
	.room = shm_room,
	.send = shm_send,
	.send_frame = shm_send_frame,
	.flush = shm_flush,
	.receive = shm_receive,
	.release = shm_release,
	.may_sleep = shm_may_sleep,
	.awake = shm_awake,
	.take_event = shm_take_event,
	.close = shm_close,
	.forget = shm_forget,
};

int shm_memory_create(void)
{
	return memfile_create_fixed("weft-channel", sizeof(struct shm_memory));
}

static int open_memory(int fd, int flags, int wake_fd, unsigned tx, unsigned rx, struct shm **shm)
{
	struct end *s = aligned_alloc(RING_LINE, sizeof(*s));

	if (!s)
		return -ENOMEM;
	*s = (struct end){ .shm.link = { .ops = &shm_ops, .event_fd = -1 }, .wake_fd = wake_fd };
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
	s->shm.link.arrival = ring_arrival(&s->rx);
	s->shm.line = ring_line(&s->tx);
	*shm = &s->shm;
	return 0;
}

int shm_open_channel(int channel_fd, int wake_fd, unsigned side, struct shm **shm)
{
	if (side > 1 || !memfile_is_fixed(channel_fd, sizeof(struct shm_memory)))
		return -EPROTO;
	return open_memory(channel_fd, MAP_SHARED, wake_fd, side, side ^ 1, shm);
}

int shm_open_foreign(int channel_fd, int wake_timer, int own_timer, unsigned side, struct shm **shm)
{
	int err = shm_open_channel(channel_fd, wake_timer, side, shm);

	if (err)
		return err;
	end_of(*shm)->is_foreign = true;
	(*shm)->link.event_fd = own_timer;
	return 0;
}

_Atomic uint64_t *shm_own_hazard(struct shm *shm)
{
	return &end_of(shm)->own->hazard;
}

const _Atomic uint64_t *shm_peer_hazard(const struct shm *shm)
{
	return &((const struct end *)shm)->peer->hazard;
}

void shm_ring_at(struct shm *shm, struct channel_bells *peer_bells)
{
	struct end *s = end_of(shm);

	s->peer_bells = peer_bells;
	atomic_store_explicit(&s->own->rings, 1, memory_order_release);
}

void shm_set_heeds(struct shm *shm)
{
	atomic_store_explicit(&end_of(shm)->own->reads_hazards, 1, memory_order_release);
}

bool shm_peer_heeds(const struct shm *shm)
{
	return atomic_load_explicit(&((const struct end *)shm)->peer->reads_hazards, memory_order_acquire);
}

void shm_set_reads(struct shm *shm)
{
	atomic_store_explicit(&end_of(shm)->own->reads, 1, memory_order_release);
}

bool shm_peer_reads(const struct shm *shm)
{
	return atomic_load_explicit(&((const struct end *)shm)->peer->reads, memory_order_acquire);
}

int shm_open_loop(struct shm **shm)
{
	return open_memory(-1, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0, 0, shm);
}
