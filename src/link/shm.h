/* The packet channel between two processes of one host: one memory file with a ring for each direction and a sleeper
 * word for each side. A send is a store; the peer's eventfd is written only when it said that it sleeps. */
#ifndef WEFT_LINK_SHM_H
#define WEFT_LINK_SHM_H

#include "direct/news.h"
#include "link/link.h"

/* The broker's part: a fresh channel memory, sealed against resizing (so that neither side can make the other fault).
 * A descriptor or -errno. */
int shm_memory_create(void);

/* Maps the channel as side 0 or 1 and owns `wake_fd` (the peer's eventfd; -1: never woken) on success. `memory_fd` stays
 * the caller's. -EPROTO: not a sealed channel memory; -ENOMEM. */
int shm_open_channel(int memory_fd, int wake_fd, unsigned side, struct link **link);

/* The words of direct/access.h: what we use of the peer's memory at this moment, and what it uses of ours. Only of a link
 * that shm_open_channel made. */
_Atomic uint64_t *shm_own_access(struct link *link);
const _Atomic uint64_t *shm_peer_access(const struct link *link);

/* Where the peer's bells are, borrowed: from now on it may rest this channel, and sleep on its futex. */
void shm_ring_at(struct link *link, struct news *peer_news);

/* Wakes who sleeps on the futex of these news. False: nobody does. */
bool shm_wake(struct news *news);

/* We can read the peer's memory; and, it can read ours. */
void shm_set_reads(struct link *link);
bool shm_peer_reads(const struct link *link);

/* A channel whose both ends are this process: frames sent come back. */
int shm_open_loop(struct link **link);

#endif
