/* What others send to the agents of programs: answers that nobody waits for, or that another sends than was asked; floods of one
 * sender. Each is refused, counted, and leaves the others what is theirs. */
#include "mgmt/mad_agents.h"
#include "mgmt/mad_sources.h"
#include "mgmt/rmpp.h"
#include "wire/field.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

enum { ASKED = 100, ALSO_ASKED = 101, CLASS = 0x04, HERE = 0, THERE = 2 };

/* At HERE is who asks and answers, at THERE a port with the LIDs 2, ASKED and ALSO_ASKED. */
static struct world {
	struct mad_clients clients;
	struct mad_file here, there;
	unsigned letters, lost;
	enum mad_fate refusal;
	bool is_cut;
} w;

static enum mad_fate carry(void *arg, wtime now, uint32_t from, unsigned qpn, const struct mad_remote *to,
			   uint8_t mad[MAD_BYTES], struct mad_coming *at)
{
	(void)arg;
	(void)now;
	(void)qpn;
	(void)mad;
	if (w.is_cut || to->lid == ASKED || to->lid == ALSO_ASKED) {
		w.lost++;
		return MAD_WAS_LOST;
	}
	*at = (struct mad_coming){ .port = to->lid, .sender = { .lid = from == THERE ? THERE : 7, .qpn = 1 } };
	return MAD_HAS_ARRIVED;
}

static enum mad_fate refuse(void *arg, wtime now, struct mad_coming *at, uint8_t mad[MAD_BYTES])
{
	(void)arg;
	(void)now;
	(void)at;
	(void)mad;
	return w.refusal;
}

static bool deliver(void *arg, struct mad_file *f, const struct mad_letter *l)
{
	(void)arg;
	assert_ptr_equal(f, &w.here);
	w.letters++;
	return !l->status;
}

static bool has_lid(void *arg, uint32_t port, uint16_t lid)
{
	(void)arg;
	return port == THERE && (lid == THERE || lid == ASKED || lid == ALSO_ASKED);
}

static bool may_hold(void *arg, const struct mad_file *f, size_t more)
{
	(void)arg;
	(void)f;
	(void)more;
	return true;
}

static int begin(void **state)
{
	static const struct mad_ops ops = { carry, refuse, deliver, has_lid, may_hold };
	const struct siphash_key key = { 1, 2 };

	(void)state;
	memset(&w, 0, sizeof(w));
	w.refusal = MAD_WAS_LOST;
	mad_clients_init(&w.clients, &ops, NULL, &key);
	mad_file_open(&w.clients, &w.here, HERE);
	mad_file_open(&w.clients, &w.there, THERE);
	return 0;
}

static int end(void **state)
{
	(void)state;
	mad_clients_fini(&w.clients);
	return 0;
}

static uint32_t add(struct mad_file *f, uint8_t mgmt_class, uint8_t rmpp, uint64_t methods)
{
	const struct mad_registration what = { .mgmt_class = mgmt_class, .class_version = 1, .rmpp_version = rmpp,
					       .methods = { methods } };
	uint32_t agent = MAD_AGENTS;

	assert_int_equal(mad_register(&w.clients, f, &what, &agent), 0);
	return agent;
}

static void make(uint8_t mad[MAD_BYTES], uint8_t mgmt_class, uint8_t method, uint64_t tid)
{
	memset(mad, 0, MAD_BYTES);
	mad[0] = mad[2] = 1;
	mad[1] = mgmt_class;
	mad[3] = method;
	wire_put(mad, tid, 8, 0, 64);
}

static void send(struct mad_file *f, uint32_t agent, uint16_t lid, const uint8_t *mad, uint32_t timeout_ms)
{
	struct mad_letter l = { .agent = agent, .timeout_ms = timeout_ms, .remote = { .lid = lid, .qpn = 1 }, .data = mad,
				.bytes = MAD_BYTES };

	assert_int_equal(mad_send(&w.clients, 0, f, &l), 0);
}

static void arrive(uint16_t lid, const uint8_t *mad)
{
	mad_comes(&w.clients, 0, &(struct mad_coming){ .port = HERE, .sender = { .lid = lid, .qpn = 1 } }, mad);
}

static const struct gsa *qp(void)
{
	return &mad_pool_find(&w.clients.buffers, HERE)->qp[1];
}

static uint64_t tid_of(uint32_t agent, uint32_t lower)
{
	return (uint64_t)w.here.agent[agent].tid << 32 | lower;
}

/* Whoever was asked before knows the agent's part of the ids, and guesses the next one. */
static void an_answer_of_another_is_none(void **state)
{
	uint32_t agent = add(&w.here, CLASS, 0, 0);
	uint8_t mad[MAD_BYTES];

	(void)state;
	make(mad, CLASS, MAD_GET, 5);
	send(&w.here, agent, ASKED, mad, 1000);
	make(mad, CLASS, MAD_GET_RESP, tid_of(agent, 5));
	arrive(7, mad);
	assert_int_equal(w.letters, 0);
	assert_int_equal(w.here.requests, 1);
	assert_true(w.here.agent[agent].unasked == 1);
	assert_true(qp()->discards == 1 && !qp()->held);
	arrive(ASKED, mad);
	assert_int_equal(w.letters, 1);
	assert_int_equal(w.here.requests, 0);
}

/* A port with several LIDs answers by any of them. */
static void a_port_answers_by_any_of_its_lids(void **state)
{
	uint32_t agent = add(&w.here, CLASS, 0, 0), other = add(&w.there, CLASS, 0, 0);
	uint8_t mad[MAD_BYTES];

	(void)state;
	make(mad, CLASS, MAD_GET, 5);
	send(&w.here, agent, ALSO_ASKED, mad, 1000);
	make(mad, CLASS, MAD_GET_RESP, tid_of(agent, 5));
	send(&w.there, other, HERE, mad, 0);
	assert_int_equal(w.letters, 1);
	assert_true(w.here.agent[agent].unasked == 0);
}

static void make_first(uint8_t mad[MAD_BYTES], uint8_t method, uint64_t tid)
{
	make(mad, MAD_CLASS_SA, method, tid);
	mad[24] = 1;
	mad[25] = RMPP_DATA;
	mad[26] = 3;
	wire_put(mad, 1, 28, 0, 32);
}

/* The same of segments, and of what ends them: a stranger neither begins an answer nor ends a request. */
static void segments_of_another_are_none(void **state)
{
	enum { BYTES = 1000 };
	uint32_t agent = add(&w.here, MAD_CLASS_SA, 1, 0);
	uint8_t mad[MAD_BYTES], request[BYTES] = { 1, MAD_CLASS_SA, 1, 0x14 }, reply[MAD_BYTES];
	const struct mad_letter l = { .agent = agent, .timeout_ms = 1000, .remote = { .lid = ASKED, .qpn = 1 }, .data = request,
				      .bytes = BYTES };

	(void)state;
	wire_put(request, 1, 26, 7, 1);
	wire_put(request, 6, 8, 0, 64);
	assert_int_equal(mad_send(&w.clients, 0, &w.here, &l), 0);
	assert_int_equal(w.lost, 1);
	make(mad, MAD_CLASS_SA, 0x14, tid_of(agent, 6));
	rmpp_ack(mad, 1, 64, reply);
	arrive(7, reply);
	assert_int_equal(w.lost, 1);
	rmpp_end(mad, RMPP_UNSPECIFIED, reply);
	arrive(7, reply);
	assert_int_equal(w.here.requests, 1);
	make_first(mad, 0x94, tid_of(agent, 6));
	arrive(7, mad);
	assert_int_equal(w.here.transfers, 0);
	assert_true(w.here.agent[agent].unasked == 3);
	arrive(ASKED, mad);
	assert_int_equal(w.here.transfers, 1);
}

/* Who was asked begins one answer to each question, and takes no places and no windows of others' answers. */
static void an_answer_begins_once(void **state)
{
	uint32_t agent = add(&w.here, MAD_CLASS_SA, 1, 0), other = add(&w.there, MAD_CLASS_SA, 0, 0);
	uint8_t mad[MAD_BYTES], reply[MAD_BYTES];

	(void)state;
	make(mad, MAD_CLASS_SA, 0x12, 6);
	send(&w.here, agent, ASKED, mad, 1000);
	make(mad, MAD_CLASS_SA, 0x12, 7);
	send(&w.here, agent, 50, mad, 1000);
	for (unsigned method = 0x80; method < 0x80 + 2 * MAD_TRANSFERS; method++) {
		make_first(mad, (uint8_t)method, tid_of(agent, 6));
		arrive(ASKED, mad);
	}
	assert_int_equal(w.here.transfers, 1);
	assert_int_equal(qp()->client[w.here.agent[agent].client].lent, GSA_WINDOW);
	assert_true(w.here.agent[agent].unasked == 2 * MAD_TRANSFERS - 1);
	/* from another LID of its port it begins when the first one has ended */
	send(&w.there, other, HERE, mad, 0);
	assert_int_equal(w.here.transfers, 1);
	make_first(mad, 0x80, tid_of(agent, 6));
	rmpp_end(mad, RMPP_UNSPECIFIED, reply);
	reply[3] = 0x80;
	arrive(ASKED, reply);
	assert_int_equal(w.here.transfers, 0);
	send(&w.there, other, HERE, mad, 0);
	assert_int_equal(w.here.transfers, 1);
	make_first(mad, 0x92, tid_of(agent, 7));
	arrive(50, mad);
	assert_int_equal(w.here.transfers, 2);
}

/* Where one file asks and answers in a class, a stranger's request is heard: it says nothing of what the file asks, whatever its
 * id. The same id is no answer's either, so that the file may ask by it. */
static void requests_say_nothing_of_requests(void **state)
{
	enum { BYTES = 1000 };
	uint32_t agent = add(&w.here, MAD_CLASS_SA, 1, 0), server = add(&w.here, MAD_CLASS_SA, 1, 1 << 0x14);
	uint8_t mad[MAD_BYTES], data[BYTES] = { 1, MAD_CLASS_SA, 1, 0x94 }, reply[MAD_BYTES];
	struct mad_letter l = { .agent = server, .remote = { .lid = 7, .qpn = 1 }, .data = data, .bytes = BYTES };

	(void)state;
	w.is_cut = true;
	wire_put(data, 1, 26, 7, 1);
	wire_put(data, tid_of(agent, 6), 8, 0, 64);
	assert_int_equal(mad_send(&w.clients, 0, &w.here, &l), 0);
	data[3] = 0x14;
	wire_put(data, 6, 8, 0, 64);
	l = (struct mad_letter){ .agent = agent, .timeout_ms = 1000, .remote = { .lid = ASKED, .qpn = 1 }, .data = data,
				 .bytes = BYTES };
	assert_int_equal(mad_send(&w.clients, 0, &w.here, &l), 0);
	assert_int_equal(w.lost, 2);
	/* as of a datagram whose ACKs are requests */
	make(mad, MAD_CLASS_SA, 0x94, tid_of(agent, 6));
	rmpp_ack(mad, 1, 64, reply);
	arrive(9, reply);
	assert_int_equal(w.lost, 2);
	rmpp_end(mad, RMPP_UNSPECIFIED, reply);
	arrive(9, reply);
	assert_int_equal(w.here.requests, 2);
	assert_int_equal(w.letters, 0);
	/* it ends the answer to who sends it */
	arrive(7, reply);
	assert_int_equal(w.here.requests, 1);
	/* and of a request it is a response */
	make(mad, MAD_CLASS_SA, 0x14, tid_of(agent, 6));
	rmpp_ack(mad, 1, 64, reply);
	arrive(ASKED, reply);
	assert_int_equal(w.lost, 2 + 4);
	rmpp_end(mad, RMPP_UNSPECIFIED, reply);
	arrive(ASKED, reply);
	assert_int_equal(w.here.requests, 0);
	assert_int_equal(w.letters, 1);
}

/* GSA-30: it is counted where it came to, and its buffer is posted again. */
static void what_nobody_waits_for_is_counted(void **state)
{
	uint32_t agent = add(&w.here, CLASS, 0, 1 << MAD_GET), sa = add(&w.here, MAD_CLASS_SA, 1, 0), posted = qp()->posted;
	uint8_t mad[MAD_BYTES], reply[MAD_BYTES];

	(void)state;
	/* of no agent */
	make(mad, CLASS, MAD_GET_RESP, 5);
	arrive(7, mad);
	make(mad, CLASS, MAD_SET, 5);
	arrive(7, mad);
	w.refusal = MAD_WAS_ANSWERED;
	arrive(7, mad);
	assert_true(qp()->unknown == 3);
	/* of an agent that has not asked */
	make(mad, CLASS, MAD_GET_RESP, tid_of(agent, 5));
	arrive(7, mad);
	make_first(mad, 0x92, tid_of(sa, 5));
	arrive(7, mad);
	rmpp_end(mad, RMPP_NO_RESOURCES, reply);
	reply[3] |= MAD_RESPONSE;
	arrive(7, reply);
	assert_true(w.here.agent[agent].unasked == 1 && w.here.agent[sa].unasked == 2);
	assert_int_equal(w.here.transfers, 0);
	assert_int_equal(w.letters, 0);
	assert_int_equal(qp()->posted, posted);
	assert_true(qp()->arrivals == 6 && !qp()->drops);
}

/* What one sender fills with what is not read is bounded, and others are heard behind it. */
static void one_sender_does_not_fill_an_agent(void **state)
{
	uint32_t agent = add(&w.here, CLASS, 0, 1 << MAD_GET);
	uint8_t mad[MAD_BYTES];

	(void)state;
	make(mad, CLASS, MAD_GET, 5);
	for (unsigned i = 0; i < 3 * MAD_HELD_OF_ONE; i++)
		arrive(7, mad);
	assert_int_equal(w.letters, MAD_HELD_OF_ONE);
	assert_true(qp()->discards == 2 * MAD_HELD_OF_ONE);
	assert_true(qp()->client[w.here.agent[agent].client].discards == 2 * MAD_HELD_OF_ONE);
	for (uint16_t lid = 8; lid < 108; lid++)
		arrive(lid, mad);
	assert_int_equal(w.letters, MAD_HELD_OF_ONE + 100);
	/* as much as was read */
	mad_gave_back(&w.here, agent, 10);
	for (unsigned i = 0; i < 20; i++)
		arrive(7, mad);
	assert_int_equal(w.letters, MAD_HELD_OF_ONE + 100 + 10);
	/* the agent's own answers are bounded by what it asks */
	make(mad, CLASS, MAD_GET, 9);
	send(&w.here, agent, ASKED, mad, 1000);
	make(mad, CLASS, MAD_GET_RESP, tid_of(agent, 9));
	arrive(ASKED, mad);
	assert_int_equal(w.letters, MAD_HELD_OF_ONE + 100 + 11);
	mad_gave_back(&w.here, agent, UINT32_MAX);
	assert_int_equal(mad_agent_held(&w.here.agent[agent], 7), 0);
}

/* GSA-02: by the fixed depth of old there is no such bound. */
static void by_the_fixed_depth_one_sender_fills_all(void **state)
{
	struct gsa_tunables t = gsa_defaults;
	uint8_t mad[MAD_BYTES];

	(void)state;
	add(&w.here, CLASS, 0, 1 << MAD_GET);
	t.fixed = 2 * MAD_HELD_OF_ONE;
	assert_int_equal(mad_buffers_set(&w.clients.buffers, &t), 0);
	make(mad, CLASS, MAD_GET, 5);
	for (unsigned i = 0; i < 3 * MAD_HELD_OF_ONE; i++)
		arrive(7, mad);
	assert_int_equal(w.letters, 2 * MAD_HELD_OF_ONE);
	assert_true(qp()->drops == MAD_HELD_OF_ONE && !qp()->discards);
}

static void the_oldest_goes_first(void **state)
{
	struct mad_sources *s = NULL;

	(void)state;
	mad_sources_take(s);
	assert_int_equal(mad_sources_of(s, 1), 0);
	for (unsigned round = 0; round < 3; round++) {
		for (uint16_t i = 0; i < 1000; i++)
			mad_sources_add(&s, i < 300 ? 1 : i % 2 ? 2 : 3);
		assert_int_equal(mad_sources_of(s, 1), 300);
		assert_int_equal(mad_sources_of(s, 2), 350);
		for (unsigned i = 0; i < 300; i++)
			mad_sources_take(s);
		assert_int_equal(mad_sources_of(s, 1), 0);
		assert_int_equal(mad_sources_of(s, 3), 350);
		for (unsigned i = 0; i < 701; i++)
			mad_sources_take(s);
		assert_int_equal(mad_sources_of(s, 2) + mad_sources_of(s, 3), 0);
	}
	mad_sources_free(s);
	mad_sources_free(NULL);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, begin, end)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(an_answer_of_another_is_none),
		TEST(a_port_answers_by_any_of_its_lids),
		TEST(segments_of_another_are_none),
		TEST(an_answer_begins_once),
		TEST(requests_say_nothing_of_requests),
		TEST(what_nobody_waits_for_is_counted),
		TEST(one_sender_does_not_fill_an_agent),
		TEST(by_the_fixed_depth_one_sender_fills_all),
		TEST(the_oldest_goes_first),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
