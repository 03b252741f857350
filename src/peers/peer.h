/* The direct path to the process behind a channel: what it publishes, and its memory. */
#ifndef WEFT_PEERS_PEER_H
#define WEFT_PEERS_PEER_H

#include "direct/atomic_lock.h"
#include "direct/rma.h"
#include "link/shm.h"
#include "peers/mapped_files.h"

struct peer;
struct peers;

/* From the descriptors that weftd gave (borrowed). NULL: none. */
struct peer *peer_open(struct peers *ps, struct shm *shm, uint32_t slot, int share_fd, int proc_mem_fd);
void peer_close(struct peer *p);
/* In a forked child: its mappings did not come along. */
void peer_forget(struct peer *p);
const struct rma_peer *peer_rma(const struct peer *p);
/* Is its address space still there? */
bool peer_is_alive(const struct peer *p);
/* Is it known that the process has ended, or runs another program now? Costs a load. */
bool peer_has_left(const struct peer *p);
/* The files that it lets us map. */
struct mapped_files *peer_files(struct peer *p);
/* How its memory is reached: for people. */
const char *peer_tier(const struct peer *p);

/* For locks that processes share: their argument is a struct peers, and peer_self says who we are in them. */
extern const struct atomic_lock_ops peer_lock_ops;
uint32_t peer_self(const struct peers *ps);

#endif
