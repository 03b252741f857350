/* A node: its addresses and numbers, and what its adapter asks of its owner. Addresses tell nodes apart, as they do on a network;
 * two nodes may have QPs of the same number. */
#include "parts.h"

#include "ib/ib.h"
#include "wire/addr.h"

#include <errno.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

enum {
	IPV4_HOSTS = (1 << 24) - 2,	/* in 10.0.0.0/8 */
	SECOND_IPV4 = 0x80,		/* of the second byte: 10.128.0.0/9 */
	QPN_LOW_BITS = 20,
	QPN_HIGHS = 15,			/* values of the bits above, but 0: so QP0, QP1 and 0xffffff are nobody's */
};

int node_numbers(const struct sim_config *config)
{
	int numbers = config->form == PACKET_IB ? UNICAST_LID_LAST : IPV4_HOSTS;

	return config->two_addresses ? numbers / 2 - 1 : (numbers >> config->lmc) - !!config->lmc;
}

static const struct device_protocol *protocol_of(enum packet_form form)
{
	return form == PACKET_IB ? &protocol_ib : &protocol_roce_v2;
}

/* Node n has LID n + 1 and fe80::(n + 1), or 10.0.0.0 + n + 1. */
static void fill_gid(enum packet_form form, struct ca_gid *gid, int number, bool is_second)
{
	uint32_t host = htobe32((uint32_t)number + 1);

	gid->valid = true;
	gid->type = protocol_of(form)->gid_type;
	memcpy(gid->raw + 12, &host, sizeof(host));
	if (form == PACKET_ROCE) {
		gid->raw[10] = gid->raw[11] = 0xff;	/* ::ffff:10.x.y.z */
		gid->raw[12] = 10;
		if (is_second)
			gid->raw[13] |= SECOND_IPV4;
	} else {
		gid->raw[0] = 0xfe;
		gid->raw[1] = 0x80;
	}
}

static uint32_t host_of(const uint8_t gid[16])
{
	return (uint32_t)gid[13] << 16 | (uint32_t)gid[14] << 8 | gid[15];
}

struct sim_node *node_at(const struct sim *sim, const struct packet_path *path)
{
	bool has_lids = sim->config.form == PACKET_IB, two = sim->config.two_addresses;
	uint32_t host = has_lids ? (uint32_t)path->dlid >> (two + sim->config.lmc) :
				   host_of(path->dgid) & ~(two ? (uint32_t)SECOND_IPV4 << 16 : 0);
	struct sim_node *node = host && host <= (uint32_t)sim->config.nodes ? &sim->node[host - 1] : NULL;

	return node && !has_lids && device_gid_index(node->dev, path->dgid) < 0 ? NULL : node;
}

bool node_is_second(const struct sim *sim, const struct packet_path *path)
{
	if (!sim->config.two_addresses)
		return false;
	return sim->config.form == PACKET_IB ? path->dlid & 1 : path->dgid[13] & SECOND_IPV4;
}

/* What the node's QP numbers have in their upper bits: other than its neighbours' have. */
static uint32_t qpn_high(const struct sim_node *node)
{
	return (uint32_t)(node_number(node) % QPN_HIGHS + 1);
}

/* ---- what the adapter asks ---- */

static void cq_event(void *owner, struct cq *cq)
{
	((struct sim_node *)owner)->cq_events++;
}

static void async_event(void *owner, enum ibv_event_type type, void *object)
{
	struct sim_node *node = owner;

	if (node->events < SIM_EVENTS)
		node->event[node->events++] = (struct sim_event){ type, object };
	if (node->sim->trace)
		fprintf(node->sim->trace, "%llu %d event %d\n", (unsigned long long)node->sim->now, node_number(node), type);
}

unsigned node_room(const struct sim_node *node)
{
	uint32_t limit = node->sim->config.link.room;

	if (!limit)
		return UINT_MAX;
	return node->under_way < limit ? limit - node->under_way : 0;
}

/* A route's place is the node. */
static void route(void *owner, const struct ca_device *dev, const struct packet_path *path, struct route *r)
{
	const struct sim *sim = ((struct sim_node *)owner)->sim;
	struct sim_node *node = node_at(sim, path);

	if (node && (!path->has_grh || device_gid_index(node->dev, path->dgid) >= 0)) {
		r->kind = sim->config.is_network ? ROUTE_LINK : ROUTE_CHANNEL;
		r->place = node;
	}
}

/* Pairs of LIDs with the same path bits. */
static unsigned lid_paths(void *owner, const struct ca_device *dev, uint16_t pkey, const struct packet_path *path,
			  const struct route *r, struct lid_pair pair[LID_PATHS])
{
	const struct sim *sim = ((struct sim_node *)owner)->sim;
	unsigned n = 0;

	for (unsigned bits = 0; bits < 1u << dev->lmc && n < LID_PATHS; bits++)
		if (!(sim->config.unnamed >> bits & 1))
			pair[n++] = (struct lid_pair){ (uint16_t)(dev->lid | bits), (uint16_t)(path->dlid | bits) };
	return n;
}

static unsigned room(void *owner, const struct ca_device *dev, const struct route *r, const struct av *av)
{
	return node_room(owner);
}

static bool origin_matches(void *owner, origin_t origin, const struct route *back)
{
	const struct sim_node *from = back->place;

	return from && origin == node_origin(from) && (uint32_t)back->qpn >> QPN_LOW_BITS == qpn_high(from);
}

static bool undelivered(void *owner, const struct route *r, uint64_t *mark)
{
	const struct sim *sim = ((struct sim_node *)owner)->sim;
	const struct sim_node *to = r->place;

	if (!sim->config.link.keeps || !to || to->deaf)
		return false;
	if (!*mark)
		*mark = to->launched + 1;
	return to->taken + 1 < *mark;
}

static int copy_safely(void *owner, void *to, const void *from, size_t bytes)
{
	if (((struct sim_node *)owner)->memory_gone)
		return -EFAULT;
	memcpy(to, from, bytes);
	return 0;
}

static int mcast(void *owner, struct ca_device *dev, const uint8_t gid[16], bool joined)
{
	return 0;
}

static int qpn_alloc(void *owner, uint32_t *qpn)
{
	struct sim_node *node = owner;

	if (node->next_qpn >= 1 << QPN_LOW_BITS)
		return -ENOMEM;
	*qpn = qpn_high(node) << QPN_LOW_BITS | node->next_qpn++;
	return 0;
}

static void qpn_free(void *owner, uint32_t qpn)
{
}

static const struct ca_ops ops = {
	.cq_event = cq_event, .async_event = async_event, .route = route, .lid_paths = lid_paths, .space = room,
	.origin_matches = origin_matches, .undelivered = undelivered,
	.read_program = copy_safely, .write_program = copy_safely, .mcast = mcast, .qpn_alloc = qpn_alloc, .qpn_free = qpn_free,
};

/* ---- life ---- */

int node_init(struct sim *sim, int number)
{
	struct sim_node *node = &sim->node[number];
	struct ca_device dev = {
		.name = "sim", .protocol = protocol_of(sim->config.form), .transport = &ib_transport,
		.guid = (uint64_t)number + 1, .lid = (uint16_t)(number + 1), .sm_lid = 1,
		.active_mtu = sim->config.mtu, .max_mtu = IBV_MTU_4096, .port_state = IBV_PORT_ACTIVE, .pkeys = 1,
		.pkey = { 0xffff },
		.may_reorder = sim->config.link.reorder > 0,
	};
	struct ca_config config = {
		.ops = &ops, .owner = node, .direct_arg = node, .arena_bytes = sim->config.arena_bytes,
		.seed = rand_u64(&sim->rand), .dev = &dev, .devices = 1,
	};

	fill_gid(sim->config.form, &dev.gid[0], number, false);
	if (sim->config.two_addresses && sim->config.form == PACKET_ROCE)
		fill_gid(sim->config.form, &dev.gid[1], number, true);
	else if (sim->config.two_addresses) {
		dev.lid = (uint16_t)(2 * (number + 1));
		dev.lmc = 1;
	} else if (sim->config.lmc) {
		dev.lid = (uint16_t)((number + 1) << sim->config.lmc);
		dev.lmc = sim->config.lmc;
	}
	node->sim = sim;
	list_init(&node->parked);
	node->next_qpn = 1 + (uint32_t)rand_below(&sim->rand, SIM_QPNS);
	node->arena = mmap(NULL, sim->config.arena_bytes, PROT_READ | PROT_WRITE,
			   MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	if (node->arena == MAP_FAILED)
		return -ENOMEM;
	config.arena = node->arena;
	if (ca_init(&node->ca, &config) < 0) {
		munmap(node->arena, sim->config.arena_bytes);
		return -ENOMEM;
	}
	node->dev = &node->ca.dev[0];
	return 0;
}

void node_fini(struct sim_node *node)
{
	struct list_node *n;

	while ((n = list_pop(&node->parked)))
		free(container_of(n, struct sim_frame, parked));
	free(node->held);
	ca_fini(&node->ca);
	munmap(node->arena, node->sim->config.arena_bytes);
}

unsigned sim_events(const struct sim_node *node, enum ibv_event_type type)
{
	unsigned n = 0;

	for (unsigned i = 0; i < node->events; i++)
		n += node->event[i].type == type;
	return n;
}
