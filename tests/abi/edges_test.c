/* The edges of libibverbs' objects: what lies just beyond a limit is refused, what was taken back has no effect, and what a
 * program has not acknowledged is waited for. Runs with a weftd of its own (e2e/with_weftd.sh). */
#include "rc.h"

#include <errno.h>
#include <fcntl.h>
#include <infiniband/verbs.h>
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

enum { BYTES = 4096, SEGMENTS = 2, INLINE = 64 };

struct end {
	struct ibv_context *ctx[2];
	struct ibv_pd *pd;
	struct ibv_cq *cq;
	struct ibv_qp *qp;
	struct ibv_mr *mr;
	uint8_t *memory;
};

static int open_end(void **state)
{
	struct ibv_qp_init_attr_ex init = { .cap = { 8, 8, SEGMENTS, SEGMENTS, INLINE }, .qp_type = IBV_QPT_RC,
		.comp_mask = IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_SEND_OPS_FLAGS,
		.send_ops_flags = IBV_QP_EX_WITH_SEND | IBV_QP_EX_WITH_RDMA_WRITE };
	struct end *e = calloc(1, sizeof(*e));

	for (int i = 0; i < 2; i++)
		e->ctx[i] = device_open(i);
	e->pd = init.pd = ibv_alloc_pd(e->ctx[0]);
	e->cq = init.send_cq = init.recv_cq = ibv_create_cq(e->ctx[0], 32, NULL, NULL, 0);
	e->qp = ibv_create_qp_ex(e->ctx[0], &init);
	e->memory = aligned_alloc(BYTES, BYTES);
	e->mr = ibv_reg_mr(e->pd, e->memory, BYTES, IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE);
	*state = e;
	return !e->qp || !e->mr;
}

static int close_end(void **state)
{
	struct end *e = *state;

	if (e->qp && ibv_destroy_qp(e->qp))
		return -1;
	if (ibv_destroy_cq(e->cq) || ibv_dereg_mr(e->mr) || ibv_dealloc_pd(e->pd))
		return -1;
	for (int i = 0; i < 2; i++)
		ibv_close_device(e->ctx[i]);
	free(e->memory);
	free(e);
	return 0;
}

/* An RC QP that is its own peer. */
static void connect_to_itself(struct ibv_qp *qp)
{
	struct ibv_qp_attr attr = {
		.dest_qp_num = qp->qp_num, .timeout = 14, .retry_cnt = 7, .rnr_retry = 7, .min_rnr_timer = 12, .max_rd_atomic = 1,
		.max_dest_rd_atomic = 1, .qp_access_flags = IBV_ACCESS_REMOTE_WRITE,
	};

	assert_int_equal(rc_connect(qp, attr), 0);
}

static struct ibv_wc next_completion(struct end *e)
{
	struct ibv_wc wc;

	while (ibv_poll_cq(e->cq, 1, &wc) == 0)
		;
	assert_int_equal(wc.status, IBV_WC_SUCCESS);
	return wc;
}

static bool readable(int fd)
{
	struct pollfd p = { .fd = fd, .events = POLLIN };

	return poll(&p, 1, 0) == 1;
}

static void regions_have_bytes(void **state)
{
	struct end *e = *state;

	errno = 0;
	assert_null(ibv_reg_mr(e->pd, e->memory, 0, IBV_ACCESS_LOCAL_WRITE));
	assert_int_equal(errno, EINVAL);
}

static void completion_queues_know_their_attributes(void **state)
{
	struct end *e = *state;
	struct ibv_comp_channel *other = ibv_create_comp_channel(e->ctx[1]);
	struct ibv_cq_init_attr_ex attr = { .cqe = 4, .comp_mask = 1u << 30 };

	errno = 0;
	assert_null(ibv_create_cq(e->ctx[0], 4, NULL, other, 0));
	assert_int_equal(errno, EINVAL);
	errno = 0;
	assert_null(ibv_create_cq_ex(e->ctx[0], &attr));
	assert_int_equal(errno, EINVAL);
	assert_int_equal(ibv_destroy_comp_channel(other), 0);
}

static void device_memory_ends(void **state)
{
	struct end *e = *state;
	struct ibv_alloc_dm_attr attr = { .length = 64 };
	struct ibv_dm *dm = ibv_alloc_dm(e->ctx[0], &attr);
	uint8_t bytes[128] = { 0 };

	assert_non_null(dm);
	assert_int_equal(ibv_memcpy_to_dm(dm, 0, bytes, 64), 0);
	assert_int_equal(ibv_memcpy_to_dm(dm, 60, bytes, 4), 0);
	assert_int_equal(ibv_memcpy_to_dm(dm, 60, bytes, 8), EFAULT);
	assert_int_equal(ibv_memcpy_from_dm(bytes, dm, 32, 64), EFAULT);
	assert_int_equal(ibv_memcpy_to_dm(dm, 64, bytes, 4), EFAULT);
	assert_int_equal(ibv_free_dm(dm), 0);
}

/* One write of these bytes to the start of our memory. */
static void build_write(struct end *e, struct ibv_qp_ex *qp, uint64_t id, const void *bytes, size_t count)
{
	qp->wr_id = id;
	qp->wr_flags = IBV_SEND_SIGNALED;
	ibv_wr_rdma_write(qp, e->mr->rkey, (uintptr_t)e->memory);
	ibv_wr_set_inline_data(qp, (void *)(uintptr_t)bytes, count);
}

/* What was aborted, or failed, neither happens nor completes, also not with the next list. */
static void lists_taken_back_have_no_effect(void **state)
{
	struct end *e = *state;
	struct ibv_qp_ex *qp = ibv_qp_to_qp_ex(e->qp);
	struct ibv_sge sge[SEGMENTS + 1] = { { 0 } };
	struct ibv_data_buf two[2] = { { "0123456789012345678901234567890123456789", 40 }, { e->memory + 100, 40 } };
	struct ibv_wc wc;

	connect_to_itself(e->qp);
	memset(e->memory, 0, BYTES);
	ibv_wr_start(qp);
	build_write(e, qp, 1, "x", 1);
	build_write(e, qp, 2, "x", 1);
	ibv_wr_abort(qp);
	/* two pieces that fit each, but not together */
	ibv_wr_start(qp);
	build_write(e, qp, 3, "y", 1);
	ibv_wr_rdma_write(qp, e->mr->rkey, (uintptr_t)e->memory);
	ibv_wr_set_inline_data_list(qp, 2, two);
	assert_int_equal(ibv_wr_complete(qp), ENOMEM);
	/* one segment too many */
	ibv_wr_start(qp);
	build_write(e, qp, 4, "y", 1);
	ibv_wr_rdma_write(qp, e->mr->rkey, (uintptr_t)e->memory);
	ibv_wr_set_sge_list(qp, SEGMENTS + 1, sge);
	assert_int_equal(ibv_wr_complete(qp), EINVAL);
	ibv_wr_start(qp);
	build_write(e, qp, 5, "z", 1);
	assert_int_equal(ibv_wr_complete(qp), 0);
	assert_int_equal(next_completion(e).wr_id, 5);
	assert_int_equal(e->memory[0], 'z');
	assert_int_equal(ibv_poll_cq(e->cq, 1, &wc), 0);
}

/* IBV_SEND_INLINE is no flag of a builder: the data is inline when the last call that sets it says so. */
static void last_setter_says_where_data_is(void **state)
{
	struct end *e = *state;
	struct ibv_qp_ex *qp = ibv_qp_to_qp_ex(e->qp);

	connect_to_itself(e->qp);
	memset(e->memory, 0, BYTES);
	memcpy(e->memory + 100, "abc", 3);
	ibv_wr_start(qp);
	qp->wr_id = 1;
	qp->wr_flags = IBV_SEND_SIGNALED | IBV_SEND_INLINE;
	ibv_wr_rdma_write(qp, e->mr->rkey, (uintptr_t)e->memory + 1);
	ibv_wr_set_sge(qp, e->mr->lkey, (uintptr_t)e->memory + 100, 1);
	build_write(e, qp, 2, "0123456789", 10);
	ibv_wr_set_sge(qp, e->mr->lkey, (uintptr_t)e->memory + 101, 1);
	qp->wr_id = 3;
	ibv_wr_rdma_write(qp, e->mr->rkey, (uintptr_t)e->memory + 2);
	ibv_wr_set_sge(qp, e->mr->lkey, (uintptr_t)e->memory + 100, 3);
	ibv_wr_set_inline_data(qp, "z", 1);
	assert_int_equal(ibv_wr_complete(qp), 0);
	for (uint64_t id = 1; id <= 3; id++)
		assert_int_equal(next_completion(e).wr_id, id);
	assert_memory_equal(e->memory, "baz\0", 4);
}

static void receives_have_their_immediate_data(void **state)
{
	struct end *e = *state;
	struct ibv_sge sge = { (uintptr_t)e->memory, 16, e->mr->lkey };
	struct ibv_send_wr *bad_send, send = { .sg_list = &sge, .num_sge = 1, .opcode = IBV_WR_SEND_WITH_IMM,
					       .imm_data = 0x12345678 };
	struct ibv_recv_wr *bad_recv, recv = { .wr_id = 9, .sg_list = &sge, .num_sge = 1 };
	struct ibv_wc wc;

	connect_to_itself(e->qp);
	assert_int_equal(ibv_post_recv(e->qp, &recv, &bad_recv), 0);
	assert_int_equal(ibv_post_send(e->qp, &send, &bad_send), 0);
	wc = next_completion(e);
	assert_int_equal(wc.wr_id, 9);
	assert_int_equal(wc.wc_flags, IBV_WC_WITH_IMM);
	assert_int_equal(wc.imm_data, 0x12345678);
	assert_int_equal(wc.byte_len, 16);
	assert_int_equal(wc.qp_num, e->qp->qp_num);
}

/* ibv_end_poll gives the room back. */
static void extended_polling_goes_on(void **state)
{
	struct end *e = *state;
	struct ibv_qp_ex *qp = ibv_qp_to_qp_ex(e->qp);
	struct ibv_cq_ex *cq = (struct ibv_cq_ex *)e->cq;
	struct ibv_poll_cq_attr attr = { 0 };

	connect_to_itself(e->qp);
	for (uint64_t id = 0; id < 1000; id++) {
		ibv_wr_start(qp);
		build_write(e, qp, id, "x", 1);
		assert_int_equal(ibv_wr_complete(qp), 0);
		while (ibv_start_poll(cq, &attr) == ENOENT)
			assert_false(readable(e->ctx[0]->async_fd));	/* an overrun */
		assert_int_equal(cq->status, IBV_WC_SUCCESS);
		assert_int_equal(cq->wr_id, id);
		ibv_end_poll(cq);
	}
}

static _Atomic bool has_polled;

/* The number of one completion. */
static void *poll_another(void *arg)
{
	struct ibv_poll_cq_attr attr = { 0 };
	struct ibv_cq_ex *cq = arg;
	uint64_t id;

	while (ibv_start_poll(cq, &attr) == ENOENT)
		;
	atomic_store(&has_polled, true);
	id = cq->wr_id;
	ibv_end_poll(cq);
	return (void *)(uintptr_t)id;
}

/* A completion is the thread's that started the poll until it ends the poll, also when the CQ has no more of them. */
static void extended_polls_of_threads_take_turns(void **state)
{
	enum { TURNS = 10000 };
	struct end *e = *state;
	struct ibv_qp_ex *qp = ibv_qp_to_qp_ex(e->qp);
	struct ibv_cq_ex *cq = (struct ibv_cq_ex *)e->cq;
	struct ibv_poll_cq_attr attr = { 0 };
	pthread_t thread;
	void *other;

	connect_to_itself(e->qp);
	ibv_wr_start(qp);
	build_write(e, qp, 1, "x", 1);
	assert_int_equal(ibv_wr_complete(qp), 0);
	while (ibv_start_poll(cq, &attr) == ENOENT)
		;
	assert_int_equal(ibv_next_poll(cq), ENOENT);
	ibv_wr_start(qp);
	build_write(e, qp, 2, "x", 1);
	assert_int_equal(ibv_wr_complete(qp), 0);
	assert_int_equal(pthread_create(&thread, NULL, poll_another, cq), 0);
	for (unsigned i = 0; i < TURNS && !atomic_load(&has_polled); i++)
		sched_yield();
	assert_false(atomic_load(&has_polled));
	assert_int_equal(cq->wr_id, 1);
	ibv_end_poll(cq);
	assert_int_equal(pthread_join(thread, &other), 0);
	assert_int_equal((uintptr_t)other, 2);
}

/* Who has fetched one of two events finds the descriptor readable for the other. */
static void each_event_is_announced(void **state)
{
	struct end *e = *state;
	struct ibv_comp_channel *channel = ibv_create_comp_channel(e->ctx[0]);
	struct ibv_cq *cq[2], *got;
	struct ibv_qp *qp[2];
	struct ibv_sge sge = { (uintptr_t)e->memory, 1, e->mr->lkey };
	struct ibv_send_wr *bad, send = { .sg_list = &sge, .num_sge = 1, .opcode = IBV_WR_RDMA_WRITE,
					  .wr.rdma = { (uintptr_t)e->memory, e->mr->rkey } };
	void *context;

	for (int i = 0; i < 2; i++) {
		struct ibv_qp_init_attr init = { .cap = { 4, 4, 1, 1, 0 }, .qp_type = IBV_QPT_RC, .sq_sig_all = 1 };

		cq[i] = init.send_cq = init.recv_cq = ibv_create_cq(e->ctx[0], 8, NULL, channel, 0);
		qp[i] = ibv_create_qp(e->pd, &init);
		connect_to_itself(qp[i]);
		assert_int_equal(ibv_req_notify_cq(cq[i], 0), 0);
	}
	for (int i = 0; i < 2; i++) {
		struct ibv_wc wc;

		assert_int_equal(ibv_post_send(qp[i], &send, &bad), 0);
		while (ibv_poll_cq(cq[i], 1, &wc) == 0)
			;
	}
	for (int i = 0; i < 2; i++) {
		assert_true(readable(channel->fd));
		assert_int_equal(ibv_get_cq_event(channel, &got, &context), 0);
		assert_ptr_equal(got, cq[i]);
		ibv_ack_cq_events(got, 1);
	}
	assert_false(readable(channel->fd));
	for (int i = 0; i < 2; i++) {
		assert_int_equal(ibv_destroy_qp(qp[i]), 0);
		assert_int_equal(ibv_destroy_cq(cq[i]), 0);
	}
	assert_int_equal(ibv_destroy_comp_channel(channel), 0);
}

/* The QP's events: a COMM_EST for what it sent to itself in RTR is not sure, LAST_WQE_REACHED is. */
static struct ibv_qp *qp_with_event(struct end *e)
{
	struct ibv_srq_init_attr srq_init = { .attr = { 4, 1, 0 } };
	struct ibv_qp_init_attr init = { .send_cq = e->cq, .recv_cq = e->cq, .srq = ibv_create_srq(e->pd, &srq_init),
					 .cap = { 4, 0, 1, 0, 0 }, .qp_type = IBV_QPT_RC };
	struct ibv_qp_attr attr = { .qp_state = IBV_QPS_ERR };
	struct ibv_qp *qp = ibv_create_qp(e->pd, &init);

	assert_non_null(qp);
	connect_to_itself(qp);
	assert_int_equal(ibv_modify_qp(qp, &attr, IBV_QP_STATE), 0);
	return qp;
}

static void events_go_with_their_object(void **state)
{
	struct end *e = *state;
	struct ibv_qp *qp = qp_with_event(e);
	struct ibv_srq *srq = qp->srq;

	assert_true(readable(e->ctx[0]->async_fd));
	assert_int_equal(ibv_destroy_qp(qp), 0);
	assert_int_equal(ibv_destroy_srq(srq), 0);
	assert_false(readable(e->ctx[0]->async_fd));
}

/* Of an XRC receive QP, also when its creator's is gone. */
static void each_handle_has_the_event(void **state)
{
	struct end *e = *state;
	struct ibv_context *ctx[2] = { e->ctx[0], device_open(0) };
	struct ibv_xrcd_init_attr domain = { .comp_mask = IBV_XRCD_INIT_ATTR_FD | IBV_XRCD_INIT_ATTR_OFLAGS,
					     .fd = open("/", O_RDONLY), .oflags = O_CREAT };
	struct ibv_xrcd *xrcd[2] = { ibv_open_xrcd(ctx[0], &domain), ibv_open_xrcd(ctx[1], &domain) };
	struct ibv_qp_init_attr_ex from = { .send_cq = e->cq, .recv_cq = e->cq, .cap = { 4, 0, 1, 0, 0 }, .pd = e->pd,
					    .qp_type = IBV_QPT_XRC_SEND, .comp_mask = IBV_QP_INIT_ATTR_PD };
	struct ibv_qp_init_attr_ex to = { .qp_type = IBV_QPT_XRC_RECV, .comp_mask = IBV_QP_INIT_ATTR_XRCD, .xrcd = xrcd[0] };
	struct ibv_qp *qp = ibv_create_qp_ex(ctx[0], &from), *handle[2] = { ibv_create_qp_ex(ctx[0], &to) };
	struct ibv_qp_open_attr open_attr = { .qp_num = handle[0]->qp_num, .xrcd = xrcd[1], .qp_type = IBV_QPT_XRC_RECV,
		.comp_mask = IBV_QP_OPEN_ATTR_NUM | IBV_QP_OPEN_ATTR_XRCD | IBV_QP_OPEN_ATTR_TYPE };
	struct ibv_qp_attr reset = { .qp_state = IBV_QPS_RESET };
	struct ibv_qp_attr attr = { .timeout = 14, .retry_cnt = 7, .rnr_retry = 7, .min_rnr_timer = 12 };
	struct ibv_sge sge = { (uintptr_t)e->memory, 1, e->mr->lkey };
	struct ibv_send_wr *bad, refused = { .sg_list = &sge, .num_sge = 1, .opcode = IBV_WR_RDMA_WRITE };
	struct ibv_async_event event;
	struct ibv_wc wc;

	handle[1] = ibv_open_qp(ctx[1], &open_attr);
	assert_non_null(handle[1]);
	for (int gone = 0; gone < 2; gone++) {
		attr.dest_qp_num = handle[1]->qp_num;
		assert_int_equal(rc_connect(qp, attr), 0);
		attr.dest_qp_num = qp->qp_num;
		assert_int_equal(rc_connect(handle[1], attr), 0);
		assert_int_equal(ibv_post_send(qp, &refused, &bad), 0);	/* there is no SRQ 0 */
		while (ibv_poll_cq(e->cq, 1, &wc) == 0)
			;
		assert_int_equal(wc.status, IBV_WC_REM_INV_REQ_ERR);
		for (int i = gone; i < 2; i++) {
			assert_true(readable(ctx[i]->async_fd));
			assert_int_equal(ibv_get_async_event(ctx[i], &event), 0);
			assert_int_equal(event.event_type, IBV_EVENT_QP_REQ_ERR);
			assert_ptr_equal(event.element.qp, handle[i]);
			ibv_ack_async_event(&event);
			assert_false(readable(ctx[i]->async_fd));
		}
		assert_int_equal(ibv_modify_qp(qp, &reset, IBV_QP_STATE), 0);
		assert_int_equal(ibv_modify_qp(handle[1], &reset, IBV_QP_STATE), 0);
		assert_int_equal(ibv_destroy_qp(handle[gone]), 0);
	}
	assert_int_equal(ibv_destroy_qp(qp), 0);
	for (int i = 0; i < 2; i++)
		assert_int_equal(ibv_close_xrcd(xrcd[i]), 0);
	assert_int_equal(ibv_close_device(ctx[1]), 0);
	close(domain.fd);
}

static _Atomic bool is_destroyed;

static void *destroy(void *qp)
{
	assert_int_equal(ibv_destroy_qp(qp), 0);
	atomic_store(&is_destroyed, true);
	return NULL;
}

static void destroying_waits_for_acknowledgement(void **state)
{
	enum { TURNS = 200 };
	struct end *e = *state;
	struct ibv_qp *qp = qp_with_event(e);
	struct ibv_srq *srq = qp->srq;
	struct ibv_async_event event;
	pthread_t thread;

	assert_int_equal(ibv_get_async_event(e->ctx[0], &event), 0);
	assert_int_equal(event.event_type, IBV_EVENT_QP_LAST_WQE_REACHED);
	assert_ptr_equal(event.element.qp, qp);
	assert_int_equal(pthread_create(&thread, NULL, destroy, qp), 0);
	for (unsigned i = 0; i < TURNS && !atomic_load(&is_destroyed); i++)
		sched_yield();
	assert_false(atomic_load(&is_destroyed));
	ibv_ack_async_event(&event);
	assert_int_equal(pthread_join(thread, NULL), 0);
	assert_int_equal(ibv_destroy_srq(srq), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
#define TEST(name) cmocka_unit_test_setup_teardown(name, open_end, close_end)
		TEST(regions_have_bytes),
		TEST(completion_queues_know_their_attributes),
		TEST(device_memory_ends),
		TEST(lists_taken_back_have_no_effect),
		TEST(last_setter_says_where_data_is),
		TEST(receives_have_their_immediate_data),
		TEST(extended_polling_goes_on),
		TEST(extended_polls_of_threads_take_turns),
		TEST(each_event_is_announced),
		TEST(events_go_with_their_object),
		TEST(each_handle_has_the_event),
		TEST(destroying_waits_for_acknowledgement),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
