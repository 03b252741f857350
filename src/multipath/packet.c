#include "multipath/packet.h"

#include "base/crc.h"
#include "wire/field.h"

#include <string.h>

struct opcode_row {
	bool is_known, may_be_unordered;
	uint32_t payload, answer;
};

static const struct opcode_row opcodes[] = {
#define ROW(value, name, unordered, payload, answer) [value] = { true, unordered, payload, answer },
	MP_OPCODES(ROW)
#undef ROW
};

enum { OPCODES = sizeof(opcodes) / sizeof(opcodes[0]) };

bool mp_opcode_is_known(unsigned opcode)
{
	return opcode < OPCODES && opcodes[opcode].is_known;
}

bool mp_opcode_may_be_unordered(unsigned opcode)
{
	return mp_opcode_is_known(opcode) && opcodes[opcode].may_be_unordered;
}

uint32_t mp_answer_bytes(unsigned opcode, uint32_t length)
{
	uint32_t answer = mp_opcode_is_known(opcode) ? opcodes[opcode].answer : 0;

	return answer == MP_LENGTH ? length : answer;
}

/* MPT-04, MPT-23; the payload is as long as its opcode says. */
static bool request_makes_sense(const struct mp_packet *p)
{
	uint32_t payload;

	if (!mp_opcode_is_known(p->code) || p->length > MP_MTU_MOST)
		return false;
	if (p->order != MP_ORDERED && !(p->order == MP_UNORDERED && opcodes[p->code].may_be_unordered))
		return false;
	if (p->trailer && (!p->last || p->order != MP_ORDERED || p->trailer >= MP_TRAILERS))
		return false;
	if (p->trailer && p->code != MP_SEND && (p->code != MP_WRITE || p->trailer != MP_IMMEDIATE))
		return false;
	if (p->length > p->total)
		return false;
	payload = opcodes[p->code].payload;
	if (payload == MP_LENGTH)
		payload = p->length;
	return p->payload_bytes == payload;
}

static bool makes_sense(const struct mp_packet *p)
{
	switch (p->type) {
	case MP_REQ:
		return request_makes_sense(p);
	case MP_RSP:
		return p->code == MP_OK;
	case MP_NAK:
		return p->code >= MP_NAK_SEQUENCE && p->code <= MP_NAK_FAILED && !p->payload_bytes;
	case MP_PATH_DOWN:
	case MP_PATH_DOWN_RSP:
		return p->epoch % 2 == 1 && !p->payload_bytes;
	case MP_PATH_UP:
	case MP_PATH_UP_RSP:
		return p->epoch % 2 == 0 && !p->payload_bytes;
	case MP_BARRIER:
	case MP_BARRIER_RSP:
		return !p->payload_bytes;
	default:
		return false;
	}
}

bool mp_packet_parse(struct mp_packet *p, const uint8_t *bytes, size_t size)
{
	struct mp_packet taken = { 0 };

	if (size < MP_HEADER + MP_CRC || size > MP_HEADER + MP_MTU_MOST + MP_CRC)
		return false;
	if (crc_ieee(0, bytes, size - MP_CRC) != wire_get(bytes + size - MP_CRC, 0, 0, 32))
		return false;
#define GET(type, member, ...) taken.member = (type)wire_get(bytes, __VA_ARGS__);
	MP_FIELDS(GET)
#undef GET
	if (taken.version != MP_VERSION || wire_get(bytes, 2, 6, 2) || wire_get(bytes, 16, 0, 8))
		return false;
	taken.payload_bytes = (uint32_t)(size - MP_HEADER - MP_CRC);
	taken.payload = bytes + MP_HEADER;
	if (!makes_sense(&taken))
		return false;
	*p = taken;
	return true;
}

size_t mp_packet_build(const struct mp_packet *p, uint8_t *out)
{
	size_t size = MP_HEADER + p->payload_bytes;

	memset(out, 0, MP_HEADER);
#define PUT(type, member, ...) wire_put(out, p->member, __VA_ARGS__);
	MP_FIELDS(PUT)
#undef PUT
	if (p->payload_bytes && p->payload != out + MP_HEADER)
		memcpy(out + MP_HEADER, p->payload, p->payload_bytes);
	wire_put(out + size, crc_ieee(0, out, size), 0, 0, 32);
	return size + MP_CRC;
}
