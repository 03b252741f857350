/* The shape that a report must have (RFC 8259): an array of flat objects, or one of them, of plain ASCII without escapes. What a
 * process says of itself is shown on the terminals of others, root's among them, and must cost little to look at. */
#ifndef WEFT_WEFTD_REPORT_FORM_H
#define WEFT_WEFTD_REPORT_FORM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Our choices: twice what the largest report of weft's own has. */
enum { REPORT_FORM_MEMBERS = 128, REPORT_FORM_NAME = 48, REPORT_FORM_STRING = 128 };

struct report_form {
	bool is_array;
	uint32_t rows;		/* objects of the array */
	const char *inner;	/* what is between its brackets; borrowed from the text */
	size_t inner_bytes;
};

/* Looks at each byte once. False: it is not of that shape. */
bool report_form_parse(const char *text, size_t bytes, struct report_form *flat);

#endif
