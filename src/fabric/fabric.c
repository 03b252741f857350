/* The places of the tables in a mapping, and the judgement of a mapping. */
#include "fabric/fabric.h"

#include "fabric/adapters.h"
#include "fabric/speed.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { SECTION = 64 };	/* alignment of the sections: a cache line */

_Static_assert(sizeof(struct fabric_qos) == 280 && sizeof(struct fabric_head) == 6 * SECTION, "no padding in the head");
_Static_assert(sizeof(struct fabric_node) == 112 && sizeof(struct fabric_port) == 88, "no padding in a mapping");

/* Sections, each behind the one before. */
struct places {
	size_t node, port, pkeys, partitions, guids, vlarb, tables, bytes;
};

static size_t after(size_t *end, size_t bytes)
{
	size_t at = *end;

	*end = (at + bytes + SECTION - 1) & ~(size_t)(SECTION - 1);
	return at;
}

/* Sections of fixed stride; the tables of the nodes come behind `tables`. */
static struct places place_sections(uint32_t nodes, uint32_t ports)
{
	size_t end = sizeof(struct fabric_head);
	struct places p;

	p.node = after(&end, (size_t)nodes * sizeof(struct fabric_node));
	p.port = after(&end, (size_t)ports * sizeof(struct fabric_port));
	p.pkeys = after(&end, (size_t)ports * PORT_PKEYS * sizeof(uint16_t));
	p.partitions = after(&end, (size_t)ports * PORT_PKEYS * sizeof(uint16_t));
	p.guids = after(&end, (size_t)ports * FABRIC_GUIDS * sizeof(uint64_t));
	p.vlarb = after(&end, (size_t)ports * FABRIC_VLARB * sizeof(struct fabric_vlarb));
	p.tables = p.bytes = end;
	return p;
}

/* The place of a node whose tables begin at *end. */
static struct fabric_place place_node(size_t *end, unsigned type, unsigned ports, uint32_t first_port, uint32_t lids,
				      uint32_t mlids)
{
	struct fabric_place p = { .first_port = first_port, .type = (uint8_t)type, .ports = (uint8_t)ports };
	size_t each = ports + 1;

	if (type == NODE_SWITCH) {
		p.lft = after(end, lids);
		p.mft = after(end, (size_t)mlids * (ports / MFT_BITS + 1u) * sizeof(uint16_t));
		each *= ports + 1;
	}
	p.sl2vl = after(end, each * FABRIC_SL2VL);
	return p;
}

size_t fabric_bytes(const struct topology *t)
{
	size_t end = place_sections(t->nodes, t->ports).bytes;

	for (uint32_t n = 0; n < t->nodes; n++)
		place_node(&end, t->node[n].type, t->node[n].ports, 0, t->lids, t->mlids);
	return end;
}

/* Service level s goes to lane s modulo the data lanes, by every pair of ports. */
static void map_lanes(uint8_t *sl2vl, size_t bytes, unsigned vls)
{
	for (size_t i = 0; i < bytes; i++) {
		unsigned sl = i % FABRIC_SL2VL * 2;

		sl2vl[i] = (uint8_t)(sl % vls << 4 | (sl + 1) % vls);
	}
}

static void format_port(void *mapping, const struct places *s, const struct topology *t, uint32_t port)
{
	uint16_t *pkeys = (uint16_t *)(void *)((uint8_t *)mapping + s->pkeys) + (size_t)port * PORT_PKEYS;
	uint16_t *partitions = (uint16_t *)(void *)((uint8_t *)mapping + s->partitions) + (size_t)port * PORT_PKEYS;
	uint64_t *guids = (uint64_t *)(void *)((uint8_t *)mapping + s->guids) + (size_t)port * FABRIC_GUIDS;
	struct fabric_vlarb *arb = (struct fabric_vlarb *)(void *)((uint8_t *)mapping + s->vlarb) + (size_t)port * FABRIC_VLARB;

	pkeys[0] = partitions[0] = PKEY_DEFAULT;
	guids[0] = t->port[port].guid;
	for (unsigned vl = 0; vl < t->port[port].vls; vl++)
		arb[FABRIC_VLARB / 2 + vl] = (struct fabric_vlarb){ (uint8_t)vl, 1 };
}

void fabric_format(void *mapping, const struct topology *t)
{
	struct places s = place_sections(t->nodes, t->ports);
	size_t end = s.tables;

	memcpy((uint8_t *)mapping + s.node, t->node, t->nodes * sizeof(*t->node));
	memcpy((uint8_t *)mapping + s.port, t->port, t->ports * sizeof(*t->port));
	for (uint32_t port = 0; port < t->ports; port++)
		format_port(mapping, &s, t, port);
	for (uint32_t n = 0; n < t->nodes; n++) {
		const struct fabric_node *node = &t->node[n];
		struct fabric_place p = place_node(&end, node->type, node->ports, node->first_port, t->lids, t->mlids);

		if (p.lft)
			((struct fabric_node *)(void *)((uint8_t *)mapping + s.node))[n].lft_top = (uint16_t)(t->lids - 1);
		if (p.lft)
			memset((uint8_t *)mapping + p.lft, LFT_NONE, t->lids);
		map_lanes((uint8_t *)mapping + p.sl2vl, end - p.sl2vl, t->port[node->first_port].vls);
	}
	*(struct fabric_head *)mapping = (struct fabric_head){ .magic = FABRIC_MAGIC, .version = FABRIC_VERSION, .bytes = end,
							       .nodes = t->nodes, .ports = t->ports, .lids = t->lids,
							       .mlids = t->mlids };
}

/* ---- judging ---- */

struct judge {
	struct fabric *f;
	char *why;
	size_t room;
};

static int __attribute__((format(printf, 2, 3))) refuse(const struct judge *j, const char *format, ...)
{
	va_list ap;

	va_start(ap, format);
	vsnprintf(j->why, j->room, format, ap);
	va_end(ap);
	return -EINVAL;
}

/* The head is copied once; the counts in `f` are judged and used from then on. */
static int judge_head(const struct judge *j, const void *mapping, size_t bytes)
{
	struct fabric_head h;

	if (bytes < sizeof(h))
		return refuse(j, "it has %zu bytes, fewer than its head", bytes);
	memcpy(&h, mapping, sizeof(h));
	if (h.magic != FABRIC_MAGIC)
		return refuse(j, "it is no fabric of weft");
	if (h.version != FABRIC_VERSION)
		return refuse(j, "it is of version %u, and this weft knows version %u", h.version, (unsigned)FABRIC_VERSION);
	if (h.bytes > FABRIC_BYTES_MOST)
		return refuse(j, "it says that it has %llu bytes, of at most %u", (unsigned long long)h.bytes,
			      (unsigned)FABRIC_BYTES_MOST);
	if (h.bytes != bytes)
		return refuse(j, "it has %zu bytes, and says %llu", bytes, (unsigned long long)h.bytes);
	if (h.nodes > TOPOLOGY_NODES || h.ports > TOPOLOGY_PORTS || h.lids > LIDS || h.mlids > MLIDS)
		return refuse(j, "it has %u nodes, %u ports, %u LIDs and %u multicast LIDs: too many", h.nodes, h.ports, h.lids,
			      h.mlids);
	if (place_sections(h.nodes, h.ports).bytes > bytes)
		return refuse(j, "%u nodes and %u ports have no room in it", h.nodes, h.ports);
	j->f->nodes = h.nodes;
	j->f->ports = h.ports;
	j->f->lids = h.lids;
	j->f->mlids = h.mlids;
	return 0;
}

static void set_sections(struct fabric *f, void *mapping, size_t bytes)
{
	struct places s = place_sections(f->nodes, f->ports);

	f->head = mapping;
	f->bytes = bytes;
	f->node = (struct fabric_node *)(void *)fabric_at(f, s.node);
	f->port = (struct fabric_port *)(void *)fabric_at(f, s.port);
	f->pkeys = s.pkeys;
	f->partitions = s.partitions;
	f->guids = s.guids;
	f->vlarb = s.vlarb;
}

/* Each node's ports follow those of the node before. */
static int judge_nodes(const struct judge *j, size_t bytes)
{
	struct fabric *f = j->f;
	size_t end = place_sections(f->nodes, f->ports).tables;
	uint32_t port = 0;

	for (uint32_t n = 0; n < f->nodes; n++) {
		unsigned type = FABRIC_READ(f->node[n].type), ports = FABRIC_READ(f->node[n].ports);

		if (type < NODE_CA || type > NODE_ROUTER)
			return refuse(j, "node %u is of type %u", n, type);
		if (FABRIC_READ(f->node[n].first_port) != port || ports > NODE_PORTS || ports + 1 > f->ports - port)
			return refuse(j, "the ports of node %u are not behind those of node %d", n, (int)n - 1);
		if (!memchr(f->node[n].description, 0, sizeof(f->node[n].description)))
			return refuse(j, "the description of node %u does not end", n);
		f->place[n] = place_node(&end, type, ports, port, f->lids, f->mlids);
		for (unsigned i = 0; i <= ports; i++)
			f->owner[port++] = n;
		if (end > bytes)
			return refuse(j, "the tables of node %u have no room in it", n);
	}
	if (port != f->ports || end != bytes)
		return refuse(j, "its nodes have %u ports and end at byte %zu, not %u and %zu", port, end, f->ports, bytes);
	return 0;
}

static int judge_link(const struct judge *j, uint32_t port)
{
	const struct fabric *f = j->f;
	uint32_t peer = FABRIC_READ(f->port[port].peer);

	if (peer == PORT_NONE)
		return 0;
	if (peer >= f->ports || peer == port)
		return refuse(j, "port %u is linked with port %u", port, peer);
	if (!fabric_port_number(f, port))
		return refuse(j, "port %u is a port 0 and has a link", port);
	if (FABRIC_READ(f->port[peer].peer) != port)
		return refuse(j, "port %u is linked with port %u, but not port %u with port %u", port, peer, peer, port);
	if (!link_mbps(FABRIC_READ(f->port[port].width), FABRIC_READ(f->port[port].speed)))
		return refuse(j, "the link of port %u has no width or speed", port);
	return 0;
}

static int judge_port(const struct judge *j, uint32_t port)
{
	unsigned state = FABRIC_READ(j->f->port[port].state);

	return state < PORT_DOWN || state > PORT_ACTIVE ? refuse(j, "port %u is in state %u", port, state) : 0;
}

static int judge_all(const struct judge *j, void *mapping, size_t bytes)
{
	int err;

	set_sections(j->f, mapping, bytes);
	err = judge_nodes(j, bytes);
	for (uint32_t port = 0; !err && port < j->f->ports; port++) {
		err = judge_link(j, port);
		if (!err)
			err = judge_port(j, port);
	}
	return err;
}

int fabric_open(struct fabric *f, void *mapping, size_t bytes, char *why, size_t room)
{
	struct judge j = { .f = f, .why = why, .room = room };
	int err;

	memset(f, 0, sizeof(*f));
	err = judge_head(&j, mapping, bytes);
	if (err)
		return err;
	f->place = calloc(f->nodes + 1, sizeof(*f->place));
	f->owner = calloc(f->ports + 1, sizeof(*f->owner));
	err = f->place && f->owner ? judge_all(&j, mapping, bytes) : -ENOMEM;
	if (!err)
		err = adapters_join(f);
	if (err)
		fabric_close(f);
	return err;
}

void fabric_close(struct fabric *f)
{
	free(f->place);
	free(f->owner);
	memset(f, 0, sizeof(*f));
}

static int judge_lids(const struct judge *j, const struct fabric *f, uint32_t port, uint8_t *taken)
{
	unsigned lid = FABRIC_READ(f->port[port].lid), lmc = FABRIC_READ(f->port[port].lmc);

	if (!lid)
		return 0;
	if (lmc > LMC_MOST || lid + (1u << lmc) > f->lids || lid & ((1u << lmc) - 1))
		return refuse(j, "port %u has LID %u and LMC %u, of %u LIDs", port, lid, lmc, f->lids);
	for (unsigned i = lid; i < lid + (1u << lmc); i++) {
		if (taken[i]++)
			return refuse(j, "port %u and another one have LID %u", port, i);
	}
	return 0;
}

int fabric_check_lids(const struct fabric *f, char *why, size_t room)
{
	struct judge j = { .why = why, .room = room };
	uint8_t *taken = calloc(LIDS, 1);
	int err = taken ? 0 : -ENOMEM;

	for (uint32_t port = 0; !err && port < f->ports; port++)
		err = judge_lids(&j, f, port, taken);
	free(taken);
	return err;
}

/* ---- writing ---- */

void fabric_write(struct fabric *f, uint32_t node)
{
	uint32_t sequence = atomic_load_explicit(&f->node[node].sequence, memory_order_relaxed);

	atomic_store_explicit(&f->node[node].sequence, sequence | 1, memory_order_relaxed);
	atomic_thread_fence(memory_order_release);
}

void fabric_written(struct fabric *f, uint32_t node)
{
	uint32_t sequence = atomic_load_explicit(&f->node[node].sequence, memory_order_relaxed);

	atomic_store_explicit(&f->node[node].sequence, (sequence | 1) + 1, memory_order_release);
}

static void set_state(struct fabric *f, uint32_t port, bool is_up)
{
	fabric_write(f, f->owner[port]);
	FABRIC_SET(f->port[port].state, is_up ? PORT_ACTIVE : PORT_DOWN);
	FABRIC_SET(f->port[port].phys_state, is_up ? PHYS_LINK_UP : PHYS_POLLING);
	FABRIC_SET(f->port[port].unplugged, !is_up);
	fabric_written(f, f->owner[port]);
}

static void set_fault(struct fabric *f, uint32_t port, uint32_t loss_ppm, uint32_t rate_kbps, uint64_t seed)
{
	struct fabric_port *p = &f->port[port];
	bool had = p->loss_ppm || p->rate_kbps, has = loss_ppm || rate_kbps;

	fabric_write(f, f->owner[port]);
	FABRIC_SET(p->loss_ppm, loss_ppm);
	FABRIC_SET(p->rate_kbps, rate_kbps);
	FABRIC_SET(p->fault_seed, seed);
	FABRIC_SET(f->head->faults, f->head->faults + has - had);
	fabric_written(f, f->owner[port]);
}

uint32_t fabric_rate(const struct fabric *f, uint32_t port)
{
	const struct fabric_port *p = &f->port[port];
	uint32_t slow = FABRIC_READ(p->rate_kbps), own = 0;

	if (FABRIC_READ(f->head->rated))
		own = 1000 * link_mbps(FABRIC_READ(p->width), FABRIC_READ(p->speed));
	return slow && (!own || slow < own) ? slow : own;
}

void fabric_set_fault(struct fabric *f, uint32_t port, uint32_t loss_ppm, uint32_t rate_kbps, uint64_t seed)
{
	uint32_t peer = fabric_peer(f, port);

	set_fault(f, port, loss_ppm, rate_kbps, seed);
	if (peer != PORT_NONE)
		set_fault(f, peer, loss_ppm, rate_kbps, seed);
}

void fabric_set_link(struct fabric *f, uint32_t port, bool is_up)
{
	uint32_t peer = fabric_peer(f, port);

	set_state(f, port, is_up);
	if (peer != PORT_NONE)
		set_state(f, peer, is_up);
}
