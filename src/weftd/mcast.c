/* A group lives while a process is in it. A process's joins are counted; the page names its first slot while there is one that
 * does more than send. Those of rdma_cm at a port that has a subnet manager are joins of the port, too (joins.h); a program that
 * only attaches a QP hears what comes to the port. Without a manager weftd writes the group's tree, of everybody. */
#include "weftd/mcast.h"

#include "control/devices.h"
#include "weftd/joins.h"
#include "weftd/page.h"
#include "weftd/roce_port.h"
#include "weftd/subnet.h"
#include "wire/addr.h"

#include <errno.h>
#include <infiniband/verbs.h>
#include <string.h>

static bool is_multicast(const struct page_device *d, const uint8_t gid[16])
{
	return gid_is_multicast(gid) || (control_device_has(d, DEVICE_IP_GIDS) && gid_is_ipv4_multicast(gid));
}

static int find_group(const struct fabric_page *p, uint32_t device, const uint8_t gid[16])
{
	for (int i = 0; i < PAGE_GROUPS; i++) {
		if (p->group[i].used && p->group[i].device == device && memcmp(p->group[i].gid, gid, 16) == 0)
			return i;
	}
	return -ENOENT;
}

static bool is_lid_taken(const struct fabric_page *p, uint16_t mlid)
{
	for (int i = 0; i < PAGE_GROUPS; i++)
		if (p->group[i].used && p->group[i].mlid == mlid)
			return true;
	return false;
}

/* A group has one LID, at whichever ports its members listen; else the next from this one on that is free. There are as many as
 * groups. The first LID is given last: OpenSM has it for IP's broadcast, and so could not leave it to a group that was there
 * before. */
static uint16_t choose_lid(const struct fabric_page *p, const uint8_t gid[16], int n)
{
	for (int i = 0; i < PAGE_GROUPS; i++)
		if (p->group[i].used && p->group[i].mlid && memcmp(p->group[i].gid, gid, 16) == 0)
			return p->group[i].mlid;
	while (is_lid_taken(p, (uint16_t)(MLID_FIRST + n % PAGE_GROUPS)))
		n++;
	return (uint16_t)(MLID_FIRST + n % PAGE_GROUPS);
}

static int make_group(struct hub *h, const struct client *c, uint32_t device, const uint8_t gid[16])
{
	struct fabric_page *p = h->page;

	for (int n = 1; n <= PAGE_GROUPS; n++) {
		int i = n % PAGE_GROUPS;
		struct page_group *g = &p->group[i];
		uint16_t mlid = 0;

		if (g->used)
			continue;
		if (control_device_has(&p->device[page_device_of(p, device)], DEVICE_LIDS))
			mlid = choose_lid(p, gid, n);
		page_write_begin(p);
		memset(g, 0, sizeof(*g));
		g->device = (uint8_t)device;
		g->mlid = mlid;
		memcpy(g->gid, gid, 16);
		g->used = 1;
		page_write_end(p);
		h->group_user[i] = c->account->user;
		return i;
	}
	return -ENOSPC;
}

static bool is_empty(const struct page_group *g)
{
	for (size_t i = 0; i < PAGE_SLOTS / 64; i++) {
		if (g->slots[i])
			return false;
	}
	return true;
}

static void end_if_unused(struct hub *h, int group)
{
	struct page_group *g = &h->page->group[group];

	if (!is_empty(g) || h->group_sends[group])
		return;
	page_write_begin(h->page);
	g->used = 0;
	page_write_end(h->page);
}

static void set_member(struct fabric_page *p, int group, uint32_t slot, bool is_member)
{
	struct page_group *g = &p->group[group];
	uint64_t bit = 1ull << slot % 64;

	page_write_begin(p);
	if (is_member)
		g->slots[slot / 64] |= bit;
	else
		g->slots[slot / 64] &= ~bit;
	page_write_end(p);
}

static bool hears(const struct client *c, int i)
{
	return c->joined[i] > c->joined_sends[i];
}

static void join_once(struct hub *h, struct client *c, int i, bool sends)
{
	if (!sends && !hears(c, i)) {
		set_member(h->page, i, c->slot, true);
		roce_port_hear(h, c, i);
	}
	c->group_count += !c->joined[i];
	c->joined[i]++;
	c->joined_sends[i] += sends;
	h->group_sends[i] += sends;
}

static void leave_once(struct hub *h, struct client *c, int i, bool sends)
{
	c->joined[i]--;
	c->joined_sends[i] -= sends;
	h->group_sends[i] -= sends;
	c->group_count -= !c->joined[i];
	if (!sends && !hears(c, i)) {
		roce_port_unhear(h, c, i);
		set_member(h->page, i, c->slot, false);
	}
	end_if_unused(h, i);
}

static int join(struct hub *h, struct client *c, const struct control_msg *msg)
{
	bool has_lids = control_device_has(&h->page->device[page_device_of(h->page, msg->device)], DEVICE_LIDS);
	int i = find_group(h->page, msg->device, msg->gid);

	if (i >= 0 && c->joined[i] == UINT16_MAX)
		return -EDQUOT;
	if (i < 0 || !c->joined[i]) {
		if (c->group_count >= QUOTA_GROUPS || (i < 0 && account_check(h, c, LIMIT_GROUPS, 1)))
			return -EDQUOT;
		if (i < 0)
			i = make_group(h, c, msg->device, msg->gid);
		if (i < 0)
			return i;
		/* of the last weftd's time */
		if (h->group_user[i] == UINT32_MAX)
			h->group_user[i] = c->account->user;
	}
	if (has_lids && !joins_are_needed(h, c, msg->device))
		subnet_route_group(h, c, msg->device, h->page->group[i].mlid);
	join_once(h, c, i, msg->service == MCAST_SENDS);
	return i;
}

/* Has it joined so? */
static bool is_in(const struct client *c, int i, const struct control_msg *msg)
{
	if (msg->service == MCAST_SENDS)
		return c->joined_sends[i];
	return msg->service == MCAST_OF_PORT ? hears(c, i) : c->joined[i] > c->joined_sends[i] + c->joined_port[i];
}

static int leave(struct hub *h, struct client *c, const struct control_msg *msg)
{
	bool sends = msg->service == MCAST_SENDS;
	int i = find_group(h->page, msg->device, msg->gid);

	if (i < 0 || !is_in(c, i, msg))
		return -ENOENT;
	if (msg->service == MCAST_OF_PORT && c->joined_port[i]) {
		c->joined_port[i]--;
		joins_leave(h, c, i, false, 1);
	} else if (sends) {
		joins_leave(h, c, i, true, 1);
	}
	leave_once(h, c, i, sends);
	return i;
}

bool mcast_take_back(struct hub *h, struct client *c, int i, bool sends)
{
	if (!(sends ? c->joined_sends : c->joined_port)[i])
		return false;
	c->joined_port[i] -= !sends;
	leave_once(h, c, i, sends);
	return true;
}

void mcast_set_lid(struct fabric_page *p, int i, uint16_t mlid)
{
	if (!p->group[i].used || p->group[i].mlid == mlid)
		return;
	page_write_begin(p);
	p->group[i].mlid = mlid;
	page_write_end(p);
}

/* After join: the port joins, too. */
static int join_port(struct hub *h, struct client *c, const struct control_msg *msg, int i, struct control_msg *answer)
{
	bool sends = msg->service == MCAST_SENDS;
	int err;

	if (!control_device_has(&h->page->device[page_device_of(h->page, msg->device)], DEVICE_LIDS) ||
	    subnet_port(h, c, msg->device) == PORT_NONE)
		return i;
	c->joined_port[i] += !sends;
	err = joins_enter(h, c, msg, i, answer);
	if (err && err != -EINPROGRESS)
		mcast_take_back(h, c, i, sends);
	return err ? err : i;
}

void mcast_input(struct hub *h, struct client *c, const struct control_msg *msg)
{
	struct control_msg answer = *msg;
	int i = -EINVAL;

	if (msg->a <= 1 && subnet_has_index(h, c, msg->device) &&
	    is_multicast(&h->page->device[page_device_of(h->page, msg->device)], msg->gid))
		i = msg->a ? join(h, c, msg) : leave(h, c, msg);
	if (i >= 0)
		answer.b = h->page->group[i].mlid;
	if (i >= 0 && msg->a && (msg->service == MCAST_OF_PORT || msg->service == MCAST_SENDS))
		i = join_port(h, c, msg, i, &answer);
	if (i == -EINPROGRESS)
		return;
	if (i == -EDQUOT)
		hub_refuse(h, c, msg, LIMIT_GROUPS);
	else
		hub_answer(h, c, &answer, i < 0 ? -i : 0);
}

void mcast_forget(struct hub *h, uint32_t slot)
{
	for (int i = 0; i < PAGE_GROUPS; i++) {
		if (!h->page->group[i].used || !(h->page->group[i].slots[slot / 64] >> slot % 64 & 1))
			continue;
		set_member(h->page, i, slot, false);
		end_if_unused(h, i);
	}
}

void mcast_inherit(struct hub *h)
{
	for (int i = 0; i < PAGE_GROUPS; i++) {
		if (h->page->group[i].used)
			end_if_unused(h, i);
	}
}

void mcast_leave(struct hub *h, struct client *c)
{
	joins_forget(h, c);
	for (int i = 0; i < PAGE_GROUPS; i++) {
		if (!c->joined[i])
			continue;
		joins_leave(h, c, i, false, c->joined_port[i]);
		joins_leave(h, c, i, true, c->joined_sends[i]);
		set_member(h->page, i, c->slot, false);
		h->group_sends[i] -= c->joined_sends[i];
		c->joined[i] = c->joined_port[i] = c->joined_sends[i] = 0;
		end_if_unused(h, i);
	}
	c->group_count = 0;
}
