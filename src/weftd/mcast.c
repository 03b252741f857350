/* A group lives while a process is in it. A process's joins are counted; the page names its first slot while the count is
 * not zero. Those of rdma_cm at a port that has a subnet manager are joins of the port, too (joins.h); a program that only
 * attaches a QP hears what comes to the port. Without a manager weftd writes the group's tree, of everybody. */
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

static void set_member(struct fabric_page *p, int group, uint32_t slot, bool is_member)
{
	struct page_group *g = &p->group[group];
	uint64_t bit = 1ull << slot % 64;

	page_write_begin(p);
	if (is_member)
		g->slots[slot / 64] |= bit;
	else
		g->slots[slot / 64] &= ~bit;
	if (!is_member && is_empty(g))
		g->used = 0;
	page_write_end(p);
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
		c->group_count++;
		set_member(h->page, i, c->slot, true);
		roce_port_hear(h, c, i);
	}
	if (has_lids && !joins_are_needed(h, c, msg->device))
		subnet_route_group(h, c, msg->device, h->page->group[i].mlid);
	c->joined[i]++;
	return i;
}

static void leave_once(struct hub *h, struct client *c, int i)
{
	if (--c->joined[i] == 0) {
		c->group_count--;
		roce_port_unhear(h, c, i);
		set_member(h->page, i, c->slot, false);
	}
}

static int leave(struct hub *h, struct client *c, const struct control_msg *msg)
{
	int i = find_group(h->page, msg->device, msg->gid);

	if (i < 0 || !c->joined[i] || (msg->service != MCAST_OF_PORT && c->joined[i] == c->joined_port[i]))
		return -ENOENT;
	if (msg->service == MCAST_OF_PORT && c->joined_port[i]) {
		c->joined_port[i]--;
		joins_leave(h, c, i, 1);
	}
	leave_once(h, c, i);
	return i;
}

bool mcast_take_back(struct hub *h, struct client *c, int i)
{
	if (!c->joined_port[i])
		return false;
	c->joined_port[i]--;
	leave_once(h, c, i);
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
	int err;

	if (!control_device_has(&h->page->device[page_device_of(h->page, msg->device)], DEVICE_LIDS) ||
	    subnet_port(h, c, msg->device) == PORT_NONE)
		return i;
	c->joined_port[i]++;
	err = joins_enter(h, c, msg, i, answer);
	if (err && err != -EINPROGRESS)
		mcast_take_back(h, c, i);
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
	if (i >= 0 && msg->a && msg->service == MCAST_OF_PORT)
		i = join_port(h, c, msg, i, &answer);
	if (i == -EINPROGRESS)
		return;
	if (i == -EDQUOT)
		hub_refuse(h, c, msg, LIMIT_GROUPS);
	else
		hub_answer(h, c, &answer, i < 0 ? -i : 0);
}

void mcast_forget(struct fabric_page *p, uint32_t slot)
{
	for (int i = 0; i < PAGE_GROUPS; i++) {
		if (p->group[i].used && p->group[i].slots[slot / 64] >> slot % 64 & 1)
			set_member(p, i, slot, false);
	}
}

void mcast_leave(struct hub *h, struct client *c)
{
	joins_forget(h, c);
	for (int i = 0; i < PAGE_GROUPS; i++) {
		if (!c->joined[i])
			continue;
		joins_leave(h, c, i, c->joined_port[i]);
		set_member(h->page, i, c->slot, false);
		c->joined[i] = c->joined_port[i] = 0;
	}
	c->group_count = 0;
}
