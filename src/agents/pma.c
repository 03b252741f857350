#include "agents/pma.h"

#include "agents/samples.h"
#include "wire/field.h"

#include <string.h>

enum {
	PMA_CLASS_VERSION = 1, PMA_DATA = 64, PMA_DATA_BYTES = MAD_BYTES - PMA_DATA,
	CLASS_PORT_INFO = 0x0001, SAMPLES_CONTROL = 0x0010, SAMPLES_RESULT = 0x0011, PORT_COUNTERS = 0x0012,	/* table 244 */
	RCV_ERROR_DETAILS = 0x0015, XMIT_DISCARD_DETAILS = 0x0016, PORT_COUNTERS_EXTENDED = 0x001d,
	SAMPLES_RESULT_EXTENDED = 0x001e,
	/* 16.1.3.1: all ports at once, 64 bits, 64 bits of multicast too, XmitWait */
	CAPABILITIES = 1 << 8 | 1 << 9 | 1 << 12,
	RESPONSE_TIME = 18,	/* a second; our choice */
	ALL_PORTS = 255,
};

#define CPI_BASE_VERSION 0, 0, 8
#define CPI_CLASS_VERSION 1, 0, 8
#define CPI_CAPABILITIES 2, 0, 16
#define CPI_RESPONSE_TIME 7, 3, 5

#define COUNTERS_PORT 1, 0, 8
#define COUNTERS_SELECT 2, 0, 16
#define COUNTERS_SELECT2 18, 7, 1	/* XmitWait */
#define EXT_FIRST 8			/* PortCountersExtended: 64 bits each from here on */
#define DETAILS_FIRST 4			/* of both: 16 bits each from here on */

static const struct place {
	uint8_t byte, bit, width, select;
} places[PORT_COUNTS] = {
#define COUNTER(name, byte, bit, width, select) [COUNT_##name] = { byte, bit, width, select },
#include "agents/counter.def"
#undef COUNTER
};

/* The ports that PortSelect names. */
struct range {
	const struct agents *agents;
	uint32_t first;
	unsigned count;
};

static struct range select_ports(const struct agents *a, uint32_t node, unsigned number)
{
	const struct fabric *f = a->fabric;
	unsigned first = fabric_is_switch(f, node) ? 0 : 1;

	if (number == ALL_PORTS)
		return (struct range){ a, fabric_port_index(f, node, first), f->place[node].ports + 1u - first };
	if (number < first || number > f->place[node].ports)
		return (struct range){ a, 0, 0 };
	return (struct range){ a, fabric_port_index(f, node, number), 1 };
}

static struct port_view view(const struct range *r, unsigned i)
{
	return (struct port_view){ r->agents->fabric, r->agents->traffic, &r->agents->counters[r->first + i], r->first + i };
}

/* ---- PortCounters: a counter stays at its greatest value ---- */

static void set_counters(struct range r, const uint8_t *data)
{
	uint32_t select = (uint32_t)wire_get(data, COUNTERS_SELECT) | (uint32_t)wire_get(data, COUNTERS_SELECT2) << 16;

	for (unsigned i = 0; i < r.count; i++) {
		const struct port_view v = view(&r, i);

		for (unsigned c = 0; c < PORT_COUNTS; c++) {
			const struct place *at = &places[c];

			if (select >> at->select & 1)
				v.counters->from[c] = port_counters_total(&v, c) - wire_get(data, at->byte, at->bit, at->width);
		}
	}
}

static void get_counters(struct range r, uint8_t *data)
{
	for (unsigned c = 0; c < PORT_COUNTS; c++) {
		const struct place *at = &places[c];
		uint64_t sum = 0, most = field_mask(at->width);

		for (unsigned i = 0; i < r.count; i++) {
			const struct port_view v = view(&r, i);
			uint64_t value = port_counters_total(&v, c) - v.counters->from[c];

			sum += value < most ? value : most;
		}
		wire_put(data, sum < most ? sum : most, at->byte, at->bit, at->width);
	}
}

/* ---- PortCountersExtended ---- */

static void set_extended(struct range r, const uint8_t *data)
{
	unsigned select = (unsigned)wire_get(data, COUNTERS_SELECT);

	for (unsigned i = 0; i < r.count; i++) {
		const struct port_view v = view(&r, i);

		for (unsigned c = 0; c < EXT_COUNTS; c++) {
			if (select >> c & 1)
				v.counters->ext_from[c] = port_counters_ext_total(&v, c) -
							  wire_get(data, EXT_FIRST + 8 * c, 0, 64);
		}
	}
}

static void get_extended(struct range r, uint8_t *data)
{
	for (unsigned c = 0; c < EXT_COUNTS; c++) {
		uint64_t sum = 0;

		for (unsigned i = 0; i < r.count; i++) {
			const struct port_view v = view(&r, i);

			sum += port_counters_ext_total(&v, c) - v.counters->ext_from[c];
		}
		wire_put(data, sum, EXT_FIRST + 8 * c, 0, 64);
	}
}

/* ---- PortRcvErrorDetails and PortXmitDiscardDetails: those from `first` to before `end` ---- */

static void set_details(struct range r, const uint8_t *data, unsigned first, unsigned end)
{
	unsigned select = (unsigned)wire_get(data, COUNTERS_SELECT);

	for (unsigned i = 0; i < r.count; i++) {
		const struct port_view v = view(&r, i);

		for (unsigned d = first; d < end; d++) {
			if (select >> (d - first) & 1)
				v.counters->detail_from[d] = port_counters_detail_total(&v, d) -
							     wire_get(data, DETAILS_FIRST + 2 * (d - first), 0, 16);
		}
	}
}

static void get_details(struct range r, uint8_t *data, unsigned first, unsigned end)
{
	for (unsigned d = first; d < end; d++) {
		uint64_t sum = 0;

		for (unsigned i = 0; i < r.count; i++) {
			const struct port_view v = view(&r, i);
			uint64_t value = port_counters_detail_total(&v, d) - v.counters->detail_from[d];

			sum += value < UINT16_MAX ? value : UINT16_MAX;
		}
		wire_put(data, sum < UINT16_MAX ? sum : UINT16_MAX, DETAILS_FIRST + 2 * (d - first), 0, 16);
	}
}

static void set_errors(struct range r, const uint8_t *data)
{
	set_details(r, data, 0, DETAIL_INACTIVE);
}

static void get_errors(struct range r, uint8_t *data)
{
	get_details(r, data, 0, DETAIL_INACTIVE);
}

static void set_discards(struct range r, const uint8_t *data)
{
	set_details(r, data, DETAIL_INACTIVE, PORT_DETAILS);
}

static void get_discards(struct range r, uint8_t *data)
{
	get_details(r, data, DETAIL_INACTIVE, PORT_DETAILS);
}

/* ---- requests ---- */

/* All begin with the ports and the counters that are meant. */
static const struct row {
	uint16_t attribute;
	void (*set)(struct range r, const uint8_t *data);
	void (*get)(struct range r, uint8_t *data);
} rows[] = {
	{ PORT_COUNTERS, set_counters, get_counters },
	{ PORT_COUNTERS_EXTENDED, set_extended, get_extended },
	{ RCV_ERROR_DETAILS, set_errors, get_errors },
	{ XMIT_DISCARD_DETAILS, set_discards, get_discards },
};

bool pma_has(const struct mad_header *h)
{
	return h->mgmt_class == MAD_CLASS_PERF && (h->method == MAD_GET || h->method == MAD_SET);
}

static enum mad_status get_class(uint8_t *data)
{
	memset(data, 0, PMA_DATA_BYTES);
	wire_put(data, MAD_BASE_VERSION, CPI_BASE_VERSION);
	wire_put(data, PMA_CLASS_VERSION, CPI_CLASS_VERSION);
	wire_put(data, CAPABILITIES, CPI_CAPABILITIES);
	wire_put(data, RESPONSE_TIME, CPI_RESPONSE_TIME);
	return 0;
}

/* A port alone, and not all, is sampled. */
static enum mad_status serve_samples(struct agents *a, wtime now, uint32_t node, const struct mad_header *h, uint8_t *data)
{
	unsigned number = (unsigned)wire_get(data, COUNTERS_PORT);
	struct range r = select_ports(a, node, number);

	if (h->attr_id == SAMPLES_CONTROL)
		return samples_control(a, now, r.count && number != ALL_PORTS ? r.first : PORT_NONE, h->method == MAD_SET, data);
	if (h->method == MAD_SET)
		return MAD_STATUS_BAD_ATTRIBUTE;
	return samples_result(a, node, h->attr_id == SAMPLES_RESULT_EXTENDED, data);
}

static enum mad_status serve(struct agents *a, wtime now, uint32_t node, const struct mad_header *h, uint8_t *data)
{
	const struct row *row = rows, *end = rows + sizeof(rows) / sizeof(rows[0]);
	bool sets = h->method == MAD_SET;
	unsigned port = (unsigned)wire_get(data, COUNTERS_PORT);
	struct range r = select_ports(a, node, port);

	if (h->base_version != MAD_BASE_VERSION || h->class_version != PMA_CLASS_VERSION)
		return MAD_STATUS_BAD_VERSION;
	if (h->attr_id == CLASS_PORT_INFO && !sets)
		return get_class(data);
	if (h->attr_id == SAMPLES_CONTROL || h->attr_id == SAMPLES_RESULT || h->attr_id == SAMPLES_RESULT_EXTENDED)
		return serve_samples(a, now, node, h, data);
	while (row < end && row->attribute != h->attr_id)
		row++;
	if (row == end)
		return MAD_STATUS_BAD_ATTRIBUTE;
	if (!r.count)
		return MAD_STATUS_BAD_VALUE;
	if (sets)
		row->set(r, data);
	memset(data, 0, PMA_DATA_BYTES);
	wire_put(data, port, COUNTERS_PORT);
	row->get(r, data);
	return 0;
}

void pma_input(struct agents *a, wtime now, uint32_t port, uint8_t mad[MAD_BYTES])
{
	struct mad_header h;

	mad_header_parse(&h, mad);
	mad_respond(mad, serve(a, now, a->fabric->owner[port], &h, mad + PMA_DATA));
}
