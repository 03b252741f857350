#include "path_storm.h"

#include "fabric/host.h"
#include "mgmt/gmp.h"
#include "mgmt/mad_agents.h"
#include "mgmt/mad_clients.h"
#include "sm/sa_queue.h"
#include "wire/field.h"
#include "wire/sa.h"
#include "wire/sa_records.h"

#include <stdlib.h>
#include <string.h>

/* As mad_storm_usual; a path is what weft's administration takes for one of a table on a processor of today; who asks waits as
 * saquery does. */
const struct path_storm_config path_storm_usual = {
	.seed = 1, .jitter_ns = 20 * WTIME_US, .delay_ns = 5 * WTIME_US, .each_ns = 250, .serve_ns = 10 * WTIME_US,
	.record_ns = WTIME_US, .timeout_ms = 1000, .retries = 7,
};

enum { PATH_DLID = 4, PATH_SLID = 5, AT_DLID = 40, AT_SLID = 42, PATH_BYTES = 64 };

struct host {
	struct mad_file file;		/* the first member */
	uint32_t port, agent;
	wtime asks;
	bool is_over;
};

/* A datagram, or what is due. */
struct due {
	enum { DUE_MAD, DUE_ASK, DUE_SERVED } kind;
	uint32_t port;			/* of who gets it; DUE_ASK: index of the host */
	struct mad_remote sender;
	uint8_t mad[MAD_BYTES];
};

struct storm {
	struct mad_net *n;
	const struct path_storm_config *c;
	struct path_storm_result *r;
	struct mad_clients clients;
	struct mad_file sa;
	uint32_t sa_agent;
	struct host *host;		/* owned: of r->hosts */
	wtime *took;			/* owned: answers, in the order in which they came */
	wtime *out, *in;		/* owned: by port, when its link is free */
	struct sa_queue queries;
	bool serves;			/* a query */
	struct event_queue due;
	struct rand rand;
	wtime began;
};

static void *must(void *memory)
{
	if (!memory)
		abort();
	return memory;
}

static wtime later(wtime a, wtime b)
{
	return a > b ? a : b;
}

/* ---- the network ---- */

static enum mad_fate carry(void *arg, wtime now, uint32_t from, unsigned qpn, const struct mad_remote *to,
			   uint8_t mad[MAD_BYTES], struct mad_coming *coming)
{
	struct storm *s = arg;
	struct mad_address a = { .path = { .slid = s->n->fabric->port[from].lid, .dlid = to->lid, .sl = to->sl },
				 .pkey = fabric_pkeys(s->n->fabric, from)[0], .src_qpn = qpn, .dest_qpn = to->qpn,
				 .qkey = to->qkey };
	struct mad_arrival at;
	struct due *d;

	s->r->datagrams++;
	s->out[from] = later(now, s->out[from]) + s->c->each_ns;
	if (agents_mad(&s->n->agents, now, from, &a, mad, &at) != MAD_ARRIVED || rand_chance(&s->rand, s->c->loss_ppm))
		return MAD_WAS_LOST;
	d = must(calloc(1, sizeof(*d)));
	d->port = at.port;
	d->sender = (struct mad_remote){ .qpn = at.address.src_qpn, .qkey = at.address.qkey, .lid = at.address.path.slid };
	memcpy(d->mad, mad, MAD_BYTES);
	s->in[at.port] = later(s->out[from] + s->c->delay_ns, s->in[at.port] + s->c->each_ns);
	event_queue_put(&s->due, s->in[at.port], d);
	/* it comes later, by itself */
	return MAD_WAS_LOST;
}

static enum mad_fate refuse(void *arg, wtime now, struct mad_coming *at, uint8_t mad[MAD_BYTES])
{
	return MAD_WAS_LOST;
}

static bool has_lid(void *arg, uint32_t port, uint16_t lid)
{
	const struct storm *s = arg;

	return host_has_lid(s->n->fabric, port, lid);
}

static bool may_hold(void *arg, const struct mad_file *file, size_t more)
{
	return true;
}

/* ---- the administration ---- */

/* The next one, when there is room for its answer. */
static void serve_next(struct storm *s)
{
	struct due *d;

	if (s->serves || !s->queries.count || !mad_has_room(&s->sa))
		return;
	d = must(calloc(1, sizeof(*d)));
	d->kind = DUE_SERVED;
	s->serves = true;
	event_queue_put(&s->due, s->n->now + s->c->serve_ns + s->c->record_ns * (s->c->is_table ? s->r->hosts : 1), d);
}

/* All ask for as much. */
static bool may_be_any(void *arg, uint16_t lid)
{
	return true;
}

static void serve(struct storm *s)
{
	struct sa_waiting *w = sa_queue_take(&s->queries, may_be_any, s);

	s->serves = false;
	s->r->queries++;
	sm_input(&s->n->manager[0].sm, s->n->now, &w->letter);
	mad_net_pump(s->n);
	mad_gave_back(&s->sa, s->sa_agent, 1);
	free(w);
}

/* It has an answer, or a report, to be sent. What there is no room for is missed by who asks. */
static void say(void *arg, const struct mad_letter *l)
{
	struct storm *s = arg;
	struct mad_letter out = *l;

	out.agent = s->sa_agent;
	mad_send(&s->clients, s->n->now, &s->sa, &out);
}

/* ---- who asks ---- */

static void ask(struct storm *s, struct host *h, uint32_t index)
{
	const struct fabric *f = s->n->fabric;
	const struct mad_header head = {
		.base_version = MAD_BASE_VERSION, .mgmt_class = MAD_CLASS_SA, .class_version = SA_CLASS_VERSION,
		.method = s->c->is_table ? SA_GET_TABLE : MAD_GET, .tid = index + 1, .attr_id = SA_PATH_RECORD_ID,
	};
	uint8_t mad[MAD_BYTES] = { 0 };
	const struct mad_letter l = {
		.agent = h->agent, .timeout_ms = s->c->timeout_ms, .retries = s->c->retries, .data = mad, .bytes = MAD_BYTES,
		.remote = { .qpn = GSI_QPN, .qkey = GSI_QKEY, .lid = f->port[h->port].sm_lid },
	};
	uint32_t other = (index + 1 + (uint32_t)rand_below(&s->rand, s->r->hosts - 1)) % s->r->hosts;

	mad_header_build(&head, mad);
	wire_put(mad, 1u << PATH_SLID | (s->c->is_table ? 0 : 1u << PATH_DLID), SA_MASK);
	wire_put(mad + SA_HEAD + AT_SLID, f->port[h->port].lid, 0, 0, 16);
	wire_put(mad + SA_HEAD + AT_DLID, s->c->is_table ? 0 : f->port[s->host[other].port].lid, 0, 0, 16);
	if (mad_send(&s->clients, s->n->now, &h->file, &l))
		abort();
}

/* A Get has one path; a table those to all hosts and switches, and to itself. */
static bool is_answer(const struct storm *s, const struct host *h, const struct mad_letter *l)
{
	struct mad_header head;
	uint32_t each;

	if (l->status || l->bytes < SA_HEAD + PATH_BYTES)
		return false;
	mad_header_parse(&head, l->data);
	each = 8 * (uint32_t)wire_get(l->data, SA_ATTRIBUTE_OFFSET);
	return !head.status && each == PATH_BYTES &&
	       wire_get(l->data + SA_HEAD + AT_SLID, 0, 0, 16) == s->n->fabric->port[h->port].lid &&
	       (!s->c->is_table || (l->bytes - SA_HEAD) / PATH_BYTES >= s->r->hosts);
}

static bool deliver(void *arg, struct mad_file *file, const struct mad_letter *l)
{
	struct storm *s = arg;
	struct host *h = (struct host *)file;
	struct mad_letter query = *l;

	query.agent = SM_AGENT_SA;
	if (file == &s->sa)
		return !l->status && !sa_queue_put(&s->queries, &query);
	if (h->is_over)
		return false;
	h->is_over = true;
	if (is_answer(s, h, l))
		s->took[s->r->answered++] = s->r->last = s->n->now - s->began;
	else
		s->r->failed++;
	return false;
}

/* ---- all of it ---- */

static const struct mad_ops ops = { .carry = carry, .refuse = refuse, .deliver = deliver, .has_lid = has_lid,
				    .may_hold = may_hold };

static const struct mad_registration asker = { .mgmt_class = MAD_CLASS_SA, .class_version = SA_CLASS_VERSION, .rmpp_version = 1 };

static bool is_host(const struct storm *s, uint32_t port)
{
	const struct fabric *f = s->n->fabric;

	return !fabric_is_switch(f, f->owner[port]) && f->port[port].state == PORT_ACTIVE && f->port[port].lid &&
	       port != s->n->manager[0].port;
}

static void open_host(struct storm *s, uint32_t port, uint32_t i)
{
	struct host *h = &s->host[i];
	struct due *d = must(calloc(1, sizeof(*d)));

	h->port = port;
	mad_file_open(&s->clients, &h->file, port);
	if (mad_register(&s->clients, &h->file, &asker, &h->agent))
		abort();
	*d = (struct due){ .kind = DUE_ASK, .port = i };
	event_queue_put(&s->due, s->began + rand_below(&s->rand, s->c->jitter_ns + 1), d);
}

static void begin(struct storm *s)
{
	const struct fabric *f = s->n->fabric;
	const struct siphash_key key = { s->c->seed, 0 };
	uint32_t hosts = 0;

	rand_seed(&s->rand, s->c->seed);
	sa_queue_init(&s->queries);
	s->began = s->n->now;
	s->n->said = say;
	s->n->said_arg = s;
	mad_clients_init(&s->clients, &ops, s, &key);
	if (mad_buffers_set(&s->clients.buffers, &s->c->tunables))
		abort();
	s->out = must(calloc(f->ports, sizeof(*s->out)));
	s->in = must(calloc(f->ports, sizeof(*s->in)));
	mad_file_open(&s->clients, &s->sa, s->n->manager[0].port);
	if (mad_register(&s->clients, &s->sa, &sm_registrations[SM_AGENT_SA], &s->sa_agent) ||
	    (s->c->hint && mad_change_buffers(&s->sa, s->sa_agent, (int32_t)s->c->hint)))
		abort();
	for (uint32_t port = 0; port < f->ports; port++)
		s->r->hosts += is_host(s, port);
	s->host = must(calloc(s->r->hosts + 1, sizeof(*s->host)));
	s->took = must(calloc(s->r->hosts + 1, sizeof(*s->took)));
	for (uint32_t port = 0; port < f->ports; port++) {
		if (is_host(s, port))
			open_host(s, port, hosts++);
	}
}

static void happen(struct storm *s, struct due *d)
{
	switch (d->kind) {
	case DUE_MAD:
		mad_comes(&s->clients, s->n->now, &(struct mad_coming){ .port = d->port, .sender = d->sender }, d->mad);
		break;
	case DUE_ASK:
		ask(s, &s->host[d->port], d->port);
		break;
	case DUE_SERVED:
		serve(s);
	}
	free(d);
}

static void count_drops(struct storm *s)
{
	list_for_each(p, &s->clients.buffers.pools, struct mad_pool, node) {
		for (int qp = 0; qp < 2; qp++)
			s->r->drops += p->qp[qp].drops + p->qp[qp].discards;
	}
}

static void end(struct storm *s)
{
	struct due *d;

	count_drops(s);
	s->r->median = s->r->answered ? s->took[s->r->answered / 2] : 0;
	while ((d = event_queue_take(&s->due)))
		free(d);
	event_queue_fini(&s->due);
	sa_queue_fini(&s->queries);
	mad_clients_fini(&s->clients);
	free(s->host);
	free(s->took);
	free(s->out);
	free(s->in);
	s->n->said = NULL;
}

void path_storm_run(struct mad_net *n, const struct path_storm_config *c, struct path_storm_result *r)
{
	struct storm *s = must(calloc(1, sizeof(*s)));

	*s = (struct storm){ .n = n, .c = c, .r = r };
	*r = (struct path_storm_result){ 0 };
	begin(s);
	while (r->hosts > 1 && r->answered + r->failed < r->hosts) {
		wtime next;

		serve_next(s);
		next = wtime_min(event_queue_next(&s->due), mad_clients_deadline(&s->clients));
		/* the manager has events of its own */
		if (next > n->now && mad_net_step(n, next))
			continue;
		mad_clients_expire(&s->clients, n->now);
		while (event_queue_next(&s->due) <= n->now)
			happen(s, event_queue_take(&s->due));
	}
	end(s);
	free(s);
}
