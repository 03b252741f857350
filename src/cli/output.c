/* Columns are as wide as their widest cell; numbers go to the right. */
#include "cli/output.h"

#include "cli/cli.h"

#include <stdio.h>
#include <string.h>

enum { CELL = 64, COLUMNS = 16 };

int output_json(json_t *json)
{
	int err = json ? json_dumpf(json, stdout, JSON_INDENT(2)) : -1;

	json_decref(json);
	putchar('\n');
	return err || fflush(stdout) ? cli_fail(NULL, "the answer cannot be written") : EXIT_OK;
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

static void print_cell(const json_t *value, char cell[CELL])
{
	if (json_is_string(value))
		snprintf(cell, CELL, "%s", json_string_value(value));
	else if (json_is_integer(value))
		snprintf(cell, CELL, "%lld", (long long)json_integer_value(value));
	else
		snprintf(cell, CELL, "-");
}

static void measure(const json_t *rows, const struct output_column *columns, int width[COLUMNS])
{
	const json_t *row;
	char cell[CELL];
	size_t i;

	for (int c = 0; columns[c].member; c++)
		width[c] = (int)strlen(columns[c].title);
	json_array_foreach(rows, i, row) {
		for (int c = 0; columns[c].member; c++) {
			print_cell(json_object_get(row, columns[c].member), cell);
			if ((int)strlen(cell) > width[c])
				width[c] = (int)strlen(cell);
		}
	}
}

void output_table(const json_t *rows, const struct output_column *columns)
{
	int width[COLUMNS];
	const json_t *row;
	char cell[CELL];
	size_t i;

	if (!json_array_size(rows))
		return;
	measure(rows, columns, width);
	for (int c = 0; columns[c].member; c++)
		printf("%-*s%s", width[c], columns[c].title, columns[c + 1].member ? "  " : "\n");
	json_array_foreach(rows, i, row) {
		for (int c = 0; columns[c].member; c++) {
			const json_t *value = json_object_get(row, columns[c].member);

			print_cell(value, cell);
			printf("%*s%s", json_is_integer(value) ? width[c] : -width[c], cell, columns[c + 1].member ? "  " : "\n");
		}
	}
}
