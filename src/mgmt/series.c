/* Timers. A sender has one: after the last packet of a window, or of all, the response timeout; when it ends that packet goes
 * again, config.retries times. While the data are being gathered it is what an end may take, and then a KeepAlive goes. A
 * KeepAlive that comes sets a running one to the segment timeout. A receiver has one: the segment timeout after each packet, and
 * the response timeout after its own Ack or Resend, as a round trip lies between; when it ends the missing segment is asked
 * for. Behind a gap further segments put it off, each once: a sender that repeats its last packet waits to be asked. While an
 * Ack is held back, it is what an end may take, and then a KeepAlive goes. */
#include "mgmt/series.h"

#include "wire/field.h"

#include <stdlib.h>
#include <string.h>

#define UNIT_NS 4096ull			/* IBA 13.4.6.2.1 */

enum { EXPONENT_MOST = 31 };

static wtime power(uint8_t n)
{
	return UNIT_NS << (n < EXPONENT_MOST ? n : EXPONENT_MOST);
}

void series_config_times(struct series_config *c, unsigned subnet_timeout, unsigned response_time)
{
	c->subnet_timeout = (uint8_t)(subnet_timeout < SERIES_TIME_MOST ? subnet_timeout : SERIES_TIME_MOST);
	c->response_time = (uint8_t)(response_time < SERIES_TIME_MOST ? response_time : SERIES_TIME_MOST);
}

wtime series_processing_ns(const struct series_config *c)
{
	return power(c->response_time);
}

wtime series_response_ns(const struct series_config *c)
{
	return 2 * power(c->subnet_timeout) + series_processing_ns(c);
}

wtime series_segment_ns(const struct series_config *c)
{
	return power(c->subnet_timeout) + series_processing_ns(c);
}

static uint8_t mirror(uint8_t flags)
{
	uint8_t turned = 0;

	for (int i = 0; i < 8; i++)
		turned = (uint8_t)(turned | (flags >> i & 1) << (7 - i));
	return turned;
}

void series_parse(struct series_header *h, const struct series_config *c, const uint8_t mad[MAD_BYTES])
{
#define GET(type, member, ...) h->member = (type)wire_get(mad, __VA_ARGS__);
	SERIES_FIELDS(GET)
	if (c->is_lsb_first)
		h->flags = mirror(h->flags);
	/* bits 1, 4 and 6 are reserved */
	h->flags &= SERIES_FIRST | SERIES_LAST | SERIES_CONTROL;
}

void series_build(const struct series_header *h, const struct series_config *c, uint8_t mad[MAD_BYTES])
{
#define PUT(type, member, ...) wire_put(mad, h->member, __VA_ARGS__);
	SERIES_FIELDS(PUT)
	mad[40] = c->is_lsb_first ? mirror(h->flags) : h->flags;
}

static struct series_config checked(const struct series_config *c)
{
	struct series_config checked = *c;

	if (checked.retries > SERIES_TRIES)
		checked.retries = SERIES_TRIES;
	return checked;
}

/* ---- out ---- */

void series_out_init(struct series_out *s, const struct series_config *c, bool is_request, uint16_t window)
{
	*s = (struct series_out){ .config = checked(c), .is_request = is_request, .next = 1, .deadline = WTIME_NEVER };
	s->window = window ? window : SERIES_WINDOW;
	s->limit = s->window;
}

/* While there is nothing to send, the receiver is told that more will come. */
static void set_timer(struct series_out *s, wtime now)
{
	bool has_all = s->end && s->next > s->end;

	if (has_all || s->next > s->limit)
		s->deadline = now + series_response_ns(&s->config);
	else
		s->deadline = now + series_processing_ns(&s->config);
}

void series_out_set(struct series_out *s, wtime now, const uint8_t *data, uint32_t bytes, bool is_all)
{
	s->data = data;
	s->bytes = bytes;
	s->is_all = is_all;
	if (s->deadline == WTIME_NEVER)
		set_timer(s, now);
}

/* What was sent stays: if the data have shrunk behind it, one more segment says that they have ended (RMP-09). */
static uint32_t last_segment(const struct series_out *s)
{
	uint32_t wanted = s->bytes / SERIES_DATA + (s->bytes % SERIES_DATA != 0);

	if (s->end)
		return s->end;
	if (!s->is_all)
		return UINT32_MAX;
	return wanted > s->sent ? wanted : s->sent + 1;
}

static bool has_data(const struct series_out *s)
{
	return s->is_all || s->bytes / SERIES_DATA >= s->next;
}

bool series_out_next(struct series_out *s, wtime now, struct series_header *h, const uint8_t **data, uint32_t *bytes)
{
	uint32_t last = last_segment(s), from = (s->next - 1) * SERIES_DATA, left = s->bytes > from ? s->bytes - from : 0;
	bool is_single = s->next == 1 && last == 1;

	*h = (struct series_header){ .window = (uint16_t)s->window };
	*data = left ? s->data + from : NULL;
	*bytes = 0;
	if (s->next > last || s->next > s->limit || !has_data(s)) {
		h->flags = SERIES_KEEP_ALIVE;
		h->window = 0;
		return s->is_quiet ? s->is_quiet = false, true : false;
	}
	*bytes = left < SERIES_DATA ? left : SERIES_DATA;
	h->segment = is_single ? 0 : s->next;
	if (s->next == last) {
		s->end = last;
		h->flags = is_single ? 0 : SERIES_LAST;
		h->length = s->is_request && !is_single ? 0 : *bytes;
	} else if (s->next == 1) {
		h->flags = SERIES_FIRST;
		h->length = s->bytes;
	}
	s->is_quiet = false;
	if (s->next > s->sent)
		s->sent = s->next;
	s->next++;
	set_timer(s, now);
	return true;
}

/* The window in force is the requester's of an answer, and what the SA's last Ack said of a Config, at least 64. */
static void take_window(struct series_out *s, uint16_t window)
{
	if (s->is_request)
		s->window = window > SERIES_WINDOW ? window : SERIES_WINDOW;
	else if (s->config.heeds_window && window)
		s->window = window;
}

static enum series_verdict take_ack(struct series_out *s, wtime now, const struct series_header *h)
{
	if (h->segment > s->sent || h->segment <= s->acked)
		return SERIES_GOES_ON;
	take_window(s, h->window);
	s->acked = h->segment;
	s->limit = s->acked > UINT32_MAX - s->window ? UINT32_MAX : s->acked + s->window;
	if (s->next <= s->acked)
		s->next = s->acked + 1;
	s->retries = s->asks = 0;
	set_timer(s, now);
	/* of a Config the answer ends it (RMP-57) */
	if (s->end && s->acked == s->end && !s->is_request) {
		s->deadline = WTIME_NEVER;
		return SERIES_DONE;
	}
	return SERIES_GOES_ON;
}

static enum series_verdict take_resend(struct series_out *s, wtime now, uint32_t segment)
{
	if (segment && segment <= s->acked) {
		s->is_gone = true;
		return SERIES_FAILED;
	}
	if (!segment || segment > s->sent)
		return SERIES_GOES_ON;
	/* who asks for a later one than ever has all before it */
	s->asks = segment > s->asked ? 1 : s->asks + 1;
	if (segment > s->asked)
		s->asked = segment;
	if (s->asks > SERIES_TRIES)
		return SERIES_FAILED;
	/* it is heard: how often one packet is asked for bounds that */
	s->retries = 0;
	s->next = segment;
	set_timer(s, now);
	return SERIES_GOES_ON;
}

enum series_verdict series_out_input(struct series_out *s, wtime now, const struct series_header *h)
{
	switch (h->flags & SERIES_CONTROL) {
	case SERIES_ACK:
		return take_ack(s, now, h);
	case SERIES_RESEND:
		return take_resend(s, now, h->segment);
	case SERIES_KEEP_ALIVE:
		if (s->deadline != WTIME_NEVER)
			s->deadline = now + series_segment_ns(&s->config);
		return SERIES_GOES_ON;
	default:
		return SERIES_GOES_ON;
	}
}

enum series_verdict series_out_expire(struct series_out *s, wtime now)
{
	bool waits = s->next > s->limit || (s->end && s->next > s->end);

	if (s->deadline > now)
		return SERIES_GOES_ON;
	if (!waits) {
		s->is_quiet = true;
		set_timer(s, now);
		return SERIES_GOES_ON;
	}
	if (s->retries++ >= s->config.retries)
		return SERIES_FAILED;
	s->next--;
	set_timer(s, now);
	return SERIES_GOES_ON;
}

uint32_t series_out_kept(const struct series_out *s)
{
	return s->sent - s->acked;
}

/* ---- in ---- */

void series_in_init(struct series_in *s, const struct series_config *c, bool is_request, uint16_t window)
{
	*s = (struct series_in){ .config = checked(c), .is_request = is_request, .space = UINT32_MAX, .deadline = WTIME_NEVER };
	s->window = window ? window : SERIES_WINDOW;
}

void series_in_fini(struct series_in *s)
{
	free(s->data);
	s->data = NULL;
}

static bool make_room(struct series_in *s, uint64_t bytes)
{
	uint64_t room = s->room ? s->room : 4096;
	uint8_t *data;

	if (bytes > (s->config.most ? s->config.most : UINT32_MAX))
		return false;
	while (room < bytes)
		room *= 2;
	if (room == s->room)
		return true;
	data = room <= UINT32_MAX ? realloc(s->data, room) : NULL;
	if (!data)
		return false;
	s->data = data;
	s->room = (uint32_t)room;
	return true;
}

/* Of the last packet of a Config the first one's total tells: the records' bytes, or those of whole data areas. What the packet
 * says itself must agree, and tells how much of a whole one is padding. */
static bool config_bytes(const struct series_in *s, const struct series_header *h, uint32_t *bytes)
{
	uint64_t before = (uint64_t)(h->segment - 1) * SERIES_DATA;

	if (s->total <= before || s->total > before + SERIES_DATA)
		return false;
	*bytes = (uint32_t)(s->total - before);
	if (*bytes == SERIES_DATA && h->length)
		*bytes = h->length;
	return *bytes <= SERIES_DATA && (!h->length || h->length == *bytes);
}

/* Valid bytes of a packet. A single one may leave its length out. */
static bool data_bytes(const struct series_in *s, const struct series_header *h, uint32_t *bytes)
{
	*bytes = SERIES_DATA;
	if (h->flags & SERIES_LAST && s->is_request)
		return config_bytes(s, h, bytes);
	if (h->flags & SERIES_LAST || (!h->segment && h->length))
		*bytes = h->length;
	return *bytes <= SERIES_DATA;
}

static void say_ack(struct series_in *s, wtime now, struct series_header *say)
{
	uint32_t granted = s->space < UINT16_MAX ? s->space : SERIES_WINDOW;

	if (s->is_request)
		s->window = granted > SERIES_WINDOW ? granted : SERIES_WINDOW;
	if (s->space != UINT32_MAX)
		s->space -= s->space < s->window ? s->space : s->window;
	s->acked = s->last;
	*say = (struct series_header){ .flags = SERIES_ACK, .segment = s->last, .window = (uint16_t)s->window };
	if (!s->is_done)
		s->deadline = now + series_response_ns(&s->config);
}

/* A Config's next window begins when there is room for it; till then its sender is asked for patience (RMP-28, RMP-43). */
static void end_window(struct series_in *s, wtime now, struct series_header *say)
{
	s->is_held = s->is_request && !s->is_done && s->space < SERIES_WINDOW;
	if (!s->is_held) {
		say_ack(s, now, say);
		return;
	}
	*say = (struct series_header){ .flags = SERIES_KEEP_ALIVE };
	s->deadline = now + series_processing_ns(&s->config);
}

static enum series_verdict ask_again(struct series_in *s, wtime now, struct series_header *say)
{
	if (s->asks++ >= s->config.retries)
		return SERIES_FAILED;
	s->discards = true;
	*say = (struct series_header){ .flags = SERIES_RESEND, .segment = s->last + 1 };
	s->deadline = now + series_response_ns(&s->config);
	return SERIES_GOES_ON;
}

static enum series_verdict append(struct series_in *s, wtime now, const struct series_header *h, const uint8_t *mad,
				  struct series_header *say)
{
	uint32_t bytes;

	if (h->segment == 1)
		s->total = h->length;
	if (!data_bytes(s, h, &bytes) || !make_room(s, (uint64_t)s->bytes + bytes))
		return SERIES_FAILED;
	memcpy(s->data + s->bytes, mad + SERIES_HEAD, bytes);
	s->bytes += bytes;
	s->last = h->segment;
	s->is_done = !h->segment || h->flags & SERIES_LAST;
	s->discards = false;
	s->ahead = 0;
	s->asks = 0;
	s->deadline = s->is_done ? WTIME_NEVER : now + series_segment_ns(&s->config);
	/* the last one of a Config is acknowledged by its answer, a single packet by nothing */
	if (s->is_done ? h->segment && !s->is_request : s->last == s->acked + s->window)
		end_window(s, now, say);
	return s->is_done ? SERIES_DONE : SERIES_GOES_ON;
}

/* One that came before is no error: if its Ack was lost, that is said again. */
static void repeat(struct series_in *s, wtime now, uint32_t segment, struct series_header *say)
{
	if (s->is_held && segment == s->last) {
		end_window(s, now, say);
	} else if (segment == s->acked && segment) {
		*say = (struct series_header){ .flags = SERIES_ACK, .segment = segment, .window = (uint16_t)s->window };
		if (!s->is_done && s->last == s->acked)
			s->deadline = now + series_response_ns(&s->config);
	}
}

/* First and last at once there is not, and a single packet comes alone. */
static bool makes_sense(const struct series_in *s, const struct series_header *h)
{
	if (!h->segment)
		return !h->flags && !s->last;
	return !(h->flags & SERIES_FIRST) == (h->segment != 1) && !(h->flags & SERIES_FIRST && h->flags & SERIES_LAST);
}

bool series_in_takes(const struct series_in *s, const struct series_header *h)
{
	return !(h->flags & SERIES_CONTROL) && makes_sense(s, h) && h->segment <= s->acked + s->window;
}

enum series_verdict series_in_input(struct series_in *s, wtime now, const struct series_header *h, const uint8_t mad[MAD_BYTES],
				    struct series_header *say)
{
	wtime later = now + series_segment_ns(&s->config);

	*say = (struct series_header){ 0 };
	if (h->flags & SERIES_CONTROL || !makes_sense(s, h))
		return s->is_done ? SERIES_DONE : SERIES_GOES_ON;
	if (s->is_done || (h->segment && h->segment <= s->last)) {
		repeat(s, now, h->segment, say);
		return s->is_done ? SERIES_DONE : SERIES_GOES_ON;
	}
	if (!h->segment || (h->segment == s->last + 1 && h->segment <= s->acked + s->window))
		return append(s, now, h, mad, say);
	if (h->segment > s->acked + s->window || h->segment <= s->ahead)
		return SERIES_GOES_ON;
	s->ahead = h->segment;
	if (!s->discards)
		return ask_again(s, now, say);
	if (s->deadline < later)
		s->deadline = later;
	return SERIES_GOES_ON;
}

void series_in_space(struct series_in *s, wtime now, uint32_t segments, struct series_header *say)
{
	*say = (struct series_header){ 0 };
	s->space = segments;
	if (s->is_held && segments >= SERIES_WINDOW)
		end_window(s, now, say);
}

void series_in_keep_alive(struct series_in *s, wtime now)
{
	if (s->deadline != WTIME_NEVER && !s->is_held)
		s->deadline = now + series_segment_ns(&s->config);
}

enum series_verdict series_in_expire(struct series_in *s, wtime now, struct series_header *say)
{
	*say = (struct series_header){ 0 };
	if (s->deadline > now)
		return SERIES_GOES_ON;
	if (!s->is_held)
		return ask_again(s, now, say);
	end_window(s, now, say);
	return SERIES_GOES_ON;
}
