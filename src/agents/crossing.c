#include "agents/crossing.h"

bool crossing_link(struct agents *a, uint32_t out, uint32_t in, bool has_grh)
{
	bool is_lost = passage_loses(&a->passage, a->fabric, out, PASSAGE_WEFTD);

	port_counters_link(a->counters, out, in, has_grh, is_lost);
	return !is_lost;
}

bool crossing_way(struct agents *a, const struct walk_route *r, bool has_grh)
{
	for (uint32_t i = 0; i < r->links; i++) {
		uint32_t peer = fabric_peer(a->fabric, r->out[i]);

		if (peer != PORT_NONE && !crossing_link(a, r->out[i], peer, has_grh))
			return false;
	}
	port_counters_end(a->counters, a->fabric, r);
	return true;
}
