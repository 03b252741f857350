/* What the port of a device has carried for one process: the packets that it sent and received, and those that its direct
 * messages would have been (wire/load.h). One thread at a time adds to it. Another process reads each word atomically: no store
 * of an aligned word is torn, and an addition of plain words is one instruction. */
#ifndef WEFT_WIRE_PORT_LOAD_H
#define WEFT_WIRE_PORT_LOAD_H

#include <stdbool.h>
#include <stdint.h>

/* WORDS are of 4 bytes. What stays at the port is sent and received by it, and has places of its own. */
enum port_load_count {
	PORT_LOAD_LOOP_WORDS, PORT_LOAD_LOOP_PACKETS, PORT_LOAD_LOOP_MULTICAST,
	PORT_LOAD_XMIT_WORDS, PORT_LOAD_XMIT_PACKETS, PORT_LOAD_XMIT_MULTICAST,
	PORT_LOAD_RCV_WORDS, PORT_LOAD_RCV_PACKETS, PORT_LOAD_RCV_MULTICAST,
	PORT_LOAD_XMIT_DISCARDS,
	PORT_LOADS
};

struct port_load {
	uint64_t count[PORT_LOADS];
};

/* The first of three places: LOOP, XMIT or RCV. */
enum port_load_way {
	PORT_LOAD_LOOP = PORT_LOAD_LOOP_WORDS, PORT_LOAD_XMIT = PORT_LOAD_XMIT_WORDS, PORT_LOAD_RCV = PORT_LOAD_RCV_WORDS,
};

/* l: NULL counts nothing. */
static inline void port_load_add(struct port_load *l, unsigned count, uint64_t n)
{
	if (l)
		l->count[count] += n;
}

static inline void port_load_pass(struct port_load *l, enum port_load_way way, uint64_t words, uint64_t packets, bool multicast)
{
	port_load_add(l, way, words);
	port_load_add(l, way + 1, packets);
	if (multicast)
		port_load_add(l, way + 2, packets);
}

#endif
