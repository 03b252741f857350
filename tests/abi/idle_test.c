/* A request that a program posts after it has been idle for longer than its ACK timeout: the time that counts begins when it is
 * posted, also for what comes back from another QP of the same process in the same call. Runs with a weftd of its own
 * (e2e/with_weftd.sh). */
#include "rc.h"

#include <infiniband/verbs.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <unistd.h>

#include <cmocka.h>

/* The ACK timeout is 4.3 s (IBA 9.7.6.1.3), which a busy machine does not take for the write; one retry would hide it. */
enum { BYTES = 4 << 20, TIMEOUT = 20, IDLE_S = 5 };

static struct ibv_context *context;
static struct ibv_pd *pd;
static struct ibv_cq *cq;

static struct ibv_qp *make_qp(void)
{
	struct ibv_qp_init_attr init = { .send_cq = cq, .recv_cq = cq, .cap = { 16, 16, 1, 1, 0 }, .qp_type = IBV_QPT_RC,
					 .sq_sig_all = 1 };
	struct ibv_qp *qp = ibv_create_qp(pd, &init);

	assert_non_null(qp);
	return qp;
}

static void connect_to(struct ibv_qp *qp, const struct ibv_qp *peer)
{
	struct ibv_qp_attr attr = {
		.dest_qp_num = peer->qp_num, .qp_access_flags = IBV_ACCESS_REMOTE_WRITE, .timeout = TIMEOUT, .min_rnr_timer = 1,
		.max_rd_atomic = 1, .max_dest_rd_atomic = 1,
	};

	assert_int_equal(rc_connect(qp, attr), 0);
}

static struct ibv_mr *make_region(void)
{
	void *memory = calloc(1, BYTES);
	struct ibv_mr *mr = ibv_reg_mr(pd, memory, BYTES, IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE);

	assert_non_null(mr);
	return mr;
}

static void remove_region(struct ibv_mr *mr)
{
	void *memory = mr->addr;

	assert_int_equal(ibv_dereg_mr(mr), 0);
	free(memory);
}

static void a_write_after_a_long_pause_has_its_whole_timeout(void **state)
{
	struct ibv_mr *from, *to;
	struct ibv_qp *qp, *peer;
	struct ibv_send_wr wr = { .num_sge = 1, .opcode = IBV_WR_RDMA_WRITE }, *bad;
	struct ibv_sge sge = { .length = BYTES };
	struct ibv_wc wc;

	(void)state;
	context = device_open(0);
	assert_non_null(context);
	pd = ibv_alloc_pd(context);
	cq = ibv_create_cq(context, 64, NULL, NULL, 0);
	from = make_region();
	to = make_region();
	qp = make_qp();
	peer = make_qp();
	connect_to(qp, peer);
	connect_to(peer, qp);
	sleep(IDLE_S);
	sge.addr = (uintptr_t)from->addr;
	sge.lkey = from->lkey;
	wr.sg_list = &sge;
	wr.wr.rdma.remote_addr = (uintptr_t)to->addr;
	wr.wr.rdma.rkey = to->rkey;
	assert_int_equal(ibv_post_send(qp, &wr, &bad), 0);
	while (ibv_poll_cq(cq, 1, &wc) == 0)
		;
	assert_int_equal(wc.status, IBV_WC_SUCCESS);
	assert_int_equal(ibv_destroy_qp(qp), 0);
	assert_int_equal(ibv_destroy_qp(peer), 0);
	remove_region(from);
	remove_region(to);
	assert_int_equal(ibv_destroy_cq(cq), 0);
	assert_int_equal(ibv_dealloc_pd(pd), 0);
	assert_int_equal(ibv_close_device(context), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = { cmocka_unit_test(a_write_after_a_long_pause_has_its_whole_timeout) };

	setenv("WEFT_PATH", "packet", 1);
	return cmocka_run_group_tests_name("idle", tests, NULL, NULL);
}
