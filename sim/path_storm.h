/* All hosts of a subnet ask its administration for paths at once, in virtual time: for the path to one other host, by a Get, or
 * for those to all, by a GetTable that is answered in segments. Agents, buffers and segments are those of weftd (mad_clients.h),
 * the administration is weft's (sa.h); datagrams go the way that the switches' tables say.
 *
 * A port sends one datagram after the other, and takes in one after the other. The administration takes serve_ns for a query and
 * record_ns for each path, one query after the other, and has its buffer meanwhile. Who has no answer asks again. */
#ifndef WEFT_SIM_PATH_STORM_H
#define WEFT_SIM_PATH_STORM_H

#include "mad_net.h"

struct path_storm_config {
	uint64_t seed;
	bool is_table;			/* all paths of a host */
	struct gsa_tunables tunables;
	uint32_t hint;			/* buffers that the administration asks for beforehand; 0: it does not */
	uint32_t loss_ppm;
	wtime jitter_ns;		/* each asks within so long from the begin */
	wtime delay_ns, each_ns;	/* of the way; of a datagram on a link */
	wtime serve_ns, record_ns;
	uint32_t timeout_ms, retries;	/* of who asks */
};

extern const struct path_storm_config path_storm_usual;

struct path_storm_result {
	uint32_t hosts, answered, failed;	/* failed: have given up, or got what is no answer */
	uint64_t queries;		/* that the administration has served */
	uint64_t datagrams, drops;	/* all that were sent; those without a receive buffer, at any port */
	wtime median, last;		/* answer, from the begin */
};

/* n has one manager, which is the master, and all is up. n->said is the storm's meanwhile. Aborts without memory. */
void path_storm_run(struct mad_net *n, const struct path_storm_config *c, struct path_storm_result *r);

#endif
