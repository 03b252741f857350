/* The rows of request.h. */
#include "ib/request.h"

static const struct request_row rows[] = {
	[IBV_WR_RDMA_WRITE] =		{ REQUEST_DATA, OP_WRITE, 0, ANSWER_ACK },
	[IBV_WR_RDMA_WRITE_WITH_IMM] =	{ REQUEST_DATA, OP_WRITE, HDR_IMM, ANSWER_ACK },
	[IBV_WR_SEND] =			{ REQUEST_DATA, OP_SEND, 0, ANSWER_ACK },
	[IBV_WR_SEND_WITH_IMM] =	{ REQUEST_DATA, OP_SEND, HDR_IMM, ANSWER_ACK },
	[IBV_WR_SEND_WITH_INV] =	{ REQUEST_DATA, OP_SEND, HDR_IETH, ANSWER_ACK },
	[IBV_WR_RDMA_READ] =		{ REQUEST_READ, OP_READ_REQUEST, 0, ANSWER_READ },
	[IBV_WR_ATOMIC_CMP_AND_SWP] =	{ REQUEST_ATOMIC, OP_CMP_SWAP, 0, ANSWER_ATOMIC },
	[IBV_WR_ATOMIC_FETCH_AND_ADD] =	{ REQUEST_ATOMIC, OP_FETCH_ADD, 0, ANSWER_ATOMIC },
	[IBV_WR_ATOMIC_WRITE] =		{ REQUEST_ATOMIC_WRITE, OP_ATOMIC_WRITE, 0, ANSWER_EMPTY },
	[IBV_WR_BIND_MW] =		{ .kind = REQUEST_BIND },
	[IBV_WR_LOCAL_INV] =		{ .kind = REQUEST_INVALIDATE },
};

static const struct request_row none = { .kind = REQUEST_NONE };

const struct request_row *request_row(const struct send_wqe *wqe)
{
	return wqe->opcode < sizeof(rows) / sizeof(rows[0]) ? &rows[wqe->opcode] : &none;
}
