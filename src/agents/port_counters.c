#include "agents/port_counters.h"

/* A MAD as PortXmitData counts it, in words of 4 bytes without the VCRC: LRH, BTH, DETH, the MAD, ICRC; and the GRH. */
enum { MAD_WORDS = (8 + 12 + 8 + 256 + 4) / 4, GRH_WORDS = 10 };

void port_counters_link(struct port_counters *all, uint32_t out, uint32_t in, bool has_grh)
{
	uint64_t words = has_grh ? MAD_WORDS + GRH_WORDS : MAD_WORDS;

	all[out].total[COUNT_XMIT_DATA] += words;
	all[out].total[COUNT_XMIT_PKTS]++;
	all[in].total[COUNT_RCV_DATA] += words;
	all[in].total[COUNT_RCV_PKTS]++;
}

/* Which counter of the port at its end tells of a packet's end; PORT_COUNTS: none. */
static enum port_count counter_of(enum walk_verdict v)
{
	switch (v) {
	case WALK_NO_ROUTE:
	case WALK_NO_PORT:
	case WALK_BACK:
		return COUNT_RCV_RELAY;
	case WALK_PKEY_IN:
		return COUNT_RCV_CONSTRAINT;
	case WALK_PKEY_OUT:
		return COUNT_XMIT_CONSTRAINT;
	case WALK_NO_LINK:
	case WALK_NOT_ACTIVE:
	case WALK_NO_LANE:
	case WALK_TOO_LONG:
		return COUNT_XMIT_DISCARDS;
	default:
		return PORT_COUNTS;
	}
}

void port_counters_way(struct port_counters *all, const struct fabric *f, const struct walk_route *route, bool has_grh)
{
	enum port_count dropped = counter_of(route->verdict);

	for (uint32_t i = 0; i < route->links; i++) {
		uint32_t peer = fabric_peer(f, route->out[i]);

		if (peer != PORT_NONE)
			port_counters_link(all, route->out[i], peer, has_grh);
	}
	if (dropped != PORT_COUNTS && route->at < f->ports)
		all[route->at].total[dropped]++;
}
