#include "agents/samples.h"

#include "wire/field.h"

#include <string.h>

enum {
	DATA_BYTES = 192,
	TICK = 249,		/* of 4 ns, and one more (Linux, drivers/infiniband/hw: 0 is 4 ns, 1 is 8 ns); our choice: 1 us */
	TICK_NS = (TICK + 1) * 4,
	WIDTH_32 = 4,		/* CounterWidth */
	WIDTH_64 = 2,		/* ExtendedWidth */
};

/* 16.1.3.2 */
#define CONTROL_OPCODE 0, 0, 8
#define CONTROL_PORT 1, 0, 8
#define CONTROL_TICK 2, 0, 8
#define CONTROL_WIDTH 3, 5, 3
#define CONTROL_MASK0_9 4, 2, 30
#define CONTROL_MASK10_14 8, 1, 15
#define CONTROL_STATUS 11, 6, 2
#define CONTROL_START 28, 0, 32
#define CONTROL_INTERVAL 32, 0, 32
#define CONTROL_TAG 36, 0, 16
#define CONTROL_SELECT(i) 38 + 2 * (i), 0, 16

/* Three bits for each counter: it counts each quantity that CounterSelect must offer, and none that it may. */
#define MASK0_9 01111111111
#define MASK10_14 011111

/* 16.1.3.3 */
#define RESULT_TAG 0, 0, 16
#define RESULT_STATUS 2, 14, 2
#define RESULT_COUNT(i) 4 + 4 * (i), 0, 32
#define RESULT_WIDTH 4, 0, 2
#define RESULT_LONG_COUNT(i) 8 + 8 * (i), 0, 64

/* By CounterSelect, from 1 on; 0 counts nothing. */
static const enum port_count quantities[] = {
	COUNT_XMIT_DATA, COUNT_RCV_DATA, COUNT_XMIT_PKTS, COUNT_RCV_PKTS, COUNT_XMIT_WAIT,
};
enum { QUANTITIES = sizeof(quantities) / sizeof(quantities[0]) };

static uint64_t count(const struct agents *a, const struct sample *s, unsigned i)
{
	const struct port_view v = { a->fabric, a->traffic, &a->counters[s->port], s->port };

	return s->select[i] ? port_counters_total(&v, quantities[s->select[i] - 1]) : 0;
}

/* The node's, or NULL. */
static struct sample *find(const struct agents *a, uint32_t node)
{
	for (unsigned i = 0; i < AGENT_SAMPLES; i++)
		if (a->sample[i].is_used && a->fabric->owner[a->sample[i].port] == node)
			return &a->sample[i];
	return NULL;
}

/* A place that nobody has, or that of the sample which ended first; NULL: all are under way. */
static struct sample *make_room(const struct agents *a)
{
	struct sample *oldest = NULL;

	for (unsigned i = 0; i < AGENT_SAMPLES; i++) {
		struct sample *s = &a->sample[i];

		if (!s->is_used)
			return s;
		if (s->status == SAMPLE_DONE && (!oldest || s->due < oldest->due))
			oldest = s;
	}
	return oldest;
}

/* ---- time ---- */

static void begin(struct agents *a, wtime now, struct sample *s)
{
	for (unsigned i = 0; i < SAMPLE_COUNTERS; i++)
		s->count[i] = count(a, s, i);
	s->status = SAMPLE_RUNNING;
	s->due = now + (wtime)s->interval * TICK_NS;
}

static void end(struct agents *a, wtime now, struct sample *s)
{
	for (unsigned i = 0; i < SAMPLE_COUNTERS; i++) {
		uint64_t is = count(a, s, i);

		/* what programs write may become less */
		s->count[i] = is > s->count[i] ? is - s->count[i] : 0;
	}
	s->status = SAMPLE_DONE;
	s->due = now;
}

void samples_expire(struct agents *a, wtime now)
{
	if (now < a->sample_due)
		return;
	a->sample_due = WTIME_NEVER;
	for (unsigned i = 0; i < AGENT_SAMPLES; i++) {
		struct sample *s = &a->sample[i];

		if (s->is_used && s->status == SAMPLE_WAITING && s->due <= now)
			begin(a, now, s);
		if (s->is_used && s->status == SAMPLE_RUNNING && s->due <= now)
			end(a, now, s);
		if (s->is_used && s->status != SAMPLE_DONE)
			a->sample_due = wtime_min(a->sample_due, s->due);
	}
}

/* ---- requests ---- */

static bool reads_selects(const uint8_t *data, uint16_t select[SAMPLE_COUNTERS])
{
	for (unsigned i = 0; i < SAMPLE_COUNTERS; i++) {
		select[i] = (uint16_t)wire_get(data, CONTROL_SELECT(i));
		if (select[i] > QUANTITIES)
			return false;
	}
	return true;
}

/* While a sample is under way nothing is set: the tag of the answer tells. */
static enum mad_status set(struct agents *a, wtime now, uint32_t port, const uint8_t *data)
{
	struct sample *s = find(a, a->fabric->owner[port]);
	struct sample fresh = { .is_used = true, .port = port, .status = SAMPLE_WAITING };

	if (wire_get(data, CONTROL_OPCODE) || !reads_selects(data, fresh.select))
		return MAD_STATUS_BAD_VALUE;
	if (s && s->status != SAMPLE_DONE)
		return 0;
	if (!s)
		s = make_room(a);
	if (!s)
		return (enum mad_status)MAD_STATUS_BUSY;
	fresh.tag = (uint16_t)wire_get(data, CONTROL_TAG);
	fresh.start = (uint32_t)wire_get(data, CONTROL_START);
	fresh.interval = (uint32_t)wire_get(data, CONTROL_INTERVAL);
	fresh.due = now + (wtime)fresh.start * TICK_NS;
	*s = fresh;
	a->sample_due = wtime_min(a->sample_due, s->due);
	samples_expire(a, now);
	return 0;
}

static void get(const struct agents *a, uint32_t port, uint8_t *data)
{
	static const struct sample none;
	const struct sample *s = find(a, a->fabric->owner[port]);

	memset(data, 0, DATA_BYTES);
	wire_put(data, fabric_port_number(a->fabric, s ? s->port : port), CONTROL_PORT);
	wire_put(data, TICK, CONTROL_TICK);
	wire_put(data, WIDTH_32, CONTROL_WIDTH);
	wire_put(data, MASK0_9, CONTROL_MASK0_9);
	wire_put(data, MASK10_14, CONTROL_MASK10_14);
	s = s ? s : &none;
	wire_put(data, s->status, CONTROL_STATUS);
	wire_put(data, s->start, CONTROL_START);
	wire_put(data, s->interval, CONTROL_INTERVAL);
	wire_put(data, s->tag, CONTROL_TAG);
	for (unsigned i = 0; i < SAMPLE_COUNTERS; i++)
		wire_put(data, s->select[i], CONTROL_SELECT(i));
}

enum mad_status samples_control(struct agents *a, wtime now, uint32_t port, bool sets, uint8_t *data)
{
	enum mad_status status = port == PORT_NONE ? MAD_STATUS_BAD_VALUE : sets ? set(a, now, port, data) : 0;

	if (!status)
		get(a, port, data);
	return status;
}

enum mad_status samples_result(const struct agents *a, uint32_t node, bool is_extended, uint8_t *data)
{
	const struct sample *s = find(a, node);

	memset(data, 0, DATA_BYTES);
	if (is_extended)
		wire_put(data, WIDTH_64, RESULT_WIDTH);
	if (!s)
		return 0;
	wire_put(data, s->tag, RESULT_TAG);
	wire_put(data, s->status, RESULT_STATUS);
	for (unsigned i = 0; s->status == SAMPLE_DONE && i < SAMPLE_COUNTERS; i++) {
		if (is_extended)
			wire_put(data, s->count[i], RESULT_LONG_COUNT(i));
		else
			wire_put(data, s->count[i] < UINT32_MAX ? s->count[i] : UINT32_MAX, RESULT_COUNT(i));
	}
	return 0;
}
