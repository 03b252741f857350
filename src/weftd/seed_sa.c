#include "weftd/seed_sa.h"

#include "fabric/walk.h"
#include "mgmt/gmp.h"
#include "mgmt/mad_agents.h"
#include "mgmt/sa_server.h"
#include "weftd/fabric_records.h"
#include "weftd/sa_tables.h"
#include "weftd/subnet.h"
#include "weftd/umad.h"
#include "wire/sa.h"

#include <stdlib.h>

enum { PACKETS = 1024 };	/* of one round: our choice, as mgmt/mad_clients.c carries */

struct seed_sa {
	struct sa_server server;
	struct sa_store store;
	struct sa_tables tables;
	struct mad_port *file;		/* owned */
	uint32_t port;
	bool is_due;			/* more is to be sent than a round sends */
};

static const struct mad_registration what = {
	.mgmt_class = MAD_CLASS_SA, .class_version = SERIES_CLASS_VERSION,
	.methods = { 1ull << TXN_GET_TABLE | 1ull << TXN_GET_BULK | 1ull << TXN_CONFIG },
};

static uint64_t version(void *arg)
{
	return sa_tables_version(arg);
}

/* Of transactions that begin from now on (RMP-33): the manager may give the port another SubnetTimeOut meanwhile. */
static void take_times(const struct hub *h, struct seed_sa *sa)
{
	series_config_times(&sa->server.config, FABRIC_READ(h->subnet->fabric.port[sa->port].subnet_timeout), SA_RESPONSE_TIME);
}

/* Nothing is sent from here: a MAD may come while another one is sent. */
static void heard(void *arg, const struct mad_letter *l)
{
	struct hub *h = arg;

	if (l->status || l->bytes != MAD_BYTES)
		return;
	take_times(h, h->seed_sa);
	sa_server_input(&h->seed_sa->server, h->now, l->remote.lid, l->data);
	h->seed_sa->is_due = true;
}

static struct seed_sa *make(struct hub *h, uint32_t port)
{
	struct seed_sa *sa = calloc(1, sizeof(*sa));

	if (!sa || sa_store_init(&sa->store, SA_KEY_CHOOSES, 0)) {
		free(sa);
		return NULL;
	}
	sa_server_init(&sa->server, &sa_live_config);
	sa->port = port;
	sa->server.store = &sa->store;
	sa->server.version = version;
	sa->server.arg = h;
	sa_tunables_apply(&h->sa_tunables, &sa->server);
	sa_tables_add(&sa->tables, h, &sa->server);
	sa->server.table[sa->server.tables++] = (struct sa_table){
		.name = "kept", .attribute = SA_KEPT_ATTRIBUTE, .record_bytes = SA_KEPT_BYTES, .give = sa_store_give,
		.arg = &sa->store, .id_bytes = SA_KEPT_ID,
	};
	return sa;
}

static void destroy(struct hub *h, struct seed_sa *sa)
{
	if (sa->file)
		umad_close(h, sa->file);
	sa_server_fini(&sa->server);
	sa_store_fini(&sa->store);
	sa_tables_fini(&sa->tables);
	free(sa);
}

static bool is_for_it(const uint8_t *mad)
{
	unsigned method = mad_method(mad);

	return mad_class(mad) == MAD_CLASS_SA && mad[2] == SERIES_CLASS_VERSION &&
	       (method == TXN_GET_TABLE || method == TXN_GET_BULK || method == TXN_CONFIG);
}

bool seed_sa_begins(struct hub *h, uint32_t port, const uint8_t mad[MAD_BYTES])
{
	if (h->seed_sa || !is_for_it(mad) || fabric_records_port(&h->subnet->fabric) != port)
		return false;
	h->seed_sa = make(h, port);
	if (!h->seed_sa)
		return false;
	h->seed_sa->file = umad_open(h, port, &what, heard, h);
	if (h->seed_sa->file)
		return true;
	seed_sa_end(h);
	return false;
}

uint16_t seed_sa_lid(const struct hub *h)
{
	const struct fabric *f = &h->subnet->fabric;
	uint32_t port = !subnet_nodes(h) ? PORT_NONE : h->seed_sa ? h->seed_sa->port : fabric_records_port(f);

	return port == PORT_NONE ? 0 : FABRIC_READ(f->port[port].lid);
}

void seed_sa_set(struct hub *h, const struct sa_tunables *t)
{
	h->sa_tunables = *t;
	if (h->seed_sa)
		sa_tunables_apply(t, &h->seed_sa->server);
}

void seed_sa_end(struct hub *h)
{
	if (h->seed_sa)
		destroy(h, h->seed_sa);
	h->seed_sa = NULL;
}

static void send(struct hub *h, struct seed_sa *sa, uint16_t lid, const uint8_t *mad)
{
	const struct fabric *f = &h->subnet->fabric;
	int index = fabric_find_pkey(f, sa->port, PKEY_DEFAULT);
	const struct mad_letter l = {
		.data = mad, .bytes = MAD_BYTES,
		.remote = { .qpn = GSI_QPN, .qkey = GSI_QKEY, .lid = lid, .pkey_index = (uint16_t)(index < 0 ? 0 : index) },
	};

	umad_ask(h, sa->file, &l);
}

void seed_sa_expire(struct hub *h)
{
	struct seed_sa *sa = h->seed_sa;
	uint8_t mad[MAD_BYTES];
	unsigned sent = 0;
	uint16_t lid;

	if (!sa || seed_sa_deadline(h) > h->now)
		return;
	sa_server_expire(&sa->server, h->now);
	sa->is_due = false;
	while (sent < PACKETS && sa_server_output(&sa->server, h->now, &lid, mad)) {
		send(h, sa, lid, mad);
		sent++;
	}
	sa->is_due |= sent == PACKETS;
}

wtime seed_sa_deadline(const struct hub *h)
{
	if (!h->seed_sa)
		return WTIME_NEVER;
	return h->seed_sa->is_due ? 0 : sa_server_deadline(&h->seed_sa->server);
}
