/* weft run --remap: which memory moves when a program registers it, that the program does not notice, and that nothing
 * stays behind. Runs with a weftd of its own (e2e/with_weftd.sh). */
#include "rc.h"

#include "remap/maps.h"
#include "remap/pages.h"

#include <fcntl.h>
#include <infiniband/verbs.h>
#include <inttypes.h>
#include <linux/userfaultfd.h>
#include <malloc.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

enum { PAGE = 4096, LEAST = 65536, BYTES = 4 * LEAST, REMOTE = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE, ROUNDS = 300 };
enum { SYS_MSEAL = 462 };	/* Linux 6.10; headers of before do not have it */

static struct ibv_pd *pd;

static struct ibv_mr *reg(void *memory, size_t bytes)
{
	struct ibv_mr *mr = ibv_reg_mr(pd, memory, bytes, REMOTE);

	assert_non_null(mr);
	return mr;
}

static void dereg(struct ibv_mr *mr)
{
	assert_int_equal(ibv_dereg_mr(mr), 0);
}

static uint8_t *map(size_t bytes)
{
	uint8_t *p = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	assert_ptr_not_equal(p, MAP_FAILED);
	return p;
}

/* Is the page in weft's memory file? */
static bool is_moved(const void *p)
{
	FILE *maps = fopen("/proc/self/maps", "r");
	char line[512];
	uintptr_t start, end, at = (uintptr_t)p;
	bool found = false;

	while (!found && fgets(line, sizeof(line), maps))
		found = sscanf(line, "%" SCNxPTR "-%" SCNxPTR, &start, &end) == 2 && start <= at && at < end &&
			strstr(line, "weft-remap");
	fclose(maps);
	return found;
}

/* What all the files hold together. */
static uint64_t file_memory(void)
{
	char name[64], target[128];
	uint64_t bytes = 0;
	struct stat st;

	for (int fd = 3; fd < 1100; fd++) {
		ssize_t n;

		snprintf(name, sizeof(name), "/proc/self/fd/%d", fd);
		n = readlink(name, target, sizeof(target) - 1);
		if (n <= 0 || !memmem(target, (size_t)n, "weft-remap", 10))
			continue;
		assert_int_equal(fstat(fd, &st), 0);
		bytes = bytes > (uint64_t)st.st_blocks * 512 ? bytes : (uint64_t)st.st_blocks * 512;
	}
	return bytes;
}

static void expect_bytes(const uint8_t *p, uint8_t value, size_t bytes)
{
	for (size_t i = 0; i < bytes; i++)
		if (p[i] != value)
			fail_msg("byte %zu is %u and not %u", i, p[i], value);
}

static void memory_moves_and_returns(void **state)
{
	uint8_t *p = map(BYTES);
	struct ibv_mr *mr;

	memset(p, 7, BYTES);
	mr = reg(p, BYTES);
	assert_true(is_moved(p) && is_moved(p + BYTES - 1));
	expect_bytes(p, 7, BYTES);
	memset(p, 8, LEAST);
	assert_int_equal(file_memory(), BYTES);
	dereg(mr);
	assert_false(is_moved(p) || is_moved(p + BYTES - 1));
	expect_bytes(p, 8, LEAST);
	expect_bytes(p + LEAST, 7, BYTES - LEAST);
	assert_int_equal(file_memory(), 0);
	munmap(p, BYTES);
	(void)state;
}

#define refuses(p, bytes) refuses_at(__LINE__, p, bytes)
static void refuses_at(int line, uint8_t *p, size_t bytes)
{
	struct ibv_mr *mr = reg(p, bytes);

	if (is_moved(p) || is_moved(p + bytes - 1))
		fail_msg("line %d: the memory was moved", line);
	dereg(mr);
}

/* Do all mappings of the memory have this flag (Linux, Documentation/filesystems/proc.rst, VmFlags)? */
static bool has_flag(const uint8_t *p, size_t bytes, const char *name)
{
	FILE *maps = maps_open_flags();
	char flags[MAPS_FLAGS];
	struct mapping m;
	unsigned with = 0, without = 0;

	assert_non_null(maps);
	while (maps_next_flags(maps, &m, flags))
		if (m.start < (uintptr_t)p + bytes && (uintptr_t)p < m.end) {
			with += maps_has_flag(flags, name);
			without += !maps_has_flag(flags, name);
		}
	fclose(maps);
	return with && !without;
}

/* All of it, its beginning, its middle and its end. */
static void refuses_parts(uint8_t *p)
{
	refuses(p, BYTES);
	refuses(p, LEAST);
	refuses(p + LEAST, LEAST);
	refuses(p + BYTES - LEAST, LEAST);
}

/* To find out what memory is advised changes nothing. */
static void advice_for_fork_is_kept(void **state)
{
	uint8_t *all = map(BYTES + 2 * PAGE), *p = all + PAGE;
	struct ibv_mr *mr;

	memset(p, 1, BYTES);
	assert_int_equal(madvise(p, BYTES, MADV_DONTFORK), 0);
	refuses_parts(p);
	assert_true(has_flag(p, BYTES, "dc"));
	assert_int_equal(madvise(p, BYTES, MADV_WIPEONFORK), 0);
	refuses_parts(p);
	assert_true(has_flag(p, BYTES, "dc") && has_flag(p, BYTES, "wf"));
	assert_int_equal(madvise(p, BYTES, MADV_DOFORK), 0);
	refuses_parts(p);
	assert_true(has_flag(p, BYTES, "wf") && !has_flag(p, BYTES, "dc"));
	assert_int_equal(madvise(p, BYTES, MADV_KEEPONFORK), 0);
	assert_false(has_flag(all, BYTES + 2 * PAGE, "dc") || has_flag(all, BYTES + 2 * PAGE, "wf"));
	mr = reg(p, BYTES);
	assert_true(is_moved(p));
	dereg(mr);
	munmap(all, BYTES + 2 * PAGE);
	(void)state;
}

static void watched_and_sealed_memory_stays(void **state)
{
	uint8_t *p = map(BYTES), *sealed = map(BYTES);
	struct uffdio_register watch = { .range = { (uintptr_t)p + LEAST, LEAST }, .mode = UFFDIO_REGISTER_MODE_WP };
	bool kernel_waits;
	int fd = pages_open(&kernel_waits);

	assert_true(fd >= 0);
	assert_int_equal(ioctl(fd, UFFDIO_REGISTER, &watch), 0);
	refuses(p, BYTES);
	refuses(p + LEAST, LEAST);
	assert_int_equal(ioctl(fd, UFFDIO_UNREGISTER, &watch.range), 0);
	close(fd);
	if (syscall(SYS_MSEAL, sealed + LEAST, PAGE, 0) == 0)
		refuses(sealed, BYTES);
	munmap(p, BYTES);
	(void)state;
}

static void refused_memory_stays(void **state)
{
	char name[] = "/tmp/weft-test-XXXXXX";
	int fd = mkstemp(name);
	uint8_t *p = map(BYTES), *shared, *file;

	unlink(name);
	assert_int_equal(ftruncate(fd, BYTES), 0);
	refuses(p, LEAST - 1);
	assert_int_equal(madvise(p, PAGE, MADV_DONTFORK), 0);
	refuses(p, BYTES);
	assert_int_equal(madvise(p, PAGE, MADV_DOFORK), 0);
	assert_int_equal(madvise(p + BYTES - PAGE, PAGE, MADV_WIPEONFORK), 0);
	refuses(p, BYTES);
	assert_int_equal(madvise(p + BYTES - PAGE, PAGE, MADV_KEEPONFORK), 0);
	if (syscall(SYS_mlock, p + LEAST, PAGE) == 0) {	/* sanitizers make the other one do nothing */
		refuses(p, BYTES);
		munlock(p + LEAST, PAGE);
	}
	shared = mmap(NULL, BYTES, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	refuses(shared, BYTES);
	file = mmap(NULL, BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE, fd, 0);
	refuses(file, BYTES);
	munmap(p, BYTES);
	munmap(shared, BYTES);
	munmap(file, BYTES);
	close(fd);
	(void)state;
}

static void *register_its_stack(void *arg)
{
	uint8_t memory[BYTES];
	bool moved;
	struct ibv_mr *mr = ibv_reg_mr(pd, memory, sizeof(memory), REMOTE);

	moved = is_moved(memory) || is_moved(memory + BYTES - 1);
	(void)arg;
	return mr && !moved && ibv_dereg_mr(mr) == 0 ? NULL : pd;
}

struct lender {
	pthread_barrier_t barrier;
	uint8_t *memory;
};

static void *lend_stack(void *arg)
{
	struct lender *l = arg;
	uint8_t memory[BYTES];

	l->memory = memory;
	pthread_barrier_wait(&l->barrier);
	pthread_barrier_wait(&l->barrier);
	return NULL;
}

static void stacks_stay(void **state)
{
	struct lender l;
	pthread_t thread;
	void *bad;

	assert_null(register_its_stack(NULL));
	assert_int_equal(pthread_create(&thread, NULL, register_its_stack, NULL), 0);
	pthread_join(thread, &bad);
	assert_null(bad);
	pthread_barrier_init(&l.barrier, NULL, 2);
	assert_int_equal(pthread_create(&thread, NULL, lend_stack, &l), 0);
	pthread_barrier_wait(&l.barrier);
	refuses(l.memory, BYTES);
	pthread_barrier_wait(&l.barrier);
	pthread_join(thread, NULL);
	(void)state;
}

/* Pages go back when no region needs them; small regions count once they are in moved pages. */
static void regions_overlap(void **state)
{
	uint8_t *p = map(BYTES);
	struct ibv_mr *a, *b, *c;

	memset(p, 1, BYTES);
	a = reg(p, 2 * LEAST);
	b = reg(p + LEAST, 3 * LEAST);
	c = reg(p + 100, 10);
	assert_true(is_moved(p) && is_moved(p + BYTES - 1));
	dereg(a);
	assert_true(is_moved(p));
	assert_false(is_moved(p + PAGE));
	assert_true(is_moved(p + LEAST));
	dereg(c);
	assert_false(is_moved(p));
	a = reg(p, 2 * LEAST);
	dereg(b);
	assert_true(is_moved(p + 2 * LEAST - 1));
	assert_false(is_moved(p + 2 * LEAST));
	dereg(a);
	expect_bytes(p, 1, BYTES);
	assert_int_equal(file_memory(), 0);
	munmap(p, BYTES);
	(void)state;
}

/* Peers write into its pages by system calls that nothing holds up. */
static void pages_of_private_regions_stay(void **state)
{
	uint8_t *p = map(BYTES);
	struct ibv_mr *small = reg(p + 10, 100);

	refuses(p, BYTES);
	dereg(small);
	munmap(p, BYTES);
	(void)state;
}

static void what_is_unmapped_is_forgotten(void **state)
{
	uint8_t *p = map(BYTES);
	struct ibv_mr *mr, *again;

	memset(p, 1, BYTES);
	mr = reg(p, BYTES);
	assert_int_equal(munmap(p + LEAST, LEAST), 0);
	assert_ptr_equal(mmap(p + LEAST, LEAST, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0),
			 p + LEAST);
	expect_bytes(p + LEAST, 0, LEAST);
	p[LEAST] = 2;
	again = reg(p + LEAST, LEAST);
	assert_true(is_moved(p + LEAST));
	expect_bytes(p + LEAST + 1, 0, LEAST - 1);
	dereg(mr);
	assert_true(is_moved(p + LEAST));
	assert_int_equal(munmap(p, BYTES), 0);
	dereg(again);
	assert_int_equal(file_memory(), 0);
	(void)state;
}

/* realloc grows large blocks with mremap: in the file each is followed by its neighbour. */
static void realloc_while_registered(void **state)
{
	uint8_t *p = malloc(1 << 20), *q = malloc(1 << 20);
	struct ibv_mr *a = reg(p, 1 << 20), *b = reg(q, 1 << 20);

	memset(p, 1, 1 << 20);
	memset(q, 2, 1 << 20);
	p = realloc(p, 4 << 20);
	memset(p, 3, 4 << 20);
	q = realloc(q, 4 << 20);
	expect_bytes(q, 2, 1 << 20);
	memset(q, 4, 4 << 20);
	expect_bytes(p, 3, 4 << 20);
	dereg(a);
	dereg(b);
	expect_bytes(p, 3, 4 << 20);
	expect_bytes(q, 4, 4 << 20);
	free(p);
	free(q);
	assert_int_equal(file_memory(), 0);
	(void)state;
}

/* The child has the blocks beside the region as they were, and writes into its own. */
static void a_child_has_what_fork_gives_it(void **state)
{
	uint8_t *p = map(BYTES), *region = p + 100;
	struct ibv_mr *mr = reg(region, BYTES - 200);
	int ready[2], status;
	uint8_t byte;
	pid_t child;

	memset(p, 1, BYTES);
	assert_int_equal(pipe(ready), 0);
	child = fork();
	if (child == 0) {
		p[LEAST] = 2;
		region[0] = 2;
		/* the parent writes before it answers */
		_exit(read(ready[0], &byte, 1) != 1 || is_moved(p) || p[0] != 1 || p[BYTES - 1] != 1 || p[LEAST] != 2 ||
		      region[0] != 2);
	}
	assert_true(is_moved(p) && is_moved(p + LEAST) && is_moved(p + BYTES - 1));
	p[0] = p[BYTES - 1] = p[LEAST] = 3;
	assert_int_equal(write(ready[1], "x", 1), 1);
	waitpid(child, &status, 0);
	assert_int_equal(status, 0);
	assert_int_equal(p[LEAST], 3);
	assert_int_equal(region[0], 1);
	dereg(mr);
	assert_int_equal(file_memory(), 0);
	munmap(p, BYTES);
	close(ready[0]);
	close(ready[1]);
	(void)state;
}

struct counter {
	volatile uint64_t *word[3];
	uint64_t count;
	atomic_bool over;
};

static void *count_up(void *arg)
{
	struct counter *c = arg;

	for (; !atomic_load_explicit(&c->over, memory_order_relaxed); c->count++)
		for (unsigned i = 0; i < 3; i++)
			++*c->word[i];
	return NULL;
}

/* A thread counts within the region and beside it, on its first and last page. */
static void writers_lose_nothing(void **state)
{
	uint8_t *p = map(BYTES);
	struct counter c = { .word = { (void *)p, (void *)(p + LEAST), (void *)(p + BYTES - 8) } };
	pthread_t thread;

	assert_int_equal(pthread_create(&thread, NULL, count_up, &c), 0);
	for (unsigned n = 0; n < ROUNDS; n++) {
		struct ibv_mr *mr = reg(p + 100, BYTES - 200);

		assert_true(is_moved(p));
		dereg(mr);
	}
	atomic_store(&c.over, true);
	pthread_join(thread, NULL);
	for (unsigned i = 0; i < 3; i++)
		assert_int_equal(*c.word[i], c.count);
	munmap(p, BYTES);
	(void)state;
}

/* From then on nothing moves, and what had moved stays as it is. */
static void moved_away_memory_is_left_alone(void **state)
{
	uint8_t *p = map(BYTES), *to = map(BYTES), *other = map(BYTES);
	struct ibv_mr *mr;

	memset(p, 5, BYTES);
	mr = reg(p, BYTES);
	assert_ptr_equal(mremap(p, LEAST, LEAST, MREMAP_MAYMOVE | MREMAP_FIXED, to), to);
	dereg(mr);
	expect_bytes(to, 5, LEAST);
	expect_bytes(p + LEAST, 5, BYTES - LEAST);
	refuses(other, BYTES);
	(void)state;
}

static void closing_its_descriptor_does_no_harm(void **state)
{
	uint8_t *p = map(BYTES);
	struct ibv_mr *mr;
	char name[64], target[128];

	memset(p, 1, BYTES);
	mr = reg(p, BYTES);
	for (int fd = 3; fd < 1100; fd++) {
		ssize_t n;

		snprintf(name, sizeof(name), "/proc/self/fd/%d", fd);
		n = readlink(name, target, sizeof(target) - 1);
		if (n > 0 && memmem(target, (size_t)n, "weft-remap", 10))
			close(fd);
	}
	dereg(mr);
	expect_bytes(p, 1, BYTES);
	refuses(map(BYTES), BYTES);
	(void)state;
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(memory_moves_and_returns), cmocka_unit_test(refused_memory_stays), cmocka_unit_test(stacks_stay),
		cmocka_unit_test(advice_for_fork_is_kept), cmocka_unit_test(watched_and_sealed_memory_stays),
		cmocka_unit_test(regions_overlap), cmocka_unit_test(pages_of_private_regions_stay),
		cmocka_unit_test(what_is_unmapped_is_forgotten), cmocka_unit_test(realloc_while_registered),
		cmocka_unit_test(a_child_has_what_fork_gives_it), cmocka_unit_test(writers_lose_nothing),
		cmocka_unit_test(closing_its_descriptor_does_no_harm), cmocka_unit_test(moved_away_memory_is_left_alone),
	};
	struct ibv_context *ctx;
	bool kernel_waits;
	int fd = pages_open(&kernel_waits), failed;

	if (fd < 0) {
		printf("no pages move on this system: %s\n", strerror(-fd));
		return 77;
	}
	close(fd);
	setenv("WEFT_REMAP", "65536", 1);
	ctx = device_open(0);
	pd = ctx ? ibv_alloc_pd(ctx) : NULL;
	failed = pd ? cmocka_run_group_tests(tests, NULL, NULL) : 1;
	if (!pd)
		fprintf(stderr, "no device\n");
	else
		ibv_dealloc_pd(pd);
	ibv_close_device(ctx);
	return failed;
}
