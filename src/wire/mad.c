/* The common MAD header, both ways. */
#include "wire/mad.h"

#include "wire/field.h"

void mad_header_parse(struct mad_header *h, const uint8_t mad[MAD_BYTES])
{
#define GET(type, member, ...) h->member = (type)wire_get(mad, __VA_ARGS__);
	MAD_HEADER_FIELDS(GET)
}

void mad_header_build(const struct mad_header *h, uint8_t mad[MAD_BYTES])
{
	memset(mad, 0, MAD_HEADER_BYTES);
#define PUT(type, member, ...) wire_put(mad, h->member, __VA_ARGS__);
	MAD_HEADER_FIELDS(PUT)
}
