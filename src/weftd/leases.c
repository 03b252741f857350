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
		*o = (struct holder){ 0 };
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
		*o = (struct holder){ 0 };
		h->awaited_leases--;
	}
}
