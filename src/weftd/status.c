/* The figures that `weft status` and `weft devices` show. */
#include "weftd/status.h"

#include "control/devices.h"
#include "fabric/host.h"
#include "weftd/slots.h"
#include "weftd/subnet.h"
#include "weftd/trust.h"
#include "wire/mtu.h"
#include "weftd/roce_port.h"

#include <arpa/inet.h>
#include <errno.h>
#include <infiniband/verbs.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

json_t *status_process(const struct client *c)
{
	return json_pack("{s:i, s:s, s:i, s:i}", "pid", (int)c->pid, "program", c->program,
			 "uid", (int)c->uid, "slot", (int)c->slot);
}

/* The host at which it is. A name that is no UTF-8 is not told. */
static void describe_place(json_t *o, const struct hub *h, const struct client *c)
{
	char name[NODE_DESCRIPTION + 1];
	uint32_t place = subnet_place(h, c);
	const struct fabric *f;

	if (place == PORT_NONE)
		return;
	f = &h->subnet->fabric;
	host_name(f, place, name);
	json_object_set_new(o, "node", json_string(name));
	json_object_set_new(o, "node_port", json_integer(fabric_port_number(f, host_port(f, place, 1))));
	json_object_set_new(o, "node_ports", json_integer(host_ports(f, place)));
}

static json_t *owned_slots(const struct hub *h, const struct client *c)
{
	json_t *all = json_array();

	for (uint32_t i = 1; i < PAGE_SLOTS; i++)
		if (h->slot_owner[i] == c)
			json_array_append_new(all, json_integer(i));
	return all;
}

static json_t *describe_client(const struct hub *h, const struct client *c)
{
	json_t *o = status_process(c);

	describe_place(o, h, c);

	json_object_set_new(o, "slots", json_integer(c->slots));
	json_object_set_new(o, "number", json_integer(slots_number(h, c)));
	json_object_set_new(o, "owned_slots", owned_slots(h, c));
	json_object_set_new(o, "channels", json_integer(c->channels));
	json_object_set_new(o, "groups", json_integer(c->group_count));
	json_object_set_new(o, "listeners", json_integer(c->listener_count));
	json_object_set_new(o, "ports", json_integer(c->port_count));
	json_object_set_new(o, "mads_sent", json_integer((json_int_t)c->mads_sent));
	json_object_set_new(o, "mads_dropped", json_integer((json_int_t)c->mads_dropped));
	return o;
}

static const char *gid_type(const struct page_gid *g)
{
	return g->type == IBV_GID_TYPE_ROCE_V2 ? "RoCE v2" : "IB";
}

static const char *link_layer(const struct page_device *d)
{
	return control_device_protocol(d)->link_layer == IBV_LINK_LAYER_INFINIBAND ? "InfiniBand" : "Ethernet";
}

static json_t *describe_gids(const struct page_device *d)
{
	json_t *all = json_array();

	for (int i = 0; i < PAGE_GIDS; i++) {
		const struct page_gid *g = &d->gid[i];
		char text[INET6_ADDRSTRLEN];

		if (!g->valid)
			continue;
		inet_ntop(AF_INET6, g->raw, text, sizeof(text));
		json_array_append_new(all, json_pack("{s:i, s:s, s:s, s:s}", "index", i, "gid", text, "type", gid_type(g),
						     "interface", g->ifname));
	}
	return all;
}

static json_t *describe_devices(const struct fabric_page *p)
{
	json_t *all = json_array();

	for (uint32_t i = 0; i < p->devices; i++) {
		const struct page_device *d = &p->device[i];
		char guid[20];

		snprintf(guid, sizeof(guid), "%016llx", (unsigned long long)d->guid);
		json_array_append_new(all, json_pack("{s:s, s:s, s:i, s:s, s:s, s:i, s:i, s:i, s:i, s:s, s:o}",
			"name", d->name, "guid", guid, "port", 1,
			"state", d->port_state == IBV_PORT_ACTIVE ? "ACTIVE" : "DOWN",
			"link_layer", link_layer(d),
			"lid", d->lid, "sm_lid", d->sm_lid, "mtu", mtu_bytes(d->active_mtu),
			"rate_gbps", (int)control_rate(d->width, d->speed), "netdev", d->netdev, "gids", describe_gids(d)));
	}
	return all;
}

static int count_groups(const struct fabric_page *p)
{
	int n = 0;

	for (int i = 0; i < PAGE_GROUPS; i++)
		n += p->group[i].used;
	return n;
}

static json_t *describe_hub(const struct hub *h, const struct client *asker)
{
	json_t *processes = json_array();

	list_for_each(c, &h->clients, struct client, node) {
		if (c->kind == CLIENT_PROCESS && (hub_is_owner(h, asker) || trust_same_user(c, asker)))
			json_array_append_new(processes, describe_client(h, c));
	}
	return json_pack("{s:b, s:s, s:i, s:s, s:i, s:I, s:b, s:i, s:i, s:i, s:i, s:i, s:i, s:i, s:o, s:o, s:o}",
			 "running", 1,
			 "version", WEFT_VERSION,
			 "pid", (int)getpid(),
			 "directory", h->dir ? h->dir : "",
			 "uid", (int)h->uid,
			 "uptime_s", (json_int_t)((h->now - h->start) / WTIME_S),
			 "stays_when_idle", (int)hub_stays(h),
			 "attached", (int)h->process_count,
			 "awaited", (int)h->awaited,
			 "programs", (int)(h->lease_count + h->awaited_leases),
			 "slots_used", (int)h->slots_used,
			 "channels", (int)h->channel_count,
			 "groups", count_groups(h->page),
			 "fabric_nodes", (int)subnet_nodes(h),
			 "processes", processes,
			 "devices", describe_devices(h->page),
			 "wire", roce_port_describe(h));
}

static int text_file(const char *text)
{
	size_t bytes = strlen(text);
	int fd = memfd_create("weft-answer", MFD_CLOEXEC);

	if (fd >= 0 && write(fd, text, bytes) == (ssize_t)bytes)
		return fd;
	if (fd >= 0)
		close(fd);
	return -ENOMEM;
}

void status_send_text(struct hub *h, struct client *c, const struct control_msg *msg, const char *text)
{
	struct control_msg answer = *msg;
	int fd = -1;

	answer.status = 0;
	answer.text_bytes = (uint32_t)strlen(text);
	if (strlen(text) > CONTROL_TEXT) {
		answer.text_bytes = 0;
		fd = text_file(text);
	}
	if (fd < 0 && !answer.text_bytes)
		hub_answer(h, c, msg, ENOMEM);
	else
		h->ops->send(h, c, &answer, text, &fd, fd >= 0);
	if (fd >= 0)
		close(fd);
}

void status_input(struct hub *h, struct client *c, const struct control_msg *msg)
{
	json_t *all = describe_hub(h, c);
	char *text = all ? json_dumps(all, JSON_COMPACT) : NULL;

	if (text)
		status_send_text(h, c, msg, text);
	else
		hub_answer(h, c, msg, ENOMEM);
	free(text);
	json_decref(all);
}
