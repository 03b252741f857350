/* The common MAD header, both ways. */
#include "wire/mad.h"

#include "wire/field.h"

enum { DIRECTION = 0x8000 };	/* the D bit of a directed-route SMP (IBA 14.2.1.2) */

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

void mad_respond(uint8_t mad[MAD_BYTES], enum mad_status status)
{
	struct mad_header h;

	mad_header_parse(&h, mad);
	h.method = MAD_GET_RESP;
	h.status = (uint16_t)(h.mgmt_class == MAD_CLASS_SUBN_DIRECTED ? status | DIRECTION : status);
	mad_header_build(&h, mad);
}
