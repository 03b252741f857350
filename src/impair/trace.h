/* A trace as bytes: records one after another, each of 24 bytes and what belongs to it, integers little-endian. Several
 * processes append to one file in whole blocks, so every record says whose it is. Pure; weft replay reads them. */
#ifndef WEFT_IMPAIR_TRACE_H
#define WEFT_IMPAIR_TRACE_H

#include "impair/impair.h"

enum {
	TRACE_HEAD = 24,
	TRACE_RECORD_MOST = TRACE_HEAD + PACKET_MAX_BYTES,	/* bytes of the longest record */
	TRACE_NAME = 16,					/* of a program or a device, NUL included */
	TRACE_VERSION = 6,	/* 6: a QP may have an alternate path; 5: it says whether it repeats selectively;
				 * 4: has TRACE_CALL, TRACE_EVENT; 3: a record and a
				 * process name devices; 2: a form of frames stood for its one device */
};

enum trace_kind {
	TRACE_PROCESS = 1,	/* a process attached: trace_process */
	TRACE_OFFERED,		/* a frame came to a lane that has rules; marks say what becomes of it */
	TRACE_PASSED,		/* a frame went on: out to the link, or in to the parser and the engine */
	/* entries into the engine other than frames, `to` is the QP's number: trace_engine.h */
	TRACE_QP,
	TRACE_QP_GONE,
	TRACE_SEND,
	TRACE_RECEIVES,
	TRACE_EXPIRE,		/* its timer */
	TRACE_SRQ,		/* `to` is the shared receive queue's number */
	TRACE_IMPAIR,		/* other faults from now on: their text with its NUL */
	TRACE_CALL,		/* of a verb with a fault; `to` is the verb: trace_call */
	TRACE_EVENT,		/* of a fault at its time; `to` is its place in the specification: trace_call */
	TRACE_LOST,		/* `to` records of the process have been lost so far, as a capture's reader was too slow */
	TRACE_KINDS,
};

/* As marks of a frame that passed in: the engine stopped its QP; took it for nothing, as it was not its sender's to send, or the
 * port was down. */
enum { TRACE_STOPPED = 1, TRACE_REFUSED = 2 };

/* Of one that passed out: links of the fabric lost it, or were so slow that it waited. */
enum { TRACE_LINK_LOST = 4, TRACE_LINK_HELD = 8 };

struct trace_record {
	enum trace_kind kind;
	unsigned device;			/* < IMPAIR_DEVICES */
	enum packet_form form;			/* of frames */
	enum impair_direction direction;
	uint8_t marks;				/* enum impair_mark, TRACE_OFFERED; TRACE_STOPPED ... */
	uint32_t pid, to;			/* to: the destination's slot, out; the origin, in; what impair_push was given */
	wtime time;
	const uint8_t *data;			/* borrowed: the frame, or a process's text */
	uint32_t bytes;
};

struct trace_process {
	char program[TRACE_NAME];
	char impair[IMPAIR_TEXT];	/* the specification with its seed; empty: none */
	unsigned devices;
	struct trace_device {
		char name[TRACE_NAME];		/* weft0 */
		char protocol[TRACE_NAME];	/* struct device_protocol.name */
	} device[IMPAIR_DEVICES];
};

/* Writes the record; room must be >= TRACE_HEAD + r->bytes. Returns that many. */
size_t trace_put(const struct trace_record *r, uint8_t *to);
/* Reads one; r->data points into `from`. Its length, 0: it is not whole, -1: no record. */
int trace_get(struct trace_record *r, const uint8_t *from, size_t bytes);

/* The version of what begins like a record, or -1. */
int trace_version(const uint8_t *from, size_t bytes);

/* A TRACE_IMPAIR's text. */
bool trace_get_impair(const struct trace_record *r, char to[IMPAIR_TEXT]);

/* A process record's text. */
uint32_t trace_put_process(const struct trace_process *p, uint8_t to[sizeof(struct trace_process)]);
bool trace_get_process(struct trace_process *p, const struct trace_record *r);

#endif
