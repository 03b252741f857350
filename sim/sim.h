/* A network in virtual time: nodes with a channel adapter each, and links that delay, lose, double, reorder and corrupt
 * frames, all from one seed. Frames are real: built to bytes, flipped as bytes, parsed with their ICRC checked. The same
 * seed and the same calls give the same trace, byte for byte. */
#ifndef WEFT_SIM_SIM_H
#define WEFT_SIM_SIM_H

#include "base/heap.h"
#include "base/rand.h"
#include "verbs/qp.h"

#include <stdio.h>

enum { SIM_NODES = 4, SIM_EVENTS = 16, SIM_FAULTS = 4, SIM_QPNS = 1 << 16 };

/* What a link does to frames by chance, in parts per million. */
struct sim_link {
	wtime delay_ns;
	wtime byte_ns;			/* time a byte takes on the wire */
	uint32_t loss, duplicate, reorder, corrupt;
	wtime reorder_ns;		/* how much later a reordered or doubled frame may come */
	uint32_t room;			/* frames under way before a sender must wait; 0: any number */
};

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
	bool trace;
	uint32_t arena_bytes;		/* for queues, on each node; 0: 16 MB */
};

struct sim_event {
	enum ibv_event_type type;
	void *object;
};

struct sim_node {
	struct sim *sim;		/* borrowed */
	struct ca ca;
	struct ca_device *dev;
	void *arena;			/* owned */
	uint32_t sent;			/* frames */
	uint32_t held_bytes;		/* SIM_SWAP: the frame that waits for the next */
	uint8_t held[PACKET_MAX_BYTES];
	uint32_t under_way;		/* frames it sent that have not arrived */
	wtime last_arrival;		/* of its frames: links keep order */
	uint32_t next_qpn;
	struct sim_event event[SIM_EVENTS];	/* the adapter's asynchronous events, the first ones */
	unsigned events;
	unsigned cq_events;
	bool memory_gone;		/* on-demand memory is not there */
	bool deaf;			/* nothing arrives any more */
};

struct sim {
	struct sim_config config;
	struct rand rand;
	wtime now;
	struct heap frames;		/* of struct sim_frame */
	struct sim_node node[SIM_NODES];
	struct sim_fault fault[SIM_FAULTS];
	unsigned faults;
	uint32_t dropped, corrupted;	/* frames that chance or a fault took; that the ICRC caught */
	/* called for each frame a node sends, before anything happens to it */
	void (*tap)(void *arg, int node, const struct packet *p);
	void *tap_arg;
	FILE *trace;			/* owned: into text */
	char *text;
	size_t text_bytes;
};

struct sim *sim_new(const struct sim_config *config);	/* NULL without memory */
void sim_delete(struct sim *sim);

void sim_fault_add(struct sim *sim, enum sim_fault_kind kind, int node, uint32_t nth);

/* Sends everything that may leave now. For whoever posted. */
void sim_pump(struct sim *sim);
/* The next thing that happens, at its time. False: nothing will, ever. */
bool sim_step(struct sim *sim);
/* Steps until nothing happens any more, or the time is `until`. */
void sim_run(struct sim *sim, wtime until);
/* Time passes without anything that is due happening before the next step. */
void sim_advance(struct sim *sim, wtime ns);
/* Any bytes arrive at a node, now. */
void sim_inject(struct sim *sim, int node, const void *frame, size_t bytes);
/* The next frame under way is lost, comes once more, comes later, or has a bit flipped. False: there is none. */
bool sim_lose_next(struct sim *sim);
bool sim_double_next(struct sim *sim);
bool sim_delay_next(struct sim *sim, wtime ns);
bool sim_spoil_next(struct sim *sim, uint32_t bit);

/* The text so far, NUL-terminated; with sim_config.trace. */
const char *sim_trace(struct sim *sim);

unsigned sim_events(const struct sim_node *node, enum ibv_event_type type);

#endif
