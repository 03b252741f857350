/* A group lives while a process is in it. A process's joins are counted; the page names its first slot while the count is
 * not zero. */
#include "weftd/mcast.h"

#include "weftd/page.h"

#include <errno.h>
#include <infiniband/verbs.h>
#include <string.h>

/* IBA vol. 1, 4.1.3: multicast LIDs begin at C000h. */
#define MLID_FIRST 0xc000

/* FFxx::, or on Ethernet an IPv4 group as an IPv4-mapped address, which is RoCEv2's form. */
static bool is_multicast(const struct page_device *d, const uint8_t gid[16])
{
	static const uint8_t mapped[12] = { [10] = 0xff, [11] = 0xff };

	if (gid[0] == 0xff)
		return true;
	return d->link_layer == IBV_LINK_LAYER_ETHERNET && memcmp(gid, mapped, 12) == 0 && gid[12] >> 4 == 0xe;
}

static int find_group(const struct fabric_page *p, uint32_t device, const uint8_t gid[16])
{
	for (int i = 0; i < PAGE_GROUPS; i++) {
		if (p->group[i].used && p->group[i].device == device && memcmp(p->group[i].gid, gid, 16) == 0)
			return i;
	}
	return -ENOENT;
}

static int make_group(struct fabric_page *p, uint32_t device, const uint8_t gid[16])
{
	for (int i = 0; i < PAGE_GROUPS; i++) {
		struct page_group *g = &p->group[i];

		if (g->used)
			continue;
		page_write_begin(p);
		memset(g, 0, sizeof(*g));
		g->device = (uint8_t)device;
		g->mlid = p->device[device].link_layer == IBV_LINK_LAYER_INFINIBAND ? (uint16_t)(MLID_FIRST + i) : 0;
		memcpy(g->gid, gid, 16);
		g->used = 1;
		page_write_end(p);
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
	int i = find_group(h->page, msg->device, msg->gid);

	if (i >= 0 && c->joined[i] == UINT16_MAX)
		return -EDQUOT;
	if (i < 0 || !c->joined[i]) {
		if (c->group_count >= QUOTA_GROUPS)
			return -EDQUOT;
		if (i < 0)
			i = make_group(h->page, msg->device, msg->gid);
		if (i < 0)
			return i;
		c->group_count++;
		set_member(h->page, i, c->slot, true);
	}
	c->joined[i]++;
	return i;
}

static int leave(struct hub *h, struct client *c, const struct control_msg *msg)
{
	int i = find_group(h->page, msg->device, msg->gid);

	if (i < 0 || !c->joined[i])
		return -ENOENT;
	if (--c->joined[i] == 0) {
		c->group_count--;
		set_member(h->page, i, c->slot, false);
	}
	return i;
}

void mcast_input(struct hub *h, struct client *c, const struct control_msg *msg)
{
	struct control_msg answer = *msg;
	int i = -EINVAL;

	if (msg->a <= 1 && msg->device < h->page->devices && is_multicast(&h->page->device[msg->device], msg->gid))
		i = msg->a ? join(h, c, msg) : leave(h, c, msg);
	if (i >= 0)
		answer.b = h->page->group[i].mlid;
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
	for (int i = 0; i < PAGE_GROUPS; i++) {
		if (c->joined[i])
			set_member(h->page, i, c->slot, false);
		c->joined[i] = 0;
	}
	c->group_count = 0;
}
