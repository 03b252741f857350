/* The reliable multi-packet protocol of management datagrams, version 1 (IBA 13.6): a datagram longer than one MAD goes as
 * numbered segments, as many at once as the receiver's window allows, and is acknowledged. Both roles as pure engines with
 * injected time: a MAD in, a MAD to send back or none, a verdict, a deadline. What carries MADs, and whom they are for, is
 * mad_clients.h's.
 *
 * A transfer ends whole on both sides, or with a status that both sides learn: a STOP says that the receiver has no room, an
 * ABORT anything else. Neither is sent for a valid STOP or ABORT.
 *
 * A request of several segments whose answer has several too is two transfers, one after the other (13.6.6.3): who asks says with
 * an ACK of segment 0 that the answer may begin. The answer itself says so as well, and may begin before. */
#ifndef WEFT_MGMT_RMPP_H
#define WEFT_MGMT_RMPP_H

#include "base/time.h"
#include "wire/mad.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
	RMPP_HEADER_END = 36,		/* what PayloadLength counts begins here (13.6.2.1) */
	RMPP_CLASS_HEADER_END = 64,	/* of any class (13.6.2.2): rmpp_data_offset() is no more */
	RMPP_WINDOW = 64,		/* our choice, as Linux with its default receive queue */
	RMPP_WINDOW_MOST = 1024,	/* our choice: what may be missing is kept as so many bits */
	RMPP_RETRIES = 7,		/* our choice: of one wait for an ACK */
};

/* Our choices: how long a sender waits for an ACK, if the receiver does not say, and twice as long after each wait in vain; and
 * no longer, whatever the receiver says (as Linux). Within weftd an ACK comes after microseconds, and after some milliseconds
 * where the machine is busy. */
#define RMPP_ACK_NS (50 * WTIME_MS)
#define RMPP_ACK_MOST_NS (2 * WTIME_S)
#define RMPP_IDLE_NS (10 * WTIME_S)	/* our choice: how long a receiver waits for the next segment */
#define RMPP_TOTAL_NS (60 * WTIME_S)	/* our choice: how long a datagram may take from its first segment to its last... */
#define RMPP_TOTAL_EACH_NS WTIME_S	/* our choice: ...and so much more for each MB that it has */

enum rmpp_type { RMPP_DATA = 1, RMPP_ACK, RMPP_STOP, RMPP_ABORT };		/* 13.6.2.1, table 151 */

/* 13.6.2.1, table 152: why a transfer ended. 128 to 255 are a class's or a vendor's own, and end it as an ABORT. */
enum rmpp_status {
	RMPP_NORMAL = 0,
	RMPP_NO_RESOURCES = 1,		/* of a STOP, the others of an ABORT */
	RMPP_TOO_LONG = 118,		/* total time too long */
	RMPP_BAD_LENGTH = 119,		/* inconsistent last and PayloadLength */
	RMPP_BAD_FIRST = 120,		/* inconsistent first and segment number */
	RMPP_BAD_TYPE = 121,
	RMPP_WINDOW_SMALL = 122,	/* NewWindowLast before the segment acknowledged, or before that of the last ACK */
	RMPP_SEGMENT_BIG = 123,		/* a segment beyond what there is */
	RMPP_BAD_STATUS = 124,
	RMPP_BAD_VERSION = 125,
	RMPP_RETRIES_OVER = 126,
	RMPP_UNSPECIFIED = 127,
};

struct rmpp_header {
	uint8_t version, type, status;
	uint8_t resp_time;		/* RRespTime: 4.096 us * 2^n; 31: not said */
	bool is_active, is_first, is_last;
	uint32_t segment;		/* data1 */
	uint32_t value;			/* data2: PayloadLength or NewWindowLast */
};

void rmpp_parse(struct rmpp_header *h, const uint8_t mad[MAD_BYTES]);
/* Where a class keeps the data of a segment (13.6.2.2); what is before it comes with each. */
unsigned rmpp_data_offset(uint8_t mgmt_class);

/* A member that is 0 means the value in brackets. */
struct rmpp_config {
	uint32_t window;		/* segments that a receiver lets go at once [RMPP_WINDOW]; at most RMPP_WINDOW_MOST */
	uint32_t retries;		/* [RMPP_RETRIES] */
	wtime flight_ns;		/* one way, as the subnet's timeout says [0] */
	wtime ack_ns;			/* [RMPP_ACK_NS] */
	wtime soonest_ns;		/* least wait of a sender that has seen how long ACKs take; 0: it learns nothing [0] */
	wtime idle_ns, total_ns;	/* [RMPP_IDLE_NS, RMPP_TOTAL_NS]; beside RMPP_TOTAL_EACH_NS */
	uint32_t most;			/* bytes: no longer datagram is taken [all] */
};

enum rmpp_verdict { RMPP_GOES_ON, RMPP_DONE, RMPP_FAILED };

/* A datagram on its way out: its head, and all of its data behind it; or of one that is made while it is sent the data that is at
 * hand. Then its first segment says no length (13.6.2.1), and the last one follows when the end is known. */
struct rmpp_send {
	struct rmpp_config config;
	const uint8_t *data;		/* borrowed: the head, and what is at hand */
	uint32_t bytes;
	uint32_t gone;			/* segments that are at hand no more, as they were acknowledged */
	bool is_open;			/* more follows what is at hand: rmpp_send_more() */
	uint32_t segments, acked, next, sent, window_last;	/* segments count from 1; sent: the highest that was */
	uint32_t again;			/* goes again at once, by itself; 0: none */
	uint32_t recovers_to;		/* a loss was seen when this was the highest sent; 0: none since it was acknowledged */
	bool is_two_sided;		/* its answer may have several segments: set after init */
	uint8_t status;			/* enum rmpp_status: why it failed */
	unsigned retries;
	wtime wait, deadline;		/* for the next ACK */
	uint32_t timed;			/* segment that was sent once, at timed_at: its ACK tells how long one takes; 0: none */
	bool has_taken;			/* the next two are known, smoothed as by RFC 6298 */
	wtime took, varies, timed_at;
	wtime ends;			/* of all, once a segment was sent */
};

void rmpp_send_init(struct rmpp_send *s, const struct rmpp_config *config, const uint8_t *data, uint32_t bytes);
/* This is at hand now, of which no byte that was is another: at first, with is_open, or as more was made. It may lie elsewhere
 * in memory. */
void rmpp_send_more(struct rmpp_send *s, const uint8_t *data, uint32_t bytes, bool is_open);
/* Moves what was not acknowledged to the front, behind the head. The bytes that are left. */
uint32_t rmpp_send_trim(struct rmpp_send *s, uint8_t *data);
/* Segments that the receiver's window lets go, and that are not at hand; with those that are on their way RMPP_WINDOW_MOST. */
uint32_t rmpp_send_missing(const struct rmpp_send *s);
/* All that is at hand has gone, and the window is open: nothing goes before there is more, and no ACK is awaited. */
bool rmpp_send_is_starved(const struct rmpp_send *s);
/* It cannot be gone on with: `last` is the ABORT that says so. */
void rmpp_send_abort(struct rmpp_send *s, enum rmpp_status status, uint8_t last[MAD_BYTES]);
/* The next segment that may go now; false: none. */
bool rmpp_send_output(struct rmpp_send *s, wtime now, uint8_t mad[MAD_BYTES]);
/* An ACK, STOP or ABORT of the receiver. *answers: `reply` is to be sent: with RMPP_FAILED an ABORT, else an ACK of segment 0. */
enum rmpp_verdict rmpp_send_input(struct rmpp_send *s, wtime now, const uint8_t mad[MAD_BYTES], bool *answers,
				  uint8_t reply[MAD_BYTES]);
/* The deadline has passed: what was not acknowledged goes again. RMPP_FAILED: `last` is the ABORT that says so. */
enum rmpp_verdict rmpp_send_expire(struct rmpp_send *s, wtime now, uint8_t last[MAD_BYTES]);

/* A datagram that comes. */
struct rmpp_recv {
	struct rmpp_config config;
	uint8_t *data;			/* owned; its head is that of the first segment */
	uint32_t bytes, room;		/* bytes: 0 until it is whole */
	uint32_t last;			/* segment received in order */
	uint32_t window_last;
	uint32_t end;			/* the last segment, when it has come; 0: it has not */
	uint32_t payload;		/* what the first segment said; 0: nothing */
	uint32_t end_bytes;		/* of data in the last segment */
	uint32_t highest;		/* segment received */
	uint32_t kept, ahead;		/* segments beyond `last`; of these, those that came since `last` moved */
	uint64_t held[RMPP_WINDOW_MOST / 64];	/* bit: segment modulo RMPP_WINDOW_MOST has come, beyond `last` */
	uint8_t status;			/* enum rmpp_status: why it failed */
	uint8_t mgmt_class;		/* of the first that came: it says where data begins; others are not of this datagram */
	wtime began, deadline;
	uint8_t head[RMPP_CLASS_HEADER_END];	/* of the last segment, for an ABORT */
};

void rmpp_recv_init(struct rmpp_recv *r, const struct rmpp_config *config);
void rmpp_recv_fini(struct rmpp_recv *r);
/* A segment, a STOP or an ABORT of the sender. *answers: `reply`, an ACK, STOP or ABORT, is to be sent back. RMPP_DONE: data and
 * bytes are the datagram. Copies each segment once, to its place: the cost does not grow with the datagram. */
enum rmpp_verdict rmpp_recv_input(struct rmpp_recv *r, wtime now, const uint8_t mad[MAD_BYTES], bool *answers,
				  uint8_t reply[MAD_BYTES]);
/* The deadline has passed. RMPP_FAILED: `reply` is the ABORT that says so. */
enum rmpp_verdict rmpp_recv_expire(struct rmpp_recv *r, wtime now, uint8_t reply[MAD_BYTES]);

/* The ACK for a segment of a datagram that has come whole already. */
void rmpp_ack(const uint8_t mad[MAD_BYTES], uint32_t segment, uint32_t window_last, uint8_t reply[MAD_BYTES]);
/* A STOP (RMPP_NO_RESOURCES) or an ABORT (else) of a transfer of which this MAD came. */
void rmpp_end(const uint8_t mad[MAD_BYTES], enum rmpp_status status, uint8_t reply[MAD_BYTES]);

#endif
