/* Columns are as wide as their widest cell; numbers go to the right. What is no printable ASCII is escaped, as the text may be
 * another user's, and the output a terminal. */
#include "cli/output.h"

#include "cli/cli.h"

#include <stdbool.h>
#include <stdio.h>
#include <string.h>

enum { CELL = 64, LAST_CELL = 400, COLUMNS = 20 };	/* bytes; our choice: the last cell of a line pushes none aside */

int output_json(json_t *json)
{
	json_t *all = json ? json_pack("{s:i}", "schema", OUTPUT_SCHEMA) : NULL;

	if (!all || json_object_update_missing(all, json)) {
		json_decref(all);
		json_decref(json);
		return cli_fail("end programs that take much memory", "there is no memory for the answer");
	}
	/* what cannot be written is found in the end, see main.c */
	(void)json_dumpf(all, stdout, JSON_INDENT(2) | JSON_ENSURE_ASCII);
	putchar('\n');
	json_decref(all);
	json_decref(json);
	return EXIT_OK;
}

const char *output_text(const json_t *object, const char *member)
{
	const char *text = json_string_value(json_object_get(object, member));

	return text ? text : "";
}

long long output_number(const json_t *object, const char *member)
{
	return json_integer_value(json_object_get(object, member));
}

const char *output_plain(const char *text, char *to, size_t room)
{
	size_t at = 0;

	for (; *text && at + sizeof("\\xff") <= room; text++) {
		unsigned char c = (unsigned char)*text;

		at += (size_t)snprintf(to + at, room - at, c >= 0x20 && c <= 0x7e ? "%c" : "\\x%02x", c);
	}
	to[at] = '\0';
	return to;
}

static void print_cell(const json_t *value, bool is_last, char cell[LAST_CELL])
{
	size_t room = is_last ? LAST_CELL : CELL;

	if (json_is_string(value))
		output_plain(json_string_value(value), cell, room);
	else if (json_is_integer(value))
		snprintf(cell, room, "%lld", (long long)json_integer_value(value));
	else
		snprintf(cell, room, "-");
}

static void measure(const json_t *rows, const struct output_column *columns, int width[COLUMNS])
{
	const json_t *row;
	char cell[LAST_CELL];
	size_t i;

	for (int c = 0; columns[c].member; c++)
		width[c] = (int)strlen(columns[c].title);
	json_array_foreach(rows, i, row) {
		for (int c = 0; columns[c].member; c++) {
			print_cell(json_object_get(row, columns[c].member), !columns[c + 1].member, cell);
			if ((int)strlen(cell) > width[c])
				width[c] = (int)strlen(cell);
		}
	}
}

/* The last of a line has no blanks behind it. */
static void print_padded(const char *text, int width, bool is_last)
{
	printf("%*s%s", is_last && width < 0 ? 0 : width, text, is_last ? "\n" : "  ");
}

void output_table(const json_t *rows, const struct output_column *columns)
{
	int width[COLUMNS];
	const json_t *row;
	char cell[LAST_CELL];
	size_t i;

	if (!json_array_size(rows))
		return;
	measure(rows, columns, width);
	for (int c = 0; columns[c].member; c++)
		print_padded(columns[c].title, -width[c], !columns[c + 1].member);
	json_array_foreach(rows, i, row) {
		for (int c = 0; columns[c].member; c++) {
			const json_t *value = json_object_get(row, columns[c].member);

			print_cell(value, !columns[c + 1].member, cell);
			print_padded(cell, json_is_integer(value) ? width[c] : -width[c], !columns[c + 1].member);
		}
	}
}
