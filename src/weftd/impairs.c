#include "weftd/impairs.h"

#include "weftd/trust.h"

#include <errno.h>

/* Our choice: each process looks for its ways anew when it is told, and anybody may have all of them told. */
static const wtime TELL_EVERY = 50 * WTIME_MS;

/* A user's own processes; whose weftd it is, all. */
static bool may_impair(const struct hub *h, const struct client *asker, const struct client *c)
{
	return hub_is_owner(h, asker) || trust_same_user(c, asker);
}

static bool is_meant(const struct client *c, const struct control_msg *msg)
{
	return c->kind == CLIENT_PROCESS && (!msg->slot || (uint32_t)c->pid == msg->slot);
}

/* How many were meant, and how many of them may be impaired. */
static void choose(struct hub *h, const struct client *asker, const struct control_msg *msg, uint32_t *meant, uint32_t *chosen)
{
	*meant = *chosen = 0;
	list_for_each(c, &h->clients, struct client, node) {
		*meant += is_meant(c, msg);
		*chosen += is_meant(c, msg) && may_impair(h, asker, c);
	}
}

static void set_slot(struct hub *h, uint32_t slot, uint8_t why, bool on)
{
	_Atomic uint8_t *packets = &h->page->slot_packets[slot];
	uint8_t was = on ? atomic_fetch_or(packets, why) : atomic_fetch_and(packets, (uint8_t)~why);

	h->packets_untold |= !(was & why) == on;
}

/* Those that send to a process that is impaired take the direct way no more. */
void impairs_want_packets(struct hub *h, const struct client *c, uint8_t why, bool on)
{
	for (uint32_t i = 1; i < PAGE_SLOTS; i++) {
		if (h->slot_owner[i] == c)
			set_slot(h, i, why, on);
	}
}

static void pass_on(struct hub *h, const struct client *asker, const struct control_msg *msg, const char *text)
{
	struct control_msg out = { .type = CTL_IMPAIR, .text_bytes = msg->text_bytes };

	list_for_each(c, &h->clients, struct client, node) {
		if (!is_meant(c, msg) || !may_impair(h, asker, c))
			continue;
		impairs_want_packets(h, c, PAGE_IMPAIRED, msg->text_bytes != 0);
		h->ops->send(h, c, &out, text, NULL, 0);
	}
}

void impairs_input(struct hub *h, struct client *c, const struct control_msg *msg, const char *text)
{
	struct control_msg answer = *msg;
	uint32_t meant;

	choose(h, c, msg, &meant, &answer.b);
	if (answer.b) {
		pass_on(h, c, msg, text);
		impairs_expire(h);
	}
	hub_answer(h, c, &answer, answer.b || !msg->slot ? 0 : meant ? EPERM : ENOENT);
}

void impairs_expire(struct hub *h)
{
	if (!h->packets_untold || h->now < h->tell_packets_at)
		return;
	h->packets_untold = false;
	h->tell_packets_at = h->now + TELL_EVERY;
	hub_page_changed(h, CONTROL_PAGE_PACKETS);
}

wtime impairs_deadline(const struct hub *h)
{
	return h->packets_untold ? h->tell_packets_at : WTIME_NEVER;
}
