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
	METHOD_RESPONSE = 0x80,		/* 13.4.5 */
	RESP_TIME_NONE = 31,		/* 13.6.2.1 */
	STATUS_BAD_LENGTH = 118,	/* InconsistentFirstLast and neighbours: 13.6.2.4, table 156 */
	STATUS_TOO_LONG = 1,		/* resources exhausted: the same table */
};

void rmpp_parse(struct rmpp_header *h, const uint8_t mad[MAD_BYTES])
{
	*h = (struct rmpp_header){
		.type = (uint8_t)wire_get(mad, RMPP_TYPE),
		.status = (uint8_t)wire_get(mad, RMPP_STATUS),
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

/* ---- sending ---- */

void rmpp_send_init(struct rmpp_send *s, const uint8_t *data, uint32_t bytes)
{
	uint32_t offset = offset_of(data), room = MAD_BYTES - offset;
	uint32_t left = bytes > offset ? bytes - offset : 0;

	*s = (struct rmpp_send){ .data = data, .bytes = bytes, .next = 1, .window_last = 1, .deadline = WTIME_NEVER };
	s->segments = left ? (left + room - 1) / room : 1;
}

/* The first segment tells the bytes of all, the last its own; both with what comes with each segment (13.6.2.2). */
static uint32_t payload_length(const struct rmpp_send *s, uint32_t segment)
{
	uint32_t offset = offset_of(s->data), head = offset - RMPP_HEADER_END, left = s->bytes > offset ? s->bytes - offset : 0;

	if (segment == 1)
		return s->segments * head + left;
	return segment == s->segments ? head + left - (segment - 1) * (MAD_BYTES - offset) : 0;
}

static void build_segment(const struct rmpp_send *s, uint32_t segment, uint8_t mad[MAD_BYTES])
{
	uint32_t offset = offset_of(s->data), room = MAD_BYTES - offset, at = offset + (segment - 1) * room;
	uint32_t left = s->bytes > at ? s->bytes - at : 0;

	memset(mad, 0, MAD_BYTES);
	memcpy(mad, s->data, s->bytes < offset ? s->bytes : offset);
	memcpy(mad + offset, s->data + at, left < room ? left : room);
	wire_put(mad, 1, RMPP_VERSION);
	wire_put(mad, RMPP_DATA, RMPP_TYPE);
	wire_put(mad, 1, RMPP_IS_ACTIVE);
	wire_put(mad, segment == 1, RMPP_IS_FIRST);
	wire_put(mad, segment == s->segments, RMPP_IS_LAST);
	wire_put(mad, 0, RMPP_STATUS);
	wire_put(mad, segment, RMPP_DATA1);
	wire_put(mad, payload_length(s, segment), RMPP_DATA2);
}

bool rmpp_send_output(struct rmpp_send *s, wtime now, uint8_t mad[MAD_BYTES])
{
	if (s->next > s->segments || s->next > s->window_last)
		return false;
	build_segment(s, s->next, mad);
	if (s->next > s->sent)
		s->sent = s->next;
	s->next++;
	s->deadline = now + RMPP_ACK_NS;
	return true;
}

/* 13.6.6: an ACK of a segment that was not sent, or a window that goes back, ends the transfer. */
enum rmpp_verdict rmpp_send_input(struct rmpp_send *s, wtime now, const uint8_t mad[MAD_BYTES])
{
	struct rmpp_header h;

	rmpp_parse(&h, mad);
	if (h.type == RMPP_STOP || h.type == RMPP_ABORT)
		return RMPP_FAILED;
	if (h.type != RMPP_ACK || h.segment < s->acked)
		return RMPP_GOES_ON;
	if (h.segment > s->sent || h.value < h.segment)
		return RMPP_FAILED;
	if (h.segment > s->acked)
		s->retries = 0;
	s->acked = h.segment;
	/* of what goes again, some may have come */
	if (s->next <= s->acked)
		s->next = s->acked + 1;
	if (h.value > s->window_last)
		s->window_last = h.value;
	if (s->acked == s->segments)
		return RMPP_DONE;
	s->deadline = now + RMPP_ACK_NS;
	return RMPP_GOES_ON;
}

enum rmpp_verdict rmpp_send_expire(struct rmpp_send *s, wtime now)
{
	if (s->deadline > now)
		return RMPP_GOES_ON;
	if (s->retries++ == RMPP_RETRIES)
		return RMPP_FAILED;
	s->next = s->acked + 1;
	s->deadline = now + RMPP_ACK_NS;
	return RMPP_GOES_ON;
}

/* ---- receiving ---- */

void rmpp_recv_init(struct rmpp_recv *r, uint32_t most)
{
	*r = (struct rmpp_recv){ .most = most, .window_last = 1 };
}

void rmpp_recv_fini(struct rmpp_recv *r)
{
	free(r->data);
	r->data = NULL;
}

/* The head of the segment comes back, from the other side: Linux turns the response bit, as requests are acknowledged by what is
 * no request. */
static void build_reply(const uint8_t mad[MAD_BYTES], enum rmpp_type type, uint8_t reply[MAD_BYTES])
{
	memset(reply, 0, MAD_BYTES);
	memcpy(reply, mad, offset_of(mad));
	reply[3] ^= METHOD_RESPONSE;
	wire_put(reply, 1, RMPP_VERSION);
	wire_put(reply, type, RMPP_TYPE);
	wire_put(reply, RESP_TIME_NONE, RMPP_RESP_TIME);
	wire_put(reply, 1, RMPP_IS_ACTIVE);
	wire_put(reply, 0, RMPP_IS_FIRST);
	wire_put(reply, 0, RMPP_IS_LAST);
	wire_put(reply, 0, RMPP_STATUS);
}

void rmpp_ack(const uint8_t mad[MAD_BYTES], uint32_t segment, uint32_t window_last, uint8_t reply[MAD_BYTES])
{
	build_reply(mad, RMPP_ACK, reply);
	wire_put(reply, segment, RMPP_DATA1);
	wire_put(reply, window_last, RMPP_DATA2);
}

static enum rmpp_verdict give_up(const uint8_t mad[MAD_BYTES], uint8_t status, bool *answers, uint8_t reply[MAD_BYTES])
{
	build_reply(mad, RMPP_ABORT, reply);
	wire_put(reply, status, RMPP_STATUS);
	wire_put(reply, 0, RMPP_DATA1);
	wire_put(reply, 0, RMPP_DATA2);
	*answers = true;
	return RMPP_FAILED;
}

static bool make_room(struct rmpp_recv *r, uint32_t bytes)
{
	uint32_t room = r->room ? r->room : 4096;
	uint8_t *data;

	if (bytes > r->most)
		return false;
	while (room < bytes)
		room *= 2;
	if (room == r->room)
		return true;
	data = realloc(r->data, room);
	if (!data)
		return false;
	r->data = data;
	r->room = room;
	return true;
}

/* How many bytes of a segment are data: the last one tells, with what comes before the data counted. */
static uint32_t data_bytes(const struct rmpp_header *h, unsigned offset)
{
	uint32_t head = offset - RMPP_HEADER_END, all = MAD_BYTES - offset;

	return h->is_last && h->value >= head && h->value - head < all ? h->value - head : all;
}

static bool append(struct rmpp_recv *r, const struct rmpp_header *h, const uint8_t mad[MAD_BYTES])
{
	unsigned offset = offset_of(mad);
	uint32_t bytes = data_bytes(h, offset), head = r->bytes ? 0 : offset;

	if (!make_room(r, r->bytes + head + bytes))
		return false;
	memcpy(r->data + r->bytes, mad + (head ? 0 : offset), head + bytes);
	r->bytes += head + bytes;
	r->last++;
	return true;
}

enum rmpp_verdict rmpp_recv_input(struct rmpp_recv *r, const uint8_t mad[MAD_BYTES], bool *answers, uint8_t reply[MAD_BYTES])
{
	struct rmpp_header h;

	rmpp_parse(&h, mad);
	*answers = false;
	if (h.type == RMPP_STOP || h.type == RMPP_ABORT)
		return RMPP_FAILED;
	if (h.type != RMPP_DATA)
		return RMPP_GOES_ON;
	if (!h.segment || h.is_first != (h.segment == 1))
		return give_up(mad, STATUS_BAD_LENGTH, answers, reply);
	*answers = true;
	if (h.segment == r->last + 1) {
		if (!append(r, &h, mad))
			return give_up(mad, STATUS_TOO_LONG, answers, reply);
		*answers = h.is_last || r->last == r->window_last;
		if (r->last == r->window_last)
			r->window_last = r->last + RMPP_WINDOW;
	}
	/* what is out of order is acknowledged too: so its sender learns what is missing */
	if (*answers)
		rmpp_ack(mad, r->last, r->window_last, reply);
	return h.is_last && r->last == h.segment ? RMPP_DONE : RMPP_GOES_ON;
}
