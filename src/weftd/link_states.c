#include "weftd/link_states.h"

#include "base/log.h"
#include "weftd/page.h"
#include "weftd/subnet.h"
#include "weftd/tree.h"

#include <errno.h>
#include <infiniband/verbs.h>

/* Programs at hosts of a fabric get trees with the new state when they start. */
static int set_device(struct hub *h, uint32_t device, bool is_up)
{
	if (device >= h->page->devices)
		return -EINVAL;
	h->loads.link_downed[device] += !is_up && h->page->device[device].port_state == IBV_PORT_ACTIVE;
	page_set_link(h->page, device, is_up);
	log_line(LOG_INFO, "the link of %s is %s", h->page->device[device].name, is_up ? "up" : "down");
	if (h->subnet) {
		tree_write(h->subnet->dir, h->page);
		subnet_addresses_changed(h->subnet);
	}
	hub_page_changed(h, CONTROL_PAGE_PORTS);
	return 0;
}

static int set(struct hub *h, const struct outage *o, bool is_up)
{
	return o->port ? subnet_set_link(h, o->port - 1, o->fabric, is_up) : set_device(h, o->device, is_up);
}

static bool is_same(const struct outage *a, const struct outage *b)
{
	return a->until && a->port == b->port && (a->port ? a->fabric == b->fabric : a->device == b->device);
}

/* Nothing is down by it, or nothing that there is. */
static bool is_free(const struct hub *h, const struct outage *o)
{
	return !o->until || (o->port && o->fabric != atomic_load(&h->page->fabric));
}

/* The place of this link, or a free one; NULL: there is none. */
static struct outage *find_place(struct hub *h, const struct outage *of)
{
	struct outage *place = NULL;

	for (int i = 0; i < STATE_LINKS; i++) {
		struct outage *o = &h->claims->outage[i];

		if (is_same(o, of))
			return o;
		if (is_free(h, o))
			place = o;
	}
	return place;
}

/* What is said last holds. */
static int change(struct hub *h, const struct control_msg *msg)
{
	struct outage o = { .device = msg->a ? 0 : msg->device, .port = msg->a, .fabric = msg->a ? msg->b : 0 };
	struct outage *place = find_place(h, &o);
	int err;

	if (msg->c > 1 || (msg->service && (msg->c || msg->service > CONTROL_LINK_NS)))
		return -EINVAL;
	if (msg->service && !place)
		return -EBUSY;
	err = set(h, &o, msg->c);
	if (err || !place)
		return err;
	o.until = msg->service ? h->now + msg->service : 0;
	*place = o;
	return 0;
}

void link_states_input(struct hub *h, struct client *c, const struct control_msg *msg)
{
	hub_answer(h, c, msg, hub_is_owner(h, c) ? -change(h, msg) : EPERM);
}

static int set_fault(struct hub *h, const struct control_msg *msg)
{
	if (!msg->a || msg->c > 1000000)
		return -EINVAL;
	return subnet_set_fault(h, msg->a - 1, msg->b, msg->c, msg->slot, msg->service);
}

void link_states_fault(struct hub *h, struct client *c, const struct control_msg *msg)
{
	hub_answer(h, c, msg, hub_is_owner(h, c) ? -set_fault(h, msg) : EPERM);
}

static int make_error(struct hub *h, const struct control_msg *msg)
{
	if (!msg->a || msg->c >= LINK_ERRORS || !msg->slot || msg->slot > CONTROL_LINK_ERRORS)
		return -EINVAL;
	return subnet_link_error(h, msg->a - 1, msg->b, (enum link_error)msg->c, msg->slot);
}

void link_states_error(struct hub *h, struct client *c, const struct control_msg *msg)
{
	hub_answer(h, c, msg, hub_is_owner(h, c) ? -make_error(h, msg) : EPERM);
}

static int cut(struct hub *h, const struct control_msg *msg)
{
	int err;

	if (msg->a >= CONTROL_PATHS || msg->c > CUT_ASKS)
		return -EINVAL;
	if (msg->c == CUT_ASKS)
		return 0;
	err = page_cut_path(h->page, msg->gid, (unsigned)msg->a, msg->c == CUT_FAILS);
	if (!err)
		hub_page_changed(h, CONTROL_PAGE_PORTS);
	return err;
}

void link_states_cut(struct hub *h, struct client *c, const struct control_msg *msg)
{
	struct control_msg answer = *msg;
	int err = hub_is_owner(h, c) ? cut(h, msg) : -EPERM;

	answer.b = page_cut_paths(h->page, msg->gid);
	hub_answer(h, c, &answer, -err);
}

/* A time beyond any that is given is of the clock before the machine was started anew. */
static bool is_due(const struct hub *h, const struct outage *o)
{
	return o->until && (o->until <= h->now || o->until > h->now + CONTROL_LINK_NS);
}

void link_states_expire(struct hub *h)
{
	for (int i = 0; i < STATE_LINKS; i++) {
		struct outage *o = &h->claims->outage[i];
		struct outage ended = *o;

		if (!is_due(h, &ended))
			continue;
		o->until = 0;
		set(h, &ended, true);
	}
}

wtime link_states_deadline(const struct hub *h)
{
	wtime at = WTIME_NEVER;

	for (int i = 0; i < STATE_LINKS; i++)
		if (h->claims->outage[i].until)
			at = wtime_min(at, h->claims->outage[i].until);
	return at;
}
