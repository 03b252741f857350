#include "sm/partitions.h"

#include "base/array.h"
#include "fabric/fabric.h"
#include "sm/request.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

static const uint16_t by_default[NET_PKEYS] = { PKEY_DEFAULT };

_Static_assert((int)PORT_PKEYS == NET_PKEYS, "a port of a fabric has one block of P_Keys");

static int add(struct partitions *p, uint64_t guid, const uint16_t pkeys[NET_PKEYS])
{
	if (array_reserve(&p->pkeys, &p->room, p->ports + 1, sizeof(*p->pkeys)) || guid_map_put(&p->by_port, guid, p->ports))
		return -ENOMEM;
	memcpy(p->pkeys[p->ports++], pkeys, sizeof(*p->pkeys));
	return 0;
}

int partitions_init(struct sm *s, const struct fabric *f)
{
	for (uint32_t port = 0; f && port < f->ports; port++) {
		const uint16_t *policy = fabric_partitions(f, port);
		uint16_t pkeys[NET_PKEYS];

		if (fabric_is_switch(f, f->owner[port]) == (fabric_port_number(f, port) != 0))
			continue;
		for (unsigned i = 0; i < NET_PKEYS; i++)
			pkeys[i] = FABRIC_READ(policy[i]);
		if (memcmp(pkeys, by_default, sizeof(pkeys)) != 0 && add(&s->partitions, FABRIC_READ(f->port[port].guid), pkeys))
			return -ENOMEM;
	}
	return 0;
}

void partitions_fini(struct sm *s)
{
	free(s->partitions.by_port.place);
	free(s->partitions.pkeys);
	memset(&s->partitions, 0, sizeof(s->partitions));
}

static const uint16_t *policy_of(const struct sm *s, uint32_t port)
{
	uint32_t at = guid_map_find(&s->partitions.by_port, s->net.port[port].guid);

	return at == UINT32_MAX ? by_default : s->partitions.pkeys[at];
}

/* The policy's P_Key of this one's partition that has no place yet, or 0: none. Place 0 is the policy's. */
static unsigned find(const uint16_t policy[NET_PKEYS], uint32_t placed, uint16_t pkey)
{
	for (unsigned i = 1; i < NET_PKEYS; i++) {
		if (!(placed >> i & 1) && pkey_is_same_partition(policy[i], pkey))
			return i;
	}
	return 0;
}

/* `places`: there is none. */
static unsigned free_place(const uint16_t table[NET_PKEYS], unsigned wanted, unsigned places)
{
	unsigned i = 1;

	if (wanted < places && !table[wanted])
		return wanted;
	while (i < places && table[i])
		i++;
	return i;
}

/* Of the first block: other blocks are to be empty. */
static unsigned places_of(const struct sm *s, uint32_t port)
{
	uint32_t entries = net_pkey_entries(&s->net, port);

	return entries < NET_PKEYS ? entries : NET_PKEYS;
}

/* The first block as it is to be. Who chooses no P_Key has that of place 0: it is there whatever was; others stay where they
 * are. */
static void want(const struct sm *s, uint32_t port, uint16_t table[NET_PKEYS])
{
	unsigned places = places_of(s, port);
	const uint16_t *policy = policy_of(s, port), *is = s->net.port[port].pkeys;
	uint32_t placed = 1;

	memset(table, 0, NET_PKEYS * sizeof(*table));
	table[0] = policy[0];
	for (unsigned i = 1; i < places; i++) {
		unsigned at = find(policy, placed, is[i]);

		if (!at)
			continue;
		table[i] = policy[at];
		placed |= 1u << at;
	}
	for (unsigned i = 1; i < NET_PKEYS; i++) {
		unsigned at = free_place(table, i, places);

		if (policy[i] && !(placed >> i & 1) && at < places)
			table[at] = policy[i];
	}
}

/* By bits: blocks that are to be others. */
static uint32_t blocks_due(const struct sm *s, uint32_t port)
{
	const struct net_port *p = &s->net.port[port];
	uint16_t table[NET_PKEYS];

	if (!p->pkeys || !net_is_end(&s->net, port))
		return 0;
	want(s, port, table);
	return p->pkeys_behind | (memcmp(table, p->pkeys, places_of(s, port) * sizeof(*table)) != 0);
}

bool partitions_differ(const struct sm *s, uint32_t port)
{
	return blocks_due(s, port) != 0;
}

void partitions_configure(struct sm *s)
{
	for (uint32_t port = 0; port < s->net.ports; port++) {
		uint32_t due = net_is_here(&s->net, port) ? blocks_due(s, port) : 0;

		for (uint32_t block = 0; due; block++, due >>= 1) {
			if (due & 1)
				request_add(s, &(struct sm_work){ .kind = WORK_SET_PKEYS, .node = s->net.owner[port],
								  .number = (uint8_t)net_port_number(&s->net, port),
								  .modifier = block });
		}
	}
}

void partitions_fill(const struct sm *s, const struct sm_work *w, uint8_t data[SMP_DATA_BYTES])
{
	uint16_t table[NET_PKEYS];

	memset(data, 0, SMP_DATA_BYTES);
	if (w->modifier)
		return;
	want(s, net_port_index(&s->net, w->node, w->number), table);
	for (unsigned i = 0; i < NET_PKEYS; i++) {
		data[2 * i] = (uint8_t)(table[i] >> 8);
		data[2 * i + 1] = (uint8_t)table[i];
	}
}

/* What was refused is as it was, which is no reason to leave the subnet as it is: the next sweep that reads it tries again. */
void partitions_end(struct sm *s, wtime now, const struct sm_work *w, const uint8_t *data)
{
	uint32_t port = net_port_index(&s->net, w->node, w->number);

	if (!data)
		s->has_failed |= s->was_silent;
	else if (net_learn_pkeys(&s->net, port, w->modifier, data))
		s->has_failed = true;
}
