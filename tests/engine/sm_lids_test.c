/* LIDs stay with ports, also in a manager's next life; where there are too few, most ports have some. */
#include "sm_run.h"

#include "base/log.h"
#include "sm/request.h"

#include <errno.h>

/* In the next life, hosts that were switched off and on have their LIDs again, in whatever order they are found. */
static void lids_are_kept(void **state)
{
	struct sm_config config = { .lmc = 2 };
	struct { uint64_t guid; uint16_t lid; } kept[32];
	unsigned count = 0;
	uint32_t cursor = 0;
	struct run r;

	run_init(&r, "fat-tree", (char *const[]){ "ports=4", NULL }, 1);
	run_add(&r, "h8", 1, &config);
	assert_true(mad_net_until_quiet(&r.n, 100 * WTIME_S));
	check_reaches(&r.t.f);
	while (sm_kept_lid(&r.n.manager[0].sm, &cursor, &kept[count].guid, &kept[count].lid))
		count++;
	assert_int_equal(count, 14);
	mad_net_kill(&r.n, &r.n.manager[0]);
	for (uint32_t port = 0; port < r.t.f.ports; port++)
		r.t.f.port[port].lid = r.t.f.port[port].lmc = 0;
	assert_int_equal(sm_init(&r.n.manager[1].sm, &config), 0);
	for (unsigned i = 0; i < count; i++)
		assert_int_equal(sm_keep_lid(&r.n.manager[1].sm, kept[i].guid, kept[i].lid), 0);
	r.n.manager[1].port = port_named(&r.t.f, "s3", 0);
	r.n.manager[1].runs = true;
	r.n.managers = 2;
	sm_start(&r.n.manager[1].sm, r.n.now);
	assert_true(mad_net_until_quiet(&r.n, 100 * WTIME_S));
	check_reaches(&r.t.f);
	for (uint32_t port = 0; port < r.t.f.ports; port++) {
		for (unsigned i = 0; i < count && r.t.f.port[port].lid; i++) {
			if (r.t.f.port[port].guid == kept[i].guid)
				assert_int_equal(r.t.f.port[port].lid, kept[i].lid);
		}
	}
	run_fini(&r);
}

/* The only manager, which has had sm_init(), until the subnet is as it wants it. */
static void start_alone(struct run *r, const char *name, unsigned number)
{
	r->n.manager[0].port = port_named(&r->t.f, name, number);
	r->n.manager[0].runs = true;
	r->n.managers = 1;
	sm_start(&r->n.manager[0].sm, r->n.now);
	assert_true(mad_net_until_quiet(&r->n, 100 * WTIME_S));
}

/* LIDs of an LMC do not go where one of them is another port's. */
static void a_kept_lid_among_others(void **state)
{
	struct sm_config config = { .lmc = 2 };
	struct run r;

	run_init(&r, "fat-tree", (char *const[]){ "ports=4", NULL }, 1);
	assert_int_equal(sm_init(&r.n.manager[0].sm, &config), 0);
	assert_int_equal(sm_keep_lid(&r.n.manager[0].sm, r.t.f.node[node_named(&r.t.f, "s1")].guid, 9), 0);
	assert_int_equal(sm_keep_lid(&r.n.manager[0].sm, r.t.f.node[node_named(&r.t.f, "s2")].guid, LIDS), -EINVAL);
	/* and those of hosts that are away are nobody else's */
	assert_int_equal(sm_keep_lid(&r.n.manager[0].sm, 0xabcdef, 1), 0);
	assert_int_equal(sm_keep_lid(&r.n.manager[0].sm, 0xabcdee, 5), 0);
	start_alone(&r, "h1", 1);
	check_reaches(&r.t.f);
	assert_int_equal(r.t.f.port[port_named(&r.t.f, "s1", 0)].lid, 9);
	for (uint32_t port = 0; port < r.t.f.ports; port++)
		assert_true(!r.t.f.port[port].lid || (r.t.f.port[port].lid != 1 && r.t.f.port[port].lid != 5));
	run_fini(&r);
}

/* One that is away while the manager starts anew has all LIDs of its LMC when it comes back, though switches need one. */
static void all_lids_of_who_is_away_are_kept(void **state)
{
	enum { KEPT = 4 };
	struct sm_config config = { .lmc = 2 };
	struct run r;
	uint32_t away;

	run_init(&r, "fat-tree", (char *const[]){ "ports=4", NULL }, 1);
	away = port_named(&r.t.f, "h8", 1);
	agents_set_link(&r.n.agents, r.n.now, away, false);
	assert_int_equal(sm_init(&r.n.manager[0].sm, &config), 0);
	assert_int_equal(sm_keep_lid(&r.n.manager[0].sm, r.t.f.port[away].guid, KEPT), 0);
	start_alone(&r, "h1", 1);
	for (unsigned i = 0; i < 4; i++)
		assert_int_equal(r.n.manager[0].sm.net.by_lid[KEPT + i], 0);
	agents_set_link(&r.n.agents, r.n.now, away, true);
	assert_true(mad_net_until_quiet(&r.n, 100 * WTIME_S));
	assert_int_equal(r.t.f.port[away].lid, KEPT);
	check_reaches(&r.t.f);
	run_fini(&r);
}

/* All but three LIDs are kept, each fourth for somebody: a port that needs one has it nevertheless. */
static void lids_are_kept_while_there_are_others(void **state)
{
	struct sm_config config = { .lmc = 2 };
	struct run r;

	run_init(&r, "line", (char *const[]){ "switches=6", NULL }, 1);
	assert_int_equal(sm_init(&r.n.manager[0].sm, &config), 0);
	for (uint16_t lid = 4; lid < r.t.f.lids; lid = (uint16_t)(lid + 4))
		assert_int_equal(sm_keep_lid(&r.n.manager[0].sm, 0xabc0000u + lid, lid), 0);
	start_alone(&r, "s1", 0);
	check_reaches(&r.t.f);
	run_fini(&r);
}

static void hear(void *arg, enum log_level level, const char *line)
{
	unsigned *told = arg;

	*told += level == LOG_WARNING && strstr(line, "no LIDs below 64");
}

static unsigned count_with_lids(const struct fabric *f, bool switches)
{
	unsigned count = 0;

	for (uint32_t port = 0; port < f->ports; port++)
		count += fabric_is_switch(f, f->owner[port]) == switches && f->port[port].lid;
	return count;
}

static bool sets_up_without_lid(const struct sm *s)
{
	for (unsigned i = 0; i < SM_WINDOW_MOST; i++) {
		const struct sm_work *w = &s->request[i].work;
		uint32_t port = net_port_index(&s->net, w->node, w->number);

		if (s->request[i].tid && (w->kind == WORK_SET_PORT || w->kind == WORK_ARM || w->kind == WORK_ACTIVATE) &&
		    net_is_end(&s->net, port) && !s->net.port[port].lid)
			return true;
	}
	return false;
}

/* Eight hosts want more LIDs than the 64 that switches forward: as many as can have theirs do, and do not wait for the others. */
static void begin_without_lids(struct run *r, uint8_t lmc, unsigned hosts)
{
	unsigned told = 0;
	uint64_t routings, changes;
	struct survey v;
	wtime until;
	struct sm *s;

	run_init(r, "fat-tree", (char *const[]){ "ports=4", NULL }, 1);
	assert_int_equal(r->t.f.lids, 64);
	log_set_sink(hear, &told, LOG_WARNING);
	s = &run_add(r, "h2", 1, &(struct sm_config){ .lmc = lmc })->sm;
	mad_net_for(&r->n, 30 * WTIME_S);
	assert_int_equal(count_with_lids(&r->t.f, false), hosts);
	assert_int_equal(count_with_lids(&r->t.f, true), 6);
	assert_int_equal(survey(&v, &r->t.f), 0);
	assert_int_equal(v.paths, (hosts * (hosts - 1)) << lmc);
	assert_int_equal(v.reached, v.paths);
	survey_fini(&v);
	/* it is tried again and again, told once, changes nothing, and nobody sets up what cannot have LIDs */
	routings = s->counters.routings;
	changes = s->net.changes;
	until = r->n.now + 30 * WTIME_S;
	for (bool goes_on = true; goes_on; goes_on = mad_net_step(&r->n, until)) {
		mad_net_pump(&r->n);
		assert_false(sets_up_without_lid(s));
	}
	assert_true(s->counters.heavy > 5);
	assert_int_equal(s->counters.routings, routings);
	assert_int_equal(s->net.changes, changes);
	assert_int_equal(told, 1);
	log_set_sink(NULL, NULL, LOG_ERROR);
}

static void switch_off(struct run *r, const char *host)
{
	uint32_t port = port_named(&r->t.f, host, 1);

	agents_set_link(&r->n.agents, r->n.now, port, false);
	r->t.f.port[port].lid = 0;
}

static void too_few_lids(void **state)
{
	struct run r;

	begin_without_lids(&r, 5, 1);
	run_fini(&r);
	begin_without_lids(&r, 3, 7);
	/* a host is switched off: its LIDs go to the one that waits */
	switch_off(&r, "h5");
	assert_true(mad_net_until_quiet(&r.n, 60 * WTIME_S));
	check_reaches(&r.t.f);
	run_fini(&r);
}

/* Links of the host's switch to other switches. */
static void set_uplinks(struct run *r, const char *host, bool is_up)
{
	const struct fabric *f = &r->t.f;
	uint32_t leaf = f->owner[fabric_peer(f, port_named(f, host, 1))];

	for (uint32_t port = 0; port < f->ports; port++) {
		uint32_t peer = fabric_peer(f, port);

		if (f->owner[port] == leaf && peer != PORT_NONE && fabric_is_switch(f, f->owner[peer]))
			agents_set_link(&r->n.agents, r->n.now, port, is_up);
	}
}

/* A host is cut off with its switch, and its LIDs go to the one that waits. Its own link is active all the time, and its port
 * says the same LID when it is back: it carries no data until there are others. */
static void who_lost_its_lid_does_not_go_on(void **state)
{
	struct fabric_port *h5, *h8;
	struct run r;
	uint16_t lid;

	begin_without_lids(&r, 3, 7);
	h5 = &r.t.f.port[port_named(&r.t.f, "h5", 1)];
	h8 = &r.t.f.port[port_named(&r.t.f, "h8", 1)];
	lid = h5->lid;
	assert_int_equal(h8->lid, 0);
	set_uplinks(&r, "h5", false);
	mad_net_for(&r.n, 30 * WTIME_S);
	assert_int_equal(h8->lid, lid);
	set_uplinks(&r, "h5", true);
	assert_int_equal(h5->state, PORT_ACTIVE);
	mad_net_for(&r.n, 30 * WTIME_S);
	assert_int_equal(r.n.manager[0].sm.without_lids, 1);
	assert_int_equal(h8->lid, lid);
	assert_int_equal(h8->state, PORT_ACTIVE);
	assert_int_equal(h5->state, PORT_INIT);
	assert_int_equal(r.n.agents.counters[port_named(&r.t.f, "h5", 1)].total[COUNT_LINK_DOWNED], 1);
	assert_int_equal(r.n.agents.counters[port_named(&r.t.f, "h6", 1)].total[COUNT_LINK_DOWNED], 0);
	switch_off(&r, "h3");
	assert_true(mad_net_until_quiet(&r.n, 60 * WTIME_S));
	assert_int_equal(h5->state, PORT_ACTIVE);
	check_reaches(&r.t.f);
	run_fini(&r);
}

/* The master at h1 is killed, and the manager at h8, which has no LIDs, takes over with those of h5, which is gone, or of another
 * host, which goes without. All others keep theirs. Mixed: of the last eight LIDs two switches have some. */
static void become_master_without_lids(bool one_is_gone, bool is_mixed)
{
	uint16_t was[64];
	struct fabric_port *h8;
	struct survey v;
	unsigned lost = 0;
	uint64_t changes;
	struct run r;
	struct sm *s;

	run_init(&r, "fat-tree", (char *const[]){ "ports=4", NULL }, 1);
	h8 = &r.t.f.port[port_named(&r.t.f, "h8", 1)];
	for (unsigned i = 0; is_mixed && i < 2; i++)
		r.t.f.port[port_named(&r.t.f, i ? "s2" : "s1", 0)].lid = (uint16_t)(62 + i);
	run_add(&r, "h1", 1, &(struct sm_config){ .lmc = 3, .priority = 5 });
	s = &run_add(&r, "h8", 1, &(struct sm_config){ .lmc = 3 })->sm;
	mad_net_for(&r.n, 30 * WTIME_S);
	assert_int_equal(s->state, SM_STANDBY);
	assert_int_equal(h8->lid, 0);
	assert_in_range(r.t.f.ports, 1, 64);
	for (uint32_t port = 0; port < r.t.f.ports; port++)
		was[port] = r.t.f.port[port].lid;
	mad_net_kill(&r.n, &r.n.manager[0]);
	if (one_is_gone)
		switch_off(&r, "h5");
	mad_net_for(&r.n, 60 * WTIME_S);
	assert_int_equal(s->state, SM_MASTER);
	assert_int_not_equal(h8->lid, 0);
	assert_int_equal(h8->state, PORT_ACTIVE);
	assert_int_equal(s->without_lids, !one_is_gone + is_mixed);
	for (uint32_t port = 0; port < r.t.f.ports; port++) {
		const struct fabric_port *p = &r.t.f.port[port];

		if (p == h8 || !was[port] || p->state == PORT_DOWN)
			continue;
		/* the host that has lost its LIDs carries no data */
		if (was[port] == h8->lid) {
			assert_int_equal(p->state, PORT_INIT);
			lost++;
			continue;
		}
		assert_int_equal(p->lid, was[port]);
		assert_int_equal(p->sm_lid, h8->lid);
	}
	assert_int_equal(lost, !one_is_gone);
	assert_int_equal(survey(&v, &r.t.f), 0);
	assert_int_equal(v.reached, v.paths);
	survey_fini(&v);
	changes = s->net.changes;
	mad_net_for(&r.n, 30 * WTIME_S);
	assert_int_equal(s->net.changes, changes);
	/* who is without gets those of the next ones that are switched off */
	switch_off(&r, "h3");
	if (is_mixed)
		switch_off(&r, "h4");
	assert_true(mad_net_until_quiet(&r.n, 60 * WTIME_S));
	check_reaches(&r.t.f);
	run_fini(&r);
}

static void a_master_that_has_no_lid(void **state)
{
	become_master_without_lids(false, false);
	become_master_without_lids(true, false);
	become_master_without_lids(false, true);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(lids_are_kept),
		cmocka_unit_test(a_kept_lid_among_others),
		cmocka_unit_test(all_lids_of_who_is_away_are_kept),
		cmocka_unit_test(lids_are_kept_while_there_are_others),
		cmocka_unit_test(too_few_lids),
		cmocka_unit_test(who_lost_its_lid_does_not_go_on),
		cmocka_unit_test(a_master_that_has_no_lid),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
