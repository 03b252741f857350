/* What the ports of the network carry while no fabric says otherwise, and what is counted at each device: a memory file that
 * weftd makes and every process writes, at its first slot alone. Whoever writes nonsense falsifies figures, and nothing else.
 * The next process with the slot goes on. */
#ifndef WEFT_FABRIC_LOADS_H
#define WEFT_FABRIC_LOADS_H

#include "base/counters.h"
#include "fabric/page.h"
#include "wire/port_load.h"

struct port_loads {
	struct port_load slot[PAGE_SLOTS][PAGE_DEVICES];
	struct counters counters[PAGE_SLOTS][PAGE_DEVICES];	/* of those of rxe alone: weftd/hw_counter.def */
};

#endif
