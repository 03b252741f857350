/* The ring of responder resources. */
#include "ib/responder_resources.h"

#include "ib/engine.h"
#include "ib/reflect.h"
#include "ib/request.h"
#include "wire/header.h"
#include "wire/packet.h"

void resources_record(struct qp *qp, const struct packet *p, const struct opcode_row *row, uint64_t original)
{
	struct responder *r = &engine_of(qp)->responder;
	bool is_read = row->op == OP_READ_REQUEST;
	uint32_t span = is_read ? request_packets(p->reth.length, engine_mtu(qp)) : 1;

	struct resource *res = responder_resource(r, r->resources);

	/* a replaced resource that still owed responses stands in the count already */
	if (r->resources < r->depth || res->next == res->end)
		r->owing++;
	*res = (struct resource){
		.psn = p->psn, .span = span, .next = 0, .end = span, .msn = psn_add(r->msn, 1), .op = row->op,
		.va = p->reth.va, .rkey = p->reth.rkey, .length = p->reth.length,
		.original = original, .srqn = p->xrceth.srqn, .path = reflect_path(qp, p),
	};
	r->newest += r->newest < r->depth;
	r->resources++;
	if (r->resources == 2 * r->depth)
		r->resources = r->depth;	/* cumulative modulo the ring, so that it never wraps */
}

/* The newest first: an old one may have the same PSN, of 2^24 before. */
static struct resource *find(const struct responder *r, psn_t psn)
{
	for (uint32_t i = 1; i <= r->depth && i <= r->resources; i++) {
		struct resource *res = responder_resource(r, r->resources - i);

		if (psn_cmp(psn, res->psn) >= 0 && psn_diff(psn, res->psn) < (int32_t)res->span)
			return res;
	}
	return NULL;
}

static void part_done(struct responder *r)
{
	r->first_part = (r->first_part + 1) % READ_PARTS;
	r->parts--;
	r->owing--;
}

struct resource *resources_part(struct qp *qp, uint32_t *packet)
{
	struct responder *r = &engine_of(qp)->responder;

	for (; r->parts; part_done(r)) {
		const struct read_part *part = &r->part[r->first_part];
		struct resource *res = find(r, part->psn);

		if (!res || res->op != OP_READ_REQUEST)
			continue;
		*packet = (uint32_t)psn_diff(part->psn, res->psn);
		return res;
	}
	return NULL;
}

void resources_part_sent(struct qp *qp)
{
	struct responder *r = &engine_of(qp)->responder;
	struct read_part *part = &r->part[r->first_part];

	part->psn = psn_add(part->psn, 1);
	if (--part->count == 0)
		part_done(r);
}

void resources_drop_parts(struct qp *qp)
{
	struct responder *r = &engine_of(qp)->responder;

	while (r->parts)
		part_done(r);
}

/* A part that does not end the READ, whole packets of it, is for peers that repeat selectively. */
static enum verdict read_part_again(struct qp *qp, const struct packet *p)
{
	struct responder *r = &engine_of(qp)->responder;
	uint32_t mtu = engine_mtu(qp);

	if (!bth_is_selective(p->resv.bth7) || !engine_of(qp)->selective || !p->reth.length || p->reth.length % mtu)
		return VERDICT_FORGOTTEN;
	if (r->parts == READ_PARTS)
		return VERDICT_REPLAYED;
	r->part[(r->first_part + r->parts) % READ_PARTS] = (struct read_part){ p->psn, p->reth.length / mtu };
	r->parts++;
	r->owing++;
	return VERDICT_REPLAYED;
}

/* What is asked for must be the rest of what was granted, or a part. The region itself is checked for each response. */
static enum verdict read_again(struct qp *qp, struct resource *res, const struct packet *p)
{
	struct responder *r = &engine_of(qp)->responder;
	uint32_t mtu = engine_mtu(qp), skipped = (uint32_t)psn_diff(p->psn, res->psn), offset = skipped * mtu;

	if (p->reth.va != res->va + offset || p->reth.rkey != res->rkey || p->reth.length > res->length - offset)
		return VERDICT_FORGOTTEN;
	if (p->reth.length != res->length - offset)
		return read_part_again(qp, p);
	r->owing += res->next == res->end;
	res->asked = res->next = skipped;
	res->end = skipped + request_packets(p->reth.length, mtu);
	return VERDICT_REPLAYED;
}

enum verdict resources_answer_again(struct qp *qp, const struct packet *p, const struct opcode_row *row)
{
	struct responder *r = &engine_of(qp)->responder;
	struct resource *res;

	if (row->op == OP_SEND || row->op == OP_WRITE)
		return VERDICT_DUPLICATE;
	res = find(r, p->psn);
	if (!res || res->op != row->op)
		return VERDICT_FORGOTTEN;
	res->path = reflect_path(qp, p);	/* answers by the one before may be what is lost */
	if (res->op == OP_READ_REQUEST)
		return read_again(qp, res, p);
	r->owing += res->next == res->end;
	res->next = 0;
	res->end = 1;
	return VERDICT_REPLAYED;
}
