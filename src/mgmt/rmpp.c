/* Timers: a sender has one, set when a segment is sent and when an ACK acknowledges something new: the receiver's RRespTime and
 * twice the flight, at least config.ack_ns. When it ends, all that is not acknowledged goes again, config.retries times in a row,
 * each after twice the wait, up to RMPP_ACK_MOST_NS. Where ACKs were seen to take less (RFC 6298: their mean and four times what
 * they differ by, at least config.soonest_ns) the first waits are as short; those below config.ack_ns are no retries.
 * It rests while more of the datagram is made within an open window: a receiver acknowledges whole windows.
 * A receiver has one: config.idle_ns after the last segment. Both end config.total_ns after the first segment, or later where
 * that has said that there are megabytes.
 *
 * Losses are mended before that: a segment beyond the next one is kept and acknowledged by what is in order, so that an ACK which
 * acknowledges nothing new tells the sender of a loss, once until what was sent then is acknowledged. It sends the one missing
 * segment again; the ACK of that names the next one missing. Linux's receiver keeps segments too, but says so at the end of its
 * window alone: there the timer mends it. */
#include "mgmt/rmpp.h"

#include "wire/field.h"

#include <stdlib.h>
#include <string.h>

/* IBA 13.6.2.1, figure 171 */
#define RMPP_VERSION 24, 0, 8
#define RMPP_TYPE 25, 0, 8
#define RMPP_RESP_TIME 26, 0, 5
#define RMPP_IS_LAST 26, 5, 1
#define RMPP_IS_FIRST 26, 6, 1
#define RMPP_IS_ACTIVE 26, 7, 1
#define RMPP_STATUS 27, 0, 8
#define RMPP_DATA1 28, 0, 32
#define RMPP_DATA2 32, 0, 32
#define MAD_METHOD 3, 0, 8
#define MAD_CLASS 1, 0, 8

enum {
	VERSION = 1,
	METHOD_RESPONSE = 0x80,		/* 13.4.5 */
	RESP_TIME_NONE = 31,		/* 13.6.2.1 */
	PAYLOAD = MAD_BYTES - RMPP_HEADER_END,	/* of a full segment, as PayloadLength counts */
	AHEAD_EACH = 16,		/* our choice: of segments beyond the next one, the first and each 16th is acknowledged */
};

void rmpp_parse(struct rmpp_header *h, const uint8_t mad[MAD_BYTES])
{
	*h = (struct rmpp_header){
		.version = (uint8_t)wire_get(mad, RMPP_VERSION),
		.type = (uint8_t)wire_get(mad, RMPP_TYPE),
		.status = (uint8_t)wire_get(mad, RMPP_STATUS),
		.resp_time = (uint8_t)wire_get(mad, RMPP_RESP_TIME),
		.is_active = wire_get(mad, RMPP_IS_ACTIVE),
		.is_first = wire_get(mad, RMPP_IS_FIRST),
		.is_last = wire_get(mad, RMPP_IS_LAST),
		.segment = (uint32_t)wire_get(mad, RMPP_DATA1),
		.value = (uint32_t)wire_get(mad, RMPP_DATA2),
	};
}

unsigned rmpp_data_offset(uint8_t mgmt_class)
{
	switch (mgmt_class) {
	case MAD_CLASS_SA:
		return 56;
	case MAD_CLASS_DEVICE:
	case 0x10:			/* device administration */
	case 0x12:			/* BIS */
		return 64;
	default:
		return mgmt_class >= 0x30 && mgmt_class <= 0x4f ? 40 : RMPP_HEADER_END;
	}
}

static unsigned offset_of(const uint8_t *mad)
{
	return rmpp_data_offset((uint8_t)wire_get(mad, MAD_CLASS));
}

/* What is wrong with a header by itself. Other versions may have other types and statuses. */
static enum rmpp_status check_header(const struct rmpp_header *h)
{
	if (h->version != VERSION)
		return RMPP_BAD_VERSION;
	switch (h->type) {
	case RMPP_DATA:
	case RMPP_ACK:
		return h->status == RMPP_NORMAL ? RMPP_NORMAL : RMPP_BAD_STATUS;
	case RMPP_STOP:
		return h->status == RMPP_NO_RESOURCES ? RMPP_NORMAL : RMPP_BAD_STATUS;
	case RMPP_ABORT:
		return h->status >= RMPP_TOO_LONG ? RMPP_NORMAL : RMPP_BAD_STATUS;
	default:
		return RMPP_BAD_TYPE;
	}
}

static void fill_config(struct rmpp_config *to, const struct rmpp_config *from)
{
	*to = *from;
	to->window = from->window ? from->window : RMPP_WINDOW;
	if (to->window > RMPP_WINDOW_MOST)
		to->window = RMPP_WINDOW_MOST;
	to->retries = from->retries ? from->retries : RMPP_RETRIES;
	to->ack_ns = from->ack_ns ? from->ack_ns : RMPP_ACK_NS;
	to->idle_ns = from->idle_ns ? from->idle_ns : RMPP_IDLE_NS;
	to->total_ns = from->total_ns ? from->total_ns : RMPP_TOTAL_NS;
	to->most = from->most ? from->most : UINT32_MAX;
}

static wtime total_of(const struct rmpp_config *c, uint32_t bytes)
{
	return c->total_ns + (bytes >> 20) * RMPP_TOTAL_EACH_NS;
}

/* ---- what is sent back ---- */

/* turns: the MAD came from the other side. Linux turns the response bit, as requests are acknowledged by what is no request. */
static void build(const uint8_t *mad, uint32_t bytes, bool turns, enum rmpp_type type, uint8_t to[MAD_BYTES])
{
	memset(to, 0, MAD_BYTES);
	memcpy(to, mad, bytes);
	if (turns)
		to[3] ^= METHOD_RESPONSE;
	wire_put(to, VERSION, RMPP_VERSION);
	wire_put(to, type, RMPP_TYPE);
	wire_put(to, RESP_TIME_NONE, RMPP_RESP_TIME);
	wire_put(to, 1, RMPP_IS_ACTIVE);
	wire_put(to, 0, RMPP_IS_FIRST);
	wire_put(to, 0, RMPP_IS_LAST);
	wire_put(to, 0, RMPP_STATUS);
	wire_put(to, 0, RMPP_DATA1);
	wire_put(to, 0, RMPP_DATA2);
}

/* With the class's header: of a vendor's class it says whom a MAD is for (16.5.2). */
static void build_end(const uint8_t *mad, uint32_t bytes, bool turns, enum rmpp_status status, uint8_t to[MAD_BYTES])
{
	uint32_t offset = offset_of(mad);

	build(mad, bytes < offset ? bytes : offset, turns, status == RMPP_NO_RESOURCES ? RMPP_STOP : RMPP_ABORT, to);
	wire_put(to, status, RMPP_STATUS);
}

void rmpp_ack(const uint8_t mad[MAD_BYTES], uint32_t segment, uint32_t window_last, uint8_t reply[MAD_BYTES])
{
	build(mad, offset_of(mad), true, RMPP_ACK, reply);
	wire_put(reply, segment, RMPP_DATA1);
	wire_put(reply, window_last, RMPP_DATA2);
}

void rmpp_end(const uint8_t mad[MAD_BYTES], enum rmpp_status status, uint8_t reply[MAD_BYTES])
{
	build_end(mad, MAD_BYTES, true, status, reply);
}

/* ---- sending ---- */

void rmpp_send_init(struct rmpp_send *s, const struct rmpp_config *config, const uint8_t *data, uint32_t bytes)
{
	uint32_t offset = offset_of(data), room = MAD_BYTES - offset;
	uint32_t left = bytes > offset ? bytes - offset : 0;

	*s = (struct rmpp_send){ .data = data, .bytes = bytes, .next = 1, .window_last = 1,
				.ends = WTIME_NEVER, .deadline = WTIME_NEVER };
	fill_config(&s->config, config);
	s->wait = s->config.ack_ns;
	s->segments = left ? (left + room - 1) / room : 1;
}

/* Of one that is open, what is behind the last whole segment waits: it may be the end of all. */
void rmpp_send_more(struct rmpp_send *s, const uint8_t *data, uint32_t bytes, bool is_open)
{
	uint32_t offset = offset_of(data), room = MAD_BYTES - offset, left = bytes > offset ? bytes - offset : 0;
	uint32_t whole = left ? (left - 1) / room : 0, before = s->segments;

	s->data = data;
	s->bytes = bytes;
	s->is_open = is_open;
	s->segments = s->gone + whole + !is_open;
	if (s->ends != WTIME_NEVER && s->segments > before)
		s->ends += (s->segments - before) * (uint64_t)room * RMPP_TOTAL_EACH_NS >> 20;
}

uint32_t rmpp_send_trim(struct rmpp_send *s, uint8_t *data)
{
	uint32_t offset = offset_of(data), drop = (s->acked - s->gone) * (MAD_BYTES - offset);

	if (!drop)
		return s->bytes;
	memmove(data + offset, data + offset + drop, s->bytes - offset - drop);
	s->gone = s->acked;
	s->bytes -= drop;
	return s->bytes;
}

uint32_t rmpp_send_missing(const struct rmpp_send *s)
{
	uint32_t open = s->window_last - s->acked, ahead = s->segments - s->acked;

	if (s->window_last <= s->acked)
		return 0;
	if (open > RMPP_WINDOW_MOST)
		open = RMPP_WINDOW_MOST;
	return open > ahead ? open - ahead : 0;
}

bool rmpp_send_is_starved(const struct rmpp_send *s)
{
	return s->is_open && s->next > s->segments && rmpp_send_missing(s);
}

void rmpp_send_abort(struct rmpp_send *s, enum rmpp_status status, uint8_t last[MAD_BYTES])
{
	s->status = (uint8_t)status;
	build_end(s->data, s->bytes, false, status, last);
}

/* The first segment tells the bytes of all, the last its own; both with what comes with each segment (13.6.2.2). */
static uint32_t payload_length(const struct rmpp_send *s, uint32_t segment)
{
	uint32_t offset = offset_of(s->data), head = offset - RMPP_HEADER_END, left = s->bytes > offset ? s->bytes - offset : 0;

	if (s->is_open)
		return 0;
	if (segment == 1)
		return s->segments * head + left;
	return segment == s->segments ? head + left - (segment - 1 - s->gone) * (MAD_BYTES - offset) : 0;
}

static void build_segment(const struct rmpp_send *s, uint32_t segment, uint8_t mad[MAD_BYTES])
{
	uint32_t offset = offset_of(s->data), room = MAD_BYTES - offset, at = offset + (segment - 1 - s->gone) * room;
	uint32_t left = s->bytes > at ? s->bytes - at : 0;

	memset(mad, 0, MAD_BYTES);
	memcpy(mad, s->data, s->bytes < offset ? s->bytes : offset);
	if (left)
		memcpy(mad + offset, s->data + at, left < room ? left : room);
	wire_put(mad, VERSION, RMPP_VERSION);
	wire_put(mad, RMPP_DATA, RMPP_TYPE);
	wire_put(mad, 1, RMPP_IS_ACTIVE);
	wire_put(mad, segment == 1, RMPP_IS_FIRST);
	wire_put(mad, segment == s->segments && !s->is_open, RMPP_IS_LAST);
	wire_put(mad, 0, RMPP_STATUS);
	wire_put(mad, segment, RMPP_DATA1);
	wire_put(mad, payload_length(s, segment), RMPP_DATA2);
}

static void set_send_timer(struct rmpp_send *s, wtime now)
{
	if (s->ends == WTIME_NEVER)
		s->ends = now + total_of(&s->config, s->bytes);
	s->deadline = wtime_min(now + s->wait, s->ends);
}

/* Any that goes for the first time, one after the other; one that went twice tells nothing (Karn). The last of a window would not
 * do: in a wide one that loses much, its ACK comes after a timeout each time. */
static void begin_timing(struct rmpp_send *s, wtime now, uint32_t segment)
{
	if (segment == s->timed)
		s->timed = 0;
	if (s->timed || segment <= s->sent)
		return;
	s->timed = segment;
	s->timed_at = now;
}

static void end_timing(struct rmpp_send *s, wtime now)
{
	wtime took = now - s->timed_at, differs = took > s->took ? took - s->took : s->took - took;

	if (!s->timed || s->acked < s->timed)
		return;
	s->timed = 0;
	s->varies = s->has_taken ? (3 * s->varies + differs) / 4 : took / 2;
	s->took = s->has_taken ? (7 * s->took + took) / 8 : took;
	s->has_taken = true;
}

/* How long an ACK takes at most, as far as that is known. */
static wtime learnt(const struct rmpp_send *s)
{
	wtime wait = s->took + 4 * s->varies;

	if (!s->config.soonest_ns || !s->has_taken)
		return WTIME_NEVER;
	return wait > s->config.soonest_ns ? wait : s->config.soonest_ns;
}

bool rmpp_send_output(struct rmpp_send *s, wtime now, uint8_t mad[MAD_BYTES])
{
	uint32_t segment = s->again;

	s->again = 0;
	if (!segment) {
		if (s->next > s->segments || s->next > s->window_last)
			return false;
		segment = s->next++;
	}
	build_segment(s, segment, mad);
	begin_timing(s, now, segment);
	if (segment > s->sent)
		s->sent = segment;
	set_send_timer(s, now);
	return true;
}

static enum rmpp_verdict end_send(struct rmpp_send *s, const uint8_t *mad, enum rmpp_status status, bool *answers, uint8_t *reply)
{
	s->status = (uint8_t)status;
	rmpp_end(mad, status, reply);
	*answers = true;
	return RMPP_FAILED;
}

/* 13.6.3.1: twice the flight, and what the receiver says that it needs. A receiver that says nearly nothing is no reason to send
 * all again before its ACK can come. */
static wtime wait_of(const struct rmpp_send *s, const struct rmpp_header *h)
{
	wtime wait = 2 * s->config.flight_ns + (4096ull << h->resp_time);

	if (h->resp_time == RESP_TIME_NONE || wait < s->config.ack_ns)
		return s->config.ack_ns;
	return wtime_min(wait, RMPP_ACK_MOST_NS);
}

static void see_loss(struct rmpp_send *s)
{
	if (!s->recovers_to)
		s->recovers_to = s->sent;
	s->again = s->acked + 1;
}

/* Figure 178: no ACK of more takes back what was let go, of the segments that there are. */
static bool closes_window(const struct rmpp_send *s, const struct rmpp_header *h)
{
	return h->segment > s->acked && h->value < s->window_last && (s->is_open || h->value < s->segments);
}

/* An ACK that is neither older than what is known nor wrong. */
static void take_ack(struct rmpp_send *s, const struct rmpp_header *h)
{
	bool is_new = h->segment > s->acked, opens = h->value > s->window_last;

	if (is_new) {
		s->retries = 0;
		s->acked = h->segment;
		/* of what goes again, some may have come */
		if (s->next <= s->acked)
			s->next = s->acked + 1;
		if (s->again <= s->acked)
			s->again = 0;
	}
	if (opens)
		s->window_last = h->value;
	if (s->recovers_to <= s->acked)
		s->recovers_to = 0;
	/* in a recovery an ACK names the next segment missing; without one, an ACK of nothing new begins it, but segment 0's */
	if (!h->segment || s->sent == s->acked || s->next == s->acked + 1)
		return;
	if (is_new ? s->recovers_to != 0 : !opens && !s->recovers_to)
		see_loss(s);
}

enum rmpp_verdict rmpp_send_input(struct rmpp_send *s, wtime now, const uint8_t mad[MAD_BYTES], bool *answers,
				  uint8_t reply[MAD_BYTES])
{
	enum rmpp_status wrong;
	struct rmpp_header h;
	bool is_new;

	*answers = false;
	rmpp_parse(&h, mad);
	wrong = check_header(&h);
	if (wrong)
		return end_send(s, mad, wrong, answers, reply);
	if (h.type == RMPP_STOP || h.type == RMPP_ABORT) {
		s->status = h.status;
		return RMPP_FAILED;
	}
	if (h.type != RMPP_ACK)
		return RMPP_GOES_ON;
	if (h.value < h.segment)
		return end_send(s, mad, RMPP_WINDOW_SMALL, answers, reply);
	if (h.segment > s->sent)
		return end_send(s, mad, RMPP_SEGMENT_BIG, answers, reply);
	if (closes_window(s, &h))
		return end_send(s, mad, RMPP_WINDOW_SMALL, answers, reply);
	if (h.segment < s->acked)
		return RMPP_GOES_ON;
	is_new = h.segment > s->acked;
	take_ack(s, &h);
	end_timing(s, now);
	if (is_new) {
		s->wait = wtime_min(wait_of(s, &h), learnt(s));
		set_send_timer(s, now);
	}
	if (s->acked < s->segments || s->is_open)
		return RMPP_GOES_ON;
	s->deadline = WTIME_NEVER;
	if (s->is_two_sided) {
		rmpp_ack(mad, 0, 1, reply);
		*answers = true;
	}
	return RMPP_DONE;
}

enum rmpp_verdict rmpp_send_expire(struct rmpp_send *s, wtime now, uint8_t last[MAD_BYTES])
{
	if ((rmpp_send_is_starved(s) ? s->ends : s->deadline) > now)
		return RMPP_GOES_ON;
	if (s->ends <= now || (s->wait >= s->config.ack_ns && s->retries++ == s->config.retries)) {
		s->status = s->ends <= now ? RMPP_TOO_LONG : RMPP_RETRIES_OVER;
		build_end(s->data, s->bytes, false, (enum rmpp_status)s->status, last);
		return RMPP_FAILED;
	}
	s->next = s->acked + 1;
	s->again = s->recovers_to = 0;
	if (s->wait < RMPP_ACK_MOST_NS)
		s->wait = wtime_min(2 * s->wait, RMPP_ACK_MOST_NS);
	set_send_timer(s, now);
	return RMPP_GOES_ON;
}

/* ---- receiving ---- */

void rmpp_recv_init(struct rmpp_recv *r, const struct rmpp_config *config)
{
	*r = (struct rmpp_recv){ .window_last = 1, .deadline = WTIME_NEVER };
	fill_config(&r->config, config);
}

void rmpp_recv_fini(struct rmpp_recv *r)
{
	free(r->data);
	r->data = NULL;
}

static enum rmpp_verdict end_recv(struct rmpp_recv *r, const uint8_t *mad, enum rmpp_status status, bool *answers, uint8_t *reply)
{
	r->status = (uint8_t)status;
	rmpp_end(mad, status, reply);
	*answers = true;
	return RMPP_FAILED;
}

static bool make_room(struct rmpp_recv *r, uint64_t bytes)
{
	uint64_t room = r->room ? r->room : 4096;
	uint8_t *data;

	if (bytes > r->config.most)
		return false;
	while (room < bytes)
		room *= 2;
	room = room < r->config.most ? room : r->config.most;
	if (room == r->room)
		return true;
	data = room <= UINT32_MAX ? realloc(r->data, room) : NULL;
	if (!data)
		return false;
	r->data = data;
	r->room = (uint32_t)room;
	return true;
}

static bool is_held(const struct rmpp_recv *r, uint32_t segment)
{
	return r->held[segment % RMPP_WINDOW_MOST / 64] >> segment % 64 & 1;
}

/* Segments that the first one's PayloadLength speaks of; 0: it says nothing. */
static uint32_t segments_of(uint32_t payload)
{
	return payload / PAYLOAD + (payload % PAYLOAD != 0);
}

/* What segment 1 says is right for all; what the last one says must agree (13.6.2.1). */
static enum rmpp_status check_segment(const struct rmpp_recv *r, const struct rmpp_header *h, unsigned offset)
{
	uint32_t payload = h->segment == 1 ? h->value : r->payload, all = segments_of(payload), head = offset - RMPP_HEADER_END;

	if (!h->segment || h->is_first != (h->segment == 1))
		return RMPP_BAD_FIRST;
	if (r->end && h->segment > r->end)
		return RMPP_SEGMENT_BIG;
	if (!h->is_last)
		return all && h->segment >= all ? RMPP_BAD_LENGTH : RMPP_NORMAL;
	if (h->value < head || h->value > PAYLOAD || (r->end && r->end != h->segment) || h->segment < r->highest)
		return RMPP_BAD_LENGTH;
	if (payload && (all != h->segment || (uint64_t)(h->segment - 1) * PAYLOAD + h->value != payload))
		return RMPP_BAD_LENGTH;
	return RMPP_NORMAL;
}

/* A segment within the window that has not come yet: to its place. */
static enum rmpp_status keep(struct rmpp_recv *r, wtime now, const struct rmpp_header *h, const uint8_t *mad)
{
	unsigned offset = offset_of(mad);
	uint32_t room = MAD_BYTES - offset, bytes = h->is_last ? h->value - (offset - RMPP_HEADER_END) : room;
	uint64_t at = offset + (uint64_t)(h->segment - 1) * room;

	if (h->segment == 1) {
		r->payload = h->value;
		r->began = now;
		if (h->value > segments_of(h->value) * (offset - RMPP_HEADER_END) + (uint64_t)r->config.most)
			return RMPP_NO_RESOURCES;
	}
	if (!make_room(r, at + bytes))
		return RMPP_NO_RESOURCES;
	if (h->segment == 1)
		memcpy(r->data, mad, offset);
	memcpy(r->data + at, mad + offset, bytes);
	r->held[h->segment % RMPP_WINDOW_MOST / 64] |= 1ull << h->segment % 64;
	r->kept++;
	if (h->segment > r->highest)
		r->highest = h->segment;
	if (h->is_last) {
		r->end = h->segment;
		r->end_bytes = bytes;
	}
	return RMPP_NORMAL;
}

/* Goes on over what has come. True: the sender is told, as its window ends, all has come, or segments are missing. */
static bool advance(struct rmpp_recv *r, uint32_t segment)
{
	bool was_ahead = r->kept > 1;

	if (segment != r->last + 1)
		return r->ahead++ % AHEAD_EACH == 0;
	r->ahead = 0;
	while (r->last < r->window_last && is_held(r, r->last + 1)) {
		r->last++;
		r->kept--;
		r->held[r->last % RMPP_WINDOW_MOST / 64] &= ~(1ull << r->last % 64);
	}
	return was_ahead || r->last == r->window_last || r->last == r->end;
}

/* Bytes of a datagram that does not say how long it is: what has come of it. */
static uint32_t said_or_seen(const struct rmpp_recv *r)
{
	return r->payload ? r->payload : r->room;
}

/* A window begins where the last one ended: so each has one ACK. */
static void open_window(struct rmpp_recv *r)
{
	if (r->last == r->window_last)
		r->window_last = r->last > UINT32_MAX - r->config.window ? UINT32_MAX : r->last + r->config.window;
}

static enum rmpp_verdict take_segment(struct rmpp_recv *r, wtime now, const struct rmpp_header *h, const uint8_t *mad,
				      bool *answers, uint8_t *reply)
{
	uint8_t mgmt_class = (uint8_t)wire_get(mad, MAD_CLASS);
	enum rmpp_status wrong;

	if (r->highest && mgmt_class != r->mgmt_class)
		return RMPP_GOES_ON;
	wrong = check_segment(r, h, offset_of(mad));
	if (wrong)
		return end_recv(r, mad, wrong, answers, reply);
	if (h->segment > r->window_last)
		return RMPP_GOES_ON;
	r->mgmt_class = mgmt_class;
	if (h->segment <= r->last || is_held(r, h->segment)) {
		*answers = true;	/* the sender has not heard of it */
	} else {
		wrong = keep(r, now, h, mad);
		if (wrong)
			return end_recv(r, mad, wrong, answers, reply);
		*answers = advance(r, h->segment);
		open_window(r);
	}
	r->deadline = wtime_min(now + r->config.idle_ns, r->began + total_of(&r->config, said_or_seen(r)));
	memcpy(r->head, mad, sizeof(r->head));
	if (*answers)
		rmpp_ack(mad, r->last, r->window_last, reply);
	if (!r->end || r->last != r->end)
		return RMPP_GOES_ON;
	r->bytes = offset_of(mad) + (r->end - 1) * (MAD_BYTES - offset_of(mad)) + r->end_bytes;
	return RMPP_DONE;
}

enum rmpp_verdict rmpp_recv_input(struct rmpp_recv *r, wtime now, const uint8_t mad[MAD_BYTES], bool *answers,
				  uint8_t reply[MAD_BYTES])
{
	enum rmpp_status wrong;
	struct rmpp_header h;

	*answers = false;
	rmpp_parse(&h, mad);
	wrong = check_header(&h);
	if (wrong)
		return end_recv(r, mad, wrong, answers, reply);
	if (h.type == RMPP_STOP || h.type == RMPP_ABORT) {
		r->status = h.status;
		return RMPP_FAILED;
	}
	return h.type == RMPP_DATA ? take_segment(r, now, &h, mad, answers, reply) : RMPP_GOES_ON;
}

enum rmpp_verdict rmpp_recv_expire(struct rmpp_recv *r, wtime now, uint8_t reply[MAD_BYTES])
{
	if (r->deadline > now)
		return RMPP_GOES_ON;
	r->status = RMPP_TOO_LONG;
	build_end(r->head, sizeof(r->head), true, RMPP_TOO_LONG, reply);
	return RMPP_FAILED;
}
