/* The completer: takes ACKs, NAKs and responses, strikes packets out of the flight, places what was read. */
#ifndef WEFT_IB_COMPLETER_H
#define WEFT_IB_COMPLETER_H

#include "verbs/qp.h"

/* A response packet for this QP; path and state were checked. */
void completer_input(struct qp *qp, wtime now, const struct packet *p);

/* All up to PSN `through` were executed, if that can be true. Did something get through? `now` may be WTIME_NEVER for a time
 * that was not asked: then what is still under way has no timer before whole_collect looks at it. */
bool completer_acknowledge(struct qp *qp, wtime now, psn_t through);

/* The same is known, but nothing follows from it before completer_settle. */
void completer_note(struct qp *qp, psn_t through);
/* What was noted, if anything was: did something get through? */
bool completer_settle(struct qp *qp);

#endif
