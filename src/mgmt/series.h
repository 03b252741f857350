/* Series of the seed's subnet administration (seed 001: REQUIREMENTS RMP-04..51): data of more than 192 bytes goes as numbered
 * segments, a window at a time. Both ends as pure engines with injected time; transaction.h makes requests and answers of them.
 * The standard's protocol is rmpp.h; the class version tells them apart.
 *
 * What is lost is asked for: a gap in the numbers, or a timer that ends, makes the receiver ask for the missing segment, and the
 * sender goes on from there. An Ack is cumulative, and what was acknowledged is not kept. */
#ifndef WEFT_MGMT_SERIES_H
#define WEFT_MGMT_SERIES_H

#include "base/time.h"
#include "wire/mad.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
	SERIES_CLASS_VERSION = 1,	/* of the SA's class: today's is 2 */
	SERIES_HEAD = 64,		/* bytes before the data */
	SERIES_DATA = MAD_BYTES - SERIES_HEAD,
	SERIES_WINDOW = 64,		/* of the first burst of a Config, and the least that is granted to one */
	SERIES_TRIES = 7,		/* the most that a packet is sent again, or asked for */
	SERIES_TIME_MOST = 20,		/* our choice: 4.3 s; a silent end is left after 104 s */
};

#define SERIES_TOTAL_NS (600 * WTIME_S)	/* our choice: the seed has no end for one that KeepAlives hold... */
#define SERIES_TOTAL_EACH_NS (60 * WTIME_S)	/* our choice: ...and so much more for each MB that has arrived */

/* Bit 0 is the most significant one; its mirror image, where series_config says so. */
enum series_flag {
	SERIES_FIRST = 0x80, SERIES_LAST = 0x20, SERIES_RESEND = 0x10, SERIES_ACK = 0x04, SERIES_KEEP_ALIVE = 0x01,
	SERIES_CONTROL = SERIES_RESEND | SERIES_ACK | SERIES_KEEP_ALIVE,
};

/* F(type, member, byte, bit, width): our choice of places, as the seed has none (RMP-18) */
#define SERIES_FIELDS(F)			\
	F(uint64_t, key, 24, 0, 64)		\
	F(uint32_t, segment, 32, 0, 32)		\
	F(uint32_t, length, 36, 0, 32)		\
	F(uint8_t, flags, 40, 0, 8)		\
	F(uint8_t, edit, 41, 0, 8)		\
	F(uint16_t, window, 42, 0, 16)		\
	F(uint16_t, end_id, 44, 0, 16)		\
	F(uint64_t, mask, 56, 0, 64)

struct series_header {
#define MEMBER(type, member, byte, bit, width) type member;
	SERIES_FIELDS(MEMBER)
#undef MEMBER
};

struct series_config {
	uint8_t subnet_timeout, response_time;	/* 4.096 us * 2^n: a flight; what an end takes */
	uint8_t retries;			/* 0 to 7; more count as 7 */
	bool is_lsb_first;			/* of the flags: bit 0 is the least significant one */
	bool heeds_window;			/* of a requester's Acks: they change the window of an answer */
	uint32_t most;				/* bytes: no longer series is taken; 0: any */
	wtime total_ns;				/* of a whole transaction; 0: SERIES_TOTAL_NS; beside SERIES_TOTAL_EACH_NS */
};

/* Times that others say: a port's SubnetTimeOut and a responder's RespTimeValue (RMP-33), each at most SERIES_TIME_MOST. */
void series_config_times(struct series_config *c, unsigned subnet_timeout, unsigned response_time);
wtime series_processing_ns(const struct series_config *c);	/* what an end takes */
wtime series_response_ns(const struct series_config *c);	/* two flights, and what an end takes */
wtime series_segment_ns(const struct series_config *c);		/* one flight, and what an end takes */

void series_parse(struct series_header *h, const struct series_config *c, const uint8_t mad[MAD_BYTES]);
/* Into a MAD whose other bytes stay. */
void series_build(const struct series_header *h, const struct series_config *c, uint8_t mad[MAD_BYTES]);

enum series_verdict { SERIES_GOES_ON, SERIES_DONE, SERIES_FAILED };

/* ---- a series on its way out ---- */

struct series_out {
	struct series_config config;
	bool is_request;		/* of a Config */
	const uint8_t *data;		/* borrowed */
	uint32_t bytes;			/* gathered so far */
	bool is_all;			/* no more come */
	uint32_t window, acked, next, sent, limit;	/* segments from 1; limit: the last that may go now */
	uint32_t end;			/* the last segment, once it was sent */
	uint32_t asked;			/* the highest segment that was asked for */
	unsigned asks, retries;		/* asks: since that, or `acked`, grew */
	bool is_gone;			/* the receiver has asked for what it had acknowledged */
	bool is_quiet;			/* it has been silent for as long as it may: a KeepAlive is due */
	wtime deadline;
};

/* data: may grow and shrink behind what was sent (series_out_set). window: 0 counts as SERIES_WINDOW. */
void series_out_init(struct series_out *s, const struct series_config *c, bool is_request, uint16_t window);
void series_out_set(struct series_out *s, wtime now, const uint8_t *data, uint32_t bytes, bool is_all);
/* The next packet: its header, and its data and their bytes. False: none may go now. A KeepAlive has no data. */
bool series_out_next(struct series_out *s, wtime now, struct series_header *h, const uint8_t **data, uint32_t *bytes);
/* An Ack, Resend or KeepAlive. FAILED with is_gone: the answer is a status. */
enum series_verdict series_out_input(struct series_out *s, wtime now, const struct series_header *h);
enum series_verdict series_out_expire(struct series_out *s, wtime now);
/* Segments that are kept because they may be asked for. */
uint32_t series_out_kept(const struct series_out *s);

/* ---- a series that comes ---- */

struct series_in {
	struct series_config config;
	bool is_request;		/* of a Config */
	uint8_t *data;			/* owned */
	uint32_t bytes, room;
	uint32_t total;			/* as the first packet said */
	uint32_t last;			/* segment received in order */
	uint32_t acked, window;
	uint32_t space;			/* segments that a further window may have; a Config's Ack waits for 64 of them */
	unsigned asks;			/* for the segment that is missing */
	bool discards;			/* until that comes */
	uint32_t ahead;			/* the highest segment that has come behind it */
	bool is_held;			/* the Ack of a full window waits for space */
	bool is_done;
	wtime deadline;
};

/* window: what the sender was given. */
void series_in_init(struct series_in *s, const struct series_config *c, bool is_request, uint16_t window);
void series_in_fini(struct series_in *s);
/* Is this a packet of data that makes sense, and in the window? */
bool series_in_takes(const struct series_in *s, const struct series_header *h);
/* A packet of data. `say`: what is to be said to the sender; its flags are 0 for nothing. */
enum series_verdict series_in_input(struct series_in *s, wtime now, const struct series_header *h, const uint8_t mad[MAD_BYTES],
				    struct series_header *say);
/* There is space for so many segments more, in all; each window that is granted takes of them. */
void series_in_space(struct series_in *s, wtime now, uint32_t segments, struct series_header *say);
/* The sender asks for patience. */
void series_in_keep_alive(struct series_in *s, wtime now);
enum series_verdict series_in_expire(struct series_in *s, wtime now, struct series_header *say);

#endif
