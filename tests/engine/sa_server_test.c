/* The seed's subnet administration serves several requesters at once: tables, all tables, Configs over a path that loses, and
 * tables that change on their way. */
#include "mad_path.h"
#include "mgmt/sa_server.h"
#include "wire/field.h"
#include "wire/mad.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

enum { ASKERS = 20, NUMBERS = 0x70, BYTES = 100, NUMBER_BYTES = 4, STEPS = 1000000, LONGEST = SA_LONGEST_KB << 10 };

static const struct series_config plain = { .subnet_timeout = 10, .response_time = 8, .retries = 7 };

/* Each with a path of its own, whose end 0 it is. */
static struct asker {
	struct mad_path path;
	struct transaction t;
	bool is_used;
} asker[ASKERS];

static struct world {
	struct sa_server server;
	struct sa_store store;
	wtime now;
	uint32_t numbers, salt;		/* records of the table of numbers; what each has besides its number */
	uint32_t of_each;		/* so many of them have the same number */
	bool is_backwards, is_unknown;	/* that table */
	uint64_t version;
} w;

static bool give_number(void *arg, const struct sa_question *q, uint32_t *at, uint8_t *record)
{
	(void)arg;
	(void)q;
	if (*at >= w.numbers)
		return false;
	memset(record, (int)w.salt, BYTES);
	wire_put(record, (w.is_backwards ? w.numbers - 1 - *at : *at) / w.of_each, 0, 0, 32);
	++*at;
	return true;
}

static bool numbers_are_known(void *arg, const struct sa_question *q)
{
	(void)arg;
	(void)q;
	return !w.is_unknown;
}

static uint64_t version(void *arg)
{
	(void)arg;
	return w.version;
}

static int begin(void **state)
{
	(void)state;
	memset(&w, 0, sizeof(w));
	memset(asker, 0, sizeof(asker));
	sa_server_init(&w.server, &plain);
	assert_int_equal(sa_store_init(&w.store, SA_KEY_CHOOSES, 0), 0);
	w.server.store = &w.store;
	w.server.version = version;
	w.server.table[w.server.tables++] = (struct sa_table){ "numbers", NUMBERS, BYTES, give_number, NULL, false,
							       NUMBER_BYTES, numbers_are_known };
	w.server.table[w.server.tables++] = (struct sa_table){ "kept", SA_KEPT_ATTRIBUTE, SA_KEPT_BYTES, sa_store_give,
							       &w.store, .id_bytes = SA_KEPT_ID };
	w.numbers = 50;
	w.salt = w.of_each = 1;
	return 0;
}

static void leave(int i)
{
	mad_path_fini(&asker[i].path);
	transaction_fini(&asker[i].t);
	asker[i].is_used = false;
}

/* A requester goes, and after a while the server knows nothing of it: its time is over first, then what may be repeated. */
static void forget(int i)
{
	leave(i);
	for (int k = 0; k < 2; k++) {
		w.now += SERIES_TOTAL_NS;
		sa_server_expire(&w.server, w.now);
	}
	assert_int_equal(w.server.count, 0);
}

static int end(void **state)
{
	(void)state;
	for (int i = 0; i < ASKERS; i++)
		if (asker[i].is_used)
			leave(i);
	sa_server_fini(&w.server);
	sa_store_fini(&w.store);
	return 0;
}

static void ask(int i, const struct mad_path_config *path, unsigned method, unsigned attribute, uint64_t key, uint16_t window,
		const uint8_t *records, uint32_t bytes)
{
	uint8_t head[SERIES_HEAD] = { 1, MAD_CLASS_SA, SERIES_CLASS_VERSION, (uint8_t)method };

	mad_path_init(&asker[i].path, path);
	asker[i].is_used = true;
	wire_put(head, 0x1234, 8, 0, 64);
	wire_put(head, attribute, 16, 0, 16);
	wire_put(head, key, 24, 0, 64);
	if (method == TXN_CONFIG)
		transaction_configure(&asker[i].t, &plain, w.now, head, records, bytes);
	else
		transaction_ask(&asker[i].t, &plain, w.now, head, window);
}

static void send_all(void)
{
	uint8_t mad[MAD_BYTES];
	uint16_t lid;

	for (int i = 0; i < ASKERS; i++)
		while (asker[i].is_used && transaction_output(&asker[i].t, w.now, mad))
			mad_path_send(&asker[i].path, w.now, 0, mad);
	while (sa_server_output(&w.server, w.now, &lid, mad)) {
		assert_true(lid >= 1 && lid <= ASKERS && asker[lid - 1].is_used);
		mad_path_send(&asker[lid - 1].path, w.now, 1, mad);
	}
}

static wtime next(void)
{
	wtime at = sa_server_deadline(&w.server);

	for (int i = 0; i < ASKERS; i++) {
		if (!asker[i].is_used)
			continue;
		at = wtime_min(at, mad_path_next(&asker[i].path));
		if (asker[i].t.phase < TXN_DONE)
			at = wtime_min(at, transaction_deadline(&asker[i].t));
	}
	return at;
}

static void hear_all(void)
{
	uint8_t mad[MAD_BYTES];

	for (int i = 0; i < ASKERS; i++) {
		while (asker[i].is_used && mad_path_next(&asker[i].path) <= w.now) {
			if (mad_path_take(&asker[i].path, mad))
				sa_server_input(&w.server, w.now, (uint16_t)(i + 1), mad);
			else
				transaction_input(&asker[i].t, w.now, mad);
			send_all();
		}
		if (asker[i].is_used)
			transaction_expire(&asker[i].t, w.now);
	}
	sa_server_expire(&w.server, w.now);
}

static bool all_are_done(void)
{
	for (int i = 0; i < ASKERS; i++)
		if (asker[i].is_used && asker[i].t.phase < TXN_DONE)
			return false;
	return true;
}

/* Until all askers have their answer; `change` is called between two steps, and may be NULL. */
static void go(void (*change)(void))
{
	send_all();
	for (unsigned i = 0; !all_are_done(); i++) {
		wtime at = next();

		assert_true(i < STEPS && at != WTIME_NEVER);
		w.now = at > w.now ? at : w.now;
		hear_all();
		if (change)
			change();
		send_all();
	}
}

static void check_numbers(int i, uint32_t numbers, uint32_t bytes)
{
	const struct transaction *t = &asker[i].t;

	assert_int_equal(t->phase, TXN_DONE);
	assert_int_equal(t->in.bytes, bytes);
	for (uint32_t k = 0; k < numbers; k++)
		assert_int_equal(wire_get(t->in.data + (size_t)k * BYTES, 0, 0, 32), k);
}

static const struct mad_path_config calm = { .delay_ns = WTIME_MS, .each_ns = 1000, .fault_at = { -1, -1 } };

static void edit_kept(enum sa_edit what, uint64_t id)
{
	uint8_t edit[SA_EDIT_BYTES] = { (uint8_t)what };
	uint32_t bytes;

	wire_put(edit, id, 8, 0, 64);
	free(sa_store_edit(&w.store, 0, edit, sizeof(edit), &bytes));
}

/* Each of several has its own answer, in turn with the others. */
static void many_ask_at_once(void **state)
{
	(void)state;
	for (int i = 0; i < 16; i++)
		ask(i, &calm, TXN_GET_TABLE, NUMBERS, 0, (uint16_t)(i + 1), NULL, 0);
	go(NULL);
	for (int i = 0; i < 16; i++)
		check_numbers(i, 50, 50 * BYTES);
	assert_int_equal(w.server.asked, 16);
}

static void all_tables_with_their_heads(void **state)
{
	const uint8_t *data;

	(void)state;
	edit_kept(SA_ADD, 77);
	ask(0, &calm, TXN_GET_BULK, 0, 0, 8, NULL, 0);
	go(NULL);
	assert_int_equal(asker[0].t.phase, TXN_DONE);
	assert_int_equal(asker[0].t.in.bytes, 50 * (BYTES + SA_BULK_HEAD) + SA_KEPT_BYTES + SA_BULK_HEAD);
	data = asker[0].t.in.data + 50 * (BYTES + SA_BULK_HEAD);
	assert_int_equal(wire_get(data, 0, 0, 16), SA_KEPT_ATTRIBUTE);
	assert_int_equal(wire_get(data, 2, 0, 16), SA_KEPT_BYTES);
	assert_true(wire_get(data, 4, 0, 64) == 77);
}

/* RMP-17: two transactions of one requester, by their ids. */
static void two_transactions_of_one_requester(void **state)
{
	uint8_t head[SERIES_HEAD] = { 1, MAD_CLASS_SA, SERIES_CLASS_VERSION, TXN_GET_TABLE }, mad[MAD_BYTES];
	struct transaction t[2];
	uint16_t lid;

	(void)state;
	for (unsigned i = 0; i < 2; i++) {
		wire_put(head, 77 + i, 8, 0, 64);
		wire_put(head, i ? SA_KEPT_ATTRIBUTE : NUMBERS, 16, 0, 16);
		transaction_ask(&t[i], &plain, 0, head, 4);
	}
	w.store.kept[0] = (struct sa_kept){ .id = 5 };
	w.store.count = 1;
	for (int round = 0; round < 100; round++) {
		for (int i = 0; i < 2; i++)
			while (transaction_output(&t[i], 0, mad))
				sa_server_input(&w.server, 0, 9, mad);
		while (sa_server_output(&w.server, 0, &lid, mad)) {
			assert_int_equal(lid, 9);
			transaction_input(&t[wire_get(mad, 8, 0, 64) - 77], 0, mad);
		}
	}
	assert_true(t[0].phase == TXN_DONE && t[0].in.bytes == 50 * BYTES);
	assert_true(t[1].phase == TXN_DONE && t[1].in.bytes == SA_KEPT_BYTES);
	transaction_fini(&t[0]);
	transaction_fini(&t[1]);
}

/* RMP-59 */
static void outcomes_without_records(void **state)
{
	(void)state;
	w.numbers = 0;
	ask(0, &calm, TXN_GET_TABLE, NUMBERS, 0, 8, NULL, 0);
	ask(1, &calm, TXN_GET_TABLE, 0x99, 0, 8, NULL, 0);
	ask(2, &calm, TXN_CONFIG, 0, 0, 0, (const uint8_t *)"nonsense", 8);
	go(NULL);
	assert_true(asker[0].t.phase == TXN_DONE && asker[0].t.status == TXN_NO_RECORDS);
	assert_true(asker[1].t.phase == TXN_FAILED && asker[1].t.status == SA_REQUEST_INVALID);
	assert_true(asker[2].t.phase == TXN_FAILED && asker[2].t.status == SA_REQUEST_INVALID);
	end(NULL);
	begin(NULL);
	w.numbers = LONGEST / BYTES + 1;
	ask(0, &calm, TXN_GET_TABLE, NUMBERS, 0, 8, NULL, 0);
	go(NULL);
	assert_true(asker[0].t.phase == TXN_FAILED && asker[0].t.status == SA_TOO_MANY_RECORDS);
}

/* The status of the one packet that is said to LID 7. */
static unsigned said_status(void)
{
	uint8_t mad[MAD_BYTES];
	struct series_header h;
	uint16_t lid = 0;

	assert_true(sa_server_output(&w.server, w.now, &lid, mad));
	series_parse(&h, &plain, mad);
	assert_true(lid == 7 && !h.flags && !h.segment);
	assert_false(sa_server_output(&w.server, w.now, &lid, mad));
	return (unsigned)wire_get(mad, 4, 0, 16);
}

/* RMP-59: its records have gone before a packet of it has. Who has not heard of that asks again. */
static void a_table_that_is_empty_when_it_is_sent(void **state)
{
	uint8_t mad[MAD_BYTES] = { 1, MAD_CLASS_SA, SERIES_CLASS_VERSION, TXN_GET_TABLE };

	(void)state;
	wire_put(mad, NUMBERS, 16, 0, 16);
	for (w.numbers = 1; w.numbers <= 50; w.numbers += 49) {
		uint32_t numbers = w.numbers;

		wire_put(mad, numbers, 8, 0, 64);
		sa_server_input(&w.server, 0, 7, mad);
		w.numbers = 0;
		w.version++;
		assert_int_equal(said_status(), TXN_NO_RECORDS);
		sa_server_input(&w.server, 0, 7, mad);
		assert_int_equal(said_status(), TXN_NO_RECORDS);
		w.numbers = numbers;
	}
}

/* RMP-62: 200 records in one Config, over a bad path; the answer of 400 bytes is a series too (RMP-02). */
static void a_config_over_a_bad_path(void **state)
{
	static uint8_t edits[200 * SA_EDIT_BYTES];
	struct mad_path_config bad = calm;

	(void)state;
	bad.loss_ppm = 100000;
	bad.repeat_ppm = bad.swap_ppm = 20000;
	bad.hold_ns = bad.late_ns = 15 * WTIME_MS;
	for (bad.seed = 1; bad.seed <= 20; bad.seed++) {
		memset(edits, 0, sizeof(edits));
		for (uint32_t i = 0; i < 200; i++) {
			edits[i * SA_EDIT_BYTES] = SA_ADD;
			wire_put(edits + i * SA_EDIT_BYTES, bad.seed * 1000 + i, 8, 0, 64);
		}
		/* the last one is the same as the first in every second one */
		if (bad.seed % 2)
			wire_put(edits + 199 * SA_EDIT_BYTES, bad.seed * 1000, 8, 0, 64);
		ask(0, &bad, TXN_CONFIG, 0, 0, 0, edits, sizeof(edits));
		go(NULL);
		if (asker[0].t.phase == TXN_DONE) {
			assert_int_equal(asker[0].t.in.bytes, 400);
			assert_int_equal(wire_get(asker[0].t.in.data, 0, 0, 16), bad.seed % 2 ? SA_NOT_DONE : SA_DONE);
			assert_int_equal(wire_get(asker[0].t.in.data + 398, 0, 0, 16), bad.seed % 2 ? SA_IS_THERE : SA_DONE);
		}
		assert_int_equal(w.store.count % 200, 0);
		forget(0);
	}
	assert_true(w.store.count >= 1000);
}

/* RMP-09: after some have arrived all other records get another salt, and there are more, or fewer. */
static uint32_t change_to;

static void change_once(void)
{
	if (!change_to || asker[0].t.in.bytes < 1000)
		return;
	w.numbers = change_to;
	w.salt = 2;
	w.version++;
	change_to = 0;
}

static void tables_change_on_their_way(void **state)
{
	static const uint32_t counts[] = { 500, 49, 20, 10, 5, 1 };
	const struct transaction *t = &asker[0].t;

	(void)state;
	for (size_t i = 0; i < sizeof(counts) / sizeof(counts[0]); i++) {
		uint32_t records, old = 0;

		change_to = counts[i];
		ask(0, &calm, TXN_GET_TABLE, NUMBERS, 0, 4, NULL, 0);
		go(change_once);
		assert_int_equal(change_to, 0);
		assert_int_equal(t->phase, TXN_DONE);
		assert_int_equal(t->in.total, 50 * BYTES);
		records = t->in.bytes / BYTES;
		while (old < records && t->in.data[old * BYTES + 50] == 1)
			old++;
		/* what was sent stays, and only a record that is there is begun */
		assert_true(old >= 10 && old < 50);
		check_numbers(0, records, counts[i] > old ? counts[i] * BYTES : records * BYTES);
		for (uint32_t k = old; k < records; k++)
			assert_int_equal(t->in.data[k * BYTES + 50], 2);
		forget(0);
		w.numbers = 50;
		w.salt = 1;
	}
}

/* Edits of kept records once some of 10 to 39 have arrived. The number before them, which has the name of record 0, goes. */
static struct edits {
	enum sa_edit what;
	uint32_t from, to;
	bool is_done;
} edits;

static void edit_once(void)
{
	if (edits.is_done || asker[0].t.in.bytes < 500)
		return;
	for (uint64_t id = edits.from; id <= edits.to; id++)
		edit_kept(edits.what, id);
	w.numbers = 0;
	edits.is_done = true;
}

/* RMP-03: records that stay come once, wherever others come and go. */
static void kept_records_change_on_their_way(void **state)
{
	static const struct edits rows[] = {
		{ SA_DELETE_ONE, 10, 10, false }, { SA_DELETE_ONE, 10, 16, false }, { SA_DELETE_ONE, 12, 39, false },
		{ SA_DELETE_ONE, 39, 39, false }, { SA_ADD, 1, 1, false }, { SA_ADD, 1, 9, false }, { SA_ADD, 40, 60, false },
		{ SA_ADD, 0, 0, false }, { SA_EDIT_ONE, 10, 39, false },
	};
	const struct transaction *t = &asker[0].t;

	for (size_t i = 0; i < 2 * sizeof(rows) / sizeof(rows[0]); i++) {
		bool is_bulk = i % 2;
		uint32_t each = SA_KEPT_BYTES + (is_bulk ? SA_BULK_HEAD : 0), met[61] = { 0 };
		uint32_t first = is_bulk ? BYTES + SA_BULK_HEAD : 0;

		end(state);
		begin(state);
		w.numbers = 1;
		edits = rows[i / 2];
		for (uint64_t id = 10; id < 40; id++)
			edit_kept(SA_ADD, id);
		ask(0, &calm, is_bulk ? TXN_GET_BULK : TXN_GET_TABLE, SA_KEPT_ATTRIBUTE, 0, 2, NULL, 0);
		go(edit_once);
		assert_true(edits.is_done && t->phase == TXN_DONE && !t->status && (t->in.bytes - first) % each == 0);
		for (uint32_t at = first; at < t->in.bytes; at += each)
			met[wire_get(t->in.data + at + each - SA_KEPT_BYTES, 0, 0, 64)]++;
		for (uint32_t id = 0; id <= 60; id++) {
			bool is_edited = id >= edits.from && id <= edits.to, was_there = id >= 10 && id < 40;
			uint32_t most = was_there || (is_edited && edits.what == SA_ADD), least = most;

			/* how far it was is for the server to know: not this far */
			if (is_edited && edits.what == SA_DELETE_ONE) {
				least = 0;
				most = id < 30;
			}
			if (met[id] < least || met[id] > most)
				fail_msg("row %zu: record %u came %u times", i, id, met[id]);
		}
	}
}

static void turn_once(void)
{
	if (w.is_backwards || asker[0].t.in.bytes < 1000)
		return;
	w.is_backwards = true;
	w.version++;
}

/* The same for a table that has another order from now on, and one with several records of a name. */
static void an_order_changes_on_its_way(void **state)
{
	const struct transaction *t = &asker[0].t;

	(void)state;
	for (w.of_each = 1; w.of_each <= 7; w.of_each += 2) {
		uint32_t met[50] = { 0 };

		ask(0, &calm, TXN_GET_TABLE, NUMBERS, 0, 4, NULL, 0);
		go(turn_once);
		assert_true(t->phase == TXN_DONE && !t->status && t->in.bytes == 50 * BYTES);
		for (uint32_t at = 0; at < t->in.bytes; at += BYTES)
			met[wire_get(t->in.data + at, 0, 0, 32)]++;
		for (uint32_t k = 0; k < 50 / w.of_each; k++)
			assert_int_equal(met[k], w.of_each);
		forget(0);
		w.is_backwards = false;
	}
}

static void forget_numbers_once(void)
{
	if (w.is_unknown || asker[0].t.in.bytes < 1000)
		return;
	w.is_unknown = true;
	w.numbers = 0;
	w.version++;
}

/* RMP-03: a table that nobody knows any more is no short one. */
static void what_is_unknown_on_its_way_is_an_error(void **state)
{
	(void)state;
	ask(0, &calm, TXN_GET_TABLE, NUMBERS, 0, 4, NULL, 0);
	go(forget_numbers_once);
	assert_int_equal(asker[0].t.phase, TXN_FAILED);
	assert_int_equal(asker[0].t.status, MAD_STATUS_BUSY);
}

/* RMP-03: what has outgrown its room in mid-transfer is no short table, but an error. */
static void what_outgrows_its_room_is_an_error(void **state)
{
	const struct transaction *t = &asker[0].t;

	(void)state;
	change_to = LONGEST / BYTES + 1;
	ask(0, &calm, TXN_GET_TABLE, NUMBERS, 0, 4, NULL, 0);
	go(change_once);
	assert_int_equal(change_to, 0);
	assert_int_equal(t->phase, TXN_FAILED);
	assert_int_equal(t->status, SA_TOO_MANY_RECORDS);
	forget(0);
	assert_true(w.server.bytes == 0);
}

/* All answers together have a bound, of which those to one LID leave as much as they take; what has come is not kept. */
static void answers_have_a_share_of_memory(void **state)
{
	uint8_t mad[MAD_BYTES] = { 1, MAD_CLASS_SA, SERIES_CLASS_VERSION, TXN_GET_TABLE };
	const struct series_header window = { .window = 4 };
	uint64_t of_one;

	(void)state;
	w.numbers = LONGEST / BYTES;
	series_build(&window, &plain, mad);
	wire_put(mad, NUMBERS, 16, 0, 16);
	for (uint16_t i = 0; i < SA_SESSIONS_OF_ONE; i++) {
		wire_put(mad, i, 8, 0, 64);
		sa_server_input(&w.server, 0, 7, mad);
	}
	of_one = w.server.bytes;
	assert_in_range(of_one, SA_ANSWERS * LONGEST / 4, SA_ANSWERS * LONGEST / 2);
	for (uint16_t lid = 8; lid < 20; lid++) {
		sa_server_input(&w.server, 0, lid, mad);
		assert_true(w.server.bytes <= SA_ANSWERS * LONGEST);
		assert_true(lid > 8 || w.server.bytes - of_one > LONGEST);
	}
	sa_server_expire(&w.server, SERIES_TOTAL_NS);
	assert_true(w.server.count > 0 && w.server.bytes == 0);
	w.numbers = 50;
	w.now = SERIES_TOTAL_NS;
	ask(0, &calm, TXN_GET_TABLE, NUMBERS, 0, 4, NULL, 0);
	go(NULL);
	check_numbers(0, 50, 50 * BYTES);
	sa_server_expire(&w.server, w.now);
	assert_true(w.server.count > 0 && w.server.bytes > 0);
	/* the last Ack is on its way still */
	while (mad_path_next(&asker[0].path) != WTIME_NEVER)
		if (mad_path_take(&asker[0].path, mad))
			sa_server_input(&w.server, w.now, 1, mad);
	assert_true(w.server.count > 0 && w.server.bytes == 0);
}

/* Of an answer that is under way: the longest that there may be is another one, and perhaps the table. */
static struct { uint32_t longest_kb, numbers; } chosen;

static void choose_once(void)
{
	if (!chosen.longest_kb || asker[0].t.in.bytes < 1000)
		return;
	w.server.longest_kb = chosen.longest_kb;
	w.version += chosen.numbers != w.numbers;
	w.numbers = chosen.numbers;
	chosen.longest_kb = 0;
}

/* What may be gathered is what holds then: an answer that was gathered before comes whole. */
static void the_longest_answer_is_chosen(void **state)
{
	enum { KB = 16, MOST = KB * 1024 / BYTES };
	static const struct { uint32_t numbers, kb, later; uint16_t status; } rows[] = {
		{ MOST, KB, MOST, 0 },			/* it fits */
		{ MOST + 1, KB, 0, SA_TOO_MANY_RECORDS },	/* it does not */
		{ MOST, 1, MOST, 0 },			/* lowered, and nothing is gathered anew */
		{ MOST, 1, MOST - 1, SA_TOO_MANY_RECORDS },	/* and that it is */
		{ MOST, 2 * KB, MOST + 1, 0 },		/* raised */
	};

	(void)state;
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		w.server.longest_kb = KB;
		w.numbers = rows[i].numbers;
		chosen.longest_kb = rows[i].kb;
		chosen.numbers = rows[i].later;
		ask(0, &calm, TXN_GET_TABLE, NUMBERS, 0, 4, NULL, 0);
		go(choose_once);
		assert_int_equal(asker[0].t.status, rows[i].status);
		if (!rows[i].status)
			check_numbers(0, rows[i].later, rows[i].later * BYTES);
		forget(0);
	}
}

/* LinkRecords are the shortest: where each of them is takes as much as they do. */
static void the_longest_answer_has_a_place(void **state)
{
	enum { KB = 33, SHORTEST = 8 };

	(void)state;
	w.server.longest_kb = KB;
	w.server.table[0].record_bytes = SHORTEST;
	w.numbers = KB * 1024 / SHORTEST;
	ask(0, &calm, TXN_GET_TABLE, NUMBERS, 0, 64, NULL, 0);
	go(NULL);
	assert_int_equal(asker[0].t.status, 0);
	assert_int_equal(asker[0].t.in.bytes, KB * 1024);
}

static uint8_t long_config[SA_CONFIG_BYTES / SA_EDIT_BYTES * SA_EDIT_BYTES];
static wtime acked_at[ASKERS], waited_most;
static uint32_t acked[ASKERS];
static uint64_t granted_most;

static void watch_configs(void)
{
	for (int i = 0; i < ASKERS; i++) {
		const struct transaction *t = &asker[i].t;

		if (!asker[i].is_used || t->phase != TXN_SENDING || t->out.acked != acked[i]) {
			acked[i] = t->out.acked;
			acked_at[i] = w.now;
		}
		waited_most = w.now - acked_at[i] > waited_most ? w.now - acked_at[i] : waited_most;
		/* RMP-43: nobody sends a packet again, however long the Ack is held back */
		assert_true(t->out.retries == 0 && t->out.asks == 0);
	}
	granted_most = w.server.config_bytes > granted_most ? w.server.config_bytes : granted_most;
	assert_true(w.server.config_bytes <= SA_CONFIGS_BYTES + SA_CONFIG_BYTES);
}

/* RMP-28: more Configs at once than there is room for: Acks are held back, and all of them come. */
static void configs_share_their_room(void **state)
{
	enum { CONFIGS = 16 };

	(void)state;
	memset(long_config, 0, sizeof(long_config));
	for (uint32_t i = 0; i < sizeof(long_config); i += SA_EDIT_BYTES)
		long_config[i] = SA_DELETE_ONE;
	for (int i = 0; i < CONFIGS; i++)
		ask(i, &calm, TXN_CONFIG, 0, 0, 0, long_config, sizeof(long_config));
	waited_most = granted_most = 0;
	go(watch_configs);
	for (int i = 0; i < CONFIGS; i++) {
		assert_int_equal(asker[i].t.phase, TXN_DONE);
		assert_int_equal(asker[i].t.in.bytes, sizeof(long_config) / SA_EDIT_BYTES * 2);
	}
	assert_int_equal(w.server.configs, CONFIGS);
	assert_true(w.server.held >= CONFIGS / 2);
	assert_true(waited_most > 3 * series_response_ns(&plain));
	assert_in_range(granted_most, SA_CONFIGS_BYTES - SA_CONFIG_BYTES, SA_CONFIGS_BYTES + SA_CONFIG_BYTES);
	assert_true(w.server.config_bytes == 0);
}

/* A window of a Config, and the flags of what is answered. */
static unsigned send_window(uint16_t lid, uint64_t tid, uint32_t window)
{
	uint8_t mad[MAD_BYTES] = { 1, MAD_CLASS_SA, SERIES_CLASS_VERSION, TXN_CONFIG };
	struct series_header h = { 0 };

	wire_put(mad, tid, 8, 0, 64);
	for (uint32_t i = 1; i <= SERIES_WINDOW; i++) {
		h = (struct series_header){ .segment = window * SERIES_WINDOW + i };
		h.flags = h.segment == 1 ? SERIES_FIRST : 0;
		h.length = h.segment == 1 ? sizeof(long_config) : 0;
		series_build(&h, &plain, mad);
		sa_server_input(&w.server, 0, lid, mad);
	}
	h.flags = 0;
	while (sa_server_output(&w.server, 0, &lid, mad))
		series_parse(&h, &plain, mad);
	return h.flags;
}

/* Configs of one LID leave room for another's; and who has gone leaves its room. */
static void configs_of_one_leave_room(void **state)
{
	uint64_t of_one;

	(void)state;
	for (uint32_t window = 0; window < 40; window++)
		for (uint64_t tid = 1; tid <= SA_SESSIONS_OF_ONE; tid++)
			send_window(7, tid, window);
	assert_true(w.server.held > 0);
	of_one = w.server.config_bytes;
	assert_in_range(of_one, SA_CONFIGS_BYTES / 2 - SA_CONFIG_BYTES, SA_CONFIGS_BYTES / 2 + SA_CONFIG_BYTES);
	for (uint32_t window = 0; window < 40; window++)
		assert_int_equal(send_window(8, 1, window), SERIES_ACK);
	assert_true(w.server.config_bytes == of_one + 40 * SERIES_WINDOW * SERIES_DATA);
	for (wtime now = 0; w.server.config_bytes && now < SERIES_TOTAL_NS; now += WTIME_MS)
		sa_server_expire(&w.server, now);
	assert_true(w.server.config_bytes == 0);
}

/* One requester does not take all places, and what was never asked for begins nothing. */
static void places_have_an_end(void **state)
{
	uint8_t mad[MAD_BYTES] = { 1, MAD_CLASS_SA, SERIES_CLASS_VERSION, TXN_GET_TABLE };
	const struct series_header ack = { .flags = SERIES_ACK, .segment = 3 };

	(void)state;
	wire_put(mad, NUMBERS, 16, 0, 16);
	for (uint16_t i = 0; i < 100; i++) {
		wire_put(mad, i, 8, 0, 64);
		sa_server_input(&w.server, 0, 7, mad);
	}
	assert_int_equal(w.server.count, SA_SESSIONS_OF_ONE);
	assert_int_equal(w.server.refused, 100 - SA_SESSIONS_OF_ONE);
	for (uint16_t lid = 100; lid < 200; lid++)
		sa_server_input(&w.server, 0, lid, mad);
	assert_int_equal(w.server.count, SA_SESSIONS);
	sa_server_fini(&w.server);
	assert_int_equal(w.server.count, 0);
	series_build(&ack, &plain, mad);
	sa_server_input(&w.server, 0, 7, mad);
	mad[3] = 1;
	sa_server_input(&w.server, 0, 7, mad);
	assert_int_equal(w.server.count, 0);
}

static unsigned answers(void)
{
	uint8_t mad[MAD_BYTES];
	unsigned n = 0;
	uint16_t lid;

	while (sa_server_output(&w.server, w.now, &lid, mad))
		n++;
	return n;
}

/* A Config of one packet. */
static void send_edit(uint16_t lid, uint64_t tid, enum sa_edit what, uint64_t id)
{
	uint8_t mad[MAD_BYTES] = { 1, MAD_CLASS_SA, SERIES_CLASS_VERSION, TXN_CONFIG };
	const struct series_header h = { .length = SA_EDIT_BYTES };

	series_build(&h, &plain, mad);
	wire_put(mad, tid, 8, 0, 64);
	mad[SERIES_HEAD] = (uint8_t)what;
	wire_put(mad, id, SERIES_HEAD + 8, 0, 64);
	sa_server_input(&w.server, w.now, lid, mad);
}

static void ask_number(uint16_t lid, uint64_t tid)
{
	uint8_t mad[MAD_BYTES] = { 1, MAD_CLASS_SA, SERIES_CLASS_VERSION, TXN_GET_TABLE };

	wire_put(mad, NUMBERS, 16, 0, 16);
	wire_put(mad, tid, 8, 0, 64);
	sa_server_input(&w.server, w.now, lid, mad);
}

/* RMP-52, RMP-53: its answer is lost, and many others ask before it comes again. */
static void a_config_is_done_once(void **state)
{
	(void)state;
	w.numbers = 1;
	send_edit(7, 1, SA_ADD, 99);
	assert_int_equal(answers(), 1);
	for (uint64_t tid = 100; tid < 120; tid++) {
		ask_number(7, tid);
		assert_int_equal(answers(), 1);
	}
	for (uint16_t lid = 100; lid < 200; lid++) {
		ask_number(lid, 1);
		assert_int_equal(answers(), 1);
	}
	assert_int_equal(w.server.count, SA_SESSIONS + 1);
	w.now = series_response_ns(&plain) * plain.retries;
	sa_server_expire(&w.server, w.now);
	edit_kept(SA_DELETE_ONE, 99);
	send_edit(7, 1, SA_ADD, 99);
	assert_int_equal(said_status(), 0);
	assert_true(w.server.configs == 1 && !w.store.count);
	w.now += 2 * plain.retries * series_response_ns(&plain);
	sa_server_expire(&w.server, w.now);
	assert_int_equal(w.server.count, 0);
}

enum padding { PADDED, PADDED_AND_TOLD, PADDED_WITH_JUNK };

/* A Config that adds records 1 to count, in whole data areas. */
static void send_padded(uint64_t tid, uint32_t count, enum padding padding)
{
	uint8_t data[20 * SA_EDIT_BYTES] = { 0 }, mad[MAD_BYTES] = { 1, MAD_CLASS_SA, SERIES_CLASS_VERSION, TXN_CONFIG };
	uint32_t bytes = count * SA_EDIT_BYTES, packets = (bytes + SERIES_DATA - 1) / SERIES_DATA;

	for (uint32_t i = 0; i < count; i++) {
		data[i * SA_EDIT_BYTES] = SA_ADD;
		wire_put(data + i * SA_EDIT_BYTES, i + 1, 8, 0, 64);
	}
	data[packets * SERIES_DATA - 1] = padding == PADDED_WITH_JUNK;
	wire_put(mad, tid, 8, 0, 64);
	for (uint32_t i = 1; i <= packets; i++) {
		struct series_header h = { .segment = packets > 1 ? i : 0 };

		if (packets > 1)
			h.flags = i == 1 ? SERIES_FIRST : i == packets ? SERIES_LAST : 0;
		if (packets > 1 && i == 1)
			h.length = packets * SERIES_DATA;
		else if (i == packets && padding == PADDED_AND_TOLD)
			h.length = bytes - (packets - 1) * SERIES_DATA;
		series_build(&h, &plain, mad);
		memcpy(mad + SERIES_HEAD, data + (i - 1) * SERIES_DATA, SERIES_DATA);
		sa_server_input(&w.server, w.now, 7, mad);
	}
}

/* a total may be of whole data areas. */
static void a_config_may_be_padded(void **state)
{
	for (uint32_t count = 1; count <= 17; count++) {
		for (enum padding padding = PADDED; padding <= PADDED_WITH_JUNK; padding++) {
			/* 8 and 16 edits fill them */
			bool is_bad = padding == PADDED_WITH_JUNK && count % 8;

			end(state);
			begin(state);
			send_padded(count, count, padding);
			/* where 8 would fill them the junk is the eighth one, of no kind */
			assert_int_equal(said_status(), is_bad && count % 8 < 6 ? SA_REQUEST_INVALID : 0);
			assert_int_equal(w.store.count, is_bad ? 0 : count);
		}
	}
}

/* Those of one LID leave places for another's, and for questions. */
static void configs_that_were_done_have_an_end(void **state)
{
	(void)state;
	w.numbers = 1;
	for (uint64_t tid = 1; tid <= 2 * SA_CONFIGS_KEPT; tid++) {
		send_edit(7, tid, SA_EDIT_ONE, 1);
		answers();
	}
	assert_int_equal(w.server.configs, SA_CONFIGS_KEPT / 2);
	assert_int_equal(w.server.refused, 2 * SA_CONFIGS_KEPT - SA_CONFIGS_KEPT / 2);
	for (uint64_t tid = 1; tid <= SA_CONFIGS_KEPT; tid++) {
		send_edit(8, tid, SA_EDIT_ONE, 1);
		answers();
	}
	assert_int_equal(w.server.configs, SA_CONFIGS_KEPT / 2 + SA_CONFIGS_KEPT / 4);
	for (uint16_t lid = 1; lid < 100; lid++) {
		ask_number(lid, 2000);
		assert_int_equal(answers(), 1);
	}
	assert_in_range(w.server.count, SA_SESSIONS, SA_SESSIONS + SA_CONFIGS_KEPT);
	w.now += SERIES_TOTAL_NS;
	sa_server_expire(&w.server, w.now);
	assert_int_equal(w.server.count, 0);
	send_edit(7, 1, SA_EDIT_ONE, 1);
	assert_int_equal(answers(), 1);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, begin, end)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(many_ask_at_once),
		TEST(two_transactions_of_one_requester),
		TEST(all_tables_with_their_heads),
		TEST(outcomes_without_records),
		TEST(a_table_that_is_empty_when_it_is_sent),
		TEST(a_config_over_a_bad_path),
		TEST(tables_change_on_their_way),
		TEST(kept_records_change_on_their_way),
		TEST(an_order_changes_on_its_way),
		TEST(what_is_unknown_on_its_way_is_an_error),
		TEST(what_outgrows_its_room_is_an_error),
		TEST(answers_have_a_share_of_memory),
		TEST(the_longest_answer_is_chosen),
		TEST(the_longest_answer_has_a_place),
		TEST(configs_share_their_room),
		TEST(configs_of_one_leave_room),
		TEST(places_have_an_end),
		TEST(a_config_is_done_once),
		TEST(a_config_may_be_padded),
		TEST(configs_that_were_done_have_an_end),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
