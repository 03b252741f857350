/* Writes every entry into the transport engine into the trace (link/trace_engine.h), so that weft replay can make them again:
 * the transport's table of operations with a record before each. */
#ifndef WEFT_HOST_RECORDER_H
#define WEFT_HOST_RECORDER_H

#include "host/tracer.h"
#include "verbs/transport.h"

struct recorder {
	struct tracer *tracer;		/* borrowed */
	unsigned depth;			/* of entries: what the engine does itself inside one is not recorded */
	bool stopped;			/* a QP went to the error state within the entry */
};

/* For ca.transport of hosts that have a recorder (faults.h). */
const struct transport_ops *recorder_transport(void);

#endif
