/* A table comes in windows of 64 packets to a QP1 where its client has 16 buffers: packets that no posted receive waits
 * for are lost, until the driver looks and posts more. Who borrows its window while the table comes loses none. */
#include "series_run.h"

#include "mgmt/gsa.h"

enum { WINDOW = 64, SEGMENTS = 1000 };

/* What an interrupt takes, longer than a window takes to come. */
#define WAKE_NS (20 * WTIME_US)

struct port {
	struct gsa gsa;
	uint32_t client;
	uint8_t pending[WINDOW][MAD_BYTES];	/* in buffers, and not looked at */
	unsigned pendings, lost;
	wtime wakes_at;
};

static void arrive(struct port *p, wtime now, const uint8_t *mad)
{
	if (p->pendings >= p->gsa.posted || p->pendings == WINDOW) {
		p->lost++;
		return;
	}
	memcpy(p->pending[p->pendings++], mad, MAD_BYTES);
	if (p->wakes_at == WTIME_NEVER)
		p->wakes_at = now + WAKE_NS;
}

/* The driver looks: each packet is copied to its place, and its buffer given back. */
static void wake(struct port *p, struct run *r)
{
	p->wakes_at = WTIME_NEVER;
	for (unsigned i = 0; i < p->pendings; i++)
		if (gsa_arrive_at(&p->gsa, r->now, p->client))
			hear(r, 0, p->pending[i]);
	while (p->gsa.held)
		gsa_release(&p->gsa, p->client);
	p->pendings = 0;
}

static void take_one(struct port *p, struct run *r)
{
	uint8_t mad[MAD_BYTES];

	if (mad_path_take(&r->path, mad))
		hear(r, 1, mad);
	else
		arrive(p, r->now, mad);
}

static unsigned lost(const struct gsa_tunables *t, uint32_t lent)
{
	static const struct series_config config = { .subnet_timeout = 4, .response_time = 8, .retries = 7 };
	static const struct mad_path_config fast = { .delay_ns = 5 * WTIME_US, .each_ns = 250, .fault_at = { -1, -1 } };
	struct port p = { .wakes_at = WTIME_NEVER };
	struct run r;

	assert_int_equal(gsa_init(&p.gsa, 0, t, NULL, NULL), 0);
	assert_int_equal(gsa_register(&p.gsa, MAD_CLASS_SA, GSA_NONE, &p.client), 0);
	assert_int_equal(gsa_lend(&p.gsa, p.client, (int32_t)lent), 0);
	begin(&r, &fast, &config, TXN_GET_TABLE, WINDOW, 0, SEGMENTS * SERIES_DATA);
	for (long steps = 0; r.end[0].phase < TXN_DONE && steps < STEPS_MOST; steps++) {
		wtime next = p.wakes_at;

		serve(&r);
		send_all(&r);
		next = wtime_min(next, mad_path_next(&r.path));
		for (int i = 0; i < 1 + r.serves; i++)
			next = wtime_min(next, transaction_deadline(&r.end[i]));
		r.now = next > r.now ? next : r.now;
		if (p.wakes_at <= r.now)
			wake(&p, &r);
		if (mad_path_next(&r.path) <= r.now)
			take_one(&p, &r);
		for (int i = 0; i < 1 + r.serves; i++)
			transaction_expire(&r.end[i], r.now);
	}
	assert_int_equal(r.end[0].phase, TXN_DONE);
	assert_true(has_answer(&r));
	assert_int_equal(gsa_lend(&p.gsa, p.client, -(int32_t)lent), 0);
	assert_int_equal(p.gsa.target, GSA_DEFAULT);
	gsa_fini(&p.gsa);
	end(&r);
	return p.lost;
}

static void a_table_borrows_its_window(void **state)
{
	struct gsa_tunables fixed = gsa_defaults;
	unsigned usual, of_old;

	(void)state;
	fixed.fixed = GSA_DEFAULT;
	of_old = lost(&fixed, 0);
	usual = lost(&gsa_defaults, 0);
	print_message("lost of %d packets: %u by 16 of old, %u by 16, %u by 16 and the window\n", SEGMENTS, of_old, usual,
		      lost(&gsa_defaults, WINDOW));
	assert_true(of_old > 0 && usual > 0);
	assert_int_equal(lost(&gsa_defaults, WINDOW), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_table_borrows_its_window),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
