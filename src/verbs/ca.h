/* The channel adapter of one process: both devices' ports and limits, the tables of all objects, the list of QPs with
 * something to send and the timers. Pure: the host injects time, randomness and call-backs, and holds one lock around
 * every entry. */
#ifndef WEFT_VERBS_CA_H
#define WEFT_VERBS_CA_H

#include "base/counters.h"
#include "base/heap.h"
#include "base/list.h"
#include "base/rand.h"
#include "base/table.h"
#include "base/time.h"
#include "verbs/queue.h"
#include "wire/packet.h"

#include <infiniband/verbs.h>

enum { CA_DEVICES = 2, CA_GIDS = 64, CA_PKEYS = 1, QPN_LOW_BITS = 12, QPN_LOW = 1 << QPN_LOW_BITS };

struct ca_gid {
	uint8_t raw[16];
	bool valid;
	enum ibv_gid_type type;
	uint32_t ndev_ifindex;
};

struct ca_device {
	char name[16];			/* weft0 */
	enum packet_form form;		/* PACKET_IB: weft0; PACKET_ROCE: weft1 */
	uint64_t guid;			/* host order */
	uint16_t lid, sm_lid;
	enum ibv_mtu active_mtu, max_mtu;
	enum ibv_port_state port_state;
	bool may_reorder;		/* what is sent from here may arrive in another order, or what arrives was */
	uint16_t pkey[CA_PKEYS];	/* 0xffff */
	struct ca_gid gid[CA_GIDS];
	struct ibv_device_attr_ex attr;	/* limits and capabilities; filled by ca_init */
};

struct cq;
struct qp;
struct srq;
struct direct_ops;
struct transport_ops;
struct ib_options;
struct av;

/* What the adapter needs of its host. All are called under the host's lock. */
struct ca_host {
	void (*cq_event)(void *host, struct cq *cq);	/* an armed CQ fires: queue an event on its channel */
	void (*async_event)(void *host, enum ibv_event_type type, void *object);	/* object: a qp, cq, srq or ca_device */
	/* Is there room towards this QP's process for one more frame? For the multicast QPN av names the group; it is NULL
	 * for connected QPs. When not, the QP waits in ca.blocked. */
	bool (*room)(void *host, const struct ca_device *dev, uint32_t dest_qpn, const struct av *av);
	/* memcpy that answers -EFAULT instead of a signal; for on-demand-paged and implicit regions */
	int (*copy_safely)(void *host, void *to, const void *from, size_t bytes);
	/* the first QP joined this group on this device, or the last left it */
	int (*mcast)(void *host, struct ca_device *dev, const uint8_t gid[16], bool joined);
	/* a QP number whose upper bits are a slot of this process; -ENOMEM. And its return. */
	int (*qpn_alloc)(void *host, uint32_t *qpn);
	void (*qpn_free)(void *host, uint32_t qpn);
};

struct ca {
	const struct ca_host *host_ops;	/* borrowed */
	void *host;			/* borrowed */
	const struct transport_ops *transport;	/* borrowed: the packet engine */
	const struct direct_ops *direct;	/* borrowed; NULL: none, and it may become NULL */
	struct ca_device dev[CA_DEVICES];
	int devices;
	struct arena arena;
	struct rand rand;		/* keys and PSNs: seeded from getrandom by the host */
	struct table keys;		/* struct mr or struct mw by key (24-bit index + 8-bit variant) */
	struct table pds, cqs, qps;	/* by handle, small numbers; QPs by number: qp_find */
	struct table srqs;		/* by SRQ number, 24 bits */
	struct list xrcds;		/* struct xrcd.all */
	struct list ready;		/* struct qp.ready: something to send */
	struct list blocked;		/* struct qp.ready: no room on the link */
	struct list later;		/* struct qp.ready: in the midst of a long copy */
	struct list awaiting;		/* struct qp.awaiting: whole messages under way, looked at since they were sent */
	struct list unseen;		/* the same, not looked at: their ACK timers do not run */
	struct list unsettled;		/* struct qp.unsettled: messages of peers acknowledge what has not completed yet */
	struct list mcast;		/* struct mcast_member */
	struct list flows;		/* struct flow, as they are asked */
	struct list all_qps;		/* struct qp.all */
	struct heap timers;		/* struct qp.timer */
	struct counters counters;
	wtime now;			/* of the entry under way: the timestamp of completions */
	bool starved;			/* a QP that awaits something can send no more before something of it was executed */
	bool defers;			/* the program polls: what was acknowledged is settled when it polls next */
	bool stamps;			/* somebody reads timestamps of completions */
	const struct ib_options *transport_options;	/* borrowed; what QPs start with; NULL: the transport's own defaults */
	bool seed_cq_profile;		/* CQ overflow: seed profile holds and asks, standard profile is CQ_ERR */
	struct qp **qp_by_number[QPN_LOW];	/* owned: by the upper, then the lower 12 bits of the number */
};

struct ca_config {
	const struct ca_host *host_ops;
	void *host;
	const struct transport_ops *transport;
	const struct direct_ops *direct;	/* or NULL */
	void *arena;
	uint64_t arena_bytes;
	uint64_t seed;			/* from getrandom in the product, printed in tests */
	const struct ca_device *dev;	/* name, form, guid, lid, gids, mtu filled; attr is filled by ca_init */
	int devices;
};

int ca_init(struct ca *ca, const struct ca_config *config);
void ca_fini(struct ca *ca);	/* destroys whatever is left */

/* The earliest timer, or WTIME_NEVER. */
wtime ca_deadline(const struct ca *ca);
/* Runs every timer that is due. */
void ca_expire(struct ca *ca, wtime now);

/* Sees what peers have executed of the whole messages under way, of at most so many QPs, those first that were not looked at
 * the longest. Returns for how many something was. */
unsigned ca_collect(struct ca *ca, wtime now, unsigned most);
/* The same of those whose ACK timers do not run, and starts them. */
unsigned ca_collect_unseen(struct ca *ca, wtime now);
/* Is any whole message under way? */
static inline bool ca_awaits(const struct ca *ca)
{
	return !list_empty(&ca->unseen) || !list_empty(&ca->awaiting);
}

/* Settles what messages of peers acknowledge. Did anything complete? */
bool ca_settle_all(struct ca *ca, wtime now);
static inline bool ca_settle(struct ca *ca, wtime now)
{
	return !list_empty(&ca->unsettled) && ca_settle_all(ca, now);
}

struct packet_out;
/* Pulls the next packet of some QP, round robin over the ready list. False when nobody has anything to send now. */
bool ca_output(struct ca *ca, wtime now, struct packet_out *out);
/* The next QP that is in the midst of a long copy is ready. False: there is none. */
bool ca_resume(struct ca *ca);
/* A link has room again: blocked QPs are ready. */
void ca_unblock(struct ca *ca);
/* One parsed frame that arrived on device `dev`. */
void ca_input(struct ca *ca, struct ca_device *dev, wtime now, const struct packet *p);

/* Packet with its payload gather list. Borrowed memory stays valid until the next entry into the adapter. */
enum { PACKET_OUT_IOVS = 32 };
struct packet_out {
	struct packet packet;
	struct ca_device *dev;
	struct iovec iov[PACKET_OUT_IOVS];
	uint8_t bounce[PACKET_MAX_ETHERNET];	/* payload copied here when it cannot be borrowed */
};

#endif
