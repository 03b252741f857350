/* One flat JSON object (RFC 8259), written member by member into memory that the caller has. In the process of a program, whose
 * own functions may have the names of any library: what is called here is libc's. Blocks never. */
#ifndef WEFT_RUNTIME_JSON_ROW_H
#define WEFT_RUNTIME_JSON_ROW_H

#include <stddef.h>
#include <stdint.h>

struct json_row {
	char *text;		/* borrowed */
	size_t room, bytes;	/* bytes counts also what had no room */
};

/* Begins the object at text, which has so many bytes. */
void json_row_begin(struct json_row *r, char *text, size_t room);
/* Adds a member. Names and values are ASCII or UTF-8; numbers from 2^63 on are shown as negative, which jansson can read. */
void json_row_string(struct json_row *r, const char *name, const char *value);
void json_row_number(struct json_row *r, const char *name, uint64_t value);
/* The object's length in bytes, or 0 when it has no room: what is at text is of no use then. No zero byte follows it. */
size_t json_row_end(struct json_row *r);

#endif
