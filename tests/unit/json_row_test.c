/* One JSON object by hand: jansson reads what is written, and nothing is written where there is no room. */
#include "runtime/json_row.h"

#include <jansson.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

static const char odd[] = "a\"b\\c\x01\x1f\n/\xc3\xa4";

static size_t write_row(char *text, size_t room)
{
	struct json_row r;

	json_row_begin(&r, text, room);
	json_row_string(&r, "device", "weft0");
	json_row_number(&r, "zero", 0);
	json_row_number(&r, "most", INT64_MAX);
	json_row_string(&r, "odd", odd);
	json_row_string(&r, "", "");
	return json_row_end(&r);
}

static void jansson_reads_it(void **state)
{
	char text[256];
	size_t bytes = write_row(text, sizeof(text));
	json_t *o = json_loadb(text, bytes, 0, NULL);

	assert_non_null(o);
	assert_int_equal(json_object_size(o), 5);
	assert_string_equal(json_string_value(json_object_get(o, "device")), "weft0");
	assert_int_equal(json_integer_value(json_object_get(o, "zero")), 0);
	assert_int_equal(json_integer_value(json_object_get(o, "most")), INT64_MAX);
	assert_string_equal(json_string_value(json_object_get(o, "odd")), odd);
	assert_string_equal(json_string_value(json_object_get(o, "")), "");
	json_decref(o);
}

static void an_empty_object_is_one(void **state)
{
	char text[2];
	struct json_row r;

	json_row_begin(&r, text, sizeof(text));
	assert_int_equal(json_row_end(&r), 2);
	assert_memory_equal(text, "{}", 2);
}

static void a_row_without_room_writes_nothing_behind_it(void **state)
{
	char text[256], whole[256];
	size_t bytes = write_row(whole, sizeof(whole));

	for (size_t room = 0; room < bytes; room++) {
		memset(text, '#', sizeof(text));
		assert_int_equal(write_row(text, room), 0);
		assert_memory_equal(text, whole, room);
		assert_int_equal(text[room], '#');
	}
	assert_int_equal(write_row(text, bytes), bytes);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(jansson_reads_it),
		cmocka_unit_test(an_empty_object_is_one),
		cmocka_unit_test(a_row_without_room_writes_nothing_behind_it),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
