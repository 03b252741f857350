/* Which channel or link leads to an address and a QP number of a device. Whether a request needs packets at all is decided for
 * each WQE, by ib/direct_rma.c and ib/direct_send.c. */
#ifndef WEFT_PEERS_ROUTE_H
#define WEFT_PEERS_ROUTE_H

#include "fabric/page.h"
#include "peers/channel.h"
#include "verbs/ca.h"

struct peers;

/* As ca_ops.route. An address is a port's when the device has it, or the page by now. */
void route_find(struct peers *ps, const struct ca_device *dev, const struct packet_path *path, struct route *r);
/* The route to a slot's process, for members of groups and frames that have waited: nowhere when there is no such slot. */
struct route route_to_slot(const struct peers *ps, uint32_t slot);

/* As ca_ops.origin_matches. */
bool route_leads_to(const struct peers *ps, const struct route *back, origin_t origin);

/* The slot whose process it leads to, or would. */
static inline uint32_t route_slot(const struct route *r)
{
	return qpn_slot(r->qpn);
}

/* The channel that it leads over, or NULL. */
static inline struct channel *route_channel(const struct route *r)
{
	return route_has_channel(r->kind) ? r->place : NULL;
}

/* The link that what takes the route leaves by, or NULL: none, or several. */
static inline struct link *route_link(const struct route *r)
{
	if (__builtin_expect(route_has_channel(r->kind), 1))
		return ((const struct channel *)r->place)->link;
	return r->kind == ROUTE_LINK ? r->place : NULL;
}

/* For people: "loop", "channel", "none", "nowhere", "cut", "one way", or the name of a link to other hosts. */
const char *route_name(const struct route *r);

#endif
