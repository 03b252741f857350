/* The shared-memory ring: order and content over many laps, the full ring and its wake-up word, two threads, and a
 * peer that writes what it likes into the shared memory. */
#include "link/ring.h"

#include "base/rand.h"

#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

struct pair {
	struct ring_words words;
	_Alignas(RING_LINE) uint8_t lines[RING_BYTES];
	struct ring_producer p;
	struct ring_consumer c;
};

static struct pair *pair_create(void)
{
	struct pair *r = aligned_alloc(RING_LINE, sizeof(*r));

	assert_non_null(r);
	memset(r, 0, sizeof(*r));
	ring_producer_init(&r->p, &r->words, r->lines);
	ring_consumer_init(&r->c, &r->words, r->lines);
	return r;
}

/* Every byte of record n is a function of n, so that stale or mixed bytes show. */
static void fill(uint8_t *at, size_t bytes, uint32_t n)
{
	for (size_t i = 0; i < bytes; i++)
		at[i] = (uint8_t)(n * 31 + i);
}

static bool filled(const uint8_t *at, size_t bytes, uint32_t n)
{
	for (size_t i = 0; i < bytes; i++) {
		if (at[i] != (uint8_t)(n * 31 + i))
			return false;
	}
	return true;
}

static bool produce(struct ring_producer *p, size_t bytes, uint32_t n)
{
	uint8_t *at = ring_reserve(p, bytes);

	if (!at)
		return false;
	fill(at, bytes, n);
	ring_commit(p, bytes, n % RING_KINDS);
	return true;
}

static void records_come_out_in_order(void **state)
{
	struct pair *r = pair_create();
	uint8_t got[RING_MAX_RECORD];
	struct rand rand;
	uint32_t in = 0, out = 0;
	size_t length[4096];
	unsigned kind;

	(void)state;
	rand_seed(&rand, 1);
	while (out < 200000) {
		for (uint64_t burst = rand_below(&rand, 40); burst && in - out < 4096; burst--) {
			size_t bytes = 1 + rand_below(&rand, rand_below(&rand, 4) ? 60 : RING_MAX_RECORD);

			r->p.is_answered = rand_below(&rand, 2);
			if (!produce(&r->p, bytes, in))
				break;
			length[in++ % 4096] = bytes;
		}
		for (uint64_t burst = rand_below(&rand, 40); burst && out < in; burst--) {
			assert_true(ring_pending(&r->c));
			assert_int_equal(ring_take(&r->c, got, sizeof(got), &kind), length[out % 4096]);
			assert_true(filled(got, length[out % 4096], out));
			assert_int_equal(kind, out++ % RING_KINDS);
			ring_publish(&r->c, false);
		}
		if (out == in) {
			assert_false(ring_pending(&r->c));
			assert_int_equal(ring_take(&r->c, got, sizeof(got), &kind), 0);
			ring_publish(&r->c, true);
			assert_true(ring_drained(&r->p));
		}
	}
	assert_false(r->c.broken || r->p.broken);
	free(r);
}

/* The line behind the last record has a zero commit word. */
static void a_line_stays_free(void **state)
{
	struct pair *r = pair_create();
	uint32_t lines = 0;

	(void)state;
	while (produce(&r->p, 8, lines))
		lines++;
	assert_int_equal(ring_record_lines(8), 1);
	assert_int_equal(lines, RING_LINES - RING_AHEAD);
	free(r);
}

/* Commit words of records to come are not made zero where records lie that nobody has read. */
static void lines_ahead_are_free(void **state)
{
	static const size_t length[] = { 8, 100, 1000, 4000, 4300, RING_MAX_RECORD };

	(void)state;
	for (size_t i = 0; i < sizeof(length) / sizeof(length[0]); i++) {
		struct pair *r = pair_create();
		uint8_t got[RING_MAX_RECORD];
		uint32_t in = 0, out = 0;
		unsigned kind;

		r->p.is_answered = true;
		while (produce(&r->p, length[i], in))
			in++;
		while (ring_take(&r->c, got, sizeof(got), &kind) == length[i])
			assert_true(filled(got, length[i], out++));
		assert_int_equal(out, in);
		free(r);
	}
}

static void full_ring_tells_the_consumer(void **state)
{
	struct pair *r = pair_create();
	uint8_t got[RING_MAX_RECORD];
	uint32_t in = 0, out = 0;
	unsigned kind;

	(void)state;
	while (ring_room(&r->p, 4000))
		assert_true(produce(&r->p, 4000, in++));
	assert_true(in > 200);
	assert_int_equal(atomic_load(&r->words.blocked), 1);
	/* nothing is said before an eighth of the ring is free */
	assert_int_equal(ring_take(&r->c, got, sizeof(got), &kind), 4000);
	assert_true(filled(got, 4000, out++));
	assert_false(ring_publish(&r->c, false));
	assert_false(ring_room(&r->p, 4000));
	while (r->c.head < RING_LINES / 8) {
		assert_false(ring_publish(&r->c, false));
		assert_int_equal(ring_take(&r->c, got, sizeof(got), &kind), 4000);
		assert_true(filled(got, 4000, out++));
	}
	assert_true(ring_publish(&r->c, false));
	assert_true(ring_room(&r->p, 4000));
	while (ring_room(&r->p, 4000))
		assert_true(produce(&r->p, 4000, in++));
	while (ring_take(&r->c, got, sizeof(got), &kind))
		assert_true(filled(got, 4000, out++));
	assert_int_equal(out, in);
	assert_true(ring_publish(&r->c, true));
	assert_false(ring_publish(&r->c, true));
	assert_true(ring_room(&r->p, 4000));
	free(r);
}

/* Wherever the ring's end is. */
static void what_is_promised_has_room(void **state)
{
	struct pair *r = pair_create();
	uint8_t got[RING_MAX_RECORD];
	uint32_t in = 0, out = 0;
	unsigned kind, room;
	size_t bytes;

	(void)state;
	for (uint32_t i = 0; i < 4 * RING_LINES; i += 61) {
		for (uint32_t full = i % 97; full; full--)
			assert_true(produce(&r->p, 40 + full, in++));
		room = ring_room(&r->p, RING_MAX_RECORD);
		assert_true(room > 0);
		for (; room; room--)
			assert_true(produce(&r->p, RING_MAX_RECORD, in++));
		while ((bytes = ring_take(&r->c, got, sizeof(got), &kind)))
			assert_true(filled(got, bytes, out++));
		ring_publish(&r->c, true);
	}
	assert_int_equal(out, in);
	free(r);
}

enum { STRESS_RECORDS = 300000 };

static void *stress_produce(void *arg)
{
	struct pair *r = arg;
	struct rand rand;

	rand_seed(&rand, 7);
	for (uint32_t n = 0; n < STRESS_RECORDS; n++) {
		size_t bytes = 1 + rand_below(&rand, n % 16 ? 100 : 5000);

		while (!produce(&r->p, bytes, n))
			sched_yield();
	}
	return NULL;
}

static void two_threads(void **state)
{
	struct pair *r = pair_create();
	uint8_t got[RING_MAX_RECORD];
	pthread_t thread;
	struct rand rand;
	unsigned kind;

	(void)state;
	rand_seed(&rand, 7);
	pthread_create(&thread, NULL, stress_produce, r);
	for (uint32_t n = 0; n < STRESS_RECORDS; n++) {
		size_t bytes = 1 + rand_below(&rand, n % 16 ? 100 : 5000), had;

		while ((had = ring_take(&r->c, got, sizeof(got), &kind)) == 0) {
			ring_publish(&r->c, true);
			sched_yield();
		}
		ring_publish(&r->c, false);
		assert_int_equal(had, bytes);
		assert_true(filled(got, bytes, n));
	}
	pthread_join(thread, NULL);
	assert_false(r->c.broken || r->p.broken);
	free(r);
}

/* Whatever the shared memory holds, the consumer stays inside it and ends. */
static void hostile_records(void **state)
{
	struct pair *r = pair_create();
	uint8_t got[RING_MAX_RECORD];
	struct rand rand;
	unsigned kind;

	(void)state;
	rand_seed(&rand, 3);
	for (int round = 0; round < 300; round++) {
		ring_consumer_init(&r->c, &r->words, r->lines);
		r->c.head = (uint32_t)rand_u64(&rand);
		for (size_t i = 0; i < RING_LINES; i++) {
			uint32_t word = (uint32_t)rand_u64(&rand);

			if (round % 3)
				word = rand_below(&rand, 50) ? 0x80000000u | (uint32_t)rand_below(&rand, 9000) : 0xc0000000u;
			memcpy(r->lines + i * RING_LINE, &word, sizeof(word));
		}
		for (int i = 0; i < 100000; i++) {
			uint32_t word = atomic_load(ring_arrival(&r->c));
			size_t lies = ring_record_bytes(&r->c, word, word >> RING_KIND_SHIFT & (RING_KINDS - 1));
			size_t taken = ring_take(&r->c, got, sizeof(got), &kind);

			assert_true(lies == 0 || lies == taken);
			if (!taken)
				break;
			assert_true(kind < RING_KINDS);
		}
		assert_true(r->c.broken || round % 3 || !ring_pending(&r->c));
	}
	free(r);
}

static void record_beyond_the_end_breaks(void **state)
{
	static const uint32_t words[] = {
		0x80000000u | 64,	/* two lines on the last line */
		0x80000000u,		/* nothing */
		0xc0000001u,		/* skip with a length */
		0x00000040u,		/* not valid and not empty */
		0x90000008u,		/* spare bit */
		0x80002000u,		/* longer than the room */
	};
	struct pair *r = pair_create();
	uint8_t got[4096];
	unsigned kind;

	(void)state;
	for (size_t i = 0; i < sizeof(words) / sizeof(*words); i++) {
		ring_consumer_init(&r->c, &r->words, r->lines);
		r->c.head = RING_LINES - 1;
		memcpy(r->lines + RING_BYTES - RING_LINE, &words[i], sizeof(words[i]));
		assert_int_equal(ring_record_bytes(&r->c, words[i], 0), 0);
		assert_int_equal(ring_take(&r->c, got, sizeof(got), &kind), 0);
		assert_true(r->c.broken);
		assert_false(ring_pending(&r->c));
	}
	/* a skip of a whole lap would never end */
	ring_consumer_init(&r->c, &r->words, r->lines);
	memcpy(r->lines, &(uint32_t){ 0xc0000000u }, 4);
	assert_int_equal(ring_take(&r->c, got, sizeof(got), &kind), 0);
	assert_true(r->c.broken);
	free(r);
}

static void hostile_head(void **state)
{
	struct pair *r = pair_create();

	(void)state;
	while (produce(&r->p, 4000, 0))
		;
	atomic_store(&r->words.head, r->p.tail + 1);
	assert_false(ring_room(&r->p, 4000));
	assert_true(r->p.broken);
	assert_null(ring_reserve(&r->p, 8000));
	assert_null(ring_reserve(&r->p, RING_MAX_RECORD + 1));
	free(r);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(records_come_out_in_order),
		cmocka_unit_test(a_line_stays_free),
		cmocka_unit_test(lines_ahead_are_free),
		cmocka_unit_test(full_ring_tells_the_consumer),
		cmocka_unit_test(what_is_promised_has_room),
		cmocka_unit_test(two_threads),
		cmocka_unit_test(hostile_records),
		cmocka_unit_test(record_beyond_the_end_breaks),
		cmocka_unit_test(hostile_head),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
