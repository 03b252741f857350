/* A network in virtual time: nodes with a channel adapter each, and links that delay, lose, double, reorder and corrupt
 * frames, all from one seed. Frames are real: built to bytes, flipped as bytes, parsed with their ICRC checked. The same
 * seed and the same calls give the same trace, byte for byte. */
#ifndef WEFT_SIM_SIM_H
#define WEFT_SIM_SIM_H

#include "base/rand.h"
#include "base/timer_heap.h"
#include "verbs/qp.h"

#include <stdio.h>

enum { SIM_EVENTS = 16, SIM_FAULTS = 4, SIM_QPNS = 1 << 16 };

/* What a link does to frames by chance, in parts per million. */
struct sim_link {
	wtime delay_ns;
	wtime byte_ns;			/* time a byte takes on the wire */
	uint32_t loss, duplicate, reorder, corrupt;
	wtime reorder_ns;		/* how much later a reordered or doubled frame may come */
	uint32_t room;			/* frames under way before a sender must wait; 0: any number */
	bool keeps;			/* the sender knows what has not been taken yet */
};

/* A switch between all nodes, with a queue before each of them. */
struct sim_switch {
	uint32_t room_bytes;		/* of each queue: what does not fit is dropped; 0: there is no switch */
	uint32_t mark_bytes;		/* from so many waiting on, frames that allow it are marked (RFC 3168); 0: never */
	wtime byte_ns;			/* time a byte takes on the wire to the node */
};

/* One of several ways between any two nodes. A frame takes the one that its addresses, and for RoCE its source port, lead to. */
struct sim_lane {
	wtime delay_ns, byte_ns;	/* besides those of sim_link */
	uint32_t loss;			/* parts per million, besides */
	uint32_t room_bytes;		/* may wait for it, with byte_ns; 0: any number */
	bool is_cut, is_cut_back;	/* all frames are lost; those of node 1 are */
};
enum { SIM_LANES = 8 };

/* What happens to the nth frame (from 0) that this node sends. */
enum sim_fault_kind { SIM_DROP, SIM_DUPLICATE, SIM_SWAP, SIM_CORRUPT, SIM_FAULT_KINDS };
struct sim_fault {
	enum sim_fault_kind kind;
	int node;
	uint32_t nth;
};

struct sim_config {
	uint64_t seed;
	int nodes;
	enum packet_form form;
	enum ibv_mtu mtu;		/* the ports' */
	struct sim_link link;
	struct sim_switch hub;
	bool is_network;		/* the nodes are hosts: routes between them are those to other hosts */
	bool trace;
	uint32_t arena_bytes;		/* for queues, on each node; 0: 16 MB */
	bool two_addresses;		/* of each node's port: LMC 1, or two GIDs */
	uint8_t lmc;			/* of each node's port: LIDs from (n + 1) * 2^lmc on; without two_addresses */
	uint32_t unnamed;		/* by bits: pairs of LIDs with these path bits the subnet administration does not name */
	unsigned lanes;			/* a power of two, of which frames to second addresses take the upper half; 0: one way */
	struct sim_lane lane[SIM_LANES];	/* as they begin */
};

struct sim_event {
	enum ibv_event_type type;
	void *object;
};

/* The switch's port before a node. */
struct sim_port {
	wtime free_at;			/* the last frame has left */
	uint64_t frames, bytes;		/* that left for the node */
	uint64_t dropped, marked;	/* frames */
	uint64_t queued;		/* sum of the bytes that frames found waiting */
	uint32_t deepest;		/* bytes */
};

struct sim_node {
	struct sim *sim;		/* borrowed */
	struct ca ca;
	struct ca_device *dev;
	void *arena;			/* owned */
	uint32_t sent;			/* frames */
	uint32_t bursts;		/* of frames that left together */
	uint32_t held_bytes;
	uint8_t *held;			/* owned; SIM_SWAP: the frame that waits for the next; or NULL */
	uint32_t under_way;		/* frames it sent that have not arrived */
	wtime last_arrival[SIM_LANES];	/* of its frames: each way keeps order */
	uint32_t next_qpn;		/* its lower 20 bits; the upper 4 are of the node */
	struct sim_event event[SIM_EVENTS];	/* the adapter's asynchronous events, the first ones */
	unsigned events;
	unsigned cq_events;
	bool memory_gone;		/* on-demand memory is not there */
	bool deaf;			/* nothing arrives any more */
	bool is_stopped;		/* does nothing; what arrives waits */
	struct list parked;		/* of struct sim_frame: what waits */
	struct timer_heap_node deadline;	/* in sim.deadlines, at the adapter's next timer */
	struct timer_heap_node turn;		/* in sim.touched or sim.due, at its number */
	uint64_t launched, taken;	/* frames towards it */
	struct sim_port port;
};

struct sim {
	struct sim_config config;
	struct rand rand;
	wtime now;
	struct timer_heap frames;		/* of struct sim_frame */
	struct timer_heap deadlines;		/* of struct sim_node.deadline: who has a timer */
	struct timer_heap touched;		/* of struct sim_node.turn: who may have something to send, or another timer */
	struct timer_heap due;		/* of struct sim_node.turn: whose timers expire now */
	uint64_t steps, turns;		/* things that happened; nodes that were looked at for them */
	struct sim_node *node;		/* owned: config.nodes */
	struct sim_fault fault[SIM_FAULTS];
	unsigned faults;
	bool is_cut[2];			/* frames to nodes' first or second addresses are lost */
	uint32_t dropped, corrupted;	/* frames that chance or a fault took; that the ICRC caught */
	/* called for each frame a node sends, before anything happens to it; may post to any node, and then calls sim_touch */
	void (*tap)(void *arg, int node, const struct packet *p);
	void *tap_arg;
	FILE *trace;			/* owned: into text */
	char *text;
	size_t text_bytes;
};

/* NULL without memory, or with more nodes than there are addresses: 49,151 LIDs, 16,777,214 IPv4 addresses of 10.0.0.0/8. Node n
 * has the n-th, counted from 0; with two_addresses, of which there are half as many, LIDs 2n + 2 and 2n + 3, or also the n-th of
 * 10.128.0.0/9. */
struct sim *sim_new(const struct sim_config *config);
void sim_delete(struct sim *sim);

void sim_fault_add(struct sim *sim, enum sim_fault_kind kind, int node, uint32_t nth);

/* Somebody posted to the node, or polled: the loop looks at it. */
void sim_touch(struct sim *sim, int node);
/* Sends everything that may leave now. Touches every node. */
void sim_pump(struct sim *sim);
/* The next thing that happens, at its time, after sim_pump. False: nothing will, ever. */
bool sim_step(struct sim *sim);
/* sim_pump, then whatever happens until the time is `until` or nothing more does, in the order of sim_step. A thing that happens
 * costs O(log n) of n nodes and n frames: only the nodes that it touches are looked at. */
void sim_run(struct sim *sim, wtime until);
/* The node stands still, as a process that is stopped, and goes on. */
void sim_stop(struct sim *sim, int node);
void sim_continue(struct sim *sim, int node);
/* Time passes without anything that is due happening before the next step. */
void sim_advance(struct sim *sim, wtime ns);
/* Any bytes arrive at a node from another, now. */
void sim_inject(struct sim *sim, int from, int node, const void *frame, size_t bytes);
/* Any bytes leave one node for another, as a frame of the first. */
void sim_launch(struct sim *sim, int from, int to, const void *frame, uint32_t bytes);
/* The next frame under way is lost, comes once more, comes later, or has a bit flipped. False: there is none. */
bool sim_lose_next(struct sim *sim);
bool sim_double_next(struct sim *sim);
bool sim_delay_next(struct sim *sim, wtime ns);
bool sim_spoil_next(struct sim *sim, uint32_t bit);

/* The text so far, NUL-terminated; with sim_config.trace. */
const char *sim_trace(struct sim *sim);

unsigned sim_events(const struct sim_node *node, enum ibv_event_type type);

#endif
