/* A slot's generation in the fabric page is odd while it is alive. The claim is written before the generation says so and
 * removed after it no longer does; what a weftd that is killed in between leaves is set right by slots_inherit. */
#include "weftd/slots.h"

#include "base/log.h"
#include "weftd/mcast.h"
#include "weftd/random.h"
#include "weftd/roce_port.h"

#include <errno.h>
#include <string.h>

/* Our choice: how long a process that cannot be seen from here may take to come back, and others wait for any. */
#define RETURN_LIMIT (10 * WTIME_S)

bool slots_is_awaited(const struct hub *h, uint32_t slot)
{
	return slot < PAGE_SLOTS && h->claims->slot[slot].first && !h->slot_owner[slot];
}

uint32_t slots_number(const struct hub *h, const struct client *c)
{
	return atomic_load(&h->page->slot_owner[c->slot]);
}

static void set_owner(struct hub *h, struct client *c, uint32_t slot)
{
	h->slot_owner[slot] = c;
	c->slots++;
}

/* Below 2^30, as the page promises. The slot is the first of a process that attaches now. */
static uint32_t fresh_owner(const struct hub *h, uint32_t slot)
{
	uint32_t lives = atomic_load(&h->page->slot_generation[slot]) / 2 + 1;

	return (lives & 0x3ffff) << 12 | slot;
}

static void note_used(struct hub *h, uint32_t slot)
{
	h->slots_used++;
	h->member_slots[roce_port_member(slot)]++;
}

static void begin(struct hub *h, struct client *c, uint32_t slot)
{
	struct claim *claim = &h->claims->slot[slot];

	claim->holder = c->slot ? h->claims->slot[c->slot].holder : state_holder(c->pid);
	claim->number = c->number;
	random_bytes(claim->secret, sizeof(claim->secret));
	atomic_thread_fence(memory_order_release);
	claim->first = c->slot ? c->slot : slot;
	atomic_store(&h->page->slot_owner[slot], c->slot ? slots_number(h, c) : fresh_owner(h, slot));
	atomic_store(&h->page->slot_port[slot], c->slot ? h->page->slot_port[c->slot] : 0);
	atomic_store(&h->page->slot_packets[slot], c->slot ? h->page->slot_packets[c->slot] : 0);
	atomic_fetch_add(&h->page->slot_generation[slot], 1);
	note_used(h, slot);
	set_owner(h, c, slot);
}

/* Nobody has it any more. */
static void end(struct hub *h, uint32_t slot)
{
	atomic_fetch_add(&h->page->slot_generation[slot], 1);
	atomic_store(&h->page->slot_packets[slot], 0);
	h->claims->slot[slot] = (struct claim){ 0 };
	h->slot_owner[slot] = NULL;
	h->slots_used--;
	h->member_slots[roce_port_member(slot)]--;
}

static bool is_free(const struct hub *h, uint32_t slot)
{
	return !h->slot_owner[slot] && !slots_is_awaited(h, slot);
}

/* Do packets of other hosts for this slot find the process, and no other one? */
static bool is_reached(const struct hub *h, const struct client *c, uint32_t slot)
{
	uint32_t member = roce_port_member(slot);

	return c->slot ? member == roce_port_member(c->slot) : member && !h->member_slots[member];
}

/* One of those that are free, or reached too; 0: there is none. */
static uint32_t draw(const struct hub *h, const struct client *c, bool reached)
{
	uint16_t found[PAGE_SLOTS] = { 0 };
	uint32_t n = 0;

	for (uint32_t i = 1; i < PAGE_SLOTS; i++)
		if (is_free(h, i) && (!reached || is_reached(h, c, i)))
			found[n++] = (uint16_t)i;
	return n ? found[random_below(n)] : 0;
}

static int take(struct hub *h, struct client *c, uint32_t *slot)
{
	uint32_t drawn = draw(h, c, true);

	if (!drawn)
		drawn = draw(h, c, false);
	if (!drawn)
		return -ENOSPC;
	begin(h, c, drawn);
	*slot = drawn;		/* may be c->slot, by which begin knows whether it is the process's first */
	return 0;
}

static void end_awaited(struct hub *h, uint32_t slot, uint64_t gone[PAGE_SLOTS / 64])
{
	gone[slot / 64] |= 1ull << slot % 64;
	mcast_forget(h, slot);
	end(h, slot);
	h->awaited--;
}

/* The process has attached anew: by exec it became another program, or it never learnt of its slot. */
static void end_earlier(struct hub *h, const struct holder *now)
{
	uint64_t gone[PAGE_SLOTS / 64] = { 0 };
	uint32_t before = h->awaited;

	for (uint32_t i = 1; h->awaited && i < PAGE_SLOTS; i++) {
		if (slots_is_awaited(h, i) && state_same_holder(&h->claims->slot[i].holder, now))
			end_awaited(h, i, gone);
	}
	if (h->awaited != before)
		hub_tell_gone(h, gone);
}

int slots_first(struct hub *h, struct client *c)
{
	struct holder now = state_holder(c->pid);

	end_earlier(h, &now);
	return take(h, c, &c->slot);
}

/* In a time that does not tell how much of the secret was right. */
static bool is_secret(const struct claim *claim, const uint8_t secret[STATE_SECRET])
{
	uint8_t differs = 0;

	for (int i = 0; i < STATE_SECRET; i++)
		differs |= claim->secret[i] ^ secret[i];
	return !differs;
}

int slots_return(struct hub *h, struct client *c, uint32_t slot, const uint8_t secret[STATE_SECRET])
{
	if (!slots_is_awaited(h, slot) || h->claims->slot[slot].first != slot ||
	    !is_secret(&h->claims->slot[slot], secret))
		return -ESTALE;
	c->slot = slot;
	c->number = h->claims->slot[slot].number % QUOTA_CLIENTS;
	for (uint32_t i = 1; i < PAGE_SLOTS; i++) {
		if (h->claims->slot[i].first != slot)
			continue;
		set_owner(h, c, i);
		h->awaited--;
	}
	return 0;
}

void slots_leave(struct hub *h, struct client *c, uint64_t gone[PAGE_SLOTS / 64])
{
	for (uint32_t i = 1; c->slots && i < PAGE_SLOTS; i++) {
		if (h->slot_owner[i] != c)
			continue;
		gone[i / 64] |= 1ull << i % 64;
		end(h, i);
		c->slots--;
	}
}

struct client *slots_owner(const struct hub *h, uint32_t slot)
{
	return slot < PAGE_SLOTS ? h->slot_owner[slot] : NULL;
}

void slots_input(struct hub *h, struct client *c, const struct control_msg *msg)
{
	struct control_msg answer = *msg;
	int err = take(h, c, &answer.slot);

	hub_answer(h, c, &answer, -err);
}

void slots_inherit(struct hub *h)
{
	for (uint32_t i = 1; i < PAGE_SLOTS; i++) {
		struct claim *claim = &h->claims->slot[i];
		bool is_alive = atomic_load(&h->page->slot_generation[i]) & 1;

		if (is_alive && claim->first && claim->first < PAGE_SLOTS) {
			note_used(h, i);
			h->awaited++;
			continue;
		}
		*claim = (struct claim){ 0 };
		if (is_alive)
			atomic_fetch_add(&h->page->slot_generation[i], 1);
	}
}

bool slots_are_settling(const struct hub *h)
{
	return h->awaited && h->now < h->start + RETURN_LIMIT;
}

bool slots_are_needed(const struct hub *h)
{
	return state_is_needed(h->claims);
}

static bool is_lost(const struct hub *h, const struct claim *claim)
{
	return claim->holder.pid ? !state_holder_lives(&claim->holder) : h->now >= h->start + RETURN_LIMIT;
}

void slots_expire(struct hub *h)
{
	uint64_t gone[PAGE_SLOTS / 64] = { 0 };
	uint32_t before = h->awaited;

	for (uint32_t i = 1; h->awaited && i < PAGE_SLOTS; i++) {
		if (slots_is_awaited(h, i) && is_lost(h, &h->claims->slot[i]))
			end_awaited(h, i, gone);
	}
	if (h->awaited == before)
		return;
	log_line(LOG_INFO, "%u slots of processes that did not come back are free again", before - h->awaited);
	hub_tell_gone(h, gone);
}
