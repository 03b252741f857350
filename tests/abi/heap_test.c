/* Large blocks in shared memory: the program starts itself again with the library preloaded, as `weft run --shared-heap`
 * does, and uses every call that it replaces. */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <malloc.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

enum { PAGE = 4096, LEAST = 65536, BLOCK = 4 * LEAST };

#define HEAP "weft-heap"

/* The mapping that holds the address, as /proc/self/maps has it. */
static bool find_mapping(const void *p, char line[512])
{
	FILE *maps = fopen("/proc/self/maps", "r");
	unsigned long start, end, at = (unsigned long)p;
	bool found = false;

	while (!found && fgets(line, 512, maps))
		found = sscanf(line, "%lx-%lx", &start, &end) == 2 && start <= at && at < end;
	fclose(maps);
	return found;
}

static bool is_shared(const void *p)
{
	char line[512];

	return find_mapping(p, line) && strstr(line, HEAP) && strstr(line, "rw-s");
}

static int heap_fd(void)
{
	char name[64], target[128];
	ssize_t n;

	for (int fd = 3; fd < 1024; fd++) {
		snprintf(name, sizeof(name), "/proc/self/fd/%d", fd);
		n = readlink(name, target, sizeof(target) - 1);
		if (n <= 0)
			continue;
		target[n] = '\0';
		if (strstr(target, HEAP))
			return fd;
	}
	return -1;
}

static uint64_t heap_memory(void)
{
	struct stat st;

	assert_int_equal(fstat(heap_fd(), &st), 0);
	return (uint64_t)st.st_blocks * 512;
}

static void expect_bytes(const uint8_t *p, uint8_t value, size_t bytes)
{
	for (size_t i = 0; i < bytes; i++)
		if (p[i] != value)
			fail_msg("byte %zu is %u and not %u", i, p[i], value);
}

static void large_blocks_are_shared(void **state)
{
	void *small = malloc(LEAST - 1), *large = malloc(LEAST), *page = NULL, *odd = NULL;

	assert_false(is_shared(small));
	assert_true(is_shared(large));
	assert_int_equal(fcntl(heap_fd(), F_GET_SEALS) & F_SEAL_SHRINK, F_SEAL_SHRINK);
	assert_int_equal(posix_memalign(&page, PAGE, 100), 0);
	assert_int_equal(posix_memalign(&odd, 64, 100), 0);
	assert_true(is_shared(page));
	assert_false(is_shared(odd));
	assert_true(malloc_usable_size(large) >= LEAST);
	assert_true(malloc_usable_size(small) >= LEAST - 1);
	free(small);
	free(large);
	free(page);
	free(odd);
	free(NULL);
	(void)state;
}

static void blocks_are_aligned(void **state)
{
	for (size_t alignment = sizeof(void *); alignment <= 64u << 20; alignment *= 2) {
		void *p = NULL, *q = aligned_alloc(alignment, BLOCK), *r = memalign(alignment, BLOCK);

		assert_int_equal(posix_memalign(&p, alignment, BLOCK), 0);
		assert_true(is_shared(p) && is_shared(q) && is_shared(r));
		assert_int_equal(((uintptr_t)p | (uintptr_t)q | (uintptr_t)r) % alignment, 0);
		free(p);
		free(q);
		free(r);
	}
	assert_int_equal(posix_memalign(&(void *){ NULL }, 3, BLOCK), EINVAL);
	(void)state;
}

static void freed_memory_goes_back(void **state)
{
	uint8_t *p = malloc(64u << 20), *q;
	uint64_t before;

	memset(p, 1, 64u << 20);
	before = heap_memory();
	free(p);
	assert_true(heap_memory() + (64u << 20) <= before);
	q = calloc(64, 1u << 20);
	expect_bytes(q, 0, 64u << 20);
	free(q);
	(void)state;
}

static void realloc_keeps_the_content(void **state)
{
	uint8_t *p = malloc(1000);

	memset(p, 7, 1000);
	p = realloc(p, BLOCK);		/* moves here */
	assert_true(is_shared(p));
	expect_bytes(p, 7, 1000);
	memset(p, 8, BLOCK);
	p = realloc(p, 3 * BLOCK);
	expect_bytes(p, 8, BLOCK);
	p = realloc(p, 100);
	expect_bytes(p, 8, 100);
	p = reallocarray(p, BLOCK, 5);
	expect_bytes(p, 8, 100);
	free(p);
	(void)state;
}

/* There live the objects of allocators of the program's own, which fork must copy. */
static void mappings_stay_private(void **state)
{
	uint8_t *p = mmap(NULL, BLOCK, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	assert_ptr_not_equal(p, MAP_FAILED);
	assert_false(is_shared(p));
	assert_int_equal(munmap(p, BLOCK), 0);
	(void)state;
}

static void protection_ends_with_the_block(void **state)
{
	uint8_t *p = memalign(PAGE, BLOCK), *q;

	assert_int_equal(mprotect(p, PAGE, PROT_NONE), 0);
	free(p);
	q = memalign(PAGE, BLOCK);
	memset(q, 1, BLOCK);
	free(q);
	(void)state;
}

/* A shared mapping's pages survive MADV_DONTNEED, so it is done in another way. */
static void dontneed_gives_zeroes(void **state)
{
	uint8_t *p = malloc(BLOCK);
	uint64_t before;

	memset(p, 9, BLOCK);
	before = heap_memory();
	assert_int_equal(madvise(p + LEAST, LEAST, MADV_DONTNEED), 0);
	assert_int_equal(heap_memory(), before - LEAST);
	expect_bytes(p, 9, LEAST);
	expect_bytes(p + LEAST, 0, LEAST);
	expect_bytes(p + 2 * LEAST, 9, 2 * LEAST);
	assert_int_equal(madvise(p, BLOCK, MADV_FREE), 0);
	assert_int_equal(madvise(p, BLOCK, MADV_WILLNEED), 0);
	free(p);
	(void)state;
}

/* What the program maps over a block is its own, and comes to no harm when the block is given back. */
static void mappings_over_blocks_are_the_programs(void **state)
{
	uint8_t *p = memalign(PAGE, BLOCK), *again, content[PAGE];
	char name[] = "/tmp/weft-heap-test-XXXXXX";
	int fd = mkstemp(name);

	unlink(name);
	memset(content, 3, sizeof(content));
	assert_int_equal(write(fd, content, PAGE), PAGE);
	assert_ptr_equal(mmap(p + PAGE, PAGE, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, fd, 0), p + PAGE);
	expect_bytes(p + PAGE, 3, PAGE);
	assert_int_equal(madvise(p, BLOCK, MADV_DONTNEED), 0);
	free(p);
	memset(content, 0, sizeof(content));
	assert_int_equal(pread(fd, content, PAGE, 0), PAGE);
	expect_bytes(content, 3, PAGE);
	again = memalign(PAGE, BLOCK);
	memset(again, 4, BLOCK);
	free(again);
	close(fd);
	(void)state;
}

/* Runs in the child; what it finds wrong is its exit status. */
static int use_as_child(uint8_t *p, int ready)
{
	uint8_t *own, byte;
	int err = 0;

	if (p[0] != 1 || p[BLOCK - 1] != 1)
		err = 1;
	memset(p, 2, LEAST);
	own = malloc(BLOCK);
	if (!is_shared(own))
		err = 2;
	memset(own, 6, BLOCK);
	if (read(ready, &byte, 1) != 1 || p[0] != 2)
		err = 3;
	if (madvise(p, PAGE, MADV_DONTNEED) || p[0] != 0)
		err = 4;
	free(p);
	own = realloc(own, 2 * BLOCK);
	if (own[0] != 6 || own[BLOCK - 1] != 6)
		err = 5;
	free(own);
	return err;
}

/* Its writes are its own, its new blocks too. (What the parent changes later in pages that the child has not written, the
 * child sees: unlike after a real fork.) */
static void a_child_has_what_fork_gives_it(void **state)
{
	uint8_t *p = malloc(BLOCK), *q;
	int ready[2], status;
	pid_t child;

	memset(p, 1, BLOCK);
	assert_int_equal(pipe(ready), 0);
	child = fork();
	if (child == 0)
		_exit(use_as_child(p, ready[0]));
	q = malloc(BLOCK);
	memset(q, 4, BLOCK);
	assert_int_equal(write(ready[1], "x", 1), 1);
	waitpid(child, &status, 0);
	assert_int_equal(status, 0);
	expect_bytes(p, 1, BLOCK);
	expect_bytes(q, 4, BLOCK);
	free(p);
	free(q);
	close(ready[0]);
	close(ready[1]);
	(void)state;
}

/* ---- many blocks ---- */

enum { BLOCKS = 64, ROUNDS = 4000, THREADS = 4 };

static uint64_t next_random(uint64_t *seed)
{
	*seed = *seed * 6364136223846793005u + 1442695040888963407u;
	return *seed >> 33;
}

/* Each block is full of its own number, at both ends and in the middle. */
static void mark(uint8_t *p, size_t bytes, uint8_t value)
{
	p[0] = p[bytes / 2] = p[bytes - 1] = value;
}

static bool has_mark(const uint8_t *p, size_t bytes, uint8_t value)
{
	return p[0] == value && p[bytes / 2] == value && p[bytes - 1] == value;
}

static void *churn(void *arg)
{
	uint64_t seed = (uintptr_t)arg;
	uint8_t *block[BLOCKS] = { 0 };
	size_t bytes[BLOCKS] = { 0 };
	bool is_good = true;

	for (unsigned n = 0; n < ROUNDS; n++) {
		unsigned i = next_random(&seed) % BLOCKS;
		size_t wanted = 1 + next_random(&seed) % (8 * LEAST);

		if (block[i])
			is_good = is_good && has_mark(block[i], bytes[i], (uint8_t)i);
		if (block[i] && next_random(&seed) % 2) {
			free(block[i]);
			block[i] = NULL;
			continue;
		}
		free(block[i]);
		block[i] = next_random(&seed) % 2 ? malloc(wanted) : memalign(PAGE << next_random(&seed) % 6, wanted);
		bytes[i] = wanted;
		mark(block[i], wanted, (uint8_t)i);
	}
	for (unsigned i = 0; i < BLOCKS; i++)
		free(block[i]);
	return is_good ? NULL : arg;
}

static void threads_share_the_heap(void **state)
{
	pthread_t thread[THREADS];
	void *bad;

	for (uintptr_t i = 0; i < THREADS; i++)
		assert_int_equal(pthread_create(&thread[i], NULL, churn, (void *)(i + 1)), 0);
	for (unsigned i = 0; i < THREADS; i++) {
		pthread_join(thread[i], &bad);
		if (bad)
			fail_msg("seed %lu: a block changed", (unsigned long)(uintptr_t)bad);
	}
	(void)state;
}

/* Some programs close every descriptor they do not know. Comes last: from then on nothing more is shared. */
static void closing_its_descriptor_does_no_harm(void **state)
{
	uint8_t *p = malloc(BLOCK), *q;
	char name[] = "/tmp/weft-heap-test-XXXXXX";
	int fd = heap_fd(), other = mkstemp(name);
	struct stat st;

	unlink(name);
	memset(p, 1, BLOCK);
	assert_int_equal(write(other, p, BLOCK), BLOCK);
	assert_int_equal(dup2(other, fd), fd);
	q = malloc(BLOCK);
	assert_false(is_shared(q));
	memset(q, 2, BLOCK);
	expect_bytes(p, 1, BLOCK);
	assert_int_equal(madvise(p, LEAST, MADV_DONTNEED), 0);
	expect_bytes(p, 0, LEAST);
	free(p);
	free(q);
	assert_int_equal(fstat(other, &st), 0);
	assert_true(st.st_blocks * 512 >= BLOCK);
	(void)state;
}

static void off_is_off(void **state)
{
	void *p = malloc(BLOCK), *page = NULL;

	assert_int_equal(posix_memalign(&page, PAGE, PAGE), 0);
	assert_false(is_shared(p));
	assert_false(is_shared(page));
	assert_int_equal(heap_fd(), -1);
	free(p);
	free(page);
	(void)state;
}

static int run_preloaded(void)
{
	const struct CMUnitTest off[] = { cmocka_unit_test(off_is_off) };
	const struct CMUnitTest on[] = {
		cmocka_unit_test(large_blocks_are_shared), cmocka_unit_test(blocks_are_aligned),
		cmocka_unit_test(freed_memory_goes_back),
		cmocka_unit_test(realloc_keeps_the_content), cmocka_unit_test(mappings_stay_private),
		cmocka_unit_test(protection_ends_with_the_block), cmocka_unit_test(dontneed_gives_zeroes),
		cmocka_unit_test(mappings_over_blocks_are_the_programs), cmocka_unit_test(a_child_has_what_fork_gives_it),
		cmocka_unit_test(threads_share_the_heap), cmocka_unit_test(closing_its_descriptor_does_no_harm),
	};

	return getenv("WEFT_SHARED_HEAP") ? cmocka_run_group_tests(on, NULL, NULL) : cmocka_run_group_tests(off, NULL, NULL);
}

static int run_again(const char *self, const char *least)
{
	int status = 1;
	pid_t child = fork();

	if (child == 0) {
		setenv("LD_PRELOAD", HEAP_LIBRARY, 1);
		if (least)
			setenv("WEFT_SHARED_HEAP", least, 1);
		execl(self, self, "preloaded", (char *)NULL);
		_exit(127);
	}
	waitpid(child, &status, 0);
	return WIFEXITED(status) ? WEXITSTATUS(status) : 1;
}

int main(int argc, char **argv)
{
	if (argc > 1)
		return run_preloaded();
	return run_again(argv[0], NULL) | run_again(argv[0], "65536");
}
