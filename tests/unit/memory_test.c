/* Copies from and to a program's memory that may not be there. */
#include "runtime/memory.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cmocka.h>

enum { PAGE = 4096, BYTES = 400000 };	/* more than twice what the file of copies holds */

static uint8_t pattern[BYTES];

/* A page that is there, before one that is not. */
static uint8_t *make_edge(void)
{
	uint8_t *page = mmap(NULL, 2 * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	assert_ptr_not_equal(page, MAP_FAILED);
	assert_int_equal(munmap(page + PAGE, PAGE), 0);
	return page;
}

static void check_writes(struct copy_file *f)
{
	uint8_t *edge = make_edge(), *whole = calloc(1, BYTES);

	assert_int_equal(memory_write_safely(f, whole, pattern, BYTES), 0);
	assert_memory_equal(whole, pattern, BYTES);
	assert_int_equal(memory_write_safely(f, whole, pattern + 1, 7), 0);
	assert_memory_equal(whole, pattern + 1, 7);
	assert_memory_equal(whole + 7, pattern + 7, BYTES - 7);
	assert_int_equal(memory_write_safely(f, edge, pattern, PAGE), 0);
	assert_memory_equal(edge, pattern, PAGE);
	assert_int_equal(memory_write_safely(f, edge + PAGE - 8, pattern, 16), -EFAULT);
	assert_int_equal(memory_write_safely(f, edge + PAGE, pattern, 1), -EFAULT);
	munmap(edge, PAGE);
	free(whole);
}

/* Three pages, of which the middle one is not there. */
static uint8_t *make_hole(void)
{
	uint8_t *page = mmap(NULL, 3 * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	assert_ptr_not_equal(page, MAP_FAILED);
	assert_int_equal(munmap(page + PAGE, PAGE), 0);
	return page;
}

/* What follows what was lost arrives, in the same piece and in others. */
static void later_writes_arrive_around_holes(void **state)
{
	uint8_t *hole = make_hole(), *whole = calloc(1, BYTES);
	struct copy_file f;

	(void)state;
	for (unsigned i = 0; i < BYTES; i++)
		pattern[i] = (uint8_t)(i * 7 + i / 251);
	for (int has_file = 0; has_file < 2; has_file++) {
		copy_file_create(&f);
		if (!has_file)
			copy_file_destroy(&f);
		memory_write_later(&f, hole + 16, pattern + 16, PAGE - 16);
		memory_write_later(&f, hole + PAGE, pattern + PAGE, 100);
		memory_write_later(&f, hole + PAGE + 100, pattern + PAGE + 100, PAGE - 100);
		memory_write_later(&f, hole + 2 * PAGE, pattern + 2 * PAGE, PAGE);
		memory_write_later(&f, hole, pattern, 16);
		for (unsigned i = 0; i < BYTES / 40; i++)	/* more than the file holds, and more pieces */
			memory_write_later(&f, whole + i * 40, pattern + i * 40, 39);
		memory_settle(&f);
		assert_memory_equal(hole, pattern, PAGE);
		assert_memory_equal(hole + 2 * PAGE, pattern + 2 * PAGE, PAGE);
		for (unsigned i = 0; i < BYTES; i++)
			assert_int_equal(whole[i], i % 40 == 39 ? 0 : pattern[i]);
		memset(hole, 0, PAGE);
		memset(hole + 2 * PAGE, 0, PAGE);
		memset(whole, 0, BYTES);
		if (has_file)
			copy_file_destroy(&f);
	}
	munmap(hole, PAGE);
	munmap(hole + 2 * PAGE, PAGE);
	free(whole);
}

/* Nothing of it overtakes, or is overtaken by, what is written at once. */
static void later_writes_keep_their_order(void **state)
{
	struct copy_file f;
	uint8_t to[64] = { 0 };

	(void)state;
	copy_file_create(&f);
	memory_write_later(&f, to, "first", 5);
	memory_write_later(&f, to + 5, "more", 4);
	memory_write_later(&f, to + 2, "X", 1);
	memory_write_safely(&f, to + 3, "YZ", 2);
	memory_write_later(&f, to + 4, "!", 1);
	memory_settle(&f);
	assert_memory_equal(to, "fiXY!more", 10);
	copy_file_destroy(&f);
}

static void writes_arrive_or_fail(void **state)
{
	struct copy_file f;

	(void)state;
	copy_file_create(&f);
	assert_non_null(f.map);
	check_writes(&f);
	copy_file_destroy(&f);
	assert_int_equal(f.fd, -1);
}

static void writes_need_no_file(void **state)
{
	struct copy_file f;

	(void)state;
	copy_file_create(&f);
	copy_file_destroy(&f);
	check_writes(&f);
}

static void reads_arrive_or_fail(void **state)
{
	uint8_t *edge = make_edge(), *to = calloc(1, BYTES);

	(void)state;
	assert_int_equal(memory_read_safely(to, pattern, BYTES), 0);
	assert_memory_equal(to, pattern, BYTES);
	memcpy(edge, pattern, PAGE);
	assert_int_equal(memory_read_safely(to, edge + PAGE - 8, 8), 0);
	assert_memory_equal(to, pattern + PAGE - 8, 8);
	assert_int_equal(memory_read_safely(to, edge + PAGE - 8, 16), -EFAULT);
	munmap(edge, PAGE);
	free(to);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(writes_arrive_or_fail),
		cmocka_unit_test(later_writes_arrive_around_holes),
		cmocka_unit_test(later_writes_keep_their_order),
		cmocka_unit_test(writes_need_no_file),
		cmocka_unit_test(reads_arrive_or_fail),
	};

	for (unsigned i = 0; i < BYTES; i++)
		pattern[i] = (uint8_t)(i * 7 + i / 251);
	return cmocka_run_group_tests_name("memory", tests, NULL, NULL);
}
