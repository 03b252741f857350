/* What the ports of the fabric have counted, in a file that the next weftd finds: the counters of management datagrams, which
 * live there, and what programs' data counted when it was saved last. A file of weftd alone; one of another size begins at
 * zero. */
#ifndef WEFT_WEFTD_KEPT_COUNTS_H
#define WEFT_WEFTD_KEPT_COUNTS_H

#include "agents/port_counters.h"
#include "weftd/rundir.h"

#include <stdbool.h>

/* Zero: there is none, and nothing is kept. */
struct kept_counts {
	void *at;			/* owned mapping */
	size_t bytes;
	uint32_t ports;
	struct port_counters *counters;	/* in it, by port, one more than there are */
	uint64_t (*data)[TRAFFIC_COUNTS];	/* in it, by port */
};

/* The file of this name in the directory of weftd's own; is_new: it is made anew. 0 or -errno. */
int kept_counts_open(struct kept_counts *k, const struct rundir *dir, const char *name, uint32_t ports, bool is_new);
void kept_counts_close(struct kept_counts *k);

/* What was saved is where data counts from; of the traffic of as many ports, all zero. */
void kept_counts_restore(const struct kept_counts *k, const struct fabric *f, struct traffic_block *traffic);
void kept_counts_save(struct kept_counts *k, const struct traffic_block *traffic);

#endif
