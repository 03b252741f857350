#include "agents/crossing.h"

/* False: too much waits there. */
static bool take_turn(struct agents *a, uint32_t out, unsigned lane, bool has_grh)
{
	if (!a->traffic || passage_occupy(a->fabric, a->traffic, out, traffic_queue(lane), port_counters_words(has_grh), &a->at))
		return true;
	traffic_add(&a->traffic[out], TRAFFIC_TOO_SLOW, 1);
	return false;
}

enum mad_loss crossing_link(struct agents *a, uint32_t out, uint32_t in, unsigned lane, bool has_grh)
{
	bool is_lost;

	if (!take_turn(a, out, lane, has_grh))
		return LOSS_SLOW;
	is_lost = passage_loses(&a->passage, a->fabric, out, PASSAGE_WEFTD);
	port_counters_link(a->counters, out, in, has_grh, is_lost);
	return is_lost ? LOSS_FAULT : LOSS_NONE;
}

enum mad_loss crossing_way(struct agents *a, const struct walk_route *r, bool has_grh)
{
	for (uint32_t i = 0; i < r->links; i++) {
		uint32_t peer = fabric_peer(a->fabric, r->out[i]);
		enum mad_loss loss = peer == PORT_NONE ? LOSS_NONE : crossing_link(a, r->out[i], peer, r->lane[i], has_grh);

		if (loss != LOSS_NONE)
			return loss;
	}
	port_counters_end(a->counters, a->fabric, r);
	return LOSS_NONE;
}
