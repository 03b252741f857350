/* Memory that both processes map: bytes, overlaps, and that the tail of a write comes last. */
#include "adapter.h"

#include "base/copy_few.h"
#include "direct/copy.h"

#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <sys/mman.h>

/* Every size at every alignment, in one piece and in two; nothing around it changes. */
static void mapped_writes_are_whole(void **state)
{
	uint8_t from[96], to[128] __attribute__((aligned(8)));

	for (unsigned i = 0; i < sizeof(from); i++)
		from[i] = (uint8_t)(i + 1);
	for (unsigned at = 8; at < 24; at++) {
		for (unsigned bytes = 1; bytes <= sizeof(from); bytes++) {
			unsigned first = bytes / 3;
			struct iovec two[2] = { { from, first }, { from + first, bytes - first } };
			struct direct_request r = {
				.op = OP_WRITE, .bytes = bytes, .iov = two + !first, .iovs = 1 + (first > 0),
			};

			memset(to, 0xee, sizeof(to));
			assert_true(copy_execute(to + at, &r));
			assert_memory_equal(to + at, from, bytes);
			assert_int_equal(to[at - 1], 0xee);
			assert_int_equal(to[at + bytes], 0xee);
		}
	}
}

static void few_bytes_are_whole(void **state)
{
	uint8_t from[64], to[66];

	for (unsigned i = 0; i < sizeof(from); i++)
		from[i] = (uint8_t)(i + 1);
	for (uint32_t bytes = 0; bytes <= sizeof(from); bytes++) {
		memset(to, 0xee, sizeof(to));
		copy_few(to + 1, from, bytes);
		assert_memory_equal(to + 1, from, bytes);
		assert_int_equal(to[0], 0xee);
		assert_int_equal(to[bytes + 1], 0xee);
	}
}

static void overlapping_writes_move(void **state)
{
	uint8_t memory[64] __attribute__((aligned(8))), expected[64];

	for (unsigned shift = 1; shift < 20; shift++) {
		struct iovec iov = { memory, 40 };
		struct direct_request r = { .op = OP_WRITE, .bytes = 40, .iov = &iov, .iovs = 1 };

		for (unsigned i = 0; i < sizeof(memory); i++)
			memory[i] = expected[i] = (uint8_t)i;
		memmove(expected + shift, expected, 40);
		assert_true(copy_execute(memory + shift, &r));
		assert_memory_equal(memory, expected, sizeof(memory));
	}
}

/* Another thread that sees the last byte sees all. */
struct tail_watch {
	uint8_t memory[256] __attribute__((aligned(64)));
	_Atomic unsigned seen;
	_Atomic bool torn;
};

enum { TAIL_ROUNDS = 5000, TAIL_BYTES = 200 };

static void *watch_tail(void *arg)
{
	struct tail_watch *w = arg;

	for (unsigned round = 1; round <= TAIL_ROUNDS; round++) {
		while (__atomic_load_n(&w->memory[TAIL_BYTES - 1], __ATOMIC_ACQUIRE) != (uint8_t)round)
			sched_yield();
		for (unsigned i = 0; i < TAIL_BYTES; i++)
			if (__atomic_load_n(&w->memory[i], __ATOMIC_RELAXED) != (uint8_t)round)
				atomic_store(&w->torn, true);
		atomic_store(&w->seen, round);
	}
	return NULL;
}

static void tail_is_written_last(void **state)
{
	struct tail_watch *w = aligned_alloc(64, sizeof(*w));
	uint8_t from[TAIL_BYTES];
	struct iovec iov = { from, sizeof(from) };
	struct direct_request r = { .op = OP_WRITE, .bytes = sizeof(from), .iov = &iov, .iovs = 1 };
	pthread_t watcher;

	memset(w, 0, sizeof(*w));
	assert_int_equal(pthread_create(&watcher, NULL, watch_tail, w), 0);
	for (unsigned round = 1; round <= TAIL_ROUNDS; round++) {
		memset(from, (int)round, sizeof(from));
		assert_true(copy_execute(w->memory, &r));
		while (atomic_load(&w->seen) != round)
			sched_yield();
	}
	pthread_join(watcher, NULL);
	assert_false(atomic_load(&w->torn));
	free(w);
}

static sigjmp_buf at_fault;

static void leave(int signal)
{
	(void)signal;
	siglongjmp(at_fault, 1);
}

/* A write that faults in its first page has not written its last byte yet. */
static void tail_waits_for_the_rest(void **state)
{
	enum { PAGE = 4096 };
	struct sigaction action = { .sa_handler = leave }, old;
	static uint8_t from[2 * PAGE];
	uint8_t *to = mmap(NULL, 2 * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	(void)state;
	assert_ptr_not_equal(to, MAP_FAILED);
	memset(from, 0x22, sizeof(from));
	assert_int_equal(mprotect(to, PAGE, PROT_READ), 0);
	assert_int_equal(sigaction(SIGSEGV, &action, &old), 0);
	for (unsigned bytes = 100; bytes <= PAGE + 100; bytes += PAGE / 4) {
		struct iovec iov = { from, bytes };
		struct direct_request r = { .op = OP_WRITE, .bytes = bytes, .iov = &iov, .iovs = 1 };

		if (!sigsetjmp(at_fault, 1)) {
			copy_execute(to + PAGE + 50 - bytes, &r);
			fail_msg("a read-only page was written");
		}
		assert_int_equal(to[PAGE + 49], 0);
	}
	assert_int_equal(sigaction(SIGSEGV, &old, NULL), 0);
	assert_int_equal(munmap(to, 2 * PAGE), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(few_bytes_are_whole), cmocka_unit_test(mapped_writes_are_whole),
		cmocka_unit_test(overlapping_writes_move),
		cmocka_unit_test(tail_is_written_last),
		cmocka_unit_test(tail_waits_for_the_rest),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
