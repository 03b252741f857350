/* Both directions of the opcode table, made from opcode.def by the compiler. */
#include "wire/opcode.h"

#include "wire/header.h"
#include "wire/packet.h"

#define IS_RESPONSE(op)										\
	((op) == OP_READ_RESPONSE || (op) == OP_ACK || (op) == OP_ATOMIC_ACK || (op) == OP_SELECTIVE_ACK ||	\
	 (op) == OP_PATH_ANSWER)
#define ADD_BYTES(headers, bit, bytes, fields) +((headers) & (bit) ? (bytes) : 0)

/* ATOMIC WRITE carries exactly 8 bytes (IBA 1.5, 9.4), a CNP 16 reserved ones (A17.9). */
#define EXACT_PAYLOAD(op)									\
	((op) == OP_ATOMIC_WRITE ? 8 : (op) == OP_CNP ? 16 :					\
	 (op) == OP_PATH_PROBE || (op) == OP_PATH_ANSWER ? PATH_PROBE_BYTES : 0)
#define MAX_PAYLOAD(op, headers) (EXACT_PAYLOAD(op) ? EXACT_PAYLOAD(op) : (headers) & HDR_PAYLOAD ? PACKET_MAX_PAYLOAD : 0)

const struct opcode_row opcode_rows[256] = {
#define OPCODE(code_, name_, op_, position_, headers_)						\
	[code_] = {										\
		.name = #name_, .code = code_, .service = (code_) & 0xe0, .op = op_, .position = position_, \
		.headers = headers_, .header_bytes = 0 EXTENDED_HEADERS(ADD_BYTES, headers_),	\
		.is_response = IS_RESPONSE(op_),						\
		.payload_min = EXACT_PAYLOAD(op_), .payload_max = MAX_PAYLOAD(op_, headers_),	\
	},
#include "wire/opcode.def"
#undef OPCODE
};

const uint16_t opcode_codes[8][OPCODE_OPS][OPCODE_POSITIONS][OPCODE_VARIANTS] = {
#define OPCODE(code, name, op, position, headers) [(code) >> 5][op][position][OPCODE_VARIANT(headers)] = (code) + 1,
#include "wire/opcode.def"
#undef OPCODE
};
