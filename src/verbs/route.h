/* Where what a QP sends goes: the owner's answer for a device, an address and a QP number (ca_ops.route), kept with a connected
 * QP, and for datagrams in a small table of the adapter. A route holds until the owner calls routes_change, which it does where
 * the answer to any question may be another; whoever uses one compares the generation and asks again. Under the owner's lock. */
#ifndef WEFT_VERBS_ROUTE_H
#define WEFT_VERBS_ROUTE_H

#include "wire/packet.h"

#include <stdbool.h>
#include <stdint.h>

struct av;
struct ca;
struct ca_device;
struct qp;

enum route_kind {
	ROUTE_NOWHERE,		/* the address is no port's of the device's network: what is sent there is lost */
	ROUTE_NONE,		/* a port has the address, and there is no way to the QP's process, or not yet */
	ROUTE_CUT,		/* the QP's process is at that address, and no packet gets there: it is lost in the fabric; or our
				 * port is down */
	ROUTE_GROUP,		/* to whoever is a member of the multicast group when a packet leaves */
	ROUTE_MANAGEMENT,	/* QP0, QP1 and others that no QP of an adapter has: the owner sends there itself */
	ROUTE_NO_LINK,		/* to another host, and there is no link that leads there, or not yet */
	ROUTE_LINK,		/* to another host: place is the link that carries packets to the path's address */
	/* from here on place is a channel, so that one comparison tells: */
	ROUTE_ONE_WAY,		/* to another process, from which nothing comes back: for packets alone */
	ROUTE_PACKETS,		/* to a process of the host, one of the two being impaired while it runs: for packets alone */
	/* from here on both ways are there, and the direct path may be taken: */
	ROUTE_LOOP,		/* to this process */
	ROUTE_CHANNEL,		/* to another one of the host */
	ROUTE_KINDS
};

static inline bool route_has_channel(enum route_kind kind)
{
	return kind >= ROUTE_ONE_WAY;
}

static inline bool route_goes_both_ways(enum route_kind kind)
{
	return kind >= ROUTE_LOOP;
}

struct route {
	uint64_t generation;	/* of routes.generation, when it was asked; 0: it was not. 64 bits do not come round */
	void *place;		/* borrowed of the owner, or NULL; there as long as the generation is current */
	enum route_kind kind : 8;
	uint32_t qpn : 24;	/* the destination's */
	uint16_t way;		/* the owner's, as place: where what takes the route is counted; 0: nowhere */
	uint16_t pkey;		/* of what takes it */
};

/* Our choice: a program that sends datagrams to more QPs than that asks the owner more often. */
enum { ROUTES = 64 };

/* What a datagram's route depends on. All of it is compared, so there is no padding. */
struct route_key {
	uint8_t dgid[16];	/* zero without a GRH; no port has that GID */
	uint32_t qpn : 24, sl : 4, device : 4;
	uint16_t dlid, pkey;
};

struct routes {
	uint64_t generation;	/* from 1 on */
	struct route_entry {
		struct route_key key;
		struct route route;
	} entry[ROUTES];	/* each key has one place */
};

void routes_init(struct routes *rs);
/* All routes are asked again. What they lead to may go from now on. */
static inline void routes_change(struct routes *rs)
{
	rs->generation++;
}

/* Asks the owner, whatever *r is. The path's source is not looked at. */
void route_ask(struct ca *ca, const struct ca_device *dev, uint16_t pkey, const struct packet_path *path, uint32_t qpn,
	       struct route *r);
/* The route of a QP's datagram, and back to where a packet to it says that it comes from: valid until one of these is called
 * again. */
const struct route *route_of_av(const struct qp *qp, const struct av *av, uint32_t qpn);
const struct route *route_back(const struct qp *qp, const struct packet_path *path, uint32_t src_qpn);

#endif
