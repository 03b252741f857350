/* weftd's own subnet manager: whatever it tells ports is kept before, so that nothing is lost when weftd is killed. */
#include "subnet.h"

#include "mgmt/gmp.h"
#include "mgmt/sa_server.h"
#include "mgmt/series.h"
#include "mgmt/transaction.h"
#include "sm/sa_queue.h"
#include "sm/sm.h"
#include "weftd/lid_store.h"
#include "weftd/manager.h"
#include "weftd/sa_tables.h"
#include "weftd/seed_sa.h"
#include "weftd/umad.h"
#include "wire/field.h"
#include "wire/sa.h"
#include "wire/sa_records.h"
#include "wire/smp.h"

#include <fcntl.h>
#include <sqlite3.h>
#include <unistd.h>

int __real_umad_ask(struct hub *h, struct mad_port *p, const struct mad_letter *l);
int __wrap_umad_ask(struct hub *h, struct mad_port *p, const struct mad_letter *l);

static struct rundir dir;
static char path[64], database[120];
static unsigned told;		/* SMPs that give a port a LID */
static bool is_in_use;		/* the database, by another program */

/* As another program sees it, or the next weftd if this one is killed now. */
static bool is_kept(uint16_t lid)
{
	sqlite3_stmt *q;
	sqlite3 *db;
	bool is;

	assert_int_equal(sqlite3_open(database, &db), SQLITE_OK);
	assert_int_equal(sqlite3_prepare_v2(db, "SELECT guid FROM lids WHERE lid = ?", -1, &q, NULL), SQLITE_OK);
	sqlite3_bind_int(q, 1, lid);
	is = sqlite3_step(q) == SQLITE_ROW;
	sqlite3_finalize(q);
	sqlite3_close(db);
	return is;
}

int __wrap_umad_ask(struct hub *h, struct mad_port *p, const struct mad_letter *l)
{
	struct smp_port_info info;
	struct mad_header head;

	mad_header_parse(&head, l->data);
	if (head.method == MAD_SET && head.attr_id == SMP_PORT_INFO) {
		smp_port_info_get(&info, l->data + SMP_DATA);
		told += info.lid != 0;
		assert_true(!info.lid || is_in_use || is_kept(info.lid));
	}
	return __real_umad_ask(h, p, l);
}

static int set_up(void **state)
{
	net_set_up(state);
	strcpy(path, "/tmp/weft-manager-XXXXXX");
	assert_non_null(mkdtemp(path));
	snprintf(database, sizeof(database), "%s/" LID_STORE_NAME, path);
	dir.own = open(path, O_RDONLY | O_DIRECTORY);
	net->subnet.dir = &dir;
	for (uint32_t port = 0; port < net->t.f.ports; port++)
		net->t.f.port[port].lid = 0;
	net->hub.now = WTIME_S;
	told = 0;
	is_in_use = false;
	return 0;
}

static int tear_down(void **state)
{
	manager_end(&net->hub);
	close(dir.own);
	assert_int_equal(rmdir(path), 0);
	return net_tear_down(state);
}

static unsigned count_lids(void)
{
	unsigned n = 0;

	for (uint32_t port = 0; port < net->t.f.ports; port++)
		n += net->t.f.port[port].lid != 0;
	return n;
}

static void until_all_have_lids(void)
{
	for (unsigned i = 0; i < 1000 && count_lids() < SUBNET_PROCESSES + 1; i++) {
		net->hub.now += WTIME_MS;
		umad_expire(&net->hub);
	}
	assert_int_equal(count_lids(), SUBNET_PROCESSES + 1);
}

static void a_lid_is_kept_before_its_port_is_told(void **state)
{
	(void)state;
	net->t.f.head->manager = port_named(&net->t.f, "s1", 0) + 1;
	until_all_have_lids();
	assert_true(told >= SUBNET_PROCESSES + 1);
}

/* Ports get theirs all the same, and those are kept a second after the other program is done. */
static void another_program_has_the_database(void **state)
{
	sqlite3 *other;
	uint16_t lid;

	(void)state;
	assert_int_equal(sqlite3_open(database, &other), SQLITE_OK);
	assert_int_equal(sqlite3_exec(other, "BEGIN EXCLUSIVE", NULL, NULL, NULL), SQLITE_OK);
	is_in_use = true;
	net->t.f.head->manager = port_named(&net->t.f, "s1", 0) + 1;
	until_all_have_lids();
	assert_true(manager_deadline(&net->hub) <= net->hub.now + WTIME_S);
	sqlite3_close(other);
	is_in_use = false;
	net->hub.now += WTIME_S;
	umad_expire(&net->hub);
	lid = net->t.f.port[port_named(&net->t.f, "h1", 1)].lid;
	assert_true(lid && is_kept(lid));
}

/* Who opens a port is told the SubnetTimeOut that the manager gave it (RMP-33). */
static void a_program_learns_its_ports_timeout(void **state)
{
	const struct control_msg msg = { .type = CTL_MAD_PORT, .seq = 1, .text_bytes = 2 };
	struct control_times times;

	(void)state;
	times = control_port_times(&msg);
	assert_false(times.is_known);
	net->t.f.head->manager = port_named(&net->t.f, "s1", 0) + 1;
	net->t.f.head->manager_subnet_timeout = 11;
	until_all_have_lids();
	umad_port(&net->hub, &net->client[1], &msg, "h2", NULL, 0);
	assert_int_equal(net->last[1].status, 0);
	times = control_port_times(&net->last[1]);
	assert_true(times.is_known);
	assert_int_equal(times.subnet_timeout, 11);
	assert_int_equal(times.response_time, SA_RESPONSE_TIME);
}

static wtime heard_at[2];
static unsigned heard;
static uint32_t tid;

static void hear_segment(void *arg, const struct mad_letter *l)
{
	(void)arg;
	assert_int_equal(l->status, 0);
	/* those of transactions before it are repeated still */
	if (wire_get(l->data, 12, 0, 32) != tid)
		return;
	assert_int_equal(wire_get(l->data, 32, 0, 32), 1);
	assert_true(heard < 2);
	heard_at[heard++] = net->hub.now;
}

/* The seed's administration waits for an Ack as long as its own port's SubnetTimeOut says (RMP-33); never for hours. */
static void the_seeds_administration_has_its_ports_timeout(void **state)
{
	static const struct { uint8_t is, counts; } timeouts[] = { { 11, 11 }, { 15, 15 }, { 31, SERIES_TIME_MOST } };
	const struct mad_registration what = { .mgmt_class = MAD_CLASS_SA, .class_version = SERIES_CLASS_VERSION };
	const struct series_header window_1 = { .window = 1 };
	struct mad_port *asker;

	(void)state;
	net->t.f.head->manager = port_named(&net->t.f, "s1", 0) + 1;
	until_all_have_lids();
	asker = umad_open(&net->hub, port_named(&net->t.f, "h1", 1), &what, hear_segment, NULL);
	assert_non_null(asker);
	for (unsigned i = 0; i < sizeof(timeouts) / sizeof(timeouts[0]); i++) {
		uint8_t mad[MAD_BYTES] = { MAD_BASE_VERSION, MAD_CLASS_SA, SERIES_CLASS_VERSION, TXN_GET_TABLE };
		const struct mad_letter ask = { .data = mad, .bytes = MAD_BYTES,
						.remote = { .qpn = GSI_QPN, .qkey = GSI_QKEY, .lid = seed_sa_lid(&net->hub) } };
		struct series_config c = { 0 };

		for (uint32_t port = 0; port < net->t.f.ports; port++)
			net->t.f.port[port].subnet_timeout = timeouts[i].is;
		heard = 0;
		series_build(&window_1, &c, mad);
		wire_put(mad, ++tid, 12, 0, 32);
		wire_put(mad, SA_NODE_RECORD_ID, 16, 0, 16);
		assert_int_equal(umad_ask(&net->hub, asker, &ask), 0);
		series_config_times(&c, timeouts[i].counts, SA_RESPONSE_TIME);
		for (wtime end = net->hub.now + 2 * series_response_ns(&c); heard < 2 && net->hub.now < end;) {
			umad_expire(&net->hub);
			net->hub.now += WTIME_MS;
		}
		assert_int_equal(heard, 2);
		assert_in_range(heard_at[1] - heard_at[0], series_response_ns(&c), series_response_ns(&c) + 2 * WTIME_MS);
	}
	umad_close(&net->hub, asker);
	seed_sa_end(&net->hub);
}

static struct transaction asking;

static void hear_answer(void *arg, const struct mad_letter *l)
{
	(void)arg;
	assert_int_equal(l->status, 0);
	transaction_input(&asking, net->hub.now, l->data);
}

/* By windows of a packet, behind the first of which the manager ends. */
static void ask_until_the_manager_ends(struct mad_port *asker, uint16_t attribute)
{
	uint8_t mad[MAD_BYTES] = { MAD_BASE_VERSION, MAD_CLASS_SA, SERIES_CLASS_VERSION, TXN_GET_TABLE };
	const struct mad_letter l = { .data = mad, .bytes = MAD_BYTES,
				      .remote = { .qpn = GSI_QPN, .qkey = GSI_QKEY, .lid = seed_sa_lid(&net->hub) } };

	net->t.f.head->manager = port_named(&net->t.f, "s1", 0) + 1;
	for (unsigned i = 0; i < 3000; i++) {
		net->hub.now += WTIME_MS;
		umad_expire(&net->hub);
	}
	wire_put(mad, ++tid, 12, 0, 32);
	wire_put(mad, attribute, 16, 0, 16);
	transaction_ask(&asking, &sa_live_config, net->hub.now, mad, 1);
	while (asking.phase < TXN_DONE) {
		while (transaction_output(&asking, net->hub.now, mad))
			assert_int_equal(umad_ask(&net->hub, asker, &l), 0);
		umad_expire(&net->hub);
		if (asking.in.last == 1 && net->hub.manager) {
			net->t.f.head->manager = 0;
			manager_close(&net->hub);
		}
		net->hub.now += WTIME_MS;
		transaction_expire(&asking, net->hub.now);
	}
	assert_null(net->hub.manager);
}

/* The fabric's tables are gone on with, with no node twice; what the manager alone knew is an error (RMP-03). */
static void tables_of_a_manager_that_ends(void **state)
{
	const struct mad_registration what = { .mgmt_class = MAD_CLASS_SA, .class_version = SERIES_CLASS_VERSION };
	const uint32_t bytes = sa_record_find(SA_NODE_RECORD_ID)->bytes;
	struct mad_port *asker;
	unsigned lids = 0;

	(void)state;
	net->t.f.head->manager = port_named(&net->t.f, "s1", 0) + 1;
	until_all_have_lids();
	asker = umad_open(&net->hub, port_named(&net->t.f, "h1", 1), &what, hear_answer, NULL);
	assert_non_null(asker);
	ask_until_the_manager_ends(asker, SA_NODE_RECORD_ID);
	assert_int_equal(asking.phase, TXN_DONE);
	assert_int_equal(asking.status, 0);
	assert_int_equal(asking.in.bytes, (SUBNET_PROCESSES + 1) * bytes);
	for (uint32_t at = 0; at < asking.in.bytes; at += bytes)
		lids |= 1u << wire_get(asking.in.data + at, 0, 0, 16);
	assert_int_equal(__builtin_popcount(lids), SUBNET_PROCESSES + 1);
	transaction_fini(&asking);
	ask_until_the_manager_ends(asker, SA_PORT_INFO_RECORD_ID);
	assert_int_equal(asking.phase, TXN_FAILED);
	assert_int_equal(asking.status, MAD_STATUS_BUSY);
	transaction_fini(&asking);
	umad_close(&net->hub, asker);
	seed_sa_end(&net->hub);
}

static uint32_t count_ports(const struct sa_server *s)
{
	const struct sa_question q = { .lid = net->t.f.port[port_named(&net->t.f, "h1", 1)].lid };
	uint8_t record[SA_RECORD_MOST];
	uint32_t at = 0, count = 0;

	for (uint32_t i = 0; i < s->tables; i++)
		while (s->table[i].attribute == SA_PORT_INFO_RECORD_ID && s->table[i].give(s->table[i].arg, &q, &at, record))
			count++;
	return count;
}

/* What is more than an answer may have shows that it is, and is gathered anew when an answer may have more. */
static void a_table_that_was_cut_is_not_all(void **state)
{
	struct sa_server server;
	struct sa_tables tables;
	uint32_t all;

	(void)state;
	net->t.f.head->manager = port_named(&net->t.f, "s1", 0) + 1;
	until_all_have_lids();
	sa_server_init(&server, &sa_live_config);
	sa_tables_add(&tables, &net->hub, &server);
	all = count_ports(&server);
	server.longest_kb = 0;
	assert_in_range(count_ports(&server), 1, all - 1);
	server.longest_kb = SA_LONGEST_KB;
	assert_int_equal(count_ports(&server), all);
	sa_tables_fini(&tables);
	sa_server_fini(&server);
}

static unsigned answered, busy, invalid;

static void hear(void *arg, const struct mad_letter *l)
{
	(void)arg;
	assert_int_equal(l->status, 0);
	answered++;
	busy += wire_get(l->data, 4, 0, 16) == MAD_STATUS_BUSY;
	invalid += wire_get(l->data, 4, 0, 16) == SA_REQUEST_INVALID;
}

/* A request in two segments. */
static void ask_long(struct mad_port *asker, uint8_t method, uint8_t attribute)
{
	uint8_t mad[MAD_BYTES + 100] = { MAD_BASE_VERSION, MAD_CLASS_SA, SA_CLASS_VERSION, method, [17] = attribute,
					 [24] = 1, [25] = 1, [26] = 1 };	/* RMPP DATA, active: IBA 13.6.2.1 */
	const struct mad_letter l = { .data = mad, .bytes = sizeof(mad), .timeout_ms = 60000,
				      .remote = { .qpn = GSI_QPN, .qkey = GSI_QKEY, .lid = net->t.f.port[net_port(0)].sm_lid } };

	wire_put(mad, 0x1000u + method, 12, 0, 32);
	assert_int_equal(umad_ask(&net->hub, asker, &l), 0);
}

/* More questions at once than may wait: the others hear that they are not heard. */
static void who_cannot_wait_hears_so(void **state)
{
	enum { QUESTIONS = SA_WAITING_OF_ONE + 44 };
	const struct mad_registration what = { .mgmt_class = MAD_CLASS_SA, .class_version = SA_CLASS_VERSION, .rmpp_version = 1 };
	struct mad_port *asker;
	uint32_t waiting;

	(void)state;
	net->t.f.head->manager = port_named(&net->t.f, "s1", 0) + 1;
	until_all_have_lids();
	for (unsigned i = 0; i < 3000; i++) {
		net->hub.now += WTIME_MS;
		umad_expire(&net->hub);
	}
	answered = busy = invalid = 0;
	asker = umad_open(&net->hub, port_named(&net->t.f, "h1", 1), &what, hear, NULL);
	assert_non_null(asker);
	for (uint32_t i = 0; i < QUESTIONS; i++) {
		uint8_t mad[MAD_BYTES] = { 0 };

		assert_int_equal(umad_ask_sa(&net->hub, asker, &(struct sa_request){
			.method = SA_GET_TABLE, .attr_id = SA_NODE_RECORD_ID, .tid = i + 1, .timeout_ms = 60000,
			.until = net->hub.now + 60 * WTIME_S }, mad), 0);
	}
	assert_non_null(manager_counters(&net->hub, &waiting));
	assert_int_equal(waiting, SA_WAITING_OF_ONE);
	/* those that cannot wait, as they are longer than a MAD */
	ask_long(asker, MAD_GET, SA_NODE_RECORD_ID);
	ask_long(asker, SA_GET_MULTI, SA_MULTI_PATH_RECORD_ID);
	for (unsigned i = 0; i < 1000; i++) {
		net->hub.now += WTIME_MS;
		umad_expire(&net->hub);
	}
	assert_int_equal(answered, QUESTIONS + 2);
	assert_int_equal(busy, QUESTIONS - 1 - SA_WAITING_OF_ONE + 1);
	assert_int_equal(invalid, 1);
	assert_int_equal(manager_counters(&net->hub, &waiting)->refused, busy + invalid);
	assert_int_equal(waiting, 0);
	umad_close(&net->hub, asker);
}

#define WORLD(test) cmocka_unit_test_setup_teardown(test, set_up, tear_down)

int main(void)
{
	const struct CMUnitTest tests[] = {
		WORLD(a_lid_is_kept_before_its_port_is_told),
		WORLD(another_program_has_the_database),
		WORLD(a_program_learns_its_ports_timeout),
		WORLD(the_seeds_administration_has_its_ports_timeout),
		WORLD(tables_of_a_manager_that_ends),
		WORLD(a_table_that_was_cut_is_not_all),
		WORLD(who_cannot_wait_hears_so),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
