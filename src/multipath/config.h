/* What both ends of a connection over several paths agree on, and the requester's own choices. */
#ifndef WEFT_MULTIPATH_CONFIG_H
#define WEFT_MULTIPATH_CONFIG_H

#include "base/time.h"

#include <stdbool.h>
#include <stdint.h>

enum { MP_PATHS = 8, MP_WIDTH_LEAST = 4, MP_WIDTH_MOST = 24, MP_FLIGHTS_MOST = 4096, MP_ENDLESS = UINT8_MAX };

/* How unordered packets are spread over the GOOD paths (MPT-17). */
enum mp_spread { MP_ROUND_ROBIN, MP_LEAST_LOADED, MP_RANDOM };

struct mp_config {
	uint32_t connection;
	uint8_t width;			/* bits of the numbers */
	uint32_t start;			/* of both numbers (MPT-12) */
	uint8_t paths;			/* which both ends number alike; each is FIFO in each direction (MPT-18) */
	uint16_t mtu_bytes;		/* of payload */
	uint16_t window, replay;	/* W, of ordered packets in flight, and R, of responses that are kept: W <= R (MPT-17) */
	bool is_fast;			/* what is ahead gets a NAK (MPT-19) */

	/* the requester's */
	uint16_t flights, requests;	/* packets in flight; requests that are posted */
	enum mp_spread spread;
	bool renumbers;			/* instead of the filter at the responder (MPT-37) */
	bool follows_ordered;		/* unordered packets leave behind unanswered ordered ones, by their path (MPT-15) */
	uint8_t barrier_tries, retries;	/* MPT-31, MPT-36 */
	uint32_t last_tries;		/* of BARRIERs while no other path is GOOD: barrier_tries at least */
	uint8_t refusals;		/* answers NO_BUFFER or BUSY to a packet that are borne (MPT-27); or MP_ENDLESS */
	wtime timeout_ns;		/* T: of a request, a BARRIER, a PATH-DOWN and a PATH-UP */
	wtime least_ns;			/* T of a request follows the round trip, from this up to timeout_ns; 0: it does not */
	wtime refusal_ns;		/* until what was refused is sent again */
	wtime probe_ns;			/* between BARRIERs on a BAD path */
	uint64_t seed;			/* of identification data and of MP_RANDOM */
};

/* The defaults of the requirements; paths, connection, start and seed are the caller's. */
void mp_config_init(struct mp_config *c);
/* 0 or -EINVAL. */
int mp_config_check(const struct mp_config *c);

#endif
