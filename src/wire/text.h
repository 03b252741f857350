/* A line of text that grows into a buffer of fixed size, with snprintf's rule: what does not fit is counted, not written. */
#ifndef WEFT_WIRE_TEXT_H
#define WEFT_WIRE_TEXT_H

#include <stddef.h>
#include <stdint.h>

struct text {
	char *buffer;		/* borrowed; always ends with a NUL when room > 0 */
	size_t room;
	size_t length;		/* of the whole text */
};

void text_add(struct text *t, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* " name=0x1f", or nothing when the value is 0. */
void text_field(struct text *t, const char *name, uint64_t value);

/* An IPv4 address, 4 bytes, or an IPv6 address or GID, 16 bytes. */
void text_ipv4(struct text *t, const uint8_t *address);
void text_gid(struct text *t, const uint8_t *gid);

/* " name=hex", or nothing when all bytes are 0. */
void text_bytes(struct text *t, const char *name, const uint8_t *data, size_t bytes);

#endif
