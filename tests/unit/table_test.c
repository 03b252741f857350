/* The id table: what is in is found, what is out is not, whatever is done in between. */
#include "base/table.h"
#include "base/rand.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#define COUNT(a) (sizeof(a) / sizeof(*(a)))

static const struct siphash_key key = { 42, 7 }, other_key = { 42, 8 };

/* The forms in use: handles, handles with generations, memory keys, and two that are soon full. */
static const struct form {
	unsigned index_bits, generation_bits;
	uint32_t max;
	const struct siphash_key *key;
} forms[] = {
	{ 20, 0, 1000, NULL }, { 16, 16, 1000, NULL }, { 24, 8, 1000, &key }, { 4, 2, 16, &key }, { 4, 0, 15, &key },
	{ 4, 0, 15, NULL }, { 5, 0, 20, &key },
};

static void ids_are_distinct_and_not_zero(void **state)
{
	for (unsigned f = 0; f < COUNT(forms); f++) {
		uint32_t id[1000], extra;
		struct table t;

		table_init(&t, forms[f].index_bits, forms[f].generation_bits, forms[f].max, forms[f].key);
		for (uint32_t i = 0; i < forms[f].max; i++) {
			assert_int_equal(table_insert(&t, &id[i], &id[i]), 0);
			assert_int_not_equal(id[i], 0);
			for (uint32_t k = 0; k < i; k++)
				assert_int_not_equal(id[k], id[i]);
		}
		assert_int_equal(table_insert(&t, &extra, &extra), -ENOMEM);
		for (uint32_t i = 0; i < forms[f].max; i++)
			assert_ptr_equal(table_get(&t, id[i]), &id[i]);
		assert_null(table_get(&t, 0));
		table_fini(&t);
	}
}

static void a_stale_id_misses(void **state)
{
	uint32_t id, again = 0;
	int a, b;
	struct table t;

	table_init(&t, 24, 8, 1 << 20, &key);
	assert_int_equal(table_insert(&t, &a, &id), 0);
	assert_ptr_equal(table_remove(&t, id), &a);
	assert_null(table_get(&t, id));
	assert_null(table_remove(&t, id));
	/* until the same index is given away again: its generation differs */
	for (int i = 0; i < 100 && again >> 8 != id >> 8; i++) {
		assert_int_equal(table_insert(&t, &b, &again), 0);
		assert_ptr_equal(table_remove(&t, again), &b);
	}
	assert_int_equal(again >> 8, id >> 8);
	assert_int_not_equal(again, id);
	table_fini(&t);
}

static void a_new_generation_replaces_the_old(void **state)
{
	uint32_t id, to;
	int a;
	struct table t;

	table_init(&t, 24, 8, 100, &key);
	assert_int_equal(table_insert(&t, &a, &id), 0);
	assert_ptr_equal(table_get(&t, id), &a);
	to = id ^ 7;
	assert_int_equal(table_rekey(&t, id, to), 0);
	assert_null(table_get(&t, id));
	assert_ptr_equal(table_get(&t, to), &a);
	assert_int_equal(table_rekey(&t, id, to), -EINVAL);
	assert_int_equal(table_rekey(&t, to, to ^ 1u << 8), -EINVAL);
	assert_ptr_equal(table_remove(&t, to), &a);
	assert_null(table_get(&t, to));
	table_fini(&t);
}

static void foreign_ids_miss(void **state)
{
	static const uint32_t bad[] = { 0, 1, 0xff, 0xffffffff, 0x80000000, 0x12345678 };
	uint32_t id;
	int a;
	struct table t;

	table_init(&t, 24, 8, 100, &key);
	for (unsigned i = 0; i < COUNT(bad); i++)
		assert_null(table_get(&t, bad[i]));
	assert_int_equal(table_insert(&t, &a, &id), 0);
	for (unsigned i = 0; i < COUNT(bad); i++)
		if (bad[i] != id)
			assert_null(table_get(&t, bad[i]));
	assert_null(table_get(&t, id ^ 1));
	table_fini(&t);
}

static void keys_hide_the_order(void **state)
{
	uint32_t with_1, with_2;
	int a;
	struct table t;

	table_init(&t, 24, 8, 100, &key);
	assert_int_equal(table_insert(&t, &a, &with_1), 0);
	table_fini(&t);
	table_init(&t, 24, 8, 100, &other_key);
	assert_int_equal(table_insert(&t, &a, &with_2), 0);
	table_fini(&t);
	assert_int_not_equal(with_1, with_2);
}

/* What a program sees of its keys tells nothing of others: they are what the generator, which is tested, draws for this key. */
static void indices_are_random_numbers(void **state)
{
	struct rand r;
	struct table t;
	int a;

	rand_key(&r, &key);
	table_init(&t, 24, 8, 1000, &key);
	for (int i = 0; i < 100; i++) {
		uint32_t id;

		assert_int_equal(table_insert(&t, &a, &id), 0);
		assert_int_equal(id >> 8, rand_u64(&r) & 0xffffff);
	}
	table_fini(&t);
}

static void random_run(const struct form *form, uint64_t seed)
{
	enum { OBJECTS = 300 };
	uint32_t id[OBJECTS] = { 0 }, in = 0, cursor = 0, seen = 0;
	struct rand r;
	struct table t;

	rand_seed(&r, seed);
	table_init(&t, form->index_bits, form->generation_bits, form->max, form->key);
	for (int step = 0; step < 20000; step++) {
		uint32_t i = (uint32_t)rand_below(&r, OBJECTS);

		if (id[i]) {
			assert_ptr_equal(table_get(&t, id[i]), &id[i]);
			assert_ptr_equal(table_remove(&t, id[i]), &id[i]);
			assert_null(table_get(&t, id[i]));
			id[i] = 0;
			in--;
		} else if (in < form->max) {
			assert_int_equal(table_insert(&t, &id[i], &id[i]), 0);
			in++;
		} else {
			assert_int_equal(table_insert(&t, &id[i], &id[i]), -ENOMEM);
			assert_int_equal(id[i], 0);
		}
		assert_int_equal(t.count, in);
	}
	for (uint32_t *object; (object = table_next(&t, &cursor)); seen++)
		assert_ptr_equal(table_get(&t, *object), object);
	assert_int_equal(seen, in);
	table_fini(&t);
}

static void random_operations(void **state)
{
	for (unsigned f = 0; f < COUNT(forms); f++) {
		for (uint64_t seed = 1; seed <= 3; seed++) {
			print_message("form %u seed %u\n", f, (unsigned)seed);
			random_run(&forms[f], seed);
		}
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(ids_are_distinct_and_not_zero),
		cmocka_unit_test(a_stale_id_misses),
		cmocka_unit_test(a_new_generation_replaces_the_old),
		cmocka_unit_test(foreign_ids_miss),
		cmocka_unit_test(keys_hide_the_order),
		cmocka_unit_test(indices_are_random_numbers),
		cmocka_unit_test(random_operations),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
