/* The ring's invariant: the two lines that follow the last committed record have zero commit words, so stale bytes of an
 * earlier lap never look like a record. Records do not wrap: a SKIP record fills the end of the ring. */
#include "link/ring.h"

#include <string.h>

#define WORD_SPARE (~(RING_VALID | RING_SKIP | (RING_KINDS - 1u) << RING_KIND_SHIFT | RING_BYTES_MASK))

static inline uint32_t lines_to_end(uint32_t position)
{
	return RING_LINES - (position & RING_LINE_MASK);
}

void ring_producer_init(struct ring_producer *p, struct ring_words *words, void *lines)
{
	*p = (struct ring_producer){ .words = words, .lines = lines, .zeroed = 2 };
}

void ring_consumer_init(struct ring_consumer *c, struct ring_words *words, void *lines)
{
	*c = (struct ring_consumer){ .words = words, .lines = lines };
}

/* Stores reach the consumer in order, so a line that must be fetched from it holds back the record's word. Where records are
 * answered, the commit words up to the second behind the next record, if it is as long, become zero once this one is there: its
 * lines are this CPU's by then. A consumer that reads record after record would fetch them ahead, and they would cross twice. */
void ring_commit_lines(struct ring_producer *p, uint32_t lines, uint32_t word)
{
	uint8_t *base = p->lines;
	uint32_t next = p->tail + lines, zeroed = p->zeroed, end = next + 2;

	if (p->is_answered && lines <= RING_ALIKE)
		end += lines;
	if ((int32_t)(zeroed - next) <= 0) {
		atomic_store_explicit(ring_word(base, next), 0, memory_order_relaxed);
		zeroed = next + 1;
	}
	atomic_store_explicit(ring_word(base, p->tail), word, memory_order_release);
	p->tail = next;
	for (size_t at = ring_offset(zeroed); (int32_t)(end - zeroed) > 0; zeroed++, at = (at + RING_LINE) % RING_BYTES)
		atomic_store_explicit((_Atomic uint32_t *)(void *)(base + at), 0, memory_order_relaxed);
	p->zeroed = zeroed;
}

/* Takes over the consumer's head if it can be true: between what it said before and what was written. */
static void read_head(struct ring_producer *p)
{
	uint32_t head = atomic_load_explicit(&p->words->head, memory_order_acquire);

	if (head - p->head > p->tail - p->head)
		p->broken = true;
	else
		p->head = head;
}

/* The lines of the zero commit words behind the record stay free. */
static bool has_free(const struct ring_producer *p, uint32_t lines)
{
	return RING_LINES - (p->tail - p->head) >= lines + RING_AHEAD;
}

bool ring_find_room(struct ring_producer *p, uint32_t lines)
{
	if (has_free(p, lines))
		return !p->broken;
	read_head(p);
	if (p->broken || has_free(p, lines))
		return !p->broken;
	atomic_store_explicit(&p->words->blocked, 1, memory_order_relaxed);
	/* Either we see the head that the consumer publishes now, or it sees that we wait when it is next idle. */
	atomic_thread_fence(memory_order_seq_cst);
	read_head(p);
	return !p->broken && has_free(p, lines);
}

void *ring_reserve(struct ring_producer *p, size_t bytes)
{
	uint32_t lines = ring_record_lines(bytes);
	uint32_t rest = lines_to_end(p->tail);

	if (bytes == 0 || bytes > RING_MAX_RECORD || !ring_find_room(p, lines <= rest ? lines : rest + lines))
		return NULL;
	if (lines > rest)
		ring_commit_word(p, rest, RING_VALID | RING_SKIP);
	return p->lines + (size_t)(p->tail & RING_LINE_MASK) * RING_LINE + RING_HEAD;
}

bool ring_drained(struct ring_producer *p)
{
	read_head(p);
	return p->broken || p->head == p->tail;
}

bool ring_undelivered(struct ring_producer *p, uint64_t mark)
{
	read_head(p);
	return !p->broken && p->tail - (uint32_t)mark < p->tail - p->head;
}

/* The word of the next record, past a skip; 0 when nothing is there or the producer broke the rules. */
static uint32_t next_word(struct ring_consumer *c)
{
	uint32_t word = atomic_load_explicit(ring_word(c->lines, c->head), memory_order_acquire);

	if (word & RING_SKIP) {
		if (word != (RING_VALID | RING_SKIP) || lines_to_end(c->head) == RING_LINES) {
			c->broken = true;
			return 0;
		}
		c->head += lines_to_end(c->head);
		word = atomic_load_explicit(ring_word(c->lines, c->head), memory_order_acquire);
	}
	if (word == 0)
		return 0;
	if (!(word & RING_VALID) || word & (WORD_SPARE | RING_SKIP)) {
		c->broken = true;
		return 0;
	}
	return word;
}

size_t ring_take(struct ring_consumer *c, void *to, size_t room, unsigned *kind)
{
	uint32_t word = c->broken ? 0 : next_word(c);
	size_t bytes = word & RING_BYTES_MASK;
	const uint8_t *from;

	if (word == 0)
		return 0;
	if (bytes == 0 || bytes > room || ring_record_lines(bytes) > lines_to_end(c->head)) {
		c->broken = true;
		return 0;
	}
	from = c->lines + (size_t)(c->head & RING_LINE_MASK) * RING_LINE + RING_HEAD;
	if (bytes <= RING_SHORT && room >= RING_SHORT)
		memcpy(to, from, RING_SHORT);	/* of a length that the compiler knows */
	else
		memcpy(to, from, bytes);
	*kind = word >> RING_KIND_SHIFT & (RING_KINDS - 1);
	c->head += ring_record_lines(bytes);
	return bytes;
}
