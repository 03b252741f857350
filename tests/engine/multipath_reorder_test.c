/* What reordering costs the seed's unordered packets, on the link of paths_figures_test.c and with its messages: for
 * scripts/paths. */
#include "base/rand.h"
#include "multipath/requester.h"
#include "multipath/responder.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

enum { MTU = 4096, BULK = 32 << 10, AT_ONCE = 24, MESSAGES = 400, WINDOW = 64, SEEDS = 4 };

static const wtime LATE = 64 * WTIME_US, WAY = 150 * WTIME_US;

static uint64_t seed;

/* A packet that is under way. */
struct mp_frame {
	wtime at;
	bool is_answer;
	size_t bytes;
	uint8_t data[MP_HEADER + MTU + MP_CRC];
};

struct mp_world {
	struct mp_requester requester;
	struct mp_responder responder;
	struct rand rand;
	wtime now, last[2];
	unsigned frames;
	struct mp_frame frame[256];
};

static enum mp_status execute(void *arg, const struct mp_packet *p, uint8_t *answer)
{
	return MP_OK;
}

static void launch(struct mp_world *w, bool is_answer, const struct mp_packet *p, uint32_t late_ppm)
{
	struct mp_frame *f = &w->frame[w->frames++];
	wtime *last = &w->last[is_answer];

	assert_true(w->frames <= sizeof(w->frame) / sizeof(w->frame[0]));
	f->is_answer = is_answer;
	f->bytes = mp_packet_build(p, f->data);
	f->at = (*last > w->now + WAY ? *last : w->now + WAY) + f->bytes;
	*last = f->at;
	if (rand_chance(&w->rand, late_ppm))
		f->at += rand_below(&w->rand, LATE);
}

static void take_out(struct mp_world *w, uint32_t late_ppm)
{
	struct mp_packet p;
	unsigned path;

	while (mp_requester_output(&w->requester, w->now, &path, &p))
		launch(w, false, &p, late_ppm);
}

static void arrive(struct mp_world *w, uint32_t late_ppm)
{
	struct mp_packet p, reply;
	static struct mp_frame f;
	unsigned first = 0;

	for (unsigned i = 1; i < w->frames; i++)
		if (w->frame[i].at < w->frame[first].at)
			first = i;
	f = w->frame[first];
	w->frame[first] = w->frame[--w->frames];
	w->now = f.at;
	assert_true(mp_packet_parse(&p, f.data, f.bytes));
	if (f.is_answer)
		mp_requester_input(&w->requester, w->now, 0, &p);
	else if (mp_responder_input(&w->responder, 0, &p, &reply))
		launch(w, true, &reply, late_ppm);
}

static wtime stream(uint32_t late_ppm)
{
	static uint8_t data[BULK];
	static struct mp_world w;
	const struct mp_target target = { execute, &w };
	struct mp_config c;
	struct mp_completion done;
	unsigned posted = 0, completed = 0;

	memset(&w, 0, sizeof(w));
	rand_seed(&w.rand, seed);
	mp_config_init(&c);
	c.connection = 1;
	c.paths = 1;
	c.mtu_bytes = MTU;
	c.flights = WINDOW + 1;	/* one is kept */
	c.requests = AT_ONCE;
	c.timeout_ns = 67 * WTIME_MS;
	assert_int_equal(mp_requester_init(&w.requester, &c), 0);
	assert_int_equal(mp_responder_init(&w.responder, &c, &target), 0);
	while (completed < MESSAGES) {
		struct mp_request q = { .opcode = MP_WRITE, .is_unordered = true, .bytes = BULK, .from = data };

		for (; posted < MESSAGES; posted++) {
			q.id = posted;
			q.address = (uint64_t)posted * BULK;	/* what overlaps would wait (MPT-24) */
			if (mp_requester_post(&w.requester, &q))
				break;
		}
		take_out(&w, late_ppm);
		arrive(&w, late_ppm);
		for (; mp_requester_poll(&w.requester, &done); completed++)
			assert_int_equal(done.status, MP_OK);
	}
	assert_int_equal(w.requester.count.timeouts, 0);
	mp_requester_fini(&w.requester);
	mp_responder_fini(&w.responder);
	return w.now;
}

static void reordering_costs_unordered_packets_nothing(void **state)
{
	static const uint32_t late[] = { 1000, 5000, 10000, 20000, 50000, 100000, 200000, 500000 };

	for (unsigned i = 0; i < sizeof(late) / sizeof(late[0]); i++) {
		uint64_t sum = 0;

		for (seed = 1; seed <= SEEDS; seed++)
			sum += stream(0) * 100 / stream(late[i]);
		printf("reorder seed %u %u\n", late[i], (unsigned)(sum / SEEDS));
		assert_true(sum / SEEDS >= 80);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = { cmocka_unit_test(reordering_costs_unordered_packets_nothing) };

	return cmocka_run_group_tests(tests, NULL, NULL);
}
