/* The event loop, the links and the hosts' side of the adapters. */
#include "sim.h"

#include "ib/ib.h"
#include "wire/packet.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

enum { ARENA_BYTES = 16 << 20, LINE_BYTES = 1024 };

/* A frame under way. */
struct sim_frame {
	struct heap_node at;
	struct sim_node *from, *to;
	uint32_t bytes;
	uint8_t frame[];
};

static void trace(struct sim *sim, const struct sim_node *node, const char *what, const struct packet *p)
{
	char line[LINE_BYTES] = "";

	if (!sim->trace)
		return;
	if (p)
		packet_dump(p, line, sizeof(line));
	fprintf(sim->trace, "%llu %d %s %s\n", (unsigned long long)sim->now, (int)(node - sim->node), what, line);
}

/* ---- links ---- */

static void launch(struct sim *sim, struct sim_node *from, struct sim_node *to, const void *bytes, uint32_t n, wtime at)
{
	struct sim_frame *frame = malloc(sizeof(*frame) + n);

	if (!frame || heap_reserve(&sim->frames, sim->frames.count + 1) < 0)
		abort();
	*frame = (struct sim_frame){ .from = from, .to = to, .bytes = n };
	memcpy(frame->frame, bytes, n);
	from->under_way++;
	heap_insert(&sim->frames, &frame->at, at);
}

/* In order: each frame comes after the one before, unless chance reorders it. */
static wtime arrival(struct sim *sim, struct sim_node *from, uint32_t bytes, bool in_order)
{
	const struct sim_link *link = &sim->config.link;
	wtime at = sim->now + link->delay_ns + bytes * link->byte_ns;

	if (!in_order)
		return at + rand_below(&sim->rand, link->reorder_ns + 1);
	if (at <= from->last_arrival)
		at = from->last_arrival + 1 + bytes * link->byte_ns;
	from->last_arrival = at;
	return at;
}

static int node_of(const struct sim *sim, const struct packet *p)
{
	return sim->config.form == PACKET_IB ? p->path.dlid - 1 : p->path.dgid[15] - 1;
}

static bool is_multicast(const struct packet *p)
{
	if (p->form == PACKET_IB)
		return p->path.dlid >= 0xc000;
	return p->path.dgid[0] == 0xff || (p->path.is_ipv4 && p->path.dgid[12] >> 4 == 0xe);
}

static void deliver_to_all(struct sim *sim, struct sim_node *from, const uint8_t *frame, uint32_t bytes, bool in_order)
{
	for (int i = 0; i < sim->config.nodes; i++)
		launch(sim, from, &sim->node[i], frame, bytes, arrival(sim, from, bytes, in_order));
}

static void carry(struct sim *sim, struct sim_node *from, const struct packet *p, const uint8_t *frame, uint32_t bytes,
		  bool in_order)
{
	int to = node_of(sim, p);

	if (is_multicast(p))
		deliver_to_all(sim, from, frame, bytes, in_order);
	else if (to >= 0 && to < sim->config.nodes)
		launch(sim, from, &sim->node[to], frame, bytes, arrival(sim, from, bytes, in_order));
}

static void carry_frame(struct sim *sim, struct sim_node *from, const uint8_t *frame, uint32_t bytes)
{
	struct packet p;

	if (packet_parse(&p, sim->config.form, frame, bytes, false) == PACKET_OK)
		carry(sim, from, &p, frame, bytes, true);
}

static void flip_a_bit(struct sim *sim, uint8_t *frame, uint32_t bytes)
{
	uint64_t bit = rand_below(&sim->rand, bytes * 8ull);

	frame[bit / 8] ^= (uint8_t)(1 << bit % 8);
}

static bool fault_is_due(const struct sim *sim, const struct sim_node *from, enum sim_fault_kind kind)
{
	for (unsigned i = 0; i < sim->faults; i++)
		if (sim->fault[i].kind == kind && &sim->node[sim->fault[i].node] == from && sim->fault[i].nth == from->sent)
			return true;
	return false;
}

/* Every chance is drawn for every frame, so that one setting does not shift what another does. */
static void transmit(struct sim *sim, struct sim_node *from, const struct packet *p)
{
	const struct sim_link *link = &sim->config.link;
	bool lost = rand_chance(&sim->rand, link->loss) || fault_is_due(sim, from, SIM_DROP);
	bool doubled = rand_chance(&sim->rand, link->duplicate) || fault_is_due(sim, from, SIM_DUPLICATE);
	bool late = rand_chance(&sim->rand, link->reorder);
	bool flipped = rand_chance(&sim->rand, link->corrupt) || fault_is_due(sim, from, SIM_CORRUPT);
	bool swapped = fault_is_due(sim, from, SIM_SWAP);
	uint8_t frame[PACKET_MAX_BYTES];
	uint32_t bytes = (uint32_t)packet_build(p, frame, sizeof(frame));

	if (sim->tap)
		sim->tap(sim->tap_arg, (int)(from - sim->node), p);
	trace(sim, from, lost ? "loses" : flipped ? "spoils" : "sends", p);
	from->sent++;
	if (flipped)
		flip_a_bit(sim, frame, bytes);
	if (swapped && !from->held_bytes) {
		memcpy(from->held, frame, bytes);
		from->held_bytes = bytes;
		return;
	}
	if (lost)
		sim->dropped++;
	else
		carry(sim, from, p, frame, bytes, !late);
	if (doubled)
		carry(sim, from, p, frame, bytes, link->reorder_ns == 0);
	if (from->held_bytes) {
		carry_frame(sim, from, from->held, from->held_bytes);
		from->held_bytes = 0;
	}
}

/* ---- the adapters' host ---- */

static void cq_event(void *host, struct cq *cq)
{
	((struct sim_node *)host)->cq_events++;
}

static void async_event(void *host, enum ibv_event_type type, void *object)
{
	struct sim_node *node = host;

	if (node->events < SIM_EVENTS)
		node->event[node->events++] = (struct sim_event){ type, object };
	if (node->sim->trace)
		fprintf(node->sim->trace, "%llu %d event %d\n", (unsigned long long)node->sim->now,
			(int)(node - node->sim->node), type);
}

static bool room(void *host, const struct ca_device *dev, uint32_t dest_qpn, const struct av *av)
{
	const struct sim_node *node = host;
	uint32_t limit = node->sim->config.link.room;

	return !limit || node->under_way < limit;
}

static int copy_safely(void *host, void *to, const void *from, size_t bytes)
{
	if (((struct sim_node *)host)->memory_gone)
		return -EFAULT;
	memcpy(to, from, bytes);
	return 0;
}

static int mcast(void *host, struct ca_device *dev, const uint8_t gid[16], bool joined)
{
	return 0;
}

static int qpn_alloc(void *host, uint32_t *qpn)
{
	struct sim_node *node = host;

	*qpn = (uint32_t)(node - node->sim->node + 1) << 20 | node->next_qpn++;
	return 0;
}

static void qpn_free(void *host, uint32_t qpn)
{
}

static const struct ca_host host_ops = {
	.cq_event = cq_event, .async_event = async_event, .room = room, .copy_safely = copy_safely, .mcast = mcast,
	.qpn_alloc = qpn_alloc, .qpn_free = qpn_free,
};

/* ---- the loop ---- */

void sim_pump(struct sim *sim)
{
	struct packet_out out;

	for (int i = 0; i < sim->config.nodes; i++) {
		struct sim_node *node = &sim->node[i];

		do {
			while (ca_output(&node->ca, sim->now, &out))
				transmit(sim, node, &out.packet);
		} while (ca_resume(&node->ca));
	}
}

void sim_inject(struct sim *sim, int node, const void *frame, size_t bytes)
{
	struct sim_node *to = &sim->node[node];
	enum packet_error error;
	struct packet p;

	if (to->deaf)
		return;
	error = packet_parse(&p, sim->config.form, frame, bytes, true);
	if (error) {
		sim->corrupted += error == PACKET_BAD_ICRC;
		trace(sim, to, packet_error_name(error), NULL);
		return;
	}
	ca_input(&to->ca, to->dev, sim->now, &p);
}

/* A held frame waits for the next only as long as something moves. */
static bool release_held(struct sim *sim)
{
	for (int i = 0; i < sim->config.nodes; i++) {
		struct sim_node *node = &sim->node[i];

		if (!node->held_bytes)
			continue;
		carry_frame(sim, node, node->held, node->held_bytes);
		node->held_bytes = 0;
		return true;
	}
	return false;
}

static struct sim_frame *next_frame(const struct sim *sim)
{
	struct heap_node *first = heap_min(&sim->frames);

	return first ? container_of(first, struct sim_frame, at) : NULL;
}

static void land(struct sim *sim, struct sim_frame *frame)
{
	struct sim_node *from = frame->from;

	heap_remove(&sim->frames, &frame->at);
	from->under_way--;
	sim_inject(sim, (int)(frame->to - sim->node), frame->frame, frame->bytes);
	free(frame);
	if (room(from, from->dev, 0, NULL))
		ca_unblock(&from->ca);
}

static wtime deadline(const struct sim *sim)
{
	wtime at = WTIME_NEVER;

	for (int i = 0; i < sim->config.nodes; i++)
		at = wtime_min(at, ca_deadline(&sim->node[i].ca));
	return at;
}

static wtime next_time(const struct sim *sim)
{
	const struct sim_frame *frame = next_frame(sim);

	return wtime_min(frame ? frame->at.at : WTIME_NEVER, deadline(sim));
}

bool sim_step(struct sim *sim)
{
	struct sim_frame *frame;
	wtime at;

	sim_pump(sim);
	frame = next_frame(sim);
	if (!frame && release_held(sim))
		frame = next_frame(sim);
	at = next_time(sim);
	if (at == WTIME_NEVER)
		return false;
	if (at > sim->now)
		sim->now = at;
	if (frame && frame->at.at <= sim->now)
		land(sim, frame);
	else
		for (int i = 0; i < sim->config.nodes; i++)
			ca_expire(&sim->node[i].ca, sim->now);
	sim_pump(sim);
	return true;
}

void sim_run(struct sim *sim, wtime until)
{
	sim_pump(sim);
	while (next_time(sim) <= until || release_held(sim))
		if (!sim_step(sim))
			return;
}

void sim_advance(struct sim *sim, wtime ns)
{
	sim->now += ns;
}

bool sim_lose_next(struct sim *sim)
{
	struct sim_frame *frame = next_frame(sim);

	if (!frame)
		return false;
	heap_remove(&sim->frames, &frame->at);
	frame->from->under_way--;
	sim->dropped++;
	if (room(frame->from, frame->from->dev, 0, NULL))
		ca_unblock(&frame->from->ca);
	free(frame);
	return true;
}

bool sim_delay_next(struct sim *sim, wtime ns)
{
	struct sim_frame *frame = next_frame(sim);

	if (frame)
		heap_update(&sim->frames, &frame->at, frame->at.at + ns);
	return frame;
}

bool sim_spoil_next(struct sim *sim, uint32_t bit)
{
	struct sim_frame *frame = next_frame(sim);

	if (!frame)
		return false;
	bit %= frame->bytes * 8;
	frame->frame[bit / 8] ^= (uint8_t)(1 << bit % 8);
	return true;
}

bool sim_double_next(struct sim *sim)
{
	struct sim_frame *frame = next_frame(sim);

	if (frame)
		launch(sim, frame->from, frame->to, frame->frame, frame->bytes, frame->at.at + 1);
	return frame;
}

void sim_fault_add(struct sim *sim, enum sim_fault_kind kind, int node, uint32_t nth)
{
	if (sim->faults < SIM_FAULTS)
		sim->fault[sim->faults++] = (struct sim_fault){ kind, node, nth };
}

const char *sim_trace(struct sim *sim)
{
	if (!sim->trace)
		return "";
	fflush(sim->trace);
	return sim->text;
}

unsigned sim_events(const struct sim_node *node, enum ibv_event_type type)
{
	unsigned n = 0;

	for (unsigned i = 0; i < node->events; i++)
		n += node->event[i].type == type;
	return n;
}

/* ---- life ---- */

static void fill_gid(const struct sim *sim, struct ca_gid *gid, int node)
{
	gid->valid = true;
	gid->type = sim->config.form == PACKET_ROCE ? IBV_GID_TYPE_ROCE_V2 : IBV_GID_TYPE_IB;
	if (sim->config.form == PACKET_ROCE) {
		gid->raw[10] = gid->raw[11] = 0xff;	/* ::ffff:10.0.0.n */
		gid->raw[12] = 10;
	} else {
		gid->raw[0] = 0xfe;			/* fe80::n */
		gid->raw[1] = 0x80;
	}
	gid->raw[15] = (uint8_t)(node + 1);
}

static int node_init(struct sim *sim, int i)
{
	struct sim_node *node = &sim->node[i];
	struct ca_device dev = {
		.name = "sim", .form = sim->config.form, .guid = (uint64_t)i + 1, .lid = (uint16_t)(i + 1), .sm_lid = 1,
		.active_mtu = sim->config.mtu, .max_mtu = IBV_MTU_4096, .port_state = IBV_PORT_ACTIVE, .pkey = { 0xffff },
		.may_reorder = sim->config.link.reorder > 0,
	};
	struct ca_config config = {
		.host_ops = &host_ops, .host = node, .transport = &ib_transport, .arena_bytes = sim->config.arena_bytes,
		.seed = rand_u64(&sim->rand), .dev = &dev, .devices = 1,
	};

	fill_gid(sim, &dev.gid[0], i);
	node->sim = sim;
	node->next_qpn = 1 + (uint32_t)rand_below(&sim->rand, SIM_QPNS);
	node->arena = mmap(NULL, sim->config.arena_bytes, PROT_READ | PROT_WRITE,
			   MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	if (node->arena == MAP_FAILED)
		return -ENOMEM;
	config.arena = node->arena;
	if (ca_init(&node->ca, &config) < 0) {
		munmap(node->arena, node->sim->config.arena_bytes);
		return -ENOMEM;
	}
	node->dev = &node->ca.dev[0];
	return 0;
}

static void node_fini(struct sim_node *node)
{
	ca_fini(&node->ca);
	munmap(node->arena, node->sim->config.arena_bytes);
}

struct sim *sim_new(const struct sim_config *config)
{
	struct sim *sim = calloc(1, sizeof(*sim));
	int i = 0;

	if (!sim)
		return NULL;
	sim->config = *config;
	if (!sim->config.arena_bytes)
		sim->config.arena_bytes = ARENA_BYTES;
	sim->now = 1;
	rand_seed(&sim->rand, config->seed);
	heap_init(&sim->frames);
	if (config->trace)
		sim->trace = open_memstream(&sim->text, &sim->text_bytes);
	for (; i < config->nodes; i++)
		if (node_init(sim, i) < 0)
			goto fini_nodes;
	return sim;

fini_nodes:
	while (i--)
		node_fini(&sim->node[i]);
	if (sim->trace)
		fclose(sim->trace);
	free(sim->text);
	free(sim);
	return NULL;
}

void sim_delete(struct sim *sim)
{
	while (sim_lose_next(sim))
		;
	heap_fini(&sim->frames);
	for (int i = 0; i < sim->config.nodes; i++)
		node_fini(&sim->node[i]);
	if (sim->trace)
		fclose(sim->trace);
	free(sim->text);
	free(sim);
}
