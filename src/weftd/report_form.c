/* No recursion: nothing nests deeper than an object in an array. Numbers are integers that 64 bits hold, as whoever reads them
 * next takes nothing else. */
#include "weftd/report_form.h"

#include <string.h>

struct cursor {
	const char *at, *end;
};

static void skip_space(struct cursor *c)
{
	while (c->at < c->end && (*c->at == ' ' || *c->at == '\n'))
		c->at++;
}

/* The character, with space around it. */
static bool take(struct cursor *c, char what)
{
	skip_space(c);
	if (c->at == c->end || *c->at != what)
		return false;
	c->at++;
	skip_space(c);
	return true;
}

static bool take_string(struct cursor *c, size_t most)
{
	const char *start;

	if (c->at == c->end || *c->at++ != '"')
		return false;
	start = c->at;
	while (c->at < c->end && *c->at >= 0x20 && *c->at <= 0x7e && *c->at != '"' && *c->at != '\\')
		c->at++;
	if (c->at == c->end || *c->at != '"' || (size_t)(c->at - start) > most)
		return false;
	c->at++;
	return true;
}

static bool take_integer(struct cursor *c)
{
	static const char most[] = "9223372036854775807";
	const char *start;
	size_t digits;

	c->at += c->at < c->end && *c->at == '-';
	start = c->at;
	while (c->at < c->end && *c->at >= '0' && *c->at <= '9')
		c->at++;
	digits = (size_t)(c->at - start);
	if (digits == 0 || (digits > 1 && *start == '0'))
		return false;
	return digits < sizeof(most) - 1 || (digits == sizeof(most) - 1 && memcmp(start, most, digits) <= 0);
}

static bool take_word(struct cursor *c, const char *word)
{
	size_t bytes = strlen(word);

	if ((size_t)(c->end - c->at) < bytes || memcmp(c->at, word, bytes) != 0)
		return false;
	c->at += bytes;
	return true;
}

static bool take_value(struct cursor *c)
{
	if (c->at < c->end && *c->at == '"')
		return take_string(c, REPORT_FORM_STRING);
	return take_word(c, "true") || take_word(c, "false") || take_integer(c);
}

static bool take_object(struct cursor *c)
{
	unsigned members = 0;

	if (!take(c, '{'))
		return false;
	if (take(c, '}'))
		return true;
	do {
		if (members++ == REPORT_FORM_MEMBERS || !take_string(c, REPORT_FORM_NAME) || !take(c, ':') || !take_value(c))
			return false;
	} while (take(c, ','));
	return take(c, '}');
}

static bool take_array(struct cursor *c, struct report_form *flat)
{
	if (!take(c, '['))
		return false;
	flat->is_array = true;
	flat->inner = c->at;
	if (take(c, ']'))
		return true;
	do {
		if (!take_object(c))
			return false;
		flat->rows++;
		flat->inner_bytes = (size_t)(c->at - flat->inner);
	} while (take(c, ','));
	return take(c, ']');
}

bool report_form_parse(const char *text, size_t bytes, struct report_form *flat)
{
	struct cursor c = { text, text + bytes };

	*flat = (struct report_form){ 0 };
	skip_space(&c);
	if (!(c.at < c.end && *c.at == '{' ? take_object(&c) : take_array(&c, flat)))
		return false;
	return c.at == c.end;
}
