/* What weftd takes for a report, and what it does not, in whatever bytes it comes. */
#include "weftd/report_form.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <jansson.h>

#include <cmocka.h>

static bool parse(const char *text, struct report_form *f)
{
	return report_form_parse(text, strlen(text), f);
}

static void reports_are_taken(void **state)
{
	static const struct {
		const char *text;
		uint32_t rows;
		const char *inner;
	} rows[] = {
		{ "[]", 0, "" }, { " [ ] ", 0, "" }, { "[{}]", 1, "{}" },
		{ "[{\"a\":1},{\"b\":\"x y\"}]", 2, "{\"a\":1},{\"b\":\"x y\"}" },
		{ "[ {\"a\" : -1} , {\"b\":true,\"c\":false} ]", 2, NULL }, { "[{\"a\":9223372036854775807}]", 1, NULL },
		{ "[{\"a\":0}]", 1, NULL },
	};
	struct report_form f;

	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		assert_true(parse(rows[i].text, &f));
		assert_true(f.is_array);
		assert_int_equal(f.rows, rows[i].rows);
		if (rows[i].inner) {
			assert_int_equal(f.inner_bytes, strlen(rows[i].inner));
			assert_memory_equal(f.inner, rows[i].inner, f.inner_bytes);
		}
	}
	assert_true(parse("{\"sent\":7}", &f));
	assert_false(f.is_array);
	assert_true(parse("{}", &f));
	(void)state;
}

static void what_would_reach_a_terminal_or_cost_much_is_not(void **state)
{
	static const char *const texts[] = {
		"", " ", "[", "]", "{", "[{]", "[{}", "[{},]", "[,{}]", "[1]", "[\"a\"]", "[[]]",
		"[[[[[[[[", "[{\"a\":[]}]", "[{\"a\":{}}]",
		"[{\"a\":null}]", "[{\"a\":1.5}]", "[{\"a\":1e9}]", "[{\"a\":01}]",
		"[{\"a\":-}]", "[{\"a\":9223372036854775808}]",
		"[{\"a\":99999999999999999999}]", "[{\"a\":\"\x1b]0;x\x07\"}]",
		"[{\"a\":\"\\u001b[2J\"}]", "[{\"a\":\"\\n\"}]",
		"[{\"a\":\"\xc2\x9b\"}]", "[{\"a\":\"\xff\xfe\"}]", "[{\"a\":\"\x7f\"}]",
		"[{\"\\u001b\":1}]", "[{\"a\" 1}]", "[{a:1}]",
		"[{\"a\":1}] x", "[{\"a\":1}][]", "{}{}", "[{\"a\":1]", "[{\"a\":tru}]", "[{\"a\":\"x]",
		"\"a\"", "7", "[{\"a\":1,}]",
		"[{\"0123456789012345678901234567890123456789012345678\":1}]",
	};
	static char deep[4096], text[64 + REPORT_FORM_STRING], many[4096];
	struct report_form f;
	size_t at;

	for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++)
		assert_false(parse(texts[i], &f));
	memset(deep, '[', sizeof(deep));
	assert_false(report_form_parse(deep, sizeof(deep), &f));
	at = (size_t)sprintf(text, "[{\"a\":\"");
	memset(text + at, 'x', REPORT_FORM_STRING);
	strcpy(text + at + REPORT_FORM_STRING, "\"}]");
	assert_true(parse(text, &f));
	strcpy(text + at + REPORT_FORM_STRING, "x\"}]");
	assert_false(parse(text, &f));
	at = (size_t)sprintf(many, "{\"a\":1");
	for (int i = 1; i < REPORT_FORM_MEMBERS; i++)
		at += (size_t)sprintf(many + at, ",\"a\":1");
	strcpy(many + at, "}");
	assert_true(parse(many, &f));
	strcpy(many + at, ",\"a\":1}");
	assert_false(parse(many, &f));
	(void)state;
}

/* Whatever is taken can be read by who gets it. */
static void what_is_taken_is_json(void **state)
{
	static const char alphabet[] = "[]{}\",:: -0123456789abtrue false\\\x1b\x80";
	static const char seed[] = "[{\"a\":1,\"b\":\"x\"},{\"c\":-20,\"d\":true}]";
	int taken = 0;

	srand(11);
	for (int i = 0; i < 200000; i++) {
		char text[sizeof(seed)];
		struct report_form f;

		memcpy(text, seed, sizeof(seed));
		for (int k = rand() % 4; k > 0; k--)
			text[(size_t)rand() % (sizeof(seed) - 1)] = alphabet[(size_t)rand() % (sizeof(alphabet) - 1)];
		if (parse(text, &f)) {
			json_t *json = json_loads(text, 0, NULL);

			assert_non_null(json);
			assert_int_equal(json_is_array(json) ? json_array_size(json) : 0, f.rows);
			json_decref(json);
			taken++;
		}
	}
	assert_true(taken > 1000);
	(void)state;
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(reports_are_taken),
		cmocka_unit_test(what_would_reach_a_terminal_or_cost_much_is_not),
		cmocka_unit_test(what_is_taken_is_json),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
