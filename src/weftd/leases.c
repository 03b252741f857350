/* A lease that finds no room in the state works all the same; only the next weftd will not know it. */
#include "weftd/leases.h"

static struct holder *find(struct hub *h, int32_t pid)
{
	for (int i = 0; i < STATE_LEASES; i++) {
		if (h->claims->lease[i].pid == pid && !h->claims->lease[i].awaited)
			return &h->claims->lease[i];
	}
	return NULL;
}

static void end(struct hub *h, struct holder *o)
{
	h->claims->lease_port[o - h->claims->lease] = 0;
	*o = (struct holder){ 0 };
}

void leases_add(struct hub *h, struct client *c)
{
	struct holder *o = find(h, 0);

	c->kind = CLIENT_LEASE;
	h->lease_count++;
	if (o)
		*o = state_holder(c->pid);
}

void leases_remove(struct hub *h, struct client *c)
{
	struct holder *o = c->pid > 0 && !h->is_closing ? find(h, c->pid) : NULL;

	h->lease_count--;
	if (o)
		end(h, o);
}

void leases_place(struct hub *h, struct client *c, uint32_t port)
{
	struct holder *o = c->pid > 0 ? find(h, c->pid) : NULL;

	c->lease_port = port + 1;
	if (o)
		h->claims->lease_port[o - h->claims->lease] = port + 1;
}

/* Does the process have a slot at a port? */
static bool is_placed(const struct hub *h, int32_t pid)
{
	for (uint32_t i = 1; pid > 0 && i < PAGE_SLOTS; i++) {
		if (h->claims->slot[i].first == i && h->claims->slot[i].holder.pid == pid && atomic_load(&h->page->slot_port[i]))
			return true;
	}
	return false;
}

uint32_t leases_count_placed(const struct hub *h)
{
	uint32_t n = 0;

	list_for_each(c, &h->clients, struct client, node)
		n += c->kind == CLIENT_LEASE && c->lease_port && !is_placed(h, c->pid);
	for (int i = 0; h->awaited_leases && i < STATE_LEASES; i++) {
		const struct holder *o = &h->claims->lease[i];

		n += o->awaited && h->claims->lease_port[i] && !is_placed(h, o->pid) && state_holder_lives(o);
	}
	return n;
}

void leases_inherit(struct hub *h)
{
	for (int i = 0; i < STATE_LEASES; i++) {
		struct holder *o = &h->claims->lease[i];

		o->awaited = o->pid != 0;
		h->awaited_leases += o->awaited;
	}
}

void leases_expire(struct hub *h)
{
	for (int i = 0; h->awaited_leases && i < STATE_LEASES; i++) {
		struct holder *o = &h->claims->lease[i];

		if (!o->awaited || state_holder_lives(o))
			continue;
		end(h, o);
		h->awaited_leases--;
	}
}
