/* A multicast group of everybody, as the broadcast group of IPoIB is: a tree in each part of the fabric, by a breadth-first
 * search. And the last step of bringing a fabric up. */
#include "fabric/route.h"

#include <errno.h>
#include <stdlib.h>

static bool is_up(const struct fabric *f, uint32_t port)
{
	return FABRIC_READ(f->port[port].state) != PORT_DOWN;
}

static void join(const struct fabric *f, uint32_t port, uint32_t mlid)
{
	uint32_t node = f->owner[port];
	unsigned number = fabric_port_number(f, port);
	uint16_t *word = &fabric_mft(f, node, mlid)[number / MFT_BITS];

	FABRIC_SET(*word, (uint16_t)(FABRIC_READ(*word) | 1u << number % MFT_BITS));
}

/* The ports of one switch that are of the tree: those with hosts, and those that lead to a switch that was not in it. */
static void grow(const struct fabric *f, uint32_t node, uint32_t mlid, uint8_t *seen, uint32_t *queue, uint32_t *queued)
{
	join(f, fabric_port_index(f, node, 0), mlid);
	for (unsigned i = 1; i <= f->place[node].ports; i++) {
		uint32_t port = fabric_port_index(f, node, i), peer = fabric_peer(f, port);

		if (peer == PORT_NONE || !is_up(f, port) || !is_up(f, peer))
			continue;
		if (fabric_is_switch(f, f->owner[peer])) {
			if (seen[f->owner[peer]])
				continue;
			seen[f->owner[peer]] = 1;
			queue[(*queued)++] = f->owner[peer];
			join(f, peer, mlid);
		}
		join(f, port, mlid);
	}
}

static void grow_all(const struct fabric *f, uint32_t mlid, uint8_t *seen, uint32_t *queue)
{
	uint32_t head = 0, queued = 0;

	for (uint32_t n = 0; n < f->nodes; n++) {
		if (!fabric_is_switch(f, n) || seen[n])
			continue;
		seen[n] = 1;
		queue[queued++] = n;
		for (; head < queued; head++)
			grow(f, queue[head], mlid, seen, queue, &queued);
	}
}

int fabric_route_group(struct fabric *f, uint32_t mlid)
{
	uint8_t *seen = calloc(f->nodes + 1, 1);
	uint32_t *queue = calloc(f->nodes + 1, sizeof(*queue));
	int err = seen && queue ? 0 : -ENOMEM;

	if (!err && (mlid < MLID_FIRST || mlid - MLID_FIRST >= f->mlids))
		err = -EINVAL;
	for (uint32_t n = 0; !err && n < f->nodes; n++) {
		fabric_write(f, n);
		for (unsigned i = 0; fabric_is_switch(f, n) && i <= f->place[n].ports / MFT_BITS; i++)
			FABRIC_SET(fabric_mft(f, n, mlid)[i], (uint16_t)0);
	}
	if (!err)
		grow_all(f, mlid, seen, queue);
	for (uint32_t n = 0; !err && n < f->nodes; n++)
		fabric_written(f, n);
	free(seen);
	free(queue);
	return err;
}

void fabric_activate(struct fabric *f)
{
	for (uint32_t n = 0; n < f->nodes; n++) {
		fabric_write(f, n);
		for (unsigned i = 1; i <= f->place[n].ports; i++) {
			uint32_t port = fabric_port_index(f, n, i), peer = fabric_peer(f, port);

			if (peer != PORT_NONE && is_up(f, port) && is_up(f, peer))
				FABRIC_SET(f->port[port].state, (uint8_t)PORT_ACTIVE);
		}
		fabric_written(f, n);
	}
}
