/* What a hostile peer may write into a channel: the input is laid over the ring and the head word, and both our ends are
 * driven over it. Nothing may be touched outside and everything must end. */
#include "fuzz.h"

#include "link/ring.h"

#include <string.h>

enum { RECORDS = 400 };		/* three times as many of the longest as the ring holds */

static struct {
	struct ring_words words;
	_Alignas(RING_LINE) uint8_t lines[RING_BYTES];
} shared;

static void consume(uint32_t head)
{
	uint8_t *frame = malloc(4400);
	struct ring_consumer c;
	unsigned kind;

	ring_consumer_init(&c, &shared.words, shared.lines);
	c.head = c.published = head;
	for (unsigned i = 0; i < 2 * RING_LINES && ring_take(&c, frame, 4400, &kind); i++)
		ring_publish(&c, i % 7 == 0);
	free(frame);
}

/* From a place of the input's on; then the peer says that it has read up to another one. */
static void produce(uint32_t start, uint32_t head, size_t bytes)
{
	struct ring_producer p;

	ring_producer_init(&p, &shared.words, shared.lines);
	p.head = p.tail = start;
	atomic_store(&shared.words.head, start);
	for (unsigned i = 0; i < RECORDS; i++) {
		uint8_t *at;

		if (i == 20)
			atomic_store(&shared.words.head, head);
		at = ring_reserve(&p, bytes);
		if (!at)
			break;
		REQUIRE(at >= shared.lines && at + bytes <= shared.lines + RING_BYTES);
		at[0] = at[bytes - 1] = 0x5a;
		ring_commit(&p, bytes, i % RING_KINDS);
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	uint32_t head, start;
	uint16_t bytes;

	if (size < 10)
		return 0;
	memcpy(&head, data, 4);
	memcpy(&bytes, data + 4, 2);
	memcpy(&start, data + 6, 4);
	data += 10;
	size -= 10;
	memset(&shared, 0, sizeof(shared));
	for (size_t i = 0; i * 4 + 4 <= size; i++)
		memcpy(shared.lines + ((head + i) % RING_LINES) * RING_LINE, data + i * 4, 4);
	consume(head);
	produce(start, head, 1 + bytes % RING_MAX_RECORD);
	return 0;
}
