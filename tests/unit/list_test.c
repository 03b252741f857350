/* The intrusive list against the order that was asked for. */
#include "base/list.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>

#include <cmocka.h>

struct item {
	int value;
	struct list_node node;
};

#define ITEM(v) { .value = v }

static void expect(struct list *l, const char *values)
{
	const char *at = values;

	list_for_each(item, l, struct item, node) {
		assert_int_equal(item->value, *at - '0');
		at++;
	}
	assert_int_equal(*at, 0);
	for (struct list_node *n = l->head.prev; n != &l->head; n = n->prev)
		assert_int_equal(container_of(n, struct item, node)->value, *--at - '0');
	assert_ptr_equal(at, values);
}

static void starts_empty(void **state)
{
	struct item item = { 0 };
	struct list l;

	list_init(&l);
	assert_true(list_empty(&l));
	assert_null(list_first(&l));
	assert_null(list_last(&l));
	assert_null(list_pop(&l));
	assert_null(list_first_entry(&l, struct item, node));
	assert_false(list_linked(&item.node));
	list_remove(&item.node);	/* nothing happens */
	expect(&l, "");
}

static void keeps_order(void **state)
{
	struct item item[6] = { ITEM(0), ITEM(1), ITEM(2), ITEM(3), ITEM(4), ITEM(5) };
	struct list l;

	list_init(&l);
	list_append(&l, &item[2].node);
	list_append(&l, &item[4].node);
	list_prepend(&l, &item[1].node);
	list_insert_before(&item[4].node, &item[3].node);
	expect(&l, "1234");
	assert_ptr_equal(list_first_entry(&l, struct item, node), &item[1]);
	assert_ptr_equal(list_last(&l), &item[4].node);
	assert_ptr_equal(list_next(&l, &item[1].node), &item[2].node);
	assert_null(list_next(&l, &item[4].node));
	list_remove(&item[2].node);
	assert_false(list_linked(&item[2].node));
	list_remove(&item[2].node);
	expect(&l, "134");
	assert_ptr_equal(list_pop(&l), &item[1].node);
	list_append(&l, &item[1].node);
	expect(&l, "341");
}

static void splices(void **state)
{
	struct item item[4] = { ITEM(0), ITEM(1), ITEM(2), ITEM(3) };
	struct list a, b;

	list_init(&a);
	list_init(&b);
	list_splice(&a, &b);
	expect(&a, "");
	list_append(&b, &item[0].node);
	list_append(&b, &item[1].node);
	list_splice(&a, &b);
	expect(&a, "01");
	expect(&b, "");
	list_append(&b, &item[2].node);
	list_append(&b, &item[3].node);
	list_splice(&a, &b);
	expect(&a, "0123");
	list_remove(&item[3].node);
	expect(&a, "012");
}

static void safe_walk_may_remove(void **state)
{
	struct item item[6] = { ITEM(0), ITEM(1), ITEM(2), ITEM(3), ITEM(4), ITEM(5) };
	struct list l;

	list_init(&l);
	for (int i = 0; i < 6; i++)
		list_append(&l, &item[i].node);
	list_for_each_safe(at, &l, struct item, node)
		if (at->value % 2 == 0)
			list_remove(&at->node);
	expect(&l, "135");
	list_for_each_safe(at, &l, struct item, node)
		list_remove(&at->node);
	expect(&l, "");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(starts_empty),
		cmocka_unit_test(keeps_order),
		cmocka_unit_test(splices),
		cmocka_unit_test(safe_walk_may_remove),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
