/* The event loop: frames land and timers expire, each at its time, and what that makes ready is sent. */
#include "parts.h"

#include "ib/ib.h"
#include "ib/path.h"
#include "wire/packet.h"

#include <errno.h>
#include <stdlib.h>

enum { ARENA_BYTES = 16 << 20 };

/* What must be so of each QP and queue of a node whenever the engine rests, in release builds too. */
static void check(const struct sim_node *node)
{
	list_for_each(qp, &node->ca.all_qps, const struct qp, all) {
		ib_check(qp);
		wq_check(&qp->sq);
		wq_check(&qp->rq);
		if (qp->send_cq)
			cq_check(qp->send_cq);
		if (qp->recv_cq && qp->recv_cq != qp->send_cq)
			cq_check(qp->recv_cq);
	}
}

void loop_touch(struct sim_node *node)
{
	if (!timer_heap_contains(&node->turn))
		timer_heap_insert(&node->sim->touched, &node->turn, (wtime)node_number(node));
}

void sim_touch(struct sim *sim, int node)
{
	loop_touch(&sim->node[node]);
}

static void rearm(struct sim_node *node)
{
	struct timer_heap *deadlines = &node->sim->deadlines;
	wtime at = node->is_stopped ? WTIME_NEVER : ca_deadline(&node->ca);

	if (at == WTIME_NEVER)
		timer_heap_remove(deadlines, &node->deadline);
	else if (!timer_heap_contains(&node->deadline))
		timer_heap_insert(deadlines, &node->deadline, at);
	else if (node->deadline.at != at)
		timer_heap_update(deadlines, &node->deadline, at);
}

/* But for what takes a path that fails on demand (ca.cut). */
static void send_burst(struct sim_node *node, const struct burst *b)
{
	node->bursts++;
	for (unsigned i = 0; i < b->packets; i++)
		if (!b->out[i].is_cut)
			links_transmit(node, &b->out[i].packet);
}

static void send(struct sim_node *node)
{
	struct burst burst;

	if (node->is_stopped)
		return;
	do {
		while (ca_output(&node->ca, node->sim->now, &burst))
			send_burst(node, &burst);
	} while (ca_resume(&node->ca));
}

static struct sim_node *next_turn(struct timer_heap *turns)
{
	struct timer_heap_node *first = timer_heap_min(turns);

	timer_heap_remove(turns, first);
	return container_of(first, struct sim_node, turn);
}

/* Who was touched sends, by number: the trace does not depend on the order in which they were. */
static void send_touched(struct sim *sim)
{
	while (timer_heap_min(&sim->touched)) {
		struct sim_node *node = next_turn(&sim->touched);

		sim->turns++;
		send(node);
		rearm(node);
		check(node);
	}
}

void sim_pump(struct sim *sim)
{
	for (int i = 0; i < sim->config.nodes; i++)
		loop_touch(&sim->node[i]);
	send_touched(sim);
}

void sim_inject(struct sim *sim, int from, int node, const void *frame, size_t bytes)
{
	struct sim_node *to = &sim->node[node];
	enum packet_error error;
	struct packet p;

	if (to->deaf)
		return;
	error = packet_parse(&p, sim->config.form, frame, bytes, true);
	if (error) {
		sim->corrupted += error == PACKET_BAD_ICRC;
		links_trace(to, packet_error_name(error), NULL);
		return;
	}
	if (to->ca.cuts && path_loses(&to->ca, &p))
		return;
	loop_touch(to);
	ca_input(&to->ca, to->dev, sim->now, node_origin(&sim->node[from]), &p);
}

static void take(struct sim *sim, struct sim_frame *frame)
{
	links_leave(frame);
	sim_inject(sim, node_number(frame->from), node_number(frame->to), frame->frame, frame->bytes);
	links_done(frame);
}

static void land(struct sim *sim, struct sim_frame *frame)
{
	timer_heap_remove(&sim->frames, &frame->at);
	if (frame->is_before_hub)
		links_forward(frame);
	else if (frame->to->is_stopped)
		list_append(&frame->to->parked, &frame->parked);
	else
		take(sim, frame);
}

void sim_stop(struct sim *sim, int node)
{
	sim->node[node].is_stopped = true;
	rearm(&sim->node[node]);
}

void sim_continue(struct sim *sim, int node)
{
	struct list_node *n;

	sim->node[node].is_stopped = false;
	loop_touch(&sim->node[node]);
	while ((n = list_pop(&sim->node[node].parked)))
		take(sim, container_of(n, struct sim_frame, parked));
}

static wtime next_time(const struct sim *sim)
{
	const struct sim_frame *frame = links_next(sim);
	const struct timer_heap_node *deadline = timer_heap_min(&sim->deadlines);

	return wtime_min(frame ? frame->at.at : WTIME_NEVER, deadline ? deadline->at : WTIME_NEVER);
}

/* All timers of this time expire before anybody sends. */
static void expire(struct sim *sim)
{
	struct timer_heap_node *first;

	while ((first = timer_heap_min(&sim->deadlines)) && first->at <= sim->now) {
		struct sim_node *node = container_of(first, struct sim_node, deadline);

		timer_heap_remove(&sim->deadlines, first);
		timer_heap_insert(&sim->due, &node->turn, (wtime)node_number(node));
	}
	while (timer_heap_min(&sim->due)) {
		struct sim_node *node = next_turn(&sim->due);

		loop_touch(node);
		ca_expire(&node->ca, sim->now);
	}
}

/* The next frame lands, or timers expire. Nobody has anything to send before. */
static bool happen(struct sim *sim)
{
	struct sim_frame *frame;
	wtime at;

	if (!links_next(sim))
		links_release_held(sim);
	frame = links_next(sim);
	at = next_time(sim);
	if (at == WTIME_NEVER)
		return false;
	if (at > sim->now)
		sim->now = at;
	sim->steps++;
	if (frame && frame->at.at <= sim->now)
		land(sim, frame);
	else
		expire(sim);
	send_touched(sim);
	return true;
}

bool sim_step(struct sim *sim)
{
	sim_pump(sim);
	return happen(sim);
}

void sim_run(struct sim *sim, wtime until)
{
	sim_pump(sim);
	while (next_time(sim) <= until || links_release_held(sim))
		if (!happen(sim))
			return;
}

void sim_advance(struct sim *sim, wtime ns)
{
	sim->now += ns;
}

const char *sim_trace(struct sim *sim)
{
	if (!sim->trace)
		return "";
	fflush(sim->trace);
	return sim->text;
}

/* ---- life ---- */

static void delete(struct sim *sim, int nodes)
{
	while (nodes--)
		node_fini(&sim->node[nodes]);
	timer_heap_fini(&sim->due);
	timer_heap_fini(&sim->touched);
	timer_heap_fini(&sim->deadlines);
	timer_heap_fini(&sim->frames);
	if (sim->trace)
		fclose(sim->trace);
	free(sim->text);
	free(sim->node);
	free(sim);
}

/* For the nodes, and in the heaps for all of them at once: as the loop runs only frames are allocated. */
static int make_room(struct sim *sim)
{
	uint32_t nodes = (uint32_t)sim->config.nodes;

	sim->node = calloc(nodes, sizeof(*sim->node));
	if (!sim->node)
		return -ENOMEM;
	timer_heap_init(&sim->deadlines);
	timer_heap_init(&sim->touched);
	timer_heap_init(&sim->due);
	if (timer_heap_reserve(&sim->deadlines, nodes) || timer_heap_reserve(&sim->touched, nodes) ||
	    timer_heap_reserve(&sim->due, nodes))
		return -ENOMEM;
	return 0;
}

struct sim *sim_new(const struct sim_config *config)
{
	struct sim *sim = config->nodes <= node_numbers(config) ? calloc(1, sizeof(*sim)) : NULL;
	int nodes = 0;

	if (!sim)
		return NULL;
	sim->config = *config;
	if (!sim->config.arena_bytes)
		sim->config.arena_bytes = ARENA_BYTES;
	sim->now = 1;
	rand_seed(&sim->rand, config->seed);
	timer_heap_init(&sim->frames);
	if (config->trace)
		sim->trace = open_memstream(&sim->text, &sim->text_bytes);
	if (make_room(sim) == 0)
		while (nodes < config->nodes && node_init(sim, nodes) == 0)
			nodes++;
	if (nodes == config->nodes)
		return sim;
	delete(sim, nodes);
	return NULL;
}

void sim_delete(struct sim *sim)
{
	while (sim_lose_next(sim))
		;
	delete(sim, sim->config.nodes);
}
