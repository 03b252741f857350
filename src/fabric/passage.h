/* The passage of packets over the links of a way, some of which lose or slow what passes (fabric_set_fault, fabric_rate): which
 * of them a packet is lost at, when it has passed the last, and what the ports count of it. Chances are drawn by link and seed,
 * so that the same packets of the same process lose the same ones. How long a link is busy is shared by all processes of the
 * fabric, in traffic.h's mapping, which each of them may write: nobody waits longer than PASSAGE_QUEUE for it. A packet takes
 * its turns at all links of its way when it is sent, so it holds up others at a later link for as long as it waits at earlier
 * ones.
 *
 * Virtual lanes share a slow link by the VLArbitrationTable of the port that sends (IBA 7.6.9), as a fluid would: a lane whose
 * queue is not empty has its part of the rate, and all of it while the others have nothing. What waits already keeps its time
 * when another lane begins or ends: for as long as that queue is, a link may carry more than its rate, which it makes up for
 * later, or less. */
#ifndef WEFT_FABRIC_PASSAGE_H
#define WEFT_FABRIC_PASSAGE_H

#include "base/rand.h"
#include "base/time.h"
#include "fabric/traffic.h"

/* Our choices: links with losses whose draws a process counts by themselves, of more some share; and how long a queue for a slow
 * link is. */
enum { PASSAGE_LINKS = 256 };
#define PASSAGE_QUEUE (100 * WTIME_MS)

/* The number of weftd, which draws for datagrams of management; processes have others. */
enum { PASSAGE_WEFTD = 0 };

/* Zero: nothing was drawn. */
struct passage {
	struct {
		uint32_t port;		/* + 1; 0: nobody's */
		uint64_t drawn;
	} link[PASSAGE_LINKS];
};

/* A packet of so many words was spoilt on its way from this port: the one at the other end counts it. */
void passage_count_error(const struct fabric *f, struct traffic_block *all, uint32_t port, uint64_t words, bool is_multicast);

/* Does a link on the way have a fault? */
bool passage_has_faults(const struct fabric *f, const struct traffic_way *way);

/* A packet of so many words that comes to this port's link at *at, to leave by this lane, has passed it at *at, behind what came
 * to the lane before. False: the lane's queue is full, and it is lost. Packets that wait are counted. */
bool passage_occupy(const struct fabric *f, struct traffic_block *all, uint32_t port, unsigned lane, uint64_t words, wtime *at);

/* Does the link of this port lose what the port sends next? Nothing is counted. */
bool passage_loses(struct passage *p, const struct fabric *f, uint32_t port, uint32_t process);

/* What leaves by this port is drawn from the begin of its seed again. */
void passage_restart(struct passage *p, uint32_t port);

/* One packet of so many words goes the way. False: a link loses it, or has too long a queue. *due: when it has passed all,
 * at least now. process: its number, as processes draw differently. */
bool passage_take(struct passage *p, const struct fabric *f, struct traffic_block *all, const struct traffic_way *way,
		  uint32_t process, wtime now, uint64_t words, wtime *due);

#endif
