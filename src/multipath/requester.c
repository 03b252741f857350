/* Timers: a packet has T from when it leaves, which may follow the round trip of its path; then the path becomes SUSPECT
 * (MPT-28). What was refused goes again refusal_ns later, or when its target says. The other timers are of paths (paths.c). */
#include "multipath/requester.h"

#include "base/log.h"
#include "base/psn.h"
#include "multipath/completer.h"
#include "multipath/flight.h"
#include "multipath/paths.h"
#include "wire/field.h"

#include <errno.h>
#include <stdlib.h>

int mp_requester_init(struct mp_requester *r, const struct mp_config *c)
{
	int error = mp_config_check(c);

	if (error)
		return error;
	*r = (struct mp_requester){ .config = *c, .rqn = c->start };
	r->config.flights++;
	rand_seed(&r->rand, c->seed);
	r->tag = (uint32_t)rand_u64(&r->rand);
	for (unsigned i = 0; i < c->paths; i++)
		r->path[i].deadline = WTIME_NEVER;
	r->work = calloc(c->requests, sizeof(*r->work));
	r->flight = calloc(r->config.flights, sizeof(*r->flight));
	if (r->work && r->flight)
		return 0;
	mp_requester_fini(r);
	return -ENOMEM;
}

void mp_requester_fini(struct mp_requester *r)
{
	free(r->work);
	free(r->flight);
	r->work = NULL;
	r->flight = NULL;
}

/* ---- what is posted, and done ---- */

static struct mp_work *work_at(struct mp_requester *r, uint64_t n)
{
	return &r->work[n % r->config.requests];
}

static bool is_atomic(enum mp_opcode opcode)
{
	return opcode == MP_COMPARE_SWAP || opcode == MP_FETCH_ADD || opcode == MP_ATOMIC_WRITE;
}

int mp_requester_post(struct mp_requester *r, const struct mp_request *request)
{
	if (!mp_opcode_is_known(request->opcode) || request->opcode == MP_NOP)
		return -EINVAL;
	if (request->address + request->bytes < request->address)
		return -EINVAL;
	if ((request->is_unordered || request->ends_ordered) && !mp_opcode_may_be_unordered(request->opcode))	/* MPT-23 */
		return -EINVAL;
	if (request->trailer && (request->is_unordered || (request->opcode != MP_SEND && request->opcode != MP_WRITE)))
		return -EINVAL;
	if (is_atomic(request->opcode) && request->bytes != 8)
		return -EINVAL;
	if (r->error)
		return -EPIPE;
	if (r->posted - r->done >= r->config.requests)
		return -ENOMEM;
	*work_at(r, r->posted++) = (struct mp_work){ .request = *request };
	return 0;
}

bool mp_requester_poll(struct mp_requester *r, struct mp_completion *c)
{
	struct mp_work *w = work_at(r, r->done);
	bool is_done = r->done < r->posted && w->has_left && !w->unanswered;

	if (r->done == r->posted || (!is_done && !r->error))
		return false;
	*c = (struct mp_completion){ .id = w->request.id, .status = is_done ? MP_OK : r->error };
	if (!is_done)		/* MPT-35: no later one is done */
		r->error = MP_FLUSHED;
	r->done++;
	return true;
}

/* ---- packets that leave ---- */

static void build(struct mp_requester *r, const struct mp_flight *f, struct mp_packet *out)
{
	const struct mp_request *q = &r->work[f->work].request;

	*out = (struct mp_packet){
		.version = MP_VERSION, .type = MP_REQ, .code = (uint8_t)f->opcode,
		.order = f->is_ordered ? MP_ORDERED : MP_UNORDERED, .last = 1, .attempt = f->attempt,
		.connection = r->config.connection, .pkn = f->pkn, .tag = f->tag,
	};
	if (f->opcode == MP_NOP)
		return;
	out->last = f->offset + f->bytes == q->bytes;
	if (out->last && f->is_ordered) {
		out->solicited = q->is_solicited;
		out->trailer = (uint8_t)q->trailer;
		out->extra = q->extra;
	}
	out->number = f->offset / r->config.mtu_bytes;
	out->total = q->bytes;
	out->length = f->bytes;
	out->key = q->key;
	out->address = f->address;
	if (is_atomic(q->opcode)) {
		wire_put(r->operands, q->operand[0], 0, 0, 64);
		wire_put(r->operands, q->operand[1], 8, 0, 64);
		out->payload = r->operands;
		out->payload_bytes = q->opcode == MP_COMPARE_SWAP ? 16 : 8;
	} else if (q->opcode != MP_READ) {
		out->payload = q->from ? (const uint8_t *)q->from + f->offset : NULL;
		out->payload_bytes = f->bytes;
	}
}

static void send(struct mp_requester *r, wtime now, struct mp_flight *f, unsigned path, struct mp_packet *out)
{
	f->phase = MP_SENT;
	f->leaving = r->leavings++;
	r->left = f;
	f->path = (uint8_t)path;
	f->sent_at = now;
	f->deadline = now + mp_path_patience(r, path);
	r->path[path].flights++;
	r->count.requests++;
	build(r, f, out);
}

/* MPT-17: ordered packets are on one path at a time, and leave it when there are none or it is known what became of them. */
static bool pick_ordered_path(struct mp_requester *r, unsigned *path)
{
	enum mp_path_state state = r->path[r->ordered_path].state;
	bool may_land = r->ordered && (state == MP_PATH_SUSPECT || state == MP_PATH_LEAVING);

	if (state != MP_PATH_GOOD && (may_land || !mp_path_pick(r, &r->ordered_path)))
		return false;
	*path = r->ordered_path;
	return true;
}

/* MPT-15: what is unordered waits for the answers to the ordered packets in flight, or leaves behind them by their path. */
static bool pick_unordered_path(struct mp_requester *r, unsigned *path)
{
	if (!r->ordered)
		return mp_path_pick(r, path);
	if (!r->config.follows_ordered || r->path[r->ordered_path].state != MP_PATH_GOOD || mp_flight_first_ready(r, true))
		return false;
	*path = r->ordered_path;
	return true;
}

static bool send_again(struct mp_requester *r, wtime now, unsigned *path, struct mp_packet *out)
{
	struct mp_flight *f = mp_flight_first_ready(r, true);

	if (f && f->deadline <= now && pick_ordered_path(r, path)) {
		send(r, now, f, *path, out);
		return true;
	}
	f = mp_flight_first_ready(r, false);
	if (!f || f->deadline > now)
		return false;
	if (!r->ordered && r->path[f->path].state == MP_PATH_GOOD)	/* MPT-30 */
		*path = f->path;
	else if (!pick_unordered_path(r, path))
		return false;
	send(r, now, f, *path, out);
	return true;
}

/* MPT-14, MPT-26 */
static bool may_send_ordered(struct mp_requester *r)
{
	uint32_t oldest = r->rqn;

	if (r->unordered || mp_flight_first_ready(r, true) || mp_path_is_too_old(r))
		return false;
	for (unsigned i = 0; i < r->config.flights; i++)
		if (r->flight[i].phase != MP_FREE && r->flight[i].is_ordered &&
		    serial_diff(r->flight[i].pkn, oldest, r->config.width) < 0)
			oldest = r->flight[i].pkn;
	return serial_diff(r->rqn, oldest, r->config.width) < r->config.window;
}

/* MPT-24: an earlier attempt might land on top of the later data. A READ is to find what was written before it. */
static bool overlaps_write(const struct mp_requester *r, const struct mp_request *q, uint32_t offset, uint32_t bytes)
{
	for (unsigned i = 0; i < r->config.flights; i++) {
		const struct mp_flight *f = &r->flight[i];
		uint64_t from = q->address + offset;

		if (f->phase == MP_FREE || f->is_ordered || f->opcode != MP_WRITE)
			continue;
		if (f->space != q->space || (f->address < from + bytes && from < f->address + f->bytes))
			return true;
	}
	return false;
}

/* MPT-06, MPT-12: the number is stamped, and then grows. */
static void advance(struct mp_requester *r)
{
	r->rqn = serial_add(r->rqn, 1, r->config.width);
	r->ordered_sent++;
	r->count.ordered++;
}

/* MPT-37: when nothing else is under way, an ordered packet that does nothing closes the span; what is stuck has the next number
 * then, and the copies that may land yet are behind. */
static bool renumber(struct mp_requester *r, wtime now, unsigned *path, struct mp_packet *out)
{
	struct mp_flight *f;

	if (r->ordered)
		return false;
	for (unsigned i = 0; i < r->config.flights; i++)
		if (r->flight[i].phase == MP_READY || r->flight[i].phase == MP_SENT)
			return false;
	if (mp_path_is_too_old(r) || !pick_ordered_path(r, path))
		return false;
	f = mp_flight_new(r, true);
	if (!f)
		return false;
	f->opcode = MP_NOP;
	r->count.nops++;
	send(r, now, f, *path, out);
	advance(r);
	for (unsigned i = 0; i < r->config.flights; i++)
		if (r->flight[i].phase == MP_STUCK)
			r->flight[i].pkn = r->rqn;
	r->must_renumber = false;
	return true;
}

/* MPT-05: a request leaves as packets of at most the MTU, in posting order. */
static bool send_fresh(struct mp_requester *r, wtime now, unsigned *path, struct mp_packet *out)
{
	struct mp_work *w = work_at(r, r->started);
	const struct mp_request *q = &w->request;
	bool is_ordered;
	uint32_t bytes;
	struct mp_flight *f;

	if (r->started == r->posted || r->ordered + r->unordered + 1 >= r->config.flights)
		return false;
	bytes = q->bytes - w->sent < r->config.mtu_bytes ? q->bytes - w->sent : r->config.mtu_bytes;
	is_ordered = !q->is_unordered && !(q->ends_ordered && w->sent + bytes < q->bytes);
	if (is_ordered && (!may_send_ordered(r) || !pick_ordered_path(r, path)))
		return false;
	if (!is_ordered && (overlaps_write(r, q, w->sent, bytes) || !pick_unordered_path(r, path)))
		return false;
	f = mp_flight_new(r, is_ordered);
	if (!f)
		return false;
	f->work = (size_t)(r->started % r->config.requests);
	f->opcode = q->opcode;
	f->space = q->space;
	f->offset = w->sent;
	f->address = (q->opcode == MP_SEND ? 0 : q->address) + w->sent;
	f->bytes = bytes;
	w->sent += bytes;
	w->unanswered++;
	w->has_left = w->sent == q->bytes;
	r->started += w->has_left;
	send(r, now, f, *path, out);
	if (f->is_ordered)
		advance(r);
	else
		r->count.unordered++;
	return true;
}

/* What was stuck leaves under its new number when the packet in front of it was answered. */
static void unstick(struct mp_requester *r)
{
	if (r->must_renumber || r->ordered)
		return;
	for (unsigned i = 0; i < r->config.flights; i++) {
		if (r->flight[i].phase != MP_STUCK)
			continue;
		r->flight[i].phase = MP_READY;
		r->flight[i].deadline = 0;
	}
}

bool mp_requester_output(struct mp_requester *r, wtime now, unsigned *path, struct mp_packet *out)
{
	if (r->error)
		return false;
	if (mp_path_output(r, now, path, out) || send_again(r, now, path, out))
		return true;
	if (r->must_renumber)
		return renumber(r, now, path, out);
	return send_fresh(r, now, path, out);
}

/* ---- what comes, and time ---- */

void mp_requester_input(struct mp_requester *r, wtime now, unsigned path, const struct mp_packet *p)
{
	if (r->error)
		return;
	if (path >= r->config.paths || p->connection != r->config.connection)
		r->count.foreign++;
	else if (p->type == MP_RSP || p->type == MP_NAK)
		mp_completer_input(r, now, path, p);
	else
		mp_path_input(r, now, path, p);
	unstick(r);
}

wtime mp_requester_deadline(const struct mp_requester *r)
{
	wtime deadline = WTIME_NEVER;

	if (r->error)
		return WTIME_NEVER;
	for (unsigned i = 0; i < r->config.paths; i++)
		deadline = wtime_min(deadline, r->path[i].deadline);
	for (unsigned i = 0; i < r->config.flights; i++) {
		const struct mp_flight *f = &r->flight[i];
		bool waits = f->phase == MP_READY && f->deadline;
		bool is_timed = f->phase == MP_SENT && r->path[f->path].state == MP_PATH_GOOD;

		if (waits || is_timed)
			deadline = wtime_min(deadline, f->deadline);
	}
	return deadline;
}

void mp_requester_expire(struct mp_requester *r, wtime now)
{
	if (r->error)
		return;
	mp_path_expire(r, now);
	for (unsigned i = 0; i < r->config.flights && !r->error; i++) {
		struct mp_flight *f = &r->flight[i];

		if (f->phase == MP_SENT && f->deadline <= now)
			mp_path_suspect(r, f->path);
		else if (f->phase == MP_READY && f->deadline <= now)
			f->deadline = 0;
	}
	unstick(r);
}
