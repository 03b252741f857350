/* Entries are in the order in which they were granted: a port comes before who listens at it. */
#include "control/journal.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

struct entry {
	struct list_node node;
	uint32_t type, device, a, c;
	uint64_t service;
	uint8_t gid[16];
};

struct connection {
	struct list_node node;
	struct control_msg msg;
};

/* Which request takes back what another gives; a multicast leave is a join with a = 0. */
static const uint32_t given_by[] = { [CTL_UNPORT] = CTL_PORT, [CTL_UNLISTEN] = CTL_LISTEN, [CTL_MCAST] = CTL_MCAST };

void journal_init(struct journal *j)
{
	memset(j, 0, sizeof(*j));
	list_init(&j->entries);
	for (int i = 0; i < JOURNAL_BUCKETS; i++)
		list_init(&j->connections[i]);
}

void journal_fini(struct journal *j)
{
	struct list_node *n;

	while ((n = list_pop(&j->entries)))
		free(container_of(n, struct entry, node));
	for (int i = 0; i < JOURNAL_BUCKETS; i++)
		while ((n = list_pop(&j->connections[i])))
			free(container_of(n, struct connection, node));
}

static int append(struct journal *j, const struct control_msg *msg)
{
	struct entry *e = calloc(1, sizeof(*e));

	if (!e)
		return -ENOMEM;
	e->type = msg->type;
	e->device = msg->device;
	e->a = msg->a;
	e->c = msg->c;
	e->service = msg->service;
	memcpy(e->gid, msg->gid, sizeof(e->gid));
	list_append(&j->entries, &e->node);
	return 0;
}

/* One, or those of a row. */
static int append_ports(struct journal *j, const struct control_msg *msg)
{
	uint64_t row = control_port_row(msg);
	struct control_msg one = *msg;
	int err = 0;

	one.c = 0;
	if (!row)
		return append(j, &one);
	for (; row && !err; row &= row - 1) {
		one.service = control_port_of_row(msg->service, row);
		err = append(j, &one);
	}
	return err;
}

int journal_granted(struct journal *j, const struct control_msg *msg)
{
	switch (msg->type) {
	case CTL_PORT:
		return append_ports(j, msg);
	case CTL_LISTEN:
		return append(j, msg);
	case CTL_MCAST:
		return msg->a ? append(j, msg) : 0;
	case CTL_CHANNEL:
		if (msg->slot < PAGE_SLOTS)
			j->channel[msg->slot] = msg->b;
		return 0;
	case CTL_PEER_GONE:
		if (msg->slot < PAGE_SLOTS)
			j->channel[msg->slot] = 0;
		return 0;
	default:
		return 0;
	}
}

int journal_taken(struct journal *j, const struct control_msg *msg)
{
	struct connection *k;

	if (msg->type != CTL_CONN)
		return 0;
	k = calloc(1, sizeof(*k));
	if (!k)
		return -ENOMEM;
	k->msg = *msg;
	list_append(&j->connections[msg->a % JOURNAL_BUCKETS], &k->node);
	return 0;
}

void journal_lost(struct journal *j, const struct control_msg *msg)
{
	if (msg->slot < PAGE_SLOTS && j->channel[msg->slot] == msg->b)
		j->channel[msg->slot] = 0;
}

static bool is_given(const struct entry *e, const struct control_msg *msg)
{
	if (e->type != given_by[msg->type] || memcmp(e->gid, msg->gid, sizeof(e->gid)) != 0)
		return false;
	if (e->type == CTL_MCAST)
		return e->device == msg->device && e->service == msg->service;
	return e->service == msg->service && (e->type == CTL_PORT || e->a == msg->a);
}

static bool forget_connection(struct journal *j, uint32_t id)
{
	list_for_each(k, &j->connections[id % JOURNAL_BUCKETS], struct connection, node) {
		if (k->msg.a != id)
			continue;
		list_remove(&k->node);
		free(k);
		return true;
	}
	return false;
}

static bool forget(struct journal *j, const struct control_msg *msg)
{
	list_for_each(e, &j->entries, struct entry, node) {
		if (!is_given(e, msg))
			continue;
		list_remove(&e->node);
		free(e);
		return true;
	}
	return false;
}

static bool forget_ports(struct journal *j, const struct control_msg *msg)
{
	struct control_msg one = *msg;
	bool any = false;

	for (uint64_t row = control_port_row(msg); row; row &= row - 1) {
		one.service = control_port_of_row(msg->service, row);
		any |= forget(j, &one);
	}
	return any;
}

bool journal_returned(struct journal *j, const struct control_msg *msg)
{
	if (msg->type == CTL_UNCONN)
		return forget_connection(j, msg->a);
	if (msg->type >= sizeof(given_by) / sizeof(given_by[0]) || !given_by[msg->type] || (msg->type == CTL_MCAST && msg->a))
		return false;
	return msg->type == CTL_UNPORT && control_port_row(msg) ? forget_ports(j, msg) : forget(j, msg);
}

int journal_replay(const struct journal *j, int (*tell)(void *arg, const struct control_msg *msg), void *arg)
{
	int err = 0;

	list_for_each(e, &j->entries, struct entry, node) {
		struct control_msg msg = { .type = e->type, .device = e->device, .a = e->a, .c = e->c,
					   .service = e->service };

		memcpy(msg.gid, e->gid, sizeof(msg.gid));
		if (!err)
			err = tell(arg, &msg);
	}
	for (int i = 0; i < JOURNAL_BUCKETS; i++)
		list_for_each(k, &j->connections[i], struct connection, node)
			if (!err)
				err = tell(arg, &k->msg);
	for (uint32_t slot = 1; slot < PAGE_SLOTS && !err; slot++) {
		struct control_msg msg = { .type = CTL_KEPT, .slot = slot, .b = j->channel[slot] };

		if (msg.b)
			err = tell(arg, &msg);
	}
	return err ? err : tell(arg, &(struct control_msg){ .type = CTL_KEPT });
}
