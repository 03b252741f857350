/* Many objects in one process, connected and in use: what they weigh is bounded. */
#include "rc.h"

#include <infiniband/verbs.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

enum { QPS = 10000, BOUND_MIB = 64 };

static struct ibv_context *context;
static struct ibv_pd *pd;
static struct ibv_cq *cq;
static struct ibv_mr *mr;
static uint8_t memory[4096];
static union ibv_gid gid;
static uint16_t lid;

static int open_device(void **state)
{
	struct ibv_port_attr port;

	context = device_open(0);
	assert_non_null(context);
	pd = ibv_alloc_pd(context);
	cq = ibv_create_cq(context, 100, NULL, NULL, 0);
	mr = ibv_reg_mr(pd, memory, sizeof(memory), IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE);
	assert_true(pd && cq && mr);
	assert_int_equal(ibv_query_port(context, 1, &port), 0);
	assert_int_equal(ibv_query_gid(context, 1, 0, &gid), 0);
	lid = port.lid;
	return 0;
}

static uint64_t memory_kb(void)
{
	FILE *f = fopen("/proc/self/smaps_rollup", "r");
	unsigned long kb = 0;
	char line[256];

	assert_non_null(f);
	while (!kb && fgets(line, sizeof(line), f))
		(void)sscanf(line, "Pss: %lu", &kb);
	fclose(f);
	assert_true(kb > 0);
	return kb;
}

static void connect_qp(struct ibv_qp *qp, uint32_t qpn)
{
	struct ibv_qp_attr attr = {
		.qp_access_flags = IBV_ACCESS_REMOTE_WRITE, .dest_qp_num = qpn,
		.ah_attr = { .dlid = lid, .is_global = 1, .grh = { .dgid = gid, .hop_limit = 64 } },
		.timeout = 18, .retry_cnt = 7, .rnr_retry = 7, .min_rnr_timer = 12, .max_rd_atomic = 1, .max_dest_rd_atomic = 1,
	};

	assert_int_equal(rc_connect(qp, attr), 0);
}

static void await(unsigned completions)
{
	struct ibv_wc wc;

	while (completions) {
		if (ibv_poll_cq(cq, 1, &wc) == 0)
			continue;
		assert_int_equal(wc.status, IBV_WC_SUCCESS);
		completions--;
	}
}

static void send_and_receive(struct ibv_qp *from, struct ibv_qp *to)
{
	struct ibv_sge sge = { (uintptr_t)memory, 64, mr->lkey }, into = { (uintptr_t)memory + 1024, 64, mr->lkey };
	struct ibv_send_wr *bad_send, send = {
		.sg_list = &sge, .num_sge = 1, .opcode = IBV_WR_SEND, .send_flags = IBV_SEND_SIGNALED,
	};
	struct ibv_recv_wr receive = { .sg_list = &into, .num_sge = 1 }, *bad_receive;

	assert_int_equal(ibv_post_recv(to, &receive, &bad_receive), 0);
	assert_int_equal(ibv_post_send(from, &send, &bad_send), 0);
	await(2);
}

static void ten_thousand_qps_weigh_little(void **state)
{
	struct ibv_qp_init_attr init = { .send_cq = cq, .recv_cq = cq, .qp_type = IBV_QPT_RC,
					 .cap = { .max_send_wr = 1, .max_recv_wr = 1, .max_send_sge = 1, .max_recv_sge = 1 } };
	static struct ibv_qp *qp[QPS];
	uint64_t before = memory_kb(), each;

	for (unsigned i = 0; i < QPS; i++) {
		qp[i] = ibv_create_qp(pd, &init);
		assert_non_null(qp[i]);
	}
	for (unsigned i = 0; i < QPS; i++)
		connect_qp(qp[i], qp[i ^ 1]->qp_num);
	for (unsigned i = 0; i < QPS; i++)
		send_and_receive(qp[i], qp[i ^ 1]);
	each = (memory_kb() - before) * 1024 / QPS;
	print_message("%lu bytes each\n", (unsigned long)each);
	assert_true(each * QPS <= (uint64_t)BOUND_MIB << 20);
	for (unsigned i = 0; i < QPS; i++)
		assert_int_equal(ibv_destroy_qp(qp[i]), 0);
}

/* As many again need no more memory; other processes come and go, with whom pages are shared. */
static void what_is_destroyed_is_used_again(void **state)
{
	uint64_t before = memory_kb();

	ten_thousand_qps_weigh_little(state);
	assert_true(memory_kb() <= before + 4096);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(ten_thousand_qps_weigh_little),
		cmocka_unit_test(what_is_destroyed_is_used_again),
	};

	return cmocka_run_group_tests(tests, open_device, NULL);
}
