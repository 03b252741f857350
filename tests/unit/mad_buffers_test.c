/* Pools of receive buffers, of ports and their QPs; tunables as text. */
#include "mgmt/gsa_tunables.h"
#include "mgmt/mad_buffers.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

static struct mad_buffers b;

static int begin(void **state)
{
	(void)state;
	mad_buffers_init(&b);
	return 0;
}

static int end(void **state)
{
	(void)state;
	assert_true(list_empty(&b.pools));
	mad_buffers_fini(&b);
	return 0;
}

static uint32_t add(struct mad_pool *p, unsigned qpn)
{
	uint32_t client;

	assert_int_equal(gsa_register(&p->qp[qpn], GSA_ANY_CLASS, GSA_NONE, &client), 0);
	return client;
}

/* GSA-28, 42: each port has its own, and each of its two QPs. */
static void ports_and_queue_pairs_are_apart(void **state)
{
	struct mad_pool *p = mad_pool_get(&b, 7), *q = mad_pool_get(&b, 70000), *host = mad_pool_get(&b, UINT32_MAX);
	uint32_t client = add(p, 1), smp = add(p, 0);

	(void)state;
	assert_true(p != q && q != host && host != p);
	assert_ptr_equal(mad_pool_find(&b, 7), p);
	assert_ptr_equal(mad_pool_find(&b, 70000), q);
	assert_ptr_equal(mad_pool_find(&b, UINT32_MAX), host);
	assert_null(mad_pool_find(&b, 8));
	assert_null(mad_pool_find(&b, 1 << 30));
	assert_int_equal(p->qp[0].posted, 2 * 16);
	assert_int_equal(p->qp[1].posted, 3 * 16);
	assert_int_equal(q->qp[1].posted, 2 * 16);
	assert_true(mad_pool_arrive(1, p, 1, client));
	assert_true(mad_pool_arrive(1, p, 0, smp));
	assert_int_equal(p->qp[1].held, 1);
	assert_int_equal(p->qp[0].held, 1);
	assert_int_equal(q->qp[1].held + q->qp[0].held, 0);
	mad_pool_put(&b, p);
	mad_pool_put(&b, q);
	mad_pool_put(&b, host);
}

static void the_last_user_ends_a_pool(void **state)
{
	struct mad_pool *p = mad_pool_get(&b, 3);

	(void)state;
	assert_ptr_equal(mad_pool_get(&b, 3), p);
	mad_pool_put(&b, p);
	assert_ptr_equal(mad_pool_find(&b, 3), p);
	mad_pool_put(&b, p);
	assert_null(mad_pool_find(&b, 3));
	p = mad_pool_get(&b, UINT32_MAX);
	mad_pool_put(&b, p);
	assert_null(mad_pool_find(&b, UINT32_MAX));
}

/* GSA-02, 32: by the fixed depth one client that keeps all costs the agents of its port their MADs; otherwise it does not. */
static void who_is_always_there_has_its_buffers(void **state)
{
	struct gsa_tunables t = gsa_defaults;
	struct mad_pool *p = mad_pool_get(&b, 3);
	uint32_t client;

	(void)state;
	t.most = 100;
	assert_int_equal(mad_buffers_set(&b, &t), 0);
	client = add(p, 1);
	for (int i = 0; i < 1000; i++)
		mad_pool_arrive(1, p, 1, client);
	assert_int_equal(p->qp[1].drops, 0);
	for (int i = 0; i < 10; i++) {
		assert_true(mad_buffers_pass(&b, 1, 3, MAD_RESIDENT_PMA));
		assert_true(mad_buffers_pass(&b, 1, 3, MAD_RESIDENT_CM));
	}
	assert_int_equal(p->qp[1].client[p->resident[MAD_RESIDENT_PMA]].arrivals, 10);
	assert_int_equal(p->qp[1].client[p->resident[MAD_RESIDENT_PMA]].held, 0);
	assert_true(mad_buffers_pass(&b, 1, 4, MAD_RESIDENT_SMA));
	mad_pool_put(&b, p);

	t.fixed = 16;
	assert_int_equal(mad_buffers_set(&b, &t), 0);
	p = mad_pool_get(&b, 3);
	client = add(p, 1);
	assert_int_equal(p->qp[1].posted, 16);
	for (int i = 0; i < 16; i++)
		assert_true(mad_pool_arrive(1, p, 1, client));
	assert_false(mad_buffers_pass(&b, 1, 3, MAD_RESIDENT_PMA));
	assert_true(mad_buffers_pass(&b, 1, 3, MAD_RESIDENT_SMA));
	assert_int_equal(p->qp[1].drops, 1);
	t.each = 0;
	assert_int_equal(mad_buffers_set(&b, &t), -EINVAL);
	assert_int_equal(b.tunables.each, 16);
	mad_pool_put(&b, p);
}

/* GSA-21: a period ends when the next message comes, or when somebody looks. */
static void periods_end_without_a_timer(void **state)
{
	struct mad_pool *p = mad_pool_get(&b, 3);
	uint32_t client = add(p, 1);
	const struct gsa_client *c = &p->qp[1].client[client];

	(void)state;
	for (int i = 0; i < 200; i++) {
		mad_pool_arrive(WTIME_S + 1, p, 1, client);
		gsa_release(&p->qp[1], client);
	}
	assert_int_equal(c->should, 0);
	mad_pool_arrive(2 * WTIME_S, p, 1, client);
	assert_int_equal(c->should, 26);
	assert_int_equal(c->target, 32);
	mad_buffers_expire(&b, 3 * WTIME_S);
	assert_int_equal(c->boost, 8);
	mad_pool_put(&b, p);
}

/* GSA-07, 39 */
static void tunables_are_text(void **state)
{
	static const struct { const char *text; int err; } bad[] = {
		{ "", -EINVAL }, { "each", -EINVAL }, { "each=", -EINVAL }, { "each=x", -EINVAL }, { "each=4294967296", -EINVAL },
		{ "each=-1", -EINVAL }, { "each=1,", -EINVAL }, { ",each=1", -EINVAL }, { "each=1,nothing=2", -ENOENT },
		{ "eac=1", -ENOENT }, { "=1", -ENOENT }, { "each=99999999999999999999999", -EINVAL }, { "each=1 ", -EINVAL },
	};
	struct gsa_tunables t = gsa_defaults;
	char text[32];

	(void)state;
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		assert_int_equal(gsa_tunables_parse(&t, bad[i].text, strlen(bad[i].text)), bad[i].err);
		assert_memory_equal(&t, &gsa_defaults, sizeof(t));
	}
	assert_int_equal(gsa_tunables_parse(&t, "each=40,period-ms=250", 21), 0);
	assert_int_equal(t.each, 40);
	assert_true(t.period_ns == 250 * WTIME_MS);
	for (unsigned i = 0; i < GSA_TUNABLES; i++) {
		int bytes = snprintf(text, sizeof(text), "%s=%u", gsa_tunable_name(i), 7 + i);

		assert_int_equal(gsa_tunables_parse(&t, text, (size_t)bytes), 0);
		assert_true(gsa_tunable_get(&t, i) == 7 + i);
	}
	assert_true(t.fixed == 15 && t.most == 13 && t.low_percent == 9);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, begin, end)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(ports_and_queue_pairs_are_apart),
		TEST(the_last_user_ends_a_pool),
		TEST(who_is_always_there_has_its_buffers),
		TEST(periods_end_without_a_timer),
		TEST(tunables_are_text),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
