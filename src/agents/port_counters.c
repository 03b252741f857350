#include "agents/port_counters.h"

/* A MAD as PortXmitData counts it, in words of 4 bytes without the VCRC: LRH, BTH, DETH, the MAD, ICRC; and the GRH. */
enum { MAD_WORDS = (8 + 12 + 8 + 256 + 4) / 4, GRH_WORDS = 10 };

uint64_t port_counters_words(bool has_grh)
{
	return has_grh ? MAD_WORDS + GRH_WORDS : MAD_WORDS;
}

/* Data with errors was not received (16.1.3.5). */
void port_counters_link(struct port_counters *all, uint32_t out, uint32_t in, bool has_grh, bool is_spoilt)
{
	uint64_t words = port_counters_words(has_grh);

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

/* What the port at its end counts of a packet. */
static const struct {
	uint8_t count, detail;
} drops[TRAFFIC_COUNTS] = {
	[TRAFFIC_INACTIVE] = { COUNT_XMIT_DISCARDS, DETAIL_INACTIVE },
	[TRAFFIC_TOO_LONG] = { COUNT_XMIT_DISCARDS, DETAIL_NEIGHBOR_MTU },
	[TRAFFIC_TOO_SLOW] = { COUNT_XMIT_DISCARDS, DETAIL_HOQ_LIFETIME },
	[TRAFFIC_NO_ROUTE] = { COUNT_RCV_RELAY, DETAIL_DLID_MAPPING },
	[TRAFFIC_NO_LANE] = { COUNT_RCV_RELAY, DETAIL_VL_MAPPING },
	[TRAFFIC_BACK] = { COUNT_RCV_RELAY, DETAIL_LOOPING },
	[TRAFFIC_XMIT_CONSTRAINT] = { COUNT_XMIT_CONSTRAINT, PORT_DETAILS },
	[TRAFFIC_RCV_CONSTRAINT] = { COUNT_RCV_CONSTRAINT, PORT_DETAILS },
};

/* ---- with what programs' data counted ---- */

#define BIT(name) (1u << TRAFFIC_##name)

/* The counters of programs' data that are part of this one, as bits, and whose block has them: the port's, or its peer's. */
static const struct {
	bool is_peers;
	uint32_t counts;
} data[PORT_COUNTS] = {
	[COUNT_XMIT_DATA] = { false, BIT(WORDS) },
	[COUNT_XMIT_PKTS] = { false, BIT(PACKETS) },
	[COUNT_RCV_DATA] = { true, BIT(WORDS) },
	[COUNT_RCV_PKTS] = { true, BIT(PACKETS) },
	[COUNT_SYMBOL_ERRORS] = { false, BIT(ERRORS) },
	[COUNT_RCV_ERRORS] = { false, BIT(ERRORS) },
	[COUNT_XMIT_WAIT] = { false, BIT(WAIT) },
	[COUNT_XMIT_DISCARDS] = { false, BIT(INACTIVE) | BIT(TOO_LONG) | BIT(TOO_SLOW) },
	[COUNT_RCV_RELAY] = { false, BIT(NO_ROUTE) | BIT(NO_LANE) | BIT(BACK) },
	[COUNT_XMIT_CONSTRAINT] = { false, BIT(XMIT_CONSTRAINT) },
	[COUNT_RCV_CONSTRAINT] = { false, BIT(RCV_CONSTRAINT) },
};

static const uint32_t detail_data[PORT_DETAILS] = {
	[DETAIL_DLID_MAPPING] = BIT(NO_ROUTE), [DETAIL_VL_MAPPING] = BIT(NO_LANE), [DETAIL_LOOPING] = BIT(BACK),
	[DETAIL_INACTIVE] = BIT(INACTIVE), [DETAIL_NEIGHBOR_MTU] = BIT(TOO_LONG), [DETAIL_HOQ_LIFETIME] = BIT(TOO_SLOW),
	[DETAIL_PHYSICAL] = BIT(ERRORS),
};

static uint64_t sum_of(const struct port_view *v, bool is_peers, uint32_t counts)
{
	uint32_t port = is_peers ? fabric_peer(v->fabric, v->port) : v->port;
	uint64_t sum = 0;

	for (int c = 0; v->traffic && port != PORT_NONE && c < TRAFFIC_COUNTS; c++)
		sum += counts >> c & 1 ? traffic_read(v->traffic, port, (enum traffic_count)c) : 0;
	return sum;
}

static uint64_t data_of(const struct port_view *v, bool is_peers, enum traffic_count c)
{
	return sum_of(v, is_peers, 1u << c);
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

	return v->counters->total[c] + sum_of(v, data[c].is_peers, data[c].counts) - bad;
}

/* 16.1.3.5: symbols that are wrong spoil packets; what else was received in error found no buffer. */
uint64_t port_counters_detail_total(const struct port_view *v, enum port_detail d)
{
	const uint64_t *total = v->counters->total;
	uint64_t own = d == DETAIL_PHYSICAL ? total[COUNT_SYMBOL_ERRORS] :
		       d == DETAIL_OVERRUN ? total[COUNT_RCV_ERRORS] - total[COUNT_SYMBOL_ERRORS] : v->counters->detail[d];

	return own + sum_of(v, false, detail_data[d]);
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
	enum traffic_count drop = traffic_drop(f, route->at, route->verdict);

	if (drop == TRAFFIC_COUNTS)
		return;
	all[route->at].total[drops[drop].count]++;
	if (drops[drop].detail < PORT_DETAILS)
		all[route->at].detail[drops[drop].detail]++;
}
