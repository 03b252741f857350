/* A manager that is killed between any two datagrams, subnets that were parted and are one again, each with a master of its own:
 * what is left converges to one master, one LID for each port and tables that lead everywhere. */
#include "sm_run.h"

static const struct sm_config plain;

static void begin(struct run *r, const char *kind, char *const settings[], uint64_t seed)
{
	run_init(r, kind, settings, seed);
	/* answers come one by one */
	r->n.jitter_ns = 50 * WTIME_US;
}

/* So many events, or until nothing is to be done. */
static bool run_events(struct run *r, unsigned events)
{
	while (events-- && !mad_net_is_quiet(&r->n))
		mad_net_step(&r->n, r->n.now + WTIME_S);
	return mad_net_is_quiet(&r->n);
}

static void ends_well(struct run *r, const char *what, unsigned event)
{
	if (!mad_net_until_quiet(&r->n, 200 * WTIME_S))
		fail_msg("%s, killed after %u events: it does not end", what, event);
	check_reaches(&r->t.f);
}

static void at_any_event_of_a_start(void **state)
{
	bool is_over = false;

	for (unsigned event = 0; !is_over; event++) {
		struct run r;

		begin(&r, "fat-tree", (char *const[]){ "ports=4", NULL }, event);
		run_add(&r, "s1", 0, &plain);
		is_over = run_events(&r, event);
		mad_net_revive(&r.n, &r.n.manager[0], &plain);
		ends_well(&r, "a start", event);
		run_fini(&r);
	}
}

static void at_any_event_after_a_link_went_down(void **state)
{
	bool is_over = false;

	for (unsigned event = 0; !is_over; event++) {
		struct run r;
		uint16_t lid;
		uint32_t h8;

		begin(&r, "torus", (char *const[]){ "size=3x3", "hosts=1", NULL }, event);
		h8 = port_named(&r.t.f, "h8", 1);
		run_add(&r, "s1", 0, &plain);
		assert_true(mad_net_until_quiet(&r.n, 100 * WTIME_S));
		lid = r.t.f.port[h8].lid;
		agents_set_link(&r.n.agents, r.n.now, port_named(&r.t.f, "s5", 1), false);
		is_over = run_events(&r, event);
		mad_net_revive(&r.n, &r.n.manager[0], &plain);
		ends_well(&r, "a link went down", event);
		assert_int_equal(r.t.f.port[h8].lid, lid);
		run_fini(&r);
	}
}

/* The standby goes on where it ended. */
static void a_master_at_any_event(void **state)
{
	bool is_over = false;

	for (unsigned event = 0; !is_over; event += 3) {
		struct run r;

		begin(&r, "fat-tree", (char *const[]){ "ports=4", NULL }, event);
		run_add(&r, "h1", 1, &(struct sm_config){ .priority = 9 });
		run_add(&r, "h8", 1, &plain);
		mad_net_for(&r.n, 5 * WTIME_S);
		assert_int_equal(r.n.manager[1].sm.state, SM_STANDBY);
		agents_set_link(&r.n.agents, r.n.now, port_named(&r.t.f, "s1", 1), false);
		is_over = run_events(&r, event);
		mad_net_kill(&r.n, &r.n.manager[0]);
		mad_net_for(&r.n, 30 * WTIME_S);
		assert_int_equal(r.n.manager[1].sm.state, SM_MASTER);
		check_reaches(&r.t.f);
		run_fini(&r);
	}
}

/* ---- parts ---- */

static unsigned masters(const struct run *r)
{
	unsigned n = 0;

	for (unsigned i = 0; i < r->n.managers; i++)
		n += r->n.manager[i].runs && r->n.manager[i].sm.state == SM_MASTER;
	return n;
}

/* Both give LIDs from 1 on, and meet. */
static void meet(unsigned better, uint32_t loss_ppm, uint64_t seed)
{
	struct run r;
	uint32_t middle;

	begin(&r, "line", (char *const[]){ "switches=4", "hosts=2", NULL }, seed);
	middle = port_named(&r.t.f, "s2", 2);
	agents_set_link(&r.n.agents, r.n.now, middle, false);
	r.n.loss_ppm = loss_ppm;
	run_add(&r, "h1", 1, &(struct sm_config){ .priority = better == 0 ? 5 : 3 });
	run_add(&r, "h8", 1, &(struct sm_config){ .priority = better == 1 ? 5 : 3 });
	for (unsigned round = 0; round < 3; round++) {
		mad_net_for(&r.n, 60 * WTIME_S);
		assert_int_equal(masters(&r), 2);
		agents_set_link(&r.n.agents, r.n.now, middle, true);
		mad_net_for(&r.n, 120 * WTIME_S);
		if (masters(&r) != 1 || (better < 2 && r.n.manager[better].sm.state != SM_MASTER))
			fail_msg("seed %llu, %u ppm lost, round %u: %u masters, states %d and %d", (unsigned long long)seed,
				 loss_ppm, round, masters(&r), r.n.manager[0].sm.state, r.n.manager[1].sm.state);
		check_reaches(&r.t.f);
		agents_set_link(&r.n.agents, r.n.now, middle, false);
	}
	run_fini(&r);
}

static void parts_with_a_master_each_become_one(void **state)
{
	for (uint64_t seed = 1; seed <= 20; seed++) {
		meet(0, 0, seed);
		meet(1, 0, seed);
		meet(2, 0, seed);
		meet(0, 100000, seed);
		meet(1, 100000, seed);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(at_any_event_of_a_start),
		cmocka_unit_test(at_any_event_after_a_link_went_down),
		cmocka_unit_test(a_master_at_any_event),
		cmocka_unit_test(parts_with_a_master_each_become_one),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
