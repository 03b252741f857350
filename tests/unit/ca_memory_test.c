/* What an adapter and its QPs take of the process's memory, rings aside, added up as it is allocated. */
#include "adapter.h"

#include "../allocator.h"
#include "ib/ib.h"

#include <malloc.h>

enum {
	ADAPTER_MOST = 17 << 10,	/* an adapter with one QP */
	QP_MOST = 6 << 10,		/* each further QP: itself, its engine, its window of 64 packets, copies of 17 WQEs */
	QPS = 300,
};

struct parts {
	struct adapter *a;
	struct pd *pd;
	struct cq *cq;
	size_t adapter_bytes;		/* of what is made of it here */
};

static int open_parts(void **state)
{
	static struct parts p;
	size_t before = allocator.held_bytes;

	p.a = adapter_new_sized(ADAPTER_BYTES);
	adapter_set_transports(p.a, &ib_transport);
	p.adapter_bytes = allocator.held_bytes - before - malloc_usable_size(p.a) + sizeof(p.a->ca);
	p.adapter_bytes -= sizeof(*p.a->second_roce);	/* weftd gives two devices */
	assert_int_equal(pd_create(&p.a->ca, p.a->ib, &p.pd), 0);
	assert_int_equal(cq_create(&p.a->ca, p.a->ib, 64, &p.cq), 0);
	*state = &p;
	return 0;
}

static int close_parts(void **state)
{
	adapter_delete(((struct parts *)*state)->a);
	return 0;
}

static int make_qp(struct parts *p, struct qp **qp)
{
	struct ibv_qp_init_attr_ex init = { .qp_type = IBV_QPT_RC, .cap = { 16, 16, 1, 1, 0 } };

	return qp_create(&p->a->ca, p->a->ib, &init, p->pd, p->cq, p->cq, NULL, NULL, qp);
}

static void an_adapter_with_one_queue_pair_is_small(void **state)
{
	struct parts *p = *state;
	size_t before = allocator.held_bytes, bytes;
	struct qp *qp;

	assert_int_equal(make_qp(p, &qp), 0);
	bytes = p->adapter_bytes + allocator.held_bytes - before;
	print_message("struct ca %zu, with what it allocates %zu, with one QP %zu\n", sizeof(struct ca), p->adapter_bytes, bytes);
	assert_true(bytes < ADAPTER_MOST);
}

/* Their numbers are each of another slot. */
static void queue_pairs_of_many_slots_are_small(void **state)
{
	struct parts *p = *state;
	size_t before;
	struct qp *qp;

	assert_int_equal(make_qp(p, &qp), 0);
	before = allocator.held_bytes;
	for (unsigned i = 0; i < QPS; i++)
		assert_int_equal(make_qp(p, &qp), 0);
	print_message("a further QP: %zu\n", (allocator.held_bytes - before) / QPS);
	assert_true(allocator.held_bytes - before < (size_t)QPS * QP_MOST);
}

/* Whichever allocation fails, that of a table that has to grow included: no QP is made, and all that there were are found. */
static void without_memory_the_tables_stay(void **state)
{
	struct parts *p = *state;
	struct qp *qp[40];

	for (unsigned i = 0; i < 40; i++) {
		unsigned n = 1;
		int err;

		while (allocator.fail_at = n++, err = make_qp(p, &qp[i]), err != 0) {
			assert_int_equal(err, -ENOMEM);
			for (unsigned k = 0; k < i; k++)
				assert_ptr_equal(qp_find(&p->a->ca, qp[k]->qpn), qp[k]);
		}
		allocator.fail_at = 0;
	}
}

#define PARTS(test) cmocka_unit_test_setup_teardown(test, open_parts, close_parts)

int main(void)
{
	const struct CMUnitTest tests[] = {
		PARTS(an_adapter_with_one_queue_pair_is_small),
		PARTS(queue_pairs_of_many_slots_are_small),
		PARTS(without_memory_the_tables_stay),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
