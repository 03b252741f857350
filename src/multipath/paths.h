/* The paths of a requester: their states, and the packets about them. */
#ifndef WEFT_MULTIPATH_PATHS_H
#define WEFT_MULTIPATH_PATHS_H

#include "multipath/requester.h"

/* A GOOD path for an unordered packet, or the next one for ordered packets. False: there is none. */
bool mp_path_pick(struct mp_requester *r, unsigned *path);
/* T of a request by this path; and a request was answered so long after it left. */
wtime mp_path_patience(const struct mp_requester *r, unsigned path);
void mp_path_answered(struct mp_requester *r, unsigned path, wtime trip_ns);
/* Its packet was not answered in time (MPT-28). */
void mp_path_suspect(struct mp_requester *r, unsigned path);
void mp_path_input(struct mp_requester *r, wtime now, unsigned path, const struct mp_packet *p);
bool mp_path_output(struct mp_requester *r, wtime now, unsigned *path, struct mp_packet *out);
void mp_path_expire(struct mp_requester *r, wtime now);
/* Is there a path on which what failed may still come, so late that its number would be taken for a new one? Then its PATH-DOWN
 * begins, and no ordered packet may leave (MPT-37). */
bool mp_path_is_too_old(struct mp_requester *r);

#endif
