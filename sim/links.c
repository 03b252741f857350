/* Frames on the links: when they arrive, and what chance and faults do to them on the way. */
#include "parts.h"

#include "wire/addr.h"
#include "wire/header.h"
#include "wire/packet.h"

#include <stdlib.h>
#include <string.h>

enum { LINE_BYTES = 1024 };

void links_trace(const struct sim_node *node, const char *what, const struct packet *p)
{
	struct sim *sim = node->sim;
	char line[LINE_BYTES] = "";

	if (!sim->trace)
		return;
	if (p)
		packet_dump(p, line, sizeof(line));
	fprintf(sim->trace, "%llu %d %s %s\n", (unsigned long long)sim->now, node_number(node), what, line);
}

static void launch(struct sim_node *from, struct sim_node *to, const void *bytes, uint32_t n, wtime at)
{
	struct sim_frame *frame = malloc(sizeof(*frame) + n);
	struct timer_heap *frames = &from->sim->frames;

	if (!frame || timer_heap_reserve(frames, frames->count + 1) < 0)
		abort();
	*frame = (struct sim_frame){ .from = from, .to = to, .bytes = n, .is_before_hub = from->sim->config.hub.room_bytes };
	memcpy(frame->frame, bytes, n);
	from->under_way++;
	to->launched++;
	timer_heap_insert(frames, &frame->at, at);
}

unsigned links_lane(const struct sim *sim, const struct packet_path *path)
{
	unsigned lanes = sim->config.lanes, half = lanes / 2;
	unsigned hash = sim->config.form == PACKET_IB ? path->dlid : path->udp_sport;

	if (lanes < 2)
		return 0;
	return sim->config.two_addresses ? hash % half + (node_is_second(sim, path) ? half : 0) : hash % lanes;
}

/* In order: each frame comes after the one before on its way, unless chance reorders it. */
static wtime arrival(struct sim_node *from, uint32_t bytes, bool in_order, unsigned lane)
{
	const struct sim_link *link = &from->sim->config.link;
	const struct sim_lane *by = &from->sim->config.lane[lane];
	wtime takes = bytes * (link->byte_ns + by->byte_ns), at = from->sim->now + link->delay_ns + by->delay_ns + takes;
	wtime *last = &from->last_arrival[lane];

	if (!in_order)
		return at + rand_below(&from->sim->rand, link->reorder_ns + 1);
	if (from->sim->config.lanes && at < *last + takes)	/* it waits until the one before has left */
		at = *last + takes;
	if (at <= *last)
		at = *last + 1 + takes;
	*last = at;
	return at;
}

void sim_launch(struct sim *sim, int from, int to, const void *frame, uint32_t bytes)
{
	launch(&sim->node[from], &sim->node[to], frame, bytes, arrival(&sim->node[from], bytes, true, 0));
}

static bool is_multicast(const struct packet *p)
{
	if (p->form == PACKET_IB)
		return p->path.dlid >= MLID_FIRST;
	return gid_is_multicast(p->path.dgid) || (p->path.is_ipv4 && gid_is_ipv4_multicast(p->path.dgid));
}

static void deliver_to_all(struct sim_node *from, const uint8_t *frame, uint32_t bytes, bool in_order, unsigned lane)
{
	struct sim *sim = from->sim;

	for (int i = 0; i < sim->config.nodes; i++)
		launch(from, &sim->node[i], frame, bytes, arrival(from, bytes, in_order, lane));
}

static void carry(struct sim_node *from, const struct packet *p, const uint8_t *frame, uint32_t bytes, bool in_order)
{
	struct sim_node *to = node_at(from->sim, &p->path);
	unsigned lane = links_lane(from->sim, &p->path);

	if (is_multicast(p))
		deliver_to_all(from, frame, bytes, in_order, lane);
	else if (to)
		launch(from, to, frame, bytes, arrival(from, bytes, in_order, lane));
}

static void flip_a_bit(struct sim *sim, uint8_t *frame, uint32_t bytes)
{
	uint64_t bit = rand_below(&sim->rand, bytes * 8ull);

	frame[bit / 8] ^= (uint8_t)(1 << bit % 8);
}

static bool fault_is_due(const struct sim_node *from, enum sim_fault_kind kind)
{
	const struct sim *sim = from->sim;

	for (unsigned i = 0; i < sim->faults; i++)
		if (sim->fault[i].kind == kind && sim->fault[i].node == node_number(from) && sim->fault[i].nth == from->sent)
			return true;
	return false;
}

static void hold(struct sim_node *from, const uint8_t *frame, uint32_t bytes)
{
	from->held = malloc(bytes);
	if (!from->held)
		abort();
	memcpy(from->held, frame, bytes);
	from->held_bytes = bytes;
}

static void release(struct sim_node *from)
{
	struct packet p;

	if (packet_parse(&p, from->sim->config.form, from->held, from->held_bytes, false) == PACKET_OK)
		carry(from, &p, from->held, from->held_bytes, true);
	free(from->held);
	from->held = NULL;
}

/* Does what waits for the way leave room for no more? */
static bool lane_is_full(const struct sim_node *from, unsigned number, uint32_t bytes)
{
	const struct sim_lane *lane = &from->sim->config.lane[number];
	wtime byte_ns = lane->byte_ns + from->sim->config.link.byte_ns;
	wtime begins = from->sim->now + from->sim->config.link.delay_ns + lane->delay_ns, last = from->last_arrival[number];

	return lane->room_bytes && last > begins && (last - begins) / byte_ns + bytes > lane->room_bytes;
}

/* Every chance is drawn for every frame, so that one setting does not shift what another does. */
void links_transmit(struct sim_node *from, const struct packet *p)
{
	struct sim *sim = from->sim;
	const struct sim_link *link = &sim->config.link;
	unsigned number = links_lane(sim, &p->path);
	const struct sim_lane *lane = &sim->config.lane[number];
	bool lost = rand_chance(&sim->rand, link->loss + lane->loss) || fault_is_due(from, SIM_DROP) ||
		    sim->is_cut[node_is_second(sim, &p->path)] || lane->is_cut || (lane->is_cut_back && from == &sim->node[1]) ||
		    lane_is_full(from, number, (uint32_t)packet_bytes(p));
	bool doubled = rand_chance(&sim->rand, link->duplicate) || fault_is_due(from, SIM_DUPLICATE);
	bool late = rand_chance(&sim->rand, link->reorder);
	bool flipped = rand_chance(&sim->rand, link->corrupt) || fault_is_due(from, SIM_CORRUPT);
	bool swapped = fault_is_due(from, SIM_SWAP);
	uint8_t frame[PACKET_MAX_BYTES];
	uint32_t bytes = (uint32_t)packet_build(p, frame, sizeof(frame));

	if (sim->tap)
		sim->tap(sim->tap_arg, node_number(from), p);
	links_trace(from, lost ? "loses" : flipped ? "spoils" : "sends", p);
	from->sent++;
	if (flipped)
		flip_a_bit(sim, frame, bytes);
	if (swapped && !from->held) {
		hold(from, frame, bytes);
		return;
	}
	if (lost)
		sim->dropped++;
	else
		carry(from, p, frame, bytes, !late);
	if (doubled)
		carry(from, p, frame, bytes, link->reorder_ns == 0);
	if (from->held)
		release(from);
}

bool links_release_held(struct sim *sim)
{
	struct sim_node *first = NULL;

	/* only a fault holds a frame */
	for (unsigned i = 0; i < sim->faults; i++) {
		struct sim_node *node = &sim->node[sim->fault[i].node];

		if (node->held && (!first || node < first))
			first = node;
	}
	if (first)
		release(first);
	return first;
}

struct sim_frame *links_next(const struct sim *sim)
{
	struct timer_heap_node *first = timer_heap_min(&sim->frames);

	return first ? container_of(first, struct sim_frame, at) : NULL;
}

/* RFC 3168, 5: only what says that its transport understands marks. */
static bool mark(const struct sim *sim, struct sim_frame *frame)
{
	struct packet_path path;
	size_t header;

	if (sim->config.form != PACKET_ROCE ||
	    packet_parse_path(&path, frame->frame, frame->bytes, &header) != PACKET_OK || !(path.tclass & ECN_BITS))
		return false;
	path.tclass |= ECN_CE;
	packet_build_path(&path, frame->frame, frame->bytes);
	return true;
}

void links_forward(struct sim_frame *frame)
{
	struct sim_node *to = frame->to;
	struct sim *sim = to->sim;
	const struct sim_switch *hub = &sim->config.hub;
	struct sim_port *port = &to->port;
	wtime begins = port->free_at > sim->now ? port->free_at : sim->now;
	uint64_t waiting = hub->byte_ns ? (begins - sim->now) / hub->byte_ns : 0;

	if (waiting + frame->bytes > hub->room_bytes) {
		port->dropped++;
		sim->dropped++;
		links_leave(frame);
		links_done(frame);
		return;
	}
	if (hub->mark_bytes && waiting >= hub->mark_bytes)
		port->marked += mark(sim, frame);
	if (waiting + frame->bytes > port->deepest)
		port->deepest = (uint32_t)waiting + frame->bytes;
	port->frames++;
	port->bytes += frame->bytes;
	port->queued += waiting;
	port->free_at = begins + frame->bytes * hub->byte_ns;
	frame->is_before_hub = false;
	if (timer_heap_reserve(&sim->frames, sim->frames.count + 1) < 0)
		abort();
	timer_heap_insert(&sim->frames, &frame->at, port->free_at + sim->config.link.delay_ns);
}

void links_leave(struct sim_frame *frame)
{
	frame->from->under_way--;
	frame->to->taken++;
}

void links_done(struct sim_frame *frame)
{
	if (node_room(frame->from)) {
		ca_unblock(&frame->from->ca);
		loop_touch(frame->from);
	}
	free(frame);
}

bool sim_lose_next(struct sim *sim)
{
	struct sim_frame *frame = links_next(sim);

	if (!frame)
		return false;
	timer_heap_remove(&sim->frames, &frame->at);
	links_leave(frame);
	sim->dropped++;
	links_done(frame);
	return true;
}

bool sim_delay_next(struct sim *sim, wtime ns)
{
	struct sim_frame *frame = links_next(sim);

	if (frame)
		timer_heap_update(&sim->frames, &frame->at, frame->at.at + ns);
	return frame;
}

bool sim_spoil_next(struct sim *sim, uint32_t bit)
{
	struct sim_frame *frame = links_next(sim);

	if (!frame)
		return false;
	bit %= frame->bytes * 8;
	frame->frame[bit / 8] ^= (uint8_t)(1 << bit % 8);
	return true;
}

bool sim_double_next(struct sim *sim)
{
	struct sim_frame *frame = links_next(sim);

	if (frame)
		launch(frame->from, frame->to, frame->frame, frame->bytes, frame->at.at + 1);
	return frame;
}

void sim_fault_add(struct sim *sim, enum sim_fault_kind kind, int node, uint32_t nth)
{
	if (sim->faults < SIM_FAULTS)
		sim->fault[sim->faults++] = (struct sim_fault){ kind, node, nth };
}
