/* A channel adapter: its devices, the tables of all objects, the list of QPs with something to send and the
 * timers. Pure: its owner, the runtime of a process or a simulated node, injects time, randomness and call-backs,
 * and holds one lock around every entry. */
#ifndef WEFT_VERBS_CA_H
#define WEFT_VERBS_CA_H

#include "base/counters.h"
#include "base/list.h"
#include "base/rand.h"
#include "base/table.h"
#include "base/time.h"
#include "base/timer_heap.h"
#include "verbs/qp_history.h"
#include "verbs/acks.h"
#include "verbs/burst.h"
#include "verbs/device.h"
#include "verbs/lid_paths.h"
#include "verbs/qp_table.h"
#include "verbs/queue.h"
#include "verbs/route.h"
#include "wire/load.h"
#include "wire/packet.h"

struct cq;
struct qp;
struct doorbells;
struct srq;
struct direct_ops;
struct av;

/* What the adapter needs of its owner. All are called under the owner's lock. */
struct ca_ops {
	void (*cq_event)(void *owner, struct cq *cq);	/* an armed CQ fires: queue an event on its channel */
	void (*async_event)(void *owner, enum ibv_event_type type, void *object);	/* object: a qp, cq, srq or ca_device */
	/* Where does what is sent from this device to this address go, for the QP r->qpn? Sets r->kind and r->place, which hold
	 * until the owner calls routes_change(&ca->routes). Of the path's source a LID of the port counts, by which the
	 * answers come back. Waits for nobody. */
	void (*route)(void *owner, const struct ca_device *dev, const struct packet_path *path, struct route *r);
	/* Of a device with LIDs and an LMC, and of a path between first LIDs, with its route: pairs of LIDs by which the subnet
	 * administration says that packets go there and back. Returns how many; 0: it has not told yet, and whoever asks is to
	 * ask again when routes have changed. NULL: there is nobody to ask. Waits for nobody. */
	unsigned (*lid_paths)(void *owner, const struct ca_device *dev, uint16_t pkey, const struct packet_path *path,
			      const struct route *r, struct lid_pair pair[LID_PATHS]);
	/* For how many more frames is there room where the route leads? Of a group av is the address; it is NULL for connected
	 * QPs. When for none, the QP waits in ca.blocked. */
	unsigned (*space)(void *owner, const struct ca_device *dev, const struct route *r, const struct av *av);
	/* The longest packets that this path takes, where r leads: enum ibv_mtu; 0: of any length. NULL: all paths do. */
	int (*path_mtu)(void *owner, const struct route *r, const struct packet_path *path);
	/* Does what comes from there come from the process to which this route, back to its source, leads? Constant: the engine
	 * keeps the answer "yes" with the QP that got the packet. */
	bool (*origin_matches)(void *owner, origin_t origin, const struct route *back);
	/* True if the link that the route leads over still holds data up to *mark that the process behind it, which is alive, has
	 * not taken: then nothing of it is lost, and nothing can be answered. A *mark of 0 is set to the end of what was sent
	 * until now. False on links that lose frames. */
	bool (*undelivered)(void *owner, const struct route *r, uint64_t *mark);
	/* Messages went without packets by a route that has a way: what their packets would have been there, and back. */
	void (*carried)(void *owner, const struct route *r, const struct wire_load *there, const struct wire_load *back);
	/* A datagram, or packet of the QP's peer, has another partition's P_Key than the QP, or not its Q_Key. NULL: nobody is
	 * told. */
	void (*bad_key)(void *owner, const struct qp *qp, const struct packet *p, bool is_qkey);
	/* A datagram of that QP of another process of this host is to wait for a receive of ours: that process is asked to send
	 * our QP no more for now. False: it is not asked, and the datagram is dropped. And: no datagram waits for receives of the
	 * QP any more. NULL: none ever waits. */
	bool (*hold)(void *owner, uint32_t src_qpn, uint32_t dest_qpn);
	void (*let_go)(void *owner, uint32_t dest_qpn);
	/* memcpy from and to the program's memory that answers -EFAULT instead of a signal; for on-demand-paged and implicit
	 * regions, and for all regions of the program while ca.memory_may_go */
	int (*read_program)(void *owner, void *to, const void *from, size_t bytes);
	int (*write_program)(void *owner, void *to, const void *from, size_t bytes);
	/* As write_program, of what nobody asks whether it was there, and perhaps not before settle or read_program, or the end
	 * of the entry. NULL: there are none of the two. */
	void (*write_later)(void *owner, void *to, const void *from, size_t bytes);
	void (*settle)(void *owner);
	/* The first QP joins this group on this device, or the last has left it. -EINPROGRESS: the owner must ask for it first,
	 * which takes time, and then the operation is done again. */
	int (*mcast)(void *owner, struct ca_device *dev, const uint8_t gid[16], bool joined);
	/* a QP number whose upper bits are a slot of this process; -ENOMEM. And its return. */
	int (*qpn_alloc)(void *owner, uint32_t *qpn);
	void (*qpn_free)(void *owner, uint32_t qpn);
};

/* Paths of QPs whose first one leads to this address, which lose what goes by them, as somebody wants to see what comes of it
 * (ib/path.h): one bit each. */
struct ca_cut {
	uint8_t dgid[16];
	uint32_t paths;
};
enum { CA_CUTS = 16 };

/* How long datagrams of one process hold up its others at most, for a receiver of this host whose ring is full or that has no
 * receive. Our choice: some hundred time slices, where 20 programs share two CPUs. */
#define CA_PATIENCE (500 * WTIME_MS)

struct ca {
	const struct ca_ops *ops;	/* borrowed */
	void *owner;			/* borrowed */
	const struct direct_ops *direct;	/* borrowed; NULL: none, and it may become NULL */
	void *direct_arg;		/* borrowed: the first argument of its operations */
	struct ca_device *dev;		/* owned: an array of the first ports of all devices, then the further ones */
	int devices;			/* how many ports that are */
	struct arena arena;
	struct doorbells *doorbells;		/* in the arena: the engine runs apart from who posts; NULL: in their calls */
	struct rand rand;		/* keys and PSNs: seeded from getrandom by the owner */
	struct table keys;		/* struct mr, of regions and windows, by key (24-bit index + 8-bit variant) */
	struct table pds, cqs, qps;	/* by handle, small numbers */
	struct qp_table by_number;	/* qp_find */
	struct table srqs;		/* by SRQ number, 24 bits */
	struct list xrcds;		/* struct xrcd.all */
	struct list ready;		/* struct qp.ready: something to send */
	struct list blocked;		/* struct qp.ready: no room on the link */
	struct list slices;		/* struct qp.ready: the next slice of a long copy is due */
	struct message_acks acks;
	struct list mcast;		/* struct mcast_member */
	struct list flows;		/* struct flow, as they are asked */
	struct list all_qps;		/* struct qp.all */
	struct timer_heap timers;		/* struct qp.timer */
	struct routes routes;
	struct counters counters;
	wtime now;			/* of the entry under way: the timestamp of completions */
	bool memory_may_go;		/* a thread of the owner has entered: meanwhile the program may unmap a region */
	bool stamps;			/* somebody reads timestamps of completions */
	bool seed_cq_profile;		/* CQ overflow: seed profile holds and asks, standard profile is CQ_ERR */
	unsigned cuts;			/* of cut; the owner's */
	struct ca_cut cut[CA_CUTS];
	const void *engine_options;	/* borrowed; the transport's: what QPs start with; NULL: its defaults */
	struct qp_history history;
	size_t waiting_bytes;		/* of datagrams that wait for receives (ib/ud_wait.h) */
	void *engine;			/* owned, from malloc; the transport's: what QPs share; NULL: nothing */
};

struct ca_config {
	const struct ca_ops *ops;
	void *owner;
	const struct direct_ops *direct;	/* or NULL */
	void *direct_arg;
	void *arena;
	uint64_t arena_bytes;
	const struct siphash_key *key;	/* of what others must not guess, from the kernel; NULL: */
	uint64_t seed;			/* the same again for the same seed */
	const struct ca_device *dev;	/* without index, attr and takes, which ca_init fills; ports 0: a device of one port */
	int devices;
};

int ca_init(struct ca *ca, const struct ca_config *config);
void ca_fini(struct ca *ca);	/* destroys whatever is left */

/* From now on posting only writes WQEs and rings doorbells, and ca_read_doorbells runs the engine. Before the first QP.
 * -ENOMEM. */
int ca_open_doorbells(struct ca *ca);
/* Does the engine run apart from who posts? */
static inline bool ca_is_apart(const struct ca *ca)
{
	return ca->doorbells;
}

/* The engine apart takes over what doorbells announce, of those that were rung (verbs/doorbells.h). */
void ca_read_doorbells(struct ca *ca, wtime now);

/* Counts n at the adapter and at the device. i: COUNTER_INDEX. */
static inline void ca_count(struct ca *ca, const struct ca_device *dev, unsigned i, uint64_t n)
{
	((uint64_t *)&ca->counters)[i] += n;
	if (dev->counters)
		((uint64_t *)dev->counters)[i] += n;
}

/* What was counted until now, with the amounts that stand now. */
struct counters ca_counters(const struct ca *ca);

/* The earliest timer, or WTIME_NEVER. */
static inline wtime ca_deadline(const struct ca *ca)
{
	const struct timer_heap_node *first = timer_heap_min(&ca->timers);

	return first ? first->at : WTIME_NEVER;
}

/* Runs every timer that is due. */
void ca_expire(struct ca *ca, wtime now);

/* ---- acks.c ---- */

/* Reads the ACKs of direct messages, of at most `most` QPs, those first whose last look is the longest ago. Returns how many QPs
 * had a new one. */
unsigned ca_read_acks(struct ca *ca, wtime now, unsigned most);
/* The same for the QPs whose ACK timers do not run. It starts the timers. */
unsigned ca_reap_untimed(struct ca *ca, wtime now);
/* Is any direct message unacknowledged? */
static inline bool ca_awaits_acks(const struct ca *ca)
{
	return !list_empty(&ca->acks.untimed) || !list_empty(&ca->acks.unacked);
}

/* The postponed ACKs take effect. Did anything complete? */
bool ca_ack_all_postponed(struct ca *ca, wtime now);
static inline bool ca_ack_postponed(struct ca *ca, wtime now)
{
	return !list_empty(&ca->acks.postponed) && ca_ack_all_postponed(ca, now);
}

/* ---- ca.c ---- */

/* Pulls the next packets of some QP, round robin over the ready list: as many as it has for one destination, at most a burst and
 * what there is room for; QPs of transports without packets go on by themselves. How many; 0 when nobody has anything to send
 * now. */
unsigned ca_output(struct ca *ca, wtime now, struct burst *b);
/* Those from `first` on that take one route: all of them, but for a QP that goes by several pairs of LIDs. The route is valid
 * until the next row is asked for. */
struct burst_row ca_next_row_by_lids(const struct burst *b, unsigned first);
static inline struct burst_row ca_next_row(const struct burst *b, unsigned first)
{
	if (__builtin_expect(b->several != NULL, 0))
		return ca_next_row_by_lids(b, first);
	return (struct burst_row){ .dev = b->dev, .route = b->route, .out = &b->out[first], .packets = b->packets - first };
}
/* The next QP that is in the midst of a long copy is ready. False: there is none. */
bool ca_resume(struct ca *ca);
/* A link has room again: blocked QPs are ready. */
void ca_unblock(struct ca *ca);
/* One parsed frame that arrived on device `dev`, whose transport has packets, from `origin`. */
void ca_input(struct ca *ca, struct ca_device *dev, wtime now, origin_t origin, const struct packet *p);

#endif
