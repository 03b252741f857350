/* Frames on the links: when they arrive, and what chance and faults do to them on the way. */
#include "parts.h"

#include "wire/addr.h"
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
	*frame = (struct sim_frame){ .from = from, .to = to, .bytes = n };
	memcpy(frame->frame, bytes, n);
	from->under_way++;
	to->launched++;
	timer_heap_insert(frames, &frame->at, at);
}

/* In order: each frame comes after the one before, unless chance reorders it. */
static wtime arrival(struct sim_node *from, uint32_t bytes, bool in_order)
{
	const struct sim_link *link = &from->sim->config.link;
	wtime at = from->sim->now + link->delay_ns + bytes * link->byte_ns;

	if (!in_order)
		return at + rand_below(&from->sim->rand, link->reorder_ns + 1);
	if (at <= from->last_arrival)
		at = from->last_arrival + 1 + bytes * link->byte_ns;
	from->last_arrival = at;
	return at;
}

void sim_launch(struct sim *sim, int from, int to, const void *frame, uint32_t bytes)
{
	launch(&sim->node[from], &sim->node[to], frame, bytes, arrival(&sim->node[from], bytes, true));
}

static bool is_multicast(const struct packet *p)
{
	if (p->form == PACKET_IB)
		return p->path.dlid >= MLID_FIRST;
	return gid_is_multicast(p->path.dgid) || (p->path.is_ipv4 && gid_is_ipv4_multicast(p->path.dgid));
}

static void deliver_to_all(struct sim_node *from, const uint8_t *frame, uint32_t bytes, bool in_order)
{
	struct sim *sim = from->sim;

	for (int i = 0; i < sim->config.nodes; i++)
		launch(from, &sim->node[i], frame, bytes, arrival(from, bytes, in_order));
}

static void carry(struct sim_node *from, const struct packet *p, const uint8_t *frame, uint32_t bytes, bool in_order)
{
	struct sim_node *to = node_at(from->sim, &p->path);

	if (is_multicast(p))
		deliver_to_all(from, frame, bytes, in_order);
	else if (to)
		launch(from, to, frame, bytes, arrival(from, bytes, in_order));
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

/* Every chance is drawn for every frame, so that one setting does not shift what another does. */
void links_transmit(struct sim_node *from, const struct packet *p)
{
	struct sim *sim = from->sim;
	const struct sim_link *link = &sim->config.link;
	bool lost = rand_chance(&sim->rand, link->loss) || fault_is_due(from, SIM_DROP);
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
