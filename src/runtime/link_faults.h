/* Links of the fabric that lose or slow what passes (weft fabric link), for a process at a host: between its own faults and the
 * channels, as the links are. While the fabric has such links the process has a stage (runtime/faults.h), and routes over them
 * take no direct path (peers/route.c). Copies for a group are drawn before (peers/trees.h); for what weftd carries, weftd draws
 * (agents/crossing.h). Under the lock. */
#ifndef WEFT_RUNTIME_LINK_FAULTS_H
#define WEFT_RUNTIME_LINK_FAULTS_H

#include "fabric/passage.h"
#include "impair/impair.h"

struct runtime;

struct link_faults {
	struct passage passage;
	struct impair_lane held;	/* of one device: who has LIDs */
	unsigned device;
	bool holds;			/* the lane is initialised */
};

enum link_fate { LINK_PASSED, LINK_LOST, LINK_HELD };

/* Zero becomes ready, which takes milliseconds; what is ready stays so. False: no memory, so nothing waits and is lost. */
bool link_faults_init(struct link_faults *l);
void link_faults_fini(struct link_faults *l);

/* A frame of a link_kind leaves for a slot. LINK_HELD: link_faults_pop gives it back when it has passed all links. */
enum link_fate link_faults_take(struct link_faults *l, struct runtime *rt, unsigned kind, const void *frame, size_t bytes,
				uint32_t to);
/* The same of a frame whose way was drawn before, and which has passed all links at this time. */
enum link_fate link_faults_hold(struct link_faults *l, wtime now, wtime due, unsigned kind, const void *frame, size_t bytes,
				uint32_t to);
/* The next that has passed, or NULL. Valid until the next call. */
const struct impair_frame *link_faults_pop(struct link_faults *l, wtime now);
wtime link_faults_deadline(const struct link_faults *l);

#endif
