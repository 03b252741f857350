/* Whose subordinate users are whose, from the texts of /etc/subuid and /etc/passwd, well-formed and not. */
#include "weftd/subids.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

enum { OWN = 1003 };	/* weftd's user */

static const char passwd[] = "root:x:0:0:root:/root:/bin/sh\nann:x:1000:1000::/home/ann:/bin/sh\nanna:x:1001:1001::/:/bin/sh\n"
			     "bad\nbroken:x:\n";

static void ranges_belong_to_their_owners(void **state)
{
	static const char subuid[] = "ann:100000:65536\nanna:165536:65536\n1002:300000:10\nghost:400000:10\n";
	static const struct {
		uint32_t uid, owner;
	} rows[] = {
		{ 99999, 99999 }, { 100000, 1000 }, { 165535, 1000 }, { 165536, 1001 }, { 231071, 1001 }, { 231072, 231072 },
		{ 300009, 1002 }, { 300010, 300010 }, { 400000, 400000 }, { 400009, 400000 }, { 0, 0 }, { 1000, 1000 },
	};

	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++)
		assert_int_equal(subids_find(rows[i].uid, OWN, subuid, passwd), rows[i].owner);
	(void)state;
}

/* A container of root, or of weftd's user, has none of its rights. */
static void ranges_of_those_who_may_all_are_users_by_themselves(void **state)
{
	static const char subuid[] = "root:100000:65536\n0:300000:10\n1003:400000:10\nbroken:0:10\nroot:20:4\n1003:1000:8\n";
	static const struct {
		uint32_t uid, user;
	} rows[] = {
		{ 0, 0 }, { OWN, OWN }, { 100000, 100000 }, { 100005, 100000 }, { 165535, 100000 }, { 300009, 300000 },
		{ 400009, 400000 }, { 7, 7 }, { 23, 20 }, { 1007, 1000 },
	};

	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++)
		assert_int_equal(subids_find(rows[i].uid, OWN, subuid, passwd), rows[i].user);
	/* nor has one whose first user they are */
	assert_int_equal(subids_find(OWN + 1, OWN, "ghost:1003:8\n", passwd), OWN + 1);
	assert_int_equal(subids_find(OWN, OWN, "ann:1000:8\n", passwd), OWN);
	(void)state;
}

static void what_is_no_range_is_passed_over(void **state)
{
	static const char *const texts[] = {
		"", "\n", ":", "::", ":::", "ann", "ann:", "ann:5", "ann:5:", "ann:5:x\n", "ann:-5:100\n", "ann:5:0\n",
		"ann::100\n",
		"ann:5:99999999999999999999999999\n", "ann:99999999999999999999999:5\n", "ann: 5:10\n",
		"#ann:5:10\n:\n", "ann:5:10:\n",
		"ann:4294967296:10\n",
	};

	for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++) {
		if (texts[i][0] != '#')
			assert_int_equal(subids_find(7, OWN, texts[i], passwd), 7);
	}
	/* up to the last user, and not around */
	assert_int_equal(subids_find(UINT32_MAX, OWN, "ann:4294967290:100\n", passwd), 1000);
	assert_int_equal(subids_find(3, OWN, "ann:4294967290:100\n", passwd), 3);
	/* nobody is given root */
	assert_int_equal(subids_find(0, OWN, "ann:0:100\n", passwd), 0);
	assert_int_equal(subids_find(7, OWN, "broken:5:10\n", passwd), 5);
	(void)state;
}

/* Any bytes: no read beyond the texts, which the sanitizers watch, and an answer. */
static void any_text_is_read_within_its_bounds(void **state)
{
	static const char bytes[] = "ann:5:10\n0123456789::\n";
	char *a, *b;

	srand(7);
	for (int i = 0; i < 20000; i++) {
		size_t n = (size_t)rand() % 40, m = (size_t)rand() % 40;

		a = malloc(n + 1);
		b = malloc(m + 1);
		for (size_t k = 0; k < n; k++)
			a[k] = rand() % 16 ? bytes[(size_t)rand() % (sizeof(bytes) - 1)] : (char)(rand() % 255 + 1);
		for (size_t k = 0; k < m; k++)
			b[k] = rand() % 16 ? bytes[(size_t)rand() % (sizeof(bytes) - 1)] : (char)(rand() % 255 + 1);
		a[n] = b[m] = '\0';
		subids_find((uint32_t)rand() % 20, OWN, a, b);
		free(a);
		free(b);
	}
	(void)state;
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(ranges_belong_to_their_owners),
		cmocka_unit_test(ranges_of_those_who_may_all_are_users_by_themselves),
		cmocka_unit_test(what_is_no_range_is_passed_over),
		cmocka_unit_test(any_text_is_read_within_its_bounds),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
