/* A cursor over one line of text that is not ended by a NUL. */
#ifndef WEFT_FABRIC_SCAN_H
#define WEFT_FABRIC_SCAN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct scan {
	const char *at, *end;
};

/* A part of the text; borrowed. */
struct word {
	const char *at;
	size_t length;
};

/* The next line without its end, a CR before it included; false behind the last one. */
bool scan_line(struct scan *text, struct scan *line);

void scan_blanks(struct scan *s);
bool scan_ends(const struct scan *s);

/* Each takes what it names from the front, or nothing and is false. */
bool scan_char(struct scan *s, char c);
bool scan_number(struct scan *s, unsigned base, uint64_t most, uint64_t *value);	/* digits */
bool scan_value(struct scan *s, uint64_t most, uint64_t *value);	/* digits, or 0x and hexadecimal digits */
bool scan_quoted(struct scan *s, struct word *inside);
bool scan_name(struct scan *s, struct word *name);		/* letters and digits, a letter first */

bool word_is(struct word w, const char *text);

#endif
