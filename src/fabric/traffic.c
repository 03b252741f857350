#include "fabric/traffic.h"

enum traffic_count traffic_drop(enum walk_verdict v)
{
	switch (v) {
	case WALK_NO_ROUTE:
	case WALK_NO_PORT:
	case WALK_BACK:
		return TRAFFIC_RCV_RELAY;
	case WALK_PKEY_IN:
		return TRAFFIC_RCV_CONSTRAINT;
	case WALK_PKEY_OUT:
		return TRAFFIC_XMIT_CONSTRAINT;
	case WALK_NO_LINK:
	case WALK_NOT_ACTIVE:
	case WALK_NO_LANE:
	case WALK_TOO_LONG:
		return TRAFFIC_XMIT_DISCARDS;
	default:
		return TRAFFIC_COUNTS;
	}
}

void traffic_way_set(struct traffic_way *way, const struct fabric *f, const struct walk_route *route)
{
	way->at = route->at;
	way->drop = route->at < f->ports ? traffic_drop(route->verdict) : TRAFFIC_COUNTS;
	way->links = route->links;
	for (uint32_t i = 0; i < route->links; i++)
		way->out[i] = route->out[i];
}

void traffic_pass(struct traffic_block *all, const struct traffic_way *way, const struct wire_load *load)
{
	for (uint32_t i = 0; i < way->links; i++) {
		traffic_add(&all[way->out[i]], TRAFFIC_WORDS, load->words);
		traffic_add(&all[way->out[i]], TRAFFIC_PACKETS, load->packets);
	}
	if (way->drop != TRAFFIC_COUNTS)
		traffic_add(&all[way->at], way->drop, load->packets);
}
