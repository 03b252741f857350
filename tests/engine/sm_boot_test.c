/* A subnet is brought up by the manager alone, from whatever port it runs at and however many datagrams are lost; what it has
 * found is what the fabric is. */
#include "sm_run.h"

/* The model and the fabric say the same of nodes and links. */
static void check_model(const struct run *r)
{
	const struct fabric *f = &r->t.f;
	const struct net *net = &r->n.manager[0].sm.net;

	assert_int_equal(net->nodes, f->nodes);
	for (uint32_t n = 0; n < f->nodes; n++) {
		uint32_t at = guid_map_find(&net->by_node, f->node[n].guid);

		assert_true(at < net->nodes && net->node[at].is_here);
		assert_int_equal(net->node[at].ports, f->place[n].ports);
		for (unsigned i = 1; i <= f->place[n].ports; i++) {
			uint32_t peer = fabric_peer(f, fabric_port_index(f, n, i));
			uint32_t seen = net->port[net_port_index(net, at, i)].peer;

			assert_int_equal(peer == PORT_NONE, seen == PORT_NONE);
			if (peer == PORT_NONE)
				continue;
			assert_true(net->node[net->owner[seen]].guid == f->node[f->owner[peer]].guid);
			assert_int_equal(net_port_number(net, seen), fabric_port_number(f, peer));
		}
	}
}

static void boot(const char *kind, char *const settings[], const char *node, unsigned number, uint32_t loss_ppm, uint64_t seed)
{
	struct run r;

	run_init(&r, kind, settings, seed);
	r.n.loss_ppm = loss_ppm;
	run_add(&r, node, number, &(struct sm_config){ 0 });
	if (!mad_net_until_quiet(&r.n, 2000 * WTIME_S))
		fail_msg("%s from %s, %u ppm lost, seed %llu: it does not end", kind, node, loss_ppm, (unsigned long long)seed);
	assert_int_equal(r.n.manager[0].sm.state, SM_MASTER);
	check_model(&r);
	check_reaches(&r.t.f);
	run_fini(&r);
}

static void every_kind_from_a_host_and_from_a_switch(void **state)
{
	for (const struct generate_kind *k = generate_kinds; k->name; k++) {
		boot(k->name, (char *const[]){ NULL }, "h1", 1, 0, 1);
		boot(k->name, (char *const[]){ NULL }, "s1", 0, 0, 1);
	}
}

static void whatever_is_lost(void **state)
{
	static const uint32_t losses[] = { 1000, 10000, 100000, 300000, 500000 };

	for (size_t i = 0; i < sizeof(losses) / sizeof(losses[0]); i++) {
		for (uint64_t seed = 1; seed <= 4; seed++) {
			boot("fat-tree", (char *const[]){ "ports=4", NULL }, "s1", 0, losses[i], seed);
			boot("torus", (char *const[]){ "size=3x3", "hosts=1", NULL }, "h1", 1, losses[i], seed);
		}
	}
}

/* Answers come when others are awaited already. */
static void answers_that_are_late(void **state)
{
	for (uint64_t seed = 1; seed <= 5; seed++) {
		struct run r;

		run_init(&r, "fat-tree", (char *const[]){ "ports=4", NULL }, seed);
		r.n.jitter_ns = 200 * WTIME_MS;
		run_add(&r, "h1", 1, &(struct sm_config){ 0 });
		assert_true(mad_net_until_quiet(&r.n, 1000 * WTIME_S));
		check_model(&r);
		check_reaches(&r.t.f);
		run_fini(&r);
	}
}

/* Agents answer within microseconds: what is lost is asked for again soon. */
static void losses_cost_little_time(void **state)
{
	for (uint64_t seed = 1; seed <= 5; seed++) {
		struct run r;

		run_init(&r, "fat-tree", (char *const[]){ "ports=8", NULL }, seed);
		r.n.loss_ppm = 10000;
		run_add(&r, "s1", 0, &(struct sm_config){ 0 });
		assert_true(mad_net_until_quiet(&r.n, 100 * WTIME_S));
		assert_in_range(r.n.now, 1, 300 * WTIME_MS);
		check_reaches(&r.t.f);
		run_fini(&r);
	}
}

/* Nobody is given up who takes longer all at once. */
static void agents_become_slow(void **state)
{
	struct run r;

	run_init(&r, "fat-tree", (char *const[]){ "ports=8", NULL }, 1);
	run_add(&r, "s1", 0, &(struct sm_config){ 0 });
	assert_true(mad_net_until_quiet(&r.n, 100 * WTIME_S));
	/* nothing was lost for long, so few tries would do */
	r.n.manager[0].sm.recent_sent = r.n.manager[0].sm.recent_answered = 4000;
	r.n.delay_ns = 90 * WTIME_MS;
	agents_set_link(&r.n.agents, r.n.now, port_named(&r.t.f, "h8", 1), false);
	assert_true(mad_net_until_quiet(&r.n, 100 * WTIME_S));
	assert_int_equal(r.n.manager[0].sm.counters.given_up, 0);
	assert_int_equal(r.n.manager[0].sm.counters.heavy, 1);
	check_reaches(&r.t.f);
	run_fini(&r);
}

/* Each port has a LID of its own, and paths lead to it, from whichever port the manager runs at. */
static void an_adapter_with_two_ports(void **state)
{
	static const char text[] = "Switch 8 \"s1\"\n[1] \"two\"[1]\n[3] \"one\"[1]\n[4] \"s2\"[1]\n"
				   "Switch 8 \"s2\"\n[1] \"s1\"[4]\n[2] \"two\"[2]\n"
				   "Ca 2 \"two\"\n[1] \"s1\"[1]\n[2] \"s2\"[2]\nCa 1 \"one\"\n[1] \"s1\"[3]\n";
	static const struct {
		const char *node;
		unsigned number;
	} at[] = { { "s1", 0 }, { "s2", 0 }, { "one", 1 }, { "two", 1 }, { "two", 2 } };

	for (size_t i = 0; i < sizeof(at) / sizeof(at[0]); i++) {
		struct run r = { 0 };
		const struct fabric *f = &r.t.f;

		parse_fabric(&r.t, text);
		run_cold(&r, 1);
		run_add(&r, at[i].node, at[i].number, &(struct sm_config){ 0 });
		assert_true(mad_net_until_quiet(&r.n, 100 * WTIME_S));
		for (unsigned number = 1; number <= 2; number++) {
			uint32_t port = port_named(f, "two", number);

			assert_int_not_equal(f->port[port].lid, 0);
			assert_int_equal(f->port[port].state, PORT_ACTIVE);
		}
		check_reaches(f);
		/* one of them is unplugged, and comes back */
		agents_set_link(&r.n.agents, r.n.now, port_named(f, "two", 1), false);
		mad_net_for(&r.n, 20 * WTIME_S);
		assert_int_equal(f->port[port_named(f, "two", 2)].state, PORT_ACTIVE);
		agents_set_link(&r.n.agents, r.n.now, port_named(f, "two", 1), true);
		mad_net_for(&r.n, 20 * WTIME_S);
		assert_int_equal(f->port[port_named(f, "two", 1)].state, PORT_ACTIVE);
		check_reaches(f);
		run_fini(&r);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(every_kind_from_a_host_and_from_a_switch),
		cmocka_unit_test(whatever_is_lost),
		cmocka_unit_test(losses_cost_little_time),
		cmocka_unit_test(agents_become_slow),
		cmocka_unit_test(an_adapter_with_two_ports),
		cmocka_unit_test(answers_that_are_late),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
