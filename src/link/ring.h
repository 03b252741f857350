/* One direction of a shared-memory channel: a ring of 64-byte lines with one producer and one consumer in different
 * processes. A record starts on a line with its commit word; the word is the only thing the consumer looks at, so a
 * message costs one shared line. Neither side trusts the other: what it reads is copied once and range-checked, and a
 * side that breaks the rules is marked broken and left alone. */
#ifndef WEFT_LINK_RING_H
#define WEFT_LINK_RING_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

enum {
	RING_LINE = 64,
	RING_BYTES = 1 << 20,		/* our choice: 250 full frames in flight, and half of a common L2 */
	RING_LINES = RING_BYTES / RING_LINE,
	RING_HEAD = 8,			/* commit word and padding before the record's bytes */
	RING_ALIKE = 68,		/* lines; see ring_producer.is_answered; our choice: a record of 4 KB and its head */
	RING_AHEAD = RING_ALIKE + 2,	/* lines behind the last record that stay free, for commit words that are zero */
	RING_SHORT = RING_LINE - RING_HEAD,	/* the longest record of one line */
	RING_MAX_RECORD = 8192,		/* bytes; enough for the longest frame */
	RING_KINDS = 256,		/* a record's kind: 0..255, the user's */
};

/* The shared words of a ring: one line per writer. */
struct ring_words {
	_Alignas(RING_LINE) _Atomic uint32_t head;	/* consumer: lines taken, cumulative */
	_Alignas(RING_LINE) _Atomic uint32_t blocked;	/* producer sets it when it waits for room, consumer clears it */
};

struct ring_producer {
	struct ring_words *words;	/* borrowed, shared */
	uint8_t *lines;			/* borrowed, shared: RING_BYTES */
	uint32_t tail;			/* lines written, cumulative */
	uint32_t head;			/* the last good head seen */
	uint32_t zeroed;		/* the commit words of lines from the tail to here are zero: two or more */
	bool is_answered;	/* the owner says so: the consumer is not behind, and the next record may be as long as this */
	bool broken;
};

struct ring_consumer {
	struct ring_words *words;	/* borrowed, shared */
	uint8_t *lines;			/* borrowed, shared */
	uint32_t head, published;
	bool broken;
};

/* Commit word: bit 31 valid, bit 30 skip, bits 20..27 kind, bits 0..15 bytes. */
#define RING_VALID 0x80000000u
#define RING_SKIP 0x40000000u
#define RING_KIND_SHIFT 20
#define RING_BYTES_MASK 0xffffu

#define RING_LINE_MASK (RING_LINES - 1u)
#define RING_MARKED (1ull << 32)

static inline size_t ring_offset(uint32_t position)
{
	return (size_t)(position & RING_LINE_MASK) * RING_LINE;
}

static inline _Atomic uint32_t *ring_word(uint8_t *lines, uint32_t position)
{
	return (_Atomic uint32_t *)(void *)(lines + ring_offset(position));
}

static inline uint32_t ring_record_lines(size_t bytes)
{
	return (uint32_t)((RING_HEAD + bytes + RING_LINE - 1) / RING_LINE);
}

/* For ring_commit_word, of any length. */
void ring_commit_lines(struct ring_producer *p, uint32_t lines, uint32_t word);
/* For ring.c and ring_commit: the record that begins at the tail is there, and nothing behind it. The word behind a record of one
 * line is zero since the one before: the consumer may have that line, and to fetch it would hold the record back. */
static inline void ring_commit_word(struct ring_producer *p, uint32_t lines, uint32_t word)
{
	if (lines != 1) {
		ring_commit_lines(p, lines, word);
		return;
	}
	atomic_store_explicit(ring_word(p->lines, p->tail++), word, memory_order_release);
	if (p->zeroed - p->tail == 1)
		atomic_store_explicit(ring_word(p->lines, p->zeroed++), 0, memory_order_relaxed);
}

/* Fresh rings: the memory is zero. */
void ring_producer_init(struct ring_producer *p, struct ring_words *words, void *lines);
void ring_consumer_init(struct ring_consumer *c, struct ring_words *words, void *lines);

/* For ring.c and ring_room: are so many lines free, and RING_AHEAD behind them? When not, the consumer is told that we wait. */
bool ring_find_room(struct ring_producer *p, uint32_t lines);
/* For how many records of any length up to `bytes` is there room, as far as the consumer has told? When for none, it is told that
 * we wait. */
static inline unsigned ring_room(struct ring_producer *p, size_t bytes)
{
	uint32_t lines = ring_record_lines(bytes);

	/* at worst a record does not fit before the end, and as many lines less one are skipped */
	return ring_find_room(p, 2 * lines - 1) ? (RING_LINES - (p->tail - p->head) - lines + 1 - RING_AHEAD) / lines : 0;
}
/* Memory for a record of `bytes` (<= RING_MAX_RECORD), contiguous, 8-byte aligned; NULL when there is no room. Nothing
 * is visible before ring_commit with the same `bytes`. */
void *ring_reserve(struct ring_producer *p, size_t bytes);
static inline void ring_commit(struct ring_producer *p, size_t bytes, unsigned kind)
{
	ring_commit_word(p, ring_record_lines(bytes), RING_VALID | (uint32_t)kind << RING_KIND_SHIFT | (uint32_t)bytes);
}
/* What ring_reserve would return for any record of one line, without a look at the consumer; NULL when that must be asked. */
static inline void *ring_line(const struct ring_producer *p)
{
	bool free = RING_LINES - (p->tail - p->head) > RING_AHEAD;

	return free && !p->broken ? p->lines + (size_t)(p->tail & RING_LINE_MASK) * RING_LINE + RING_HEAD : NULL;
}
/* Has the consumer taken everything, as far as it has told? */
bool ring_drained(struct ring_producer *p);

/* Where it ends now, never 0; and has the consumer not yet told that it took all up to there? */
static inline uint64_t ring_mark(const struct ring_producer *p)
{
	return RING_MARKED | p->tail;
}
bool ring_undelivered(struct ring_producer *p, uint64_t mark);

/* Copies the oldest record to `to` and takes it. Its bytes (> 0), or 0: nothing there, or broken. A record longer than
 * `room` breaks the ring. What follows the record in `to` is not kept. */
size_t ring_take(struct ring_consumer *c, void *to, size_t room, unsigned *kind);
/* The word that says whether a record waits, by not being 0: until it is taken. */
static inline const _Atomic uint32_t *ring_arrival(const struct ring_consumer *c)
{
	return (const _Atomic uint32_t *)(const void *)(c->lines + (size_t)(c->head % RING_LINES) * RING_LINE);
}

/* What a commit word says of a record of one line of this kind: its bytes; 0: it is no such record. */
static inline size_t ring_line_bytes(uint32_t word, unsigned kind)
{
	uint32_t bytes = word & RING_BYTES_MASK;

	return (word ^ bytes) == (RING_VALID | (uint32_t)kind << RING_KIND_SHIFT) && bytes - 1 < RING_SHORT ? bytes : 0;
}

/* The same of a record of this kind that may be longer, where it would end before the ring does. */
static inline size_t ring_record_bytes(const struct ring_consumer *c, uint32_t word, unsigned kind)
{
	uint32_t bytes = word & RING_BYTES_MASK;

	return !c->broken && (word ^ bytes) == (RING_VALID | (uint32_t)kind << RING_KIND_SHIFT) && bytes - 1 < RING_MAX_RECORD &&
	       ring_record_lines(bytes) <= RING_LINES - (c->head & RING_LINE_MASK) ? bytes : 0;
}

/* The same at once for a record of one line of this kind; `to` has room for RING_SHORT bytes. 0: ask ring_take. */
static inline size_t ring_take_line(struct ring_consumer *c, void *to, unsigned kind)
{
	const _Atomic uint32_t *line = ring_arrival(c);
	size_t bytes = ring_line_bytes(atomic_load_explicit(line, memory_order_acquire), kind);

	if (!bytes || c->broken)
		return 0;
	memcpy(to, (const uint8_t *)(const void *)line + RING_HEAD, RING_SHORT);	/* of a length that the compiler knows */
	c->head++;
	return bytes;
}

/* Is a record waiting? */
static inline bool ring_pending(const struct ring_consumer *c)
{
	return !c->broken && atomic_load_explicit(ring_arrival(c), memory_order_acquire) != 0;
}

/* Tells the producer what was taken: `idle` at once, otherwise when an eighth of the ring is due. True when the producer
 * was waiting for it and must be woken if it sleeps. */
static inline bool ring_publish(struct ring_consumer *c, bool idle)
{
	uint32_t due = c->head - c->published;

	if (!idle && due < RING_LINES / 8)
		return false;
	if (due) {
		atomic_store_explicit(&c->words->head, c->head, memory_order_release);
		c->published = c->head;
	}
	if (!atomic_load_explicit(&c->words->blocked, memory_order_relaxed))
		return false;
	atomic_store_explicit(&c->words->blocked, 0, memory_order_relaxed);
	return true;
}

#endif
