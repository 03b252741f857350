/* Our libibumad.so.3 beside the stock one: structures as its header has them, the same names of everything, the same buffers. */
#include "abi/umad/umad_abi.h"

#include <dlfcn.h>
#include <endian.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

struct library {
	void *handle;
	const char *(*class_str)(uint8_t);
	const char *(*method_str)(uint8_t, uint8_t);
	const char *(*attribute_str)(uint8_t, be16);
	const char *(*status_str)(be16);
	const char *(*sa_status_str)(be16);
	int (*set_addr)(void *, int, int, int, int);
	int (*set_addr_net)(void *, be16, be32, int, be32);
	int (*set_grh)(void *, void *);
	void *(*get_mad)(void *);
	ib_mad_addr_t *(*get_mad_addr)(void *);
	int (*status)(void *);
	int (*debug)(int);
	int (*sort)(struct umad_device_node **, size_t);
};

static struct library stock, ours;

static void *find(void *handle, const char *name)
{
	void *at = dlsym(handle, name);

	assert_non_null(at);
	return at;
}

static void load(struct library *l, const char *file)
{
	l->handle = dlopen(file, RTLD_NOW | RTLD_LOCAL);
	assert_non_null(l->handle);
	*(void **)&l->class_str = find(l->handle, "umad_class_str");
	*(void **)&l->method_str = find(l->handle, "umad_method_str");
	*(void **)&l->attribute_str = find(l->handle, "umad_attribute_str");
	*(void **)&l->status_str = find(l->handle, "umad_common_mad_status_str");
	*(void **)&l->sa_status_str = find(l->handle, "umad_sa_mad_status_str");
	*(void **)&l->set_addr = find(l->handle, "umad_set_addr");
	*(void **)&l->set_addr_net = find(l->handle, "umad_set_addr_net");
	*(void **)&l->set_grh = find(l->handle, "umad_set_grh");
	*(void **)&l->get_mad = find(l->handle, "umad_get_mad");
	*(void **)&l->get_mad_addr = find(l->handle, "umad_get_mad_addr");
	*(void **)&l->status = find(l->handle, "umad_status");
	*(void **)&l->debug = find(l->handle, "umad_debug");
	*(void **)&l->sort = find(l->handle, "umad_sort_ca_device_list");
}

static int begin(void **state)
{
	(void)state;
	load(&stock, STOCK);
	load(&ours, OURS);
	return 0;
}

static void names_are_the_same(void **state)
{
	(void)state;
	for (unsigned c = 0; c < 256; c++) {
		assert_string_equal(ours.class_str((uint8_t)c), stock.class_str((uint8_t)c));
		for (unsigned m = 0; m < 256; m++)
			assert_string_equal(ours.method_str((uint8_t)c, (uint8_t)m), stock.method_str((uint8_t)c, (uint8_t)m));
		for (unsigned a = 0; a < 65536; a += a < 1024 ? 1 : 1021)
			assert_string_equal(ours.attribute_str((uint8_t)c, htobe16((uint16_t)a)),
					    stock.attribute_str((uint8_t)c, htobe16((uint16_t)a)));
	}
	for (unsigned s = 0; s < 65536; s++) {
		assert_string_equal(ours.status_str((be16)s), stock.status_str((be16)s));
		assert_string_equal(ours.sa_status_str((be16)s), stock.sa_status_str((be16)s));
	}
}

static void buffers_are_the_same(void **state)
{
	struct { struct ib_user_mad head; uint8_t data[256]; } a, b;
	struct ib_mad_addr grh;

	(void)state;
	memset(&a, 0, sizeof(a));
	memset(&b, 0, sizeof(b));
	for (size_t i = 0; i < sizeof(grh); i++)
		((uint8_t *)&grh)[i] = (uint8_t)(i + 1);
	for (unsigned i = 0; i < 200; i++) {
		int lid = (int)(i * 331), qpn = (int)(i * 70001), sl = (int)(i % 16), qkey = (int)(i * 104729 + 0x80000000u);

		switch (i % 4) {
		case 0:
			ours.set_addr(&a, lid, qpn, sl, qkey);
			stock.set_addr(&b, lid, qpn, sl, qkey);
			break;
		case 1:
			ours.set_addr_net(&a, (be16)lid, (be32)qpn, sl, (be32)qkey);
			stock.set_addr_net(&b, (be16)lid, (be32)qpn, sl, (be32)qkey);
			break;
		default:
			ours.set_grh(&a, i % 4 == 2 ? &grh : NULL);
			stock.set_grh(&b, i % 4 == 2 ? &grh : NULL);
		}
		assert_memory_equal(&a, &b, sizeof(a));
	}
	a.head.status = b.head.status = 110;
	assert_int_equal(ours.status(&a), stock.status(&b));
	/* as the stock library has it from the first open port on: with a place for the P_Key's index */
	assert_ptr_equal(ours.get_mad(&a), a.data);
	assert_int_equal((char *)ours.get_mad_addr(&a) - (char *)&a, (char *)stock.get_mad_addr(&b) - (char *)&b);
	assert_int_equal(ours.debug(3), stock.debug(3));
	assert_int_equal(ours.debug(-1), stock.debug(-1));
}

static void lists_are_sorted(void **state)
{
	struct umad_device_node node[3] = { { &node[1], "weft2" }, { &node[2], "weft0" }, { NULL, "weft1" } }, *head = node;

	(void)state;
	assert_int_equal(ours.sort(&head, 3), 0);
	assert_ptr_equal(head, &node[1]);
	assert_ptr_equal(head->next, &node[2]);
	assert_ptr_equal(head->next->next, &node[0]);
	assert_null(node[0].next);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(names_are_the_same),
		cmocka_unit_test(buffers_are_the_same),
		cmocka_unit_test(lists_are_sorted),
	};

	return cmocka_run_group_tests(tests, begin, NULL);
}
