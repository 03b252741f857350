/* Between the files of the simulator: frames and links (links.c), nodes and what their adapters ask of them (node.c), the loop
 * (sim.c). */
#ifndef WEFT_SIM_PARTS_H
#define WEFT_SIM_PARTS_H

#include "sim.h"

/* A frame under way. */
struct sim_frame {
	struct timer_heap_node at;		/* in sim.frames */
	struct list_node parked;	/* in sim_node.parked */
	struct sim_node *from, *to;
	bool is_before_hub;
	uint32_t bytes;
	uint8_t frame[];
};

/* ---- links.c ---- */

/* What the node's adapter sends: to the trace, through chance and the faults, and onto the link. */
void links_transmit(struct sim_node *from, const struct packet *p);
/* A held frame waits for the next only as long as something moves: then the first node's that has one goes. False: none has. */
bool links_release_held(struct sim *sim);
/* The frame that arrives next, or NULL. */
struct sim_frame *links_next(const struct sim *sim);
/* Which of the ways between nodes frames of this path take. */
unsigned links_lane(const struct sim *sim, const struct packet_path *path);
/* It has come to the switch: it goes on, or is lost there. */
void links_forward(struct sim_frame *frame);
/* It is not under way any more, whether it is taken now or lost. And when it is, its sender has room for another. */
void links_leave(struct sim_frame *frame);
void links_done(struct sim_frame *frame);
/* A line of the trace; p may be NULL. */
void links_trace(const struct sim_node *node, const char *what, const struct packet *p);

/* ---- sim.c ---- */

/* Something happened to the node: its turn comes. */
void loop_touch(struct sim_node *node);

/* ---- node.c ---- */

/* 0 or -ENOMEM. */
int node_init(struct sim *sim, int number);
void node_fini(struct sim_node *node);
/* How many nodes have addresses of that form. */
int node_numbers(const struct sim_config *config);
/* Whose address the path leads to, or NULL. */
struct sim_node *node_at(const struct sim *sim, const struct packet_path *path);
/* Is that its second address? */
bool node_is_second(const struct sim *sim, const struct packet_path *path);
/* As ca_ops.space. */
unsigned node_room(const struct sim_node *node);

static inline int node_number(const struct sim_node *node)
{
	return (int)(node - node->sim->node);
}

/* Where the node's frames come from, as adapters tell places apart. */
static inline origin_t node_origin(const struct sim_node *node)
{
	return (origin_t)node_number(node) + 1;
}

#endif
