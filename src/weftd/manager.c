#include "weftd/manager.h"

#include "base/log.h"
#include "mgmt/mad_agents.h"
#include "sm/sa.h"
#include "sm/sa_queue.h"
#include "weftd/lid_store.h"
#include "weftd/subnet.h"
#include "weftd/umad.h"

#include <errno.h>
#include <stdlib.h>

#define BUSY_NS WTIME_S		/* our choice: LIDs that another program is in the way of are kept so much later */

/* Our choice: datagrams of one round, so that other work comes between; a subnet of some hundred ports is up after the first. */
enum { ROUND_MOST = 4096, ROUND_QUERIES = 256 };

struct manager {
	struct sm sm;
	struct manager_agent {
		struct manager *manager;
		enum sm_agent agent;
		struct mad_port *file;	/* owned */
	} agent[SM_AGENTS];
	struct sa_queue queries;	/* that wait for room for their answers */
	struct hub *hub;		/* borrowed */
	uint32_t port;
	struct lid_store lids;
	uint64_t lids_kept;		/* of sm.net.lids_changed */
	wtime lids_due;			/* not before */
};

/* ---- LIDs ---- */

static void take_lid(void *arg, uint64_t guid, uint16_t lid)
{
	struct manager *m = arg;

	sm_keep_lid(&m->sm, guid, lid);
}

struct lids_to_keep {
	const struct sm *sm;
	uint32_t cursor;
};

static bool give_lid(void *arg, uint64_t *guid, uint16_t *lid)
{
	struct lids_to_keep *k = arg;

	return sm_kept_lid(k->sm, &k->cursor, guid, lid);
}

static bool are_lids_kept(const struct manager *m)
{
	return m->lids_kept == m->sm.net.lids_changed;
}

/* Before a port is told: whenever weftd is killed, what ports have is kept. */
static void keep_lids(struct manager *m)
{
	struct lids_to_keep k = { .sm = &m->sm };

	if (are_lids_kept(m) || m->hub->now < m->lids_due)
		return;
	if (lid_store_write(&m->lids, give_lid, &k))
		m->lids_due = m->hub->now + BUSY_NS;
	else
		m->lids_kept = m->sm.net.lids_changed;
}

/* ---- datagrams ---- */

/* An answer that was made and cannot be sent would have been made in vain. */
static bool has_room(void *arg, uint16_t lid)
{
	const struct manager *m = arg;

	return list_empty(&m->sm.sa_replies) && umad_has_room(m->agent[SM_AGENT_SA].file, lid);
}

static void heard(void *arg, const struct mad_letter *l)
{
	const struct manager_agent *a = arg;
	struct manager *m = a->manager;
	struct mad_letter letter = *l;
	bool is_query = a->agent == SM_AGENT_SA && !l->status && !(mad_method(l->data) & MAD_RESPONSE);
	int err;

	letter.agent = a->agent;
	if (!is_query || (!m->queries.count && has_room(m, letter.remote.lid))) {
		sm_input(&m->sm, m->hub->now, &letter);
		return;
	}
	err = sa_queue_put(&m->queries, &letter);
	if (err == -EDQUOT || err == -EMSGSIZE)
		sa_put_off(&m->sm, m->hub->now, &letter);
}

static void send_some(struct manager *m)
{
	struct hub *h = m->hub;
	struct mad_letter l;

	for (unsigned i = 0; i < ROUND_MOST && sm_output(&m->sm, h->now, &l); i++) {
		struct mad_port *file = m->agent[l.agent].file;

		keep_lids(m);
		/* its file has one agent; what cannot be sent is missed, and sent again */
		l.agent = 0;
		umad_ask(h, file, &l);
	}
}

static void answer_waiting(struct manager *m)
{
	struct sa_waiting *w;

	for (unsigned i = 0; i < ROUND_QUERIES && (w = sa_queue_take(&m->queries, has_room, m)); i++) {
		sm_input(&m->sm, m->hub->now, &w->letter);
		free(w);
		send_some(m);
	}
}

/* ---- its life ---- */

static void destroy(struct manager *m)
{
	for (unsigned i = 0; i < SM_AGENTS; i++) {
		if (m->agent[i].file)
			umad_close(m->hub, m->agent[i].file);
	}
	lid_store_close(&m->lids);
	sa_queue_fini(&m->queries);
	sm_fini(&m->sm);
	free(m);
}

static enum route_choice routing_of(const struct fabric_head *head)
{
	unsigned choice = FABRIC_READ(head->manager_routing);

	return choice < ROUTE_CHOICES ? (enum route_choice)choice : ROUTE_AUTO;
}

static struct manager *create(struct hub *h, uint32_t port)
{
	const struct fabric_head *head = h->subnet->fabric.head;
	const struct sm_config config = { .priority = FABRIC_READ(head->manager_priority) & 15,
					  .lmc = FABRIC_READ(head->manager_lmc) & LMC_MOST,
					  .key = FABRIC_READ(head->manager_sm_key),
					  .m_key = FABRIC_READ(head->manager_m_key),
					  .m_key_protect = FABRIC_READ(head->manager_m_key_protect),
					  .m_key_lease = FABRIC_READ(head->manager_m_key_lease),
					  .subnet_timeout = FABRIC_READ(head->manager_subnet_timeout),
					  .routing = routing_of(head),
					  .qos = &head->manager_qos, .partitions = &h->subnet->fabric };
	struct manager *m = calloc(1, sizeof(*m));
	bool is_whole = true;

	if (!m || sm_init(&m->sm, &config)) {
		free(m);
		return NULL;
	}
	sa_queue_init(&m->queries);
	m->hub = h;
	m->port = port;
	for (unsigned i = 0; i < SM_AGENTS; i++) {
		m->agent[i].manager = m;
		m->agent[i].agent = (enum sm_agent)i;
		m->agent[i].file = umad_open(h, port, &sm_registrations[i], heard, &m->agent[i]);
		is_whole &= m->agent[i].file != NULL;
	}
	if (is_whole)
		return m;
	destroy(m);
	return NULL;
}

/* The port that the fabric's head names, of whoever loaded it; PORT_NONE: none. */
static uint32_t wanted_port(const struct hub *h)
{
	const struct fabric *f = &h->subnet->fabric;
	uint32_t port = FABRIC_READ(f->head->manager) - 1;

	if (port >= f->ports)
		return PORT_NONE;
	if (fabric_is_switch(f, f->owner[port]))
		return fabric_port_number(f, port) ? PORT_NONE : port;
	return fabric_port_number(f, port) && fabric_peer(f, port) != PORT_NONE ? port : PORT_NONE;
}

static void begin(struct hub *h)
{
	uint32_t port = wanted_port(h);

	h->manager = port == PORT_NONE ? NULL : create(h, port);
	if (!h->manager) {
		log_line(LOG_ERROR, "the fabric has no subnet manager: %s", port == PORT_NONE ? "it names no port for one" :
			 "there is no memory");
		/* not in each round anew */
		FABRIC_SET(h->subnet->fabric.head->manager, 0);
		return;
	}
	lid_store_open(&h->manager->lids, h->subnet->dir);
	lid_store_read(&h->manager->lids, take_lid, h->manager);
	agents_set_sm(&h->subnet->agents, h->now, port, true);
	sm_start(&h->manager->sm, h->now);
}

static bool is_wanted(const struct hub *h)
{
	return subnet_nodes(h) && FABRIC_READ(h->subnet->fabric.head->manager);
}

void manager_expire(struct hub *h)
{
	if (!h->manager && is_wanted(h))
		begin(h);
	if (!h->manager || manager_deadline(h) > h->now)
		return;
	send_some(h->manager);
	answer_waiting(h->manager);
	keep_lids(h->manager);
}

wtime manager_deadline(const struct hub *h)
{
	struct manager *m = h->manager;
	wtime due;

	if (!m)
		return is_wanted(h) ? 0 : WTIME_NEVER;
	due = wtime_min(sm_deadline(&m->sm), are_lids_kept(m) ? WTIME_NEVER : m->lids_due);
	return sa_queue_has(&m->queries, has_room, m) ? 0 : due;
}

uint8_t *manager_gather(struct hub *h, uint16_t lid, uint16_t attribute, uint32_t most, uint32_t *bytes)
{
	return h->manager ? sa_gather(&h->manager->sm, h->now, lid, attribute, most, bytes) : NULL;
}

const struct sm_counters *manager_counters(const struct hub *h, uint32_t *waiting)
{
	*waiting = h->manager ? h->manager->queries.count : 0;
	return h->manager ? &h->manager->sm.counters : NULL;
}

uint64_t manager_changes(const struct hub *h)
{
	const struct sm_counters *c = h->manager ? &h->manager->sm.counters : NULL;

	return c ? c->answered + c->sets : 0;
}

void manager_close(struct hub *h)
{
	if (h->manager)
		destroy(h->manager);
	h->manager = NULL;
}

void manager_end(struct hub *h)
{
	manager_close(h);
	lid_store_remove(h->subnet->dir);
}
