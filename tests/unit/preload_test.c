/* LD_PRELOAD of programs under weft run: what comes first, and what comes once. */
#include "cli/preload.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#define OURS "/w/libweft-shim.so:/w/libibverbs.so.1"
#define ALL "/w/libweft-heap.so:" OURS

static const struct row {
	const char *old, *joined;
	bool with_heap;
} rows[] = {
	{ NULL, OURS, false },
	{ "", OURS, false },
	{ NULL, ALL, true },
	{ "/a/libjemalloc.so", OURS ":/a/libjemalloc.so", false },
	{ "libasan.so.8", "libasan.so.8:" OURS, false },
	{ "/a/b.so /lib/libasan.so", "/lib/libasan.so:" OURS ":/a/b.so", false },
	{ "/a/b.so:/l/libclang_rt.asan-x86_64.so::/c.so", "/l/libclang_rt.asan-x86_64.so:" ALL ":/a/b.so:/c.so", true },
	{ OURS, OURS, false },
	{ "libtsan.so.2:" ALL ":/a.so", "libtsan.so.2:" OURS ":/a.so", false },
	{ "/a.so:" OURS " " OURS, OURS ":/a.so", false },
	/* another weft's, and a stranger with a longer name */
	{ "/v/libweft-shim.so:/w/libweft-shim.so.1", OURS ":/v/libweft-shim.so:/w/libweft-shim.so.1", false },
};

static void sanitizers_then_weft_then_the_rest(void **state)
{
	char text[512];

	for (size_t i = 0; i < sizeof(rows) / sizeof(*rows); i++) {
		assert_int_equal(preload_join(rows[i].old, "/w", rows[i].with_heap, text, sizeof(text)), 0);
		assert_string_equal(text, rows[i].joined);
	}
}

static void what_has_no_room_is_an_error(void **state)
{
	char text[sizeof(OURS)];

	assert_int_equal(preload_join(NULL, "/w", false, text, sizeof(text)), 0);
	assert_int_equal(preload_join(NULL, "/w", false, text, sizeof(text) - 1), -ENAMETOOLONG);
	assert_int_equal(preload_join("/a.so", "/w", false, text, sizeof(text)), -ENAMETOOLONG);
}

static void libraries_of_sanitizers_are_known(void **state)
{
	static const char *const known[] = { "libasan.so", "/x/libasan.so.8", "libubsan.so.1", "libtsan.so.2", "liblsan.so.0",
		"libhwasan.so.0", "libclang_rt.asan-x86_64.so", "libclang_rt.ubsan_standalone.so", "libclang_rt.tsan.so" };
	static const char *const others[] = { "", "asan.so", "libasan", "libasanity.so", "libsan.so", "libasan.so/libm.so",
		"libclang_rt.profile.so", "libibverbs.so.1", "libtsa.so" };

	for (size_t i = 0; i < sizeof(known) / sizeof(*known); i++)
		assert_true(preload_is_sanitizer(known[i]));
	for (size_t i = 0; i < sizeof(others) / sizeof(*others); i++)
		assert_false(preload_is_sanitizer(others[i]));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(sanitizers_then_weft_then_the_rest),
		cmocka_unit_test(what_has_no_room_is_an_error),
		cmocka_unit_test(libraries_of_sanitizers_are_known),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
