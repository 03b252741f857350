/* Which agent a MAD is for, and what becomes of what agents send. Ports are linked by a table of the test: a MAD to LID n arrives
 * at port n; LIDs from 100 on answer by themselves. */
#include "mgmt/mad_agents.h"
#include "mgmt/mad_clients.h"

#include "mgmt/mad_source.h"
#include "mgmt/rmpp.h"
#include "wire/field.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

enum { CLASS = 0x04, FILES = 3, GOT = 8 };

struct waiting {
	struct list_node node;
};

struct got {
	struct mad_letter letter;
	uint8_t head[MAD_BYTES];
};

static struct world {
	struct mad_clients clients;
	struct mad_file file[FILES];
	struct got got[FILES][GOT];
	unsigned letters[FILES];
	unsigned carried, refused;
	unsigned to[8];		/* of these, to the first LIDs */
	bool is_cut;
	unsigned carry_most;	/* then it is cut; 0: never */
	uint8_t last[MAD_BYTES];	/* that was carried */
	size_t hold_most;	/* of one file; 0: without bound */
	bool holds;		/* files give back when they are told to */
	unsigned waiting;	/* the most that were to be sent while another one was */
	bool keep_whole;
	uint8_t *whole;		/* the last long one, if it is kept */
	wtime now;
	wtime slow_ns;		/* until what is carried, or refused, is there */
} w;

static enum mad_fate carry(void *arg, wtime now, uint32_t from, unsigned qpn, const struct mad_remote *to,
			   uint8_t mad[MAD_BYTES], struct mad_coming *at)
{
	unsigned waiting = 0;

	(void)arg;
	w.carried++;
	if (to->lid < 8)
		w.to[to->lid]++;
	list_for_each(node, &w.clients.hops, struct waiting, node)
		waiting++;
	w.waiting = waiting > w.waiting ? waiting : w.waiting;
	assert_int_equal(qpn, mad_class_qpn(mad[1]));
	memcpy(w.last, mad, MAD_BYTES);
	if (w.is_cut || (w.carry_most && w.carried > w.carry_most))
		return MAD_WAS_LOST;
	*at = (struct mad_coming){ .port = to->lid >= 100 ? from : to->lid, .due = now + w.slow_ns,
				   .sender = { .lid = to->lid >= 100 ? to->lid : (uint16_t)from, .qpn = 1 } };
	if (to->lid < 100)
		return MAD_HAS_ARRIVED;
	mad[3] |= 0x80;
	return MAD_WAS_ANSWERED;
}

static enum mad_fate refuse(void *arg, wtime now, struct mad_coming *at, uint8_t mad[MAD_BYTES])
{
	uint32_t asked;

	(void)arg;
	assert_true(at->due <= now);
	w.refused++;
	asked = at->port;
	at->port = at->sender.lid;
	at->sender.lid = (uint16_t)asked;
	at->due = now + w.slow_ns;
	mad[3] |= 0x80;
	mad[5] = 0x0c;
	return MAD_WAS_ANSWERED;
}

static bool deliver(void *arg, struct mad_file *f, const struct mad_letter *l)
{
	size_t i = (size_t)(f - w.file);
	struct got *g = &w.got[i][w.letters[i]++ % GOT];

	(void)arg;
	g->letter = *l;
	memcpy(g->head, l->data, l->bytes < MAD_BYTES ? l->bytes : MAD_BYTES);
	if (w.keep_whole && l->bytes > MAD_BYTES) {
		free(w.whole);
		w.whole = malloc(l->bytes);
		memcpy(w.whole, l->data, l->bytes);
	}
	return w.holds && !l->status;
}

static bool has_lid(void *arg, uint32_t port, uint16_t lid)
{
	(void)arg;
	(void)port;
	(void)lid;
	return false;
}

static bool may_hold(void *arg, const struct mad_file *f, size_t more)
{
	(void)arg;
	return !w.hold_most || f->bytes + f->bytes_in + more <= w.hold_most;
}

/* Files 0 and 1 are at port 0, the third at port 2. */
static int begin(void **state)
{
	static const struct mad_ops ops = { carry, refuse, deliver, has_lid, may_hold };
	const struct siphash_key key = { 1, 2 };

	(void)state;
	memset(&w, 0, sizeof(w));
	mad_clients_init(&w.clients, &ops, NULL, &key);
	for (uint32_t i = 0; i < FILES; i++)
		mad_file_open(&w.clients, &w.file[i], i < 2 ? 0 : 2);
	return 0;
}

static int end(void **state)
{
	(void)state;
	mad_clients_fini(&w.clients);
	for (int i = 0; i < FILES; i++) {
		assert_int_equal(w.file[i].requests, 0);
		assert_int_equal(w.file[i].transfers, 0);
		assert_int_equal(w.file[i].bytes + w.file[i].bytes_in, 0);
	}
	assert_true(list_empty(&w.clients.hops));
	return 0;
}

/* What comes by itself. */
static void arrive(uint32_t port, uint16_t lid, const uint8_t *mad)
{
	mad_comes(&w.clients, w.now, &(struct mad_coming){ .port = port, .sender = { .lid = lid, .qpn = 1 } }, mad);
}

static uint32_t add(int file, uint8_t mgmt_class, uint8_t rmpp, uint64_t methods)
{
	const struct mad_registration what = { .mgmt_class = mgmt_class, .class_version = 1, .rmpp_version = rmpp,
					       .methods = { methods } };
	uint32_t agent = MAD_AGENTS;

	assert_int_equal(mad_register(&w.clients, &w.file[file], &what, &agent), 0);
	return agent;
}

static int send(int file, uint32_t agent, uint16_t lid, const uint8_t *data, uint32_t bytes, uint32_t timeout_ms,
		uint32_t retries)
{
	struct mad_letter l = { .agent = agent, .timeout_ms = timeout_ms, .retries = retries, .remote = { .lid = lid, .qpn = 1 },
				.data = data, .bytes = bytes };

	return mad_send(&w.clients, w.now, &w.file[file], &l);
}

static const uint8_t *make(uint8_t mgmt_class, uint8_t method, uint64_t tid)
{
	static uint8_t mad[MAD_BYTES];

	memset(mad, 0, sizeof(mad));
	mad[0] = mad[2] = 1;
	mad[1] = mgmt_class;
	mad[3] = method;
	wire_put(mad, tid, 8, 0, 64);
	return mad;
}

static void expire(wtime now)
{
	w.now = now;
	mad_clients_expire(&w.clients, now);
}

static void slow_links_hold_answers_up(void **state)
{
	uint32_t a = add(0, CLASS, 0, 0);

	(void)state;
	w.slow_ns = 30 * WTIME_MS;
	assert_int_equal(send(0, a, 100, make(CLASS, MAD_GET, 1), MAD_BYTES, 100, 0), 0);
	assert_int_equal(w.letters[0], 0);
	assert_true(mad_clients_deadline(&w.clients) == 30 * WTIME_MS);
	expire(30 * WTIME_MS - 1);
	assert_int_equal(w.letters[0], 0);
	expire(30 * WTIME_MS);
	assert_int_equal(w.letters[0], 1);
	assert_int_equal(w.got[0][0].letter.status, 0);
	assert_true(mad_clients_deadline(&w.clients) == WTIME_NEVER);
	/* the time of a request goes on meanwhile: what is later than that is nobody's */
	w.slow_ns = 150 * WTIME_MS;
	assert_int_equal(send(0, a, 100, make(CLASS, MAD_GET, 2), MAD_BYTES, 100, 0), 0);
	expire(w.now + 100 * WTIME_MS);
	assert_int_equal(w.letters[0], 2);
	assert_int_equal(w.got[0][1].letter.status, ETIMEDOUT);
	expire(w.now + 50 * WTIME_MS);
	assert_int_equal(w.letters[0], 2);
	/* one that comes as the time ends has come */
	w.slow_ns = 100 * WTIME_MS;
	assert_int_equal(send(0, a, 100, make(CLASS, MAD_GET, 3), MAD_BYTES, 100, 0), 0);
	expire(w.now + 100 * WTIME_MS);
	assert_int_equal(w.got[0][2].letter.status, 0);
}

static void slow_links_hold_requests_up(void **state)
{
	uint32_t a = add(0, CLASS, 0, 0), b = add(2, CLASS, 0, 1 << MAD_GET);

	(void)state;
	w.slow_ns = 30 * WTIME_MS;
	assert_int_equal(send(0, a, 2, make(CLASS, MAD_GET, 1), MAD_BYTES, 100, 0), 0);
	assert_int_equal(w.letters[2], 0);
	expire(30 * WTIME_MS);
	assert_int_equal(w.letters[2], 1);
	assert_int_equal(w.got[2][0].letter.agent, b);
	/* what nobody is registered for is refused when it is there, and the refusal takes as long */
	assert_int_equal(send(0, a, 2, make(CLASS, MAD_SET, 2), MAD_BYTES, 100, 0), 0);
	expire(60 * WTIME_MS - 1);
	assert_int_equal(w.refused, 0);
	expire(60 * WTIME_MS);
	assert_int_equal(w.refused, 1);
	assert_int_equal(w.letters[0], 0);
	expire(90 * WTIME_MS);
	assert_int_equal(w.letters[0], 1);
	/* so does what comes by itself */
	mad_comes(&w.clients, w.now, &(struct mad_coming){ .port = 2, .due = w.now + 5, .sender = { .lid = 7, .qpn = 1 } },
		  make(CLASS, MAD_GET, 3));
	assert_int_equal(w.letters[2], 1);
	expire(w.now + 5);
	assert_int_equal(w.letters[2], 2);
}

/* A flood of one port leaves room for others', and what was held when its file closes is on its way. */
static void slow_links_hold_a_bounded_number(void **state)
{
	uint32_t a = add(0, CLASS, 0, 0), b = add(2, CLASS, 0, 0);

	(void)state;
	w.slow_ns = 30 * WTIME_MS;
	for (uint64_t i = 0; i < MAD_LATE + 10; i++)
		assert_int_equal(send(0, a, 1, make(CLASS, MAD_SEND, i), MAD_BYTES, 0, 0), 0);
	assert_int_equal(w.clients.late.count, MAD_LATE);
	assert_int_equal(send(2, b, 100, make(CLASS, MAD_GET, 1), MAD_BYTES, 100, 0), 0);
	assert_int_equal(w.clients.late.count, MAD_LATE + 1);
	assert_int_equal(mad_unregister(&w.clients, &w.file[0], a), 0);
	w.slow_ns = 0;
	while (mad_clients_deadline(&w.clients) <= 30 * WTIME_MS)
		expire(30 * WTIME_MS);
	assert_int_equal(w.letters[2], 1);
	assert_int_equal(w.refused, MAD_LATE);
	assert_int_equal(w.clients.late.count, 0);
	/* the places are free again */
	a = add(0, CLASS, 0, 0);
	w.slow_ns = 10;
	for (uint64_t i = 0; i < MAD_LATE; i++)
		assert_int_equal(send(0, a, 1, make(CLASS, MAD_SEND, i), MAD_BYTES, 0, 0), 0);
	assert_int_equal(w.clients.late.count, MAD_LATE);
}

static void an_answer_finds_who_asked(void **state)
{
	uint32_t a = add(0, CLASS, 0, 0), b = add(1, CLASS, 0, 0);

	(void)state;
	assert_int_equal(send(0, a, 100, make(CLASS, MAD_GET, 0x1111222233334444), MAD_BYTES, 100, 0), 0);
	assert_int_equal(send(1, b, 101, make(CLASS, MAD_GET, 0x1111222233334444), MAD_BYTES, 100, 0), 0);
	assert_int_equal(w.letters[0], 1);
	assert_int_equal(w.letters[1], 1);
	assert_int_equal(w.got[0][0].letter.remote.lid, 100);
	assert_int_equal(w.got[1][0].letter.remote.lid, 101);
	assert_int_equal(w.got[0][0].letter.status, 0);
	assert_true(wire_get(w.got[0][0].head, 8, 0, 64) == 0x1111222233334444);
	assert_true(mad_clients_deadline(&w.clients) == WTIME_NEVER);
}

static void a_method_is_one_agents(void **state)
{
	struct mad_registration what = { .mgmt_class = CLASS, .class_version = 1, .methods = { 1 << MAD_SET } };
	uint32_t agent, asker = add(2, CLASS, 0, 0), a = add(0, CLASS, 0, 1 << MAD_GET | 1 << MAD_SET);

	(void)state;
	assert_int_equal(mad_register(&w.clients, &w.file[1], &what, &agent), -EBUSY);
	assert_int_equal(mad_register(&w.clients, &w.file[2], &what, &agent), 0);
	what.class_version = 2;
	assert_int_equal(mad_register(&w.clients, &w.file[1], &what, &agent), 0);
	send(2, asker, 0, make(CLASS, MAD_GET, 5), MAD_BYTES, 100, 0);
	assert_int_equal(w.letters[0], 1);
	assert_int_equal(w.letters[1], 0);
	assert_int_equal(mad_unregister(&w.clients, &w.file[0], a), 0);
	assert_int_equal(mad_unregister(&w.clients, &w.file[0], a), -ENOENT);
	what.class_version = 1;
	assert_int_equal(mad_register(&w.clients, &w.file[1], &what, &agent), 0);
}

/* SAN-39, SAN-40: a class says who hears a datagram, and by which queue pair it goes; all clients of a port have the same two. */
static void a_class_leads_to_its_client(void **state)
{
	static const uint8_t classes[] = {
		MAD_CLASS_SA, MAD_CLASS_BM, MAD_CLASS_DEVICE, MAD_CLASS_CM, MAD_CLASS_SNMP, 0x09, 0x0a,
	};
	enum { CLASSES = sizeof(classes) };
	uint32_t server[CLASSES], asker[CLASSES];

	(void)state;
	for (uint32_t i = 0; i < CLASSES; i++) {
		server[i] = add(i % 2, classes[i], 0, 1 << MAD_GET);
		asker[i] = add(2, classes[i], 0, 0);
	}
	for (uint32_t i = 0; i < CLASSES; i++) {
		unsigned file = i % 2, before = w.letters[file], others = w.letters[1 - file];
		const struct got *g = &w.got[file][before % GOT];

		/* carry() looks at the queue pair */
		assert_int_equal(mad_class_qpn(classes[i]), 1);
		assert_int_equal(send(2, asker[i], 0, make(classes[i], MAD_GET, 100 + i), MAD_BYTES, 100, 0), 0);
		assert_int_equal(w.letters[file], before + 1);
		assert_int_equal(w.letters[1 - file], others);
		assert_int_equal(g->letter.agent, server[i]);
		assert_int_equal(g->letter.remote.qpn, 1);
		assert_int_equal(g->head[1], classes[i]);
		assert_int_equal(send((int)file, server[i], 2, make(classes[i], MAD_GET_RESP,
							      wire_get(g->head, 8, 0, 64)), MAD_BYTES, 0, 0), 0);
		assert_int_equal(w.got[2][i % GOT].letter.agent, asker[i]);
		assert_int_equal(w.letters[2], i + 1);
	}
	assert_int_equal(mad_class_qpn(MAD_CLASS_SUBN_LID) + mad_class_qpn(MAD_CLASS_SUBN_DIRECTED), 0);
	for (uint32_t i = 0; i < CLASSES; i++)
		assert_int_equal(mad_unregister(&w.clients, &w.file[2], asker[i]), 0);
}

static void a_question_is_answered_by_a_program(void **state)
{
	uint32_t server = add(0, CLASS, 0, 1 << MAD_GET), asker = add(2, CLASS, 0, 0);
	uint8_t answer[MAD_BYTES];

	(void)state;
	send(2, asker, 0, make(CLASS, MAD_GET, 77), MAD_BYTES, 100, 0);
	assert_int_equal(w.letters[0], 1);
	memcpy(answer, w.got[0][0].head, MAD_BYTES);
	/* what its asker wrote is not what was sent */
	assert_true(wire_get(answer, 8, 0, 32) != 0);
	answer[3] = MAD_GET_RESP;
	send(0, server, w.got[0][0].letter.remote.lid, answer, MAD_BYTES, 0, 0);
	assert_int_equal(w.letters[2], 1);
	assert_true(wire_get(w.got[2][0].head, 8, 0, 64) == 77);
	/* a second answer to one question is nobody's */
	send(0, server, 2, answer, MAD_BYTES, 0, 0);
	assert_int_equal(w.letters[2], 1);
}

static void what_nobody_answers_is_refused(void **state)
{
	uint32_t a = add(2, CLASS, 0, 0);

	(void)state;
	send(2, a, 0, make(CLASS, MAD_GET, 1), MAD_BYTES, 100, 0);
	assert_int_equal(w.refused, 1);
	assert_int_equal(w.letters[2], 1);
	assert_int_equal(w.got[2][0].head[5], 0x0c);
}

static void silence_is_a_timeout(void **state)
{
	uint32_t a = add(0, CLASS, 0, 0);

	(void)state;
	w.is_cut = true;
	send(0, a, 100, make(CLASS, MAD_GET, 0xabcdef0012345678), MAD_BYTES, 100, 2);
	for (unsigned i = 1; i <= 3; i++) {
		assert_int_equal(w.carried, i);
		assert_int_equal(w.letters[0], 0);
		assert_true(mad_clients_deadline(&w.clients) == i * 100 * WTIME_MS);
		w.now = i * 100 * WTIME_MS;
		mad_clients_expire(&w.clients, w.now - 1);
		mad_clients_expire(&w.clients, w.now);
	}
	assert_int_equal(w.carried, 3);
	assert_int_equal(w.letters[0], 1);
	assert_int_equal(w.got[0][0].letter.status, ETIMEDOUT);
	assert_int_equal(w.got[0][0].letter.bytes, MAD_HEADER_BYTES);
	assert_true(wire_get(w.got[0][0].head, 8, 0, 64) == 0xabcdef0012345678);
	/* without a timeout nothing is awaited */
	send(0, a, 100, make(CLASS, MAD_SEND, 1), MAD_BYTES, 0, 0);
	assert_true(mad_clients_deadline(&w.clients) == WTIME_NEVER);
}

/* A question, and its answer of so many bytes. */
static void ask_for_table_as(uint32_t server, uint32_t asker, uint32_t bytes, uint64_t tid)
{
	unsigned questions = w.letters[0], answers = w.letters[2];
	uint8_t *table = calloc(1, bytes);
	const struct got *got = &w.got[2][answers % GOT];

	send(2, asker, 0, make(MAD_CLASS_SA, 0x12, tid), MAD_BYTES, 1000, 0);
	assert_int_equal(w.letters[0], questions + 1);
	memcpy(table, w.got[0][questions % GOT].head, MAD_BYTES);
	table[3] = 0x92;
	wire_put(table, 1, 26, 7, 1);
	assert_int_equal(send(0, server, 2, table, bytes, 1000, 0), 0);
	free(table);
	assert_int_equal(w.letters[2], answers + 1);
	assert_int_equal(got->letter.bytes, bytes);
	assert_int_equal(got->letter.status, 0);
	assert_true(wire_get(got->head, 8, 0, 64) == tid);
}

static void ask_for_table(uint32_t server, uint32_t asker, uint32_t bytes)
{
	ask_for_table_as(server, asker, bytes, 9);
}

static void a_table_comes_in_segments(void **state)
{
	enum { BYTES = 56 + 64 * 1000 };
	uint32_t server = add(0, MAD_CLASS_SA, 1, 1 << 0x12), asker = add(2, MAD_CLASS_SA, 1, 0);

	(void)state;
	ask_for_table(server, asker, BYTES);
	assert_int_equal(w.carried, 1 + (BYTES - 56 + 199) / 200 + 1 + 5);
}

static void a_transaction_id_is_used_again(void **state)
{
	uint32_t server = add(0, MAD_CLASS_SA, 1, 1 << 0x12), asker = add(2, MAD_CLASS_SA, 1, 0);

	(void)state;
	for (uint32_t bytes = 300; bytes < 6000; bytes += 1000)
		ask_for_table(server, asker, bytes);
}

static void what_is_no_datagram_is_not_sent(void **state)
{
	static uint8_t large[2 * MAD_BYTES];
	uint32_t a = add(0, CLASS, 0, 0);

	(void)state;
	assert_int_equal(send(0, a + 1, 100, make(CLASS, MAD_GET, 1), MAD_BYTES, 0, 0), -EINVAL);
	assert_int_equal(send(0, UINT32_MAX, 100, make(CLASS, MAD_GET, 1), MAD_BYTES, 0, 0), -EINVAL);
	assert_int_equal(send(0, a, 100, make(CLASS, MAD_GET, 1), MAD_HEADER_BYTES - 1, 0, 0), -EINVAL);
	assert_int_equal(send(0, a, 100, large, sizeof(large), 0, 0), -EINVAL);
	assert_int_equal(w.carried, 0);
}

static void timeouts_and_retries_have_an_end(void **state)
{
	uint32_t a = add(0, CLASS, 0, 0);

	(void)state;
	w.is_cut = true;
	send(0, a, 100, make(CLASS, MAD_GET, 1), MAD_BYTES, UINT32_MAX, UINT32_MAX);
	assert_true(mad_clients_deadline(&w.clients) == MAD_TIMEOUT_MOST * WTIME_MS);
	for (unsigned i = 0; i <= MAD_RETRIES_MOST; i++) {
		assert_int_equal(w.letters[0], 0);
		w.now = mad_clients_deadline(&w.clients);
		mad_clients_expire(&w.clients, w.now);
	}
	assert_int_equal(w.letters[0], 1);
	assert_int_equal(w.carried, 1 + MAD_RETRIES_MOST);
	assert_true(mad_clients_deadline(&w.clients) == WTIME_NEVER);
}

static void requests_end_in_their_order(void **state)
{
	static const uint32_t timeout[] = { 300, 100, 200, 50 };
	uint32_t a = add(0, CLASS, 0, 0), b = add(1, CLASS, 0, 0);

	(void)state;
	w.is_cut = true;
	for (unsigned i = 0; i < 4; i++)
		send(i == 3, i == 3 ? b : a, 100, make(CLASS, MAD_GET, i), MAD_BYTES, timeout[i], 0);
	assert_true(mad_clients_deadline(&w.clients) == 50 * WTIME_MS);
	mad_file_close(&w.clients, &w.file[1]);
	mad_file_open(&w.clients, &w.file[1], 0);
	for (unsigned i = 1; i <= 3; i++) {
		assert_true(mad_clients_deadline(&w.clients) == i * 100 * WTIME_MS);
		mad_clients_expire(&w.clients, i * 100 * WTIME_MS);
		assert_int_equal(w.letters[0], i);
		assert_true(wire_get(w.got[0][i - 1].head, 8, 0, 64) == i % 3);
	}
	assert_int_equal(w.letters[1], 0);
}

static uint8_t *make_table(uint32_t bytes, uint64_t tid)
{
	uint8_t *table = calloc(1, bytes);

	memcpy(table, make(MAD_CLASS_SA, 0x92, tid), MAD_BYTES);
	wire_put(table, 1, 26, 7, 1);
	return table;
}

static void two_sides_in_segments(void **state)
{
	enum { BYTES = 56 + 200 * 70 + 3 };
	uint32_t server = add(0, MAD_CLASS_SA, 1, 1 << 0x14), asker = add(2, MAD_CLASS_SA, 1, 0);
	uint8_t *table = make_table(BYTES, 9);

	(void)state;
	table[3] = 0x14;
	table[BYTES - 1] = 77;
	assert_int_equal(send(2, asker, 0, table, BYTES, 1000, 0), 0);
	assert_int_equal(w.letters[0], 1);
	assert_int_equal(w.got[0][0].letter.bytes, BYTES);
	/* 71 segments, an ACK of each window, and that the answer may begin */
	assert_int_equal(w.carried, 71 + 3 + 1);
	memcpy(table, w.got[0][0].head, MAD_HEADER_BYTES);
	table[3] = 0x94;
	assert_int_equal(send(0, server, 2, table, BYTES, 0, 0), 0);
	free(table);
	assert_int_equal(w.letters[2], 1);
	assert_int_equal(w.got[2][0].letter.bytes, BYTES);
	assert_int_equal(w.got[2][0].letter.status, 0);
	assert_int_equal(w.file[2].requests, 0);
	assert_int_equal(w.file[0].requests, 0);
}

/* Its asker has said how many segments may go before the first ACK, and acknowledges no fewer. */
static void an_answer_begins_with_the_window_that_was_said(void **state)
{
	enum { BYTES = 56 + 200 * 20 };
	uint32_t server = add(0, MAD_CLASS_SA, 1, 1 << 0x14);
	uint8_t *table = make_table(BYTES, 9), mad[MAD_BYTES] = { 0 };

	(void)state;
	memcpy(mad, table, 56);
	mad[3] = 0x14;
	mad[24] = 1;
	mad[25] = RMPP_DATA;
	mad[26] = 7;
	wire_put(mad, 1, 28, 0, 32);
	wire_put(mad, 100, 32, 0, 32);
	arrive(0, 2, mad);
	assert_int_equal(w.letters[0], 1);
	mad[25] = RMPP_ACK;
	mad[26] = 1;
	wire_put(mad, 0, 28, 0, 32);
	wire_put(mad, 5, 32, 0, 32);
	arrive(0, 2, mad);
	memcpy(table, w.got[0][0].head, MAD_HEADER_BYTES);
	table[3] = 0x94;
	w.carried = 0;
	assert_int_equal(send(0, server, 2, table, BYTES, 0, 0), 0);
	assert_int_equal(w.carried, 5);
	/* another one's was not let */
	assert_int_equal(send(0, server, 3, table, BYTES, 0, 0), 0);
	assert_int_equal(w.carried, 6);
	free(table);
}

/* It hears its own ACKs, and takes none for another side's. */
static void who_asks_itself_comes_to_an_end(void **state)
{
	enum { BYTES = 56 + 200 * 3 };
	uint32_t server = add(0, MAD_CLASS_SA, 1, 1 << 0x14);
	uint8_t *table = make_table(BYTES, 9);

	(void)state;
	w.carry_most = 10000;
	table[3] = 0x14;
	assert_int_equal(send(0, server, 0, table, BYTES, 1000, 0), 0);
	free(table);
	assert_int_equal(w.letters[0], 1);
	/* 3 segments, 2 ACKs of them, and that the answer may begin */
	assert_int_equal(w.carried, 3 + 2 + 1);
}

/* A call sends so many; what remains is due at once. */
static void no_call_sends_without_end(void **state)
{
	enum { SEGMENTS = 4000, BYTES = 56 + 200 * SEGMENTS };
	uint32_t asker = add(2, MAD_CLASS_SA, 1, 0);
	uint8_t *table = make_table(BYTES, 9);

	(void)state;
	add(0, MAD_CLASS_SA, 1, 1 << 0x14);
	table[3] = 0x14;
	assert_int_equal(send(2, asker, 0, table, BYTES, 1000, 0), 0);
	free(table);
	assert_int_equal(w.carried, 1024);
	for (unsigned calls = 0; calls < 2; calls++) {
		assert_true(mad_clients_deadline(&w.clients) == 0);
		mad_clients_expire(&w.clients, w.now);
	}
	assert_int_equal(w.letters[0], 0);
	assert_true(mad_clients_deadline(&w.clients) == 0);
	/* what is left when all end is freed */
}

/* A receiver acknowledges its first segment and opens a window without end. */
static void open_window(int file, uint32_t agent, uint16_t lid, uint64_t tid, uint32_t segments)
{
	uint32_t bytes = 56 + 200 * segments;
	uint8_t *table = make_table(bytes, tid), ack[MAD_BYTES];

	assert_int_equal(send(file, agent, lid, table, bytes, 0, 0), 0);
	rmpp_ack(table, 1, UINT32_MAX, ack);
	arrive(w.file[file].port, lid, ack);
	free(table);
}

/* The next call, which is due at once. */
static void go_on(void)
{
	assert_true(mad_clients_deadline(&w.clients) <= w.now + 1);
	expire(w.now + 1);
}

/* What others send does not wait behind all of a long answer, nor does that fill memory. */
static void an_open_window_is_not_all_sent_at_once(void **state)
{
	enum { SEGMENTS = 3000 };
	uint32_t server = add(0, MAD_CLASS_SA, 1, 1 << 0x12), other = add(2, CLASS, 0, 0);

	(void)state;
	w.is_cut = true;
	open_window(0, server, 5, 9, SEGMENTS);
	assert_int_equal(w.carried, 1 + 1024);
	w.is_cut = false;
	assert_int_equal(send(2, other, 100, make(CLASS, MAD_GET, 1), MAD_BYTES, 100, 0), 0);
	assert_int_equal(w.letters[2], 1);
	w.is_cut = true;
	while (w.to[5] < SEGMENTS)
		go_on();
	assert_int_equal(w.to[5], SEGMENTS);
	assert_in_range(w.waiting, 1, 1023);
	/* the ACK took no time: the next one is missed soon */
	assert_true(mad_clients_deadline(&w.clients) == w.now + WTIME_MS / 2);
}

/* Nor do many of them together: their receivers hear of each in turn. */
static void open_windows_are_sent_in_turn(void **state)
{
	enum { SEGMENTS = 3000 };
	uint32_t server = add(0, MAD_CLASS_SA, 1, 1 << 0x12);

	(void)state;
	w.is_cut = true;
	for (uint16_t lid = 4; lid < 8; lid++)
		open_window(0, server, lid, lid, SEGMENTS);
	while (w.to[4] + w.to[5] + w.to[6] + w.to[7] < 4 * SEGMENTS) {
		unsigned least = SEGMENTS, most = 0;

		go_on();
		for (unsigned lid = 4; lid < 8; lid++) {
			least = w.to[lid] < least ? w.to[lid] : least;
			most = w.to[lid] > most ? w.to[lid] : most;
		}
		assert_in_range(most - least, 0, 1025);
	}
	assert_in_range(w.waiting, 1, 1023);
}

/* Who has the request whole says so at its first segment. */
static void a_whole_request_goes_again(void **state)
{
	enum { BYTES = 56 + 200 * 3 };
	uint32_t asker = add(2, MAD_CLASS_SA, 1, 0);
	uint8_t *table = make_table(BYTES, 9), ack[MAD_BYTES];

	(void)state;
	add(0, MAD_CLASS_SA, 1, 1 << 0x14);
	table[3] = 0x14;
	assert_int_equal(send(2, asker, 0, table, BYTES, 1000, 3), 0);
	/* an older ACK that comes late is not the last one */
	wire_put(table, w.file[2].agent[asker].tid, 8, 0, 32);
	rmpp_ack(table, 1, 4, ack);
	w.carried = 0;
	arrive(2, 0, ack);
	assert_int_equal(w.carried, 0);
	free(table);
	for (unsigned tries = 1; tries <= 3; tries++) {
		mad_clients_expire(&w.clients, tries * WTIME_S);
		assert_int_equal(w.letters[2], 0);
		assert_int_equal(w.file[2].requests, 1);
		assert_int_equal(w.last[25], RMPP_ACK);
	}
	/* it was given once */
	assert_int_equal(w.letters[0], 1);
	mad_clients_expire(&w.clients, 4 * WTIME_S);
	assert_int_equal(w.letters[2], 1);
	assert_int_equal(w.got[2][0].letter.status, ETIMEDOUT);
}

/* Two that ask choose the same id: an ACK of one is not the other's. */
static void an_ack_is_of_who_is_answered(void **state)
{
	uint32_t server = add(0, MAD_CLASS_SA, 1, 1 << 0x12);
	uint8_t *table = make_table(5000, 9), ack[MAD_BYTES];

	(void)state;
	table[3] = 0x92;
	w.is_cut = true;
	for (uint16_t lid = 5; lid <= 6; lid++)
		assert_int_equal(send(0, server, lid, table, 5000, 0, 0), 0);
	assert_int_equal(w.carried, 2);
	rmpp_ack(table, 1, 4, ack);
	for (uint16_t lid = 5; lid <= 7; lid++) {
		arrive(0, lid, ack);
		assert_int_equal(w.carried, 2 + 3 * (lid < 7 ? lid - 4u : 2u));
	}
	rmpp_end(table, RMPP_NO_RESOURCES, ack);
	arrive(0, 6, ack);
	assert_int_equal(w.file[0].requests, 1);
	free(table);
}

static void say_answer(uint32_t agent, uint16_t lid, uint32_t segment, bool is_last)
{
	uint8_t mad[MAD_BYTES];

	memcpy(mad, make(MAD_CLASS_SA, 0x92, 9 + (w.file[0].agent[agent].tid * (1ull << 32))), MAD_BYTES);
	mad[24] = 1;
	mad[24] = 1;
	mad[25] = RMPP_DATA;
	mad[26] = (uint8_t)(1 | (segment == 1) << 1 | is_last << 2);
	wire_put(mad, segment, 28, 0, 32);
	wire_put(mad, is_last ? 220 : 0, 32, 0, 32);
	arrive(0, lid, mad);
}

/* Whose answer comes is not asked again. */
static void an_answer_on_its_way_is_waited_for(void **state)
{
	uint32_t asker = add(0, MAD_CLASS_SA, 1, 0);

	(void)state;
	w.is_cut = true;
	assert_int_equal(send(0, asker, 7, make(MAD_CLASS_SA, 0x12, 9), MAD_BYTES, 100, 0), 0);
	for (uint32_t segment = 1; segment <= 5; segment++) {
		say_answer(asker, 7, segment, segment == 5);
		if (segment < 5)
			assert_true(mad_clients_deadline(&w.clients) == w.now + 100 * WTIME_MS);
		w.now += 99 * WTIME_MS;
		mad_clients_expire(&w.clients, w.now);
	}
	assert_int_equal(w.letters[0], 1);
	assert_int_equal(w.got[0][0].letter.status, 0);
	assert_int_equal(w.got[0][0].letter.bytes, 56 + 5 * 200);
}

/* The answer to the last question by this id has begun, and was given up: it does not keep the answer to the next one out. */
static void an_id_used_again_has_its_own_answer(void **state)
{
	uint32_t asker = add(0, MAD_CLASS_SA, 1, 0);

	(void)state;
	w.is_cut = true;
	for (uint16_t lid = 7; lid <= 9; lid++) {
		assert_int_equal(send(0, asker, lid, make(MAD_CLASS_SA, 0x12, 9), MAD_BYTES, 100, 0), 0);
		say_answer(asker, lid, 1, false);
		assert_int_equal(w.file[0].transfers, 1);
		if (lid == 9)
			break;
		expire(w.now + 100 * WTIME_MS);
		assert_int_equal(w.got[0][lid - 7].letter.status, ETIMEDOUT);
	}
	say_answer(asker, 9, 2, true);
	assert_int_equal(w.letters[0], 3);
	assert_int_equal(w.got[0][2].letter.status, 0);
	assert_int_equal(w.got[0][2].letter.bytes, 56 + 2 * 200);
}

/* Its first segment comes ever again: that is no answer. */
static void an_answer_that_does_not_go_on_is_none(void **state)
{
	uint32_t asker = add(0, MAD_CLASS_SA, 1, 0);
	uint8_t mad[MAD_BYTES];
	bool advances = false;

	(void)state;
	w.is_cut = true;
	w.clients.buffers.tunables.longest_kb = 1 << 10;
	for (unsigned run = 0; run < 2; run++, advances = true) {
		uint64_t tid = 9 + run;
		wtime began = w.now, most = advances ? RMPP_TOTAL_NS + 1300 * WTIME_MS : 300 * WTIME_MS;

		assert_int_equal(send(0, asker, 7, make(MAD_CLASS_SA, 0x12, tid), MAD_BYTES, 100, 0), 0);
		memcpy(mad, make(MAD_CLASS_SA, 0x92, tid + (w.file[0].agent[asker].tid * (1ull << 32))), MAD_BYTES);
		mad[24] = 1;
		mad[25] = RMPP_DATA;
		for (uint32_t n = 0; w.letters[0] == run && w.now < began + 2 * RMPP_TOTAL_NS; n++) {
			uint32_t segment;

			n = w.file[0].transfers ? n : 0;
			segment = advances ? n + 1 : 1;
			mad[26] = segment == 1 ? 3 : 1;
			wire_put(mad, segment, 28, 0, 32);
			arrive(0, 7, mad);
			w.now += 90 * WTIME_MS;
			mad_clients_expire(&w.clients, w.now);
		}
		assert_in_range(w.now, began + 100 * WTIME_MS, began + most);
		assert_int_equal(w.letters[0], run + 1);
		assert_int_equal(w.got[0][run].letter.status, ETIMEDOUT);
	}
}

/* Its sender is told that there is no room. */
static void who_cannot_be_served_hears_of_it(void **state)
{
	uint32_t server = add(0, MAD_CLASS_SA, 1, 0);
	uint8_t *table = make_table(7000, w.file[0].agent[server].tid * (1ull << 32));

	(void)state;
	add(2, MAD_CLASS_SA, 1, 1 << 0x14);
	table[3] = 0x14;
	/* there is room for it where it goes out, and where it comes in for 4096 bytes, as 8192 would follow */
	w.hold_most = 8000;
	assert_int_equal(send(0, server, 2, table, 7000, 100, 0), 0);
	/* 35 segments, an ACK of the first and a STOP */
	assert_int_equal(w.carried, 35 + 2);
	assert_int_equal(w.letters[0], 1);
	assert_int_equal(w.got[0][0].letter.status, ETIMEDOUT);
	assert_int_equal(w.file[2].transfers, 0);
	free(table);
}

/* A receiver may ask for all segments at once. */
static void what_is_sent_again_leaves_one_by_one(void **state)
{
	enum { SEGMENTS = 20, BYTES = 56 + 200 * SEGMENTS, DATAGRAMS = 8 };
	uint32_t asker = add(0, MAD_CLASS_SA, 1, 0);
	uint8_t ack[MAD_BYTES];

	(void)state;
	w.is_cut = true;
	for (unsigned i = 0; i < DATAGRAMS; i++) {
		uint8_t *table = make_table(BYTES, i + (w.file[0].agent[asker].tid * (1ull << 32)));

		table[3] = 0x14;
		assert_int_equal(send(0, asker, 2, table, BYTES, 10000, 0), 0);
		rmpp_ack(table, 0, UINT32_MAX, ack);
		arrive(0, 2, ack);
		free(table);
	}
	assert_int_equal(w.carried, DATAGRAMS * SEGMENTS);
	assert_int_equal(w.waiting, SEGMENTS - 2);
	mad_clients_expire(&w.clients, RMPP_ACK_NS);
	assert_int_equal(w.carried, 2 * DATAGRAMS * SEGMENTS);
	assert_int_equal(w.waiting, SEGMENTS - 1);
}

static void what_a_user_may_not_hold_is_not_held(void **state)
{
	uint32_t server = add(0, MAD_CLASS_SA, 1, 1 << 0x12), asker = add(2, MAD_CLASS_SA, 1, 0);
	uint8_t *table;

	(void)state;
	w.hold_most = 20000;
	table = make_table(w.hold_most, 1);
	assert_int_equal(send(0, server, 2, table, (uint32_t)w.hold_most, 1000, 0), -EDQUOT);
	assert_int_equal(w.carried, 0);
	free(table);
	send(2, asker, 0, make(MAD_CLASS_SA, 0x12, 9), MAD_BYTES, 1000, 0);
	table = make_table(18000, 9);
	memcpy(table, w.got[0][0].head, MAD_HEADER_BYTES);
	table[3] = 0x92;
	/* its sender has room, its receiver has none behind 16 KB */
	assert_int_equal(send(0, server, 2, table, 18000, 1000, 0), 0);
	free(table);
	assert_int_equal(w.letters[2], 0);
	assert_int_equal(w.file[2].bytes_in, 0);
}

/* Each is done before the next; they are remembered for ten seconds. */
static void tables_that_are_done_make_room(void **state)
{
	uint32_t server = add(0, MAD_CLASS_SA, 1, 1 << 0x12), asker = add(2, MAD_CLASS_SA, 1, 0);

	(void)state;
	for (unsigned i = 0; i < 3 * MAD_TRANSFERS; i++)
		ask_for_table_as(server, asker, 300, i);
	assert_int_equal(w.file[2].transfers, MAD_TRANSFERS);
}

static void say_segment(uint16_t lid, uint64_t tid, uint32_t segment)
{
	uint8_t mad[MAD_BYTES];

	memcpy(mad, make(MAD_CLASS_SA, 0x14, tid), MAD_BYTES);
	mad[24] = 1;
	mad[24] = 1;
	mad[25] = RMPP_DATA;
	mad[26] = segment == 1 ? 3 : 1;
	wire_put(mad, segment, 28, 0, 32);
	arrive(0, lid, mad);
}

static void one_sender_does_not_take_all_places(void **state)
{
	(void)state;
	add(0, MAD_CLASS_SA, 1, 1 << 0x14);
	w.is_cut = true;
	say_segment(7, 1000, 7);
	assert_int_equal(w.file[0].transfers, 0);
	for (unsigned i = 0; i < 2 * MAD_TRANSFERS; i++)
		say_segment(7, i, 1);
	assert_int_equal(w.file[0].transfers, MAD_TRANSFERS_OF_ONE);
	say_segment(8, 0, 1);
	assert_int_equal(w.file[0].transfers, MAD_TRANSFERS_OF_ONE + 1);
	assert_int_equal(w.file[0].bytes, 0);
}

/* What one LID says takes no bytes and places of others, and what strangers say none of answers. */
static void strangers_leave_room(void **state)
{
	enum { SEGMENTS = 5300 };
	(void)state;
	add(0, MAD_CLASS_SA, 1, 1 << 0x14);
	w.is_cut = true;
	for (uint16_t lid = 7; lid < 12; lid++)
		for (uint64_t tid = 0; tid < 2; tid++)
			for (uint32_t segment = 1; segment <= SEGMENTS; segment++)
				say_segment(lid, tid, segment);
	/* three of five have 2 MB each */
	assert_in_range(w.file[0].bytes_in, MAD_BYTES_UNASKED - MAD_BYTES_OF_ONE, MAD_BYTES_UNASKED);
}

static void strangers_leave_places(void **state)
{
	uint32_t asker = add(0, MAD_CLASS_SA, 1, 1 << 0x14);
	uint64_t upper = w.file[0].agent[asker].tid * (1ull << 32);

	(void)state;
	w.is_cut = true;
	for (uint16_t lid = 20; lid < 30; lid++)
		for (unsigned i = 0; i < MAD_TRANSFERS; i++)
			say_segment(lid, 100 + i, 1);
	assert_int_equal(w.file[0].transfers, MAD_TRANSFERS_UNASKED);
	for (uint64_t tid = 1; tid <= MAD_TRANSFERS - MAD_TRANSFERS_UNASKED; tid++) {
		uint8_t mad[MAD_BYTES];

		assert_int_equal(send(0, asker, 40, make(MAD_CLASS_SA, 0x12, tid), MAD_BYTES, 1000, 0), 0);
		memcpy(mad, make(MAD_CLASS_SA, 0x92, tid + upper), MAD_BYTES);
		mad[24] = 1;
		mad[25] = RMPP_DATA;
		mad[26] = 3;
		wire_put(mad, 1, 28, 0, 32);
		arrive(0, 40, mad);
		assert_int_equal(w.last[25], RMPP_ACK);
	}
}

static void one_sender_has_its_bytes(void **state)
{
	enum { SEGMENTS = 5300 };

	(void)state;
	add(0, MAD_CLASS_SA, 1, 1 << 0x14);
	w.is_cut = true;
	for (uint64_t tid = 0; tid < 4; tid++)
		for (uint32_t segment = 1; segment <= SEGMENTS; segment++)
			say_segment(7, tid, segment);
	assert_in_range(w.file[0].bytes_in, 1, MAD_BYTES_OF_ONE);
	say_segment(8, 0, 1);
	assert_int_equal(w.last[25], RMPP_ACK);
}

/* As a program that segments by itself: the first answer ends the request, and what follows comes too. */
static void with_user_rmpp_the_first_answer_ends_the_request(void **state)
{
	const struct mad_registration what = { .mgmt_class = MAD_CLASS_SA, .class_version = 1, .rmpp_version = 1,
					       .is_user_rmpp = true };
	uint8_t answer[MAD_BYTES];
	uint32_t a;

	(void)state;
	assert_int_equal(mad_register(&w.clients, &w.file[0], &what, &a), 0);
	w.is_cut = true;
	assert_int_equal(send(0, a, 100, make(MAD_CLASS_SA, 0x12, 5), MAD_BYTES, 100, 3), 0);
	memcpy(answer, make(MAD_CLASS_SA, 0x92, 5 + (w.file[0].agent[a].tid * (1ull << 32))), MAD_BYTES);
	wire_put(answer, 1, 26, 7, 1);
	answer[25] = RMPP_DATA;
	for (unsigned i = 1; i <= 3; i++) {
		arrive(0, 100, answer);
		assert_int_equal(w.letters[0], i);
	}
	assert_true(mad_clients_deadline(&w.clients) == WTIME_NEVER);
	answer[26] = 0;
	arrive(0, 100, answer);
	assert_int_equal(w.letters[0], 3);
}

static void set_lengths(uint32_t longest_kb, uint32_t program_kb, int wanted)
{
	struct gsa_tunables t = gsa_defaults;

	t.longest_kb = longest_kb;
	t.program_kb = program_kb;
	assert_int_equal(mad_buffers_set(&w.clients.buffers, &t), wanted);
}

static void lengths_make_sense(void **state)
{
	(void)state;
	set_lengths(MAD_ANSWER_LEAST_KB, MAD_PROGRAM_LEAST_KB, 0);
	set_lengths(MAD_ANSWER_MOST_KB, MAD_PROGRAM_MOST_KB, 0);
	set_lengths(MAD_ANSWER_LEAST_KB - 1, MAD_PROGRAM_LEAST_KB, -EINVAL);
	set_lengths(MAD_ANSWER_LEAST_KB, MAD_PROGRAM_LEAST_KB - 1, -EINVAL);
	set_lengths(MAD_ANSWER_MOST_KB + 1, MAD_PROGRAM_MOST_KB, -EINVAL);
	set_lengths(MAD_ANSWER_MOST_KB, MAD_PROGRAM_MOST_KB + 1, -EINVAL);
	/* a program has room for one of the longest */
	set_lengths(MAD_PROGRAM_LEAST_KB, MAD_PROGRAM_LEAST_KB, -EINVAL);
}

static void run_out(void)
{
	while (mad_clients_deadline(&w.clients) <= w.now)
		expire(w.now);
}

/* What was asked for may be long, what was not may not. */
static void an_answer_may_be_longer_than_a_request(void **state)
{
	enum { BYTES = 9 << 20 };
	uint32_t server = add(0, MAD_CLASS_SA, 1, 1 << 0x12), asker = add(2, MAD_CLASS_SA, 1, 0);
	uint8_t *table = make_table(BYTES, 9), *kept = table;
	struct mad_letter l = { .agent = server, .remote = { .lid = 2, .qpn = 1 }, .data = table, .bytes = BYTES, .gift = &kept };

	(void)state;
	send(2, asker, 0, make(MAD_CLASS_SA, 0x12, 9), MAD_BYTES, 1000, 0);
	memcpy(table, w.got[0][0].head, MAD_HEADER_BYTES);
	table[3] = 0x12;
	assert_int_equal(mad_send(&w.clients, w.now, &w.file[0], &l), -EINVAL);
	assert_ptr_equal(kept, table);
	table[3] = 0x92;
	set_lengths(8 << 10, 16 << 10, 0);
	assert_int_equal(mad_send(&w.clients, w.now, &w.file[0], &l), -EINVAL);
	set_lengths(10 << 10, 20 << 10, 0);
	assert_int_equal(mad_send(&w.clients, w.now, &w.file[0], &l), 0);
	/* it is the room's now */
	assert_null(kept);
	run_out();
	assert_int_equal(w.letters[2], 1);
	assert_int_equal(w.got[2][0].letter.bytes, BYTES);
	assert_int_equal(w.file[2].bytes_in, 0);
	assert_int_equal(w.file[0].bytes, 0);
}

/* An answer that is made while it is sent: byte n is (uint8_t)(n * 7). */
struct spring {
	struct mad_source source;
	uint32_t given, all, piece;	/* bytes; at a time */
	uint32_t dries;			/* at this byte it gives up; 0: never */
	unsigned asked, ends;
	size_t most;			/* that file 0 had while it was asked */
};

static enum mad_given spring_give(struct mad_source *source, uint8_t *to, uint32_t room, uint32_t *bytes)
{
	struct spring *s = container_of(source, struct spring, source);

	s->asked++;
	s->most = w.file[0].bytes > s->most ? w.file[0].bytes : s->most;
	if (s->dries && s->given >= s->dries)
		return MAD_GIVES_UP;
	for (*bytes = 0; *bytes < room && *bytes < s->piece && s->given < s->all; ++*bytes)
		to[*bytes] = (uint8_t)(s->given++ * 7);
	return s->given < s->all ? MAD_GIVES_MORE : MAD_GAVE_ALL;
}

static void spring_end(struct mad_source *source)
{
	container_of(source, struct spring, source)->ends++;
}

/* The answer to the last question of file 2, with so many bytes before the spring's. */
static int answer_from(struct spring *s, uint32_t server, uint32_t first)
{
	static uint8_t table[MAD_LONGEST];
	struct mad_source *source = &s->source;
	struct mad_letter l = { .agent = server, .remote = { .lid = 2, .qpn = 1 }, .data = table, .bytes = 56 + first,
				.source = &source };
	int err;

	s->source = (struct mad_source){ spring_give, spring_end };
	memset(table, 0, sizeof(table));
	memcpy(table, w.got[0][(w.letters[0] - 1) % GOT].head, MAD_HEADER_BYTES);
	table[3] = 0x92;
	wire_put(table, 1, 26, 7, 1);
	for (uint32_t i = 0; i < first; i++)
		table[56 + i] = (uint8_t)(s->given++ * 7);
	err = mad_send(&w.clients, w.now, &w.file[0], &l);
	assert_ptr_equal(source, err ? &s->source : NULL);
	return err;
}

static void run_on(struct spring *s)
{
	for (int i = 0; i < 100000 && !s->ends; i++)
		expire(wtime_min(mad_clients_deadline(&w.clients), w.now + WTIME_S));
}

/* What it holds is bounded, whatever its length and its receiver's window; where it needs time, others have theirs. */
static void an_answer_is_made_while_it_is_sent(void **state)
{
	enum { BYTES = 20 << 20 };
	static const struct { uint32_t first, piece, window; } rows[] = {
		{ 400 << 10, UINT32_MAX, 64 }, { 0, UINT32_MAX, 1024 }, { 1000, 50000, 1024 }, { 199, 150, 16 },
		{ 200, UINT32_MAX, 1 }, { MAD_LONGEST - 56, UINT32_MAX, 64 },
	};
	uint32_t server = add(0, MAD_CLASS_SA, 1, 1 << 0x12), asker = add(2, MAD_CLASS_SA, 1, 0);

	(void)state;
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		struct spring s = { .all = rows[i].window > 16 ? BYTES : 100000, .piece = rows[i].piece };
		struct gsa_tunables t = gsa_defaults;
		uint32_t wrong = 0;

		t.window = rows[i].window;
		assert_int_equal(mad_buffers_set(&w.clients.buffers, &t), 0);
		w.keep_whole = true;
		send(2, asker, 0, make(MAD_CLASS_SA, 0x12, i), MAD_BYTES, 1000, 0);
		assert_int_equal(answer_from(&s, server, rows[i].first), 0);
		run_on(&s);
		run_out();
		assert_int_equal(s.ends, 1);
		assert_int_equal(w.letters[2], i + 1);
		assert_int_equal(w.got[2][i % GOT].letter.bytes, 56 + s.all);
		for (uint32_t k = 0; k < s.all; k++)
			wrong += w.whole[56 + k] != (uint8_t)(k * 7);
		assert_int_equal(wrong, 0);
		/* what is at hand counts */
		assert_in_range(s.most, 400 << 10, MAD_AT_HAND_BYTES + rows[i].first + 4096);
		assert_int_equal(w.file[0].bytes, 0);
	}
	free(w.whole);
}

/* It takes longer for each piece than an ACK does, and has less than a window: each segment goes once all the same. */
static void an_answer_that_pauses_goes_once(void **state)
{
	enum { SEGMENTS = 300, ROUND_NS = 4 * WTIME_MS };
	uint32_t server = add(0, MAD_CLASS_SA, 1, 1 << 0x12), asker = add(2, MAD_CLASS_SA, 1, 0);
	struct spring s = { .all = 200 * SEGMENTS, .piece = 500 };

	(void)state;
	send(2, asker, 0, make(MAD_CLASS_SA, 0x12, 1), MAD_BYTES, 1000, 0);
	assert_int_equal(answer_from(&s, server, 0), 0);
	for (int i = 0; i < SEGMENTS && !s.ends; i++) {
		assert_true(mad_clients_deadline(&w.clients) <= w.now + 1);
		expire(w.now + ROUND_NS);
	}
	run_out();
	assert_int_equal(w.letters[2], 1);
	assert_int_equal(w.got[2][0].letter.bytes, 56 + s.all);
	assert_int_equal(w.to[2], SEGMENTS);
}

static void gives_up_at(uint32_t dries)
{
	uint32_t server = add(0, MAD_CLASS_SA, 1, 1 << 0x12), asker = add(2, MAD_CLASS_SA, 1, 0);
	struct spring s = { .all = 1 << 20, .piece = UINT32_MAX, .dries = dries };
	unsigned questions = w.letters[0], answers = w.letters[2];

	send(2, asker, 0, make(MAD_CLASS_SA, 0x12, dries), MAD_BYTES, 1000, 1);
	assert_int_equal(answer_from(&s, server, 1000), 0);
	run_on(&s);
	assert_int_equal(s.ends, 1);
	assert_int_equal(w.file[0].requests, 0);
	assert_int_equal(w.file[2].transfers, 0);
	/* the question goes again, and is answered */
	expire(w.now + WTIME_S);
	assert_int_equal(w.letters[0], questions + 2);
	s = (struct spring){ .all = 1 << 20, .piece = UINT32_MAX };
	assert_int_equal(answer_from(&s, server, 1000), 0);
	run_on(&s);
	run_out();
	assert_int_equal(w.letters[2], answers + 1);
	assert_int_equal(w.got[2][answers % GOT].letter.bytes, 56 + s.all);
	assert_int_equal(mad_unregister(&w.clients, &w.file[0], server), 0);
	assert_int_equal(mad_unregister(&w.clients, &w.file[2], asker), 0);
}

/* Its asker hears of it, and may ask again: in the midst, and where nothing was made at all. */
static void an_answer_that_cannot_be_gone_on_with_ends(void **state)
{
	(void)state;
	gives_up_at(300000);
	gives_up_at(1000);
}

/* A receiver that hears nothing, or a file that is closed. */
static void what_is_not_asked_any_more_ends(void **state)
{
	uint32_t server = add(0, MAD_CLASS_SA, 1, 1 << 0x12), asker = add(2, MAD_CLASS_SA, 1, 0);
	struct spring s = { .all = 1 << 20, .piece = UINT32_MAX }, other = s;

	(void)state;
	send(2, asker, 0, make(MAD_CLASS_SA, 0x12, 1), MAD_BYTES, 1000, 0);
	w.is_cut = true;
	assert_int_equal(answer_from(&s, server, 1000), 0);
	run_on(&s);
	assert_int_equal(s.ends, 1);
	assert_int_equal(s.asked, 0);
	assert_int_equal(answer_from(&other, server, 1000), 0);
	assert_int_equal(mad_unregister(&w.clients, &w.file[0], server), 0);
	assert_int_equal(other.ends, 1);
}

/* A question, or what has no segments, is not made while it is sent. */
static void only_an_answer_in_segments_is_made(void **state)
{
	uint32_t server = add(0, MAD_CLASS_SA, 1, 1 << 0x12), plain = add(0, CLASS, 0, 1 << MAD_GET);
	uint8_t mad[MAD_BYTES];
	struct spring s = { .source = { spring_give, spring_end } };
	struct mad_source *source = &s.source;
	struct mad_letter l = { .agent = server, .remote = { .lid = 2, .qpn = 1 }, .data = mad, .bytes = MAD_BYTES,
				.source = &source };

	(void)state;
	memcpy(mad, make(MAD_CLASS_SA, 0x12, 1), MAD_BYTES);
	wire_put(mad, 1, 26, 7, 1);
	assert_int_equal(mad_send(&w.clients, w.now, &w.file[0], &l), -EINVAL);
	l.agent = plain;
	memcpy(mad, make(CLASS, MAD_GET_RESP, 1), MAD_BYTES);
	assert_int_equal(mad_send(&w.clients, w.now, &w.file[0], &l), -EINVAL);
	assert_ptr_equal(source, &s.source);
	assert_int_equal(s.ends, 0);
}

/* Weftd's own administration: who asks for many tables leaves others theirs. */
static void one_lid_leaves_room_to_others(void **state)
{
	uint32_t server = add(0, MAD_CLASS_SA, 1, 1 << 0x12);
	uint8_t *table = make_table(MAD_LONGEST, 0);

	(void)state;
	w.is_cut = true;
	assert_true(mad_has_room_for(&w.file[0], 2));
	assert_int_equal(send(0, server, 2, table, MAD_LONGEST, 0, 0), 0);
	assert_true(mad_has_room_for(&w.file[0], 2));
	wire_put(table, 1, 8, 0, 64);
	assert_int_equal(send(0, server, 2, table, MAD_LONGEST, 0, 0), 0);
	assert_false(mad_has_room_for(&w.file[0], 2));
	assert_true(mad_has_room_for(&w.file[0], 3));
	for (uint16_t lid = 3; mad_has_room(&w.file[0]); lid++)
		assert_int_equal(send(0, server, lid, table, MAD_LONGEST, 0, 0), 0);
	assert_in_range(w.file[0].bytes, MAD_FILE_BYTES - 2 * MAD_LONGEST, MAD_FILE_BYTES);
	assert_false(mad_has_room_for(&w.file[0], 99));
	free(table);
}

/* Its owner keeps what it has not read: that leaves no more. */
static void what_is_unread_counts(void **state)
{
	uint32_t server = add(0, MAD_CLASS_SA, 1, 1 << 0x12), asker = add(2, MAD_CLASS_SA, 1, 0);
	uint8_t *table = make_table(3 << 20, 9);

	(void)state;
	set_lengths(4 << 10, 8 << 10, 0);
	for (int i = 0; i < 2; i++) {
		w.file[2].unread = (size_t)(i ? 3 : 5) << 20;
		send(2, asker, 0, make(MAD_CLASS_SA, 0x12, 9), MAD_BYTES, 1000, 0);
		memcpy(table, w.got[0][i].head, MAD_HEADER_BYTES);
		table[3] = 0x92;
		assert_int_equal(send(0, server, 2, table, 3 << 20, 0, 0), 0);
		run_out();
		assert_int_equal(w.letters[2], 2 * i);
		expire(w.now + WTIME_S);
		assert_int_equal(w.letters[2], 1 + i);
	}
	w.file[2].unread = 0;
	free(table);
}

/* Who asks for many long answers leaves room for those to others. */
static void one_lid_does_not_take_all_answers(void **state)
{
	enum { BYTES = 1 << 20, HALF = 6 };
	uint32_t server = add(0, MAD_CLASS_SA, 1, 1 << 0x12);
	uint8_t *table = make_table(BYTES, 0);

	(void)state;
	w.is_cut = true;
	set_lengths(2 << 10, 13 << 10, 0);
	for (uint64_t tid = 0; tid < HALF + 2; tid++) {
		wire_put(table, tid, 8, 0, 64);
		assert_int_equal(send(0, server, 2, table, BYTES, 0, 0), tid < HALF ? 0 : -EDQUOT);
	}
	assert_int_equal(send(0, server, 3, table, BYTES, 0, 0), 0);
	/* but as much as one of the longest, and what is one MAD */
	set_lengths(12 << 10, 13 << 10, 0);
	assert_int_equal(send(0, server, 2, table, BYTES, 0, 0), 0);
	assert_int_equal(send(0, server, 2, make(MAD_CLASS_SA, 0x92, 99), MAD_BYTES, 0, 0), 0);
	free(table);
}

static void an_id_under_way_is_not_taken_again(void **state)
{
	uint32_t a = add(0, CLASS, 0, 0), b = add(0, CLASS, 0, 0);

	(void)state;
	w.is_cut = true;
	assert_int_equal(send(0, a, 100, make(CLASS, MAD_GET, 5), MAD_BYTES, 100, 0), 0);
	assert_int_equal(send(0, a, 101, make(CLASS, MAD_GET, 5), MAD_BYTES, 100, 0), -EINVAL);
	assert_int_equal(send(0, b, 101, make(CLASS, MAD_GET, 5), MAD_BYTES, 100, 0), 0);
	mad_clients_expire(&w.clients, 100 * WTIME_MS);
	assert_int_equal(w.letters[0], 2);
	assert_int_equal(send(0, a, 101, make(CLASS, MAD_GET, 5), MAD_BYTES, 100, 0), 0);
}

/* A file may have agents of both, but none is both. */
static void an_agent_sends_by_its_own_qp(void **state)
{
	uint32_t gmp = add(0, CLASS, 0, 0), any = add(0, 0, 0, 0), smp = add(0, MAD_CLASS_SUBN_DIRECTED, 0, 0);

	(void)state;
	assert_int_equal(send(0, gmp, 100, make(MAD_CLASS_SUBN_LID, MAD_SET, 1), MAD_BYTES, 0, 0), -EINVAL);
	assert_int_equal(send(0, any, 100, make(MAD_CLASS_SUBN_DIRECTED, MAD_SET, 1), MAD_BYTES, 0, 0), -EINVAL);
	assert_int_equal(send(0, smp, 100, make(CLASS, MAD_SET, 1), MAD_BYTES, 0, 0), -EINVAL);
	assert_int_equal(w.carried, 0);
	assert_int_equal(send(0, smp, 100, make(MAD_CLASS_SUBN_LID, MAD_SET, 1), MAD_BYTES, 0, 0), 0);
	assert_int_equal(send(0, any, 100, make(CLASS, MAD_SET, 1), MAD_BYTES, 0, 0), 0);
	assert_int_equal(w.carried, 2);
}

static void a_file_has_its_share(void **state)
{
	uint32_t a = add(0, CLASS, 0, 0), b = add(1, CLASS, 0, 0), agent;
	const struct mad_registration what = { .mgmt_class = CLASS, .class_version = 1 };

	(void)state;
	w.is_cut = true;
	for (unsigned i = 0; i < MAD_REQUESTS; i++)
		assert_int_equal(send(0, a, 100, make(CLASS, MAD_GET, i), MAD_BYTES, 100, 0), 0);
	assert_int_equal(send(0, a, 100, make(CLASS, MAD_GET, MAD_REQUESTS), MAD_BYTES, 100, 0), -EDQUOT);
	assert_int_equal(send(1, b, 100, make(CLASS, MAD_GET, 1), MAD_BYTES, 100, 0), 0);
	for (unsigned i = 1; i < MAD_AGENTS; i++)
		add(0, CLASS, 0, 0);
	assert_int_equal(mad_register(&w.clients, &w.file[0], &what, &agent), -EDQUOT);
}

static void agents_that_cannot_be(void **state)
{
	static const struct mad_registration bad[] = {
		{ .mgmt_class = CLASS, .class_version = 0x83 }, { .mgmt_class = MAD_CLASS_SA, .rmpp_version = 2 },
		{ .mgmt_class = CLASS, .class_version = 1, .rmpp_version = 1 },
		{ .mgmt_class = MAD_CLASS_SUBN_DIRECTED, .class_version = 1, .rmpp_version = 1 },
		{ .mgmt_class = 0x50, .class_version = 1, .methods = { 2 } }, { .mgmt_class = 0xff, .class_version = 1 },
		{ .mgmt_class = 0x30, .class_version = 1, .methods = { 2 } }, { .methods = { 2 } },
		{ .mgmt_class = 0x30, .class_version = 1, .oui = 1 << 24 },
	};
	uint32_t agent;

	(void)state;
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
		assert_int_equal(mad_register(&w.clients, &w.file[0], &bad[i], &agent), -EINVAL);
}

static const struct gsa_client *buffers_of(int file, uint32_t agent)
{
	const struct mad_agent *a = &w.file[file].agent[agent];

	return &mad_agent_buffers(&w.file[file], a)->client[a->client];
}

/* GSA-10 */
static void a_number_at_registration(void **state)
{
	const struct mad_registration what = { .mgmt_class = CLASS, .class_version = 1, .buffers = 100 };
	uint32_t own, other = add(0, CLASS, 0, 0);

	(void)state;
	assert_int_equal(mad_register(&w.clients, &w.file[0], &what, &own), 0);
	assert_int_equal(buffers_of(0, own)->target, 100);
	assert_int_equal(buffers_of(0, other)->target, 16);
	assert_int_equal(mad_register(&w.clients, &w.file[0], &(struct mad_registration){ .mgmt_class = CLASS, .class_version = 1,
			 .buffers = 70000 }, &own), -ENOSPC);
}

/* GSA-26, 27, 37: what a file has and did not give back is counted with its agent alone, and beyond its number and what is left
 * it is lost; another agent of that port has its own. */
static void what_is_not_given_back_is_held(void **state)
{
	uint32_t deaf = add(0, CLASS, 0, 1 << MAD_GET), other = add(1, CLASS + 1, 0, 1 << MAD_GET), asker = add(2, CLASS, 0, 0);
	uint32_t asks_other = add(2, CLASS + 1, 0, 0);
	struct gsa_tunables t = gsa_defaults;

	(void)state;
	t.most = 100;
	assert_int_equal(mad_buffers_set(&w.clients.buffers, &t), 0);
	w.holds = true;
	for (unsigned i = 0; i < 200; i++)
		send(2, asker, 0, make(CLASS, MAD_GET, i), MAD_BYTES, 0, 0);
	/* the port has 2 residents and 2 agents with 16 each */
	assert_int_equal(w.letters[0], 100 - 3 * 16);
	assert_int_equal(buffers_of(0, deaf)->held, w.letters[0]);
	assert_int_equal(buffers_of(0, deaf)->discards, 200 - w.letters[0]);
	for (unsigned i = 0; i < 16; i++)
		send(2, asks_other, 0, make(CLASS + 1, MAD_GET, i), MAD_BYTES, 0, 0);
	assert_int_equal(w.letters[1], 16);
	assert_int_equal(buffers_of(1, other)->discards, 0);
	mad_gave_back(&w.file[0], deaf, 10);
	assert_int_equal(buffers_of(0, deaf)->held, 100 - 3 * 16 - 10);
	mad_gave_back(&w.file[0], deaf, UINT32_MAX);
	assert_int_equal(buffers_of(0, deaf)->held, 0);
	mad_gave_back(&w.file[0], MAD_AGENTS, 1);
	mad_gave_back(&w.file[0], deaf + 1, 1);
	assert_int_equal(mad_change_buffers(&w.file[0], deaf, 5), 0);
	assert_int_equal(buffers_of(0, deaf)->asked, 21);
	assert_int_equal(mad_change_buffers(&w.file[0], deaf, -22), -EINVAL);
	assert_int_equal(mad_change_buffers(&w.file[0], deaf + 1, 1), -ENOENT);
	/* the last agent of a port takes its pool along */
	assert_int_equal(mad_unregister(&w.clients, &w.file[0], deaf), 0);
	assert_int_equal(mad_unregister(&w.clients, &w.file[1], other), 0);
	assert_null(mad_pool_find(&w.clients.buffers, 0));
	assert_non_null(mad_pool_find(&w.clients.buffers, 2));
}

/* A datagram that nobody holds gives its buffer back where it is taken in: what weftd's own hears, a segment, an ACK. */
static void what_is_done_with_is_given_back(void **state)
{
	uint32_t server = add(0, MAD_CLASS_SA, 1, 1 << 0x12), asker = add(2, MAD_CLASS_SA, 1, 0);

	(void)state;
	ask_for_table(server, asker, 56 + 64 * 1000);
	assert_int_equal(buffers_of(2, asker)->held, 0);
	assert_int_equal(buffers_of(0, server)->held, 0);
	assert_true(buffers_of(2, asker)->arrivals > 300);
	assert_int_equal(buffers_of(2, asker)->lent, 0);
	w.holds = true;
	ask_for_table(server, asker, 56 + 64 * 1000);
	assert_int_equal(buffers_of(2, asker)->held, 1);
	assert_int_equal(buffers_of(0, server)->held, 1);
}

/* while segments come the agent has its window of buffers more. */
static void a_table_that_comes_borrows_its_window(void **state)
{
	static uint8_t table[56 + 64 * 1000];
	uint32_t server = add(0, MAD_CLASS_SA, 1, 1 << 0x12), asker = add(2, MAD_CLASS_SA, 1, 0);

	(void)state;
	send(2, asker, 0, make(MAD_CLASS_SA, 0x12, 7), MAD_BYTES, 1000, 0);
	memcpy(table, w.got[0][0].head, MAD_BYTES);
	table[3] |= 0x80;
	table[24] = table[25] = table[26] = 1;
	w.carry_most = w.carried + 20;
	send(0, server, 2, table, sizeof(table), 1000, 0);
	assert_int_equal(buffers_of(2, asker)->lent, 64);
	assert_int_equal(buffers_of(2, asker)->target, 16 + 64);
	assert_int_equal(buffers_of(2, asker)->asked, GSA_NONE);
	w.now += 70 * WTIME_S;
	mad_clients_expire(&w.clients, w.now);
	assert_int_equal(buffers_of(2, asker)->lent, 0);
}

/* A window that is set is of what begins then. */
static void segments_come_by_the_window_that_is_set(void **state)
{
	static const uint32_t windows[] = { GSA_WINDOW, 1, GSA_WINDOW_MOST };
	uint32_t agent = add(0, MAD_CLASS_SA, 1, 1 << 0x14), lent = 0;
	struct gsa_tunables t = gsa_defaults;

	(void)state;
	for (unsigned i = 0; i < 3; i++) {
		t.window = windows[i];
		assert_int_equal(mad_buffers_set(&w.clients.buffers, &t), 0);
		say_segment(7, i, 1);
		assert_int_equal(wire_get(w.last, 32, 0, 32), 1 + windows[i]);
		lent += windows[i];
		assert_int_equal(buffers_of(0, agent)->lent, lent);
	}
	mad_clients_expire(&w.clients, RMPP_IDLE_NS);
	assert_int_equal(buffers_of(0, agent)->lent, 0);
}

/* Answers of the seed's administration (class version 1) are packets of which each comes, as the program puts them together; of
 * today's the first one alone does. */
static void packets_of_a_series_all_come(void **state)
{
	struct mad_registration what = { .mgmt_class = MAD_CLASS_SA, .class_version = 1, .methods = { 1 << 0x12 } };
	uint8_t packet[MAD_BYTES];

	(void)state;
	for (uint8_t version = 1; version <= 2; version++) {
		uint32_t server, asker;

		what.class_version = version;
		assert_int_equal(mad_register(&w.clients, &w.file[0], &what, &server), 0);
		what.methods[0] = 0;
		assert_int_equal(mad_register(&w.clients, &w.file[2], &what, &asker), 0);
		what.methods[0] = 1 << 0x12;
		memcpy(packet, make(MAD_CLASS_SA, 0x12, 0x99), MAD_BYTES);
		packet[2] = version;
		send(2, asker, 0, packet, MAD_BYTES, 0, 0);
		memcpy(packet, w.got[0][version - 1].head, MAD_BYTES);
		packet[3] = 0x92;
		w.letters[2] = 0;
		for (int i = 0; i < 5; i++)
			send(0, server, 2, packet, MAD_BYTES, 0, 0);
		assert_int_equal(w.letters[2], version == 1 ? 5 : 0);
	}
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, begin, end)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(slow_links_hold_answers_up),
		TEST(slow_links_hold_requests_up),
		TEST(slow_links_hold_a_bounded_number),
		TEST(an_answer_finds_who_asked),
		TEST(a_method_is_one_agents),
		TEST(a_class_leads_to_its_client),
		TEST(a_question_is_answered_by_a_program),
		TEST(what_nobody_answers_is_refused),
		TEST(silence_is_a_timeout),
		TEST(a_table_comes_in_segments),
		TEST(a_transaction_id_is_used_again),
		TEST(what_is_no_datagram_is_not_sent),
		TEST(timeouts_and_retries_have_an_end),
		TEST(requests_end_in_their_order),
		TEST(what_is_sent_again_leaves_one_by_one),
		TEST(what_a_user_may_not_hold_is_not_held),
		TEST(tables_that_are_done_make_room),
		TEST(one_sender_does_not_take_all_places),
		TEST(with_user_rmpp_the_first_answer_ends_the_request),
		TEST(two_sides_in_segments),
		TEST(an_answer_begins_with_the_window_that_was_said),
		TEST(who_asks_itself_comes_to_an_end),
		TEST(no_call_sends_without_end),
		TEST(an_open_window_is_not_all_sent_at_once),
		TEST(open_windows_are_sent_in_turn),
		TEST(a_whole_request_goes_again),
		TEST(an_answer_that_does_not_go_on_is_none),
		TEST(strangers_leave_room),
		TEST(strangers_leave_places),
		TEST(one_sender_has_its_bytes),
		TEST(an_ack_is_of_who_is_answered),
		TEST(an_answer_on_its_way_is_waited_for),
		TEST(an_id_used_again_has_its_own_answer),
		TEST(who_cannot_be_served_hears_of_it),
		TEST(lengths_make_sense),
		TEST(an_answer_may_be_longer_than_a_request),
		TEST(what_is_unread_counts), TEST(an_answer_is_made_while_it_is_sent),
		TEST(an_answer_that_pauses_goes_once),
		TEST(an_answer_that_cannot_be_gone_on_with_ends), TEST(what_is_not_asked_any_more_ends),
		TEST(only_an_answer_in_segments_is_made), TEST(one_lid_leaves_room_to_others),
		TEST(one_lid_does_not_take_all_answers),
		TEST(an_id_under_way_is_not_taken_again),
		TEST(an_agent_sends_by_its_own_qp),
		TEST(a_file_has_its_share),
		TEST(agents_that_cannot_be),
		TEST(a_number_at_registration),
		TEST(what_is_not_given_back_is_held),
		TEST(what_is_done_with_is_given_back),
		TEST(a_table_that_comes_borrows_its_window),
		TEST(segments_come_by_the_window_that_is_set),
		TEST(packets_of_a_series_all_come),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
