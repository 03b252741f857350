/* Subnet managers over the agents of a fabric, in virtual time: datagrams take a while, and some are lost. */
#ifndef WEFT_TESTS_ENGINE_SM_RUN_H
#define WEFT_TESTS_ENGINE_SM_RUN_H

#include "../unit/agents.h"

#include "fabric/host.h"
#include "fabric/survey.h"
#include "sm/sm.h"
#include "wire/sa.h"

enum { RUN_MANAGERS = 3 };

struct run_flight {
	struct list_node node;
	wtime at;
	uint32_t to;			/* manager */
	struct mad_letter letter;
	uint8_t data[];
};

struct run_manager {
	struct sm sm;
	uint32_t port;
	bool runs;
};

struct run {
	struct test_agents g;
	struct run_manager manager[RUN_MANAGERS];
	unsigned managers;
	uint32_t loss_ppm;
	struct rand rand;
	wtime delay_ns, jitter_ns;
	struct list flights;		/* by time */
	uint64_t mads;
	/* what an SA has said last, to whom */
	uint8_t *said;
	uint32_t said_bytes, said_count;
	struct mad_remote said_to;
	struct run_said {
		uint32_t attr_id, method, bytes;
		uint16_t lid;
		uint8_t data[MAD_BYTES];
	} all_said[64];
};

/* Of the fabric r->g.t, as it is. */
static inline void run_as_it_is(struct run *r, uint64_t seed)
{
	r->g.now = 1;
	r->delay_ns = 5 * WTIME_US;
	assert_int_equal(agents_init(&r->g.a, &r->g.t.f), 0);
	rand_seed(&r->rand, seed);
	list_init(&r->flights);
}

/* The same, as when it is switched on. */
static void run_cold(struct run *r, uint64_t seed)
{
	struct fabric *f = &r->g.t.f;

	for (uint32_t port = 0; port < f->ports; port++)
		f->port[port].lid = 0;
	for (uint32_t n = 0; n < f->nodes; n++)
		f->node[n].lft_top = 0;
	run_as_it_is(r, seed);
}

static inline void run_init(struct run *r, const char *kind, char *const settings[], uint64_t seed)
{
	*r = (struct run){ 0 };
	make_fabric(&r->g.t, kind, settings);
	run_cold(r, seed);
}

static struct run_manager *run_add(struct run *r, const char *node, unsigned number, const struct sm_config *config)
{
	struct run_manager *m = &r->manager[r->managers++];

	assert_true(r->managers <= RUN_MANAGERS);
	m->port = port_named(&r->g.t.f, node, number);
	m->runs = true;
	assert_int_equal(sm_init(&m->sm, config), 0);
	agents_set_sm(&r->g.a, r->g.now, m->port, true);
	sm_start(&m->sm, r->g.now);
	return m;
}

/* It is killed: nobody hears of it but by its silence. */
static inline void run_kill(struct run *r, struct run_manager *m)
{
	m->runs = false;
	sm_fini(&m->sm);
	agents_set_sm(&r->g.a, r->g.now, m->port, false);
}

static void run_fini(struct run *r)
{
	struct list_node *n;

	for (unsigned i = 0; i < r->managers; i++) {
		if (r->manager[i].runs)
			sm_fini(&r->manager[i].sm);
	}
	while ((n = list_pop(&r->flights)))
		free(container_of(n, struct run_flight, node));
	free(r->said);
	end_agents(&r->g);
}

static unsigned run_manager_at(const struct run *r, uint32_t port)
{
	unsigned i = 0;

	while (i < r->managers && !(r->manager[i].runs && r->manager[i].port == port))
		i++;
	return i;
}

static void run_fly(struct run *r, const struct mad_arrival *at, const uint8_t *mad)
{
	unsigned to = run_manager_at(r, at->port);
	struct list_node *before = r->flights.head.next;
	struct run_flight *f;

	if (to == r->managers || rand_chance(&r->rand, r->loss_ppm))
		return;
	f = calloc(1, sizeof(*f) + MAD_BYTES);
	assert_non_null(f);
	f->at = r->g.now + r->delay_ns + rand_below(&r->rand, r->jitter_ns + 1);
	f->to = to;
	memcpy(f->data, mad, MAD_BYTES);
	f->letter.agent = mad[1] == MAD_CLASS_SUBN_DIRECTED ? SM_AGENT_DIRECTED : mad[1] == MAD_CLASS_SUBN_LID ? SM_AGENT_LID :
			  SM_AGENT_SA;
	f->letter.data = f->data;
	f->letter.bytes = MAD_BYTES;
	f->letter.remote = (struct mad_remote){ .qpn = at->address.src_qpn, .qkey = at->address.qkey,
						.lid = at->address.path.slid, .sl = at->address.path.sl };
	while (before != &r->flights.head && container_of(before, struct run_flight, node)->at <= f->at)
		before = before->next;
	list_insert_before(before, &f->node);
}

static void run_carry(struct run *r, struct run_manager *m, const struct mad_letter *l)
{
	uint16_t slid = l->remote.lid == LID_PERMISSIVE ? LID_PERMISSIVE : 0;
	struct mad_address to = { .path = { .slid = slid, .dlid = l->remote.lid } };
	uint8_t mad[MAD_BYTES];
	struct mad_arrival at;
	enum mad_outcome o;

	if (l->agent == SM_AGENT_SA) {
		struct run_said *said = &r->all_said[r->said_count++ % 64];
		struct mad_header h;

		mad_header_parse(&h, l->data);
		*said = (struct run_said){ .attr_id = h.attr_id, .method = h.method, .bytes = l->bytes, .lid = l->remote.lid };
		memcpy(said->data, l->data, l->bytes < MAD_BYTES ? l->bytes : MAD_BYTES);
		r->said = realloc(r->said, l->bytes);
		assert_non_null(r->said);
		memcpy(r->said, l->data, l->bytes);
		r->said_bytes = l->bytes;
		r->said_to = l->remote;
		return;
	}
	r->mads++;
	memcpy(mad, l->data, MAD_BYTES);
	if (rand_chance(&r->rand, r->loss_ppm))
		return;
	o = agents_mad(&r->g.a, r->g.now, m->port, &to, mad, &at);
	if (o == MAD_ARRIVED && run_manager_at(r, at.port) == r->managers)
		o = agents_refuse(&r->g.a, r->g.now, &at, mad, &at);
	if (o == MAD_ANSWERED || o == MAD_ARRIVED)
		run_fly(r, &at, mad);
}

static void run_pump(struct run *r)
{
	uint8_t mad[MAD_BYTES];
	struct mad_arrival at;
	struct mad_letter l;

	for (unsigned i = 0; i < r->managers; i++) {
		struct run_manager *m = &r->manager[i];

		while (m->runs && sm_output(&m->sm, r->g.now, &l))
			run_carry(r, m, &l);
	}
	while (agents_output(&r->g.a, r->g.now, mad, &at))
		run_fly(r, &at, mad);
}

static wtime run_next(const struct run *r)
{
	wtime next = agents_deadline(&r->g.a);

	if (!list_empty(&r->flights))
		next = wtime_min(next, container_of(r->flights.head.next, struct run_flight, node)->at);
	for (unsigned i = 0; i < r->managers; i++) {
		if (r->manager[i].runs)
			next = wtime_min(next, sm_deadline(&r->manager[i].sm));
	}
	return next;
}

static bool run_is_quiet(const struct run *r)
{
	if (!list_empty(&r->flights) || r->g.a.traps)
		return false;
	for (unsigned i = 0; i < r->managers; i++) {
		if (r->manager[i].runs && !sm_is_quiet(&r->manager[i].sm))
			return false;
	}
	return true;
}

/* One event. False: nothing happens any more, or not before `until`. */
static bool run_step(struct run *r, wtime until)
{
	wtime next;

	run_pump(r);
	next = run_next(r);
	if (next > until) {
		r->g.now = until;
		return false;
	}
	r->g.now = next > r->g.now ? next : r->g.now;
	while (!list_empty(&r->flights) && container_of(r->flights.head.next, struct run_flight, node)->at <= r->g.now) {
		struct run_flight *f = container_of(list_pop(&r->flights), struct run_flight, node);

		if (r->manager[f->to].runs)
			sm_input(&r->manager[f->to].sm, r->g.now, &f->letter);
		free(f);
	}
	return true;
}

static inline void run_for(struct run *r, wtime ns)
{
	wtime until = r->g.now + ns;

	while (run_step(r, until))
		;
}

/* Until nobody has anything to do, or for so long. */
static bool run_until_quiet(struct run *r, wtime most)
{
	wtime until = r->g.now + most;

	for (run_pump(r); !run_is_quiet(r); run_pump(r)) {
		if (!run_step(r, until))
			return run_is_quiet(r);
	}
	return true;
}

/* ---- what has come of it ---- */

/* Everybody who can be reached reaches everybody; nothing can deadlock; every link that is up is active. */
static inline void check_reaches(const struct fabric *f)
{
	char why[200] = "";
	struct survey s;

	if (fabric_check_lids(f, why, sizeof(why)))
		fail_msg("%s", why);
	assert_int_equal(survey(&s, f), 0);
	if (s.reached != s.paths || !s.paths)
		fail_msg("%llu of %llu paths reach; one not: port %u to LID %u", (unsigned long long)s.reached,
			 (unsigned long long)s.paths, s.bad_port, s.bad_lid);
	assert_false(s.has_credit_loop);
	survey_fini(&s);
	for (uint32_t port = 0; port < f->ports; port++) {
		if (fabric_peer(f, port) != PORT_NONE && f->port[port].state != PORT_DOWN)
			assert_int_equal(f->port[port].state, PORT_ACTIVE);
	}
}

#endif
