/* Records of the seed's subnet administration: keys, and edits that are done all or none. */
#include "mgmt/sa_store.h"
#include "wire/field.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

enum { EDITS = 64 };

static struct sa_store s;
static uint8_t edits[EDITS * SA_EDIT_BYTES];
static uint32_t count;

static void say(unsigned what, uint64_t id, uint64_t key, uint8_t text)
{
	uint8_t *edit = edits + SA_EDIT_BYTES * count++;

	memset(edit, 0, SA_EDIT_BYTES);
	edit[0] = (uint8_t)what;
	wire_put(edit, id, 8, 0, 64);
	wire_put(edit, key, 16, 0, 64);
	edit[24] = text;
}

/* Does what was said, by this key; status of the first edits in order. */
static void expect(uint64_t key, const uint16_t *want)
{
	uint32_t bytes;
	uint8_t *answer = sa_store_edit(&s, key, edits, count * SA_EDIT_BYTES, &bytes);

	assert_non_null(answer);
	assert_int_equal(bytes, 2 * count);
	for (uint32_t i = 0; i < count; i++)
		assert_int_equal(wire_get(answer + 2 * i, 0, 0, 16), want[i]);
	free(answer);
	count = 0;
}

#define EXPECT(key, ...) expect(key, (const uint16_t[]){ __VA_ARGS__ })

/* The first byte of each text that this key leads to. */
static void shown(uint64_t key, const char *want)
{
	const struct sa_question q = { .key = key };
	uint8_t record[SA_RECORD_MOST];
	char got[EDITS + 1] = "";
	uint32_t at = 0;

	for (size_t i = 0; sa_store_give(&s, &q, &at, record); i++) {
		uint64_t shows = wire_get(record, 8, 0, 64);

		got[i] = (char)record[16];
		assert_true(!shows || shows == key);
	}
	assert_string_equal(got, want);
}

static int begin(void **state)
{
	(void)state;
	count = 0;
	return sa_store_init(&s, SA_KEY_CHOOSES, 0);
}

static int end(void **state)
{
	(void)state;
	sa_store_fini(&s);
	return 0;
}

static void records_are_added_edited_and_deleted(void **state)
{
	(void)state;
	say(SA_ADD, 5, 0, 'e');
	say(SA_ADD, 1, 0, 'a');
	say(SA_ADD, 3, 0, 'c');
	EXPECT(0, SA_DONE, SA_DONE, SA_DONE);
	shown(0, "ace");
	say(SA_EDIT_ONE, 3, 0, 'C');
	say(SA_DELETE_ONE, 1, 0, 0);
	EXPECT(0, SA_DONE, SA_DONE);
	shown(0, "Ce");
	assert_true(s.changes == 2);
	/* in turn: a record that the same Config added is there */
	say(SA_ADD, 1, 0, 'a');
	say(SA_EDIT_ONE, 1, 0, 'A');
	say(SA_DELETE_ONE, 5, 0, 0);
	say(SA_ADD, 5, 0, 'E');
	EXPECT(0, SA_DONE, SA_DONE, SA_DONE, SA_DONE);
	shown(0, "ACE");
}

/* RMP-62: a bad record in the middle. */
static void all_or_nothing(void **state)
{
	(void)state;
	say(SA_ADD, 1, 0, 'a');
	EXPECT(0, SA_DONE);
	say(SA_ADD, 2, 0, 'b');
	say(SA_ADD, 1, 0, 'x');
	say(SA_DELETE_ONE, 9, 0, 0);
	say(7, 3, 0, 0);
	say(0, 3, 0, 0);
	say(SA_DELETE_ONE, 1, 0, 0);
	EXPECT(0, SA_NOT_DONE, SA_IS_THERE, SA_IS_NOT_THERE, SA_NO_SUCH_EDIT, SA_NO_SUCH_EDIT, SA_NOT_DONE);
	shown(0, "a");
	assert_true(s.changes == 1);
}

/* RMP-61: the seed's keys choose a subset. */
static void a_key_chooses(void **state)
{
	(void)state;
	say(SA_ADD, 1, 0, 'a');
	say(SA_ADD, 2, 7, 'b');
	say(SA_ADD, 3, 8, 'c');
	EXPECT(0, SA_DONE, SA_DONE, SA_DONE);
	shown(0, "abc");
	shown(7, "b");
	shown(9, "");
	say(SA_EDIT_ONE, 2, 8, 'x');
	EXPECT(8, SA_NOT_YOURS);
	say(SA_DELETE_ONE, 2, 0, 0);
	EXPECT(0, SA_NOT_YOURS);
	say(SA_EDIT_ONE, 2, 7, 'B');
	say(SA_EDIT_ONE, 1, 0, 'A');
	EXPECT(7, SA_DONE, SA_DONE);
	shown(0, "ABc");
}

/* RMP-61, today's rule: a trusted key leads to all, any other one to what is its own and everybody's. */
static void a_key_is_trusted(void **state)
{
	(void)state;
	sa_store_fini(&s);
	sa_store_init(&s, SA_KEY_IS_TRUSTED, 99);
	say(SA_ADD, 1, 0, 'a');
	say(SA_ADD, 2, 7, 'b');
	say(SA_ADD, 3, 8, 'c');
	EXPECT(99, SA_DONE, SA_DONE, SA_DONE);
	shown(0, "a");
	shown(7, "ab");
	shown(99, "abc");
	say(SA_DELETE_ONE, 2, 0, 0);
	EXPECT(8, SA_NOT_YOURS);
	say(SA_DELETE_ONE, 2, 0, 0);
	EXPECT(99, SA_DONE);
	shown(99, "ac");
}

static void what_is_no_config(void **state)
{
	uint32_t bytes = 7;
	uint8_t *answer;

	(void)state;
	say(SA_ADD, 1, 0, 'a');
	answer = sa_store_edit(&s, 0, edits, SA_EDIT_BYTES - 1, &bytes);
	assert_int_equal(bytes, 0);
	free(answer);
	answer = sa_store_edit(&s, 0, edits, 0, &bytes);
	assert_int_equal(bytes, 0);
	free(answer);
	shown(0, "");
	assert_true(s.changes == 0);
}

static void places_have_an_end(void **state)
{
	(void)state;
	for (uint32_t i = 0; i < SA_KEPT_MOST; i += EDITS) {
		uint32_t bytes;

		for (uint32_t k = 0; k < EDITS; k++)
			say(SA_ADD, i + k, 0, 'a');
		free(sa_store_edit(&s, 0, edits, sizeof(edits), &bytes));
		count = 0;
	}
	assert_int_equal(s.count, SA_KEPT_MOST);
	say(SA_ADD, SA_KEPT_MOST, 0, 'x');
	say(SA_DELETE_ONE, 0, 0, 0);
	EXPECT(0, SA_NO_PLACE, SA_NOT_DONE);
	say(SA_DELETE_ONE, 0, 0, 0);
	say(SA_ADD, SA_KEPT_MOST, 0, 'x');
	EXPECT(0, SA_DONE, SA_DONE);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, begin, end)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(records_are_added_edited_and_deleted),
		TEST(all_or_nothing),
		TEST(a_key_chooses),
		TEST(a_key_is_trusted),
		TEST(what_is_no_config),
		TEST(places_have_an_end),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
