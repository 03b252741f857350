#include "mgmt/mad_buffers.h"

#include "wire/mad.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

/* Their QPs and classes. */
static const struct { unsigned qpn; uint8_t mgmt_class; } residents[MAD_RESIDENTS] = {
	[MAD_RESIDENT_SMA] = { 0, MAD_CLASS_SUBN_LID },
	[MAD_RESIDENT_PMA] = { 1, MAD_CLASS_PERF },
	[MAD_RESIDENT_CM] = { 1, MAD_CLASS_CM },
};

unsigned mad_resident_qpn(enum mad_resident who)
{
	return residents[who].qpn;
}

void mad_buffers_init(struct mad_buffers *b)
{
	*b = (struct mad_buffers){ .tunables = gsa_defaults };
	list_init(&b->pools);
}

void mad_buffers_fini(struct mad_buffers *b)
{
	free(b->at);
	b->at = NULL;
	b->ports = 0;
}

/* A program has room for one of the longest, and what it always had. */
static bool lengths_make_sense(const struct gsa_tunables *t)
{
	return t->longest_kb >= MAD_ANSWER_LEAST_KB && t->longest_kb <= MAD_ANSWER_MOST_KB && t->longest_kb < t->program_kb &&
	       t->program_kb >= MAD_PROGRAM_LEAST_KB && t->program_kb <= MAD_PROGRAM_MOST_KB;
}

int mad_buffers_set(struct mad_buffers *b, const struct gsa_tunables *t)
{
	struct gsa probe;
	int err = gsa_init(&probe, 0, t, NULL, NULL);

	gsa_fini(&probe);
	if (err || !lengths_make_sense(t))
		return -EINVAL;
	b->tunables = *t;
	list_for_each(p, &b->pools, struct mad_pool, node) {
		for (int i = 0; i < 2; i++)
			gsa_set(&p->qp[i], t);
	}
	return 0;
}

struct mad_pool *mad_pool_find(const struct mad_buffers *b, uint32_t port)
{
	if (port == UINT32_MAX)
		return b->nowhere;
	return port < b->ports ? b->at[port] : NULL;
}

static bool reserve(struct mad_buffers *b, uint32_t port)
{
	uint32_t ports = b->ports ? b->ports : 64;
	struct mad_pool **at;

	if (port == UINT32_MAX || port < b->ports)
		return true;
	while (ports <= port)
		ports = ports > UINT32_MAX / 2 ? UINT32_MAX : 2 * ports;
	at = realloc(b->at, ports * sizeof(struct mad_pool *));
	if (!at)
		return false;
	memset(at + b->ports, 0, (ports - b->ports) * sizeof(struct mad_pool *));
	b->at = at;
	b->ports = ports;
	return true;
}

static void place(struct mad_buffers *b, uint32_t port, struct mad_pool *p)
{
	if (port == UINT32_MAX)
		b->nowhere = p;
	else
		b->at[port] = p;
}

static void free_pool(struct mad_pool *p)
{
	for (int i = 0; i < 2; i++)
		gsa_fini(&p->qp[i]);
	free(p);
}

struct mad_pool *mad_pool_get(struct mad_buffers *b, uint32_t port)
{
	struct mad_pool *p = mad_pool_find(b, port);

	if (p) {
		p->users++;
		return p;
	}
	p = reserve(b, port) ? calloc(1, sizeof(*p)) : NULL;
	if (!p)
		return NULL;
	p->port = port;
	p->users = 1;
	list_init(&p->files);
	for (int i = 0; i < 2; i++)
		gsa_init(&p->qp[i], 0, &b->tunables, NULL, NULL);
	for (int i = 0; i < MAD_RESIDENTS; i++) {
		if (gsa_register(&p->qp[residents[i].qpn], residents[i].mgmt_class, GSA_NONE, &p->resident[i])) {
			free_pool(p);
			return NULL;
		}
	}
	place(b, port, p);
	list_append(&b->pools, &p->node);
	return p;
}

void mad_pool_put(struct mad_buffers *b, struct mad_pool *p)
{
	if (--p->users)
		return;
	place(b, p->port, NULL);
	list_remove(&p->node);
	free_pool(p);
}

bool mad_pool_arrive(wtime now, struct mad_pool *p, unsigned qpn, uint32_t client)
{
	gsa_expire(&p->qp[qpn], now);
	return gsa_arrive_at(&p->qp[qpn], now, client);
}

void mad_pool_discard(wtime now, struct mad_pool *p, unsigned qpn, uint32_t client)
{
	gsa_expire(&p->qp[qpn], now);
	gsa_discard(&p->qp[qpn], now, client);
}

void mad_buffers_discard(const struct mad_buffers *b, wtime now, uint32_t port, unsigned qpn)
{
	struct mad_pool *p = mad_pool_find(b, port);

	if (p)
		mad_pool_discard(now, p, qpn, GSA_NONE);
}

bool mad_pool_pass(wtime now, struct mad_pool *p, enum mad_resident who)
{
	unsigned qpn = residents[who].qpn;

	if (!mad_pool_arrive(now, p, qpn, p->resident[who]))
		return false;
	gsa_release(&p->qp[qpn], p->resident[who]);
	return true;
}

bool mad_buffers_pass(const struct mad_buffers *b, wtime now, uint32_t port, enum mad_resident who)
{
	struct mad_pool *p = mad_pool_find(b, port);

	return !p || mad_pool_pass(now, p, who);
}

void mad_buffers_expire(struct mad_buffers *b, wtime now)
{
	list_for_each(p, &b->pools, struct mad_pool, node) {
		for (int i = 0; i < 2; i++)
			gsa_expire(&p->qp[i], now);
	}
}
