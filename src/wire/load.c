#include "wire/load.h"

static unsigned extended_bytes(enum opcode_service service, enum opcode_op op, enum opcode_position position, unsigned trailer)
{
	int code = opcode_find(service, op, position, trailer);
	const struct opcode_row *row = code < 0 ? NULL : opcode_row((uint8_t)code);

	return row ? row->header_bytes : 0;
}

struct wire_load load_of_message(enum opcode_service service, enum opcode_op op, unsigned trailer, uint64_t bytes,
				 uint32_t mtu_bytes, size_t path_bytes)
{
	uint64_t packets = bytes > mtu_bytes ? (bytes + mtu_bytes - 1) / mtu_bytes : 1;
	uint64_t all = (packets - 1) * load_packet_bytes(path_bytes, 0, 0) + load_packet_bytes(path_bytes, 0, bytes);

	if (packets == 1)
		all += extended_bytes(service, op, POS_ONLY, trailer);
	else
		all += extended_bytes(service, op, POS_FIRST, 0) + (packets - 2) * extended_bytes(service, op, POS_MIDDLE, 0) +
		       extended_bytes(service, op, POS_LAST, trailer);
	return (struct wire_load){ packets, all / LOAD_WORD };
}

struct wire_load load_of_answer(enum opcode_service service, enum opcode_op op, uint64_t bytes, uint32_t mtu_bytes,
				size_t path_bytes)
{
	switch (op) {
	case OP_READ_REQUEST:
		return load_of_message(service, OP_READ_RESPONSE, 0, bytes, mtu_bytes, path_bytes);
	case OP_ATOMIC_WRITE:	/* IBA 1.5: an empty response */
		return load_of_message(service, OP_READ_RESPONSE, 0, 0, mtu_bytes, path_bytes);
	case OP_CMP_SWAP:
	case OP_FETCH_ADD:
		return load_of_message(service, OP_ATOMIC_ACK, 0, 0, mtu_bytes, path_bytes);
	default:
		return load_of_message(service, OP_ACK, 0, 0, mtu_bytes, path_bytes);
	}
}
