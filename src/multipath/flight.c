#include "multipath/flight.h"

#include "base/log.h"

struct mp_flight *mp_flight_find(struct mp_requester *r, uint32_t tag)
{
	for (unsigned i = 0; i < r->config.flights; i++)
		if (r->flight[i].phase != MP_FREE && r->flight[i].tag == tag)
			return &r->flight[i];
	return NULL;
}

struct mp_flight *mp_flight_new(struct mp_requester *r, bool is_ordered)
{
	for (unsigned i = 0; i < r->config.flights; i++) {
		struct mp_flight *f = &r->flight[i];

		if (f->phase != MP_FREE)
			continue;
		*f = (struct mp_flight){ .phase = MP_READY, .is_ordered = is_ordered, .place = r->places++, .tag = r->tag++,
					 .pkn = r->rqn };
		if (is_ordered)
			r->ordered++;
		else
			r->unordered++;
		return f;
	}
	return NULL;
}

static void leave_path(struct mp_requester *r, struct mp_flight *f)
{
	if (f->phase == MP_SENT && !weft_bug_on(!r->path[f->path].flights))
		r->path[f->path].flights--;
}

void mp_flight_free(struct mp_requester *r, struct mp_flight *f)
{
	leave_path(r, f);
	f->phase = MP_FREE;
	if (f->is_ordered)
		r->ordered--;
	else
		r->unordered--;
}

void mp_flight_lost(struct mp_requester *r, struct mp_flight *f, wtime when)
{
	if (f->is_answered) {
		mp_flight_free(r, f);
		return;
	}
	leave_path(r, f);
	f->phase = MP_READY;
	f->deadline = when;
	f->attempt++;
	r->count.retries++;
}

static bool is_first_ordered(const struct mp_requester *r, const struct mp_flight *f)
{
	for (unsigned i = 0; i < r->config.flights; i++) {
		const struct mp_flight *other = &r->flight[i];

		if (other->phase != MP_FREE && other->is_ordered && !other->is_answered && other->place < f->place)
			return false;
	}
	return true;
}

void mp_flight_use_retry(struct mp_requester *r, struct mp_flight *f)
{
	if (f->is_answered || (f->is_ordered ? !is_first_ordered(r, f) : r->ordered > 0))
		return;
	if (++f->retries > r->config.retries)
		r->error = MP_RETRIES_EXCEEDED;
}

void mp_flight_lost_on(struct mp_requester *r, unsigned path)
{
	for (unsigned i = 0; i < r->config.flights; i++) {
		struct mp_flight *f = &r->flight[i];

		if (f->phase == MP_SENT && f->path == path) {
			mp_flight_use_retry(r, f);
			mp_flight_lost(r, f, 0);
		}
	}
}

void mp_flight_go_back(struct mp_requester *r, uint64_t place, wtime when)
{
	for (unsigned i = 0; i < r->config.flights; i++) {
		struct mp_flight *f = &r->flight[i];

		if (f->phase == MP_SENT && f->is_ordered && !f->is_answered && f->place >= place)
			mp_flight_lost(r, f, when);
	}
}

void mp_flight_stick(struct mp_requester *r, unsigned path)
{
	for (unsigned i = 0; i < r->config.flights; i++) {
		struct mp_flight *f = &r->flight[i];

		if (f->phase != MP_SENT || f->path != path)
			continue;
		r->must_renumber |= !f->is_ordered;
		mp_flight_use_retry(r, f);
		mp_flight_lost(r, f, 0);
		if (f->phase == MP_READY && !f->is_ordered)
			f->phase = MP_STUCK;
	}
}

static bool is_before(const struct mp_flight *f, const struct mp_flight *other)
{
	if (f->is_ordered || f->deadline == other->deadline)
		return f->place < other->place;
	return f->deadline < other->deadline;
}

struct mp_flight *mp_flight_first_ready(struct mp_requester *r, bool is_ordered)
{
	struct mp_flight *first = NULL;

	for (unsigned i = 0; i < r->config.flights; i++) {
		struct mp_flight *f = &r->flight[i];

		if (f->phase == MP_READY && f->is_ordered == is_ordered && (!first || is_before(f, first)))
			first = f;
	}
	return first;
}
