/* M_Keys: the manager gives ports its own, is answered with it, and takes over ports with another key when these let it. */
#include "sm_run.h"

#include "../unit/agents.h"

#include "sm/groups.h"

#define FIRST 0x1111222233334444u
#define SECOND 0x5555666677778888u

static const struct sm_config guarded = { .m_key = FIRST, .m_key_protect = 2 };

static void begin(struct run *r, const struct sm_config *config)
{
	run_init(r, "fat-tree", (char *const[]){ "ports=4", NULL }, 1);
	run_add(r, "s1", 0, config);
	assert_true(mad_net_until_quiet(&r->n, 100 * WTIME_S));
}

static bool is_end(const struct fabric *f, uint32_t port)
{
	return fabric_is_switch(f, f->owner[port]) == !fabric_port_number(f, port);
}

/* End ports with this key. 14 there are. */
static unsigned have(const struct run *r, uint64_t key)
{
	const struct fabric *f = &r->t.f;
	unsigned n = 0;

	for (uint32_t port = 0; port < f->ports; port++)
		n += is_end(f, port) && f->port[port].lid && f->port[port].m_key == key;
	return n;
}

static unsigned violations(const struct run *r)
{
	unsigned n = 0;

	for (uint32_t port = 0; port < r->t.f.ports; port++)
		n += r->t.f.port[port].m_key_violations;
	return n;
}

/* A host asks another one for its PortInfo with a key: is it answered? */
static bool answers(struct run *r, const char *from, const char *to, uint64_t key)
{
	const struct mad_header h = { .base_version = 1, .mgmt_class = MAD_CLASS_SUBN_LID, .class_version = 1, .method = MAD_GET,
				      .tid = 7, .attr_id = SMP_PORT_INFO };
	const struct mad_address way = { .path = { .dlid = r->t.f.port[port_named(&r->t.f, to, 1)].lid } };
	uint8_t mad[MAD_BYTES] = { 0 };
	struct mad_arrival out;

	mad_header_build(&h, mad);
	wire_put(mad, key, 24, 0, 64);
	return agents_mad(&r->n.agents, r->n.now, port_named(&r->t.f, from, 1), &way, mad, &out) == MAD_ANSWERED;
}

static void ports_are_guarded(void **state)
{
	struct run r;
	const struct fabric_port *p;

	begin(&r, &(struct sm_config){ .m_key = FIRST, .m_key_protect = 3, .m_key_lease = 60 });
	check_reaches(&r.t.f);
	assert_int_equal(have(&r, FIRST), 14);
	p = &r.t.f.port[port_named(&r.t.f, "h5", 1)];
	assert_int_equal(p->m_key_protect, 3);
	assert_int_equal(p->m_key_lease, 60);
	assert_true(answers(&r, "h1", "h5", FIRST));
	assert_int_equal(violations(&r), 0);
	assert_false(answers(&r, "h1", "h5", 0));
	assert_false(answers(&r, "h1", "h5", SECOND));
	assert_int_equal(p->m_key_violations, 2);
	/* all is as ever for the manager */
	agents_set_link(&r.n.agents, r.n.now, port_named(&r.t.f, "h5", 1), false);
	assert_true(mad_net_until_quiet(&r.n, 20 * WTIME_S));
	agents_set_link(&r.n.agents, r.n.now, port_named(&r.t.f, "h5", 1), true);
	assert_true(mad_net_until_quiet(&r.n, 20 * WTIME_S));
	check_reaches(&r.t.f);
	sm_sweep(&r.n.manager[0].sm, r.n.now, true);
	assert_true(mad_net_until_quiet(&r.n, 20 * WTIME_S));
	assert_int_equal(violations(&r), 2);
	run_fini(&r);
}

/* The next manager has the same key, of weftd's file. */
static void a_manager_is_restarted(void **state)
{
	struct run r;

	begin(&r, &guarded);
	mad_net_revive(&r.n, &r.n.manager[0], &guarded);
	assert_true(mad_net_until_quiet(&r.n, 20 * WTIME_S));
	assert_int_equal(r.n.manager[0].sm.state, SM_MASTER);
	assert_int_equal(violations(&r), 0);
	check_reaches(&r.t.f);
	run_fini(&r);
}

/* The manager's answer to the trap of a bad key ends the lease, and the trap is not sent again. */
static void a_lease_is_kept(void **state)
{
	struct run r;

	begin(&r, &(struct sm_config){ .m_key = FIRST, .m_key_protect = 2, .m_key_lease = 5 });
	assert_false(answers(&r, "h1", "h5", SECOND));
	mad_net_for(&r.n, 2 * WTIME_S);
	assert_int_equal(r.n.agents.traps, 0);
	assert_int_equal(r.n.manager[0].sm.counters.traps, 1);
	mad_net_for(&r.n, 60 * WTIME_S);
	assert_int_equal(r.t.f.port[port_named(&r.t.f, "h5", 1)].m_key_protect, 2);
	assert_false(answers(&r, "h1", "h5", 0));
	run_fini(&r);
}

/* Keys that anybody may read are no secret; a manager takes such ports over, whatever is lost, and in a subnet without keys
 * takes them away. */
static void ports_that_show_their_key_are_taken_over(void **state)
{
	static const struct sm_config others[] = { { .m_key = SECOND, .m_key_protect = 2 }, { .m_key = 0 } };

	for (unsigned i = 0; i < 2; i++) {
		for (uint32_t loss = 0; loss <= 200000; loss += 100000) {
			struct run r;

			begin(&r, &(struct sm_config){ .m_key = FIRST, .m_key_protect = 0 });
			r.n.loss_ppm = loss;
			mad_net_revive(&r.n, &r.n.manager[0], &others[i]);
			assert_true(mad_net_until_quiet(&r.n, 200 * WTIME_S));
			assert_int_equal(have(&r, others[i].m_key), 14);
			check_reaches(&r.t.f);
			run_fini(&r);
		}
	}
}

/* 14.2.4: without a lease ports stay their manager's; Gets that are answered (protection 1) change nothing. */
static void ports_without_a_lease_stay(void **state)
{
	for (uint8_t protect = 1; protect <= 3; protect++) {
		struct run r;

		begin(&r, &(struct sm_config){ .m_key = FIRST, .m_key_protect = protect });
		mad_net_revive(&r.n, &r.n.manager[0], &(struct sm_config){ .m_key = SECOND, .m_key_protect = 2 });
		mad_net_for(&r.n, 60 * WTIME_S);
		assert_int_equal(have(&r, FIRST), 14);
		assert_int_equal(r.n.manager[0].sm.net.nodes, protect == 1 ? 14 : 0);
		run_fini(&r);
	}
}

/* What is asked without the key begins the lease, which nobody of the old manager ends: then ports are anybody's. */
static void ports_whose_lease_ends_are_taken_over(void **state)
{
	for (uint8_t protect = 1; protect <= 3; protect++) {
		struct run r;

		begin(&r, &(struct sm_config){ .m_key = FIRST, .m_key_protect = protect, .m_key_lease = 15 });
		mad_net_revive(&r.n, &r.n.manager[0], &(struct sm_config){ .m_key = SECOND, .m_key_protect = 2 });
		mad_net_for(&r.n, 10 * WTIME_S);
		assert_int_equal(have(&r, FIRST), 14);
		mad_net_for(&r.n, 300 * WTIME_S);
		assert_int_equal(have(&r, SECOND), 14);
		assert_true(sm_is_quiet(&r.n.manager[0].sm));
		check_reaches(&r.t.f);
		run_fini(&r);
	}
}

/* One host is another manager's: the others are managed. */
static void a_port_of_another_manager(void **state)
{
	struct run r;
	struct fabric_port *p;

	run_init(&r, "fat-tree", (char *const[]){ "ports=4", NULL }, 1);
	p = &r.t.f.port[port_named(&r.t.f, "h5", 1)];
	p->m_key = SECOND;
	p->m_key_protect = 1;
	run_add(&r, "s1", 0, &guarded);
	mad_net_for(&r.n, 60 * WTIME_S);
	assert_int_equal(have(&r, FIRST), 13);
	assert_int_equal(p->lid, 0);
	assert_int_equal(p->m_key, SECOND);
	assert_int_equal(r.t.f.port[port_named(&r.t.f, "h6", 1)].state, PORT_ACTIVE);
	/* its manager gives it up */
	p->m_key_protect = 0;
	mad_net_for(&r.n, 60 * WTIME_S);
	assert_int_equal(have(&r, FIRST), 14);
	check_reaches(&r.t.f);
	run_fini(&r);
}

/* Does its switch lead packets of a group to this host? */
static bool hears(const struct run *r, const char *host, uint16_t mlid)
{
	const struct fabric *f = &r->t.f;
	uint32_t peer = fabric_peer(f, port_named(f, host, 1));

	return *fabric_mft(f, f->owner[peer], mlid) >> fabric_port_number(f, peer) & 1;
}

/* Sweeps fail as one port takes nothing: who joins a group elsewhere hears it at once. */
static void groups_beside_a_port_of_another_manager(void **state)
{
	const uint8_t mgid[16] = { 0xff, 0x12, [15] = 7 }, gid[16] = { 0xfe, 0x80, [15] = 1 };
	struct mcast_member *m;
	struct mcast_group *g;
	struct run r;
	struct sm *s;
	uint64_t heavy;

	run_init(&r, "fat-tree", (char *const[]){ "ports=4", NULL }, 1);
	r.t.f.port[port_named(&r.t.f, "h5", 1)].m_key = SECOND;
	r.t.f.port[port_named(&r.t.f, "h5", 1)].m_key_protect = 1;
	s = &run_add(&r, "s1", 0, &guarded)->sm;
	mad_net_for(&r.n, 30 * WTIME_S);
	while (s->phase != SM_IDLE)
		mad_net_for(&r.n, WTIME_MS);
	assert_false(s->is_up);
	heavy = s->counters.heavy;
	g = groups_add(s, mgid, 0);
	assert_non_null(g);
	m = groups_join(s, g, guid_map_find(&s->net.by_port, r.t.f.port[port_named(&r.t.f, "h1", 1)].guid), gid);
	assert_non_null(m);
	m->join_state = MCAST_FULL;
	mad_net_for(&r.n, 100 * WTIME_MS);
	assert_true(hears(&r, "h1", g->mlid));
	assert_int_equal(s->counters.heavy, heavy);
	run_fini(&r);
}

/* A standby knows the key, too, and the master may be on any port. */
static void a_standby_takes_over(void **state)
{
	struct run r;

	begin(&r, &(struct sm_config){ .m_key = FIRST, .m_key_protect = 2, .priority = 5 });
	run_add(&r, "h7", 1, &guarded);
	mad_net_for(&r.n, 5 * WTIME_S);
	assert_int_equal(r.n.manager[1].sm.state, SM_STANDBY);
	mad_net_kill(&r.n, &r.n.manager[0]);
	mad_net_for(&r.n, 30 * WTIME_S);
	assert_int_equal(r.n.manager[1].sm.state, SM_MASTER);
	assert_int_equal(violations(&r), 0);
	check_reaches(&r.t.f);
	run_fini(&r);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(ports_are_guarded),
		cmocka_unit_test(a_manager_is_restarted),
		cmocka_unit_test(a_lease_is_kept),
		cmocka_unit_test(ports_that_show_their_key_are_taken_over),
		cmocka_unit_test(ports_without_a_lease_stay),
		cmocka_unit_test(ports_whose_lease_ends_are_taken_over),
		cmocka_unit_test(a_port_of_another_manager),
		cmocka_unit_test(groups_beside_a_port_of_another_manager),
		cmocka_unit_test(a_standby_takes_over),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
