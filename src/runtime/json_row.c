/* RFC 8259, section 7: what a string must escape are quotation mark, backslash and control characters. */
#include "runtime/json_row.h"

#include <inttypes.h>
#include <stdio.h>

static void put(struct json_row *r, char c)
{
	if (r->bytes < r->room)
		r->text[r->bytes] = c;
	r->bytes++;
}

static void put_text(struct json_row *r, const char *text)
{
	for (; *text; text++)
		put(r, *text);
}

static void put_quoted(struct json_row *r, const char *text)
{
	static const char digits[] = "0123456789abcdef";

	put(r, '"');
	for (; *text; text++) {
		unsigned char c = (unsigned char)*text;

		if (c == '"' || c == '\\')
			put(r, '\\');
		if (c >= ' ') {
			put(r, (char)c);
			continue;
		}
		put_text(r, "\\u00");
		put(r, digits[c >> 4]);
		put(r, digits[c & 15]);
	}
	put(r, '"');
}

static void put_name(struct json_row *r, const char *name)
{
	if (r->bytes > 1)
		put(r, ',');
	put_quoted(r, name);
	put(r, ':');
}

void json_row_begin(struct json_row *r, char *text, size_t room)
{
	*r = (struct json_row){ .text = text, .room = room };
	put(r, '{');
}

void json_row_string(struct json_row *r, const char *name, const char *value)
{
	put_name(r, name);
	put_quoted(r, value);
}

void json_row_number(struct json_row *r, const char *name, uint64_t value)
{
	char digits[24];

	snprintf(digits, sizeof(digits), "%" PRId64, (int64_t)value);
	put_name(r, name);
	put_text(r, digits);
}

size_t json_row_end(struct json_row *r)
{
	put(r, '}');
	return r->bytes <= r->room ? r->bytes : 0;
}
