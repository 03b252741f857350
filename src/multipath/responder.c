#include "multipath/responder.h"

#include "base/psn.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

int mp_responder_init(struct mp_responder *r, const struct mp_config *c, const struct mp_target *target)
{
	int error = mp_config_check(c);

	if (error)
		return error;
	*r = (struct mp_responder){ .config = *c, .target = *target, .rsn = c->start };
	r->record = calloc(c->replay, sizeof(*r->record));
	r->answers = calloc(c->replay + 1u, c->mtu_bytes > 8 ? c->mtu_bytes : 8);
	if (r->record && r->answers)
		return 0;
	mp_responder_fini(r);
	return -ENOMEM;
}

void mp_responder_fini(struct mp_responder *r)
{
	free(r->record);
	free(r->answers);
	r->record = NULL;
	r->answers = NULL;
}

static uint8_t *answer_place(const struct mp_responder *r, size_t i)
{
	return r->answers + i * (r->config.mtu_bytes > 8 ? r->config.mtu_bytes : 8);
}

/* MPT-09: the response has the number of its request; tag and attempt tell which request it is of (MPT-13, MPT-25). */
static void respond(struct mp_packet *reply, const struct mp_packet *p, enum mp_type type, enum mp_status status)
{
	*reply = (struct mp_packet){
		.version = MP_VERSION, .type = (uint8_t)type, .code = (uint8_t)status, .order = p->order, .last = p->last,
		.attempt = p->attempt, .connection = p->connection, .pkn = p->pkn, .tag = p->tag,
	};
}

/* MPT-08, MPT-10: RSN moves behind an ordered request that was executed, and only then. */
static enum mp_verdict execute(struct mp_responder *r, const struct mp_packet *p, struct mp_packet *reply)
{
	bool is_ordered = p->order == MP_ORDERED;
	size_t place = is_ordered ? r->ordered % r->config.replay : r->config.replay;
	uint8_t *answer = answer_place(r, place);
	enum mp_status status = r->target.execute(r->target.arg, p, answer);

	if (status != MP_OK) {
		respond(reply, p, MP_NAK, status);
		reply->number = r->rsn;
		if (status == MP_NAK_ACCESS || status == MP_NAK_INVALID || status == MP_NAK_FAILED)
			r->ended = status;
		return MP_REFUSED;
	}
	respond(reply, p, MP_RSP, MP_OK);
	reply->payload = answer;
	reply->payload_bytes = mp_answer_bytes(p->code, p->length);
	if (is_ordered) {
		r->record[place].reply = *reply;
		r->ordered++;
		r->rsn = serial_add(r->rsn, 1, r->config.width);
	}
	return MP_EXECUTED;
}

/* MPT-20: the stored response, for the attempt that asks for it. */
static enum mp_verdict replay(struct mp_responder *r, const struct mp_packet *p, uint64_t behind, struct mp_packet *reply)
{
	const struct mp_packet *stored;

	if (behind > r->ordered || behind > r->config.replay)
		return MP_STALE;
	stored = &r->record[(r->ordered - behind) % r->config.replay].reply;
	if (stored->tag != p->tag)
		return MP_STALE;
	*reply = *stored;
	reply->attempt = p->attempt;
	return MP_REPLAYED;
}

static enum mp_verdict take_request(struct mp_responder *r, unsigned path, const struct mp_packet *p, struct mp_packet *reply)
{
	int64_t d = serial_diff(p->pkn, r->rsn, r->config.width);	/* MPT-19 */

	if (p->length > r->config.mtu_bytes || p->pkn >> r->config.width)
		return MP_FOREIGN;
	if (r->epoch[path] % 2)
		return MP_FILTERED;
	if (r->ended != MP_OK) {
		respond(reply, p, MP_NAK, r->ended);
		return MP_ENDED;
	}
	if (d == 0)
		return execute(r, p, reply);
	if (d < 0)
		return p->order == MP_ORDERED ? replay(r, p, (uint64_t)-d, reply) : MP_STALE;
	if (r->config.is_fast) {
		respond(reply, p, MP_NAK, MP_NAK_SEQUENCE);
		reply->number = r->rsn;
	}
	return MP_AHEAD;
}

/* MPT-34. The requester begins no change before the last one was answered, so that a new one has the next epoch. It comes by
 * another path, which is up (MPT-31): so one of them is up at all times. */
static enum mp_verdict change_path(struct mp_responder *r, unsigned path, const struct mp_packet *p, struct mp_packet *reply)
{
	bool is_next;

	if (r->epoch[path] % 2)
		return MP_FILTERED;
	if (p->path >= r->config.paths || p->path == path)
		return MP_FOREIGN;
	is_next = p->epoch == r->epoch[p->path] + 1;
	if (!is_next && p->epoch != r->epoch[p->path])
		return MP_PATH_OLD;
	r->epoch[p->path] = p->epoch;
	respond(reply, p, (enum mp_type)(p->type + 1), MP_OK);
	reply->path = p->path;
	reply->epoch = p->epoch;
	return is_next ? MP_PATH_CHANGED : MP_PATH_REPEATED;
}

static enum mp_verdict judge(struct mp_responder *r, unsigned path, const struct mp_packet *p, struct mp_packet *reply)
{
	if (path >= r->config.paths || p->connection != r->config.connection)
		return MP_FOREIGN;
	switch (p->type) {
	case MP_REQ:
		return take_request(r, path, p, reply);
	case MP_BARRIER:	/* MPT-29: whatever the state of its path, which it tells */
		respond(reply, p, MP_BARRIER_RSP, MP_OK);
		reply->address = p->address;
		reply->epoch = r->epoch[path];
		return MP_BARRIER_ANSWERED;
	case MP_PATH_DOWN:
	case MP_PATH_UP:
		return change_path(r, path, p, reply);
	default:
		return MP_FOREIGN;
	}
}

bool mp_responder_input(struct mp_responder *r, unsigned path, const struct mp_packet *p, struct mp_packet *reply)
{
	*reply = (struct mp_packet){ 0 };
	r->count[judge(r, path, p, reply)]++;
	return reply->type != 0;
}
