/* Packets of QP1 from one process to another at the hosts of a fabric: as far as its ways, keys and slow links let them. */
#include "weftd/subnet.h"

#include "agents/crossing.h"
#include "mgmt/gmp.h"

/* A packet of QP1 from a port of the fabric, at agents.at: *at is where it is let in. */
static enum subnet_way carry_from(struct hub *h, uint32_t from, const struct gmp *gmp, uint32_t *at)
{
	const struct mad_address address = { .path = gmp->path, .pkey = gmp->pkey, .src_qpn = GSI_QPN, .dest_qpn = GSI_QPN };
	const struct walk_packet p = { .from = from, .dlid = gmp->path.dlid, .sl = gmp->path.sl, .pkey = gmp->pkey,
				       .switches = SWITCHES_MOST };
	struct agents *agents = &h->subnet->agents;
	struct walk_route r;

	if (!fabric_has_pkey(agents->fabric, from, p.pkey))
		return SUBNET_LEADS_ELSEWHERE;
	fabric_walk(agents->fabric, &p, &r);
	if (crossing_way(agents, &r, gmp->path.has_grh) != LOSS_NONE)
		return SUBNET_LOSES;
	*at = r.at;
	if (r.verdict == WALK_DELIVERED && fabric_find_pkey(agents->fabric, r.at, p.pkey) >= 0)
		return SUBNET_LEADS;
	agents_bad_key(agents, h->now, from, &address, false, 1, PORT_NONE);
	return SUBNET_LEADS_ELSEWHERE;
}

uint32_t subnet_destination(const struct hub *h, const struct client *from, const struct gmp *gmp)
{
	uint32_t port = subnet_port(h, from, (uint32_t)gmp->device);

	if (port == PORT_NONE)
		return PORT_NONE;
	return fabric_destination(&h->subnet->fabric, &(struct walk_packet){
		.from = port, .dlid = gmp->path.dlid, .sl = gmp->path.sl, .pkey = gmp->pkey, .switches = SWITCHES_MOST });
}

enum subnet_way subnet_carry(struct hub *h, const struct client *from, const struct client *to, const struct gmp *gmp,
			     uint32_t *index, wtime *due)
{
	uint32_t a = subnet_port(h, from, (uint32_t)gmp->device), b = subnet_place(h, to), at;
	enum subnet_way way;

	*index = (uint32_t)gmp->device;
	*due = h->now;
	if (a == PORT_NONE || b == PORT_NONE)
		return a == b ? SUBNET_LEADS : SUBNET_LEADS_ELSEWHERE;
	h->subnet->agents.at = h->now;
	way = carry_from(h, a, gmp, &at);
	*due = h->subnet->agents.at;
	if (way != SUBNET_LEADS)
		return way;
	*index = subnet_index(h, to, at);
	return *index < PAGE_DEVICES ? SUBNET_LEADS : SUBNET_LEADS_ELSEWHERE;
}

enum subnet_way subnet_carry_back(struct hub *h, const struct client *from, const struct gmp *gmp, wtime *due)
{
	uint32_t a = subnet_port(h, from, (uint32_t)gmp->device), at, end;
	struct gmp back = { .path = gmp_path_back(&gmp->path) };
	enum subnet_way way;

	*due = h->now;
	if (a == PORT_NONE)
		return SUBNET_LEADS;
	h->subnet->agents.at = h->now;
	way = carry_from(h, a, gmp, &at);
	if (way != SUBNET_LEADS)
		return way;
	back.pkey = fabric_answer_pkey(&h->subnet->fabric, at, gmp->pkey);
	way = carry_from(h, at, &back, &end) == SUBNET_LEADS && end == a ? SUBNET_LEADS : SUBNET_LOSES;
	*due = h->subnet->agents.at;
	return way;
}
