/* Digits, words and quotes. */
#include "fabric/scan.h"

#include <string.h>

static bool is_blank(char c)
{
	return c == ' ' || c == '\t';
}

static bool is_letter(char c)
{
	return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
}

/* 36 when it is no digit of any base. */
static unsigned digit(char c)
{
	if (c >= '0' && c <= '9')
		return (unsigned)(c - '0');
	if (c >= 'a' && c <= 'z')
		return (unsigned)(c - 'a') + 10;
	if (c >= 'A' && c <= 'Z')
		return (unsigned)(c - 'A') + 10;
	return 36;
}

bool scan_line(struct scan *text, struct scan *line)
{
	const char *end;

	if (text->at == text->end)
		return false;
	end = memchr(text->at, '\n', (size_t)(text->end - text->at));
	*line = (struct scan){ text->at, end ? end : text->end };
	text->at = end ? end + 1 : text->end;
	if (line->end > line->at && line->end[-1] == '\r')
		line->end--;
	return true;
}

void scan_blanks(struct scan *s)
{
	while (s->at < s->end && is_blank(*s->at))
		s->at++;
}

bool scan_ends(const struct scan *s)
{
	return s->at == s->end;
}

bool scan_char(struct scan *s, char c)
{
	if (scan_ends(s) || *s->at != c)
		return false;
	s->at++;
	return true;
}

bool scan_number(struct scan *s, unsigned base, uint64_t most, uint64_t *value)
{
	const char *at = s->at;
	uint64_t v = 0;

	for (; at < s->end && digit(*at) < base; at++) {
		unsigned d = digit(*at);

		if (d > most || v > (most - d) / base)
			return false;
		v = v * base + d;
	}
	if (at == s->at)
		return false;
	s->at = at;
	*value = v;
	return true;
}

bool scan_value(struct scan *s, uint64_t most, uint64_t *value)
{
	struct scan hex = *s;

	if (!scan_char(&hex, '0') || (!scan_char(&hex, 'x') && !scan_char(&hex, 'X')))
		return scan_number(s, 10, most, value);
	if (!scan_number(&hex, 16, most, value))
		return false;
	*s = hex;
	return true;
}

bool scan_quoted(struct scan *s, struct word *inside)
{
	struct scan in = *s;
	const char *end;

	if (!scan_char(&in, '"'))
		return false;
	end = memchr(in.at, '"', (size_t)(in.end - in.at));
	if (!end)
		return false;
	*inside = (struct word){ in.at, (size_t)(end - in.at) };
	s->at = end + 1;
	return true;
}

bool scan_name(struct scan *s, struct word *name)
{
	const char *at = s->at;

	if (at == s->end || !is_letter(*at))
		return false;
	while (at < s->end && (is_letter(*at) || digit(*at) < 10))
		at++;
	*name = (struct word){ s->at, (size_t)(at - s->at) };
	s->at = at;
	return true;
}

bool word_is(struct word w, const char *text)
{
	return strlen(text) == w.length && !memcmp(w.at, text, w.length);
}
