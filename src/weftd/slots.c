/* A slot's generation in the fabric page is odd while it is alive. */
#include "weftd/slots.h"

#include "base/log.h"
#include "weftd/random.h"

#include <errno.h>

static uint32_t slots_of_user(const struct hub *h, uid_t uid)
{
	uint32_t n = 0;

	list_for_each(c, &h->clients, struct client, node)
		n += c->uid == uid ? c->slots : 0;
	return n;
}

int slots_take(struct hub *h, struct client *c, uint32_t *slot)
{
	uint32_t skip;

	if (c->slots >= QUOTA_SLOTS || (!hub_is_owner(h, c) && slots_of_user(h, c->uid) >= QUOTA_USER_SLOTS))
		return -EDQUOT;
	if (h->slots_used >= PAGE_SLOTS - 1)
		return -ENOSPC;
	skip = random_below(PAGE_SLOTS - 1 - h->slots_used);
	for (uint32_t i = 1; i < PAGE_SLOTS; i++) {
		if (h->slot_owner[i] || skip--)
			continue;
		h->slot_owner[i] = c;
		h->slots_used++;
		c->slots++;
		atomic_fetch_add(&h->page->slot_generation[i], 1);
		*slot = i;
		return 0;
	}
	weft_bug_on(true);
	return -ENOSPC;
}

void slots_leave(struct hub *h, struct client *c, uint64_t gone[PAGE_SLOTS / 64])
{
	for (uint32_t i = 1; c->slots && i < PAGE_SLOTS; i++) {
		if (h->slot_owner[i] != c)
			continue;
		gone[i / 64] |= 1ull << i % 64;
		h->slot_owner[i] = NULL;
		h->slots_used--;
		c->slots--;
		atomic_fetch_add(&h->page->slot_generation[i], 1);
	}
}

struct client *slots_owner(const struct hub *h, uint32_t slot)
{
	return slot < PAGE_SLOTS ? h->slot_owner[slot] : NULL;
}

void slots_input(struct hub *h, struct client *c, const struct control_msg *msg)
{
	struct control_msg answer = *msg;
	int err = slots_take(h, c, &answer.slot);

	hub_answer(h, c, &answer, -err);
}
