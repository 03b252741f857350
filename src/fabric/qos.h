/* How a subnet manager spreads service levels over virtual lanes, and how ports arbitrate between these (IBA 7.6.6, 7.6.9): data
 * alone. A head of a fabric has it (fabric/fabric.h). */
#ifndef WEFT_FABRIC_QOS_H
#define WEFT_FABRIC_QOS_H

#include <stdint.h>

enum {
	QOS_LEVELS = 16,		/* service levels (IBA 7.6.5) */
	QOS_LANES_MOST = 15,		/* data lanes; VL 15 is management's */
	QOS_NO_LANE = 15,		/* in sl2vl: packets of the level are dropped (14.2.5.8) */
	QOS_ENTRIES = 64,		/* of each priority of a VLArbitrationTable (14.2.5.9) */
};

struct fabric_vlarb {
	uint8_t vl, weight;
};

struct fabric_qos {
	uint8_t is_set;			/* 0: the defaults hold, whatever else is here */
	uint8_t max_vls;		/* data lanes that links use at most: 1 to QOS_LANES_MOST */
	uint8_t high_limit;		/* PortInfo.VLHighLimit */
	uint8_t rsvd[5];
	uint8_t sl2vl[QOS_LEVELS];
	struct fabric_vlarb high[QOS_ENTRIES], low[QOS_ENTRIES];
};

/* OpenSM's: each level has the lane of its number, but the last one lane 7; lane 0 has high priority. */
void qos_default(struct fabric_qos *q);
/* A copy of what somebody else wrote, with values that can be used. */
void qos_read(const struct fabric_qos *from, struct fabric_qos *q);

/* The largest code of OperationalVLs and VLCap (14.2.5.6) with at most so many data lanes, 1 or more; and how many a code has: of
 * one that is unknown 1. */
uint8_t qos_code(unsigned lanes);
unsigned qos_lanes(unsigned code);

#endif
