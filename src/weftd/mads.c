#include "weftd/mads.h"

#include "fabric/fabric.h"
#include "mgmt/gsa_tunables.h"
#include "mgmt/mad_agents.h"
#include "sm/sm.h"
#include "weftd/manager.h"
#include "weftd/seed_sa.h"
#include "weftd/status.h"
#include "weftd/subnet.h"
#include "weftd/trust.h"
#include "weftd/umad.h"

#include <errno.h>
#include <jansson.h>
#include <stdlib.h>
#include <string.h>

static const char *const residents[MAD_RESIDENTS] = {
	[MAD_RESIDENT_SMA] = "subnet management agent",
	[MAD_RESIDENT_PMA] = "performance agent",
	[MAD_RESIDENT_CM] = "connection manager",
};

static json_t *describe_client(const struct gsa_client *c, const char *program, unsigned mgmt_class)
{
	return json_pack("{s:s, s:i, s:o, s:i, s:i, s:i, s:i, s:i, s:I, s:I, s:I, s:i}",
			 "program", program,
			 "class", (int)mgmt_class,
			 "asked", c->asked == GSA_NONE ? json_null() : json_integer(c->asked),
			 "target", (int)c->target,
			 "lent", (int)c->lent,
			 "boost", (int)c->boost,
			 "automatic", (int)c->raised,
			 "held", (int)c->held,
			 "arrivals", (json_int_t)c->arrivals,
			 "drops", (json_int_t)c->drops,
			 "discards", (json_int_t)c->discards,
			 "should_ask", (int)c->should);
}

static void add_residents(json_t *clients, const struct mad_pool *p, unsigned qpn)
{
	for (int i = 0; i < MAD_RESIDENTS; i++) {
		unsigned own = mad_resident_qpn(i);
		const struct gsa_client *c = &p->qp[own].client[p->resident[i]];

		if (own == qpn)
			json_array_append_new(clients, describe_client(c, residents[i], c->mgmt_class));
	}
}

static bool may_see(const struct hub *h, const struct client *asker, const struct client *c)
{
	return !c || hub_is_owner(h, asker) || trust_same_user(c, asker);
}

static void add_agents(json_t *clients, const struct hub *h, const struct client *asker, const struct mad_file *f, unsigned qpn)
{
	const struct client *c = umad_client(f);

	for (uint32_t i = 0; i < MAD_AGENTS; i++) {
		const struct mad_agent *a = &f->agent[i];
		json_t *o;

		if (!a->is_used || mad_class_qpn(a->what.mgmt_class) != qpn || !may_see(h, asker, c))
			continue;
		o = describe_client(&mad_agent_buffers(f, a)->client[a->client], c ? c->program : "weftd", a->what.mgmt_class);
		if (o && c)
			json_object_set_new(o, "pid", json_integer(c->pid));
		if (o) {
			json_object_set_new(o, "agent", json_integer(i));
			json_object_set_new(o, "unasked", json_integer((json_int_t)a->unasked));
		}
		json_array_append_new(clients, o);
	}
}

static json_t *describe_clients(const struct hub *h, const struct client *asker, const struct mad_pool *p, unsigned qpn)
{
	json_t *clients = json_array();

	add_residents(clients, p, qpn);
	list_for_each(f, &h->mads.files, struct mad_file, node) {
		if (f->pool == p)
			add_agents(clients, h, asker, f, qpn);
	}
	return clients;
}

static json_t *describe_qp(const struct hub *h, const struct client *asker, const struct mad_pool *p, unsigned qpn)
{
	const struct gsa *g = &p->qp[qpn];
	json_t *o = json_pack("{s:i, s:i, s:i, s:i, s:i, s:i, s:i, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:o}",
			      "qpn", (int)qpn,
			      "posted", (int)g->posted,
			      "held", (int)g->held,
			      "target", (int)g->target,
			      "automatic", (int)g->automatic,
			      "low", (int)gsa_low(g),
			      "high", (int)gsa_high(g),
			      "bytes", (json_int_t)gsa_bytes(g),
			      "arrivals", (json_int_t)g->arrivals,
			      "drops", (json_int_t)g->drops,
			      "discards", (json_int_t)g->discards,
			      "unknown", (json_int_t)g->unknown,
			      "top_ups", (json_int_t)g->additions,
			      "trims", (json_int_t)g->trims,
			      "clients", describe_clients(h, asker, p, qpn));

	if (o && p->port != PORT_NONE && subnet_nodes(h) && p->port < h->subnet->fabric.ports) {
		const struct fabric *f = &h->subnet->fabric;

		json_object_set_new(o, "node", json_string(f->node[f->owner[p->port]].description));
		json_object_set_new(o, "node_port", json_integer(fabric_port_number(f, p->port)));
	}
	return o;
}

/* weftd's own, or null. */
static json_t *describe_administration(const struct hub *h)
{
	uint32_t waiting;
	const struct sm_counters *c = manager_counters(h, &waiting);

	if (!c)
		return json_null();
	return json_pack("{s:I, s:I, s:I, s:I, s:I, s:I, s:I}",
			 "queries", (json_int_t)c->queries,
			 "refused", (json_int_t)c->refused,
			 "wrong_keys", (json_int_t)c->wrong_keys,
			 "info_refused", (json_int_t)c->info_refused,
			 "waiting", (json_int_t)waiting,
			 "long_answers", (json_int_t)c->long_answers,
			 "cut_short", (json_int_t)c->cut_short);
}

/* The trusted key opens all records to who knows it. */
static json_t *describe_tunables(const struct hub *h, const struct client *asker)
{
	json_t *tunables = json_object();

	for (unsigned i = 0; i < GSA_TUNABLES; i++)
		json_object_set_new(tunables, gsa_tunable_name(i),
				    json_integer((json_int_t)gsa_tunable_get(&h->mads.buffers.tunables, i)));
	for (unsigned i = 0; i < SA_TUNABLES; i++) {
		if (i != SA_TUNABLE_TRUSTED_KEY || hub_is_owner(h, asker))
			json_object_set_new(tunables, sa_tunable_name(i), json_integer((json_int_t)h->sa_tunables.value[i]));
	}
	return tunables;
}

static json_t *describe(struct hub *h, const struct client *asker)
{
	json_t *qps = json_array();

	mad_buffers_expire(&h->mads.buffers, h->now);
	list_for_each(p, &h->mads.buffers.pools, struct mad_pool, node) {
		for (unsigned qpn = 0; qpn < 2; qpn++)
			json_array_append_new(qps, describe_qp(h, asker, p, qpn));
	}
	return json_pack("{s:o, s:o, s:o}", "tunables", describe_tunables(h, asker), "qps", qps, "administration",
			 describe_administration(h));
}

/* Those of buffers, and those of the seed's administration. */
static int parse(struct gsa_tunables *t, struct sa_tunables *s, const char *text, size_t bytes)
{
	int err = 0;

	for (size_t at = 0; !err && at <= bytes;) {
		const char *comma = memchr(text + at, ',', bytes - at);
		size_t length = comma ? (size_t)(comma - text) - at : bytes - at;

		err = gsa_tunables_parse(t, text + at, length);
		if (err == -ENOENT)
			err = sa_tunables_parse(s, text + at, length);
		at += length + 1;
	}
	return err;
}

static int set(struct hub *h, const struct client *c, const char *text, size_t bytes)
{
	struct gsa_tunables t = h->mads.buffers.tunables;
	struct sa_tunables s = h->sa_tunables;
	int err = hub_is_owner(h, c) ? parse(&t, &s, text, bytes) : -EPERM;

	if (!err)
		err = mad_buffers_set(&h->mads.buffers, &t);
	if (!err)
		seed_sa_set(h, &s);
	return err;
}

void mads_input(struct hub *h, struct client *c, const struct control_msg *msg, const char *text, const int *fds, int nfds)
{
	int err = msg->text_bytes ? set(h, c, text, msg->text_bytes) : 0;
	json_t *all = err ? NULL : describe(h, c);
	char *answer = all ? json_dumps(all, JSON_COMPACT) : NULL;

	if (answer)
		status_send_text(h, c, msg, answer);
	else
		hub_answer(h, c, msg, err ? -err : ENOMEM);
	free(answer);
	json_decref(all);
}
