/* Which agent of which file a MAD is for, and which agents there may be. */
#include "mgmt/mad_agents.h"

#include "mgmt/mad_sources.h"
#include "wire/field.h"

#include <errno.h>

#define MGMT_CLASS 1, 0, 8
#define CLASS_VERSION 2, 0, 8
#define METHOD 3, 0, 8
#define VENDOR_OUI 37, 0, 24		/* IBA 16.5.2 */

enum { CLASSES = 0x50, CLASS_VERSIONS = 0x83 };

uint8_t mad_class(const uint8_t *mad)
{
	return (uint8_t)wire_get(mad, MGMT_CLASS);
}

uint8_t mad_method(const uint8_t *mad)
{
	return (uint8_t)wire_get(mad, METHOD);
}

unsigned mad_class_qpn(uint8_t mgmt_class)
{
	return mgmt_class != MAD_CLASS_SUBN_LID && mgmt_class != MAD_CLASS_SUBN_DIRECTED;
}

static bool has_oui(uint8_t mgmt_class)
{
	return mgmt_class >= 0x30 && mgmt_class <= 0x4f;
}

bool mad_class_has_rmpp(uint8_t mgmt_class)
{
	return mgmt_class == MAD_CLASS_SA || mgmt_class == MAD_CLASS_DEVICE || mgmt_class == 0x10 || mgmt_class == 0x12 ||
	       has_oui(mgmt_class);
}

size_t mad_longest(const struct mad_clients *c, const uint8_t *mad)
{
	return mad_method(mad) & MAD_RESPONSE ? (size_t)c->buffers.tunables.longest_kb << 10 : MAD_LONGEST;
}

size_t mad_file_bytes(const struct mad_clients *c)
{
	return (size_t)c->buffers.tunables.program_kb << 10;
}

static bool answers_any(const struct mad_registration *what)
{
	return what->methods[0] || what->methods[1];
}

static bool is_of(const struct mad_registration *what, uint8_t mgmt_class, uint8_t version, uint32_t oui)
{
	return what->mgmt_class == mgmt_class && what->class_version == version &&
	       (!has_oui(mgmt_class) || what->oui == oui);
}

static bool is_taken(const struct mad_clients *c, uint32_t port, const struct mad_registration *what)
{
	const struct mad_pool *p = mad_pool_find(&c->buffers, port);

	if (!p)
		return false;
	list_for_each(f, &p->files, struct mad_file, pool_node) {
		for (int i = 0; i < MAD_AGENTS; i++) {
			const struct mad_registration *other = &f->agent[i].what;

			if (f->agent[i].is_used && is_of(other, what->mgmt_class, what->class_version, what->oui) &&
			    (other->methods[0] & what->methods[0] || other->methods[1] & what->methods[1]))
				return true;
		}
	}
	return false;
}

struct mad_agent *mad_agent_of_tid(const struct mad_clients *c, uint32_t port, uint32_t tid, struct mad_file **file)
{
	const struct mad_pool *p = mad_pool_find(&c->buffers, port);

	if (!p)
		return NULL;
	list_for_each(f, &p->files, struct mad_file, pool_node) {
		for (int i = 0; i < MAD_AGENTS; i++) {
			if (f->agent[i].is_used && f->agent[i].tid == tid) {
				*file = f;
				return &f->agent[i];
			}
		}
	}
	return NULL;
}

static uint32_t draw_tid(struct mad_clients *c, uint32_t port)
{
	struct mad_file *f;
	uint32_t tid;

	do
		tid = (uint32_t)rand_u64(&c->rand);
	while (!tid || mad_agent_of_tid(c, port, tid, &f));
	return tid;
}

/* Linux refuses the same ones. */
static bool can_be(const struct mad_registration *what)
{
	uint8_t mgmt_class = what->mgmt_class;

	if (what->class_version >= CLASS_VERSIONS || what->rmpp_version > 1 || what->oui >> 24)
		return false;
	if (!mgmt_class)
		return !answers_any(what);
	return (mgmt_class < CLASSES || mgmt_class == MAD_CLASS_SUBN_DIRECTED) &&
	       (!what->rmpp_version || mad_class_has_rmpp(mgmt_class)) &&
	       (!has_oui(mgmt_class) || what->oui || !answers_any(what));
}

struct gsa *mad_agent_buffers(const struct mad_file *f, const struct mad_agent *a)
{
	return &f->pool->qp[mad_class_qpn(a->what.mgmt_class)];
}

static void put_pool(struct mad_clients *c, struct mad_file *f)
{
	if (f->agents)
		return;
	list_remove(&f->pool_node);
	mad_pool_put(&c->buffers, f->pool);
	f->pool = NULL;
}

/* Agents of several files may be of one class: each is a client of its own (GSA-38). */
static int take_client(struct mad_clients *c, struct mad_file *f, const struct mad_registration *what, uint32_t *client)
{
	int err;

	if (!f->pool) {
		f->pool = mad_pool_get(&c->buffers, f->port);
		if (!f->pool)
			return -ENOMEM;
		list_append(&f->pool->files, &f->pool_node);
	}
	err = gsa_register(&f->pool->qp[mad_class_qpn(what->mgmt_class)], GSA_ANY_CLASS,
			   what->buffers ? what->buffers : GSA_NONE, client);
	if (err)
		put_pool(c, f);
	return err;
}

int mad_register(struct mad_clients *c, struct mad_file *f, const struct mad_registration *what, uint32_t *agent)
{
	uint32_t i = 0, client;
	int err;

	if (!can_be(what))
		return -EINVAL;
	if (is_taken(c, f->port, what))
		return -EBUSY;
	while (i < MAD_AGENTS && f->agent[i].is_used)
		i++;
	if (i == MAD_AGENTS)
		return -EDQUOT;
	err = take_client(c, f, what, &client);
	if (err)
		return err;
	f->agent[i] = (struct mad_agent){ .is_used = true, .tid = draw_tid(c, f->port), .client = client, .what = *what };
	f->agents++;
	*agent = i;
	return 0;
}

void mad_agent_leave(struct mad_clients *c, struct mad_file *f, uint32_t agent)
{
	struct mad_agent *a = &f->agent[agent];

	gsa_unregister(mad_agent_buffers(f, a), a->client);
	mad_sources_free(a->sources);
	a->sources = NULL;
	a->is_used = false;
	f->agents--;
	put_pool(c, f);
}

struct mad_agent *mad_agent_of_method(const struct mad_clients *c, uint32_t port, const uint8_t *mad, struct mad_file **file)
{
	uint8_t method = mad_method(mad), version = (uint8_t)wire_get(mad, CLASS_VERSION);
	uint32_t oui = (uint32_t)wire_get(mad, VENDOR_OUI);
	const struct mad_pool *p = mad_pool_find(&c->buffers, port);

	if (method & MAD_RESPONSE || !p)
		return NULL;
	list_for_each(f, &p->files, struct mad_file, pool_node) {
		for (int i = 0; i < MAD_AGENTS; i++) {
			struct mad_agent *a = &f->agent[i];

			if (a->is_used && is_of(&a->what, mad_class(mad), version, oui) &&
			    a->what.methods[method / 64] >> method % 64 & 1) {
				*file = f;
				return a;
			}
		}
	}
	return NULL;
}

static const struct mad_agent *find_agent(const struct mad_file *f, uint32_t agent)
{
	return agent < MAD_AGENTS && f->agent[agent].is_used ? &f->agent[agent] : NULL;
}

int mad_change_buffers(struct mad_file *f, uint32_t agent, int32_t by)
{
	const struct mad_agent *a = find_agent(f, agent);

	return a ? gsa_change(mad_agent_buffers(f, a), a->client, by) : -ENOENT;
}

bool mad_agent_lend(const struct mad_file *f, uint32_t agent, int32_t by)
{
	return !gsa_lend(mad_agent_buffers(f, &f->agent[agent]), f->agent[agent].client, by);
}

uint32_t mad_agent_held(const struct mad_agent *a, uint16_t lid)
{
	return mad_sources_of(a->sources, lid);
}

void mad_agent_took(struct mad_file *f, uint32_t agent, uint16_t lid, bool holds)
{
	struct mad_agent *a = &f->agent[agent];

	if (a->is_used && holds)
		mad_sources_add(&a->sources, lid);
	else if (a->is_used)
		gsa_release(mad_agent_buffers(f, a), a->client);
}

void mad_gave_back(struct mad_file *f, uint32_t agent, uint32_t datagrams)
{
	const struct mad_agent *a = find_agent(f, agent);

	while (a && datagrams && !gsa_release(mad_agent_buffers(f, a), a->client)) {
		mad_sources_take(a->sources);
		datagrams--;
	}
}
