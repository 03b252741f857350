/* What a send WQE asks of the wire: one row per opcode of verbs, and the message's geometry. */
#ifndef WEFT_IB_REQUEST_H
#define WEFT_IB_REQUEST_H

#include "ib/flight.h"
#include "verbs/direct.h"
#include "verbs/queue.h"
#include "wire/opcode.h"

enum request_kind {
	REQUEST_NONE,		/* not ours: refused */
	REQUEST_DATA,		/* carries a payload, cut by the path MTU */
	REQUEST_READ,		/* one packet, answered by as many as the data takes */
	REQUEST_ATOMIC,
	REQUEST_ATOMIC_WRITE,
	REQUEST_BIND,		/* local, in send-queue order */
	REQUEST_INVALIDATE,
};

struct request_row {
	enum request_kind kind;
	enum opcode_op op;
	uint16_t trailer;	/* HDR_IMM or HDR_IETH on the last packet, or 0 */
	enum flight_answer answer;
	enum { TARGET_PROGRAM, TARGET_MEMORY } needs;	/* of the target */
};

/* By enum ibv_wr_opcode; those that are not ours are all REQUEST_NONE. */
extern const struct request_row request_rows[UINT8_MAX + 1];

static inline const struct request_row *request_row(const struct send_wqe *wqe)
{
	return &request_rows[wqe->opcode];
}

/* Packets that `length` bytes take: at least one. */
static inline uint32_t request_packets(uint32_t length, uint32_t mtu)
{
	return length > mtu ? (length - 1) / mtu + 1 : 1;
}

/* Bytes of packet number `packet`. */
static inline uint32_t request_bytes(uint32_t length, uint32_t mtu, uint32_t packet)
{
	uint32_t before = packet * mtu;

	return length - before < mtu ? length - before : mtu;
}

static inline enum opcode_position request_position(uint32_t packets, uint32_t packet)
{
	if (packets == 1)
		return POS_ONLY;
	return packet == 0 ? POS_FIRST : packet == packets - 1 ? POS_LAST : POS_MIDDLE;
}

#endif
