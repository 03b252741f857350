/* Management datagrams between two ends in virtual time: a path with a delay and a rate that loses, repeats, swaps and delays
 * datagrams, by chance or where a test says. */
#ifndef WEFT_SIM_MAD_PATH_H
#define WEFT_SIM_MAD_PATH_H

#include "event_queue.h"

#include "base/rand.h"
#include "base/time.h"
#include "wire/mad.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum mad_fault {
	MAD_PASSES, MAD_DROPPED,
	MAD_SWAPPED,		/* comes right behind the next one of its end that comes in time; without one hold_ns late */
	MAD_DELAYED,		/* comes late_ns late */
	MAD_REPEATED,		/* comes in time, and at once again */
	MAD_REPEATED_BEHIND,	/* comes in time, and again as one that is swapped */
	MAD_REPEATED_LATE,	/* comes in time, and again late_ns late */
	MAD_FAULTS
};

struct mad_path_config {
	wtime delay_ns, each_ns;	/* of the way; between two datagrams of one end */
	wtime hold_ns, late_ns;
	uint32_t loss_ppm;
	uint32_t repeat_ppm, swap_ppm;	/* repeated in any way; swapped or delayed */
	uint64_t seed;
	int fault_at[2];		/* of all datagrams, counted from 0; -1: none */
	enum mad_fault fault[2];
};

struct mad_flight {
	int from;
	uint64_t number;		/* of what its end sent */
	uint8_t mad[MAD_BYTES];
};

struct mad_path {
	struct mad_path_config config;
	struct rand rand;
	wtime free_at[2];		/* when an end may send the next one */
	uint64_t sent[2], lost;
	uint64_t newest[2];		/* of what an end sent, the number of the newest that has arrived */
	uint64_t overtaken[2];		/* of an end: came behind a newer one */
	struct event_queue flights;	/* of struct mad_flight, owned */
	struct event_queue held[2];	/* the same, of an end: by the time when it is held no longer */
	uint64_t trace;			/* of all that was sent */
};

void mad_path_init(struct mad_path *p, const struct mad_path_config *config);
void mad_path_fini(struct mad_path *p);
/* From end 0 or 1 to the other one. Aborts without memory. */
void mad_path_send(struct mad_path *p, wtime now, int from, const uint8_t mad[MAD_BYTES]);
/* When the next one arrives; WTIME_NEVER: none is on its way. */
wtime mad_path_next(const struct mad_path *p);
/* Takes that one. The end that it has come to. */
int mad_path_take(struct mad_path *p, uint8_t mad[MAD_BYTES]);

#endif
