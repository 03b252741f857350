#include "mad_net.h"

#include "mgmt/mad_agents.h"

#include <stdlib.h>
#include <string.h>

struct flight {
	uint32_t to;			/* manager */
	struct mad_letter letter;
	uint8_t data[MAD_BYTES];
};

static void must(int err)
{
	if (err)
		abort();
}

void mad_net_init(struct mad_net *n, struct fabric *f, uint64_t seed)
{
	*n = (struct mad_net){ .fabric = f, .now = 1, .delay_ns = 5 * WTIME_US };
	must(agents_init(&n->agents, f));
	rand_seed(&n->rand, seed);
}

void mad_net_init_cold(struct mad_net *n, struct fabric *f, uint64_t seed)
{
	for (uint32_t port = 0; port < f->ports; port++)
		f->port[port].lid = 0;
	for (uint32_t node = 0; node < f->nodes; node++)
		f->node[node].lft_top = 0;
	mad_net_init(n, f, seed);
}

void mad_net_fini(struct mad_net *n)
{
	struct flight *f;

	for (unsigned i = 0; i < n->managers; i++) {
		if (n->manager[i].runs)
			sm_fini(&n->manager[i].sm);
	}
	while ((f = event_queue_take(&n->flights)))
		free(f);
	event_queue_fini(&n->flights);
	agents_fini(&n->agents);
}

/* ---- managers ---- */

static void begin(struct mad_net *n, struct mad_net_manager *m, const struct sm_config *config)
{
	struct sm_config by_fabric = *config;

	m->runs = true;
	by_fabric.partitions = n->fabric;
	must(sm_init(&m->sm, &by_fabric));
	agents_set_sm(&n->agents, n->now, m->port, true);
	sm_start(&m->sm, n->now);
}

struct mad_net_manager *mad_net_add(struct mad_net *n, uint32_t port, const struct sm_config *config)
{
	struct mad_net_manager *m = &n->manager[n->managers++];

	must(n->managers > MAD_NET_MANAGERS);
	m->port = port;
	begin(n, m, config);
	return m;
}

void mad_net_kill(struct mad_net *n, struct mad_net_manager *m)
{
	m->runs = false;
	sm_fini(&m->sm);
	agents_set_sm(&n->agents, n->now, m->port, false);
}

void mad_net_revive(struct mad_net *n, struct mad_net_manager *m, const struct sm_config *config)
{
	mad_net_kill(n, m);
	begin(n, m, config);
}

void mad_net_set_node(struct mad_net *n, uint32_t node, bool is_up)
{
	const struct fabric *f = n->fabric;

	for (unsigned i = 1; i <= f->place[node].ports; i++) {
		uint32_t port = fabric_port_index(f, node, i);

		if (fabric_peer(f, port) != PORT_NONE)
			agents_set_link(&n->agents, n->now, port, is_up);
	}
	for (unsigned i = 0; !is_up && i < AGENT_TRAPS; i++) {
		struct trap *t = &n->agents.trap[i];

		if (t->sends && t->port == f->place[node].first_port) {
			t->sends = 0;
			n->agents.traps--;
		}
	}
}

static unsigned manager_at(const struct mad_net *n, uint32_t port)
{
	unsigned i = 0;

	while (i < n->managers && !(n->manager[i].runs && n->manager[i].port == port))
		i++;
	return i;
}

/* ---- datagrams ---- */

static enum sm_agent agent_of(const uint8_t *mad)
{
	uint8_t mgmt_class = mad_class(mad);

	return mgmt_class == MAD_CLASS_SUBN_DIRECTED ? SM_AGENT_DIRECTED : mgmt_class == MAD_CLASS_SUBN_LID ? SM_AGENT_LID :
	       SM_AGENT_SA;
}

static void fly(struct mad_net *n, const struct mad_arrival *at, const uint8_t *mad)
{
	unsigned to = manager_at(n, at->port);
	struct flight *f;

	if (to == n->managers || rand_chance(&n->rand, n->loss_ppm))
		return;
	f = calloc(1, sizeof(*f));
	if (!f)
		abort();
	f->to = to;
	memcpy(f->data, mad, MAD_BYTES);
	f->letter = (struct mad_letter){
		.agent = agent_of(mad), .data = f->data, .bytes = MAD_BYTES,
		.remote = { .qpn = at->address.src_qpn, .qkey = at->address.qkey, .lid = at->address.path.slid,
			    .sl = at->address.path.sl },
	};
	event_queue_put(&n->flights, n->now + n->delay_ns + rand_below(&n->rand, n->jitter_ns + 1), f);
}

static void carry(struct mad_net *n, const struct mad_net_manager *m, const struct mad_letter *l)
{
	uint16_t slid = l->remote.lid == LID_PERMISSIVE ? LID_PERMISSIVE : 0;
	struct mad_address to = { .path = { .slid = slid, .dlid = l->remote.lid } };
	uint8_t mad[MAD_BYTES];
	struct mad_arrival at;
	enum mad_outcome o;

	if (l->agent == SM_AGENT_SA) {
		if (n->said)
			n->said(n->said_arg, l);
		return;
	}
	n->mads++;
	memcpy(mad, l->data, MAD_BYTES);
	if (rand_chance(&n->rand, n->loss_ppm))
		return;
	o = agents_mad(&n->agents, n->now, m->port, &to, mad, &at);
	if (o == MAD_ARRIVED && manager_at(n, at.port) == n->managers)
		o = agents_refuse(&n->agents, n->now, &at, mad, &at);
	if (o == MAD_ANSWERED && n->answers)
		n->answers(n->answers_arg, l->data, mad);
	if (o == MAD_ANSWERED || o == MAD_ARRIVED)
		fly(n, &at, mad);
}

void mad_net_pump(struct mad_net *n)
{
	uint8_t mad[MAD_BYTES];
	struct mad_arrival at;
	struct mad_letter l;

	for (unsigned i = 0; i < n->managers; i++) {
		struct mad_net_manager *m = &n->manager[i];

		while (m->runs && sm_output(&m->sm, n->now, &l))
			carry(n, m, &l);
	}
	while (agents_output(&n->agents, n->now, mad, &at))
		fly(n, &at, mad);
}

/* ---- time ---- */

static wtime next_event(const struct mad_net *n)
{
	wtime next = wtime_min(agents_deadline(&n->agents), event_queue_next(&n->flights));

	for (unsigned i = 0; i < n->managers; i++) {
		if (n->manager[i].runs)
			next = wtime_min(next, sm_deadline(&n->manager[i].sm));
	}
	return next;
}

bool mad_net_is_quiet(const struct mad_net *n)
{
	if (n->flights.events || n->agents.traps)
		return false;
	for (unsigned i = 0; i < n->managers; i++) {
		if (n->manager[i].runs && !sm_is_quiet(&n->manager[i].sm))
			return false;
	}
	return true;
}

bool mad_net_step(struct mad_net *n, wtime until)
{
	wtime next;

	mad_net_pump(n);
	next = next_event(n);
	if (next > until) {
		n->now = until;
		return false;
	}
	n->now = next > n->now ? next : n->now;
	while (event_queue_next(&n->flights) <= n->now) {
		struct flight *f = event_queue_take(&n->flights);

		if (n->manager[f->to].runs)
			sm_input(&n->manager[f->to].sm, n->now, &f->letter);
		free(f);
	}
	return true;
}

void mad_net_for(struct mad_net *n, wtime ns)
{
	wtime until = n->now + ns;

	while (mad_net_step(n, until))
		;
}

bool mad_net_until_quiet(struct mad_net *n, wtime most)
{
	wtime until = n->now + most;

	for (mad_net_pump(n); !mad_net_is_quiet(n); mad_net_pump(n)) {
		if (!mad_net_step(n, until))
			return mad_net_is_quiet(n);
	}
	return true;
}
