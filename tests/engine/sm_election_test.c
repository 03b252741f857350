/* Several managers in one subnet: one is the master, by priority and then by GUID, until it hands over or is gone. */
#include "sm_run.h"

#include "wire/field.h"

static unsigned masters(const struct run *r, unsigned *which)
{
	unsigned count = 0;

	for (unsigned i = 0; i < r->managers; i++) {
		if (!r->manager[i].runs || r->manager[i].sm.state != SM_MASTER)
			continue;
		count++;
		*which = i;
	}
	return count;
}

static void check_master(struct run *r, unsigned expected)
{
	unsigned which = RUN_MANAGERS;

	assert_int_equal(masters(r, &which), 1);
	assert_int_equal(which, expected);
	check_reaches(&r->g.t.f);
	for (uint32_t port = 0; port < r->g.t.f.ports; port++) {
		if (r->g.t.f.port[port].lid)
			assert_int_equal(r->g.t.f.port[port].sm_lid, r->g.t.f.port[r->manager[expected].port].lid);
	}
}

static void begin(struct run *r)
{
	run_init(r, "fat-tree", (char *const[]){ "ports=4", NULL }, 1);
}

static void two_that_start_at_once(void **state)
{
	for (unsigned better = 0; better < 2; better++) {
		struct run r;

		begin(&r);
		run_add(&r, "h2", 1, &(struct sm_config){ .priority = better ? 3 : 5 });
		run_add(&r, "h7", 1, &(struct sm_config){ .priority = better ? 5 : 3 });
		run_for(&r, 20 * WTIME_S);
		check_master(&r, better);
		assert_int_equal(r.manager[!better].sm.state, SM_STANDBY);
		run_fini(&r);
	}
}

static void of_equal_ones_the_lower_guid(void **state)
{
	struct run r;
	bool first;

	begin(&r);
	run_add(&r, "h7", 1, &(struct sm_config){ 0 });
	run_add(&r, "h2", 1, &(struct sm_config){ 0 });
	run_for(&r, 20 * WTIME_S);
	first = r.g.t.f.port[r.manager[0].port].guid < r.g.t.f.port[r.manager[1].port].guid;
	check_master(&r, first ? 0 : 1);
	run_fini(&r);
}

static void a_master_stays_before_a_worse_one(void **state)
{
	struct run r;
	uint64_t heavy;

	begin(&r);
	run_add(&r, "h2", 1, &(struct sm_config){ .priority = 4 });
	assert_true(run_until_quiet(&r, 10 * WTIME_S));
	run_add(&r, "h7", 1, &(struct sm_config){ .priority = 3 });
	run_for(&r, 20 * WTIME_S);
	check_master(&r, 0);
	assert_int_equal(r.manager[1].sm.state, SM_STANDBY);
	/* the standby asks again and again, and nobody is looked for therefore */
	heavy = r.manager[0].sm.counters.heavy;
	run_for(&r, 60 * WTIME_S);
	assert_int_equal(r.manager[0].sm.counters.heavy, heavy);
	run_fini(&r);
}

static void a_better_one_comes_and_goes(void **state)
{
	struct run r;
	uint16_t lid;

	begin(&r);
	run_add(&r, "s1", 0, &(struct sm_config){ 0 });
	assert_true(run_until_quiet(&r, 10 * WTIME_S));
	lid = r.g.t.f.port[port_named(&r.g.t.f, "h8", 1)].lid;
	run_add(&r, "h7", 1, &(struct sm_config){ .priority = 15 });
	run_for(&r, 5 * WTIME_S);
	check_master(&r, 1);
	assert_int_equal(r.manager[0].sm.state, SM_STANDBY);
	/* a port keeps its LID whoever manages */
	assert_int_equal(r.g.t.f.port[port_named(&r.g.t.f, "h8", 1)].lid, lid);
	run_kill(&r, &r.manager[1]);
	run_for(&r, 10 * WTIME_S);
	check_master(&r, 0);
	run_fini(&r);
}

/* The master's host is cut off: the standby misses it, and manages what is left. */
static void the_master_is_cut_off(void **state)
{
	struct run r;

	begin(&r);
	run_add(&r, "h2", 1, &(struct sm_config){ .priority = 9 });
	run_add(&r, "h7", 1, &(struct sm_config){ 0 });
	run_for(&r, 5 * WTIME_S);
	check_master(&r, 0);
	agents_set_link(&r.g.a, r.g.now, r.manager[0].port, false);
	run_for(&r, 30 * WTIME_S);
	assert_int_equal(r.manager[1].sm.state, SM_MASTER);
	check_reaches(&r.g.t.f);
	/* two masters meet: the worse one hands over */
	agents_set_link(&r.g.a, r.g.now, r.manager[0].port, true);
	run_for(&r, 40 * WTIME_S);
	check_master(&r, 0);
	run_fini(&r);
}

static void three_whatever_is_lost(void **state)
{
	for (uint64_t seed = 1; seed <= 5; seed++) {
		struct run r;

		run_init(&r, "torus", (char *const[]){ "size=3x3", "hosts=1", NULL }, seed);
		r.loss_ppm = 200000;
		run_add(&r, "h2", 1, &(struct sm_config){ .priority = 1 });
		run_add(&r, "h5", 1, &(struct sm_config){ .priority = 2 });
		run_add(&r, "s4", 0, &(struct sm_config){ .priority = 3 });
		run_for(&r, 60 * WTIME_S);
		r.loss_ppm = 0;
		run_for(&r, 60 * WTIME_S);
		check_master(&r, 2);
		run_fini(&r);
	}
}

static void another_key_is_no_manager_of_ours(void **state)
{
	struct run r;

	begin(&r);
	run_add(&r, "h2", 1, &(struct sm_config){ 0 });
	assert_true(run_until_quiet(&r, 10 * WTIME_S));
	assert_int_equal(r.manager[0].sm.others, 0);
	run_add(&r, "h7", 1, &(struct sm_config){ .priority = 15, .key = 7 });
	run_for(&r, 2 * WTIME_S);
	assert_int_equal(r.manager[0].sm.state, SM_MASTER);
	assert_int_equal(r.manager[0].sm.others, 0);
	run_fini(&r);
}

/* What a manager says, and what it takes from whom. */
static unsigned tell(struct run *r, struct sm *s, unsigned method, uint32_t modifier, enum sm_state sender, uint64_t key)
{
	uint8_t mad[MAD_BYTES];
	struct mad_letter l = { .agent = SM_AGENT_LID, .data = mad, .bytes = sizeof(mad), .remote = { .lid = 5 } }, out;
	const struct mad_header h = { .base_version = 1, .mgmt_class = MAD_CLASS_SUBN_LID, .class_version = 1,
				      .method = (uint8_t)method, .tid = 99, .attr_id = SMP_SM_INFO, .attr_modifier = modifier };

	memset(mad, 0, sizeof(mad));
	mad_header_build(&h, mad);
	wire_put(mad + SMP_DATA, key, 8, 0, 64);
	wire_put(mad + SMP_DATA, sender, 20, 4, 4);
	sm_input(s, r->g.now, &l);
	assert_true(sm_output(s, r->g.now, &out));
	assert_int_equal(out.agent, SM_AGENT_LID);
	assert_int_equal(out.remote.lid, 5);
	assert_int_equal(wire_get(out.data, 3, 0, 8), MAD_GET_RESP);
	assert_int_equal(wire_get(out.data, 8, 0, 64), 99);
	return status_of(out.data);
}

static void what_managers_tell_each_other(void **state)
{
	enum { HANDOVER = 1, ACKNOWLEDGE, DISABLE, STANDBY, DISCOVER };
	struct run r;
	struct sm *s;

	begin(&r);
	run_add(&r, "h2", 1, &(struct sm_config){ .priority = 5 });
	run_add(&r, "h7", 1, &(struct sm_config){ .priority = 4 });
	run_for(&r, 5 * WTIME_S);
	s = &r.manager[1].sm;
	assert_int_equal(s->state, SM_STANDBY);
	assert_int_equal(tell(&r, s, MAD_GET, 0, SM_MASTER, 0), 0);
	assert_int_not_equal(tell(&r, s, MAD_SET, DISABLE, SM_STANDBY, 1), 0);
	assert_int_not_equal(tell(&r, s, MAD_SET, DISABLE, SM_MASTER, 2), 0);
	assert_int_not_equal(tell(&r, s, MAD_SET, STANDBY, SM_MASTER, 1), 0);
	assert_int_equal(tell(&r, s, MAD_SET, ACKNOWLEDGE, SM_STANDBY, 1), 0);
	assert_int_equal(s->state, SM_STANDBY);
	assert_int_equal(tell(&r, s, MAD_SET, DISABLE, SM_MASTER, 1), 0);
	assert_int_equal(s->state, SM_NOT_ACTIVE);
	run_for(&r, 30 * WTIME_S);
	assert_int_equal(s->state, SM_NOT_ACTIVE);
	assert_int_not_equal(tell(&r, s, MAD_SET, DISCOVER, SM_MASTER, 1), 0);
	assert_int_equal(tell(&r, s, MAD_SET, STANDBY, SM_MASTER, 1), 0);
	assert_int_equal(s->state, SM_STANDBY);
	assert_int_equal(tell(&r, s, MAD_SET, DISCOVER, SM_MASTER, 1), 0);
	assert_int_equal(s->state, SM_DISCOVERING);
	run_for(&r, 10 * WTIME_S);
	assert_int_equal(s->state, SM_STANDBY);
	assert_int_equal(tell(&r, s, MAD_SET, HANDOVER, SM_MASTER, 1), 0);
	assert_int_equal(s->state, SM_MASTER);
	run_fini(&r);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(two_that_start_at_once),
		cmocka_unit_test(of_equal_ones_the_lower_guid),
		cmocka_unit_test(a_master_stays_before_a_worse_one),
		cmocka_unit_test(a_better_one_comes_and_goes),
		cmocka_unit_test(the_master_is_cut_off),
		cmocka_unit_test(three_whatever_is_lost),
		cmocka_unit_test(another_key_is_no_manager_of_ours),
		cmocka_unit_test(what_managers_tell_each_other),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
