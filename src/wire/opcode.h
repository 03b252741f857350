/* The opcode table (IBA 9.2.1, table 38; XRC annex A14; atomic write and flush IBA 1.5): one row of opcode.def serves
 * parsing, building, sequencing and printing. */
#ifndef WEFT_WIRE_OPCODE_H
#define WEFT_WIRE_OPCODE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum opcode_service {
	SERVICE_RC = 0x00, SERVICE_UC = 0x20, SERVICE_RD = 0x40, SERVICE_UD = 0x60, SERVICE_CNP = 0x80, SERVICE_XRC = 0xa0,
	SERVICE_MAKER = 0xc0,	/* 9.2.1: 0xc0 to 0xff are for manufacturers */
};

enum opcode_op {
	OP_SEND, OP_WRITE, OP_READ_REQUEST, OP_READ_RESPONSE, OP_ACK, OP_ATOMIC_ACK, OP_CMP_SWAP, OP_FETCH_ADD,
	OP_FLUSH, OP_ATOMIC_WRITE, OP_CNP, OP_SELECTIVE_ACK, OP_PATH_PROBE, OP_PATH_ANSWER,
	OP_MULTIPATH,
};

enum opcode_position { POS_FIRST, POS_MIDDLE, POS_LAST, POS_ONLY };

enum opcode_header {
	HDR_RETH = 1 << 0, HDR_DETH = 1 << 1, HDR_ATOMICETH = 1 << 2, HDR_AETH = 1 << 3, HDR_ATOMICACKETH = 1 << 4,
	HDR_IMM = 1 << 5, HDR_IETH = 1 << 6, HDR_XRCETH = 1 << 7, HDR_FETH = 1 << 8,
	HDR_PAYLOAD = 1 << 9,	/* a payload is allowed */
	HDR_HELDETH = 1 << 10,
};

/* OPCODE_RC_SEND_FIRST ... */
enum opcode_code {
#define OPCODE(code, name, op, position, headers) OPCODE_##name = code,
#include "wire/opcode.def"
#undef OPCODE
};

struct opcode_row {
	const char *name;	/* "RC_RDMA_WRITE_FIRST"; NULL in an unused row */
	uint8_t code;
	enum opcode_service service;
	enum opcode_op op;
	enum opcode_position position;
	uint16_t headers;	/* enum opcode_header */
	uint8_t header_bytes;	/* of the extended headers, derived */
	bool is_response;	/* travels from responder to requester */
	uint16_t payload_min, payload_max;	/* bytes that any path MTU allows; packet_parse lets no other through */
};

extern const struct opcode_row opcode_rows[256];

/* NULL when the code has no row. */
static inline const struct opcode_row *opcode_row(uint8_t code)
{
	return opcode_rows[code].name ? &opcode_rows[code] : NULL;
}

enum { OPCODE_OPS = OP_MULTIPATH + 1, OPCODE_POSITIONS = POS_ONLY + 1, OPCODE_VARIANTS = 3 };

/* Plain, with immediate data, with a key to invalidate. */
#define OPCODE_VARIANT(headers) ((headers) & HDR_IMM ? 1 : (headers) & HDR_IETH ? 2 : 0)

/* The code plus one; 0 where there is none. */
extern const uint16_t opcode_codes[8][OPCODE_OPS][OPCODE_POSITIONS][OPCODE_VARIANTS];

/* The code of (service, op, position, HDR_IMM or HDR_IETH or 0), or -1. */
static inline int opcode_find(enum opcode_service service, enum opcode_op op, enum opcode_position position, unsigned imm_or_ieth)
{
	return opcode_codes[service >> 5][op][position][OPCODE_VARIANT(imm_or_ieth)] - 1;
}

#endif
