/* Ten thousand connections between two communication managers, over a path that loses one message in ten, in virtual time. */
#include "mgmt/cm.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>
#include <infiniband/verbs.h>
#include <stdlib.h>
#include <string.h>

enum { SIDES = 2, MANY = 10000, FLIGHTS = 1 << 16, SERVICE = 0x1061234, LOST_PERCENT = 10 };
static const wtime DELAY = WTIME_MS;

/* Of one connection, at one side. */
struct end {
	struct cm_id *id;
	int established, disconnected;
	bool left;		/* it was destroyed before its end was told */
};

struct flight {
	int to;
	wtime at;
	uint8_t mad[MAD_BYTES];
};

struct storm {
	struct cm cm[SIDES];
	struct end end[SIDES][MANY];
	int accepted, refused;
	struct flight *flight;		/* owned: a ring in the order of arrival, as all take the same time */
	uint32_t first, count;
	struct rand rand;
	wtime now;
	int noted[SIDES];
};

static struct storm *storm;

static void noted(const struct cm_id *id, bool is_connected)
{
	storm->noted[CM_ID_SLOT(id->local_id) - 5] += is_connected ? 1 : -1;
}

static void pull(int from)
{
	struct gmp out;

	while (cm_output(&storm->cm[from], &out)) {
		struct flight *f = &storm->flight[(storm->first + storm->count) % FLIGHTS];

		if (rand_below(&storm->rand, 100) < LOST_PERCENT)
			continue;
		assert_true(storm->count++ < FLIGHTS);
		*f = (struct flight){ .to = !from, .at = storm->now + DELAY };
		memcpy(f->mad, out.mad, MAD_BYTES);
	}
}

static struct cm_param param_of(uint32_t number)
{
	return (struct cm_param){ .qp_type = IBV_QPT_RC, .qpn = number + 2, .psn = 1, .retry_count = 7 };
}

static void connect_one(uint32_t number)
{
	const struct cm_path path = { .device = 1, .sgid = { 1 }, .dgid = { 2 }, .slid = 0xffff, .dlid = 0xffff, .pkey = 0xffff,
				      .mtu = 3, .ack_timeout = 17, .hop_limit = 64 };
	struct end *e = &storm->end[0][number];
	struct cm_param param = param_of(number);

	e->id = cm_id_create(&storm->cm[0], e);
	assert_non_null(e->id);
	assert_int_equal(cm_req(e->id, storm->now, SERVICE, &path, &param), 0);
}

static void accept_one(struct cm_id *id)
{
	uint32_t number = id->remote_qpn - 2;
	struct end *e = &storm->end[1][number];
	struct cm_param param = param_of(number);

	assert_true(number < MANY && !e->id);
	e->id = id;
	id->user = e;
	assert_int_equal(cm_rep(id, storm->now, &param), 0);
	storm->accepted++;
}

static void end_one(struct end *e)
{
	e->disconnected++;
	cm_id_destroy(e->id, storm->now);
	e->id = NULL;
}

static void hear(const struct cm_event *event)
{
	struct end *e = event->id->user;

	switch (event->type) {
	case CM_EVENT_REQ:
		accept_one(event->id);
		break;
	case CM_EVENT_REP:
		assert_int_equal(cm_rtu(event->id, storm->now), 0);
		e->established++;
		break;
	case CM_EVENT_RTU:
		e->established++;
		break;
	case CM_EVENT_DREQ:
		assert_int_equal(cm_drep(event->id, storm->now), 0);
		end_one(e);
		break;
	case CM_EVENT_DREP:
		end_one(e);
		break;
	default:	/* nobody is refused, nothing takes too long */
		storm->refused++;
		break;
	}
}

/* One moment of virtual time. False: nothing is left to happen. */
static bool step(void)
{
	struct cm_event event;
	wtime at = storm->count ? storm->flight[storm->first].at : WTIME_NEVER;

	for (int i = 0; i < SIDES; i++)
		at = wtime_min(at, cm_deadline(&storm->cm[i]));
	if (at == WTIME_NEVER)
		return false;
	storm->now = at > storm->now ? at : storm->now;
	while (storm->count && storm->flight[storm->first].at <= storm->now) {
		struct flight *f = &storm->flight[storm->first];
		struct gmp in = { .device = 1, .pkey = 0xffff,
				  .path = { .has_grh = true, .sgid = { (uint8_t)(2 - f->to) },
					    .dgid = { (uint8_t)(1 + f->to) } } };

		memcpy(in.mad, f->mad, MAD_BYTES);
		storm->first = (storm->first + 1) % FLIGHTS;
		storm->count--;
		if (cm_input(&storm->cm[f->to], storm->now, &in, &event))
			hear(&event);
		pull(f->to);
	}
	for (int i = 0; i < SIDES; i++) {
		while (cm_expire(&storm->cm[i], storm->now, &event))
			hear(&event);
		pull(i);
	}
	return true;
}

static bool all_connected(void)
{
	for (int i = 0; i < MANY; i++)
		if (!storm->end[0][i].established || !storm->end[1][i].established)
			return false;
	return true;
}

/* Every third is disconnected and waited for, every third destroyed at once, every third disconnected and destroyed. */
static void leave_one(uint32_t number)
{
	struct end *e = &storm->end[number % 2][number];

	if (number % 3 != 1)
		assert_int_equal(cm_dreq(e->id, storm->now), 0);
	if (number % 3 == 0)
		return;
	cm_id_destroy(e->id, storm->now);
	e->id = NULL;
	e->left = true;
}

static void start(uint64_t seed)
{
	storm = calloc(1, sizeof(*storm));
	assert_non_null(storm);
	storm->flight = calloc(FLIGHTS, sizeof(*storm->flight));
	assert_non_null(storm->flight);
	rand_seed(&storm->rand, seed);
	for (int i = 0; i < SIDES; i++) {
		struct cm_config config = { .slot = 5 + (uint32_t)i, .ca_guid = { 1, 77 + (uint64_t)i },
					    .seed = seed + (uint64_t)i, .max_ids = 65535, .note = noted };

		assert_int_equal(cm_init(&storm->cm[i], &config), 0);
	}
}

static void finish(void)
{
	for (int i = 0; i < SIDES; i++)
		cm_fini(&storm->cm[i]);
	free(storm->flight);
	free(storm);
}

static void every_end_is_told_and_nothing_is_left(void **state)
{
	for (uint64_t seed = 1; seed <= 2; seed++) {
		start(seed);
		for (uint32_t i = 0; i < MANY; i++) {
			connect_one(i);
			pull(0);
		}
		while (!all_connected())
			assert_true(step());
		assert_int_equal(storm->accepted, MANY);
		for (int i = 0; i < SIDES; i++)
			assert_int_equal(storm->noted[i], MANY);
		for (uint32_t i = 0; i < MANY; i++) {
			leave_one(i);
			pull((int)(i % 2));
		}
		while (step())
			;
		assert_int_equal(storm->refused, 0);
		for (int i = 0; i < SIDES; i++) {
			assert_int_equal(storm->cm[i].ids, 0);
			assert_int_equal(storm->cm[i].orphans, 0);
			assert_int_equal(storm->cm[i].counters.out_dropped, 0);
			assert_int_equal(storm->noted[i], 0);
			assert_true(storm->cm[i].counters.retries > MANY / 10);
			for (int k = 0; k < MANY; k++) {
				assert_int_equal(storm->end[i][k].established, 1);
				assert_int_equal(storm->end[i][k].disconnected, !storm->end[i][k].left);
			}
		}
		/* no more than a few retries of a few seconds */
		assert_true(storm->now < 60 * WTIME_S);
		finish();
	}
	(void)state;
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(every_end_is_told_and_nothing_is_left),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
