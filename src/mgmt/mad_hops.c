#include "mgmt/mad_hops.h"

#include <stdlib.h>
#include <string.h>

void mad_hop_put(struct mad_clients *c, uint32_t from, const struct mad_remote *to, const uint8_t mad[MAD_BYTES])
{
	struct mad_hop *h = calloc(1, sizeof(*h));

	if (!h)
		return;
	h->from = from;
	h->to = *to;
	memcpy(h->mad, mad, MAD_BYTES);
	list_append(&c->hops, &h->node);
	c->waiting++;
}

struct mad_hop *mad_hop_take(struct mad_clients *c)
{
	struct list_node *node = list_pop(&c->hops);

	c->waiting -= node != NULL;
	return node ? container_of(node, struct mad_hop, node) : NULL;
}
