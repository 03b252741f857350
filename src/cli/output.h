/* Printing JSON: as it is, or as a table with a column for each member. */
#ifndef WEFT_CLI_OUTPUT_H
#define WEFT_CLI_OUTPUT_H

#include <jansson.h>

struct output_column {
	const char *member, *title;	/* the last column's member is NULL */
};

/* Of all objects that are printed: it grows by one when a member goes, or gets another meaning or type. New members may come at
 * any time. */
enum { OUTPUT_SCHEMA = 1 };

/* Prints the object, with "schema" as its first member, and releases it. Returns EXIT_OK, or EXIT_FAILED
 * when there is none: its maker had no memory. */
int output_json(json_t *json);

/* An array of objects as a table; a member that is missing is shown as "-". Nothing for an empty array. */
void output_table(const json_t *rows, const struct output_column *columns);

/* Text of others, as a terminal may show it: what is no printable ASCII is escaped, what does not fit is cut. Returns `to`. */
const char *output_plain(const char *text, char *to, size_t room);

/* A member's text or number; "" or 0 when there is none. */
const char *output_text(const json_t *object, const char *member);
long long output_number(const json_t *object, const char *member);

#endif
