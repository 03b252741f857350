/* A slot's generation in the fabric page is odd while it is alive. The claim is written before the generation says so and
 * removed after it no longer does; what a weftd that is killed in between leaves is set right by slots_inherit. */
#include "weftd/slots.h"

#include "base/log.h"
#include "weftd/mcast.h"
#include "weftd/random.h"

#include <errno.h>
#include <string.h>

/* Our choice: how long a process that cannot be seen from here may take to come back, and others wait for any. */
#define RETURN_LIMIT (10 * WTIME_S)

bool slots_is_awaited(const struct hub *h, uint32_t slot)
{
	return slot < PAGE_SLOTS && h->claims->slot[slot].first && !h->slot_owner[slot];
}

static uint32_t slots_of_user(const struct hub *h, uid_t uid)
{
	uint32_t n = 0;

	list_for_each(c, &h->clients, struct client, node)
		n += c->uid == uid ? c->slots : 0;
	return n;
}

static void set_owner(struct hub *h, struct client *c, uint32_t slot)
{
	h->slot_owner[slot] = c;
	c->slots++;
}

static void begin(struct hub *h, struct client *c, uint32_t slot)
{
	struct claim *claim = &h->claims->slot[slot];

	claim->holder = c->slot ? h->claims->slot[c->slot].holder : state_holder(c->pid);
	random_bytes(claim->secret, sizeof(claim->secret));
	atomic_thread_fence(memory_order_release);
	claim->first = c->slot ? c->slot : slot;
	atomic_fetch_add(&h->page->slot_generation[slot], 1);
	h->slots_used++;
	set_owner(h, c, slot);
}

/* Nobody has it any more. */
static void end(struct hub *h, uint32_t slot)
{
	atomic_fetch_add(&h->page->slot_generation[slot], 1);
	h->claims->slot[slot] = (struct claim){ 0 };
	h->slot_owner[slot] = NULL;
	h->slots_used--;
}

static int take(struct hub *h, struct client *c, uint32_t *slot)
{
	uint32_t skip;

	if (c->slots >= QUOTA_SLOTS || (!hub_is_owner(h, c) && slots_of_user(h, c->uid) >= QUOTA_USER_SLOTS))
		return -EDQUOT;
	if (h->slots_used >= PAGE_SLOTS - 1)
		return -ENOSPC;
	skip = random_below(PAGE_SLOTS - 1 - h->slots_used);
	for (uint32_t i = 1; i < PAGE_SLOTS; i++) {
		if (h->slot_owner[i] || slots_is_awaited(h, i) || skip--)
			continue;
		begin(h, c, i);
		*slot = i;
		return 0;
	}
	weft_bug_on(true);
	return -ENOSPC;
}

static void end_awaited(struct hub *h, uint32_t slot, uint64_t gone[PAGE_SLOTS / 64])
{
	gone[slot / 64] |= 1ull << slot % 64;
	mcast_forget(h->page, slot);
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
			h->slots_used++;
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
	for (uint32_t i = 1; i < PAGE_SLOTS; i++) {
		const struct claim *claim = &h->claims->slot[i];

		if (claim->first == i && state_holder_lives(&claim->holder))
			return true;
	}
	return false;
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
