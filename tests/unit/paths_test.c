/* Paths that processes at hosts ask for, and the subnet administration that answers what the test says; listeners of hosts. */
#include "busy.h"

#include "mgmt/rmpp.h"
#include "weftd/listeners.h"
#include "weftd/paths.h"

#include <infiniband/verbs.h>

enum { WHOLE_MS = 2000, TRY_MS = WHOLE_MS / (REPEATS + 1), SERVICE = 0x1061234 };

static int set_up(void **state)
{
	sa_set_up(state, 1 << MAD_GET | 1 << SA_GET_TABLE);
	return 0;
}

static int tear_down(void **state)
{
	paths_end(&net->hub);
	return sa_tear_down(state);
}

static void gid_of(unsigned client, uint8_t gid[16])
{
	host_write_gid(&net->t.f, net_port(client), 0, gid);
}

/* From h1 to h3. */
static struct control_msg question(void)
{
	struct control_msg msg = { .type = CTL_PATH, .seq = 5, .a = 0xffff, .c = WHOLE_MS };

	gid_of(0, msg.gid);
	gid_of(2, msg.dgid);
	return msg;
}

static void ask(const struct control_msg *msg)
{
	net->messages[0] = 0;
	paths_input(&net->hub, &net->client[0], msg);
}

static void answer(unsigned status, struct sa_path path)
{
	sa_path_put(&path, sa.mad);
	reply(MAD_GET_RESP, status);
}

static const struct sa_path good = { .dlid = 9, .slid = 7, .flow_label = 0x54321, .hop_limit = 3, .tclass = 0x42, .pkey = 0x8001,
				     .sl = 5, .mtu = IBV_MTU_1024, .rate = IBV_RATE_40_GBPS, .life = 19 };

static void an_administration_tells_the_path(void **state)
{
	const struct control_msg msg = question();
	struct sa_path asked;

	(void)state;
	set_manager(net_lid(1));
	ask(&msg);
	assert_int_equal(sa.requests, 1);
	sa_path_get(&asked, sa.mad);
	assert_int_equal(sa.from.lid, net_lid(0));
	assert_true(asked.mask == (SA_PATH_DGID | SA_PATH_SGID | SA_PATH_REVERSIBLE | SA_PATH_COUNT | SA_PATH_PKEY));
	assert_memory_equal(asked.dgid, msg.dgid, 16);
	assert_memory_equal(asked.sgid, msg.gid, 16);
	assert_int_equal(asked.pkey, 0xffff);
	assert_int_equal(net->messages[0], 0);
	answer(0, good);
	assert_int_equal(net->messages[0], 1);
	assert_int_equal(net->last[0].status, 0);
	assert_int_equal(net->last[0].seq, 5);
	assert_int_equal(net->last[0].a, 9 << ROUTE_DLID | 7 << ROUTE_SLID);
	assert_int_equal(net->last[0].b, 0x8001u << ROUTE_PKEY | IBV_MTU_1024 << ROUTE_MTU | IBV_RATE_40_GBPS << ROUTE_RATE);
	assert_int_equal(net->last[0].c, 0x54321 << ROUTE_FLOW_LABEL | 5 << ROUTE_SL);
	assert_true(net->last[0].service == (0x42u << ROUTE_TCLASS | 3u << ROUTE_HOP_LIMIT | 19u << ROUTE_LIFE));
	assert_true(list_empty(&net->hub.paths));
}

static void refuses(unsigned status, struct sa_path path)
{
	const struct control_msg msg = question();

	ask(&msg);
	answer(status, path);
	assert_int_equal(net->messages[0], 1);
	assert_int_equal(net->last[0].status, EHOSTUNREACH);
}

static void what_is_no_path_is_refused(void **state)
{
	struct sa_path path = good;

	(void)state;
	set_manager(net_lid(1));
	refuses(0x300, good);
	path.mtu = 7;
	refuses(0, path);
	path = good;
	path.dlid = 0;
	refuses(0, path);
	path = good;
	path.life = 32;
	refuses(0, path);
}

static void a_silent_administration_is_asked_four_times(void **state)
{
	const struct control_msg msg = question();
	wtime now = net->hub.now;

	(void)state;
	set_manager(net_lid(1));
	ask(&msg);
	for (int ms = 0; ms < WHOLE_MS; ms += 10)
		at(now + (wtime)ms * WTIME_MS);
	assert_int_equal(sa.requests, 4);
	assert_int_equal(net->messages[0], 0);
	at(now + (wtime)(WHOLE_MS + 10) * WTIME_MS);
	at(net->hub.now);
	assert_int_equal(net->messages[0], 1);
	assert_int_equal(net->last[0].status, ETIMEDOUT);
}

static void who_leaves_is_not_answered(void **state)
{
	const struct control_msg msg = question();

	(void)state;
	set_manager(net_lid(1));
	ask(&msg);
	paths_forget(&net->hub, &net->client[0]);
	assert_true(paths_deadline(&net->hub) == net->hub.now);
	at(net->hub.now);
	assert_true(list_empty(&net->hub.paths));
	assert_int_equal(net->messages[0], 0);
}

static void one_user_has_a_share(void **state)
{
	const struct control_msg msg = question();

	(void)state;
	set_manager(net_lid(1));
	net->client[0].uid = 1001;	/* not weftd's */
	for (unsigned i = 0; i < PATHS_USER; i++)
		ask(&msg);
	assert_int_equal(net->messages[0], 0);
	ask(&msg);
	assert_int_equal(net->last[0].status, EAGAIN);
	net->client[0].uid = 1000;
}

/* Two of subordinate ids: what they have is on one account. */
static void users_of_one_account_have_one_share(void **state)
{
	const struct control_msg msg = question();

	(void)state;
	set_manager(net_lid(1));
	for (unsigned i = 0; i < PATHS_USER; i++) {
		net->client[0].uid = 1001 + i % 2;	/* neither is weftd's */
		ask(&msg);
	}
	assert_int_equal(net->messages[0], 0);
	ask(&msg);
	assert_int_equal(net->last[0].status, EAGAIN);
	net->client[0].uid = 1000;
}

/* Eight users want all that there is: weftd's own asks still. */
static void users_leave_some_to_their_owner(void **state)
{
	const struct control_msg msg = question();
	uint32_t user = net->client[0].account->user;

	(void)state;
	set_manager(net_lid(1));
	net->client[0].uid = 1001;
	for (unsigned i = 0; i < PATHS_USERS; i++) {
		net->client[0].account->user = 1001 + i / PATHS_USER;
		ask(&msg);
	}
	assert_int_equal(net->messages[0], 0);
	net->client[0].account->user = 1001 + PATHS_USERS / PATHS_USER;
	ask(&msg);
	assert_int_equal(net->messages[0], 1);
	assert_int_equal(net->last[0].status, EAGAIN);
	net->client[0].uid = 1000;
	net->client[0].account->user = user;
	ask(&msg);
	assert_int_equal(net->messages[0], 0);
}

static void without_a_manager_tables_tell_it(void **state)
{
	struct control_msg msg = question();

	(void)state;
	set_manager(0);
	ask(&msg);
	assert_int_equal(sa.requests, 0);
	assert_int_equal(net->last[0].status, 0);
	assert_int_equal(net->last[0].a, (uint32_t)net_lid(2) << ROUTE_DLID | (uint32_t)net_lid(0) << ROUTE_SLID);
	msg.dgid[15] ^= 0x55;
	ask(&msg);
	assert_int_equal(net->last[0].status, EHOSTUNREACH);
	msg = question();
	gid_of(1, msg.gid);	/* not the process's */
	ask(&msg);
	assert_int_equal(net->last[0].status, EINVAL);
	net->t.f.port[net_port(2)].lid = 0;
	msg = question();
	ask(&msg);
	assert_int_equal(net->last[0].status, EHOSTUNREACH);
}

/* ---- tables ---- */

static struct control_msg table_question(uint32_t most)
{
	struct control_msg msg = question();

	msg.type = CTL_PATHS;
	msg.b = most;
	return msg;
}

static const struct control_lids *pairs_told(void)
{
	return (const struct control_lids *)net->text[0];
}

/* Two paths, and what is none, as records of a table. */
static void answer_table(unsigned offset, unsigned status)
{
	uint8_t mad[MAD_BYTES], table[MAD_BYTES];
	struct sa_path path = good;

	sa_path_put(&path, table);
	memset(table + 56, 0, MAD_BYTES - 56);
	for (unsigned i = 0; i < 3; i++) {
		path.slid = (uint16_t)(7 + i);
		path.dlid = (uint16_t)(i == 1 ? 0 : 9 + i);
		sa_path_put(&path, mad);
		memcpy(table + 56 + 64 * i, mad + 56, 64);
	}
	memcpy(sa.mad + MAD_HEADER_BYTES, table + MAD_HEADER_BYTES, MAD_BYTES - MAD_HEADER_BYTES);
	wire_put(sa.mad, offset, 44, 0, 16);
	reply(SA_GET_TABLE_RESP, status);
}

static void an_administration_tells_all_paths(void **state)
{
	const struct control_msg msg = table_question(4);
	struct sa_path asked;

	(void)state;
	set_manager(net_lid(1));
	ask(&msg);
	assert_int_equal(sa.requests, 1);
	assert_int_equal(sa.mad[3], SA_GET_TABLE);
	sa_path_get(&asked, sa.mad);
	assert_int_equal(asked.count, 4);
	assert_memory_equal(asked.dgid, msg.dgid, 16);
	answer_table(8, 0);
	assert_int_equal(net->messages[0], 1);
	assert_int_equal(net->last[0].status, 0);
	assert_int_equal(net->last[0].text_bytes, 2 * sizeof(struct control_lids));
	assert_int_equal(pairs_told()[0].slid, 7);
	assert_int_equal(pairs_told()[0].dlid, 9);
	assert_int_equal(pairs_told()[1].slid, 9);
	assert_int_equal(pairs_told()[1].dlid, 11);
	assert_true(list_empty(&net->hub.paths));
}

/* Of so many records, in one segment (IBA 13.6.2): a datagram that is shorter than a MAD. */
static void answer_segment(unsigned records)
{
	const struct mad_letter l = { .remote = sa.from, .data = sa.mad, .bytes = SA_HEAD + records * 64 };
	uint8_t mad[MAD_BYTES];

	sa_path_put(&good, mad);
	for (unsigned i = 0; i < records; i++)
		memcpy(sa.mad + SA_HEAD + 64 * i, mad + SA_HEAD, 64);
	sa.mad[3] = SA_GET_TABLE_RESP;
	wire_put(sa.mad, 1, 24, 0, 8);
	wire_put(sa.mad, RMPP_DATA, 25, 0, 8);
	wire_put(sa.mad, 1, 26, 5, 3);
	wire_put(sa.mad, records ? 8 : 0, SA_ATTRIBUTE_OFFSET);
	assert_int_equal(umad_ask(&net->hub, sa.file, &l), 0);
	at(net->hub.now);
}

static void a_short_table_is_one(void **state)
{
	const struct control_msg msg = table_question(4);

	(void)state;
	umad_close(&net->hub, sa.file);
	sa.file = umad_open(&net->hub, net_port(1), &(struct mad_registration){
		.mgmt_class = MAD_CLASS_SA, .class_version = SA_CLASS_VERSION, .rmpp_version = 1,
		.methods = { 1 << SA_GET_TABLE },
	}, hear, NULL);
	set_manager(net_lid(1));
	for (unsigned records = 0; records <= 3; records++) {
		ask(&msg);
		answer_segment(records);
		assert_int_equal(net->messages[0], 1);
		assert_int_equal(net->last[0].status, records ? 0 : EHOSTUNREACH);
		assert_int_equal(net->last[0].text_bytes, records * sizeof(struct control_lids));
	}
}

static void a_table_of_something_else_is_none(void **state)
{
	static const struct { unsigned offset, status; } rows[] = { { 8, 0x300 }, { 7, 0 } };
	const struct control_msg msg = table_question(4);

	(void)state;
	set_manager(net_lid(1));
	for (unsigned i = 0; i < 2; i++) {
		ask(&msg);
		answer_table(rows[i].offset, rows[i].status);
		assert_int_equal(net->messages[0], 1);
		assert_int_equal(net->last[0].status, EHOSTUNREACH);
	}
	for (unsigned i = 0; i < 2; i++) {
		const struct control_msg wrong = table_question(i ? CONTROL_PATHS + 1 : 1);

		ask(&wrong);
		assert_int_equal(net->last[0].status, EINVAL);
	}
}

static void without_a_manager_lids_tell_all_paths(void **state)
{
	const struct control_msg msg = table_question(4);

	(void)state;
	set_manager(0);
	net->t.f.port[net_port(0)].lmc = 2;
	net->t.f.port[net_port(2)].lmc = 1;
	ask(&msg);
	assert_int_equal(net->last[0].status, 0);
	assert_int_equal(net->last[0].text_bytes, 2 * sizeof(struct control_lids));
	assert_int_equal(pairs_told()[1].slid, net_lid(0) + 1);
	assert_int_equal(pairs_told()[1].dlid, net_lid(2) + 1);
}

/* ---- one that is busy ---- */

static void a_busy_administration_is_asked_again(void **state)
{
	const struct control_msg questions[] = { question(), table_question(4) };

	(void)state;
	set_manager(net_lid(1));
	for (unsigned table = 0; table < 2; table++) {
		struct sa_path asked;

		sa.requests = 0;
		ask(&questions[table]);
		assert_int_equal(sa.requests, 1);
		for (unsigned i = 0; i < REPEATS; i++) {
			discards(TRY_MS);
			sa_path_get(&asked, sa.mad);
			assert_int_equal(asked.count, table ? 4 : 1);
			assert_memory_equal(asked.dgid, questions[table].dgid, 16);
		}
		if (table)
			answer_table(8, 0);
		else
			answer(0, good);
		assert_int_equal(net->messages[0], 1);
		assert_int_equal(net->last[0].status, 0);
		assert_true(list_empty(&net->hub.paths));
	}
}

static void one_that_stays_busy_is_as_one_that_is_silent(void **state)
{
	const struct control_msg msg = question();

	(void)state;
	set_manager(net_lid(1));
	ask(&msg);
	assert_int_equal(sa.requests, 1);
	stays_busy(TRY_MS);
	assert_true(list_empty(&net->hub.paths));
}

static void one_that_was_busy_and_fell_silent_has_no_more_time(void **state)
{
	const struct control_msg msg = question();

	(void)state;
	set_manager(net_lid(1));
	ask(&msg);
	assert_int_equal(sa.requests, 1);
	falls_silent(TRY_MS);
}

/* It hears a request, and answers, while that is being sent. */
static void hear_and_be_busy(void *arg, const struct mad_letter *l)
{
	const struct mad_letter answer = { .remote = l->remote, .data = sa.mad, .bytes = MAD_BYTES };

	hear(arg, l);
	sa.mad[3] = MAD_GET_RESP;
	wire_put(sa.mad, MAD_STATUS_BUSY, 4, 0, 16);
	assert_int_equal(umad_ask(&net->hub, sa.file, &answer), 0);
}

static void one_that_is_busy_at_once_is_asked_as_often(void **state)
{
	const struct mad_registration what = {
		.mgmt_class = MAD_CLASS_SA, .class_version = SA_CLASS_VERSION, .methods = { 1 << MAD_GET },
	};
	const struct control_msg msg = question();
	const wtime begin = net->hub.now;

	(void)state;
	umad_close(&net->hub, sa.file);
	sa.file = umad_open(&net->hub, net_port(1), &what, hear_and_be_busy, NULL);
	set_manager(net_lid(1));
	ask(&msg);
	for (unsigned i = 0; i <= REPEATS; i++) {
		at(begin + i * TRY_MS * WTIME_MS);
		assert_int_equal(sa.requests, 1 + i);
		assert_int_equal(net->messages[0], 0);
	}
	times_out(begin + WHOLE_MS * WTIME_MS);
	assert_true(list_empty(&net->hub.paths));
}

static void who_leaves_a_busy_one_asks_no_more(void **state)
{
	const struct control_msg msg = question();

	(void)state;
	set_manager(net_lid(1));
	ask(&msg);
	answer_busy();
	paths_forget(&net->hub, &net->client[0]);
	at(net->hub.now);
	assert_true(list_empty(&net->hub.paths));
	assert_true(umad_deadline(&net->hub) == WTIME_NEVER);
	assert_int_equal(net->messages[0], 0);
}

static int say(unsigned client, uint32_t type, uint64_t service)
{
	const struct control_msg msg = { .type = type, .seq = 1, .service = service };

	hub_input(&net->hub, &net->client[client], 1, &msg, "", NULL, 0);
	return net->last[client].status;
}

static void each_host_has_its_own_ports(void **state)
{
	static const uint8_t any[16];
	uint32_t here[2];

	(void)state;
	for (unsigned i = 0; i < 2; i++) {
		here[i] = net_port(i);
		assert_int_equal(say(i, CTL_PORT, SERVICE), 0);
		assert_int_equal(say(i, CTL_LISTEN, SERVICE), 0);
		assert_int_equal(say(i, CTL_LISTEN, SERVICE), EADDRINUSE);
	}
	assert_ptr_equal(listeners_find(&net->hub, SERVICE, here[0], 0, any), &net->client[0]);
	assert_ptr_equal(listeners_find(&net->hub, SERVICE, here[1], 0, any), &net->client[1]);
	assert_null(listeners_find(&net->hub, SERVICE, net_port(2), 0, any));
	assert_null(listeners_find(&net->hub, SERVICE, PORT_NONE, 0, any));
	assert_int_equal(say(0, CTL_UNLISTEN, SERVICE), 0);
	assert_null(listeners_find(&net->hub, SERVICE, here[0], 0, any));
	assert_ptr_equal(listeners_find(&net->hub, SERVICE, LISTENERS_ANYWHERE, 1, any), &net->client[1]);
	/* a second process at one of them */
	atomic_store(&net->page.slot_port[net_slot(2)], here[1] + 1);
	assert_int_equal(say(2, CTL_PORT, SERVICE), EADDRINUSE);
	assert_int_equal(say(2, CTL_LISTEN, SERVICE), EADDRINUSE);
	for (unsigned i = 0; i < 2; i++)
		listeners_leave(&net->hub, &net->client[i]);
	assert_null(listeners_find(&net->hub, SERVICE, LISTENERS_ANYWHERE, 1, any));
	for (unsigned i = 0; i < 2; i++)
		assert_int_equal(say(i, CTL_UNPORT, SERVICE), 0);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(an_administration_tells_the_path),
		TEST(what_is_no_path_is_refused),
		TEST(a_silent_administration_is_asked_four_times),
		TEST(who_leaves_is_not_answered),
		TEST(one_user_has_a_share),
		TEST(users_of_one_account_have_one_share),
		TEST(users_leave_some_to_their_owner),
		TEST(without_a_manager_tables_tell_it),
		TEST(an_administration_tells_all_paths),
		TEST(a_short_table_is_one),
		TEST(a_table_of_something_else_is_none),
		TEST(without_a_manager_lids_tell_all_paths),
		TEST(a_busy_administration_is_asked_again),
		TEST(one_that_stays_busy_is_as_one_that_is_silent),
		TEST(one_that_was_busy_and_fell_silent_has_no_more_time),
		TEST(one_that_is_busy_at_once_is_asked_as_often),
		TEST(who_leaves_a_busy_one_asks_no_more),
		TEST(each_host_has_its_own_ports),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
