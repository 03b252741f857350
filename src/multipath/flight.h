/* The packets of a requester that are in flight: one attempt of each at a time is not accounted for. */
#ifndef WEFT_MULTIPATH_FLIGHT_H
#define WEFT_MULTIPATH_FLIGHT_H

#include "multipath/requester.h"

struct mp_flight *mp_flight_find(struct mp_requester *r, uint32_t tag);
struct mp_flight *mp_flight_new(struct mp_requester *r, bool is_ordered);
void mp_flight_free(struct mp_requester *r, struct mp_flight *f);
/* The attempt is accounted for: lost, refused or kept from landing. Without an answer it is sent again from `when` on; 0: now. */
void mp_flight_lost(struct mp_requester *r, struct mp_flight *f, wtime when);
/* All that this path carried is accounted for, as lost; each unordered packet and the first ordered one have used a retry. */
void mp_flight_lost_on(struct mp_requester *r, unsigned path);
/* The ordered packets from this place on go again. */
void mp_flight_go_back(struct mp_requester *r, uint64_t place, wtime when);
/* The path has failed, and what it carried may land yet: its unordered packets wait for a new number (MPT-37). */
void mp_flight_stick(struct mp_requester *r, unsigned path);
/* MPT-36. What left behind an ordered packet without answer was not lost by its own fault, and uses none. */
void mp_flight_use_retry(struct mp_requester *r, struct mp_flight *f);
/* The first that waits to be sent again: ordered ones in their order, others by their time. */
struct mp_flight *mp_flight_first_ready(struct mp_requester *r, bool is_ordered);

#endif
