#include "fabric/qos.h"

enum { WEIGHT = 4, LAST_LANE = 7 };	/* of OpenSM's defaults */

/* 14.2.5.6: 1, 2, 4, 8 and 15 data lanes */
static const uint8_t lanes_of[] = { 1, 1, 2, 4, 8, QOS_LANES_MOST };

enum { CODES = sizeof(lanes_of) };

void qos_default(struct fabric_qos *q)
{
	*q = (struct fabric_qos){ .is_set = 1, .max_vls = QOS_LANES_MOST };
	for (unsigned i = 0; i < QOS_LANES_MOST; i++) {
		q->sl2vl[i] = (uint8_t)i;
		q->high[i] = (struct fabric_vlarb){ (uint8_t)i, i ? 0 : WEIGHT };
		q->low[i] = (struct fabric_vlarb){ (uint8_t)i, i ? WEIGHT : 0 };
	}
	q->sl2vl[QOS_LEVELS - 1] = LAST_LANE;
}

static void bound_lanes(struct fabric_vlarb entry[QOS_ENTRIES])
{
	for (unsigned i = 0; i < QOS_ENTRIES; i++)
		entry[i].vl &= 15;
}

void qos_read(const struct fabric_qos *from, struct fabric_qos *q)
{
	*q = *from;
	if (!q->is_set) {
		qos_default(q);
		return;
	}
	if (!q->max_vls || q->max_vls > QOS_LANES_MOST)
		q->max_vls = QOS_LANES_MOST;
	for (unsigned i = 0; i < QOS_LEVELS; i++)
		q->sl2vl[i] &= 15;
	bound_lanes(q->high);
	bound_lanes(q->low);
}

uint8_t qos_code(unsigned lanes)
{
	uint8_t code = CODES - 1;

	while (code > 1 && lanes_of[code] > lanes)
		code--;
	return code;
}

unsigned qos_lanes(unsigned code)
{
	return code < CODES ? lanes_of[code] : 1;
}
