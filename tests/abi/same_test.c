/* The pure functions of libibverbs answer as the stock library's do, over their whole range; and the layouts are those that
 * programs were compiled with. Both libraries are loaded side by side. */
#include <dlfcn.h>
#include <infiniband/sa.h>
#include <infiniband/verbs.h>
#include <rdma/ib_user_sa.h>
#include <rdma/ib_user_verbs.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>

#include <cmocka.h>

#undef ibv_get_device_list

static void *stock, *ours;

static void *entry(void *library, const char *name)
{
	void *f = dlsym(library, name);

	if (!f)
		fail_msg("%s is missing", name);
	return f;
}

/* x86-64, rdma-core 14 and later. */
static void layouts(void **state)
{
	assert_int_equal(sizeof(struct verbs_context), 648);
	assert_int_equal(offsetof(struct verbs_context, context), 320);
	assert_int_equal(offsetof(struct verbs_context, sz), 312);
	assert_int_equal(sizeof(struct ibv_context_ops), 32 * sizeof(void *));
	assert_int_equal(offsetof(struct ibv_context, ops), 8);
	assert_int_equal(offsetof(struct ibv_context, async_fd), 268);
	assert_int_equal(sizeof(struct ibv_device), 664);
	assert_int_equal(offsetof(struct ibv_device, name), 24);
	assert_int_equal(sizeof(struct ibv_qp), 160);
	assert_int_equal(offsetof(struct ibv_qp_ex, wr_id), 168);
	assert_int_equal(sizeof(struct ibv_wc), 48);
	assert_int_equal(sizeof(struct ibv_send_wr), 128);
	assert_int_equal(offsetof(struct ibv_port_attr, port_cap_flags2), 48);	/* more follows since rdma-core 49 */
	assert_int_equal(offsetof(struct ibv_cq_ex, start_poll), 144);
}

static void texts(void **state)
{
	static const char *const names[] = {
		"ibv_node_type_str", "ibv_port_state_str", "ibv_event_type_str", "ibv_wc_status_str",
	};

	for (unsigned i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
		const char *(*theirs)(int) = entry(stock, names[i]), *(*mine)(int) = entry(ours, names[i]);

		for (int v = -2; v < 40; v++)
			assert_string_equal(mine(v), theirs(v));
	}
}

/* The stock library has it since rdma-core 49, and nothing for the numbers between the last two opcodes. */
static void opcodes(void **state)
{
	const char *(*theirs)(int) = dlsym(stock, "ibv_wr_opcode_str");
	const char *(*mine)(int);

	if (!theirs)
		return;
	mine = entry(ours, "ibv_wr_opcode_str");
	for (int v = -2; v < 40; v++)
		assert_string_equal(mine(v), theirs(v) ? theirs(v) : "unknown");
}

static void same_numbers(const char *name, int from, int to)
{
	int (*theirs)(int) = entry(stock, name), (*mine)(int) = entry(ours, name);

	for (int v = from; v <= to; v++)
		if (mine(v) != theirs(v))
			fail_msg("%s(%d) is %d, the stock library's %d", name, v, mine(v), theirs(v));
}

static void rates(void **state)
{
	same_numbers("ibv_rate_to_mult", -1, 40);
	same_numbers("ibv_rate_to_mbps", -1, 40);
	same_numbers("mult_to_ibv_rate", -1, 600);
	same_numbers("mbps_to_ibv_rate", -1, 1300000);
}

/* Bytes that differ from member to member go in, and the same come out. */
static void same_conversion(const char *name, size_t to_bytes, size_t from_bytes)
{
	void (*theirs)(void *, void *) = entry(stock, name), (*mine)(void *, void *) = entry(ours, name);
	unsigned char *from = malloc(from_bytes), *a = calloc(1, to_bytes), *b = calloc(1, to_bytes);

	for (size_t i = 0; i < from_bytes; i++)
		from[i] = (unsigned char)(i * 37 + 11);
	theirs(a, from);
	mine(b, from);
	assert_memory_equal(a, b, to_bytes);
	free(from);
	free(a);
	free(b);
}

static void conversions(void **state)
{
	same_conversion("ibv_copy_ah_attr_from_kern", sizeof(struct ibv_ah_attr), sizeof(struct ib_uverbs_ah_attr));
	same_conversion("ibv_copy_qp_attr_from_kern", sizeof(struct ibv_qp_attr), sizeof(struct ib_uverbs_qp_attr));
	same_conversion("ibv_copy_path_rec_from_kern", sizeof(struct ibv_sa_path_rec), sizeof(struct ib_user_path_rec));
	same_conversion("ibv_copy_path_rec_to_kern", sizeof(struct ib_user_path_rec), sizeof(struct ibv_sa_path_rec));
}

/* Without a daemon there are no devices; a program of 2006 never sees one. */
static void no_devices(void **state)
{
	static const char *const versions[] = { "IBVERBS_1.0", "IBVERBS_1.1" };

	unsetenv("WEFT_DIR");
	for (unsigned i = 0; i < 2; i++) {
		void **(*list)(int *) = dlvsym(ours, "ibv_get_device_list", versions[i]);
		void (*done)(void **) = dlvsym(ours, "ibv_free_device_list", versions[i]);
		void **devices;
		int n = -1;

		assert_non_null(list);
		assert_non_null(done);
		devices = list(&n);
		assert_non_null(devices);
		assert_null(devices[0]);
		assert_int_equal(n, 0);
		done(devices);
	}
}

static void refusals(void **state)
{
	int (*refused)(void) = entry(ours, "ibv_cmd_create_flow");

	assert_int_equal(refused(), EOPNOTSUPP);
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(layouts), cmocka_unit_test(texts), cmocka_unit_test(opcodes), cmocka_unit_test(rates),
		cmocka_unit_test(conversions), cmocka_unit_test(no_devices), cmocka_unit_test(refusals),
	};

	stock = dlopen(STOCK, RTLD_NOW | RTLD_LOCAL);
	ours = dlmopen(LM_ID_NEWLM, OURS, RTLD_NOW | RTLD_LOCAL);
	if (!stock || !ours) {
		print_error("%s\n", dlerror());
		return 1;
	}
	return cmocka_run_group_tests(tests, NULL, NULL);
}
