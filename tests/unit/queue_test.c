/* Arena, page-linked rings, doorbells and credits: IPS-19..35 and vector 10.10. */
#include "base/rand.h"

#include "adapter.h"

enum { ARENA_BYTES = 256 * ARENA_PAGE };

struct store {
	void *memory;
	struct arena arena;
};

static void store_open(struct store *s)
{
	s->memory = aligned_alloc(ARENA_PAGE, ARENA_BYTES);
	memset(s->memory, 0xa5, ARENA_BYTES);
	assert_int_equal(arena_init(&s->arena, s->memory, ARENA_BYTES), 0);
}

static void store_close(struct store *s)
{
	uint64_t all;

	/* everything came back, and joined */
	assert_int_equal(arena_alloc(&s->arena, ARENA_BYTES, &all), 0);
	arena_fini(&s->arena);
	free(s->memory);
}

static void arena_uses_again_what_came_back(void **state)
{
	struct store s;
	uint64_t a, b, c, d;

	(void)state;
	store_open(&s);
	assert_int_equal(arena_alloc(&s.arena, 3 * ARENA_UNIT, &a), 0);
	assert_int_equal(arena_alloc(&s.arena, 1, &b), 0);
	assert_int_equal(arena_alloc(&s.arena, ARENA_UNIT + 1, &c), 0);
	assert_int_equal(a, 0);
	assert_int_equal(b, 3 * ARENA_UNIT);
	assert_int_equal(c, 4 * ARENA_UNIT);
	arena_free(&s.arena, a);
	assert_int_equal(arena_alloc(&s.arena, 4 * ARENA_UNIT, &d), 0);
	assert_int_equal(d, 6 * ARENA_UNIT);
	assert_int_equal(arena_alloc(&s.arena, 2 * ARENA_UNIT, &a), 0);
	assert_int_equal(a, 0);
	assert_int_equal(arena_alloc(&s.arena, ARENA_BYTES, &(uint64_t){ 0 }), -ENOMEM);
	assert_int_equal(arena_alloc(&s.arena, 0, &(uint64_t){ 0 }), -EINVAL);
	arena_free(&s.arena, b);
	arena_free(&s.arena, a);
	arena_free(&s.arena, d);
	arena_free(&s.arena, c);
	store_close(&s);
}

static void arena_gives_memory_that_nobody_else_has(void **state)
{
	struct { uint64_t offset, bytes; uint8_t mark; } run[40] = { 0 };
	struct rand rand;
	struct store s;

	(void)state;
	store_open(&s);
	rand_seed(&rand, 7);
	for (unsigned step = 0; step < 20000; step++) {
		unsigned i = (unsigned)rand_below(&rand, 40);

		if (run[i].bytes) {
			for (uint64_t k = 0; k < run[i].bytes; k += 509)
				assert_int_equal(s.arena.base[run[i].offset + k], run[i].mark);
			arena_free(&s.arena, run[i].offset);
			run[i].bytes = 0;
			continue;
		}
		run[i].bytes = 1 + rand_below(&rand, rand_below(&rand, 2) ? 12 * ARENA_PAGE : 12 * ARENA_UNIT);
		run[i].mark = (uint8_t)(1 + rand_below(&rand, 255));
		if (arena_alloc(&s.arena, run[i].bytes, &run[i].offset) < 0) {
			run[i].bytes = 0;
			continue;
		}
		assert_int_equal(run[i].offset % ARENA_UNIT, 0);
		memset(s.arena.base + run[i].offset, run[i].mark, run[i].bytes);
	}
	for (unsigned i = 0; i < 40; i++)
		if (run[i].bytes)
			arena_free(&s.arena, run[i].offset);
	store_close(&s);
}

/* A program that makes and destroys queues of one size for ever never needs more memory, whatever lies between them. */
static void arena_does_not_creep(void **state)
{
	uint64_t offset[16];
	struct store s;
	uint32_t top;

	(void)state;
	store_open(&s);
	for (unsigned i = 0; i < 16; i++)
		assert_int_equal(arena_alloc(&s.arena, (11 + i % 2) * ARENA_UNIT, &offset[i]), 0);
	top = s.arena.top;
	for (unsigned step = 0; step < 100000; step++) {
		unsigned i = step * 7 % 16;

		arena_free(&s.arena, offset[i]);
		assert_int_equal(arena_alloc(&s.arena, (11 + i % 2) * ARENA_UNIT, &offset[i]), 0);
	}
	assert_int_equal(s.arena.top, top);
	for (unsigned i = 0; i < 16; i++)
		arena_free(&s.arena, offset[i]);
	store_close(&s);
}

/* Writes n WQEs whose first word is their index. */
static void post(struct wq *wq, uint32_t n)
{
	for (uint32_t i = 0; i < n; i++) {
		uint32_t *slot = wq_slot(&wq->ulp);

		assert_non_null(slot);
		*slot = wq->ulp.written;
		wq_written(&wq->ulp);
	}
	wq_check(wq);
}

static void announce(struct wq *wq)
{
	wq_ring_doorbell(&wq->ulp);
	wq_doorbell_read(&wq->engine);
	wq_check(wq);
}

static void complete(struct wq *wq, uint32_t n)
{
	for (uint32_t i = 0; i < n; i++) {
		assert_int_equal(*(uint32_t *)wq_ulp_at(&wq->ulp, wq->engine.completed), wq->engine.completed);
		wq_completed(&wq->engine);
	}
	wq_check(wq);
}

/* Vector 10.10, the work queue's half; cq_test.c has the completion queue's. */
static void vector_10_10(void **state)
{
	struct store s;
	struct wq wq;

	(void)state;
	store_open(&s);
	assert_int_equal(wq_init_pages(&wq, &s.arena, 3, 8, 64), 0);
	assert_int_equal(wq.engine.ring.capacity, 21);
	assert_int_equal(wq.ulp.credits, 21);
	post(&wq, 5);
	announce(&wq);
	assert_int_equal(wq.ulp.credits, 16);
	assert_int_equal(wq_pending(&wq.engine), 5);
	complete(&wq, 2);
	assert_int_equal(wq_pending(&wq.engine), 3);
	wq_reaped(&wq.ulp, 0);
	wq_reaped(&wq.ulp, 1);
	assert_int_equal(wq.ulp.credits, 18);
	assert_int_equal(wq.ulp.credits + wq_pending(&wq.engine) + (wq.engine.completed - wq.ulp.reaped), 21);
	wq_fini(&wq);
	store_close(&s);
}

/* IPS-19: 3 pages of 8 slots, 100 postings walk the ring; the last slots chain the pages into a circle. */
static void ring_walks_its_pages(void **state)
{
	struct store s;
	struct wq wq;

	(void)state;
	store_open(&s);
	assert_int_equal(wq_init_pages(&wq, &s.arena, 3, 8, 64), 0);
	for (unsigned i = 0; i < 100; i++) {
		uint64_t page = (uint64_t)(wq.ulp.ring.page[i % 21 / 7] - s.arena.base);

		assert_ptr_equal(wq_slot(&wq.ulp), s.arena.base + page + i % 7 * 64);
		post(&wq, 1);
		announce(&wq);
		complete(&wq, 1);
		wq_reaped(&wq.ulp, i);
	}
	for (unsigned i = 0, offset = (unsigned)wq.ulp.ring.offset; i < 4; i++) {
		assert_int_equal(offset, wq.ulp.ring.page[i % 3] - s.arena.base);
		offset = (unsigned)*(uint64_t *)(s.arena.base + offset + 7 * 64);
	}
	wq_fini(&wq);
	store_close(&s);
}

static void queue_full_is_refused_and_nothing_overwritten(void **state)
{
	struct store s;
	struct wq wq;

	(void)state;
	store_open(&s);
	assert_int_equal(wq_init_pages(&wq, &s.arena, 1, 9, 64), 0);
	post(&wq, 8);
	assert_null(wq_slot(&wq.ulp));
	announce(&wq);
	assert_null(wq_slot(&wq.ulp));
	complete(&wq, 8);
	assert_null(wq_slot(&wq.ulp));
	/* IPS-31: one reaped completion returns the credits of all before it */
	wq_reaped(&wq.ulp, 7);
	assert_int_equal(wq.ulp.credits, 8);
	wq_fini(&wq);
	store_close(&s);
}

static void nothing_is_pending_before_the_doorbell(void **state)
{
	struct store s;
	struct wq wq;

	(void)state;
	store_open(&s);
	assert_int_equal(wq_init_pages(&wq, &s.arena, 1, 9, 64), 0);
	post(&wq, 3);
	wq_doorbell_read(&wq.engine);
	assert_int_equal(wq_pending(&wq.engine), 0);
	wq_unwrite(&wq.ulp, 1);
	wq_check(&wq);
	announce(&wq);
	assert_int_equal(wq_pending(&wq.engine), 2);
	assert_int_equal(wq.ulp.credits, 6);
	wq_fini(&wq);
	store_close(&s);
}

static void a_forged_doorbell_or_index_is_not_believed(void **state)
{
	struct store s;
	struct wq wq;
	uint32_t *word;

	(void)state;
	store_open(&s);
	assert_int_equal(wq_init_pages(&wq, &s.arena, 1, 9, 64), 0);
	post(&wq, 4);
	announce(&wq);
	complete(&wq, 1);
	word = (uint32_t *)wq.engine.ring.doorbell;
	for (unsigned i = 0; i < 3; i++) {
		*word = (uint32_t[]){ 10, 3, 0x80000000 }[i];
		wq_doorbell_read(&wq.engine);
		assert_int_equal(wq.engine.announced, 4);
	}
	wq_reaped(&wq.ulp, 4);
	wq_reaped(&wq.ulp, UINT32_MAX - 4);
	assert_int_equal(wq.ulp.credits, 4);
	wq_reaped(&wq.ulp, 0);
	assert_int_equal(wq.ulp.credits, 5);
	wq_reaped(&wq.ulp, 0);
	assert_int_equal(wq.ulp.credits, 5);
	wq_fini(&wq);
	store_close(&s);
}

static void sizes_hold_what_was_asked_for(void **state)
{
	static const struct { uint32_t max_wr, stride; int result; } row[] = {
		{ 1, 16, 0 }, { 63, 64, 0 }, { 64, 64, 0 }, { 100, 1232, 0 }, { 0, 64, 0 },
		{ 1, 0, -EINVAL }, { 1u << 31, 64, -EINVAL }, { 1 << 20, 64, -ENOMEM },
	};
	struct store s;

	(void)state;
	store_open(&s);
	for (unsigned i = 0; i < sizeof(row) / sizeof(row[0]); i++) {
		struct wq wq;

		assert_int_equal(wq_init(&wq, &s.arena, row[i].max_wr, row[i].stride), row[i].result);
		if (row[i].result < 0)
			continue;
		assert_true(wq.ulp.ring.capacity >= row[i].max_wr && wq.ulp.ring.stride >= row[i].stride);
		assert_true(wq.engine.ring.capacity == wq.ulp.ring.capacity && wq.ulp.credits == wq.ulp.ring.capacity);
		if (row[i].max_wr == 0)
			assert_null(wq_slot(&wq.ulp));
		wq_check(&wq);
		wq_fini(&wq);
	}
	assert_int_equal(wq_init_pages(&(struct wq){ 0 }, &s.arena, 1, 1, 64), -EINVAL);
	assert_int_equal(wq_init_pages(&(struct wq){ 0 }, &s.arena, 1, 8, 8), -EINVAL);
	store_close(&s);
}

/* The law at every step of a random run that passes the counts' wrap at 2^32; sizes change meanwhile. IPS-28. */
static void ledger_holds_over_a_random_run(uint32_t seed)
{
	struct rand rand;
	struct store s;
	struct wq wq;

	store_open(&s);
	rand_seed(&rand, seed);
	assert_int_equal(wq_init_pages(&wq, &s.arena, 3, 8, 64), 0);
	wq.ulp.written = wq.ulp.rung = wq.ulp.reaped = wq.ulp.lap = UINT32_MAX - 500;
	wq.engine.announced = wq.engine.started = wq.engine.completed = wq.engine.lap = UINT32_MAX - 500;
	atomic_store(wq.ulp.ring.doorbell, UINT32_MAX - 500);
	for (unsigned step = 0; step < 5000; step++) {
		uint32_t n = (uint32_t)rand_below(&rand, 6);

		switch (rand_below(&rand, 7)) {
		case 0:
			post(&wq, n < wq.ulp.credits ? n : wq.ulp.credits);
			break;
		case 1:
			announce(&wq);
			break;
		case 2:
			complete(&wq, n < wq_pending(&wq.engine) ? n : wq_pending(&wq.engine));
			break;
		case 3:
			if (wq.engine.completed != wq.ulp.reaped)
				wq_reaped(&wq.ulp, wq.engine.completed - 1 -
					  (uint32_t)rand_below(&rand, wq.engine.completed - wq.ulp.reaped));
			break;
		case 4:
			/* what a doorbell has said cannot be taken back */
			wq_unwrite(&wq.ulp, (uint32_t)rand_below(&rand, wq.ulp.written - wq.ulp.rung + 1));
			break;
		case 5:
			wq_ring_doorbell(&wq.ulp);	/* the engine reads it later */
			break;
		default:
			if (rand_below(&rand, 50) == 0)
				(void)wq_resize(&wq, (uint32_t)rand_below(&rand, 200));
		}
		wq_check(&wq);
	}
	wq_fini(&wq);
	store_close(&s);
}

static void random_ledgers(void **state)
{
	(void)state;
	for (uint32_t seed = 1; seed <= 50; seed++)
		ledger_holds_over_a_random_run(seed);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(arena_uses_again_what_came_back),
		cmocka_unit_test(arena_gives_memory_that_nobody_else_has),
		cmocka_unit_test(arena_does_not_creep),
		cmocka_unit_test(vector_10_10),
		cmocka_unit_test(ring_walks_its_pages),
		cmocka_unit_test(queue_full_is_refused_and_nothing_overwritten),
		cmocka_unit_test(nothing_is_pending_before_the_doorbell),
		cmocka_unit_test(a_forged_doorbell_or_index_is_not_believed),
		cmocka_unit_test(sizes_hold_what_was_asked_for),
		cmocka_unit_test(random_ledgers),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
