/* Timers of paths. SUSPECT: a BARRIER is repeated each T, barrier_tries times, or last_tries while no path is GOOD; unanswered,
 * the path fails. LEAVING, RETURNING: each PATH-DOWN and PATH-UP has T to be answered; then the path that carried it becomes
 * SUSPECT, and it goes over the next GOOD path. BAD: a BARRIER each probe_ns. Packets have T each (requester.c). */
#include "multipath/paths.h"

#include "multipath/flight.h"

bool mp_path_pick(struct mp_requester *r, unsigned *path)
{
	unsigned good[MP_PATHS], n = 0, best = 0;

	for (unsigned i = 0; i < r->config.paths; i++) {
		unsigned p = (r->turn + i) % r->config.paths;

		if (r->path[p].state == MP_PATH_GOOD)
			good[n++] = p;
	}
	if (!n)
		return false;
	if (r->config.spread == MP_RANDOM)
		best = (unsigned)rand_below(&r->rand, n);
	for (unsigned i = 1; i < n && r->config.spread == MP_LEAST_LOADED; i++)
		if (r->path[good[i]].flights < r->path[good[best]].flights)
			best = i;
	*path = good[best];
	r->turn = (good[best] + 1) % r->config.paths;
	return true;
}

wtime mp_path_patience(const struct mp_requester *r, unsigned path)
{
	const struct mp_path *p = &r->path[path];
	wtime most = r->config.timeout_ns, t = p->trip_ns + 4 * p->deviation_ns;

	if (!r->config.least_ns || !p->trip_ns || t > most)
		return most;
	return t > r->config.least_ns ? t : wtime_min(r->config.least_ns, most);
}

/* RFC 6298, 2.2 and 2.3 */
void mp_path_answered(struct mp_requester *r, unsigned path, wtime trip_ns)
{
	struct mp_path *p = &r->path[path];
	wtime off = p->trip_ns > trip_ns ? p->trip_ns - trip_ns : trip_ns - p->trip_ns;

	p->deviation_ns = p->trip_ns ? (3 * p->deviation_ns + off) / 4 : trip_ns / 2;
	p->trip_ns = p->trip_ns ? (7 * p->trip_ns + trip_ns) / 8 : trip_ns;
}

static void enter(struct mp_path *p, enum mp_path_state state)
{
	p->state = state;
	p->tries = 0;
	p->is_due = state != MP_PATH_GOOD && state != MP_PATH_BAD;
	p->deadline = WTIME_NEVER;
}

/* An answer to a BARRIER of an earlier episode has another identification. */
static void begin_barrier(struct mp_requester *r, struct mp_path *p)
{
	p->barrier = rand_u64(&r->rand);
}

void mp_path_suspect(struct mp_requester *r, unsigned path)
{
	struct mp_path *p = &r->path[path];

	if (p->state != MP_PATH_GOOD)
		return;
	r->count.timeouts++;
	enter(p, MP_PATH_SUSPECT);
	begin_barrier(r, p);
}

static void turn_bad(struct mp_requester *r, wtime now, struct mp_path *p)
{
	enter(p, MP_PATH_BAD);
	p->deadline = now + r->config.probe_ns;
	begin_barrier(r, p);
}

/* The next change of a path begins when the last one was answered: epochs grow by one. */
static void change(struct mp_path *p, enum mp_path_state state)
{
	enter(p, state);
	p->epoch++;
}

/* MPT-35 */
static void end_without_path(struct mp_requester *r)
{
	for (unsigned i = 0; i < r->config.paths; i++)
		if (r->path[i].state == MP_PATH_GOOD || r->path[i].state == MP_PATH_SUSPECT)
			return;
	mp_requester_end(r, MP_NO_PATH);
}

static void fail(struct mp_requester *r, wtime now, unsigned path)
{
	struct mp_path *p = &r->path[path];

	r->count.path_failures++;
	p->failed_at = r->ordered_sent;
	if (r->config.renumbers) {
		turn_bad(r, now, p);
		mp_flight_stick(r, path);
	} else {
		change(p, MP_PATH_LEAVING);
	}
	end_without_path(r);
}

/* The responder may have been told by somebody else that the path is down, or up: then its epoch is beyond ours, which goes on
 * from there. One that tells none says 0. */
static void barrier_answered(struct mp_requester *r, unsigned path, const struct mp_packet *packet)
{
	struct mp_path *p = &r->path[path];

	if ((p->state != MP_PATH_SUSPECT && p->state != MP_PATH_BAD) || packet->address != p->barrier || !p->tries)
		return;
	if ((int32_t)(packet->epoch - p->epoch) > 0) {
		r->count.foreign++;
		p->epoch = packet->epoch;
	}
	if (p->state == MP_PATH_SUSPECT)	/* MPT-30 */
		mp_flight_lost_on(r, path);
	else
		r->count.path_returns++;
	if (p->epoch % 2)
		change(p, MP_PATH_RETURNING);
	else			/* also MPT-37: the responder does not know that it was away */
		enter(p, MP_PATH_GOOD);
	end_without_path(r);
}

/* MPT-32, MPT-34 */
static void change_answered(struct mp_requester *r, wtime now, const struct mp_packet *packet, enum mp_path_state state)
{
	struct mp_path *p;

	if (packet->path >= r->config.paths) {
		r->count.foreign++;
		return;
	}
	p = &r->path[packet->path];
	if (p->state != state || packet->epoch != p->epoch)
		return;
	if (state == MP_PATH_RETURNING) {
		enter(p, MP_PATH_GOOD);
		return;
	}
	mp_flight_lost_on(r, packet->path);
	turn_bad(r, now, p);
}

void mp_path_input(struct mp_requester *r, wtime now, unsigned path, const struct mp_packet *p)
{
	switch (p->type) {
	case MP_BARRIER_RSP:
		barrier_answered(r, path, p);
		return;
	case MP_PATH_DOWN_RSP:
		change_answered(r, now, p, MP_PATH_LEAVING);
		return;
	case MP_PATH_UP_RSP:
		change_answered(r, now, p, MP_PATH_RETURNING);
		return;
	default:
		r->count.foreign++;
	}
}

static void build_barrier(struct mp_requester *r, wtime now, struct mp_path *p, struct mp_packet *out)
{
	out->type = MP_BARRIER;
	out->address = p->barrier;
	p->deadline = now + (p->state == MP_PATH_BAD ? r->config.probe_ns : r->config.timeout_ns);
	r->count.barriers++;
}

static void build_change(struct mp_requester *r, wtime now, unsigned path, struct mp_packet *out)
{
	struct mp_path *p = &r->path[path];

	out->type = p->state == MP_PATH_LEAVING ? MP_PATH_DOWN : MP_PATH_UP;
	out->path = (uint8_t)path;
	out->epoch = p->epoch;
	p->deadline = now + r->config.timeout_ns;
	r->count.path_changes++;
}

bool mp_path_output(struct mp_requester *r, wtime now, unsigned *path, struct mp_packet *out)
{
	for (unsigned i = 0; i < r->config.paths; i++) {
		struct mp_path *p = &r->path[i];
		bool is_change = p->state == MP_PATH_LEAVING || p->state == MP_PATH_RETURNING;

		if (!p->is_due || (is_change && !mp_path_pick(r, &p->carrier)))
			continue;
		*out = (struct mp_packet){ .version = MP_VERSION, .connection = r->config.connection };
		p->is_due = false;
		p->tries++;
		*path = is_change ? p->carrier : i;
		if (is_change)
			build_change(r, now, i, out);
		else
			build_barrier(r, now, p, out);
		return true;
	}
	return false;
}

/* MPT-31: how many BARRIERs without an answer are borne. */
static uint32_t tries(const struct mp_requester *r)
{
	for (unsigned i = 0; i < r->config.paths; i++)
		if (r->path[i].state == MP_PATH_GOOD)
			return r->config.barrier_tries;
	return r->config.last_tries;
}

static void expire(struct mp_requester *r, wtime now, unsigned path)
{
	struct mp_path *p = &r->path[path];

	p->deadline = WTIME_NEVER;
	if (p->state == MP_PATH_SUSPECT && p->tries >= tries(r)) {
		fail(r, now, path);
		return;
	}
	p->is_due = true;
	if (p->state != MP_PATH_LEAVING && p->state != MP_PATH_RETURNING)
		return;
	mp_path_suspect(r, p->carrier);
	if (p->tries > r->config.retries)
		r->error = MP_RETRIES_EXCEEDED;
}

void mp_path_expire(struct mp_requester *r, wtime now)
{
	for (unsigned i = 0; i < r->config.paths && !r->error; i++)
		if (r->path[i].deadline <= now)
			expire(r, now, i);
}

bool mp_path_is_too_old(struct mp_requester *r)
{
	uint64_t half = 1ull << (r->config.width - 1);
	bool is_too_old = false;

	if (!r->config.renumbers)
		return false;
	for (unsigned i = 0; i < r->config.paths; i++) {
		struct mp_path *p = &r->path[i];

		if (p->state == MP_PATH_BAD && p->epoch % 2 == 0 && r->ordered_sent - p->failed_at >= half / 2)
			change(p, MP_PATH_LEAVING);
		is_too_old |= p->state == MP_PATH_LEAVING && r->ordered_sent - p->failed_at >= half - 1;
	}
	return is_too_old;
}
