/* A weftd with a fabric, asked without a socket: processes at hosts, and what is sent to them. */
#ifndef WEFT_TESTS_UNIT_SUBNET_H
#define WEFT_TESTS_UNIT_SUBNET_H

#include "fabric.h"

#include "base/qpn.h"
#include "fabric/host.h"
#include "fabric/route.h"
#include "weftd/page.h"
#include "weftd/subnet.h"
#include "weftd/umad.h"

#include <errno.h>

enum { SUBNET_PROCESSES = 3 };

struct test_subnet {
	struct hub hub;
	struct fabric_page page;
	struct claims claims;
	struct test_fabric t;
	struct subnet subnet;
	struct client client[SUBNET_PROCESSES];		/* at h1 and on; the process's slot is one more */
	struct control_msg last[SUBNET_PROCESSES];	/* that came to it */
	unsigned messages[SUBNET_PROCESSES];
	uint8_t text[SUBNET_PROCESSES][64] __attribute__((aligned(8)));	/* of the last, as far as there is room */
};

static struct test_subnet *net;

static bool net_take(struct hub *hub, struct client *c, const struct control_msg *msg, const char *text, const int *fds, int nfds)
{
	(void)hub;
	(void)fds;
	(void)nfds;
	net->last[c - net->client] = *msg;
	if (msg->text_bytes && msg->text_bytes <= sizeof(net->text[0]))
		memcpy(net->text[c - net->client], text, msg->text_bytes);
	net->messages[c - net->client]++;
	return true;
}

static bool net_has_room(struct hub *hub, const struct client *c)
{
	(void)hub;
	(void)c;
	return true;
}

static const struct hub_ops net_ops = { .send = net_take, .has_room = net_has_room };

static uint32_t net_slot(unsigned client)
{
	return client + 1;
}

/* A QP number of the process. */
static inline uint32_t net_qpn(unsigned client, uint32_t n)
{
	return qpn_make(net_slot(client), n);
}

static void net_attach(unsigned i)
{
	const char name[] = { 'h', (char)('1' + i), '\0' };
	struct client *c = &net->client[i];
	enum control_limit limit;

	c->uid = 1000;
	assert_int_equal(hub_join(&net->hub, c, &limit), 0);
	c->kind = CLIENT_PROCESS;
	c->slot = net_slot(i);
	net->hub.slot_owner[c->slot] = c;
	atomic_store(&net->page.slot_port[c->slot], port_named(&net->t.f, name, 1) + 1);
}

/* A star whose switch knows the ways. */
static int net_set_up(void **state)
{
	struct state s;

	(void)state;
	net = calloc(1, sizeof(*net));
	assert_non_null(net);
	page_set_devices(&net->page, &control_default, 0x0200000000000100);
	s = (struct state){ .page = &net->page, .claims = &net->claims, .page_fd = -1 };
	hub_init(&net->hub, &net_ops, &s, 1);
	net->hub.uid = 1000;
	MAKE(&net->t, "star", "hosts=3");
	assert_int_equal(fabric_route(&net->t.f, ROUTE_MIN_HOP), 0);
	fabric_activate(&net->t.f);
	net->subnet.fabric = net->t.f;
	assert_int_equal(agents_init(&net->subnet.agents, &net->subnet.fabric), 0);
	net->hub.subnet = &net->subnet;
	for (unsigned i = 0; i < SUBNET_PROCESSES; i++)
		net_attach(i);
	return 0;
}

static int net_tear_down(void **state)
{
	(void)state;
	for (unsigned i = 0; i < SUBNET_PROCESSES; i++) {
		umad_leave(&net->hub, &net->client[i]);
		list_remove(&net->client[i].node);
		account_put(net->client[i].account);
	}
	mad_clients_fini(&net->hub.mads);
	agents_fini(&net->subnet.agents);
	end_fabric(&net->t);
	free(net);
	return 0;
}

static inline uint32_t net_port(unsigned client)
{
	return subnet_port(&net->hub, &net->client[client], 0);
}

static inline uint16_t net_lid(unsigned client)
{
	return net->t.f.port[net_port(client)].lid;
}

#endif
