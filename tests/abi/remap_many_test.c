/* weft run --remap with many regions: what each costs does not grow with their number, as the calls tell whose price does; and
 * memory that the program moves elsewhere is noticed among many mappings too. Runs with a weftd of its own
 * (e2e/with_weftd.sh). */
#include "rc.h"

#include "remap/maps.h"
#include "remap/pages.h"

#include <dlfcn.h>
#include <infiniband/verbs.h>
#include <linux/userfaultfd.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

enum {
	PAGE = 4096, REGION = 4 * PAGE, STRIDE = 5 * PAGE, FEW = 128, MANY = 1024, PIECES = 4000, BYTES = 64 * PAGE,
	ASK_MAPPING = 17,	/* the number of PROCMAP_QUERY, which headers of before Linux 6.11 do not have */
	REMOTE = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE,
};

/* Each question about mappings takes the kernel the same; to list flags, and to close a userfaultfd, it goes through all. */
struct work {
	uint64_t questions, lists, userfaultfds;
};

static struct work work;
static struct ibv_context *context;
static struct ibv_pd *pd;

/* In place of libc's, also for weft. */
__attribute__((visibility("default"))) int ioctl(int fd, unsigned long request, ...)
{
	va_list list;
	void *argument;

	va_start(list, request);
	argument = va_arg(list, void *);
	va_end(list);
	work.questions += _IOC_TYPE(request) == 'f' && _IOC_NR(request) == ASK_MAPPING;
	work.userfaultfds += request == UFFDIO_API;
	return (int)syscall(SYS_ioctl, fd, request, argument);
}

__attribute__((visibility("default"))) FILE *fopen(const char *path, const char *mode)
{
	FILE *(*next)(const char *, const char *) = (FILE * (*)(const char *, const char *))dlsym(RTLD_NEXT, "fopen");

	work.lists += strstr(path, "smaps") != NULL;
	return next(path, mode);
}

static int open_device(void)
{
	context = device_open(0);
	pd = context ? ibv_alloc_pd(context) : NULL;
	return pd ? 0 : -1;
}

static void close_device(void)
{
	ibv_dealloc_pd(pd);
	ibv_close_device(context);
}

static uint8_t *map(size_t bytes)
{
	uint8_t *p = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	assert_ptr_not_equal(p, MAP_FAILED);
	return p;
}

static bool is_moved(const void *p)
{
	FILE *maps = maps_open();
	struct mapping m = { 0 };
	bool found = maps && maps_find(maps, (uintptr_t)p, &m);

	if (maps)
		fclose(maps);
	return found && m.is_shared;
}

static bool kernel_answers(void)
{
	FILE *maps = maps_open();
	bool answers = maps && maps_can_find(maps);

	if (maps)
		fclose(maps);
	return answers;
}

/* Registering, a fork, deregistering. */
static void measure(unsigned regions, struct work step[3])
{
	struct ibv_mr **mr = calloc(regions, sizeof(*mr));
	uint8_t *p = map((size_t)regions * STRIDE);
	pid_t child;

	assert_non_null(mr);
	work = (struct work){ 0 };
	for (unsigned i = 0; i < regions; i++) {
		/* parts of pages, which go back for a fork, and come again */
		mr[i] = ibv_reg_mr(pd, p + (size_t)i * STRIDE + PAGE / 2, REGION, REMOTE);
		assert_non_null(mr[i]);
	}
	step[0] = work;
	assert_true(is_moved(p) && is_moved(p + (size_t)(regions - 1) * STRIDE));
	work = (struct work){ 0 };
	child = fork();
	if (child == 0)
		_exit(0);
	step[1] = work;
	waitpid(child, NULL, 0);
	assert_true(is_moved(p));
	work = (struct work){ 0 };
	for (unsigned i = 0; i < regions; i++)
		assert_int_equal(ibv_dereg_mr(mr[i]), 0);
	step[2] = work;
	assert_false(is_moved(p) || is_moved(p + (size_t)(regions - 1) * STRIDE));
	munmap(p, (size_t)regions * STRIDE);
	free(mr);
}

static void a_region_costs_the_same_among_many(void **state)
{
	static const char *const names[] = { "registering", "fork", "deregistering" };
	struct work few[3], many[3];

	measure(1, few);	/* what is made once */
	measure(FEW, few);
	measure(MANY, many);
	for (unsigned i = 0; i < 3; i++) {
		print_message("%s: %lu questions for %u regions, %lu for %u\n", names[i], (unsigned long)few[i].questions, FEW,
			      (unsigned long)many[i].questions, MANY);
		assert_int_equal(many[i].userfaultfds, 0);
		if (!kernel_answers())
			continue;
		assert_int_equal(many[i].lists, 0);
		assert_true(few[i].questions >= FEW);
		assert_true(many[i].questions <= 2 * MANY / FEW * few[i].questions);
	}
	if (!kernel_answers())
		print_message("part skipped: this kernel answers no questions about mappings\n");
	(void)state;
}

/* ---- memory that is moved elsewhere, in a program of many mappings, which are not looked at for each region ---- */

static void in_child(bool (*is_right)(void))
{
	pid_t child = fork();
	int status;

	if (child == 0) {
		uint8_t *pieces = mmap(NULL, PIECES * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

		for (unsigned i = 0; i < PIECES; i += 2)
			mprotect(pieces + (size_t)i * PAGE, PAGE, PROT_READ);
		_exit(open_device() < 0 || !is_right());
	}
	waitpid(child, &status, 0);
	assert_int_equal(status, 0);
}

static bool has_bytes(const uint8_t *p, uint8_t value, size_t bytes)
{
	for (size_t i = 0; i < bytes; i++)
		if (p[i] != value)
			return false;
	return true;
}

static struct ibv_mr *register_and_move_half(uint8_t **p, uint8_t **to)
{
	struct ibv_mr *first = ibv_reg_mr(pd, map(BYTES), BYTES, REMOTE), *mr;

	*p = map(BYTES);
	*to = map(BYTES);
	memset(*p, 5, BYTES);
	mr = ibv_reg_mr(pd, *p, BYTES, REMOTE);
	if (!first || !mr || !is_moved(*p))
		return NULL;
	return mremap(*p, BYTES / 2, BYTES / 2, MREMAP_MAYMOVE | MREMAP_FIXED, *to) == *to ? mr : NULL;
}

static bool deregistering_notices(void)
{
	uint8_t *p, *to, *other = map(BYTES);
	struct ibv_mr *mr = register_and_move_half(&p, &to);

	return mr && ibv_dereg_mr(mr) == 0 && has_bytes(to, 5, BYTES / 2) && has_bytes(p + BYTES / 2, 5, BYTES / 2) &&
	       ibv_reg_mr(pd, other, BYTES, REMOTE) && !is_moved(other);
}

/* Something else has come to where the memory was. */
static bool registering_notices(void)
{
	uint8_t *p, *to;
	struct ibv_mr *mr = register_and_move_half(&p, &to);

	if (!mr || mmap(p, BYTES / 2, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0) == MAP_FAILED)
		return false;
	memset(p, 6, BYTES / 2);
	return ibv_reg_mr(pd, p, BYTES / 4, REMOTE) && !is_moved(p) && has_bytes(to, 5, BYTES / 2) &&
	       has_bytes(p, 6, BYTES / 2);
}

/* The program has the same memory at two addresses, where nothing is missing. */
static bool looking_now_and_then_notices(void)
{
	uint8_t *p = map(BYTES), *to = map(BYTES), *other = map(BYTES);
	struct ibv_mr *mr;

	memset(p, 5, BYTES);
	mr = ibv_reg_mr(pd, p, BYTES, REMOTE);
	if (!mr || mremap(p, 0, BYTES / 2, MREMAP_MAYMOVE | MREMAP_FIXED, to) != to)
		return false;
	for (unsigned i = 0; i < PIECES / 10; i++)
		if (ibv_dereg_mr(ibv_reg_mr(pd, other, BYTES, REMOTE)))
			return false;
	return ibv_reg_mr(pd, other, BYTES, REMOTE) && !is_moved(other) && ibv_dereg_mr(mr) == 0 &&
	       has_bytes(to, 5, BYTES / 2) && has_bytes(p, 5, BYTES);
}

static void moved_away_memory_is_noticed_when_it_is_deregistered(void **state)
{
	in_child(deregistering_notices);
	(void)state;
}

static void doubled_memory_is_noticed_after_some_regions(void **state)
{
	in_child(looking_now_and_then_notices);
	(void)state;
}

static void moved_away_memory_is_noticed_when_its_place_is_registered(void **state)
{
	in_child(registering_notices);
	(void)state;
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(moved_away_memory_is_noticed_when_it_is_deregistered),
		cmocka_unit_test(moved_away_memory_is_noticed_when_its_place_is_registered),
		cmocka_unit_test(doubled_memory_is_noticed_after_some_regions),
		cmocka_unit_test(a_region_costs_the_same_among_many),
	};
	bool kernel_waits;
	int fd = pages_open(&kernel_waits), failed;

	if (fd < 0) {
		printf("SKIP: no pages move on this system: %s\n", strerror(-fd));
		return 77;
	}
	close(fd);
	setenv("WEFT_REMAP", "4096", 1);
	if (open_device() < 0)
		return 1;
	failed = cmocka_run_group_tests(tests, NULL, NULL);
	close_device();
	return failed;
}
