/* What the ports of a fabric count: management datagrams here, and programs' data in the blocks of fabric/traffic.h. A total only
 * grows, where those who write the blocks are honest; setting a counter moves where it counts from, of PortCounters and of
 * PortCountersExtended apart. */
#ifndef WEFT_AGENTS_PORT_COUNTERS_H
#define WEFT_AGENTS_PORT_COUNTERS_H

#include "fabric/fabric.h"
#include "fabric/traffic.h"
#include "fabric/walk.h"

enum port_count {
#define COUNTER(name, ...) COUNT_##name,
#include "agents/counter.def"
#undef COUNTER
	PORT_COUNTS,
};

/* Of PortCountersExtended, in its order (16.1.4.11); unicast packets are those without multicast. */
enum { EXT_COUNTS = 8 };

enum port_detail {
#define DETAIL(name) DETAIL_##name,
#include "agents/detail.def"
#undef DETAIL
	PORT_DETAILS,
};

struct port_counters {
	uint64_t total[PORT_COUNTS], multicast_xmit, multicast_rcv;
	uint64_t detail[PORT_DETAILS];	/* of what was dropped; of errors the totals tell */
	uint64_t from[PORT_COUNTS], ext_from[EXT_COUNTS], detail_from[PORT_DETAILS];
};

/* One port, with all that it counts. All borrowed. */
struct port_view {
	const struct fabric *fabric;
	const struct traffic_block *traffic;	/* NULL: no data is counted */
	struct port_counters *counters;		/* of the port */
	uint32_t port;
};

/* What the port has counted since it is there. */
uint64_t port_counters_total(const struct port_view *v, enum port_count c);
uint64_t port_counters_ext_total(const struct port_view *v, unsigned i);
uint64_t port_counters_detail_total(const struct port_view *v, enum port_detail d);

/* How long a MAD is on a link, in words. */
uint64_t port_counters_words(bool has_grh);
/* A MAD went over the link from `out` to `in`, which spoilt it or did not. */
void port_counters_link(struct port_counters *all, uint32_t out, uint32_t in, bool has_grh, bool is_spoilt);
/* A MAD went this way, and was delivered or dropped at its end: the port there counts it. */
void port_counters_end(struct port_counters *all, const struct fabric *f, const struct walk_route *route);

#endif
