/* A program unmaps memory before it deregisters the region, as UCX does with the receives of an endpoint that it closes: an
 * adapter has pinned the pages, and what others send meanwhile harms nobody. The engine runs in weft's own thread. Runs with a
 * weftd of its own (e2e/with_weftd.sh). */
#include "rc.h"

#include <infiniband/verbs.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include <cmocka.h>

enum { BYTES = 4096, GRH = 40, QKEY = 77, ACCESS = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ |
						   IBV_ACCESS_REMOTE_ATOMIC };

/* Two QPs of one type, connected to each other, with one CQ; memory that is there, and memory that is gone. */
struct ends {
	struct ibv_context *context;
	struct ibv_pd *pd;
	struct ibv_cq *cq;
	struct ibv_qp *qp[2];
	struct ibv_mr *here, *gone;
};

static struct ibv_qp *make_qp(struct ends *e, enum ibv_qp_type type)
{
	struct ibv_qp_init_attr init = { .send_cq = e->cq, .recv_cq = e->cq, .cap = { 4, 4, 1, 1, 0 }, .qp_type = type,
					 .sq_sig_all = 1 };
	struct ibv_qp *qp = ibv_create_qp(e->pd, &init);

	assert_non_null(qp);
	return qp;
}

static void connect_to(struct ibv_qp *qp, const struct ibv_qp *peer)
{
	struct ibv_qp_attr attr = {
		.dest_qp_num = peer->qp_num, .qp_access_flags = ACCESS, .timeout = 20, .retry_cnt = 7, .rnr_retry = 7,
		.min_rnr_timer = 1, .max_rd_atomic = 1, .max_dest_rd_atomic = 1,
	};

	assert_int_equal(rc_connect(qp, attr), 0);
}

static void prepare_datagrams(struct ibv_qp *qp)
{
	struct ibv_qp_attr attr = { .qp_state = IBV_QPS_INIT, .port_num = 1, .qkey = QKEY };

	assert_int_equal(ibv_modify_qp(qp, &attr, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_QKEY), 0);
	attr.qp_state = IBV_QPS_RTR;
	assert_int_equal(ibv_modify_qp(qp, &attr, IBV_QP_STATE), 0);
	attr.qp_state = IBV_QPS_RTS;
	assert_int_equal(ibv_modify_qp(qp, &attr, IBV_QP_STATE | IBV_QP_SQ_PSN), 0);
}

static struct ibv_mr *make_region(struct ends *e)
{
	void *memory = mmap(NULL, BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	struct ibv_mr *mr = ibv_reg_mr(e->pd, memory, BYTES, ACCESS);

	assert_non_null(mr);
	memset(memory, 0xa5, BYTES);
	return mr;
}

static void open_ends(struct ends *e, enum ibv_qp_type type)
{
	e->context = device_open(0);
	assert_non_null(e->context);
	e->pd = ibv_alloc_pd(e->context);
	e->cq = ibv_create_cq(e->context, 16, NULL, NULL, 0);
	e->here = make_region(e);
	e->gone = make_region(e);
	for (int i = 0; i < 2; i++)
		e->qp[i] = make_qp(e, type);
	for (int i = 0; i < 2; i++)
		if (type == IBV_QPT_UD)
			prepare_datagrams(e->qp[i]);
		else
			connect_to(e->qp[i], e->qp[!i]);
}

static void close_ends(struct ends *e)
{
	for (int i = 0; i < 2; i++)
		assert_int_equal(ibv_destroy_qp(e->qp[i]), 0);
	assert_int_equal(ibv_dereg_mr(e->gone), 0);
	munmap(e->here->addr, BYTES);
	assert_int_equal(ibv_dereg_mr(e->here), 0);
	assert_int_equal(ibv_destroy_cq(e->cq), 0);
	assert_int_equal(ibv_dealloc_pd(e->pd), 0);
	assert_int_equal(ibv_close_device(e->context), 0);
}

static void post_receive(struct ends *e, struct ibv_mr *into)
{
	struct ibv_sge sge = { (uintptr_t)into->addr, BYTES, into->lkey };
	struct ibv_recv_wr wr = { .wr_id = 2, .sg_list = &sge, .num_sge = 1 }, *bad;

	assert_int_equal(ibv_post_recv(e->qp[1], &wr, &bad), 0);
}

static void post(struct ends *e, struct ibv_send_wr wr, struct ibv_mr *from, uint32_t bytes)
{
	struct ibv_sge sge = { (uintptr_t)from->addr, bytes, from->lkey };
	struct ibv_send_wr *bad;

	wr.sg_list = &sge;
	wr.num_sge = 1;
	assert_int_equal(ibv_post_send(e->qp[0], &wr, &bad), 0);
}

static void expect_completions(struct ends *e, int count, uint32_t received)
{
	struct ibv_wc wc;

	for (int i = 0; i < count; i++) {
		while (ibv_poll_cq(e->cq, 1, &wc) == 0)
			;
		assert_int_equal(wc.status, IBV_WC_SUCCESS);
		if (wc.wr_id == 2)
			assert_int_equal(wc.byte_len, received);
	}
}

static void unmap(struct ibv_mr *mr)
{
	assert_int_equal(munmap(mr->addr, BYTES), 0);
}

static void a_datagram_for_unmapped_memory_is_received(void **state)
{
	struct ends e;
	struct ibv_port_attr port;
	struct ibv_ah_attr to = { .port_num = 1 };
	struct ibv_ah *ah;

	(void)state;
	open_ends(&e, IBV_QPT_UD);
	assert_int_equal(ibv_query_port(e.context, 1, &port), 0);
	to.dlid = port.lid;
	ah = ibv_create_ah(e.pd, &to);
	assert_non_null(ah);
	post_receive(&e, e.gone);
	unmap(e.gone);
	post(&e, (struct ibv_send_wr){ .opcode = IBV_WR_SEND,
				       .wr.ud = { .ah = ah, .remote_qpn = e.qp[1]->qp_num, .remote_qkey = QKEY } }, e.here, 100);
	expect_completions(&e, 2, GRH + 100);
	assert_int_equal(ibv_destroy_ah(ah), 0);
	close_ends(&e);
}

static void send_message(bool from_gone)
{
	struct ends e;

	open_ends(&e, IBV_QPT_RC);
	post_receive(&e, from_gone ? e.here : e.gone);
	unmap(e.gone);
	post(&e, (struct ibv_send_wr){ .opcode = IBV_WR_SEND }, from_gone ? e.gone : e.here, BYTES);
	expect_completions(&e, 2, BYTES);
	close_ends(&e);
}

static void a_message_for_unmapped_memory_is_received(void **state)
{
	(void)state;
	send_message(false);
}

static void a_send_from_unmapped_memory_is_sent(void **state)
{
	(void)state;
	send_message(true);
}

static void a_write_to_unmapped_memory_succeeds(void **state)
{
	struct ends e;

	(void)state;
	open_ends(&e, IBV_QPT_RC);
	unmap(e.gone);
	post(&e, (struct ibv_send_wr){ .opcode = IBV_WR_RDMA_WRITE,
				       .wr.rdma = { (uintptr_t)e.gone->addr, e.gone->rkey } }, e.here, BYTES);
	expect_completions(&e, 1, 0);
	close_ends(&e);
}

/* An adapter would read what the pages held; weft does not have them any more. */
static void a_read_of_unmapped_memory_gets_zeros(void **state)
{
	struct ends e;

	(void)state;
	open_ends(&e, IBV_QPT_RC);
	unmap(e.gone);
	post(&e, (struct ibv_send_wr){ .opcode = IBV_WR_RDMA_READ,
				       .wr.rdma = { (uintptr_t)e.gone->addr, e.gone->rkey } }, e.here, BYTES);
	expect_completions(&e, 1, 0);
	for (int i = 0; i < BYTES; i++)
		assert_int_equal(((uint8_t *)e.here->addr)[i], 0);
	close_ends(&e);
}

static void an_atomic_on_unmapped_memory_gets_zero(void **state)
{
	struct ends e;

	(void)state;
	open_ends(&e, IBV_QPT_RC);
	unmap(e.gone);
	post(&e, (struct ibv_send_wr){ .opcode = IBV_WR_ATOMIC_FETCH_AND_ADD,
				       .wr.atomic = { .remote_addr = (uintptr_t)e.gone->addr, .rkey = e.gone->rkey,
						      .compare_add = 1 } }, e.here, 8);
	expect_completions(&e, 1, 0);
	assert_int_equal(*(uint64_t *)e.here->addr, 0);
	close_ends(&e);
}

/* With an argument over the way that needs no packets. */
int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_datagram_for_unmapped_memory_is_received),
		cmocka_unit_test(a_message_for_unmapped_memory_is_received),
		cmocka_unit_test(a_write_to_unmapped_memory_succeeds),
		cmocka_unit_test(a_read_of_unmapped_memory_gets_zeros),
		cmocka_unit_test(a_send_from_unmapped_memory_is_sent),
		cmocka_unit_test(an_atomic_on_unmapped_memory_gets_zero),
	};

	setenv("WEFT_ENGINE", "thread", 1);
	(void)argv;
	if (argc == 1)
		setenv("WEFT_PATH", "packet", 1);
	return cmocka_run_group_tests_name("unmapped", tests, NULL, NULL);
}
