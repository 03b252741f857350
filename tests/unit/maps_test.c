/* Mappings that are looked for by address: the same ones that the kernel lists, and without reading those below. */
#include "remap/maps.h"

#include "remap/pages.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/utsname.h>
#include <unistd.h>

#include <cmocka.h>

enum { PIECES = 200, MOST = 4096 };

static const uint64_t KERNEL = 1ull << 63;	/* [vsyscall] is in the list, but no memory of the process */

static struct mapping listed[MOST];

/* Every other page is one of a shared file. */
static uint8_t *map_pieces(void)
{
	size_t page = page_bytes();
	int fd = memfd_create("weft-test", MFD_CLOEXEC);
	uint8_t *p = mmap(NULL, PIECES * page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	assert_true(fd >= 0 && p != MAP_FAILED && ftruncate(fd, (off_t)(PIECES * page)) == 0);
	for (size_t i = 0; i < PIECES; i += 2)
		assert_true(mmap(p + i * page, page, PROT_READ, MAP_SHARED | MAP_FIXED, fd, (off_t)(i * page)) != MAP_FAILED);
	close(fd);
	return p;
}

static size_t list(void)
{
	FILE *maps = maps_open();
	size_t count = 0;

	assert_non_null(maps);
	while (count < MOST && maps_next(maps, &listed[count]) && listed[count].start < KERNEL)
		count++;
	fclose(maps);
	return count;
}

static void expect_same(const struct mapping *a, const struct mapping *b)
{
	assert_true(a->start == b->start && a->end == b->end);
	assert_int_equal(a->inode, b->inode);
	if (a->inode)
		assert_true(a->device == b->device && a->offset == b->offset);
	assert_true(a->is_readable == b->is_readable && a->is_writable == b->is_writable);
	assert_true(a->is_executable == b->is_executable && a->is_shared == b->is_shared && a->is_stack == b->is_stack);
}

/* `maps` may be no list of the kernel's at all: then its text is read. */
static void find_all(FILE *maps, size_t count)
{
	struct mapping m = { 0 };

	for (size_t i = 0; i < count; i++) {
		assert_true(maps_find(maps, m.end, &m));
		expect_same(&m, &listed[i]);
	}
}

static bool kernel_answers(void)
{
	struct utsname name;
	char *rest;
	long major, minor;

	assert_int_equal(uname(&name), 0);
	major = strtol(name.release, &rest, 10);
	minor = *rest == '.' ? strtol(rest + 1, NULL, 10) : 0;
	return major > 6 || (major == 6 && minor >= 11);
}

static void found_mappings_are_the_listed_ones(void **state)
{
	uint8_t *p = map_pieces();
	FILE *maps = maps_open();
	size_t count;

	assert_non_null(maps);
	count = list();
	assert_in_range(count, PIECES, MOST - 1);
	find_all(maps, count);
	fclose(maps);
	munmap(p, PIECES * page_bytes());
	(void)state;
}

/* Linux before 6.11: a copy of the text answers no questions either. */
static void mappings_are_found_in_text(void **state)
{
	uint8_t *p = map_pieces();
	FILE *maps = maps_open(), *text = tmpfile();
	size_t count;
	int c;

	assert_non_null(maps);
	assert_non_null(text);
	count = list();
	while ((c = getc(maps)) != EOF)
		putc(c, text);
	fclose(maps);
	rewind(text);
	find_all(text, count);
	fclose(text);
	munmap(p, PIECES * page_bytes());
	(void)state;
}

static void mappings_below_are_not_read(void **state)
{
	uint8_t *p;
	FILE *maps;
	struct mapping m;

	if (!kernel_answers())
		skip();
	p = map_pieces();
	maps = maps_open();
	assert_non_null(maps);
	for (size_t i = 0; i < PIECES; i++) {
		uint64_t at = (uintptr_t)p + i * page_bytes();

		assert_true(maps_find(maps, at, &m));
		assert_true(m.start <= at && at < m.end);
		assert_int_equal(m.is_shared, i % 2 == 0);
	}
	assert_int_equal(ftell(maps), 0);
	assert_false(maps_find(maps, UINT64_MAX & ~(page_bytes() - 1), &m));
	fclose(maps);
	munmap(p, PIECES * page_bytes());
	(void)state;
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(found_mappings_are_the_listed_ones),
		cmocka_unit_test(mappings_are_found_in_text),
		cmocka_unit_test(mappings_below_are_not_read),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
