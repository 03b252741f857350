/* The lanes of one process: one for each device and direction that has rules. Pure. */
#ifndef WEFT_IMPAIR_LANES_H
#define WEFT_IMPAIR_LANES_H

#include "impair/impair.h"

struct impair_lanes {
	struct impair_lane lane[IMPAIR_DEVICES][IMPAIR_DIRECTIONS];
	bool acts[IMPAIR_DEVICES][IMPAIR_DIRECTIONS];	/* has rules, so the lane is initialised */
};

/* 0 or -ENOMEM. impair_lanes_fini may follow a failure, zeroed lanes and itself. */
int impair_lanes_init(struct impair_lanes *lanes, const struct impair_spec *spec);
void impair_lanes_fini(struct impair_lanes *lanes);

/* The lane through which frames of this device go in this direction; NULL: they pass as they are. */
static inline struct impair_lane *impair_lane(struct impair_lanes *lanes, unsigned device, enum impair_direction direction)
{
	return lanes->acts[device][direction] ? &lanes->lane[device][direction] : NULL;
}

/* How many frames wait in them. */
uint32_t impair_lanes_waiting(const struct impair_lanes *lanes);

/* When the next frame of any lane is due, or WTIME_NEVER. */
wtime impair_lanes_deadline(const struct impair_lanes *lanes);

#endif
