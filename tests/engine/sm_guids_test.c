/* GUIDs that are added to ports: who may, what ports have then, and that they are known by them. */
#include "sm_asker.h"

enum { MASK_LID = 1, MASK_BLOCK = 2, FIRST_GUID = 4, P_DGID = 1 << 2, P_SGID = 1 << 3 };

static const uint64_t ONE = 0x0200000000abcd01, TWO = 0x0200000000abcd02;

/* GUIDs of a block's places, those that are given: Set or Delete, with the LID of that host. */
static int change(struct asker *a, unsigned method, const char *host, unsigned block, unsigned places, const uint64_t guids[8])
{
	wire_put(a->record, lid_of(a, host, 1), 0, 0, 16);
	a->record[2] = (uint8_t)block;
	for (unsigned i = 0; i < 8; i++)
		wire_put(a->record + 8 + 8 * i, guids[i], 0, 0, 64);
	return ask(a, method, SA_GUID_INFO_RECORD_ID, MASK_LID | MASK_BLOCK | (uint64_t)places << FIRST_GUID);
}

static uint64_t guid_at(const struct asker *a, const char *host, unsigned i)
{
	return fabric_guids(&a->r.t.f, port_named(&a->r.t.f, host, 1))[i];
}

static uint64_t said(const struct asker *a, unsigned i)
{
	return wire_get(answer(a, 0) + 8 + 8 * i, 0, 0, 64);
}

static void write_alias(uint8_t *gid, uint64_t guid)
{
	wire_put(gid, PREFIX_DEFAULT, 0, 0, 64);
	wire_put(gid, guid, 8, 0, 64);
}

static int ask_path_to(struct asker *a, uint64_t guid)
{
	write_alias(a->record + 8, guid);
	write_gid(a, "h8", 1, a->record + 24);
	return ask(a, MAD_GET, SA_PATH_RECORD_ID, P_DGID | P_SGID);
}

static void a_port_adds_and_takes_away(void **state)
{
	struct asker a;
	uint64_t own;

	begin(&a, &(struct sm_config){ 0 });
	own = guid_at(&a, "h1", 0);
	assert_int_equal(ask_path_to(&a, ONE), -SA_GID_INVALID);
	assert_int_equal(change(&a, MAD_SET, "h1", 0, 1 << 1 | 1 << 7, (uint64_t[8]){ 5, ONE, 6, [7] = TWO }), 1);
	assert_true(said(&a, 0) == own && said(&a, 1) == ONE && !said(&a, 2) && said(&a, 7) == TWO);
	assert_true(guid_at(&a, "h1", 0) == own && guid_at(&a, "h1", 1) == ONE && !guid_at(&a, "h1", 2));
	assert_true(guid_at(&a, "h1", 7) == TWO);
	/* it is known by them */
	a.lid = lid_of(&a, "h8", 1);
	assert_int_equal(ask_path_to(&a, ONE), 1);
	assert_int_equal(wire_get(answer(&a, 0), 40, 0, 16), lid_of(&a, "h1", 1));
	assert_true(wire_get(answer(&a, 0) + 16, 0, 0, 64) == ONE);
	wire_put(a.record, lid_of(&a, "h1", 1), 0, 0, 16);
	assert_int_equal(ask(&a, MAD_GET, SA_GUID_INFO_RECORD_ID, MASK_LID), 1);
	assert_true(said(&a, 7) == TWO);
	assert_int_equal(ask(&a, SA_GET_TABLE, SA_GUID_INFO_RECORD_ID, 0), 14);
	/* and not for ever */
	a.lid = lid_of(&a, "h1", 1);
	assert_int_equal(change(&a, SA_DELETE, "h1", 0, 1 << 1, (uint64_t[8]){ 0 }), 1);
	assert_true(said(&a, 0) == own && !said(&a, 1) && said(&a, 7) == TWO);
	assert_true(guid_at(&a, "h1", 0) == own && !guid_at(&a, "h1", 1) && guid_at(&a, "h1", 7) == TWO);
	assert_int_equal(ask_path_to(&a, ONE), -SA_GID_INVALID);
	assert_int_equal(ask_path_to(&a, TWO), 1);
	run_fini(&a.r);
}

static void the_manager_chooses(void **state)
{
	struct asker a;
	uint64_t given;

	begin(&a, &(struct sm_config){ 0 });
	assert_int_equal(change(&a, MAD_SET, "h1", 0, 1 << 2 | 1 << 3, (uint64_t[8]){ 0 }), 1);
	assert_true(said(&a, 2) && said(&a, 3) && said(&a, 2) != said(&a, 3));
	assert_true(guid_at(&a, "h1", 2) == said(&a, 2));
	assert_int_equal(ask_path_to(&a, guid_at(&a, "h1", 3)), 1);
	/* once: who asks again has what was chosen, and what it chose itself */
	given = guid_at(&a, "h1", 2);
	assert_int_equal(change(&a, MAD_SET, "h1", 0, 1 << 1, (uint64_t[8]){ 0, ONE }), 1);
	assert_int_equal(change(&a, MAD_SET, "h1", 0, 1 << 1 | 1 << 2, (uint64_t[8]){ 0 }), 1);
	assert_true(said(&a, 1) == ONE && said(&a, 2) == given);
	assert_true(guid_at(&a, "h1", 1) == ONE && guid_at(&a, "h1", 2) == given);
	/* what is taken is nobody else's */
	a.s->last_guid = 0;
	a.lid = lid_of(&a, "h2", 1);
	assert_int_equal(change(&a, MAD_SET, "h2", 0, 1 << 1, (uint64_t[8]){ 0 }), 1);
	assert_true(said(&a, 1) != guid_at(&a, "h1", 2) && said(&a, 1) != guid_at(&a, "h1", 3));
	run_fini(&a.r);
}

static void what_is_refused(void **state)
{
	struct asker a;

	begin(&a, &(struct sm_config){ 0 });
	wire_put(a.record, lid_of(&a, "h1", 1), 0, 0, 16);
	assert_int_equal(ask(&a, MAD_SET, SA_GUID_INFO_RECORD_ID, MASK_LID | 1 << 5), -SA_COMPONENTS_MISSING);
	/* another port's, without the SM_Key */
	assert_int_equal(change(&a, MAD_SET, "h2", 0, 1 << 1, (uint64_t[8]){ 0, ONE }), -SA_REQUEST_INVALID);
	a.key = MASTER_KEY;
	assert_int_equal(change(&a, MAD_SET, "h2", 0, 1 << 1, (uint64_t[8]){ 0, ONE }), 1);
	a.key = 0;
	/* its own, and a block that it has not */
	assert_int_equal(change(&a, MAD_SET, "h1", 0, 1 << 0, (uint64_t[8]){ TWO }), -SA_REQUEST_INVALID);
	assert_int_equal(change(&a, SA_DELETE, "h1", 0, 1 << 0, (uint64_t[8]){ 0 }), -SA_REQUEST_INVALID);
	assert_true(guid_at(&a, "h1", 0) == a.r.t.f.port[port_named(&a.r.t.f, "h1", 1)].guid);
	assert_int_equal(change(&a, MAD_SET, "h1", 1, 1 << 1, (uint64_t[8]){ 0, TWO }), -SA_REQUEST_INVALID);
	assert_true(!guid_at(&a, "h1", 1) && !guid_at(&a, "h1", 2));
	/* one that somebody has, by its first one or not, and one twice: the answer has 0, and others are set */
	assert_int_equal(change(&a, MAD_SET, "h1", 0, 1 << 1, (uint64_t[8]){ 0, ONE }), 1);
	assert_true(!said(&a, 1) && !guid_at(&a, "h1", 1));
	assert_int_equal(change(&a, MAD_SET, "h1", 0, 7 << 1, (uint64_t[8]){ 0, TWO, guid_at(&a, "h3", 0), TWO }), 1);
	assert_true(said(&a, 1) == TWO && !said(&a, 2) && !said(&a, 3));
	assert_true(guid_at(&a, "h1", 1) == TWO && !guid_at(&a, "h1", 2) && !guid_at(&a, "h1", 3));
	assert_int_equal(change(&a, SA_DELETE, "h2", 0, 1 << 1, (uint64_t[8]){ 0 }), -SA_REQUEST_INVALID);
	/* the same again */
	assert_int_equal(change(&a, MAD_SET, "h1", 0, 1 << 1, (uint64_t[8]){ 0, TWO }), 1);
	assert_int_equal(change(&a, MAD_SET, "h1", 0, 1 << 1, (uint64_t[8]){ 0, TWO }), 1);
	wire_put(a.record, 0xbfff, 0, 0, 16);
	assert_int_equal(ask(&a, MAD_SET, SA_GUID_INFO_RECORD_ID, 3 | 1 << 5), -SA_REQUEST_INVALID);
	run_fini(&a.r);
}

/* Who asks enters a group by this GUID, or leaves it. */
static int join(struct asker *a, unsigned method, uint64_t guid)
{
	enum { MAKE = 0x130c7 };	/* MGID, PortGID, Q_Key, TClass, P_Key, SL, flow label, JoinState */
	static const uint8_t mgid[16] = { 0xff, 0x12, 0x40, 0x1b, 0xff, 0xff, [15] = 7 };

	memcpy(a->record, mgid, sizeof(mgid));
	write_alias(a->record + 16, guid);
	wire_put(a->record, PKEY_DEFAULT, 40, 0, 16);
	a->record[48] = MCAST_FULL;
	return ask(a, method, SA_MCMEMBER_RECORD_ID, MAKE);
}

static void one_stays_while_its_port_is_in_a_group_by_it(void **state)
{
	struct asker a;

	begin(&a, &(struct sm_config){ 0 });
	assert_int_equal(change(&a, MAD_SET, "h1", 0, 3 << 1, (uint64_t[8]){ 0, ONE, TWO }), 1);
	assert_int_equal(join(&a, MAD_SET, ONE), 1);
	/* nor does another one that is to go with it */
	assert_int_equal(change(&a, SA_DELETE, "h1", 0, 3 << 1, (uint64_t[8]){ 0 }), -SA_DENIED);
	assert_true(guid_at(&a, "h1", 1) == ONE && guid_at(&a, "h1", 2) == TWO);
	/* no other one takes its place: the answer has 0 */
	assert_int_equal(change(&a, MAD_SET, "h1", 0, 3 << 1, (uint64_t[8]){ 0, ONE + 16, TWO + 16 }), 1);
	assert_true(!said(&a, 1) && said(&a, 2) == TWO + 16);
	assert_true(guid_at(&a, "h1", 1) == ONE && guid_at(&a, "h1", 2) == TWO + 16);
	assert_int_equal(change(&a, MAD_SET, "h1", 0, 1 << 1, (uint64_t[8]){ 0, ONE }), 1);
	assert_true(said(&a, 1) == ONE);
	assert_int_equal(change(&a, SA_DELETE, "h1", 0, 1 << 2, (uint64_t[8]){ 0 }), 1);
	assert_int_equal(join(&a, SA_DELETE, ONE), 1);
	assert_int_equal(change(&a, SA_DELETE, "h1", 0, 1 << 1, (uint64_t[8]){ 0 }), 1);
	assert_true(!guid_at(&a, "h1", 1) && !guid_at(&a, "h1", 2));
	run_fini(&a.r);
}

/* A port that was switched off has forgotten them; a manager that begins finds them at the port. */
static void they_outlive_the_link_and_the_manager(void **state)
{
	struct asker a;
	uint32_t port;

	begin(&a, &(struct sm_config){ 0 });
	port = port_named(&a.r.t.f, "h1", 1);
	assert_int_equal(change(&a, MAD_SET, "h1", 0, 1 << 3, (uint64_t[8]){ [3] = ONE }), 1);
	agents_set_link(&a.r.n.agents, a.r.n.now, port, false);
	assert_true(mad_net_until_quiet(&a.r.n, 10 * WTIME_S));
	fabric_guids(&a.r.t.f, port)[3] = 0;
	agents_set_link(&a.r.n.agents, a.r.n.now, port, true);
	assert_true(mad_net_until_quiet(&a.r.n, 10 * WTIME_S));
	assert_true(guid_at(&a, "h1", 3) == ONE);
	mad_net_revive(&a.r.n, &a.r.n.manager[0], &(struct sm_config){ 0 });
	assert_true(mad_net_until_quiet(&a.r.n, 10 * WTIME_S));
	a.lid = lid_of(&a, "h8", 1);
	assert_int_equal(ask_path_to(&a, ONE), 1);
	assert_true(guid_at(&a, "h1", 3) == ONE);
	run_fini(&a.r);
}

/* Another master changes them meanwhile. */
static void a_standby_reads_them_anew(void **state)
{
	struct asker a;

	begin(&a, &(struct sm_config){ 0 });
	assert_int_equal(change(&a, MAD_SET, "h1", 0, 1 << 1, (uint64_t[8]){ 0, ONE }), 1);
	run_add(&a.r, "h7", 1, &(struct sm_config){ .priority = 15 });
	mad_net_for(&a.r.n, 5 * WTIME_S);
	assert_int_equal(a.s->state, SM_STANDBY);
	fabric_guids(&a.r.t.f, port_named(&a.r.t.f, "h1", 1))[1] = TWO;
	mad_net_kill(&a.r.n, &a.r.n.manager[1]);
	mad_net_for(&a.r.n, 20 * WTIME_S);
	assert_int_equal(a.s->state, SM_MASTER);
	a.lid = lid_of(&a, "h8", 1);
	assert_int_equal(ask_path_to(&a, ONE), -SA_GID_INVALID);
	assert_int_equal(ask_path_to(&a, TWO), 1);
	assert_true(guid_at(&a, "h1", 1) == TWO);
	run_fini(&a.r);
}

/* Many at once, of which SMPs are lost. */
static void one_after_the_other(void **state)
{
	struct asker a;

	begin(&a, &(struct sm_config){ 0 });
	a.r.n.loss_ppm = 300000;
	for (unsigned i = 1; i < 8; i++) {
		uint64_t guids[8] = { 0 };

		guids[i] = ONE + i;
		a.s->now = a.r.n.now;
		assert_int_equal(change(&a, MAD_SET, "h1", 0, 1 << i, guids), 1);
	}
	mad_net_for(&a.r.n, 60 * WTIME_S);
	for (unsigned i = 1; i < 8; i++)
		assert_true(guid_at(&a, "h1", i) == ONE + i);
	run_fini(&a.r);
}

/* While the SMP with the first one is under way. */
static void say(struct asker *a, unsigned place, uint64_t guid)
{
	uint8_t mad[MAD_BYTES] = { 0 };
	const struct mad_header h = { .base_version = 1, .mgmt_class = MAD_CLASS_SA, .class_version = SA_CLASS_VERSION,
				      .method = MAD_SET, .tid = 1, .attr_id = SA_GUID_INFO_RECORD_ID };

	mad_header_build(&h, mad);
	wire_put(mad, MASK_LID | MASK_BLOCK | 1ull << (FIRST_GUID + place), SA_MASK);
	wire_put(mad + SA_HEAD, a->lid, 0, 0, 16);
	wire_put(mad + SA_HEAD + 8 + 8 * place, guid, 0, 0, 64);
	sm_input(a->s, a->r.n.now, &(struct mad_letter){ .agent = SM_AGENT_SA, .data = mad, .bytes = sizeof(mad),
							 .remote = { .lid = a->lid, .qpn = 1 } });
	mad_net_pump(&a->r.n);
}

static void two_at_once(void **state)
{
	struct asker a;

	begin(&a, &(struct sm_config){ 0 });
	say(&a, 1, ONE);
	say(&a, 2, TWO);
	assert_true(mad_net_until_quiet(&a.r.n, 10 * WTIME_S));
	assert_true(guid_at(&a, "h1", 1) == ONE && guid_at(&a, "h1", 2) == TWO);
	run_fini(&a.r);
}

/* The master is handed another's subnet before its port has heard of them. */
static void they_outlive_a_handover(void **state)
{
	struct asker a;

	begin(&a, &(struct sm_config){ 0 });
	a.r.n.loss_ppm = 1000000;
	say(&a, 1, ONE);
	mad_net_for(&a.r.n, 5 * WTIME_S);
	assert_int_equal(a.s->counters.given_up, 1);
	a.r.n.loss_ppm = 0;
	assert_true(guid_at(&a, "h1", 1) != ONE);
	hand_over(&a);
	assert_int_equal(a.s->counters.heavy, 2);
	assert_true(guid_at(&a, "h1", 1) == ONE);
	run_fini(&a.r);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_port_adds_and_takes_away),
		cmocka_unit_test(the_manager_chooses),
		cmocka_unit_test(what_is_refused),
		cmocka_unit_test(one_stays_while_its_port_is_in_a_group_by_it),
		cmocka_unit_test(they_outlive_the_link_and_the_manager),
		cmocka_unit_test(a_standby_reads_them_anew),
		cmocka_unit_test(one_after_the_other),
		cmocka_unit_test(two_at_once),
		cmocka_unit_test(they_outlive_a_handover),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
