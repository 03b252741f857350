#include "agents/port_counters.h"

/* A MAD as PortXmitData counts it, in words of 4 bytes without the VCRC: LRH, BTH, DETH, the MAD, ICRC; and the GRH. */
enum { MAD_WORDS = (8 + 12 + 8 + 256 + 4) / 4, GRH_WORDS = 10 };

/* Data with errors was not received (16.1.3.5). */
void port_counters_link(struct port_counters *all, uint32_t out, uint32_t in, bool has_grh, bool is_spoilt)
{
	uint64_t words = has_grh ? MAD_WORDS + GRH_WORDS : MAD_WORDS;

	all[out].total[COUNT_XMIT_DATA] += words;
	all[out].total[COUNT_XMIT_PKTS]++;
	if (is_spoilt) {
		all[in].total[COUNT_SYMBOL_ERRORS]++;
		all[in].total[COUNT_RCV_ERRORS]++;
		return;
	}
	all[in].total[COUNT_RCV_DATA] += words;
	all[in].total[COUNT_RCV_PKTS]++;
}

/* Which counter of the port at its end tells of a packet's end; PORT_COUNTS: none. */
static enum port_count counter_of(enum walk_verdict v)
{
	static const uint8_t counters[TRAFFIC_COUNTS] = {
		[TRAFFIC_XMIT_DISCARDS] = COUNT_XMIT_DISCARDS, [TRAFFIC_RCV_RELAY] = COUNT_RCV_RELAY,
		[TRAFFIC_XMIT_CONSTRAINT] = COUNT_XMIT_CONSTRAINT, [TRAFFIC_RCV_CONSTRAINT] = COUNT_RCV_CONSTRAINT,
	};
	enum traffic_count drop = traffic_drop(v);

	return drop == TRAFFIC_COUNTS ? PORT_COUNTS : (enum port_count)counters[drop];
}

/* ---- with what programs' data counted ---- */

/* The counter of programs' data that is part of this one, and whose block has it: the port's, or its peer's. */
static const struct {
	bool has_data, is_peers;
	enum traffic_count count;
} data[PORT_COUNTS] = {
	[COUNT_XMIT_DATA] = { true, false, TRAFFIC_WORDS },
	[COUNT_XMIT_PKTS] = { true, false, TRAFFIC_PACKETS },
	[COUNT_RCV_DATA] = { true, true, TRAFFIC_WORDS },
	[COUNT_RCV_PKTS] = { true, true, TRAFFIC_PACKETS },
	[COUNT_SYMBOL_ERRORS] = { true, false, TRAFFIC_ERRORS },
	[COUNT_RCV_ERRORS] = { true, false, TRAFFIC_ERRORS },
	[COUNT_XMIT_WAIT] = { true, false, TRAFFIC_WAIT },
	[COUNT_XMIT_DISCARDS] = { true, false, TRAFFIC_XMIT_DISCARDS },
	[COUNT_RCV_RELAY] = { true, false, TRAFFIC_RCV_RELAY },
	[COUNT_XMIT_CONSTRAINT] = { true, false, TRAFFIC_XMIT_CONSTRAINT },
	[COUNT_RCV_CONSTRAINT] = { true, false, TRAFFIC_RCV_CONSTRAINT },
};

static uint64_t data_of(const struct port_view *v, bool is_peers, enum traffic_count c)
{
	uint32_t port = is_peers ? fabric_peer(v->fabric, v->port) : v->port;

	return v->traffic && port != PORT_NONE ? traffic_read(v->traffic, port, c) : 0;
}

/* As for MADs. */
static uint64_t spoilt(const struct port_view *v, enum port_count c)
{
	return c == COUNT_RCV_DATA ? data_of(v, false, TRAFFIC_ERROR_WORDS) :
	       c == COUNT_RCV_PKTS ? data_of(v, false, TRAFFIC_ERRORS) : 0;
}

uint64_t port_counters_total(const struct port_view *v, enum port_count c)
{
	uint64_t bad = spoilt(v, c);	/* before what it is a part of, which may grow meanwhile */

	return v->counters->total[c] + (data[c].has_data ? data_of(v, data[c].is_peers, data[c].count) : 0) - bad;
}

uint64_t port_counters_ext_total(const struct port_view *v, unsigned i)
{
	uint64_t sent = v->counters->multicast_xmit + data_of(v, false, TRAFFIC_MULTICAST);
	uint64_t bad = data_of(v, false, TRAFFIC_MULTICAST_ERRORS);	/* first, as it is a part of the next */
	uint64_t received = v->counters->multicast_rcv + data_of(v, true, TRAFFIC_MULTICAST) - bad;

	switch (i) {
	case 0: return port_counters_total(v, COUNT_XMIT_DATA);
	case 1: return port_counters_total(v, COUNT_RCV_DATA);
	case 2: return port_counters_total(v, COUNT_XMIT_PKTS);
	case 3: return port_counters_total(v, COUNT_RCV_PKTS);
	case 4: return port_counters_total(v, COUNT_XMIT_PKTS) - sent;
	case 5: return port_counters_total(v, COUNT_RCV_PKTS) - received;
	case 6: return sent;
	default: return received;
	}
}

void port_counters_end(struct port_counters *all, const struct fabric *f, const struct walk_route *route)
{
	enum port_count dropped = counter_of(route->verdict);

	if (dropped != PORT_COUNTS && route->at < f->ports)
		all[route->at].total[dropped]++;
}
