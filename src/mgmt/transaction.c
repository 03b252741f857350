/* Timers: those of the series (series.c) while one is under way. Beside these one of the transaction: a requester waits for the
 * first packet of the answer for the response timeout and asks again, config.retries times; a KeepAlive sets it to the segment
 * timeout. A server that has no answer yet sends a KeepAlive whenever it has been silent for as long as an end may take. Who is
 * done stays for a response timeout for each retry, as the other end may repeat its last packet so often (RMP-53). All of it ends
 * config.total_ns after its begin, whatever the other end says: KeepAlives alone would hold it for ever. Each MB that has arrived
 * puts that off, so that a long answer over a link that loses much may take its time. */
#include "mgmt/transaction.h"

#include "wire/field.h"

#include <string.h>

#define METHOD 3, 0, 8
#define STATUS 4, 0, 16

enum { METHOD_RESPONSE = 0x80 };

static wtime linger_ns(const struct transaction *t)
{
	return series_response_ns(&t->config) * (t->config.retries + 2u);
}

static void end(struct transaction *t, wtime now, enum transaction_phase phase, uint16_t status)
{
	t->phase = phase;
	t->status = status;
	t->deadline = now + linger_ns(t);
	t->asks = false;
}

static void init(struct transaction *t, const struct series_config *c, wtime now, const uint8_t *head, bool is_server)
{
	*t = (struct transaction){ .config = *c, .is_server = is_server, .deadline = WTIME_NEVER };
	t->ends = now + (c->total_ns ? c->total_ns : SERIES_TOTAL_NS);
	if (t->config.retries > SERIES_TRIES)
		t->config.retries = SERIES_TRIES;
	memcpy(t->head, head, SERIES_HEAD);
	t->method = (enum transaction_method)(wire_get(head, METHOD) & ~(unsigned)METHOD_RESPONSE);
	wire_put(t->head, is_server ? t->method | METHOD_RESPONSE : t->method, METHOD);
	wire_put(t->head, 0, STATUS);
}

void transaction_ask(struct transaction *t, const struct series_config *c, wtime now, const uint8_t head[SERIES_HEAD],
		     uint16_t window)
{
	init(t, c, now, head, false);
	t->phase = TXN_ASKING;
	t->window = window ? window : SERIES_WINDOW;
	t->asks = true;
	t->deadline = now + series_response_ns(c);
	series_in_init(&t->in, c, false, t->window);
}

void transaction_configure(struct transaction *t, const struct series_config *c, wtime now, const uint8_t head[SERIES_HEAD],
			   const uint8_t *data, uint32_t bytes)
{
	init(t, c, now, head, false);
	t->phase = TXN_SENDING;
	t->window = SERIES_WINDOW;
	series_in_init(&t->in, c, false, t->window);
	series_out_init(&t->out, c, true, SERIES_WINDOW);
	series_out_set(&t->out, now, data, bytes, true);
}

bool transaction_serve(struct transaction *t, const struct series_config *c, wtime now, const uint8_t mad[MAD_BYTES])
{
	unsigned method = (unsigned)wire_get(mad, METHOD);
	struct series_header h;
	struct series_in first;

	series_parse(&h, c, mad);
	if (h.flags & SERIES_CONTROL || (method != TXN_GET_TABLE && method != TXN_GET_BULK && method != TXN_CONFIG))
		return false;
	/* the first packets of a Config may be lost, those of its first window */
	series_in_init(&first, c, true, SERIES_WINDOW);
	if (method == TXN_CONFIG ? !series_in_takes(&first, &h) : h.segment != 0)
		return false;
	init(t, c, now, mad, true);
	t->in = first;
	t->phase = method == TXN_CONFIG ? TXN_RECEIVING : TXN_PREPARING;
	t->window = method == TXN_CONFIG || !h.window ? SERIES_WINDOW : h.window;
	if (t->phase == TXN_PREPARING)
		t->deadline = now + series_processing_ns(&t->config);
	return true;
}

void transaction_fini(struct transaction *t)
{
	series_in_fini(&t->in);
}

void transaction_answer(struct transaction *t, wtime now, uint16_t status, const uint8_t *data, uint32_t bytes, bool is_all)
{
	/* nothing was sent yet */
	bool is_first = t->phase == TXN_PREPARING || (t->phase == TXN_SENDING && !t->out.sent);

	if (is_first && is_all && !bytes && !status)
		status = TXN_NO_RECORDS;
	if (is_first && status) {
		t->tells_status = true;
		end(t, now, TXN_DONE, status);
		return;
	}
	if (t->phase == TXN_PREPARING) {
		/* a packet of its own tells how many there are: it begins when that is known, or there is a whole one */
		if (!is_all && bytes < SERIES_DATA)
			return;
		t->phase = TXN_SENDING;
		t->deadline = WTIME_NEVER;
		series_out_init(&t->out, &t->config, false, t->window);
	}
	if (t->phase != TXN_SENDING)
		return;
	if (status) {
		t->tells_status = true;
		end(t, now, TXN_FAILED, status);
		return;
	}
	series_out_set(&t->out, now, data, bytes, is_all);
}

void transaction_space(struct transaction *t, wtime now, uint32_t segments)
{
	struct series_header say;

	if (t->phase != TXN_RECEIVING || !t->is_server)
		return;
	series_in_space(&t->in, now, segments, &say);
	if (say.flags)
		t->say = say;
}

/* ---- in ---- */

static void take_verdict_out(struct transaction *t, wtime now, enum series_verdict verdict)
{
	if (verdict == SERIES_DONE) {
		end(t, now, TXN_DONE, t->status);
	} else if (verdict == SERIES_FAILED) {
		t->tells_status = t->is_server && t->out.is_gone;
		end(t, now, TXN_FAILED, t->out.is_gone ? MAD_STATUS_BAD_VALUE : 0);
	}
}

static void take_verdict_in(struct transaction *t, wtime now, enum series_verdict verdict)
{
	if (verdict == SERIES_FAILED) {
		end(t, now, TXN_FAILED, 0);
	} else if (verdict == SERIES_DONE && t->is_server && t->phase == TXN_RECEIVING) {
		t->phase = TXN_PREPARING;
		t->deadline = now + series_processing_ns(&t->config);
	} else if (verdict == SERIES_DONE && !t->is_server && t->phase == TXN_RECEIVING) {
		end(t, now, TXN_DONE, 0);
	}
}

static void take_data(struct transaction *t, wtime now, const struct series_header *h, const uint8_t *mad)
{
	struct series_header say;
	enum series_verdict verdict = series_in_input(&t->in, now, h, mad, &say);

	if (say.flags)
		t->say = say;
	take_verdict_in(t, now, verdict);
}

/* The requester: what is not control is the answer, which ends the wait for it and acknowledges a Config whole. */
static void hear_answer(struct transaction *t, wtime now, const struct series_header *h, const uint8_t *mad)
{
	uint16_t status = (uint16_t)wire_get(mad, STATUS);

	if (h->flags & SERIES_CONTROL) {
		if (h->flags & SERIES_KEEP_ALIVE && t->phase == TXN_ASKING)
			t->deadline = now + series_segment_ns(&t->config);
		else if (h->flags & SERIES_KEEP_ALIVE && t->phase == TXN_RECEIVING)
			series_in_keep_alive(&t->in, now);
		else if (t->phase == TXN_SENDING)
			take_verdict_out(t, now, series_out_input(&t->out, now, h));
		return;
	}
	if (status && t->phase < TXN_DONE) {
		end(t, now, status == TXN_NO_RECORDS ? TXN_DONE : TXN_FAILED, status);
		return;
	}
	/* nobody answers half of a Config */
	if (t->phase == TXN_SENDING && !t->out.end)
		return;
	if ((t->phase == TXN_ASKING || t->phase == TXN_SENDING) && series_in_takes(&t->in, h)) {
		t->phase = TXN_RECEIVING;
		t->deadline = WTIME_NEVER;
		t->asks = false;
	}
	if (t->phase == TXN_RECEIVING || (t->phase == TXN_DONE && !t->status))
		take_data(t, now, h, mad);
}

/* A packet that was answered comes again: so does the answer, if it is one packet, whose data are borrowed till then, or a
 * status. A series is repeated by its own timer. */
static void hear_again(struct transaction *t)
{
	if (t->phase >= TXN_DONE && t->status)
		t->tells_status = true;
	else if (t->phase == TXN_DONE && t->out.end == 1)
		t->out.next = 1;
}

static void hear_request(struct transaction *t, wtime now, const struct series_header *h, const uint8_t *mad)
{
	if (h->flags & SERIES_CONTROL) {
		if (h->flags & SERIES_KEEP_ALIVE && t->phase == TXN_RECEIVING)
			series_in_keep_alive(&t->in, now);
		else if (t->phase == TXN_SENDING)
			take_verdict_out(t, now, series_out_input(&t->out, now, h));
		else if (h->flags & SERIES_RESEND)
			hear_again(t);
	} else if (t->phase == TXN_RECEIVING) {
		take_data(t, now, h, mad);
	} else {
		hear_again(t);
	}
}

void transaction_input(struct transaction *t, wtime now, const uint8_t mad[MAD_BYTES])
{
	unsigned method = (unsigned)wire_get(mad, METHOD);
	struct series_header h;

	series_parse(&h, &t->config, mad);
	if (t->is_server && method == (unsigned)t->method)
		hear_request(t, now, &h, mad);
	else if (!t->is_server && method == ((unsigned)t->method | METHOD_RESPONSE))
		hear_answer(t, now, &h, mad);
}

/* ---- out ---- */

static void build(const struct transaction *t, uint16_t status, struct series_header *h, const uint8_t *data, uint32_t bytes,
		  uint8_t mad[MAD_BYTES])
{
	struct series_header own;

	memcpy(mad, t->head, SERIES_HEAD);
	memset(mad + SERIES_HEAD, 0, SERIES_DATA);
	if (bytes)
		memcpy(mad + SERIES_HEAD, data, bytes);
	series_parse(&own, &t->config, mad);
	h->key = own.key;
	h->edit = own.edit;
	h->end_id = own.end_id;
	h->mask = own.mask;
	series_build(h, &t->config, mad);
	wire_put(mad, status, STATUS);
}

/* A single packet is not acknowledged: it is all that a server does, but for repeating it. */
static void sent_single(struct transaction *t, wtime now)
{
	if (!t->is_server || t->out.end != 1)
		return;
	t->out.deadline = WTIME_NEVER;
	end(t, now, TXN_DONE, 0);
}

bool transaction_output(struct transaction *t, wtime now, uint8_t mad[MAD_BYTES])
{
	struct series_header h = t->say;
	const uint8_t *data = NULL;
	uint32_t bytes = 0;

	if (t->tells_status) {
		h = (struct series_header){ 0 };
		build(t, t->status, &h, NULL, 0, mad);
		t->tells_status = false;
		return true;
	}
	if (h.flags) {
		t->say.flags = 0;
	} else if (t->asks) {
		h = (struct series_header){ .window = t->window };
		t->asks = false;
	} else if (t->phase == TXN_SENDING || (t->phase == TXN_DONE && t->is_server && t->out.end == 1)) {
		if (!series_out_next(&t->out, now, &h, &data, &bytes))
			return false;
		sent_single(t, now);
	} else {
		return false;
	}
	build(t, 0, &h, data, bytes, mad);
	return true;
}

/* ---- time ---- */

/* Of what this end sends, what was acknowledged has arrived. */
static wtime ends(const struct transaction *t)
{
	uint64_t bytes = ((uint64_t)t->out.acked + t->in.last) * SERIES_DATA;

	return t->ends + (bytes >> 20) * SERIES_TOTAL_EACH_NS;
}

wtime transaction_deadline(const struct transaction *t)
{
	wtime deadline = t->deadline;

	if (t->phase == TXN_SENDING)
		deadline = wtime_min(deadline, t->out.deadline);
	if (t->phase == TXN_RECEIVING)
		deadline = wtime_min(deadline, t->in.deadline);
	return t->phase < TXN_DONE ? wtime_min(deadline, ends(t)) : deadline;
}

static void expire_asking(struct transaction *t, wtime now)
{
	if (t->retries++ >= t->config.retries) {
		end(t, now, TXN_FAILED, 0);
		return;
	}
	t->asks = true;
	t->deadline = now + series_response_ns(&t->config);
}

static void expire_in(struct transaction *t, wtime now)
{
	struct series_header say;
	enum series_verdict verdict = series_in_expire(&t->in, now, &say);

	if (say.flags)
		t->say = say;
	take_verdict_in(t, now, verdict);
}

void transaction_expire(struct transaction *t, wtime now)
{
	if (t->phase < TXN_DONE && ends(t) <= now)
		end(t, now, TXN_FAILED, 0);
	switch (t->phase) {
	case TXN_ASKING:
		if (t->deadline <= now)
			expire_asking(t, now);
		break;
	case TXN_SENDING:
		if (t->out.deadline <= now)
			take_verdict_out(t, now, series_out_expire(&t->out, now));
		break;
	case TXN_RECEIVING:
		if (t->in.deadline <= now)
			expire_in(t, now);
		break;
	case TXN_PREPARING:
		if (t->deadline <= now) {
			t->say = (struct series_header){ .flags = SERIES_KEEP_ALIVE };
			t->deadline = now + series_processing_ns(&t->config);
		}
		break;
	case TXN_DONE:
	case TXN_FAILED:
		break;
	}
}

bool transaction_is_over(const struct transaction *t, wtime now)
{
	return t->phase >= TXN_DONE && t->deadline <= now;
}
