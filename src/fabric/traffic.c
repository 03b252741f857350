#include "fabric/traffic.h"

/* An adapter relays nothing (16.1.3.5). */
static enum traffic_count no_lane(const struct fabric *f, uint32_t port)
{
	return fabric_is_switch(f, f->owner[port]) ? TRAFFIC_NO_LANE : TRAFFIC_INACTIVE;
}

enum traffic_count traffic_drop(const struct fabric *f, uint32_t port, enum walk_verdict v)
{
	if (port >= f->ports)
		return TRAFFIC_COUNTS;
	switch (v) {
	case WALK_NO_ROUTE:
	case WALK_NO_PORT:
		return TRAFFIC_NO_ROUTE;
	case WALK_BACK:
		return TRAFFIC_BACK;
	case WALK_NO_LANE:
		return no_lane(f, port);
	case WALK_TOO_LONG:
		return TRAFFIC_TOO_LONG;
	case WALK_TOO_FAR:
		return TRAFFIC_TOO_SLOW;
	case WALK_PKEY_IN:
		return TRAFFIC_RCV_CONSTRAINT;
	case WALK_PKEY_OUT:
		return TRAFFIC_XMIT_CONSTRAINT;
	case WALK_NO_LINK:
	case WALK_NOT_ACTIVE:
		return TRAFFIC_INACTIVE;
	default:
		return TRAFFIC_COUNTS;
	}
}

unsigned traffic_lane(const struct fabric *f, uint32_t in, uint32_t out, unsigned sl)
{
	if (in >= f->ports || out >= f->ports || f->owner[in] != f->owner[out])
		return 0;
	return traffic_queue(walk_lane(f, in, out, sl));
}

void traffic_way_set(struct traffic_way *way, const struct fabric *f, const struct walk_route *route)
{
	way->at = route->at;
	way->drop = traffic_drop(f, route->at, route->verdict);
	way->links = route->links;
	for (uint32_t i = 0; i < route->links; i++) {
		way->out[i] = route->out[i];
		way->lane[i] = (uint8_t)traffic_queue(route->lane[i]);
	}
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
