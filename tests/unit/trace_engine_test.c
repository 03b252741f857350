/* The engine's records of a trace: numbers come back, damage is refused, and attributes survive. */
#include "impair/trace_engine.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

static void numbers_come_back(void **state)
{
	const struct trace_send put = {
		.opcode = 1, .flags = 2, .length = 1u << 31, .remote_addr = UINT64_MAX, .swap = 0x0123456789abcdef,
	};
	uint8_t data[sizeof(put)];
	struct trace_record r = { .kind = TRACE_SEND, .data = data, .bytes = sizeof(data) };
	struct trace_send got;

	trace_put_numbers(&put, sizeof(put), data);
	assert_int_equal(data[0], 1);		/* little-endian */
	assert_true(trace_get_numbers(&r, &got, sizeof(got)));
	assert_memory_equal(&got, &put, sizeof(put));
	for (r.bytes = 0; r.bytes < sizeof(data) + 8; r.bytes++) {
		if (r.bytes != sizeof(data))
			assert_false(trace_get_numbers(&r, &got, sizeof(got)));
	}
}

static void attributes_come_back(void **state)
{
	struct ca ca = { 0 };
	struct migration migration = { .alternate = { .has_grh = true, .slid = 5, .sgid = { 3 }, .dgid = { 4 } } };
	struct ca_device dev = { .protocol = &protocol_roce_v2, .pkeys = 1, .pkey = { 0xffff } };
	struct qp qp = {
		.ca = &ca, .dev = &dev, .type = IBV_QPT_RC, .state = IBV_QPS_RTR,
		.attr = { .dest_qp_num = 0x123456, .rq_psn = 0xfffffe, .path_mtu = IBV_MTU_2048,
			  .max_dest_rd_atomic = 7, .min_rnr_timer = 12, .path_mig_state = IBV_MIG_REARM, .alt_timeout = 19 },
		.path = { .has_grh = true, .sgid = { 1, 2 }, .dgid = { [15] = 9 } }, .migration = &migration,
	};
	struct ibv_qp_attr attr;
	struct trace_qp t;
	int mask = IBV_QP_STATE | IBV_QP_AV | IBV_QP_RQ_PSN | IBV_QP_PATH_MIG_STATE | IBV_QP_ALT_PATH | IBV_QP_RATE_LIMIT;

	trace_qp_of(&qp, mask, &t);
	assert_int_equal(trace_qp_attr(&t, &attr), mask & ~IBV_QP_RATE_LIMIT);
	assert_int_equal(attr.qp_state, IBV_QPS_RTR);
	assert_int_equal(attr.dest_qp_num, 0x123456);
	assert_int_equal(attr.rq_psn, 0xfffffe);
	assert_int_equal(attr.path_mtu, IBV_MTU_2048);
	assert_int_equal(attr.max_dest_rd_atomic, 7);
	assert_int_equal(attr.min_rnr_timer, 12);
	assert_int_equal(attr.path_mig_state, IBV_MIG_REARM);
	assert_int_equal(attr.alt_timeout, 19);
	assert_int_equal(t.alt_slid, 5);
	assert_memory_equal(t.alt_sgid, migration.alternate.sgid, 16);
	assert_memory_equal(t.alt_dgid, migration.alternate.dgid, 16);
	assert_memory_equal(t.sgid, qp.path.sgid, 16);
	assert_memory_equal(t.dgid, qp.path.dgid, 16);
}

int main(void)
{
	const struct CMUnitTest tests[] = { cmocka_unit_test(numbers_come_back), cmocka_unit_test(attributes_come_back) };

	return cmocka_run_group_tests(tests, NULL, NULL);
}
