#include "ib/direct_load.h"

#include "wire/load.h"

/* The words of a request whose bytes are in its packets; a read's are in the response. */
static uint64_t payload_of(enum opcode_op op, uint64_t bytes)
{
	return op == OP_WRITE || op == OP_SEND || op == OP_ATOMIC_WRITE ? bytes : 0;
}

static void tell(struct qp *qp, const struct route *r, const struct wire_load *there, const struct wire_load *back)
{
	if (r->way)
		qp->ca->ops->carried(qp->ca->owner, r, there, back);
	else
		port_load_pass(qp->dev->load, PORT_LOAD_LOOP, there->words + back->words, there->packets + back->packets, false);
}

void direct_load_tell(struct qp *qp, enum opcode_op op, unsigned trailer, uint64_t bytes)
{
	enum opcode_service service = engine_service(qp);
	size_t path = packet_path_bytes(qp->dev->protocol->form, &qp->path);
	struct wire_load there = load_of_message(service, op, trailer, payload_of(op, bytes), engine_mtu(qp), path);
	struct wire_load back = { 0 };

	if (engine_is_reliable(qp))
		back = load_of_answer(service, op, bytes, engine_mtu(qp), path);
	engine_of(qp)->load = (struct direct_load){
		.op = (uint8_t)op, .trailer = (uint8_t)trailer, .bytes = bytes,
		.words = (uint32_t)(there.words + back.words), .packets = (uint32_t)(there.packets + back.packets),
	};
	tell(qp, lid_paths_next(qp), &there, &back);
}

void direct_load_count_immediate(struct qp *qp)
{
	const struct wire_load there = { .words = 1 }, back = { 0 };

	tell(qp, lid_paths_last(qp), &there, &back);
}
