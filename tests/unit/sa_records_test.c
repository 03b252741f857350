/* weft sa's file of edits, line by line, and its answer in JSON. */
#include "cli/cli.h"
#include "cli/sa_records.h"
#include "mgmt/sa_store.h"
#include "mgmt/transaction.h"
#include "wire/field.h"

#include <errno.h>
#include <jansson.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cmocka.h>

enum { LETTERS = 255, KEY = 0x1234 };	/* LETTERS: a line was once read so many bytes at a time */

int cli_fail(const char *next, const char *cause, ...)
{
	fail_msg("%s", cause);
	return EXIT_FAILED;
}

static const char *letters(const char *before, const char *after)
{
	static char text[2 * LETTERS];
	size_t at = strlen(before);

	memcpy(text, before, at);
	memset(text + at, 'x', LETTERS);
	strcpy(text + at + LETTERS, after);
	return text;
}

/* What sa_records_read gives; of the first edit: what, id, text. */
static int read_file(const char *text, unsigned *edits, uint32_t *line, uint8_t first[SA_EDIT_BYTES])
{
	int fd = memfd_create("edits", MFD_CLOEXEC), err;
	uint8_t *read = NULL;
	uint32_t bytes = 0;
	char path[32];

	assert_int_equal(write(fd, text, strlen(text)), strlen(text));
	snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
	err = sa_records_read(path, KEY, &read, &bytes, line);
	*edits = bytes / SA_EDIT_BYTES;
	if (*edits)
		memcpy(first, read, SA_EDIT_BYTES);
	free(read);
	close(fd);
	return err;
}

static void edits_are_what_lines_say(void **state)
{
	static const char longest[] = "as many as forty-eight letters and no more of it";
	static const struct {
		const char *text;
		unsigned edits, what;
		uint64_t id;
		const char *kept;
	} rows[] = {
		{ "add 5 five\n", 1, SA_ADD, 5, "five" },
		{ "\n \t\n# add 4 four\nedit\t0x1f  of two words\ndelete 5", 2, SA_EDIT_ONE, 31, "of two words" },
		{ "delete 0\r\n", 1, SA_DELETE_ONE, 0, "" },
		{ "add 18446744073709551615 x\n", 1, SA_ADD, UINT64_MAX, "x" },
		{ "add 0XFFFFFFFFFFFFFFFF x\n", 1, SA_ADD, UINT64_MAX, "x" },
		{ "add 1 as many as forty-eight letters and no more of it\n", 1, SA_ADD, 1, longest },
	};

	assert_int_equal(strlen(longest), SA_KEPT_TEXT);
	for (size_t i = 0; i < sizeof(rows) / sizeof(*rows); i++) {
		char kept[SA_KEPT_TEXT + 1] = "";
		uint8_t first[SA_EDIT_BYTES];
		unsigned edits;
		uint32_t line;

		assert_int_equal(read_file(rows[i].text, &edits, &line, first), 0);
		assert_int_equal(edits, rows[i].edits);
		assert_int_equal(first[0], rows[i].what);
		assert_int_equal(wire_get(first, 8, 0, 64), rows[i].id);
		assert_int_equal(wire_get(first, 16, 0, 64), KEY);
		memcpy(kept, first + 24, SA_KEPT_TEXT);
		assert_string_equal(kept, rows[i].kept);
	}
}

/* What is wrong is refused with its line. */
static void other_lines_are_refused(void **state)
{
	static const char *const rows[] = {
		"add 5\n", "delete 5 five\n", "remove 5\n", "additional 5 five\n", "add\n", "add five 5\n",
		"add -5 x\n", "add +5 x\n", "add 010 x\n", "add 5x x\n", "add 0x x\n", "add 18446744073709551616 x\n",
		" # add 5 five\n", "add 5 more than the forty-eight letters that there may be\n",
	};
	char text[100];

	for (size_t i = 0; i < sizeof(rows) / sizeof(*rows); i++) {
		uint8_t first[SA_EDIT_BYTES];
		unsigned edits;
		uint32_t line;

		snprintf(text, sizeof(text), "add 1 one\n\n%sadd 2 two\n", rows[i]);
		if (read_file(text, &edits, &line, first) != -EINVAL || line != 3)
			fail_msg("'%s' is taken, or refused as line %u", rows[i], line);
	}
}

/* Nothing behind the first letters of a line is a line of its own. */
static void lines_end_where_they_end(void **state)
{
	uint8_t first[SA_EDIT_BYTES];
	unsigned edits;
	uint32_t line;

	assert_int_equal(read_file(letters("# ", "add 77 injected\nadd 5 five\n"), &edits, &line, first), 0);
	assert_int_equal(edits, 1);
	assert_int_equal(wire_get(first, 8, 0, 64), 5);
	assert_int_equal(read_file(letters("# ", "add 77 injected\n"), &edits, &line, first), -ENODATA);
	assert_int_equal(read_file(letters("add 1 one\nadd 2 ", "add 77 injected\n"), &edits, &line, first), -EINVAL);
	assert_int_equal(line, 2);
}

static void what_cannot_be_read_is_no_empty_file(void **state)
{
	uint8_t *edits = NULL;
	uint32_t bytes = 0, line;

	assert_int_equal(sa_records_read("/proc/self", KEY, &edits, &bytes, &line), -EISDIR);
	assert_int_equal(bytes, 0);
	free(edits);
}

static void tables_have_names_or_numbers(void **state)
{
	static const struct { const char *name; int attribute; } rows[] = {
		{ "nodes", 0x11 }, { "0x12", 0x12 }, { "17", 17 }, { "65535", 65535 },
		{ "65536", -1 }, { "-1", -1 }, { "022", -1 }, { "", -1 }, { "node", -1 },
	};

	for (size_t i = 0; i < sizeof(rows) / sizeof(*rows); i++) {
		uint16_t attribute = 0;

		assert_int_equal(sa_records_find(rows[i].name, &attribute), rows[i].attribute >= 0);
		if (rows[i].attribute >= 0)
			assert_int_equal(attribute, rows[i].attribute);
	}
}

/* The answer of `gettable kept` with one record, as JSON. */
static json_t *show_kept(uint64_t id, uint64_t key)
{
	uint8_t record[SA_KEPT_BYTES] = { 0 };
	const struct sa_client_question q = { .class_version = SERIES_CLASS_VERSION, .method = TXN_GET_TABLE,
					      .attribute = SA_KEPT_ATTRIBUTE };
	const struct sa_client_answer a = { .data = record, .bytes = sizeof(record) };
	FILE *real = stdout;
	size_t bytes = 0;
	char *text = NULL;
	json_t *all;

	wire_put(record, id, 0, 0, 64);
	wire_put(record, key, 8, 0, 64);
	stdout = open_memstream(&text, &bytes);
	assert_int_equal(sa_records_show(&q, &a, true), EXIT_OK);
	fclose(stdout);
	stdout = real;
	all = json_loadb(text, bytes, 0, NULL);
	free(text);
	assert_non_null(all);
	return all;
}

/* Jansson's integers have a sign. */
static void large_numbers_are_no_negative_ones(void **state)
{
	json_t *all = show_kept(INT64_MAX, UINT64_MAX), *record = json_array_get(json_object_get(all, "records"), 0);

	assert_int_equal(json_integer_value(json_object_get(record, "id")), INT64_MAX);
	assert_true(json_is_string(json_object_get(record, "key")));
	assert_string_equal(json_string_value(json_object_get(record, "key")), "18446744073709551615");
	json_decref(all);
	all = show_kept(1ull << 63, 0);
	record = json_array_get(json_object_get(all, "records"), 0);
	assert_true(json_is_string(json_object_get(record, "id")));
	assert_string_equal(json_string_value(json_object_get(record, "id")), "9223372036854775808");
	assert_int_equal(json_integer_value(json_object_get(record, "key")), 0);
	json_decref(all);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(edits_are_what_lines_say),
		cmocka_unit_test(other_lines_are_refused),
		cmocka_unit_test(lines_end_where_they_end),
		cmocka_unit_test(what_cannot_be_read_is_no_empty_file),
		cmocka_unit_test(tables_have_names_or_numbers),
		cmocka_unit_test(large_numbers_are_no_negative_ones),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
