/* Printing JSON: as it is, or as a table with a column for each member. */
#ifndef WEFT_CLI_OUTPUT_H
#define WEFT_CLI_OUTPUT_H

#include <jansson.h>

struct output_column {
	const char *member, *title;	/* the last column's member is NULL */
};

/* Prints and releases it. Returns EXIT_OK, or EXIT_FAILED when the standard output cannot be written. */
int output_json(json_t *json);

/* An array of objects as a table; a member that is missing is shown as "-". Nothing for an empty array. */
void output_table(const json_t *rows, const struct output_column *columns);

/* A member's text or number; "" or 0 when there is none. */
const char *output_text(const json_t *object, const char *member);
long long output_number(const json_t *object, const char *member);

#endif
