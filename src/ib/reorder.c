/* Frames of requests that wait for others. */
#include "ib/reorder.h"

#include "base/log.h"
#include "verbs/ca.h"
#include "wire/packet.h"

#include <stdlib.h>
#include <string.h>

enum { NO_FRAME = UINT16_MAX };

struct frame {
	struct packet packet;
	uint16_t next_free;
	uint8_t payload[PACKET_MAX_PAYLOAD];
};

/* Of all QPs of an adapter: ca.engine. */
struct reorder_frames {
	uint16_t spare;		/* so many are not taken */
	uint16_t used;		/* frames from this one on were never taken */
	uint16_t free;		/* the first of those given back, or NO_FRAME */
	struct frame frame[REORDER_FRAMES];
};

static struct reorder_frames *frames_of(const struct ca *ca)
{
	return ca->engine;
}

void reorder_open(struct ca *ca, struct reorder **r)
{
	struct reorder_frames *all;

	if (!*r)
		*r = calloc(1, sizeof(**r));
	if (ca->engine)
		return;
	all = ca->engine = malloc(sizeof(*all));
	if (!all)
		return;
	all->spare = REORDER_FRAMES;
	all->used = 0;
	all->free = NO_FRAME;
}

unsigned reorder_spare(const struct ca *ca)
{
	return frames_of(ca) ? frames_of(ca)->spare : 0;
}

static unsigned take_frame(struct reorder_frames *all)
{
	unsigned n = all->free;

	all->spare--;
	if (n == NO_FRAME)
		return all->used++;
	all->free = all->frame[n].next_free;
	return n;
}

static void give_back(struct reorder_frames *all, unsigned n)
{
	all->frame[n].next_free = all->free;
	all->free = (uint16_t)n;
	all->spare++;
}

static void fill(struct frame *frame, const struct packet *p)
{
	frame->packet = *p;
	frame->packet.payload = &frame->packet.payload_one;
	frame->packet.payload_one = (struct iovec){ frame->payload, p->payload_bytes };
	if (p->payload_bytes)
		memcpy(frame->payload, p->payload->iov_base, p->payload_bytes);
}

static bool is_held(const struct reorder *r, unsigned slot)
{
	return r->held[slot / 64] >> slot % 64 & 1;
}

static void set_held(struct reorder *r, unsigned slot, unsigned frame)
{
	r->frame[slot] = (uint16_t)frame;
	r->held[slot / 64] |= UINT64_C(1) << slot % 64;
	r->count++;
}

static void set_free(struct reorder *r, unsigned slot)
{
	r->held[slot / 64] &= ~(UINT64_C(1) << slot % 64);
	r->count--;
}

static struct packet *packet_in(const struct ca *ca, const struct reorder *r, unsigned slot)
{
	return &frames_of(ca)->frame[r->frame[slot]].packet;
}

static bool has_same_headers(const struct packet *a, const struct packet *b)
{
	return a->opcode == b->opcode && a->solicited == b->solicited && a->imm == b->imm && a->ieth_rkey == b->ieth_rkey &&
	       a->xrceth.srqn == b->xrceth.srqn && a->reth.va == b->reth.va && a->reth.rkey == b->reth.rkey &&
	       a->reth.length == b->reth.length && a->atomiceth.va == b->atomiceth.va &&
	       a->atomiceth.rkey == b->atomiceth.rkey && a->atomiceth.compare == b->atomiceth.compare &&
	       a->atomiceth.swap_add == b->atomiceth.swap_add;
}

/* A response may come again by another opcode, as a part. */
static bool is_same(const struct packet *a, const struct packet *b)
{
	if (a->payload_bytes != b->payload_bytes || a->atomicack != b->atomicack)
		return false;
	if (!opcode_row(b->opcode)->is_response && !has_same_headers(a, b))
		return false;
	return !a->payload_bytes || !memcmp(a->payload->iov_base, b->payload->iov_base, a->payload_bytes);
}

enum reorder_result reorder_hold(struct ca *ca, struct reorder *r, psn_t expected, const struct packet *p)
{
	unsigned slot = p->psn % REORDER_SPAN, n;

	if (!r || psn_diff(p->psn, expected) >= REORDER_SPAN)
		return REORDER_FULL;
	if (is_held(r, slot) && is_same(packet_in(ca, r, slot), p))
		return REORDER_HAD;
	if (is_held(r, slot)) {
		set_free(r, slot);
		give_back(frames_of(ca), r->frame[slot]);
		return REORDER_DISPUTED;
	}
	if (r->count >= reorder_spare(ca))
		return REORDER_FULL;
	n = take_frame(frames_of(ca));
	fill(&frames_of(ca)->frame[n], p);
	if (!r->count)
		r->passed = expected;
	set_held(r, slot, n);
	return REORDER_HELD;
}

/* A request that spans several PSNs may have passed some, and one of many all. */
static void drop_passed(struct ca *ca, struct reorder *r, psn_t expected)
{
	int32_t passed = psn_diff(expected, r->passed);

	for (int32_t i = 0; r->count && i < passed && i < REORDER_SPAN; i++) {
		unsigned slot = psn_add(r->passed, i) % REORDER_SPAN;

		if (!is_held(r, slot))
			continue;
		set_free(r, slot);
		give_back(frames_of(ca), r->frame[slot]);
	}
	r->passed = expected;
}

struct packet *reorder_next(struct ca *ca, struct reorder *r, psn_t expected)
{
	unsigned slot = expected % REORDER_SPAN;

	drop_passed(ca, r, expected);
	if (!is_held(r, slot))
		return NULL;
	set_free(r, slot);
	return packet_in(ca, r, slot);
}

void reorder_release(struct ca *ca, const struct packet *p)
{
	give_back(frames_of(ca), (unsigned)((const struct frame *)p - frames_of(ca)->frame));
}

void reorder_forget(struct ca *ca, struct reorder *r)
{
	if (!r)
		return;
	for (unsigned slot = 0; r->count && slot < REORDER_SPAN; slot++)
		if (is_held(r, slot))
			give_back(frames_of(ca), r->frame[slot]);
	*r = (struct reorder){ 0 };
}

void reorder_bits(const struct reorder *r, psn_t expected, uint64_t bits[HELD_WORDS])
{
	unsigned turn = expected % REORDER_SPAN, word = turn / 64, shift = turn % 64;

	for (unsigned i = 0; i < HELD_WORDS; i++) {
		uint64_t low = r->held[(word + i) % HELD_WORDS], high = r->held[(word + i + 1) % HELD_WORDS];

		bits[i] = shift ? low >> shift | high << (64 - shift) : low;
	}
}

void reorder_check(const struct ca *ca, const struct reorder *r, psn_t expected)
{
	unsigned count = 0;

	for (unsigned slot = 0; reorder_holds(r) && slot < REORDER_SPAN; slot++) {
		psn_t psn;

		if (!is_held(r, slot))
			continue;
		count++;
		psn = packet_in(ca, r, slot)->psn;
		weft_bug_on(psn % REORDER_SPAN != slot || psn_cmp(psn, expected) <= 0 || psn_diff(psn, expected) >= REORDER_SPAN);
	}
	weft_bug_on(r && r->count != count);
}
