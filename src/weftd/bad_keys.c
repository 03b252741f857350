/* Whoever sends names a QP of its own, or none, and a P_Key of its port; the walk finds where that is not let in. Whoever
 * receives speaks for its own QP, at its own port; the sender that it names must be at a port from which packets get there,
 * and no other port counts them. So a process makes traps of packets from its own port, and its port tells of processes that
 * can send to it. A sender that has ended is known by the LID alone, which anybody could be said to have sent from: its packets
 * are counted, while they are few, and no manager hears of them. */
#include "weftd/bad_keys.h"

#include "agents/agents.h"
#include "fabric/host.h"
#include "weftd/fabric_records.h"
#include "weftd/slots.h"
#include "weftd/subnet.h"

/* The port of the process that has this QP number which has sent a packet with this source LID, or its first; or PORT_NONE. */
static uint32_t port_of(const struct hub *h, uint32_t qpn, uint32_t slid)
{
	const struct client *c = slots_owner(h, qpn_slot(qpn & QPN_MASK));
	const struct fabric *f = &h->subnet->fabric;
	uint32_t place = c ? subnet_place(h, c) : PORT_NONE;

	if (place == PORT_NONE)
		return PORT_NONE;
	for (unsigned i = 1; i <= host_ports(f, place); i++)
		if (host_has_lid(f, host_port(f, place, i), slid))
			return host_port(f, place, i);
	return host_port(f, place, 1);
}

static bool is_own(const struct hub *h, const struct client *c, uint32_t qpn)
{
	return slots_owner(h, qpn_slot(qpn & QPN_MASK)) == c;
}

void bad_keys_input(struct hub *h, struct client *c, const struct control_msg *msg)
{
	bool is_qkey = msg->slot & BAD_KEY_IS_QKEY, has_arrived = msg->device == BAD_KEY_ARRIVED;
	uint32_t place = subnet_place(h, c), slid = (uint32_t)msg->gid[BAD_KEY_FROM] << 8 | msg->gid[BAD_KEY_FROM + 1], own, from;
	bool has_ended;
	const struct mad_address to = {
		.path = { .dlid = msg->slot & BAD_KEY_LID, .sl = msg->slot >> BAD_KEY_SL & 15 },
		.src_qpn = msg->a, .dest_qpn = msg->b, .qkey = msg->c, .pkey = (uint16_t)(msg->service >> BAD_KEY_PKEY),
	};

	own = place == PORT_NONE ? PORT_NONE :
	      host_port(&h->subnet->fabric, place, msg->gid[BAD_KEY_PORT] ? msg->gid[BAD_KEY_PORT] : 1);
	from = own == PORT_NONE || !has_arrived ? own : port_of(h, msg->a, slid);
	has_ended = has_arrived && own != PORT_NONE && from == PORT_NONE;
	if (has_ended && rate_allows(&c->bad_keys, h->now, BAD_KEYS_TOLD))	/* the search takes longer in a large fabric */
		from = fabric_records_find_lid(&h->subnet->fabric, slid);
	if (own == PORT_NONE || from == PORT_NONE || (is_qkey && !has_arrived))
		return;
	if (has_arrived ? !is_own(h, c, msg->b) : msg->a && !is_own(h, c, msg->a))
		return;
	(!has_ended && rate_allows(&c->bad_keys, h->now, BAD_KEYS_TOLD) ? agents_bad_key : agents_count_bad_key)(
		&h->subnet->agents, h->now, from, &to, is_qkey, (uint32_t)msg->service, has_arrived ? own : PORT_NONE);
}
