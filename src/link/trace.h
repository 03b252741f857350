/* A trace as bytes: records one after another, each of 24 bytes and what belongs to it, integers little-endian. Several
 * processes append to one file in whole blocks, so every record says whose it is. Pure; weft replay reads them. */
#ifndef WEFT_LINK_TRACE_H
#define WEFT_LINK_TRACE_H

#include "link/impair.h"

enum {
	TRACE_HEAD = 24,
	TRACE_RECORD_MOST = TRACE_HEAD + PACKET_MAX_BYTES,	/* bytes of the longest record */
	TRACE_NAME = 16,					/* of a program, NUL included */
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
	TRACE_KINDS,
};

enum { TRACE_STOPPED = 1 };	/* as marks of a frame that passed in: the engine stopped its QP */

struct trace_record {
	enum trace_kind kind;
	enum packet_form form;			/* of frames */
	enum impair_direction direction;
	uint8_t marks;				/* enum impair_mark, TRACE_OFFERED; TRACE_STOPPED */
	uint32_t pid, to;			/* to: the destination's slot, out; what impair_push was given */
	wtime time;
	const uint8_t *data;			/* borrowed: the frame, or a process's text */
	uint32_t bytes;
};

struct trace_process {
	char program[TRACE_NAME];
	char impair[IMPAIR_TEXT];	/* the specification with its seed; empty: none */
};

/* Writes the record; room must be >= TRACE_HEAD + r->bytes. Returns that many. */
size_t trace_put(const struct trace_record *r, uint8_t *to);
/* Reads one; r->data points into `from`. Its length, 0: it is not whole, -1: no record. */
int trace_get(struct trace_record *r, const uint8_t *from, size_t bytes);

/* A process record's text. */
uint32_t trace_put_process(const struct trace_process *p, uint8_t to[sizeof(struct trace_process)]);
bool trace_get_process(struct trace_process *p, const struct trace_record *r);

#endif
