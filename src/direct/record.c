/* The layout: head, then the fields of RETH or DETH and the trailer where the opcode has them, then payload or pieces. */
#include "direct/record.h"

#include "base/iov.h"
#include "base/qpn.h"
#include "wire/opcode.h"

#include <string.h>

struct target {
	uint64_t va;
	uint32_t rkey, rsvd;
};

/* struct direct_datagram, as far as its sender says it. */
struct datagram {
	uint32_t qkey;
	uint16_t slid, dlid, pkey;
	uint8_t sl, network;
};

/* Of a payload that is elsewhere; PAYLOAD_RENDEZVOUS: its pieces follow. */
struct piece {
	uint64_t address, bytes;
};

enum { PAYLOAD_SHIFT = 1, FLAGS = 7, SL_MOST = 15 };

static bool has_trailer(const struct opcode_row *row)
{
	return row->headers & (HDR_IMM | HDR_IETH);
}

#define HEAD_BYTES(headers) (sizeof(struct record_head) + ((headers) & HDR_RETH ? sizeof(struct target) : 0) + \
			     ((headers) & HDR_DETH ? sizeof(struct datagram) : 0) + \
			     ((headers) & (HDR_IMM | HDR_IETH) ? sizeof(uint32_t) : 0))

const uint8_t record_heads[256] = {
#define OPCODE(code, name, op, position, headers) [code] = HEAD_BYTES(headers),
#include "wire/opcode.def"
#undef OPCODE
};

size_t record_bytes_elsewhere(const struct direct_message *m)
{
	size_t bytes = record_heads[m->opcode] + sizeof(m->bytes);

	return m->payload == PAYLOAD_RENDEZVOUS ? bytes + m->iovs * sizeof(struct piece) : bytes;
}

static uint8_t *put(uint8_t *at, const void *field, size_t bytes)
{
	memcpy(at, field, bytes);
	return at + bytes;
}

static void build_payload(const struct direct_message *m, uint8_t *at)
{
	if (m->payload == PAYLOAD_EAGER) {
		for (unsigned i = 0; i < m->iovs; i++)
			at = put(at, m->iov[i].iov_base, m->iov[i].iov_len);
		return;
	}
	at = put(at, &m->bytes, sizeof(m->bytes));
	for (unsigned i = 0; i < m->iovs && m->payload == PAYLOAD_RENDEZVOUS; i++) {
		struct piece piece = { (uintptr_t)m->iov[i].iov_base, m->iov[i].iov_len };

		at = put(at, &piece, sizeof(piece));
	}
}

static uint8_t *build_fields(const struct direct_message *m, uint8_t *at)
{
	const struct opcode_row *row = opcode_row(m->opcode);

	if (row->headers & HDR_RETH)
		at = put(at, &(struct target){ m->va, m->rkey, 0 }, sizeof(struct target));
	if (row->headers & HDR_DETH)
		at = put(at, &(struct datagram){ m->datagram.qkey, m->datagram.slid, m->datagram.dlid, m->datagram.pkey,
						 m->datagram.sl, m->datagram.network }, sizeof(struct datagram));
	if (has_trailer(row))
		at = put(at, &m->trailer, sizeof(m->trailer));
	return at;
}

void record_build(const struct direct_message *m, void *record)
{
	const struct record_head head = record_head(m->opcode, m->solicited | m->payload << PAYLOAD_SHIFT, m->dest_qpn,
						    m->src_qpn, m->psn, m->received);
	uint8_t *at = put(record, &head, sizeof(head));

	if (record_heads[m->opcode] != sizeof(head))
		at = build_fields(m, at);
	if (m->payload == PAYLOAD_EAGER && m->iovs == 1)	/* as nearly all */
		memcpy(at, m->iov->iov_base, m->iov->iov_len);
	else
		build_payload(m, at);
}

/* The record as it is read: every step says how many bytes are left. */
struct reader {
	const uint8_t *at;
	size_t left;
};

static bool get(struct reader *r, void *field, size_t bytes)
{
	if (r->left < bytes)
		return false;
	memcpy(field, r->at, bytes);
	r->at += bytes;
	r->left -= bytes;
	return true;
}

static bool parse_pieces(struct direct_message *m, struct reader *r, struct iovec iov[DIRECT_IOVS])
{
	struct piece piece;
	uint64_t sum = 0;

	while (r->left) {
		if (m->iovs == DIRECT_IOVS || !get(r, &piece, sizeof(piece)) || piece.bytes >= DIRECT_LONG)
			return false;
		iov[m->iovs++] = (struct iovec){ (void *)(uintptr_t)piece.address, piece.bytes };
		sum += piece.bytes;
	}
	return sum == m->bytes;
}

static bool parse_payload(struct direct_message *m, struct reader *r, const struct opcode_row *row, struct iovec iov[DIRECT_IOVS])
{
	m->iov = iov;
	m->iovs = 0;
	if (m->payload == PAYLOAD_EAGER) {
		m->bytes = (uint32_t)r->left;
		m->iovs = 1;
		iov[0] = (struct iovec){ (void *)(uintptr_t)r->at, r->left };
		return true;
	}
	if (!get(r, &m->bytes, sizeof(m->bytes)))
		return false;
	if (m->payload == PAYLOAD_RENDEZVOUS)
		return row->op == OP_SEND && m->bytes < DIRECT_LONG && parse_pieces(m, r, iov);
	return row->op == OP_WRITE && r->left == 0;
}

/* A datagram is eager. */
static bool parse_datagram(struct direct_message *m, struct reader *r)
{
	struct datagram d;

	if (m->payload != PAYLOAD_EAGER || !get(r, &d, sizeof(d)) || d.sl > SL_MOST)
		return false;
	m->datagram = (struct direct_datagram){
		.qkey = d.qkey, .slid = d.slid, .dlid = d.dlid, .pkey = d.pkey, .sl = d.sl, .network = d.network,
	};
	return true;
}

/* Whoever takes a promising message as any forgoes the promise: the next one makes it again. */
static bool is_sound(const struct record_head *h)
{
	if (h->dest >> 24 == OPCODE_RC_SEND_ONLY && h->src >> 24 <= RECORD_SOLICITED)
		return h->received >> RECORD_PROMISE <= PROMISE_SIZE;
	return (h->psn | h->received) <= PSN_MASK;
}

bool record_parse(struct direct_message *m, const void *record, size_t bytes, struct iovec iov[DIRECT_IOVS])
{
	struct reader r = { record, bytes };
	const struct opcode_row *row;
	struct target target = { 0 };
	struct record_head head;
	uint32_t flags;

	if (bytes > RECORD_MAX_BYTES || !get(&r, &head, sizeof(head)) || !is_sound(&head))
		return false;
	flags = head.src >> 24;
	*m = (struct direct_message){
		.opcode = (uint8_t)(head.dest >> 24), .dest_qpn = head.dest & QPN_MASK, .src_qpn = head.src & QPN_MASK,
		.psn = head.psn & PSN_MASK, .received = head.received & PSN_MASK,
		.solicited = flags & RECORD_SOLICITED, .payload = flags >> PAYLOAD_SHIFT,
	};
	row = opcode_row(m->opcode);
	if (!row || (row->position != POS_ONLY && m->payload != PAYLOAD_RENDEZVOUS) ||
	    (row->op != OP_SEND && row->op != OP_WRITE) || flags > FLAGS || m->payload > PAYLOAD_PLACED)
		return false;
	if ((row->headers & HDR_RETH && (!get(&r, &target, sizeof(target)) || target.rsvd)) ||
	    (row->headers & HDR_DETH && !parse_datagram(m, &r)) ||
	    (has_trailer(row) && !get(&r, &m->trailer, sizeof(m->trailer))))
		return false;
	m->va = target.va;
	m->rkey = target.rkey;
	return parse_payload(m, &r, row, iov);
}

static uint64_t total(const struct iovec *iov, unsigned iovs)
{
	uint64_t bytes = 0;

	for (unsigned i = 0; i < iovs; i++)
		bytes += iov[i].iov_len;
	return bytes;
}

bool record_pull(const struct direct_message *m, uint32_t offset, const struct rma_mover *mover, void *peer,
		  const struct iovec *to, unsigned tos)
{
	uint64_t wanted = total(to, tos), done = 0, skip = offset;
	struct iovec part[DIRECT_IOVS];

	for (unsigned i = 0; i < m->iovs && done < wanted; i++) {
		uint64_t length = m->iov[i].iov_len, bytes;

		if (skip >= length) {
			skip -= length;
			continue;
		}
		bytes = length - skip < wanted - done ? length - skip : wanted - done;
		if (!mover->read(peer, (uintptr_t)m->iov[i].iov_base + skip, part, iov_part(to, tos, done, bytes, part),
				 (uint32_t)bytes))
			return false;
		done += bytes;
		skip = 0;
	}
	return done == wanted;
}
