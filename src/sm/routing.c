/* The model of the subnet as a fabric (fabric/fabric.h) that has nodes, ports and LFTs and nothing else, as route.h and survey.h
 * want it. Indices are the model's. */
#include "sm/routing.h"

#include "base/log.h"
#include "fabric/survey.h"
#include "sm/lids.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

static void end_fabric(struct fabric *f)
{
	free(f->head);
	free(f->node);
	free(f->port);
	free(f->place);
	free(f->owner);
	memset(f, 0, sizeof(*f));
}

void routing_fini(struct sm *s)
{
	end_fabric(&s->routed);
}

static uint32_t top_lid(const struct net *net)
{
	uint32_t lid = LIDS - 1;

	while (lid && !net->by_lid[lid])
		lid--;
	return lid;
}

static bool has_table(const struct net *net, uint32_t n)
{
	return net->node[n].is_here && net_is_switch(net, n);
}

static int make_fabric(struct fabric *f, const struct net *net)
{
	size_t bytes = 1;

	*f = (struct fabric){ .nodes = net->nodes, .ports = net->ports };
	f->lids = (top_lid(net) / LFT_BLOCK + 1) * LFT_BLOCK;
	for (uint32_t n = 0; n < net->nodes; n++)
		bytes += has_table(net, n) ? f->lids : 0;
	f->head = malloc(bytes);
	f->node = calloc(net->nodes + 1, sizeof(*f->node));
	f->port = calloc(net->ports + 1, sizeof(*f->port));
	f->place = calloc(net->nodes + 1, sizeof(*f->place));
	f->owner = calloc(net->ports + 1, sizeof(*f->owner));
	f->bytes = bytes;
	return f->head && f->node && f->port && f->place && f->owner ? 0 : -ENOMEM;
}

static void fill_ports(struct fabric *f, const struct net *net, uint32_t lmc)
{
	memcpy(f->owner, net->owner, net->ports * sizeof(*f->owner));
	for (uint32_t i = 0; i < net->ports; i++) {
		const struct net_port *p = &net->port[i];
		bool is_switch = net_is_switch(net, net->owner[i]);

		f->port[i].peer = p->peer;
		f->port[i].state = p->peer == PORT_NONE && net_port_number(net, i) ? PORT_DOWN : PORT_ACTIVE;
		f->port[i].lid = net_is_here(net, i) ? p->lid : 0;
		f->port[i].lmc = is_switch ? 0 : (uint8_t)lmc;
	}
}

/* Tables begin as what switches have. */
static void fill_nodes(struct fabric *f, const struct net *net)
{
	size_t at = 0;

	for (uint32_t n = 0; n < net->nodes; n++) {
		const struct net_node *node = &net->node[n];

		f->place[n] = (struct fabric_place){ .first_port = node->first_port, .ports = node->ports,
						     .type = has_table(net, n) ? NODE_SWITCH : NODE_CA, .lft = at };
		if (!has_table(net, n))
			continue;
		memset((uint8_t *)f->head + at, LFT_NONE, f->lids);
		if (node->lft)
			memcpy((uint8_t *)f->head + at, node->lft, node->lft_entries < f->lids ? node->lft_entries : f->lids);
		at += f->lids;
	}
}

/* Has a link come since the last computation, which is to get its share? What it has not known has come. */
static bool has_gained(const struct fabric *was, const struct fabric *f)
{
	for (uint32_t port = 0; port < f->ports; port++) {
		if (f->port[port].peer != PORT_NONE && (port >= was->ports || was->port[port].peer != f->port[port].peer))
			return true;
	}
	return false;
}

/* Switches keep their ranks, those that are gone too. */
static int route_again(struct sm *s, struct fabric *f, bool may_move)
{
	uint32_t *ranks = calloc(f->nodes + 1, sizeof(*ranks));
	int err = ranks ? 0 : -ENOMEM;

	for (uint32_t n = 0; ranks && n < f->nodes; n++)
		ranks[n] = s->net.node[n].rank;
	if (!err)
		err = fabric_route_again(f, s->engine, may_move, ranks);
	for (uint32_t n = 0; !err && n < f->nodes; n++)
		s->net.node[n].rank = ranks[n];
	free(ranks);
	return err;
}

/* Told when it begins to be so, not at each computation. */
static void note_deadlock(struct sm *s, bool can_deadlock)
{
	if (can_deadlock && !s->can_deadlock)
		log_line(LOG_WARNING, "the shortest paths of this subnet, which routing_engine minhop asks for, have a "
			 "credit loop: packets of hardware could wait for each other for ever");
	s->can_deadlock = can_deadlock;
}

/* Shortest paths, unless those could deadlock and nobody asked for them: up and down then, which stays. */
static int route(struct sm *s, struct fabric *f)
{
	struct survey v;
	int err = route_again(s, f, has_gained(&s->routed, f));

	if (err || s->engine == ROUTE_UP_DOWN)
		return err;
	err = survey(&v, f);
	if (!err && s->config.routing == ROUTE_ALWAYS_MIN_HOP) {
		note_deadlock(s, v.has_credit_loop);
	} else if (!err && v.has_credit_loop) {
		s->engine = ROUTE_UP_DOWN;
		fill_nodes(f, &s->net);
		err = route_again(s, f, true);
	}
	survey_fini(&v);
	return err;
}

int routing_compute(struct sm *s)
{
	struct fabric f;
	int err;

	if (s->routed_at == s->net.changes)
		return 0;
	err = make_fabric(&f, &s->net);
	s->counters.routings++;
	if (!err) {
		fill_ports(&f, &s->net, s->config.lmc & LMC_MOST);
		fill_nodes(&f, &s->net);
		err = route(s, &f);
	}
	if (err) {
		end_fabric(&f);
		return err;
	}
	end_fabric(&s->routed);
	s->routed = f;
	s->routed_at = ++s->net.changes;
	return 0;
}

uint32_t routing_lids(const struct sm *s)
{
	return s->routed.lids;
}

const uint8_t *routing_lft(const struct sm *s, uint32_t node)
{
	return node < s->routed.nodes && s->routed.place[node].type == NODE_SWITCH ? fabric_lft(&s->routed, node) : NULL;
}

unsigned routing_way(const struct sm *s, uint32_t from, uint32_t lid, uint32_t *out, unsigned most)
{
	uint32_t to = net_port_of_lid(&s->net, lid), at = from;
	unsigned n = 0;

	while (at != to && n < most) {
		uint32_t node = s->net.owner[at];
		const uint8_t *lft = net_is_switch(&s->net, node) ? routing_lft(s, node) : NULL;
		unsigned number = lft && lid < s->routed.lids ? lft[lid] : LFT_NONE;

		if (net_is_switch(&s->net, node)) {
			/* port 0 is the switch itself */
			if (number > s->net.node[node].ports)
				return 0;
			at = net_port_index(&s->net, node, number);
			if (at == to)
				return n;
		} else if (at != from) {
			return 0;
		}
		out[n] = at;
		at = s->net.port[at].peer;
		if (at == PORT_NONE)
			return 0;
		n++;
	}
	return at == to ? n : 0;
}
