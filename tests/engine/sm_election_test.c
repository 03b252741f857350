/* Several managers in one subnet: one is the master, by priority and then by GUID, until it hands over or is gone. */
#include "sm_run.h"

#include "../unit/agents.h"

#include "sm/request.h"
#include "sm/sa.h"
#include "wire/field.h"
#include "wire/sa_records.h"

static unsigned masters(const struct run *r, unsigned *which)
{
	unsigned count = 0;

	for (unsigned i = 0; i < r->n.managers; i++) {
		if (!r->n.manager[i].runs || r->n.manager[i].sm.state != SM_MASTER)
			continue;
		count++;
		*which = i;
	}
	return count;
}

static void check_master(struct run *r, unsigned expected)
{
	unsigned which = MAD_NET_MANAGERS;

	assert_int_equal(masters(r, &which), 1);
	assert_int_equal(which, expected);
	check_reaches(&r->t.f);
	for (uint32_t port = 0; port < r->t.f.ports; port++) {
		if (r->t.f.port[port].lid)
			assert_int_equal(r->t.f.port[port].sm_lid, r->t.f.port[r->n.manager[expected].port].lid);
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
		mad_net_for(&r.n, 20 * WTIME_S);
		check_master(&r, better);
		assert_int_equal(r.n.manager[!better].sm.state, SM_STANDBY);
		run_fini(&r);
	}
}

/* The better one starts at any time of the other one's sweep. Its port may have been asked by then, and sends no trap before it
 * knows who its master is. */
static void a_better_one_starts_amid_the_first_sweep(void **state)
{
	for (unsigned i = 0; i < 200; i++) {
		struct run r;

		begin(&r);
		r.n.jitter_ns = 50 * WTIME_US;
		run_add(&r, "s1", 0, &(struct sm_config){ .priority = 5 });
		mad_net_for(&r.n, i * 5 * WTIME_US);
		run_add(&r, "h7", 1, &(struct sm_config){ .priority = 7 });
		mad_net_for(&r.n, 5 * WTIME_S);
		check_master(&r, 1);
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
	mad_net_for(&r.n, 20 * WTIME_S);
	first = r.t.f.port[r.n.manager[0].port].guid < r.t.f.port[r.n.manager[1].port].guid;
	check_master(&r, first ? 0 : 1);
	run_fini(&r);
}

static void a_master_stays_before_a_worse_one(void **state)
{
	struct run r;
	uint64_t heavy, light;

	begin(&r);
	run_add(&r, "h2", 1, &(struct sm_config){ .priority = 4 });
	assert_true(mad_net_until_quiet(&r.n, 10 * WTIME_S));
	run_add(&r, "h7", 1, &(struct sm_config){ .priority = 3 });
	mad_net_for(&r.n, 20 * WTIME_S);
	check_master(&r, 0);
	assert_int_equal(r.n.manager[1].sm.state, SM_STANDBY);
	/* the standby asks again and again, and no sweep begins therefore */
	heavy = r.n.manager[0].sm.counters.heavy;
	light = r.n.manager[0].sm.counters.light;
	mad_net_for(&r.n, 60 * WTIME_S);
	assert_int_equal(r.n.manager[0].sm.counters.heavy, heavy);
	assert_in_range(r.n.manager[0].sm.counters.light - light, 5, 7);
	run_fini(&r);
}

static void a_better_one_comes_and_goes(void **state)
{
	struct run r;
	uint16_t lid;

	begin(&r);
	run_add(&r, "s1", 0, &(struct sm_config){ 0 });
	assert_true(mad_net_until_quiet(&r.n, 10 * WTIME_S));
	lid = r.t.f.port[port_named(&r.t.f, "h8", 1)].lid;
	run_add(&r, "h7", 1, &(struct sm_config){ .priority = 15 });
	mad_net_for(&r.n, 5 * WTIME_S);
	check_master(&r, 1);
	assert_int_equal(r.n.manager[0].sm.state, SM_STANDBY);
	/* a port keeps its LID whoever manages */
	assert_int_equal(r.t.f.port[port_named(&r.t.f, "h8", 1)].lid, lid);
	mad_net_kill(&r.n, &r.n.manager[1]);
	mad_net_for(&r.n, 10 * WTIME_S);
	check_master(&r, 0);
	run_fini(&r);
}

/* The master that follows another one reads the P_Keys that were written. It takes those of an end port away that are not in its
 * partitions. Those of a switch's link stay, and the switch looks at them no longer. */
static void what_another_master_wrote_is_read(void **state)
{
	enum { OF_ANOTHER = 0x8005 };
	struct run r;
	uint32_t here, known, at_switch;

	begin(&r);
	run_add(&r, "s1", 0, &(struct sm_config){ 0 });
	assert_true(mad_net_until_quiet(&r.n, 10 * WTIME_S));
	here = port_named(&r.t.f, "h8", 1);
	run_add(&r, "h7", 1, &(struct sm_config){ .priority = 15 });
	mad_net_for(&r.n, 5 * WTIME_S);
	check_master(&r, 1);
	at_switch = fabric_peer(&r.t.f, here);
	fabric_pkeys(&r.t.f, here)[1] = fabric_pkeys(&r.t.f, at_switch)[1] = OF_ANOTHER;
	r.t.f.port[at_switch].enforce = ENFORCE_IN | ENFORCE_OUT;
	mad_net_kill(&r.n, &r.n.manager[1]);
	mad_net_for(&r.n, 10 * WTIME_S);
	check_master(&r, 0);
	known = guid_map_find(&r.n.manager[0].sm.net.by_port, r.t.f.port[here].guid);
	assert_int_equal(r.n.manager[0].sm.net.port[known].pkeys[1], 0);
	assert_int_equal(fabric_pkeys(&r.t.f, here)[1], 0);
	known = r.n.manager[0].sm.net.port[known].peer;
	assert_int_equal(r.n.manager[0].sm.net.port[known].pkeys[1], OF_ANOTHER);
	assert_int_equal(r.t.f.port[at_switch].enforce, 0);
	run_fini(&r);
}

static struct fabric_port *port_of(const struct run *r, const char *host)
{
	return &r->t.f.port[port_named(&r->t.f, host, 1)];
}

/* s1 was master and is the standby of h7, which has kept a LID of an earlier life. */
static void begin_as_standby(struct run *r)
{
	uint16_t lid;

	begin(r);
	run_add(r, "s1", 0, &(struct sm_config){ 0 });
	assert_true(mad_net_until_quiet(&r->n, 10 * WTIME_S));
	lid = port_of(r, "h8")->lid;
	run_add(r, "h7", 1, &(struct sm_config){ .priority = 15 });
	assert_int_equal(sm_keep_lid(&r->n.manager[1].sm, port_of(r, "h8")->guid, 40), 0);
	mad_net_for(&r->n, 5 * WTIME_S);
	check_master(r, 1);
	/* who takes a subnet over leaves it as it is */
	assert_int_equal(port_of(r, "h8")->lid, lid);
}

/* As its last master gave them: none of them is what s1 gave, or h7 kept. h4 is away, and h5 has what was h4's. */
static void give_others(struct run *r, uint16_t lids[4])
{
	uint16_t h2 = port_of(r, "h2")->lid;

	agents_set_link(&r->n.agents, r->n.now, port_named(&r->t.f, "h4", 1), false);
	port_of(r, "h2")->lid = lids[0] = port_of(r, "h3")->lid;
	port_of(r, "h3")->lid = lids[1] = h2;
	port_of(r, "h5")->lid = lids[2] = port_of(r, "h4")->lid;
	port_of(r, "h8")->lid = lids[3] = 40;
	port_of(r, "h4")->lid = 0;
}

static void check_lids(const struct run *r, const uint16_t lids[4])
{
	assert_int_equal(port_of(r, "h2")->lid, lids[0]);
	assert_int_equal(port_of(r, "h3")->lid, lids[1]);
	assert_int_equal(port_of(r, "h5")->lid, lids[2]);
	assert_int_equal(port_of(r, "h8")->lid, lids[3]);
}

/* The standby gives back none of the LIDs from before: those that ports have stay. */
static void lids_of_another_master_stay(void **state)
{
	uint16_t lids[4];
	struct run r;

	begin_as_standby(&r);
	mad_net_kill(&r.n, &r.n.manager[1]);
	give_others(&r, lids);
	mad_net_for(&r.n, 10 * WTIME_S);
	check_master(&r, 0);
	check_lids(&r, lids);
	agents_set_link(&r.n.agents, r.n.now, port_named(&r.t.f, "h4", 1), true);
	assert_true(mad_net_until_quiet(&r.n, 5 * WTIME_S));
	check_reaches(&r.t.f);
	check_lids(&r, lids);
	run_fini(&r);
}

/* Of a port that does not answer in the first sweep the standby knows what was before. */
static void lids_of_who_answers_late_stay(void **state)
{
	uint16_t lids[4];
	uint64_t given_up;
	uint32_t h8;
	struct run r;
	struct sm *s;

	begin_as_standby(&r);
	s = &r.n.manager[0].sm;
	mad_net_kill(&r.n, &r.n.manager[1]);
	give_others(&r, lids);
	h8 = s->net.owner[guid_map_find(&s->net.by_port, port_of(&r, "h8")->guid)];
	while (s->state != SM_DISCOVERING || s->phase != SM_LOOKS || !s->net.node[h8].is_seen)
		assert_true(mad_net_step(&r.n, r.n.now + 5 * WTIME_S));
	r.n.loss_ppm = 1000000;
	given_up = s->counters.given_up;
	while (s->counters.given_up == given_up)
		assert_true(mad_net_step(&r.n, r.n.now + 5 * WTIME_S));
	r.n.loss_ppm = 0;
	mad_net_for(&r.n, 10 * WTIME_S);
	check_master(&r, 0);
	check_lids(&r, lids);
	run_fini(&r);
}

/* One host has no LID, so no sweep succeeds: what the former standby gave goes before what ports say all the same. */
static void a_lid_that_is_told_where_some_have_none(void **state)
{
	struct run r;
	uint16_t lid;

	begin(&r);
	run_add(&r, "h1", 1, &(struct sm_config){ .lmc = 3, .priority = 5 });
	run_add(&r, "h2", 1, &(struct sm_config){ .lmc = 3 });
	mad_net_for(&r.n, 30 * WTIME_S);
	mad_net_kill(&r.n, &r.n.manager[0]);
	mad_net_for(&r.n, 30 * WTIME_S);
	assert_int_equal(r.n.manager[1].sm.state, SM_MASTER);
	assert_int_equal(r.n.manager[1].sm.without_lids, 1);
	assert_int_equal(port_of(&r, "h8")->lid, 0);
	lid = port_of(&r, "h7")->lid;
	assert_int_equal(port_of(&r, "h7")->state, PORT_ACTIVE);
	/* h3, which was found before h7, is away and says then that it has the LID of h7 */
	agents_set_link(&r.n.agents, r.n.now, port_named(&r.t.f, "h3", 1), false);
	port_of(&r, "h3")->lid = lid;
	agents_set_link(&r.n.agents, r.n.now, port_named(&r.t.f, "h3", 1), true);
	mad_net_for(&r.n, 30 * WTIME_S);
	assert_int_equal(port_of(&r, "h7")->lid, lid);
	assert_int_equal(port_of(&r, "h7")->state, PORT_ACTIVE);
	assert_int_not_equal(port_of(&r, "h3")->lid, lid);
	assert_int_equal(port_of(&r, "h3")->state, PORT_ACTIVE);
	run_fini(&r);
}

/* The master's host is cut off: the standby misses it, and manages what is left. */
static void the_master_is_cut_off(void **state)
{
	struct run r;

	begin(&r);
	run_add(&r, "h2", 1, &(struct sm_config){ .priority = 9 });
	run_add(&r, "h7", 1, &(struct sm_config){ 0 });
	mad_net_for(&r.n, 5 * WTIME_S);
	check_master(&r, 0);
	agents_set_link(&r.n.agents, r.n.now, r.n.manager[0].port, false);
	mad_net_for(&r.n, 30 * WTIME_S);
	assert_int_equal(r.n.manager[1].sm.state, SM_MASTER);
	check_reaches(&r.t.f);
	/* two masters meet: the worse one hands over */
	agents_set_link(&r.n.agents, r.n.now, r.n.manager[0].port, true);
	mad_net_for(&r.n, 40 * WTIME_S);
	check_master(&r, 0);
	run_fini(&r);
}

/* A master hangs, and what is sent to it meanwhile is lost: the trap too by which a port tells that a manager is there now. That
 * manager finds no master, and is one. When the first one goes on, the better one of the two is the master of all. */
static void a_master_that_hung(void **state)
{
	for (unsigned at_switch = 0; at_switch < 2; at_switch++) {
		for (unsigned better = 0; better < 2; better++) {
			struct run r;
			uint64_t heavy;

			begin(&r);
			run_add(&r, "h2", 1, &(struct sm_config){ .priority = 5 });
			mad_net_for(&r.n, 30 * WTIME_S);
			heavy = r.n.manager[0].sm.counters.heavy;
			r.n.manager[0].runs = false;
			run_add(&r, at_switch ? "s1" : "h7", !at_switch, &(struct sm_config){ .priority = better ? 7 : 3 });
			mad_net_for(&r.n, 5 * WTIME_S);
			assert_int_equal(r.n.manager[1].sm.state, SM_MASTER);
			r.n.manager[0].runs = true;
			/* who is silent is sought again; here the port has said for its manager that none is there */
			sm_sweep(&r.n.manager[1].sm, r.n.now, true);
			mad_net_for(&r.n, 30 * WTIME_S);
			check_master(&r, better);
			assert_int_equal(r.n.manager[!better].sm.state, SM_STANDBY);
			assert_in_range(r.n.manager[0].sm.counters.heavy - heavy, 0, 3);
			run_fini(&r);
		}
	}
}

static void three_whatever_is_lost(void **state)
{
	for (uint64_t seed = 1; seed <= 5; seed++) {
		struct run r;

		run_init(&r, "torus", (char *const[]){ "size=3x3", "hosts=1", NULL }, seed);
		r.n.loss_ppm = 200000;
		run_add(&r, "h2", 1, &(struct sm_config){ .priority = 1 });
		run_add(&r, "h5", 1, &(struct sm_config){ .priority = 2 });
		run_add(&r, "s4", 0, &(struct sm_config){ .priority = 3 });
		mad_net_for(&r.n, 60 * WTIME_S);
		r.n.loss_ppm = 0;
		mad_net_for(&r.n, 60 * WTIME_S);
		check_master(&r, 2);
		run_fini(&r);
	}
}

static void another_key_is_no_manager_of_ours(void **state)
{
	uint64_t sweeps;
	struct run r;

	begin(&r);
	run_add(&r, "h2", 1, &(struct sm_config){ 0 });
	assert_true(mad_net_until_quiet(&r.n, 10 * WTIME_S));
	assert_int_equal(r.n.manager[0].sm.others, 0);
	assert_int_equal(r.n.manager[0].sm.counters.info_refused, 0);
	run_add(&r, "h7", 1, &(struct sm_config){ .priority = 15, .key = 7 });
	mad_net_for(&r.n, 2 * WTIME_S);
	assert_int_equal(r.n.manager[0].sm.state, SM_MASTER);
	assert_int_equal(r.n.manager[0].sm.others, 0);
	assert_true(r.n.manager[0].sm.counters.info_refused);
	/* nor do the two make each other sweep without end */
	sweeps = r.n.manager[0].sm.counters.heavy + r.n.manager[0].sm.counters.light;
	mad_net_for(&r.n, 60 * WTIME_S);
	assert_in_range(r.n.manager[0].sm.counters.heavy + r.n.manager[0].sm.counters.light - sweeps, 5, 7);
	run_fini(&r);
}

/* The manager at this host has said this of itself. */
static void say(struct run *r, unsigned host, uint8_t priority, enum sm_state state)
{
	struct sm *s = &r->n.manager[0].sm;
	struct sm_work w = { .kind = WORK_SM_INFO, .number = 1 };
	uint8_t info[SMP_DATA_BYTES] = { 0 };
	char name[16];
	uint64_t guid;

	snprintf(name, sizeof(name), "h%u", host);
	guid = port_of(r, name)->guid;
	w.node = s->net.owner[guid_map_find(&s->net.by_port, guid)];
	wire_put(info, guid, 0, 0, 64);
	wire_put(info, s->config.key, 8, 0, 64);
	wire_put(info, priority, 20, 0, 4);
	wire_put(info, state, 20, 4, 4);
	election_sm_info(s, r->n.now, &w, info);
}

/* Others by their states. */
static unsigned known(const struct sm *s, enum sm_state state, uint8_t least_priority)
{
	unsigned count = 0;

	for (uint32_t i = 0; i < s->others; i++)
		count += s->other[i].state == state && s->other[i].priority >= least_priority;
	return count;
}

/* The master and the best standbys are known, whoever was asked first; and each is asked again. */
static void more_managers_than_are_kept_in_mind(void **state)
{
	unsigned asked = 0;
	struct run r;
	struct sm *s;

	run_init(&r, "fat-tree", (char *const[]){ "ports=6", NULL }, 1);
	s = &run_add(&r, "s1", 0, &(struct sm_config){ 0 })->sm;
	assert_true(mad_net_until_quiet(&r.n, 10 * WTIME_S));
	for (unsigned host = 1; host <= SM_OTHERS - 1; host++)
		say(&r, host, 2, SM_STANDBY);
	say(&r, SM_OTHERS, 1, SM_STANDBY);
	say(&r, SM_OTHERS + 1, 0, SM_MASTER);
	assert_int_equal(s->others, SM_OTHERS);
	assert_int_equal(known(s, SM_MASTER, 0), 1);
	assert_int_equal(known(s, SM_STANDBY, 2), SM_OTHERS - 1);
	/* no standby takes the place of the master, and no worse one that of a better one */
	say(&r, SM_OTHERS + 2, 1, SM_STANDBY);
	assert_int_equal(known(s, SM_STANDBY, 2), SM_OTHERS - 1);
	say(&r, SM_OTHERS + 2, 3, SM_STANDBY);
	assert_int_equal(s->others, SM_OTHERS);
	assert_int_equal(known(s, SM_MASTER, 0), 1);
	assert_int_equal(known(s, SM_STANDBY, 3), 1);
	for (uint32_t port = 0; port < s->net.ports; port++)
		asked += s->net.port[port].is_sm;
	assert_int_equal(asked, SM_OTHERS + 2);
	run_fini(&r);
}

/* What a manager says, and what it takes from whom: from the manager at the port with this GUID. */
static unsigned tell_as(struct run *r, struct sm *s, uint64_t guid, unsigned method, uint32_t modifier, enum sm_state sender,
			uint64_t key)
{
	uint8_t mad[MAD_BYTES];
	struct mad_letter l = { .agent = SM_AGENT_LID, .data = mad, .bytes = sizeof(mad), .remote = { .lid = 5 } }, out;
	const struct mad_header h = { .base_version = 1, .mgmt_class = MAD_CLASS_SUBN_LID, .class_version = 1,
				      .method = (uint8_t)method, .tid = 99, .attr_id = SMP_SM_INFO, .attr_modifier = modifier };

	memset(mad, 0, sizeof(mad));
	mad_header_build(&h, mad);
	wire_put(mad + SMP_DATA, guid, 0, 0, 64);
	wire_put(mad + SMP_DATA, key, 8, 0, 64);
	wire_put(mad + SMP_DATA, sender, 20, 4, 4);
	sm_input(s, r->n.now, &l);
	assert_true(sm_output(s, r->n.now, &out));
	assert_int_equal(out.agent, SM_AGENT_LID);
	assert_int_equal(out.remote.lid, 5);
	assert_int_equal(wire_get(out.data, 3, 0, 8), MAD_GET_RESP);
	assert_int_equal(wire_get(out.data, 8, 0, 64), 99);
	return status_of(out.data);
}

/* From the other one of two. */
static unsigned tell(struct run *r, struct sm *s, unsigned method, uint32_t modifier, enum sm_state sender, uint64_t key)
{
	return tell_as(r, s, r->t.f.port[r->n.manager[s == &r->n.manager[0].sm].port].guid, method, modifier, sender, key);
}

enum { HANDOVER = 1, ACKNOWLEDGE, DISABLE, STANDBY, DISCOVER };

enum { STRANGER = 0x9009 };	/* GUID of no port here */

/* Another master has written into a switch, of which a manager that has read its table before knows nothing. */
static void wipe(struct run *r, const char *node)
{
	memset(fabric_lft(&r->t.f, node_named(&r->t.f, node)), LFT_NONE, r->t.f.lids);
}

/* Two subnets have become one, and the other's master has written into it while this one looked, or wrote: it is read anew. */
static void what_a_master_is_handed_is_read(void **state)
{
	static const enum sm_phase phases[] = { SM_IDLE, SM_LOOKS, SM_WRITES_TABLES };
	enum { OF_ANOTHER = 0x8005 };

	for (unsigned i = 0; i < 3; i++) {
		struct run r;
		struct sm *s;
		uint32_t here, at_switch;

		begin(&r);
		run_add(&r, "h2", 1, &(struct sm_config){ .priority = 5 });
		assert_true(mad_net_until_quiet(&r.n, 10 * WTIME_S));
		s = &r.n.manager[0].sm;
		if (phases[i] != SM_IDLE)
			agents_set_link(&r.n.agents, r.n.now, port_named(&r.t.f, "h7", 1), false);
		while (s->phase != phases[i])
			assert_true(mad_net_step(&r.n, r.n.now + WTIME_S));
		here = port_named(&r.t.f, "h8", 1);
		at_switch = fabric_peer(&r.t.f, here);
		fabric_pkeys(&r.t.f, here)[1] = fabric_pkeys(&r.t.f, at_switch)[1] = OF_ANOTHER;
		wipe(&r, "s3");
		assert_int_equal(tell_as(&r, s, STRANGER, MAD_SET, HANDOVER, SM_MASTER, 1), 0);
		mad_net_for(&r.n, 2 * WTIME_S);
		check_master(&r, 0);
		here = guid_map_find(&s->net.by_port, r.t.f.port[here].guid);
		assert_int_equal(s->net.port[here].pkeys[1], 0);
		assert_int_equal(s->net.port[s->net.port[here].peer].pkeys[1], OF_ANOTHER);
		assert_int_equal(fabric_pkeys(&r.t.f, port_named(&r.t.f, "h8", 1))[1], 0);
		assert_true(sm_is_quiet(s));
		run_fini(&r);
	}
}

enum { SECONDS = 10, HANDOVERS = SECONDS * 1000 };

/* By the manager at this port, as often as an SMP is answered. Returns how many are refused. */
static unsigned hand_over_often(struct run *r, struct sm *s, uint64_t from)
{
	unsigned refused = 0;

	r->n.delay_ns = SECONDS * WTIME_S / HANDOVERS;
	for (unsigned i = 0; i < HANDOVERS; i++) {
		refused += tell_as(r, s, from, MAD_SET, HANDOVER, SM_MASTER, 1) == MAD_STATUS_BAD_VALUE;
		mad_net_for(&r->n, r->n.delay_ns);
	}
	return refused;
}

/* 14.4.1: masters hand over, and at this port no manager is. */
static void who_is_no_manager_hands_over_nothing(void **state)
{
	uint64_t heavy, guid;
	struct run r;
	struct sm *s;

	begin(&r);
	s = &run_add(&r, "h2", 1, &(struct sm_config){ .priority = 5 })->sm;
	assert_true(mad_net_until_quiet(&r.n, 10 * WTIME_S));
	guid = port_of(&r, "h4")->guid;
	heavy = s->counters.heavy;
	assert_int_equal(hand_over_often(&r, s, guid), HANDOVERS);
	assert_int_not_equal(tell_as(&r, s, port_of(&r, "h2")->guid, MAD_SET, HANDOVER, SM_MASTER, 1), 0);
	assert_int_equal(s->counters.heavy, heavy);
	assert_int_equal(s->counters.info_refused, HANDOVERS + 1);
	check_master(&r, 0);
	/* nor to a standby, which knows its master's port */
	run_add(&r, "h7", 1, &(struct sm_config){ .priority = 4 });
	mad_net_for(&r.n, 5 * WTIME_S);
	s = &r.n.manager[1].sm;
	assert_int_equal(s->state, SM_STANDBY);
	assert_int_not_equal(tell_as(&r, s, guid, MAD_SET, HANDOVER, SM_MASTER, 1), 0);
	assert_int_not_equal(tell_as(&r, s, STRANGER, MAD_SET, HANDOVER, SM_MASTER, 1), 0);
	assert_int_equal(s->state, SM_STANDBY);
	assert_int_equal(s->counters.info_refused, 2);
	run_fini(&r);
}

/* Each sweep ends, and they do not follow each other without a pause. */
static void a_subnet_comes_up_however_often_it_is_handed_over(void **state)
{
	for (unsigned is_known = 0; is_known < 2; is_known++) {
		uint64_t heavy, from = STRANGER;
		struct run r;
		struct sm *s;

		begin(&r);
		s = &run_add(&r, "h2", 1, &(struct sm_config){ .priority = 5 })->sm;
		if (is_known) {
			run_add(&r, "h7", 1, &(struct sm_config){ .priority = 4 });
			from = port_of(&r, "h7")->guid;
		}
		while (s->state != SM_MASTER)
			assert_true(mad_net_step(&r.n, r.n.now + WTIME_S));
		heavy = s->counters.heavy;
		assert_int_equal(hand_over_often(&r, s, from), 0);
		check_master(&r, 0);
		assert_in_range(s->counters.heavy - heavy, SECONDS - 1, SECONDS + 1);
		/* the last one counts too */
		wipe(&r, "s3");
		mad_net_for(&r.n, 2 * WTIME_S);
		check_master(&r, 0);
		assert_true(sm_is_quiet(s));
		run_fini(&r);
	}
}

/* One that is handed the subnet again and again, while a better one is there, gives it back. */
static void a_standby_is_not_handed_a_subnet_without_end(void **state)
{
	uint64_t heavy;
	struct run r;
	struct sm *s;

	begin(&r);
	run_add(&r, "h2", 1, &(struct sm_config){ .priority = 5 });
	s = &run_add(&r, "h7", 1, &(struct sm_config){ .priority = 4 })->sm;
	mad_net_for(&r.n, 5 * WTIME_S);
	heavy = s->counters.heavy;
	assert_in_range(hand_over_often(&r, s, port_of(&r, "h2")->guid), HANDOVERS / 2, HANDOVERS - 1);
	assert_in_range(s->counters.heavy - heavy, SECONDS - 1, 2 * SECONDS + 1);
	mad_net_for(&r.n, 5 * WTIME_S);
	check_master(&r, 0);
	run_fini(&r);
}

/* The status of its administration's answer. */
static unsigned ask_administration(struct run *r, struct sm *s)
{
	const struct mad_header h = { .base_version = 1, .mgmt_class = MAD_CLASS_SA, .class_version = SA_CLASS_VERSION,
				      .method = MAD_GET, .tid = 99, .attr_id = SA_CLASS_PORT_INFO };
	uint8_t mad[MAD_BYTES] = { 0 };
	const struct mad_letter l = { .agent = SM_AGENT_SA, .data = mad, .bytes = sizeof(mad),
				      .remote = { .lid = port_of(r, "h2")->lid, .qpn = 1, .qkey = 0x80010000 } };
	uint32_t said = r->said_count;

	mad_header_build(&h, mad);
	sm_input(s, r->n.now, &l);
	mad_net_pump(&r->n);
	assert_int_equal(r->said_count, said + 1);
	return status_of(r->said);
}

/* 13.4.7: it knows the subnet as it was before it stood by. */
static void who_is_handed_a_subnet_is_busy_at_first(void **state)
{
	uint32_t bytes;
	uint8_t *nodes;
	struct run r;
	struct sm *s;

	begin_as_standby(&r);
	s = &r.n.manager[0].sm;
	mad_net_kill(&r.n, &r.n.manager[1]);
	assert_int_equal(tell(&r, s, MAD_SET, HANDOVER, SM_MASTER, 1), 0);
	assert_int_equal(s->state, SM_MASTER);
	assert_int_equal(ask_administration(&r, s), MAD_STATUS_BUSY);
	assert_null(sa_gather(s, r.n.now, port_of(&r, "h2")->lid, SA_NODE_RECORD_ID, UINT16_MAX, &bytes));
	mad_net_for(&r.n, 2 * WTIME_S);
	check_master(&r, 0);
	assert_int_equal(ask_administration(&r, s), 0);
	nodes = sa_gather(s, r.n.now, port_of(&r, "h2")->lid, SA_NODE_RECORD_ID, UINT16_MAX, &bytes);
	assert_non_null(nodes);
	free(nodes);
	/* more than may be says that it is */
	nodes = sa_gather(s, r.n.now, port_of(&r, "h2")->lid, SA_NODE_RECORD_ID, 100, &bytes);
	assert_non_null(nodes);
	assert_int_equal(bytes, sa_record_find(SA_NODE_RECORD_ID)->bytes);
	free(nodes);
	run_fini(&r);
}

static void what_managers_tell_each_other(void **state)
{
	struct run r;
	struct sm *s;

	begin(&r);
	run_add(&r, "h2", 1, &(struct sm_config){ .priority = 5 });
	run_add(&r, "h7", 1, &(struct sm_config){ .priority = 4 });
	mad_net_for(&r.n, 5 * WTIME_S);
	s = &r.n.manager[1].sm;
	assert_int_equal(s->state, SM_STANDBY);
	assert_int_equal(tell(&r, s, MAD_GET, 0, SM_MASTER, 0), 0);
	assert_int_equal(s->counters.info_refused, 0);
	assert_int_not_equal(tell(&r, s, MAD_SET, DISABLE, SM_STANDBY, 1), 0);
	assert_int_equal(s->counters.info_refused, 1);
	assert_int_not_equal(tell(&r, s, MAD_SET, DISABLE, SM_MASTER, 2), 0);
	assert_int_equal(s->counters.info_refused, 2);
	assert_int_not_equal(tell(&r, s, MAD_SET, STANDBY, SM_MASTER, 1), 0);
	assert_int_equal(s->counters.info_refused, 3);
	assert_int_equal(tell(&r, s, MAD_SET, ACKNOWLEDGE, SM_STANDBY, 1), 0);
	assert_int_equal(s->state, SM_STANDBY);
	assert_int_equal(tell(&r, s, MAD_SET, DISABLE, SM_MASTER, 1), 0);
	assert_int_equal(s->state, SM_NOT_ACTIVE);
	mad_net_for(&r.n, 30 * WTIME_S);
	assert_int_equal(s->state, SM_NOT_ACTIVE);
	assert_int_not_equal(tell(&r, s, MAD_SET, DISCOVER, SM_MASTER, 1), 0);
	assert_int_equal(tell(&r, s, MAD_SET, STANDBY, SM_MASTER, 1), 0);
	assert_int_equal(s->state, SM_STANDBY);
	assert_int_equal(tell(&r, s, MAD_SET, DISCOVER, SM_MASTER, 1), 0);
	assert_int_equal(s->state, SM_DISCOVERING);
	mad_net_for(&r.n, 10 * WTIME_S);
	assert_int_equal(s->state, SM_STANDBY);
	assert_int_equal(tell(&r, s, MAD_SET, HANDOVER, SM_MASTER, 1), 0);
	assert_int_equal(s->state, SM_MASTER);
	assert_int_equal(s->counters.info_refused, 4);
	run_fini(&r);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(two_that_start_at_once),
		cmocka_unit_test(a_better_one_starts_amid_the_first_sweep),
		cmocka_unit_test(of_equal_ones_the_lower_guid),
		cmocka_unit_test(a_master_stays_before_a_worse_one),
		cmocka_unit_test(a_better_one_comes_and_goes),
		cmocka_unit_test(what_another_master_wrote_is_read),
		cmocka_unit_test(lids_of_another_master_stay),
		cmocka_unit_test(lids_of_who_answers_late_stay),
		cmocka_unit_test(a_lid_that_is_told_where_some_have_none),
		cmocka_unit_test(the_master_is_cut_off),
		cmocka_unit_test(a_master_that_hung),
		cmocka_unit_test(three_whatever_is_lost),
		cmocka_unit_test(another_key_is_no_manager_of_ours),
		cmocka_unit_test(more_managers_than_are_kept_in_mind),
		cmocka_unit_test(what_a_master_is_handed_is_read),
		cmocka_unit_test(who_is_no_manager_hands_over_nothing),
		cmocka_unit_test(a_subnet_comes_up_however_often_it_is_handed_over),
		cmocka_unit_test(a_standby_is_not_handed_a_subnet_without_end),
		cmocka_unit_test(who_is_handed_a_subnet_is_busy_at_first),
		cmocka_unit_test(what_managers_tell_each_other),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
