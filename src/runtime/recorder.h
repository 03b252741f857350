/* Writes the entries into the transport engine but qp_set_window into the trace (impair/trace_engine.h), so that weft replay
 * can make them again: the transport's table of operations with a record before each. */
#ifndef WEFT_RUNTIME_RECORDER_H
#define WEFT_RUNTIME_RECORDER_H

#include "runtime/tracer.h"
#include "verbs/transport.h"

struct recorder {
	struct tracer *tracer;		/* borrowed */
	unsigned depth;			/* of entries: what the engine does itself inside one is not recorded */
	bool stopped;			/* a QP went to the error state within the entry */
	bool refused;			/* a frame was not its sender's to send */
	struct transport_ops ops;	/* ib_transport's, recorded */
};

/* Of a frame that passed in. */
static inline uint8_t recorder_marks(const struct recorder *r)
{
	return (r->stopped ? TRACE_STOPPED : 0) | (r->refused ? TRACE_REFUSED : 0);
}

/* In the place of ib_transport, for devices of the runtime that has this recorder (faults.h). */
const struct transport_ops *recorder_transport(struct recorder *r);

#endif
