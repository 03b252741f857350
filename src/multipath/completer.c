#include "multipath/completer.h"

#include "multipath/flight.h"

#include <string.h>

/* MPT-25: a response to any attempt will do. The packet leaves the flight when its last attempt is accounted for. */
static void take_response(struct mp_requester *r, struct mp_flight *f, bool is_current, const struct mp_packet *p)
{
	/* once it is answered, its place may be another's */
	struct mp_work *w = f->is_answered || f->opcode == MP_NOP ? NULL : &r->work[f->work];

	if (p->payload_bytes != mp_answer_bytes(f->opcode, f->bytes)) {
		r->count.foreign++;
		return;
	}
	r->count.responses++;
	r->count.late += !is_current;
	if (w) {
		if (p->payload_bytes && w->request.into)
			memcpy((uint8_t *)w->request.into + f->offset, p->payload, p->payload_bytes);
		w->unanswered--;
	}
	f->is_answered = true;
	if (is_current || f->phase == MP_READY || f->phase == MP_STUCK)
		flight_free(r, f);
}

/* MPT-19: all that is without an answer goes again. What was refused behind it has an older attempt by then. */
static void take_sequence(struct mp_requester *r)
{
	r->count.sequence_naks++;
	for (unsigned i = 0; i < r->config.flights; i++)
		if (r->flight[i].phase == MP_SENT && r->flight[i].is_ordered)
			flight_use_retry(r, &r->flight[i]);
	flight_go_back(r, 0, 0);
}

/* MPT-27: what was refused was not done, and RSN is where it was. */
static void take_refusal(struct mp_requester *r, wtime now, struct mp_flight *f, enum mp_status status)
{
	r->count.refusals++;
	if (++f->refusals > r->config.refusals)
		r->error = status;
	else if (f->is_ordered)
		flight_go_back(r, f->place, now + r->config.refusal_ns);
	else
		flight_lost(r, f, now + r->config.refusal_ns);
}

static void take_nak(struct mp_requester *r, wtime now, struct mp_flight *f, const struct mp_packet *p)
{
	switch (p->code) {
	case MP_NAK_SEQUENCE:
		if (f->is_ordered)
			take_sequence(r);
		return;
	case MP_NAK_ACCESS:
		r->error = MP_NAK_ACCESS;
		return;
	default:
		take_refusal(r, now, f, (enum mp_status)p->code);
	}
}

void completer_input(struct mp_requester *r, wtime now, unsigned path, const struct mp_packet *p)
{
	struct mp_flight *f = flight_find(r, p->tag);
	bool is_current = f && f->phase == MP_SENT && p->attempt == f->attempt;

	if (!f)
		return;
	/* MPT-09; the response comes by the path of its request */
	if (p->order != (f->is_ordered ? MP_ORDERED : MP_UNORDERED) || (is_current && (p->pkn != f->pkn || path != f->path))) {
		r->count.foreign++;
		return;
	}
	if (p->type == MP_RSP)
		take_response(r, f, is_current, p);
	else if (is_current && !f->is_answered)
		take_nak(r, now, f, p);
}
