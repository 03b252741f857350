/* Receive buffers that clients of a management QP share: how many are posted, who may have them, and when they come and go. */
#include "mgmt/gsa.h"

#include "base/rand.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

static struct gsa g;

static void begin(const struct gsa_tunables *t)
{
	gsa_fini(&g);
	assert_int_equal(gsa_init(&g, 0, t, NULL, NULL), 0);
}

static uint32_t add(uint8_t mgmt_class, uint32_t count)
{
	uint32_t client = GSA_NONE;

	assert_int_equal(gsa_register(&g, mgmt_class, count, &client), 0);
	return client;
}

static void arrive(uint8_t mgmt_class, unsigned n, wtime now)
{
	for (unsigned i = 0; i < n; i++)
		assert_int_not_equal(gsa_arrive(&g, now, mgmt_class), GSA_NONE);
}

static void release(uint32_t client, unsigned n)
{
	for (unsigned i = 0; i < n; i++)
		assert_int_equal(gsa_release(&g, client), 0);
}

/* REQUIREMENTS 10.9, with the fourth client's burst. */
static uint32_t vector(unsigned bursts)
{
	struct gsa_tunables t = gsa_defaults;
	uint32_t client;

	t.growth = 1;
	begin(&t);
	add(1, GSA_NONE);
	add(2, GSA_NONE);
	add(3, GSA_NONE);
	assert_int_equal(g.posted, 48);
	client = add(4, 100);
	assert_int_equal(g.posted, 148);
	assert_int_equal(gsa_low(&g), 37);
	assert_int_equal(gsa_high(&g), 296);
	for (unsigned i = 1; i <= bursts; i++) {
		arrive(4, 111, i);
		assert_int_equal(g.posted, 37);
		assert_int_equal(g.automatic, 112 * (i - 1));
		arrive(4, 1, i);
		assert_int_equal(g.posted, 148);
		assert_int_equal(g.automatic, 112 * i);
	}
	return client;
}

static void vector_10_9(void **state)
{
	uint32_t client = vector(2);

	(void)state;
	release(client, 148);
	assert_int_equal(g.posted, 296);
	assert_false(g.is_trimming);
	release(client, 1);
	assert_int_equal(g.posted, 297);
	assert_true(g.is_trimming);
	/* none is posted again until the automatic ones are gone */
	release(client, 75);
	assert_int_equal(g.posted, 297);
	while (g.automatic) {
		uint32_t posted = g.posted;

		arrive(4, 1, 3);
		release(client, 1);
		assert_int_equal(g.posted, posted - 1);
	}
	assert_int_equal(g.posted, 148);
	assert_int_equal(g.trims, 224);
	for (int i = 0; i < 10; i++) {
		arrive(4, 1, 3);
		release(client, 1);
		assert_int_equal(g.posted, 148);
	}
}

static void vector_10_9_of_one_burst(void **state)
{
	uint32_t client = vector(1);

	(void)state;
	release(client, 112);
	assert_int_equal(g.posted, 260);
	assert_int_equal(g.automatic, 112);
	assert_int_equal(g.trims, 0);
}

/* GSA-19: where memory is too short for both, what a client asks for meanwhile takes that of the automatic ones as these go. */
static void trimming_leaves_what_clients_ask_for(void **state)
{
	struct gsa_tunables t = gsa_defaults;
	uint32_t client;

	(void)state;
	t.growth = 1;
	t.most = 256;
	t.high = 160;
	begin(&t);
	client = add(1, 100);
	arrive(1, 166, 1);
	assert_int_equal(g.automatic, 152);
	assert_int_equal(g.posted + g.held, 252);
	add(2, 90);
	assert_int_equal(g.target, 190);
	assert_int_equal(g.posted + g.held, 256);
	release(client, 165);
	for (int i = 0; i < 300; i++) {
		release(client, 1);
		assert_true(g.posted >= 190);
		arrive(1, 1, 1);
	}
	release(client, 1);
	assert_int_equal(g.automatic, 0);
	assert_int_equal(g.posted, 190);
}

/* GSA-02, GSA-39: a fixed depth is kept, whatever was going on when it was set; and when it ends, trimming is not over. */
static void a_fixed_depth_is_not_trimmed(void **state)
{
	struct gsa_tunables t;
	uint32_t client = vector(2);

	(void)state;
	release(client, 149);
	assert_true(g.is_trimming);
	t = g.tunables;
	t.fixed = 300;
	assert_int_equal(gsa_set(&g, &t), 0);
	release(client, 75);
	for (int i = 0; i < 300; i++) {
		arrive(4, 1, 3);
		release(client, 1);
	}
	assert_int_equal(g.posted, 300);
	assert_int_equal(g.trims, 0);
	t.fixed = 0;
	assert_int_equal(gsa_set(&g, &t), 0);
	for (int i = 0; i < 300; i++) {
		arrive(4, 1, 3);
		release(client, 1);
	}
	assert_int_equal(g.posted, 148);
	assert_int_equal(g.automatic, 0);
}

/* GSA-06..10, 36 */
static void each_client_has_its_number(void **state)
{
	struct gsa_tunables t = gsa_defaults;
	uint32_t client;

	(void)state;
	begin(NULL);
	for (uint8_t i = 1; i <= 3; i++) {
		client = add(i, GSA_NONE);
		assert_int_equal(g.posted, 16 * i);
	}
	assert_int_equal(gsa_register(&g, 3, 5, &client), -EBUSY);
	t.each = 40;
	t.floor = 3;
	assert_int_equal(gsa_set(&g, &t), 0);
	assert_int_equal(g.posted, 120);
	add(4, 1);
	assert_int_equal(g.posted, 123);
	client = add(5, 100);
	assert_int_equal(g.posted, 223);
	arrive(5, 50, 1);
	assert_int_equal(gsa_unregister(&g, client), 0);
	assert_int_equal(gsa_unregister(&g, client), -ENOENT);
	assert_int_equal(g.target, 123);
	assert_int_equal(g.held, 0);
	assert_int_equal(g.posted, 173);
	assert_int_equal(add(5, 100), client);
	assert_int_equal(g.posted, 223);
}

/* GSA-11..13, X-01: a burst is announced, and over; a posted buffer goes when it was used. */
static void a_client_changes_its_number(void **state)
{
	uint32_t client, other;

	(void)state;
	begin(NULL);
	client = add(3, GSA_NONE);
	other = add(7, GSA_NONE);
	assert_int_equal(gsa_change(&g, client, 200), 0);
	assert_int_equal(g.posted, 232);
	arrive(3, 150, 1);
	assert_int_equal(gsa_change(&g, client, -200), 0);
	assert_int_equal(g.target, 32);
	assert_int_equal(g.posted, 82);
	release(client, 150);
	assert_int_equal(g.posted, 82);
	for (unsigned i = 81; i >= 32; i--) {
		arrive(7, 1, 1);
		release(other, 1);
		assert_int_equal(g.posted, i);
	}
	arrive(7, 1, 1);
	release(other, 1);
	assert_int_equal(g.posted, 32);
	assert_int_equal(gsa_change(&g, client, -17), -EINVAL);
	assert_int_equal(gsa_change(&g, 60, 1), -ENOENT);
	assert_int_equal(gsa_release(&g, client), -EINVAL);
}

/* GSA-15, 16, 20 */
static void the_low_threshold_grows_with_clients(void **state)
{
	uint32_t last = 0;

	(void)state;
	begin(NULL);
	for (uint8_t i = 1; i <= 8; i++) {
		add(i, GSA_NONE);
		assert_int_equal(gsa_low(&g), 4 * i);
		assert_true(gsa_low(&g) > last && gsa_low(&g) < g.target && g.target <= gsa_high(&g));
		last = gsa_low(&g);
	}
	begin(NULL);
	for (uint8_t i = 1; i <= 8; i++) {
		add(i, 1);
		assert_int_equal(gsa_low(&g), i - 1);
	}
	begin(NULL);
	assert_int_equal(gsa_low(&g), 0);
}

/* GSA-14: whatever puts the posted ones below the threshold, an arrival or a new number, more are added at once. */
static void too_few_are_never_waited_with(void **state)
{
	struct gsa_tunables t = gsa_defaults;
	uint32_t client;

	(void)state;
	/* the threshold rises */
	begin(NULL);
	add(3, GSA_NONE);
	arrive(3, 10, 1);
	t.low = 15;
	assert_int_equal(gsa_set(&g, &t), 0);
	assert_int_equal(g.posted, 16);
	assert_int_equal(g.additions, 1);
	/* there is memory again */
	t = gsa_defaults;
	t.most = 20;
	begin(&t);
	add(3, GSA_NONE);
	arrive(3, 19, 1);
	assert_int_equal(g.posted, 1);
	t.most = 100;
	assert_int_equal(gsa_set(&g, &t), 0);
	assert_int_equal(g.posted, 16);
	/* a burst is announced while most of the last one is in hand */
	begin(NULL);
	client = add(3, 216);
	arrive(3, 160, 1);
	assert_int_equal(gsa_change(&g, client, -200), 0);
	assert_int_equal(g.posted, 56);
	arrive(3, 46, 1);
	assert_int_equal(gsa_change(&g, client, 200), 0);
	assert_int_equal(g.posted, 216);
	/* the only client has one, and several messages come (GSA-20: its threshold is none) */
	begin(NULL);
	add(3, 1);
	arrive(3, 100, 1);
	assert_int_equal(g.drops, 0);
}

/* GSA-17: twice as many each time, within the period; then as at first. */
static void additions_grow(void **state)
{
	uint32_t client, held = 0;

	(void)state;
	begin(NULL);
	client = add(3, GSA_NONE);
	for (unsigned i = 0, by = 13; i < 4; i++, by *= 2) {
		uint32_t before = g.automatic;

		while (g.automatic == before) {
			arrive(3, 1, i);
			held++;
		}
		assert_int_equal(g.automatic - before, by);
	}
	while (g.additions == 4) {
		arrive(3, 1, gsa_defaults.period_ns + 10);
		held++;
	}
	assert_int_equal(g.posted, 16);
	assert_int_equal(g.client[client].held, held);
}

/* GSA-20: at the edge nothing changes for ever. */
static void steady_load_changes_nothing(void **state)
{
	uint32_t client;

	(void)state;
	begin(NULL);
	client = add(3, GSA_NONE);
	arrive(3, 12, 1);
	for (int i = 0; i < 1000; i++) {
		arrive(3, 1, 1);
		release(client, 1);
	}
	assert_true(g.additions + g.trims <= 1);
}

/* GSA-23..27: without memory a client has what it has buffers for; who gives back at once is not held up; others lose nothing. */
static void a_flood_costs_its_client_alone(void **state)
{
	struct gsa_tunables t = gsa_defaults;
	uint32_t flooder, other;
	unsigned taken = 0;

	(void)state;
	t.most = 200;
	begin(&t);
	flooder = add(3, GSA_NONE);
	other = add(4, GSA_NONE);
	for (int i = 0; i < 10000; i++) {
		taken += gsa_arrive(&g, 1, 3) == flooder;
		if (i % 10 == 0) {
			assert_int_equal(gsa_arrive(&g, 1, 4), other);
			release(other, 1);
		}
	}
	assert_true(g.posted + g.held <= 200);
	assert_true(taken >= 100 && taken <= 200 - 16);
	assert_int_equal(g.drops, 0);
	assert_int_equal(g.client[other].discards, 0);
	assert_int_equal(g.client[flooder].discards, 10000 - taken);
	assert_int_equal(g.client[flooder].held, taken);
	release(flooder, taken);
	for (int i = 0; i < 10000; i++) {
		arrive(3, 1, 1);
		release(flooder, 1);
	}
}

/* GSA-25, 26: several flood, and several come later for what is theirs. */
static void floods_leave_all_others_their_number(void **state)
{
	for (uint32_t most = 96; most <= 500; most += 101) {
		struct gsa_tunables t = gsa_defaults;

		t.most = most;
		begin(&t);
		for (uint8_t class = 1; class <= 6; class++)
			add(class, GSA_NONE);
		for (unsigned i = 0; i < 1000; i++) {
			gsa_arrive(&g, 1, 1);
			gsa_arrive(&g, 1, 2);
		}
		assert_int_equal(g.held, most - 4 * 16);
		assert_true(g.client[0].held >= 16 && g.client[1].held >= 16);
		for (uint8_t class = 3; class <= 6; class++)
			arrive(class, 16, 2);
		assert_int_equal(g.drops, 0);
		assert_int_equal(g.posted, 0);
	}
	(void)state;
}

/* GSA-24: the additions of a flood are counted with its client, not with one that has a large number and fewer than it. */
static void additions_count_with_the_flooder(void **state)
{
	uint32_t large, flooder;

	(void)state;
	begin(NULL);
	large = add(1, 100);
	flooder = add(2, 2);
	arrive(1, 45, 1);
	arrive(2, 32, 1);
	assert_int_equal(g.client[flooder].raised, 77);
	assert_int_equal(g.client[large].raised, 0);
}

/* GSA-10, 25: clients' own numbers have memory; defaults, which have none, are cut for all alike. */
static void memory_that_is_too_little_is_shared(void **state)
{
	struct gsa_tunables t = gsa_defaults;
	uint32_t client;

	(void)state;
	t.most = 100;
	begin(&t);
	client = add(1, 60);
	assert_int_equal(gsa_register(&g, 2, 41, &client), -ENOSPC);
	add(2, 40);
	assert_int_equal(gsa_change(&g, client, 1), -ENOSPC);
	assert_int_equal(gsa_change(&g, client, -1), 0);
	assert_int_equal(gsa_change(&g, client, 1), 0);
	for (uint8_t class = 3; class <= 8; class++)
		add(class, GSA_NONE);
	assert_int_equal(g.target, 196);
	assert_int_equal(g.posted, 100);
	for (unsigned i = 0; i < 1000; i++)
		gsa_arrive(&g, 1, 1);
	for (uint8_t class = 3; class <= 8; class++)
		arrive(class, 8, 1);
	arrive(2, 20, 1);
	assert_int_equal(g.drops, 0);
}

/* GSA-21, 25: what one client had for its traffic is the others' when its traffic is over. */
static void past_traffic_keeps_no_memory(void **state)
{
	struct gsa_tunables t = gsa_defaults;
	uint32_t busy;

	(void)state;
	t.most = 64;
	begin(&t);
	busy = add(1, GSA_NONE);
	add(2, GSA_NONE);
	for (unsigned i = 0; i < 8 * 16; i++) {
		arrive(1, 1, 1);
		release(busy, 1);
	}
	gsa_expire(&g, WTIME_S);
	assert_int_equal(g.client[busy].boost, 16);
	for (unsigned i = 0; i < 100; i++)
		gsa_arrive(&g, WTIME_S, 2);
	assert_int_equal(g.held, 48);
}

/* GSA-23..27: whoever keeps to its number loses nothing, whatever the others do. */
static void who_keeps_to_its_number_loses_nothing(void **state)
{
	(void)state;
	for (uint64_t seed = 1; seed <= 200; seed++) {
		struct gsa_tunables t = gsa_defaults;
		uint32_t clients;
		struct rand r;

		rand_seed(&r, seed);
		clients = 3 + (uint32_t)rand_below(&r, 5);
		t.most = clients * 20 + (uint32_t)rand_below(&r, 200);
		begin(&t);
		for (uint8_t class = 1; class <= clients; class++)
			add(class, (uint32_t)rand_below(&r, 20));
		for (wtime now = 1; now < 3000; now++) {
			uint32_t i = (uint32_t)rand_below(&r, clients);
			bool is_within = g.client[i].held < g.client[i].target - g.client[i].boost;

			if (rand_below(&r, 100) == 0)
				gsa_expire(&g, now * WTIME_MS * 100);
			else if (g.client[i].held && rand_below(&r, 4) == 0)
				release(i, 1);
			else if (gsa_arrive(&g, now * WTIME_MS * 100, (uint8_t)(i + 1)) == GSA_NONE)
				assert_false(is_within);
		}
	}
}

/* GSA-01, 30 */
static void what_nobody_waits_for(void **state)
{
	struct gsa_tunables t = gsa_defaults;

	(void)state;
	begin(NULL);
	assert_int_equal(gsa_arrive(&g, 1, 3), GSA_NONE);
	assert_int_equal(g.drops, 1);
	add(4, GSA_NONE);
	assert_int_equal(gsa_arrive(&g, 1, 3), GSA_NONE);
	assert_int_equal(g.unknown, 1);
	assert_int_equal(g.posted, 16);
	/* GSA-02: as it was before: one buffer */
	t.fixed = 1;
	begin(&t);
	add(4, GSA_NONE);
	for (int i = 0; i < 64; i++)
		gsa_arrive(&g, 1, 4);
	assert_int_equal(g.drops, 63);
	assert_true(g.client[0].drops == 63 && g.client[0].arrivals == 1);
	assert_int_equal(g.posted + g.held, 1);
}

/* GSA-12, GSA-31: each buffer is 40 bytes for the GRH and 256 for the MAD; what a client gives up costs nothing any more. */
static void buffers_are_memory(void **state)
{
	uint32_t client;

	(void)state;
	begin(NULL);
	assert_true(gsa_bytes(&g) == 0);
	client = add(4, 100);
	assert_true(gsa_bytes(&g) == 100 * (40 + 256));
	arrive(4, 50, 1);
	assert_true(gsa_bytes(&g) == 100 * (40 + 256));
	assert_int_equal(gsa_change(&g, client, -90), 0);
	release(client, 50);
	assert_true(gsa_bytes(&g) == 50 * (40 + 256));
	arrive(4, 40, 1);
	release(client, 40);
	assert_true(gsa_bytes(&g) == 10 * (40 + 256));
}

static unsigned told;
static uint32_t told_should;

static void hear(void *arg, uint32_t client, uint32_t asked, uint32_t arrived, uint32_t should)
{
	assert_ptr_equal(arg, &told);
	assert_int_equal(asked, 2);
	assert_int_equal(arrived, 100);
	told++;
	told_should = should;
}

/* GSA-21, 22: it has a hundred messages in a second by two buffers. */
static void who_asks_for_too_little_is_told(void **state)
{
	uint32_t client;

	(void)state;
	told = 0;
	gsa_fini(&g);
	gsa_init(&g, 0, NULL, hear, &told);
	client = add(3, 2);
	for (unsigned second = 1; second <= 3; second++) {
		for (int i = 0; i < 100; i++) {
			arrive(3, 1, 1);
			release(client, 1);
		}
		gsa_expire(&g, second * WTIME_S - 1);
		gsa_expire(&g, second * WTIME_S);
	}
	assert_int_equal(told, 1);
	assert_int_equal(told_should, 13);
	assert_int_equal(g.client[client].asked, 2);
	assert_int_equal(g.client[client].target, 16);
	assert_int_equal(g.posted, 16);
	/* it falls when there is little to do, and what is posted with it */
	for (unsigned second = 4; second <= 8; second++)
		gsa_expire(&g, second * WTIME_S);
	assert_int_equal(g.client[client].target, 2);
	for (int i = 0; i < 14; i++) {
		arrive(3, 1, 1);
		release(client, 1);
	}
	assert_int_equal(g.posted, 2);
	/* who has asked anew is told anew */
	gsa_change(&g, client, 0);
	for (int i = 0; i < 86; i++) {
		arrive(3, 1, 1);
		release(client, 1);
	}
	gsa_expire(&g, 9 * WTIME_S);
	assert_int_equal(told, 2);
}

static void numbers_that_make_no_sense(void **state)
{
	enum { BAD = 18 };
	struct gsa_tunables bad[BAD];
	uint32_t client;

	(void)state;
	for (int i = 0; i < BAD; i++)
		bad[i] = gsa_defaults;
	bad[0].floor = 17;
	bad[1].low_percent = 0;
	bad[2].low_percent = 100;
	bad[3].growth = 0;
	bad[4].most = 0;
	bad[5].period_ns = 0;
	bad[6].low = bad[6].high = 10;
	bad[7].fixed = bad[7].most + 1;
	bad[8].each = bad[8].most + 1;
	bad[9].low = bad[9].most;
	bad[10].high = bad[10].most + 1;
	bad[11].most = GSA_MOST + 1;
	bad[12].period_ns = WTIME_NEVER;
	bad[13].period_ns = WTIME_MS - 1;
	bad[14].period_ns = 3601 * WTIME_S;
	bad[15].each = 0;
	bad[16].window = 0;
	bad[17].window = GSA_WINDOW_MOST + 1;
	begin(NULL);
	for (int i = 0; i < BAD; i++) {
		gsa_fini(&g);
		assert_int_equal(gsa_init(&g, 0, &bad[i], NULL, NULL), -EINVAL);
		assert_int_equal(gsa_set(&g, &bad[i]), -EINVAL);
		assert_memory_equal(&g.tunables, &gsa_defaults, sizeof(gsa_defaults));
	}
	assert_int_equal(gsa_register(&g, 3, GSA_NONE - 1, &client), -ENOSPC);
	bad[0].floor = 0;
	begin(&bad[0]);
	for (unsigned i = 0; i < GSA_CLIENTS; i++)
		assert_int_equal(gsa_register(&g, i < 0x80 ? i : GSA_ANY_CLASS, 0, &client), 0);
	assert_int_equal(gsa_register(&g, 0x81, 1, &client), -ENOSPC);
	assert_int_equal(g.posted, 0);
}

/* GSA-36: what was added for a client goes with it, though it goes from the QP only as it is used. */
static void a_client_leaves_nothing_added(void **state)
{
	uint32_t flooder;

	(void)state;
	begin(NULL);
	add(1, GSA_NONE);
	flooder = add(2, GSA_NONE);
	arrive(2, 100, 1);
	assert_true(g.automatic > 0 && g.client[flooder].raised == g.automatic);
	assert_int_equal(gsa_unregister(&g, flooder), 0);
	assert_int_equal(g.automatic, 0);
	for (unsigned i = 0; i < 1000; i++) {
		arrive(1, 1, 2);
		release(0, 1);
	}
	assert_int_equal(g.posted + g.held, 16);
}

/* What the books say agrees, whatever is done. */
static void check_books(uint32_t most)
{
	uint32_t target = 0, held = 0, raised = 0, clients = 0;

	for (uint32_t i = 0; i < g.places; i++) {
		const struct gsa_client *c = &g.client[i];

		if (!c->is_used)
			continue;
		clients++;
		target += c->target;
		held += c->held;
		raised += c->raised;
	}
	assert_true(g.clients == clients && g.target == target && g.held == held && raised == g.automatic);
	assert_true(g.posted + g.held <= most);
}

static void random_ledgers(void **state)
{
	struct gsa_tunables t = gsa_defaults;

	(void)state;
	for (uint64_t seed = 1; seed <= 200; seed++) {
		struct rand r;

		rand_seed(&r, seed);
		t.most = 1 + (uint32_t)rand_below(&r, 400);
		t.each = 1 + (uint32_t)rand_below(&r, t.most < 16 ? t.most : 16);
		t.growth = 1 + (uint32_t)rand_below(&r, 3);
		begin(&t);
		for (wtime now = 1; now < 1000; now++) {
			uint8_t class = (uint8_t)rand_below(&r, 5);
			uint32_t client = (uint32_t)rand_below(&r, 5);

			switch (rand_below(&r, 12)) {
			case 0:
				gsa_register(&g, class, (uint32_t)rand_below(&r, 40), &client);
				break;
			case 1:
				gsa_unregister(&g, client);
				break;
			case 2:
				gsa_change(&g, client, (int32_t)rand_below(&r, 80) - 40);
				break;
			case 3:
				gsa_expire(&g, now * WTIME_S);
				break;
			case 4: case 5: case 6: case 7: case 8:
				gsa_arrive(&g, now * WTIME_S, class);
				break;
			default:
				gsa_release(&g, client);
			}
			check_books(t.most);
		}
	}
}

/* A subnet begins (GSA-33): so many nodes ask at once, an SA takes 10 us for each, and who has no answer asks again after
 * 100 ms. */
struct start {
	unsigned drops, asked;
	wtime last;
};

static struct start start(const struct gsa_tunables *t, uint32_t hint, unsigned nodes)
{
	struct start s = { 0 };
	unsigned open = nodes, queue = 0;
	uint32_t client;
	wtime now = 0;

	begin(t);
	client = add(3, GSA_NONE);
	if (hint)
		assert_int_equal(gsa_change(&g, client, (int32_t)hint), 0);
	while (open) {
		wtime round = now;
		unsigned again = 0;

		/* a microsecond apart */
		for (unsigned i = 0; i < open; i++) {
			round += 1000;
			s.asked++;
			if (gsa_arrive(&g, round, 3) == GSA_NONE)
				again++;
			else
				queue++;
			if (i % 10 == 9 && queue) {
				release(client, 1);
				queue--;
			}
		}
		for (; queue; queue--, round += 10 * WTIME_US)
			release(client, 1);
		s.drops += again;
		s.last = round;
		open = again;
		now += 100 * WTIME_MS;
	}
	return s;
}

static void all_nodes_ask_at_once(void **state)
{
	struct gsa_tunables one = gsa_defaults, sixteen = gsa_defaults;
	struct start s[4];

	(void)state;
	one.fixed = 1;
	sixteen.fixed = 16;
	s[0] = start(&one, 0, 512);
	s[1] = start(&sixteen, 0, 512);
	s[2] = start(NULL, 0, 512);
	s[3] = start(NULL, 512, 512);
	printf("| buffers | drops | queries sent | last answer, ms |\n|---|---|---|---|\n");
	for (int i = 0; i < 4; i++) {
		static const char *const names[] = { "1, fixed", "16, fixed", "adaptive", "adaptive, announced" };

		printf("| %s | %u | %u | %.1f |\n", names[i], s[i].drops, s[i].asked, (double)s[i].last / WTIME_MS);
	}
	assert_true(s[0].drops > s[1].drops && s[1].drops > 0);
	assert_int_equal(s[2].drops, 0);
	assert_int_equal(s[3].drops, 0);
	assert_int_equal(s[3].asked, 512);
}

/* Without a floor a client may have none of its own, and lives by what others have; with one, each has that. */
static void a_floor_of_none(void **state)
{
	struct gsa_tunables t = gsa_defaults;

	(void)state;
	begin(NULL);
	add(1, 0);
	assert_int_equal(g.posted, 1);
	arrive(1, 1, 1);
	t.floor = 0;
	begin(&t);
	add(1, 0);
	assert_int_equal(g.posted, 0);
	assert_int_equal(gsa_arrive(&g, 1, 1), GSA_NONE);
	assert_int_equal(g.drops, 1);
	add(2, GSA_NONE);
	arrive(1, 1, 1);
}

/* GSA-25: a small own number has at least one buffer, however many others there is too little memory for. */
static void a_small_number_keeps_its_buffer(void **state)
{
	struct gsa_tunables t = gsa_defaults;

	(void)state;
	t.most = 100;
	begin(&t);
	add(1, 1);
	for (uint8_t class = 2; class <= 11; class++)
		add(class, GSA_NONE);
	for (unsigned i = 0; i < 1000; i++)
		gsa_arrive(&g, 1, (uint8_t)(2 + i % 10));
	arrive(1, 1, 1);
	assert_true(g.held <= 100);
	/* with fewer buffers than clients nobody has one for sure, and nothing is promised */
	t.most = 16;
	begin(&t);
	for (uint8_t class = 1; class <= 20; class++)
		add(class, GSA_NONE);
	arrive(1, 16, 1);
}

/* what a series needs is there while it comes; the client's own number, or that it has none, stays. */
static void a_series_borrows_its_window(void **state)
{
	struct gsa_tunables t = gsa_defaults;
	uint32_t client;

	(void)state;
	begin(NULL);
	client = add(3, GSA_NONE);
	assert_int_equal(gsa_lend(&g, client, 64), 0);
	assert_int_equal(g.target, 80);
	assert_int_equal(g.posted, 80);
	assert_int_equal(gsa_lend(&g, client, -65), -EINVAL);
	assert_int_equal(gsa_lend(&g, 9, 1), -ENOENT);
	assert_int_equal(gsa_lend(&g, client, GSA_MOST), -ENOSPC);
	t.each = 20;
	assert_int_equal(gsa_set(&g, &t), 0);
	assert_int_equal(g.target, 84);
	assert_int_equal(gsa_change(&g, client, 5), 0);
	assert_int_equal(g.target, 89);
	assert_int_equal(gsa_lend(&g, client, -64), 0);
	assert_int_equal(g.target, 25);
	assert_int_equal(g.client[client].asked, 25);
}

/* A QP where nothing comes has no timer; one whose client has buffers for past traffic has, until they are gone. */
static void a_qp_that_rests_has_no_timer(void **state)
{
	uint32_t client;

	(void)state;
	begin(NULL);
	client = add(3, 2);
	assert_true(gsa_deadline(&g) == WTIME_NEVER);
	for (int i = 0; i < 100; i++) {
		arrive(3, 1, 5 * WTIME_S + 1);
		release(client, 1);
	}
	assert_true(gsa_deadline(&g) == 6 * WTIME_S);
	for (wtime at = 6; at <= 8; at++)
		gsa_expire(&g, at * WTIME_S);
	assert_true(gsa_deadline(&g) != WTIME_NEVER || !g.client[client].boost);
	for (wtime at = 9; at <= 14; at++)
		gsa_expire(&g, at * WTIME_S);
	assert_int_equal(g.client[client].boost, 0);
	assert_true(gsa_deadline(&g) == WTIME_NEVER);
}

/* GSA-03, 38: an owner that tells its clients apart by itself may have several of a class. */
static void clients_without_a_class(void **state)
{
	uint32_t a = GSA_NONE, b = GSA_NONE;

	(void)state;
	begin(NULL);
	assert_int_equal(gsa_register(&g, GSA_ANY_CLASS, GSA_NONE, &a), 0);
	assert_int_equal(gsa_register(&g, GSA_ANY_CLASS, GSA_NONE, &b), 0);
	assert_true(a != b);
	assert_true(gsa_arrive_at(&g, 1, b));
	assert_int_equal(g.client[b].held, 1);
	assert_int_equal(g.client[a].held, 0);
	assert_false(gsa_arrive_at(&g, 1, GSA_NONE));
	assert_int_equal(g.unknown, 1);
	release(b, 1);
}

static int free_table(void **state)
{
	(void)state;
	gsa_fini(&g);
	return 0;
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_floor_of_none),
		cmocka_unit_test(a_small_number_keeps_its_buffer),
		cmocka_unit_test(a_series_borrows_its_window),
		cmocka_unit_test(a_qp_that_rests_has_no_timer),
		cmocka_unit_test(clients_without_a_class),
		cmocka_unit_test(vector_10_9),
		cmocka_unit_test(vector_10_9_of_one_burst),
		cmocka_unit_test(trimming_leaves_what_clients_ask_for),
		cmocka_unit_test(a_fixed_depth_is_not_trimmed),
		cmocka_unit_test(each_client_has_its_number),
		cmocka_unit_test(a_client_changes_its_number),
		cmocka_unit_test(the_low_threshold_grows_with_clients),
		cmocka_unit_test(too_few_are_never_waited_with),
		cmocka_unit_test(additions_grow),
		cmocka_unit_test(steady_load_changes_nothing),
		cmocka_unit_test(a_flood_costs_its_client_alone),
		cmocka_unit_test(floods_leave_all_others_their_number),
		cmocka_unit_test(additions_count_with_the_flooder),
		cmocka_unit_test(memory_that_is_too_little_is_shared),
		cmocka_unit_test(past_traffic_keeps_no_memory),
		cmocka_unit_test(who_keeps_to_its_number_loses_nothing),
		cmocka_unit_test(what_nobody_waits_for),
		cmocka_unit_test(buffers_are_memory),
		cmocka_unit_test(who_asks_for_too_little_is_told),
		cmocka_unit_test(numbers_that_make_no_sense),
		cmocka_unit_test(a_client_leaves_nothing_added),
		cmocka_unit_test(random_ledgers),
		cmocka_unit_test(all_nodes_ask_at_once),
	};

	return cmocka_run_group_tests(tests, NULL, free_table);
}
