/* The reliable multi-packet protocol of management datagrams (IBA 13.6): a datagram longer than one MAD goes as numbered
 * segments, as many at once as the receiver's window allows, and is acknowledged. The simple sender and receiver: one transfer in
 * one direction; lost segments are sent again from the last one acknowledged. Pure. What carries MADs, and whom they are for, is
 * mad_clients.h's. */
#ifndef WEFT_MGMT_RMPP_H
#define WEFT_MGMT_RMPP_H

#include "base/time.h"
#include "wire/mad.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
	RMPP_HEADER_END = 36,		/* what PayloadLength counts begins here (13.6.2.1) */
	RMPP_WINDOW = 64,		/* our choice, as Linux with its default receive queue */
	RMPP_RETRIES = 4,		/* our choice */
};

#define RMPP_ACK_NS (500 * WTIME_MS)	/* our choice: how long a sender waits for an ACK */

enum rmpp_type { RMPP_DATA = 1, RMPP_ACK, RMPP_STOP, RMPP_ABORT };		/* 13.6.2.1, table 151 */

struct rmpp_header {
	uint8_t type, status;
	bool is_active, is_first, is_last;
	uint32_t segment;		/* data1 */
	uint32_t value;			/* data2: PayloadLength or NewWindowLast */
};

void rmpp_parse(struct rmpp_header *h, const uint8_t mad[MAD_BYTES]);
/* Where a class keeps the data of a segment (13.6.2.2); what is before it comes with each. */
unsigned rmpp_data_offset(uint8_t mgmt_class);

/* A datagram on its way out: its head, and all of its data behind it. */
struct rmpp_send {
	const uint8_t *data;		/* borrowed: the whole datagram */
	uint32_t bytes;
	uint32_t segments, acked, next, sent, window_last;	/* segments count from 1; sent: the highest that was */
	unsigned retries;
	wtime deadline;			/* for the next ACK */
};

enum rmpp_verdict { RMPP_GOES_ON, RMPP_DONE, RMPP_FAILED };

void rmpp_send_init(struct rmpp_send *s, const uint8_t *data, uint32_t bytes);
/* The next segment that may go now; false: none. */
bool rmpp_send_output(struct rmpp_send *s, wtime now, uint8_t mad[MAD_BYTES]);
/* An ACK, STOP or ABORT of the receiver. */
enum rmpp_verdict rmpp_send_input(struct rmpp_send *s, wtime now, const uint8_t mad[MAD_BYTES]);
/* The deadline has passed: what was not acknowledged goes again. */
enum rmpp_verdict rmpp_send_expire(struct rmpp_send *s, wtime now);

/* A datagram that comes. */
struct rmpp_recv {
	uint8_t *data;			/* owned */
	uint32_t bytes, room, most;
	uint32_t last;			/* segment received in order */
	uint32_t window_last;
};

/* most: no longer datagram is taken. */
void rmpp_recv_init(struct rmpp_recv *r, uint32_t most);
void rmpp_recv_fini(struct rmpp_recv *r);
/* A segment. *answers: `reply`, an ACK or an ABORT, is to be sent back. RMPP_DONE: data and bytes are the datagram. */
enum rmpp_verdict rmpp_recv_input(struct rmpp_recv *r, const uint8_t mad[MAD_BYTES], bool *answers, uint8_t reply[MAD_BYTES]);

/* The ACK for a segment of a datagram that has come whole already. */
void rmpp_ack(const uint8_t mad[MAD_BYTES], uint32_t segment, uint32_t window_last, uint8_t reply[MAD_BYTES]);

#endif
