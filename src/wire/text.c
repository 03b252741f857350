/* Fields as text: what every dump of this room is made of. */
#include "wire/text.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>

void text_add(struct text *t, const char *format, ...)
{
	size_t at = t->length < t->room ? t->length : t->room;
	va_list args;
	int n;

	va_start(args, format);
	n = vsnprintf(at < t->room ? t->buffer + at : NULL, t->room - at, format, args);
	va_end(args);
	if (n > 0)
		t->length += (size_t)n;
}

void text_field(struct text *t, const char *name, uint64_t value)
{
	if (value)
		text_add(t, " %s=0x%" PRIx64, name, value);
}

void text_ipv4(struct text *t, const uint8_t *address)
{
	text_add(t, "%u.%u.%u.%u", address[0], address[1], address[2], address[3]);
}

/* In full, without the :: of RFC 5952: lines stay comparable column by column. */
void text_gid(struct text *t, const uint8_t *gid)
{
	for (unsigned i = 0; i < 16; i += 2)
		text_add(t, "%s%x", i ? ":" : "", gid[i] << 8 | gid[i + 1]);
}

void text_bytes(struct text *t, const char *name, const uint8_t *data, size_t bytes)
{
	bool zero = true;

	for (size_t i = 0; i < bytes; i++)
		zero &= !data[i];
	if (zero)
		return;
	text_add(t, " %s=", name);
	for (size_t i = 0; i < bytes; i++)
		text_add(t, "%02x", data[i]);
}
