/* The channel between two processes of one host: one memory file with a ring for each direction and a sleeper word for each
 * side. A send is a store; the peer is woken by a system call only when it said that it sleeps. Frames cross it as a link's;
 * messages (direct/record.h), in order with the frames, and the words of both ends are the channel's own. */
#ifndef WEFT_LINK_SHM_H
#define WEFT_LINK_SHM_H

#include "direct/channel_bells.h"
#include "link/link.h"
#include "link/ring.h"

enum {
	SHM_MESSAGE = 15,		/* what link.receive calls a message, beside frames of devices (link_kind) */
	SHM_MESSAGE_BYTES = 8192,	/* the longest */
	SHM_SHORT_BYTES = 56,		/* the longest that `line` takes */
};

/* What of an end its owner sees. */
struct shm {
	struct link link;
	void *line;	/* where the next message goes if it is short; NULL: ask shm_reserve_any; the channel keeps it right */
};

/* Memory for a message of 0 < bytes <= SHM_MESSAGE_BYTES, 8-byte aligned. NULL: no room. Nobody sees it before shm_commit with
 * the same `bytes`; link.flush wakes who waits for it. */
void *shm_reserve_any(struct shm *s, size_t bytes);
void shm_commit(struct shm *s, size_t bytes);
/* The same, at once for a message as short as most are. */
static inline void *shm_reserve(struct shm *s, size_t bytes)
{
	return s->line && bytes - 1 < SHM_SHORT_BYTES ? s->line : shm_reserve_any(s, bytes);
}

/* For shm_peek: what the word says of a message of several lines; 0: it is no such message. */
size_t shm_peek_long(const struct shm *s, uint32_t word);
/* The oldest message where it lies: shared memory, which the peer can change while it is read. NULL: what comes next is none, ask
 * link.receive. shm_took takes it. */
static inline const void *shm_peek(const struct shm *s, size_t *bytes)
{
	uint32_t word = atomic_load_explicit(s->link.arrival, memory_order_acquire);

	*bytes = ring_line_bytes(word, SHM_MESSAGE);
	if (!*bytes)	/* as few are */
		*bytes = shm_peek_long(s, word);
	return *bytes ? (const uint8_t *)(const void *)s->link.arrival + RING_HEAD : NULL;
}
void shm_took(struct shm *s, size_t bytes);

/* Asks the peer to send no datagrams to our QP, whose number is not 0, for now; and takes that back. After two QPs have asked, it
 * holds for all of ours, until one of them takes it back. */
void shm_hold(struct shm *s, uint32_t qpn);
void shm_let_go(struct shm *s, uint32_t qpn);
/* Has the peer asked that for its QP? 0: for any. After a yes the peer wakes a sleeping owner when it takes that back. */
bool shm_is_held(struct shm *s, uint32_t qpn);

/* For a look at all that waits: ring_take takes it from there, and the channel has it still. */
struct ring_consumer shm_oldest(const struct shm *s);

/* True if the peer has not yet taken everything, frames too, that was sent up to *mark. A *mark of 0 is set to the end of what
 * was sent until now. */
bool shm_undelivered(struct shm *s, uint64_t *mark);
/* As link.may_sleep, before the owner no longer looks at this channel: the peer then rings this doorbell of the owner's, or
 * wakes the owner as from sleep where it has none (a foreign one), and the owner looks again (link.awake). False too when the
 * peer can do neither. */
bool shm_may_rest(struct shm *s, uint32_t bell);

/* The broker's part: a fresh channel memory, sealed against resizing (so that neither side can make the other fault).
 * A descriptor or -errno. */
int shm_memory_create(void);

/* Maps the channel as side 0 or 1 and owns `wake_fd` (the peer's eventfd; -1: never woken) on success. `channel_fd` stays
 * the caller's. -EPROTO: not a sealed channel memory; -ENOMEM. */
int shm_open_channel(int channel_fd, int wake_fd, unsigned side, struct shm **shm);
/* As shm_open_channel, to a process that nothing is to be expected of: it is woken by one timer (link/wake.h), and wakes this
 * side by the other, which becomes link.event_fd. */
int shm_open_foreign(int channel_fd, int wake_timer, int own_timer, unsigned side, struct shm **shm);

/* The words of direct/hazard.h: what we use of the peer's memory at this moment, and what it uses of ours. Only of a link
 * that one of these made. */
_Atomic uint64_t *shm_own_hazard(struct shm *shm);
const _Atomic uint64_t *shm_peer_hazard(const struct shm *shm);

/* Where the peer's bells are, borrowed: from now on it may rest this channel, and sleep on its futex. */
void shm_ring_at(struct shm *shm, struct channel_bells *peer_bells);

/* Wakes who sleeps on the futex of these bells. False: nobody does. */
bool shm_wake(struct channel_bells *bells);

/* shm_set_heeds: this side checks the peer's hazard word before its memory goes. shm_peer_heeds: the peer checks ours; false
 * until it has opened the channel. */
void shm_set_heeds(struct shm *shm);
bool shm_peer_heeds(const struct shm *shm);

/* shm_set_reads: this side can read the peer's memory. shm_peer_reads: the peer can read this side's. */
void shm_set_reads(struct shm *shm);
bool shm_peer_reads(const struct shm *shm);

/* A channel whose both ends are this process: frames sent come back. */
int shm_open_loop(struct shm **shm);

#endif
