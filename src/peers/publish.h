/* What this process lets its peers use directly: regions, windows and connected QPs in a share (direct/share.h) that they map,
 * and its memory files. weftd hands the share and /proc/self/mem of a process with the channel, to peers that may trace the
 * process.
 *
 * A QP is published once it is in RTS, or in RTR after its first packet, which raises COMM_EST. A region or QP that goes is
 * retracted first; then its owner waits until no peer's hazard word names it: microseconds, but 2 s at most, as the peer may
 * be stopped. Then the region stays and deregistration answers EBUSY, since the peer will write into it when it goes on. For all
 * QPs of a port whose P_Keys change it is 2 s, too.
 *
 * An atomic holds the lock word of its target's share, on mapped memory too, and so does the packet responder: all kinds are
 * atomic among each other. The lock names its holder, and another process takes over the lock of a dead one.
 *
 * The helper thread of each process has the word `life` of the share on its robust list: the kernel marks it before the memory
 * of the process goes or another program's takes its place. So a peer sees the end of a process by a load, before weftd tells.
 * A read looks at it again after the call. A write cannot: one that finds the process alive and reaches it after an exec, some
 * instructions later, changes the new program's memory. A first element of the call at an address that only the old program
 * has would close that; it costs 160 to 190 ns (27 % of 4 KB, 5 % of 64 KB, nothing of 1 MB). */
#ifndef WEFT_PEERS_PUBLISH_H
#define WEFT_PEERS_PUBLISH_H

#include "control/protocol.h"
#include "direct/share.h"
#include "peers/calibrate.h"
#include "peers/mapped_files.h"
#include "remap/remap.h"
#include "verbs/direct.h"

#include <linux/futex.h>

struct peers;

struct published {
	struct share share;
	struct shown_file file[CONTROL_FILES];
	uint32_t files;
	struct remap remap;
	uint64_t nonce;		/* at an address that the share tells: it proves that a descriptor or pid is ours */
	uint32_t era;		/* of our QPs as others see them */
	struct calibration calibration;
	struct {
		struct robust_list_head head;
		struct robust_list node;
	} life;			/* the list of the thread that publish_life is of */
	int fd[2];		/* owned: the share's memory, and our own; -1: there is no direct path */
	int pagemap;		/* owned, or -1 */
};

/* Before HELLO. Without memory for it there is no direct path, which is no error. */
void publish_init(struct published *pub);
/* There is none, as packets are forced. */
void unpublish_all(struct published *pub);
void publish_fini(struct published *pub);
/* In a forked child: its objects are copies, which nobody sees. */
void publish_forget(struct published *pub);
static inline bool publish_is_on(const struct published *pub)
{
	return pub->fd[0] >= 0;
}
/* Our bells, if others can ring them. */
static inline struct channel_bells *publish_bells(struct published *pub)
{
	return publish_is_on(pub) ? &pub->share.memory->bells : NULL;
}
/* The calling thread, which lives as long as the process, says so to our peers: direct/share.h, `life`. */
void publish_life(struct published *pub);

/* Operations of ca.direct (verbs/direct.h). */
void publish_mr(void *peers, struct mr *mr);
bool unpublish_mr(void *peers, struct mr *mr);
void publish_qp(void *peers, struct qp *qp);
void unpublish_qp(void *peers, struct qp *qp);
void republish_qp(void *peers, struct qp *qp, wtime *give_up);

/* Around fork: memory that a region has in part goes back to the program before it, and comes again after it. */
void publish_before_fork(struct peers *ps);
void publish_after_fork(struct peers *ps);

#endif
