/* Packets of the seed's protocol for several paths (seed 003: REQUIREMENTS 5.2): a header of 48 bytes, the payload and a CRC-32.
 * The requirements name the fields; their places are our choice, as the seed has none. parse sees raw bytes and lengths first and
 * alone; build of what parse took gives the same bytes. */
#ifndef WEFT_MULTIPATH_PACKET_H
#define WEFT_MULTIPATH_PACKET_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { MP_VERSION = 1, MP_HEADER = 48, MP_CRC = 4, MP_MTU_MOST = 16384 };

enum mp_type {
	MP_REQ = 1, MP_RSP, MP_NAK, MP_BARRIER, MP_BARRIER_RSP, MP_PATH_DOWN, MP_PATH_DOWN_RSP, MP_PATH_UP, MP_PATH_UP_RSP,
};

enum mp_order { MP_ORDERED = 1, MP_UNORDERED = 2 };	/* MPT-04 */

/* O(code, name, may be unordered (MPT-23), bytes of payload, bytes of the answer); LENGTH: what the field says */
#define MP_OPCODES(O)					\
	O(1, MP_SEND, false, MP_LENGTH, 0)		\
	O(2, MP_WRITE, true, MP_LENGTH, 0)		\
	O(3, MP_READ, true, 0, MP_LENGTH)		\
	O(4, MP_COMPARE_SWAP, false, 16, 8)		\
	O(5, MP_FETCH_ADD, false, 8, 8)			\
	O(6, MP_NOP, false, 0, 0)			\
	O(7, MP_ATOMIC_WRITE, false, 8, 0)

#define MP_LENGTH UINT32_MAX

enum mp_opcode {
#define VALUE(value, name, ...) name = value,
	MP_OPCODES(VALUE)
#undef VALUE
};

/* What a response says (MPT-27); MP_NAK_INVALID and MP_NAK_FAILED are ours: a request that the target does not take, and one that
 * it could not execute. The last four come from the engine of the requester only. */
enum mp_status {
	MP_OK, MP_NAK_SEQUENCE, MP_NAK_ACCESS, MP_NAK_NO_BUFFER, MP_NAK_BUSY, MP_NAK_INVALID, MP_NAK_FAILED,
	MP_NO_PATH, MP_RETRIES_EXCEEDED, MP_FLUSHED, MP_FAILED_HERE,
};

/* What the last packet of a SEND or WRITE, which is ordered then, has for the consumer of the target. */
enum mp_trailer { MP_PLAIN, MP_IMMEDIATE, MP_INVALIDATE, MP_TRAILERS };

#define MP_TYPE	0, 4, 4

/* F(type, member, byte, bit, width) */
#define MP_FIELDS(F)					\
	F(uint8_t, version, 0, 0, 4)			\
	F(uint8_t, type, MP_TYPE)			\
	F(uint8_t, code, 1, 0, 8)	/* opcode of a REQ, status of a RSP or NAK */	\
	F(uint8_t, order, 2, 0, 2)			\
	F(uint8_t, last, 2, 2, 1)	/* of its request */	\
	F(uint8_t, solicited, 2, 3, 1)			\
	F(uint8_t, trailer, 2, 4, 2)	/* enum mp_trailer */	\
	F(uint8_t, attempt, 3, 0, 8)			\
	F(uint32_t, connection, 4, 0, 32)		\
	F(uint8_t, path, 8, 0, 8)	/* that a PATH-DOWN or PATH-UP speaks of */	\
	F(uint32_t, pkn, 9, 0, 24)			\
	F(uint32_t, tag, 12, 0, 32)			\
	F(uint32_t, number, 17, 0, 24)	/* RSN, of a NAK; of a REQ how many packets of its request come before it */	\
	F(uint32_t, length, 20, 0, 32)			\
	F(uint64_t, address, 24, 0, 64)	/* of a SEND the offset in the message; of a BARRIER the identification data */	\
	F(uint32_t, key, 32, 0, 32)			\
	F(uint32_t, epoch, 36, 0, 32)	/* odd: the path is down; of the answer to a BARRIER: its own path */	\
	F(uint32_t, total, 40, 0, 32)	/* bytes of its request */	\
	F(uint32_t, extra, 44, 0, 32)	/* the trailer's; of a NAK_NO_BUFFER how many times 10 us to wait; 0: as you like.	\
					   Of a BARRIER and its answer what the host tells */

struct mp_packet {
#define MEMBER(type, member, ...) type member;
	MP_FIELDS(MEMBER)
#undef MEMBER
	const uint8_t *payload;		/* borrowed */
	uint32_t payload_bytes;
};

/* May requests of this opcode be unordered, and is there such an opcode? */
bool mp_opcode_is_known(unsigned opcode);
bool mp_opcode_may_be_unordered(unsigned opcode);
/* Bytes of the answer to a request of this opcode and length. */
uint32_t mp_answer_bytes(unsigned opcode, uint32_t length);

/* False: it is no packet, is spoiled, or does not make sense. */
bool mp_packet_parse(struct mp_packet *p, const uint8_t *bytes, size_t size);
/* Its bytes, of which `out` has room for MP_HEADER, the payload, which may be there already, and MP_CRC. */
size_t mp_packet_build(const struct mp_packet *p, uint8_t *out);

#endif
