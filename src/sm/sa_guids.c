/* GUIDs of ports: their first one is theirs, others a port adds and takes away for itself, and somebody with the SM_Key for any
 * port (IBA 15.2.5.18). The port has them in its GUIDInfo by the time that the answer arrives, and is known by their GIDs. */
#include "sm/sa_query.h"

#include "sm/configure.h"
#include "wire/field.h"

#include <string.h>

enum guid_component { G_LID, G_BLOCK, G_FIRST = 4 };

/* In a record (table 211) */
#define R_LID 0, 0, 16
#define R_BLOCK 2, 0, 8
enum { AT_GUIDS = 8, BYTES = 72 };

/* Our choice, as OpenSM's: GUIDs that the manager gives have OpenIB's company id. */
#define GIVEN 0x0014050000000000u

static void write(const struct sm *s, uint32_t port, uint32_t block, uint8_t record[BYTES])
{
	const struct net_port *p = &s->net.port[port];

	memset(record, 0, BYTES);
	wire_put(record, p->lid, R_LID);
	wire_put(record, block, R_BLOCK);
	for (unsigned i = 0; p->guids && i < NET_GUIDS; i++)
		wire_put(record + AT_GUIDS + 8 * i, p->guids[block * NET_GUIDS + i], 0, 0, 64);
	if (!block)
		wire_put(record + AT_GUIDS, p->guid, 0, 0, 64);
}

void sa_find_guids(struct sa_query *q)
{
	uint32_t port;

	while ((port = sa_next_end(q)) != PORT_NONE) {
		uint32_t blocks = net_guid_blocks(&q->s->net, port);

		q->steps += blocks - 1;
		for (uint32_t block = 0; block < blocks; block++) {
			uint8_t record[BYTES];

			write(q->s, port, block, record);
			sa_emit(q, record);
		}
	}
}

/* The port whose block is to be changed. The first GUID of all is the port's own. */
static uint32_t find_port(struct sa_query *q)
{
	const struct net *net = &q->s->net;
	uint32_t port = net_port_of_lid(net, (uint32_t)wire_get(q->wanted, R_LID));

	if (!sa_wants(q, G_LID) || !sa_wants(q, G_BLOCK))
		q->status = SA_COMPONENTS_MISSING;
	else if (port == PORT_NONE || !net_is_here(net, port) || wire_get(q->wanted, R_BLOCK) >= net_guid_blocks(net, port) ||
		 (port != q->from && !q->is_trusted) || (!wire_get(q->wanted, R_BLOCK) && sa_wants(q, G_FIRST)))
		q->status = SA_REQUEST_INVALID;
	return port;
}

/* Is this place of the block to be changed? */
static bool is_meant(const struct sa_query *q, unsigned i)
{
	return sa_wants(q, G_FIRST + i);
}

/* One that nobody has, nor the ones before in the block. */
static bool is_free(const struct sm *s, uint64_t guid, const uint64_t guids[NET_GUIDS])
{
	for (unsigned i = 0; i < NET_GUIDS; i++) {
		if (guids[i] == guid)
			return false;
	}
	return net_port_of_guid(&s->net, guid) == PORT_NONE;
}

static uint64_t give(struct sm *s, const uint64_t guids[NET_GUIDS])
{
	do
		s->last_guid = (s->last_guid + 1) & UINT32_MAX;
	while (!is_free(s, GIVEN | s->last_guid, guids));
	return GIVEN | s->last_guid;
}

/* refused: places, by bits, that stay as they are, and of which the answer has 0 (15.2.5.18.1). */
static void change(struct sa_query *q, uint32_t port, uint32_t block, const uint64_t guids[NET_GUIDS], unsigned refused)
{
	struct net_port *p = &q->s->net.port[port];
	uint8_t record[BYTES];

	if (net_set_guids(&q->s->net, port, block, guids)) {
		q->status = SA_NO_RESOURCES;
		return;
	}
	if (p->guids_due >> block & 1)
		p->guids_again |= 1u << block;
	else
		configure_guid_block(q->s, port, block);
	p->guids_due |= 1u << block;
	write(q->s, port, block, record);
	for (unsigned i = 0; i < NET_GUIDS; i++) {
		if (refused >> i & 1)
			wire_put(record + AT_GUIDS + 8 * i, 0, 0, 0, 64);
	}
	sa_answer(q, record, sizeof(record));
}

/* The block as it is; one that could not be read is empty. */
static void copy_block(const struct net_port *p, uint32_t block, uint64_t guids[NET_GUIDS])
{
	memset(guids, 0, NET_GUIDS * sizeof(*guids));
	if (p->guids)
		memcpy(guids, p->guids + block * NET_GUIDS, NET_GUIDS * sizeof(*guids));
}

/* Is a port in a group by this GUID? It stays the port's as long as that. */
static bool is_member(const struct sm *s, uint64_t guid)
{
	for (uint32_t i = 0; guid && i < s->groups.count; i++) {
		const struct mcast_group *g = &s->groups.group[i];

		for (uint32_t k = 0; k < g->members; k++) {
			if (wire_get(g->member[k].gid + 8, 0, 0, 64) == guid)
				return true;
		}
	}
	return false;
}

/* A GUID of 0 is the manager's to choose, where there is none yet. */
void sa_set_guids(struct sa_query *q)
{
	uint32_t port = find_port(q), block = (uint32_t)wire_get(q->wanted, R_BLOCK);
	uint64_t guids[NET_GUIDS];
	unsigned refused = 0;

	if (q->status)
		return;
	copy_block(&q->s->net.port[port], block, guids);
	for (unsigned i = 0; i < NET_GUIDS; i++) {
		uint64_t guid = wire_get(q->wanted + AT_GUIDS + 8 * i, 0, 0, 64);

		if (!is_meant(q, i) || (guids[i] && (!guid || guid == guids[i])))
			continue;
		if (guid && (!is_free(q->s, guid, guids) || is_member(q->s, guids[i])))
			refused |= 1u << i;
		else
			guids[i] = guid ? guid : give(q->s, guids);
	}
	change(q, port, block, guids, refused);
}

/* As OpenSM's, all or none. */
void sa_delete_guids(struct sa_query *q)
{
	uint32_t port = find_port(q), block = (uint32_t)wire_get(q->wanted, R_BLOCK);
	uint64_t guids[NET_GUIDS];

	if (q->status)
		return;
	copy_block(&q->s->net.port[port], block, guids);
	for (unsigned i = 0; i < NET_GUIDS; i++) {
		if (!is_meant(q, i))
			continue;
		if (is_member(q->s, guids[i]))
			q->status = SA_DENIED;
		guids[i] = 0;
	}
	if (!q->status)
		change(q, port, block, guids, 0);
}
