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

enum { PAGE = 4096, BYTES = 40000 };

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
		cmocka_unit_test(writes_need_no_file),
		cmocka_unit_test(reads_arrive_or_fail),
	};

	for (unsigned i = 0; i < BYTES; i++)
		pattern[i] = (uint8_t)(i * 7 + i / 251);
	return cmocka_run_group_tests_name("memory", tests, NULL, NULL);
}
