#include "multipath/completer.h"

#include "multipath/flight.h"
#include "multipath/paths.h"

#include <string.h>

/* Of what a NAK_NO_BUFFER asks for: the longest of IBA's table 47 is 655.36 ms. */
enum { WAIT_MOST = 65536 };
#define WAIT_UNIT (10 * WTIME_US)

static void place(struct mp_requester *r, const struct mp_request *q, uint32_t offset, const struct mp_packet *p)
{
	enum mp_status status = MP_OK;

	if (!p->payload_bytes)
		return;
	if (q->into)
		memcpy((uint8_t *)q->into + offset, p->payload, p->payload_bytes);
	else if (r->sink.place)
		status = r->sink.place(r->sink.arg, q, offset, p->payload, p->payload_bytes);
	mp_requester_end(r, status);
}

/* MPT-25: a response to any attempt will do. The packet leaves the flight when its last attempt is accounted for. */
static void take_response(struct mp_requester *r, wtime now, struct mp_flight *f, bool is_current, const struct mp_packet *p)
{
	/* once it is answered, its place may be another's */
	struct mp_work *w = f->is_answered || f->opcode == MP_NOP ? NULL : &r->work[f->work];

	if (p->payload_bytes != mp_answer_bytes(f->opcode, f->bytes)) {
		r->count.foreign++;
		return;
	}
	r->count.responses++;
	r->count.late += !is_current;
	if (is_current)
		mp_path_answered(r, f->path, now - f->sent_at);
	if (w) {
		place(r, &w->request, f->offset, p);
		w->unanswered--;
	}
	f->is_answered = true;
	if (is_current || f->phase == MP_READY || f->phase == MP_STUCK)
		mp_flight_free(r, f);
}

/* Ordered packets that left before this one, by the same path, and were not answered are lost. */
static bool follows_lost(const struct mp_requester *r, const struct mp_flight *f)
{
	for (unsigned i = 0; i < r->config.flights; i++) {
		const struct mp_flight *other = &r->flight[i];

		if (other->phase == MP_SENT && other->is_ordered && !other->is_answered && other->leaving < f->leaving)
			return true;
	}
	return false;
}

/* MPT-19: all that is ordered and without an answer goes again. What was refused behind it has an older attempt by then. Of what
 * is unordered (MPT-15) the refused packet alone: others have a refusal of their own. */
static void take_sequence(struct mp_requester *r, struct mp_flight *f)
{
	bool is_first = f->is_ordered || follows_lost(r, f);

	r->count.sequence_naks++;
	if (!f->is_ordered)
		mp_flight_lost(r, f, 0);
	if (!is_first)
		return;
	for (unsigned i = 0; i < r->config.flights; i++)
		if (r->flight[i].phase == MP_SENT && r->flight[i].is_ordered)
			mp_flight_use_retry(r, &r->flight[i]);
	mp_flight_go_back(r, 0, 0);
}

/* MPT-27: what was refused was not done, and RSN is where it was. The target may say how long it wants to be left alone. */
static void take_refusal(struct mp_requester *r, wtime now, struct mp_flight *f, const struct mp_packet *p)
{
	wtime wait = r->config.refusal_ns;

	if (p->code == MP_NAK_NO_BUFFER && p->extra)
		wait = (p->extra < WAIT_MOST ? p->extra : WAIT_MOST) * WAIT_UNIT;
	r->count.refusals++;
	if (++f->refusals > r->config.refusals && r->config.refusals != MP_ENDLESS)
		r->error = (enum mp_status)p->code;
	else if (f->is_ordered)
		mp_flight_go_back(r, f->place, now + wait);
	else
		mp_flight_lost(r, f, now + wait);
}

static void take_nak(struct mp_requester *r, wtime now, struct mp_flight *f, const struct mp_packet *p)
{
	switch (p->code) {
	case MP_NAK_SEQUENCE:
		take_sequence(r, f);
		return;
	case MP_NAK_ACCESS: case MP_NAK_INVALID: case MP_NAK_FAILED:
		mp_requester_end(r, (enum mp_status)p->code);
		return;
	default:
		take_refusal(r, now, f, p);
	}
}

void mp_completer_input(struct mp_requester *r, wtime now, unsigned path, const struct mp_packet *p)
{
	struct mp_flight *f = mp_flight_find(r, p->tag);
	bool is_current = f && f->phase == MP_SENT && p->attempt == f->attempt;

	if (!f)
		return;
	/* MPT-09; the response comes by the path of its request */
	if (p->order != (f->is_ordered ? MP_ORDERED : MP_UNORDERED) || (is_current && (p->pkn != f->pkn || path != f->path))) {
		r->count.foreign++;
		return;
	}
	if (p->type == MP_RSP)
		take_response(r, now, f, is_current, p);
	else if (is_current && !f->is_answered)
		take_nak(r, now, f, p);
}
