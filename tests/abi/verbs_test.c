/* What a program meets at libibverbs beyond traffic: registration of bad memory, event descriptors, builders that fail, imports,
 * refusals, and closing a device with everything still open. Runs with a weftd of its own (e2e/with_weftd.sh). */
#include "rc.h"

#include <dirent.h>
#include <fcntl.h>
#include <infiniband/verbs.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <poll.h>
#include <pthread.h>
#include <semaphore.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cmocka.h>

enum { PAGE = 4096, BYTES = 256, MANY = 4096, ROUNDS = 20000 };

/* Of the helper's coming and going: what attaching left to do, and to hand the lock over and back. */
enum { FIRST_CALLS = 8, CALLS_A_PAUSE = 4 };

struct end {
	struct ibv_context *ctx;
	struct ibv_pd *pd;
	struct ibv_comp_channel *channel;
	struct ibv_cq *cq;
	struct ibv_qp *qp;
	struct ibv_mr *mr;
	char *memory;
};

static struct ibv_context *open_device_at(int i)
{
	struct ibv_context *ctx = device_open(i);

	assert_non_null(ctx);
	return ctx;
}

static struct ibv_context *open_device(void)
{
	return open_device_at(0);
}

static void to_rts(struct ibv_qp *qp, struct ibv_qp *peer)
{
	struct ibv_port_attr port;
	struct ibv_qp_attr attr = {
		.dest_qp_num = peer->qp_num, .timeout = 14, .retry_cnt = 7, .rnr_retry = 7, .min_rnr_timer = 12,
		.max_rd_atomic = 1, .max_dest_rd_atomic = 1,
	};

	assert_int_equal(ibv_query_port(qp->context, 1, &port), 0);
	attr.ah_attr.is_global = port.link_layer == IBV_LINK_LAYER_ETHERNET;
	attr.ah_attr.grh.hop_limit = 1;
	assert_int_equal(ibv_query_gid(qp->context, 1, 0, &attr.ah_attr.grh.dgid), 0);
	assert_int_equal(rc_connect(qp, attr), 0);
}

/* An RC QP that is its own peer. */
static struct end end_open(uint64_t send_ops)
{
	struct end e = { .ctx = open_device() };
	struct ibv_qp_init_attr_ex init = { .cap = { 8, 8, 2, 2, 64 }, .qp_type = IBV_QPT_RC, .comp_mask = IBV_QP_INIT_ATTR_PD };

	e.pd = ibv_alloc_pd(e.ctx);
	e.channel = ibv_create_comp_channel(e.ctx);
	assert_non_null(e.channel);
	e.cq = ibv_create_cq(e.ctx, 32, &e, e.channel, 0);
	assert_non_null(e.cq);
	init.pd = e.pd;
	init.send_cq = init.recv_cq = e.cq;
	if (send_ops) {
		init.comp_mask |= IBV_QP_INIT_ATTR_SEND_OPS_FLAGS;
		init.send_ops_flags = send_ops;
	}
	e.qp = ibv_create_qp_ex(e.ctx, &init);
	assert_non_null(e.qp);
	e.memory = aligned_alloc(PAGE, PAGE);
	e.mr = ibv_reg_mr(e.pd, e.memory, PAGE, IBV_ACCESS_LOCAL_WRITE);
	assert_non_null(e.mr);
	to_rts(e.qp, e.qp);
	return e;
}

static void end_close(struct end *e)
{
	if (e->qp)
		assert_int_equal(ibv_destroy_qp(e->qp), 0);
	if (e->cq)
		assert_int_equal(ibv_destroy_cq(e->cq), 0);
	assert_int_equal(ibv_destroy_comp_channel(e->channel), 0);
	assert_int_equal(ibv_dereg_mr(e->mr), 0);
	assert_int_equal(ibv_dealloc_pd(e->pd), 0);
	assert_int_equal(ibv_close_device(e->ctx), 0);
	free(e->memory);
}

static void expect_refused(struct ibv_pd *pd, void *addr, size_t length, unsigned int access, int error)
{
	errno = 0;
	assert_null(ibv_reg_mr_iova2(pd, addr, length, (uintptr_t)addr, access));
	assert_int_equal(errno, error);
}

static void registration(void **state)
{
	struct ibv_context *ctx = open_device();
	struct ibv_pd *pd = ibv_alloc_pd(ctx);
	char *m = mmap(NULL, 8 * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	struct ibv_mr *mr;

	expect_refused(pd, m, 0, 0, EINVAL);
	expect_refused(pd, m, SIZE_MAX, 0, EINVAL);
	expect_refused(pd, m, PAGE, IBV_ACCESS_REMOTE_WRITE, EINVAL);
	expect_refused(pd, m, PAGE, 1u << 31, EINVAL);
	mprotect(m + 7 * PAGE, PAGE, PROT_NONE);
	expect_refused(pd, m, 8 * PAGE, 0, EFAULT);
	mprotect(m, PAGE, PROT_READ);
	expect_refused(pd, m, 2 * PAGE, IBV_ACCESS_LOCAL_WRITE, EFAULT);
	mprotect(m + 2 * PAGE, PAGE, PROT_READ);
	expect_refused(pd, m + PAGE, 3 * PAGE, IBV_ACCESS_LOCAL_WRITE, EFAULT);
	mprotect(m + 2 * PAGE, PAGE, PROT_READ | PROT_WRITE);
	mr = ibv_reg_mr(pd, m, 2 * PAGE, IBV_ACCESS_REMOTE_READ);
	assert_non_null(mr);
	assert_int_equal(ibv_dealloc_pd(pd), EBUSY);
	assert_int_equal(ibv_dereg_mr(mr), 0);
	munmap(m + 3 * PAGE, PAGE);
	expect_refused(pd, m + 2 * PAGE, 3 * PAGE, IBV_ACCESS_LOCAL_WRITE, EFAULT);
	expect_refused(pd, m + 3 * PAGE, 1, 0, EFAULT);
	/* what is not there may still come when the program pages on demand */
	mr = ibv_reg_mr(pd, m + 3 * PAGE, PAGE, IBV_ACCESS_ON_DEMAND);
	assert_non_null(mr);
	assert_int_equal(ibv_dereg_mr(mr), 0);
	assert_int_equal(ibv_dealloc_pd(pd), 0);
	assert_int_equal(ibv_close_device(ctx), 0);
	munmap(m, 8 * PAGE);
}

/* What a region becomes is probed as what a new one is. */
static void regions_change_to_what_is_there(void **state)
{
	enum { MOVE = IBV_REREG_MR_CHANGE_TRANSLATION, ACCESS = IBV_REREG_MR_CHANGE_ACCESS, WRITE = IBV_ACCESS_LOCAL_WRITE,
	       READ = IBV_ACCESS_REMOTE_READ, DEMAND = IBV_ACCESS_ON_DEMAND };
	struct ibv_context *ctx = open_device();
	struct ibv_pd *pd = ibv_alloc_pd(ctx);
	char *m = mmap(NULL, 2 * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0), *fixed = m + PAGE;
	const struct {
		int flags, access;
		char *at, *to;
		int was, error;		/* its access before */
	} rows[] = {
		{ MOVE, 0, m, fixed, WRITE, EFAULT }, { MOVE, 0, m, fixed, READ, 0 },
		{ ACCESS, WRITE, fixed, NULL, READ, EFAULT }, { ACCESS, WRITE, m, NULL, READ, 0 },
		{ ACCESS, READ, fixed, NULL, READ, 0 }, { MOVE | ACCESS, READ, m, fixed, WRITE, 0 },
		{ MOVE | ACCESS, WRITE, m, fixed, READ, EFAULT }, { MOVE, 0, m, fixed, WRITE | DEMAND, 0 },
		{ ACCESS, WRITE | DEMAND, fixed, NULL, READ, 0 }, { IBV_REREG_MR_CHANGE_PD, 0, m, NULL, WRITE, 0 },
	};
	struct ibv_mr *mr;

	mprotect(fixed, PAGE, PROT_READ);
	for (unsigned i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		mr = ibv_reg_mr(pd, rows[i].at, PAGE, rows[i].was);
		assert_non_null(mr);
		errno = 0;
		assert_int_equal(ibv_rereg_mr(mr, rows[i].flags, pd, rows[i].to, PAGE, rows[i].access),
				 rows[i].error ? IBV_REREG_MR_ERR_INPUT : 0);
		assert_int_equal(errno, rows[i].error);
		assert_int_equal(ibv_dereg_mr(mr), 0);
	}
	mr = ibv_alloc_null_mr(pd);
	assert_non_null(mr);
	assert_int_equal(ibv_rereg_mr(mr, ACCESS, NULL, NULL, 0, WRITE), IBV_REREG_MR_ERR_INPUT);
	assert_int_equal(errno, EINVAL);
	assert_int_equal(ibv_dereg_mr(mr), 0);
	munmap(m, 2 * PAGE);
	assert_int_equal(ibv_dealloc_pd(pd), 0);
	assert_int_equal(ibv_close_device(ctx), 0);
}

/* A mapping with fewer rights in the middle of a large region, whose pages nobody has touched. */
static void large_regions_are_probed_too(void **state)
{
	struct ibv_context *ctx = open_device();
	struct ibv_pd *pd = ibv_alloc_pd(ctx);
	size_t bytes = (size_t)1 << 30;
	char *m = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	struct ibv_mr *mr = ibv_reg_mr(pd, m, bytes, IBV_ACCESS_LOCAL_WRITE);
	unsigned char present;

	(void)state;
	assert_non_null(mr);
	assert_int_equal(ibv_dereg_mr(mr), 0);
	assert_int_equal(mincore(m + bytes / 2, PAGE, &present), 0);
	assert_int_equal(present & 1, 0);
	mprotect(m + bytes / 2, PAGE, PROT_READ);
	expect_refused(pd, m, bytes, IBV_ACCESS_LOCAL_WRITE, EFAULT);
	mr = ibv_reg_mr(pd, m, bytes, IBV_ACCESS_REMOTE_READ);
	assert_non_null(mr);
	assert_int_equal(ibv_dereg_mr(mr), 0);
	mprotect(m + bytes / 2, PAGE, PROT_NONE);
	expect_refused(pd, m, bytes, 0, EFAULT);
	munmap(m, bytes);
	assert_int_equal(ibv_dealloc_pd(pd), 0);
	assert_int_equal(ibv_close_device(ctx), 0);
}

static bool readable(int fd)
{
	struct pollfd p = { .fd = fd, .events = POLLIN };

	return poll(&p, 1, 0) == 1;
}

static void send_one(struct end *e, unsigned flags)
{
	struct ibv_sge sge = { (uintptr_t)e->memory, BYTES, e->mr->lkey };
	struct ibv_send_wr *bad_send, send = { .sg_list = &sge, .num_sge = 1, .opcode = IBV_WR_SEND, .send_flags = flags };
	struct ibv_recv_wr *bad_recv, recv = { .sg_list = &sge, .num_sge = 1 };

	assert_int_equal(ibv_post_recv(e->qp, &recv, &bad_recv), 0);
	assert_int_equal(ibv_post_send(e->qp, &send, &bad_send), 0);
}

static void poll_one(struct end *e)
{
	struct ibv_wc wc;

	while (ibv_poll_cq(e->cq, 1, &wc) == 0)
		;
	assert_int_equal(wc.status, IBV_WC_SUCCESS);
	assert_int_equal(wc.byte_len, BYTES);
}

static void completion_events(void **state)
{
	struct end e = end_open(0);
	struct ibv_cq *cq = NULL;
	void *context = NULL;

	fcntl(e.channel->fd, F_SETFL, O_NONBLOCK);
	assert_int_equal(ibv_get_cq_event(e.channel, &cq, &context), -1);
	assert_int_equal(errno, EAGAIN);
	assert_false(readable(e.channel->fd));
	assert_int_equal(ibv_req_notify_cq(e.cq, 0), 0);
	send_one(&e, 0);
	poll_one(&e);
	assert_true(readable(e.channel->fd));
	assert_int_equal(ibv_get_cq_event(e.channel, &cq, &context), 0);
	assert_ptr_equal(cq, e.cq);
	assert_ptr_equal(context, e.cq->cq_context);
	assert_false(readable(e.channel->fd));
	ibv_ack_cq_events(cq, 1);
	/* an event nobody fetched goes with its CQ */
	assert_int_equal(ibv_req_notify_cq(e.cq, 0), 0);
	send_one(&e, 0);
	poll_one(&e);
	assert_true(readable(e.channel->fd));
	assert_int_equal(ibv_destroy_comp_channel(e.channel), EBUSY);
	assert_int_equal(ibv_destroy_cq(e.cq), EBUSY);
	assert_int_equal(ibv_destroy_qp(e.qp), 0);
	assert_int_equal(ibv_destroy_cq(e.cq), 0);
	e.qp = NULL;
	e.cq = NULL;
	assert_false(readable(e.channel->fd));
	assert_int_equal(ibv_get_cq_event(e.channel, &cq, &context), -1);
	assert_int_equal(errno, EAGAIN);
	end_close(&e);
}

/* More sends than may be under way at once, to itself, and then it sleeps: nobody but its own helper can go on with them. */
static void a_sleeper_is_its_own_peer(void **state)
{
	enum { SENDS = 512, PATIENCE_MS = 20000 };
	struct end e = end_open(0);
	struct ibv_cq *received = ibv_create_cq(e.ctx, SENDS, NULL, NULL, 0);
	struct ibv_qp_init_attr init = {
		.send_cq = e.cq, .recv_cq = received, .cap = { SENDS, SENDS, 1, 1, 0 }, .qp_type = IBV_QPT_RC,
	};
	struct ibv_qp *qp = ibv_create_qp(e.pd, &init);
	struct ibv_sge sge = { (uintptr_t)e.memory, BYTES, e.mr->lkey };
	struct ibv_recv_wr *bad_recv, recv = { .sg_list = &sge, .num_sge = 1 };
	struct ibv_send_wr *bad_send, *send = calloc(SENDS, sizeof(*send));
	struct pollfd p = { .fd = e.channel->fd, .events = POLLIN };
	struct ibv_cq *cq;
	void *context;

	assert_non_null(received);
	assert_non_null(qp);
	to_rts(qp, qp);
	for (unsigned i = 0; i < SENDS; i++) {
		send[i] = (struct ibv_send_wr){ .sg_list = &sge, .num_sge = 1, .opcode = IBV_WR_SEND };
		send[i].next = i + 1 < SENDS ? &send[i + 1] : NULL;
		assert_int_equal(ibv_post_recv(qp, &recv, &bad_recv), 0);
	}
	send[SENDS - 1].send_flags = IBV_SEND_SIGNALED;
	assert_int_equal(ibv_req_notify_cq(e.cq, 0), 0);
	assert_int_equal(ibv_post_send(qp, send, &bad_send), 0);
	assert_int_equal(poll(&p, 1, PATIENCE_MS), 1);
	assert_int_equal(ibv_get_cq_event(e.channel, &cq, &context), 0);
	ibv_ack_cq_events(cq, 1);
	poll_one(&e);
	assert_int_equal(ibv_destroy_qp(qp), 0);
	assert_int_equal(ibv_destroy_cq(received), 0);
	free(send);
	end_close(&e);
}

static void async_events(void **state)
{
	struct end e = end_open(0);
	struct ibv_async_event event;
	struct ibv_qp_attr attr = { .qp_state = IBV_QPS_SQD, .en_sqd_async_notify = 1 };

	fcntl(e.ctx->async_fd, F_SETFL, O_NONBLOCK);
	assert_int_equal(ibv_get_async_event(e.ctx, &event), -1);
	assert_int_equal(errno, EAGAIN);
	assert_false(readable(e.ctx->async_fd));
	/* a send queue that stands still says so, once */
	assert_int_equal(ibv_modify_qp(e.qp, &attr, IBV_QP_STATE | IBV_QP_EN_SQD_ASYNC_NOTIFY), 0);
	assert_int_equal(poll(&(struct pollfd){ e.ctx->async_fd, POLLIN, 0 }, 1, -1), 1);
	assert_int_equal(ibv_get_async_event(e.ctx, &event), 0);
	assert_int_equal(event.event_type, IBV_EVENT_SQ_DRAINED);
	assert_ptr_equal(event.element.qp, e.qp);
	ibv_ack_async_event(&event);
	assert_int_equal(ibv_get_async_event(e.ctx, &event), -1);
	assert_int_equal(errno, EAGAIN);
	assert_false(readable(e.ctx->async_fd));
	end_close(&e);
}

static void builders(void **state)
{
	struct end e = end_open(IBV_QP_EX_WITH_SEND | IBV_QP_EX_WITH_RDMA_WRITE);
	struct ibv_qp_ex *qp = ibv_qp_to_qp_ex(e.qp);
	struct ibv_sge sge[3] = { { (uintptr_t)e.memory, BYTES, e.mr->lkey } };
	struct ibv_recv_wr *bad, recv = { .sg_list = sge, .num_sge = 1 };
	struct ibv_wc wc;
	char large[4096] = { 0 };

	assert_non_null(qp);
	assert_int_equal(ibv_post_recv(e.qp, &recv, &bad), 0);
	/* a fault in one request takes back the whole list */
	ibv_wr_start(qp);
	qp->wr_flags = IBV_SEND_SIGNALED;
	ibv_wr_send(qp);
	ibv_wr_set_sge(qp, e.mr->lkey, (uintptr_t)e.memory, BYTES);
	ibv_wr_send(qp);
	ibv_wr_set_sge_list(qp, 3, sge);
	assert_int_equal(ibv_wr_complete(qp), EINVAL);
	ibv_wr_start(qp);
	ibv_wr_send(qp);
	ibv_wr_set_inline_data(qp, large, sizeof(large));
	assert_int_not_equal(ibv_wr_complete(qp), 0);
	ibv_wr_start(qp);
	ibv_wr_send(qp);
	ibv_wr_abort(qp);
	assert_int_equal(ibv_poll_cq(e.cq, 1, &wc), 0);
	/* more than the queue holds */
	ibv_wr_start(qp);
	for (unsigned i = 0; i < 100000; i++)
		ibv_wr_rdma_write(qp, 0, 0);
	assert_int_equal(ibv_wr_complete(qp), ENOMEM);
	/* and after all that, one that is good */
	ibv_wr_start(qp);
	qp->wr_id = 7;
	qp->wr_flags = 0;
	ibv_wr_send(qp);
	ibv_wr_set_sge(qp, e.mr->lkey, (uintptr_t)e.memory, BYTES);
	assert_int_equal(ibv_wr_complete(qp), 0);
	poll_one(&e);
	end_close(&e);
}

static void plain_has_no_builders(void **state)
{
	struct end e = end_open(0);

	assert_null(ibv_qp_to_qp_ex(e.qp));
	end_close(&e);
}

static void extended_cq(void **state)
{
	struct end e = end_open(0);
	struct ibv_cq_init_attr_ex attr = { .cqe = 8, .wc_flags = IBV_WC_EX_WITH_TM_INFO };
	struct ibv_values_ex clock = { .comp_mask = IBV_VALUES_MASK_RAW_CLOCK };
	struct ibv_poll_cq_attr poll_attr = { 0 };
	struct ibv_cq_ex *cq;
	uint64_t now;

	assert_null(ibv_create_cq_ex(e.ctx, &attr));
	assert_int_equal(errno, EOPNOTSUPP);
	attr.wc_flags = IBV_WC_STANDARD_FLAGS | IBV_WC_EX_WITH_COMPLETION_TIMESTAMP;
	attr.comp_vector = (uint32_t)e.ctx->num_comp_vectors;
	assert_null(ibv_create_cq_ex(e.ctx, &attr));
	assert_int_equal(errno, EINVAL);
	attr.comp_vector = 0;
	cq = ibv_create_cq_ex(e.ctx, &attr);
	assert_non_null(cq);
	assert_int_equal(ibv_start_poll(cq, &poll_attr), ENOENT);
	assert_int_equal(ibv_destroy_cq(ibv_cq_ex_to_cq(cq)), 0);
	send_one(&e, 0);
	poll_one(&e);
	assert_int_equal(ibv_query_rt_values_ex(e.ctx, &clock), 0);
	now = (uint64_t)clock.raw_clock.tv_sec * 1000000000 + (uint64_t)clock.raw_clock.tv_nsec;
	/* any CQ can be polled either way */
	send_one(&e, 0);
	cq = (struct ibv_cq_ex *)e.cq;
	while (ibv_start_poll(cq, &poll_attr) == ENOENT)
		;
	assert_int_equal(cq->status, IBV_WC_SUCCESS);
	assert_int_equal(ibv_wc_read_byte_len(cq), BYTES);
	assert_int_equal(ibv_wc_read_opcode(cq), IBV_WC_RECV);
	assert_int_equal(ibv_wc_read_qp_num(cq), e.qp->qp_num);
	assert_true(ibv_wc_read_completion_ts(cq) >= now);
	assert_int_equal(ibv_next_poll(cq), ENOENT);
	ibv_end_poll(cq);
	end_close(&e);
}

static void imports(void **state)
{
	struct end e = end_open(0);
	struct ibv_context *ctx = ibv_import_device(dup(e.ctx->cmd_fd));
	struct ibv_pd *pd;
	struct ibv_mr *mr;

	assert_non_null(ctx);
	pd = ibv_import_pd(ctx, e.pd->handle);
	assert_non_null(pd);
	mr = ibv_import_mr(pd, e.mr->handle);
	assert_non_null(mr);
	assert_int_equal(mr->rkey, e.mr->rkey);
	assert_null(ibv_import_mr(pd, e.mr->handle + 0x100));
	ibv_unimport_mr(mr);
	ibv_unimport_pd(pd);
	assert_int_equal(ibv_close_device(ctx), 0);
	assert_null(ibv_import_device(STDIN_FILENO));
	end_close(&e);
}

static unsigned open_files(void)
{
	DIR *dir = opendir("/proc/self/fd");
	unsigned n = 0;

	while (readdir(dir))
		n++;
	closedir(dir);
	return n;
}

/* Thousands of objects nobody destroyed: the adapter has limits it would meet if closing left them. */
static void close_takes_all(void **state)
{
	unsigned before = open_files();

	for (unsigned i = 0; i < 200; i++) {
		struct ibv_context *ctx = open_device();
		struct ibv_pd *pd = ibv_alloc_pd(ctx);
		struct ibv_cq *cq = ibv_create_cq(ctx, 1000, NULL, NULL, 0);
		struct ibv_srq_init_attr srq_init = { .attr = { .max_wr = 64, .max_sge = 1 } };
		struct ibv_qp_init_attr init = {
			.send_cq = cq, .recv_cq = cq, .cap = { 64, 64, 4, 4, 0 }, .qp_type = IBV_QPT_RC,
		};
		struct ibv_alloc_dm_attr dm = { .length = PAGE };
		static char memory[PAGE];

		assert_non_null(ibv_alloc_mw(pd, IBV_MW_TYPE_2));
		assert_non_null(ibv_reg_mr(pd, memory, sizeof(memory), IBV_ACCESS_LOCAL_WRITE));
		assert_non_null(ibv_create_srq(pd, &srq_init));
		assert_non_null(ibv_alloc_dm(ctx, &dm));
		for (unsigned j = 0; j < 50; j++)
			assert_non_null(ibv_create_qp(pd, &init));
		assert_int_equal(ibv_close_device(ctx), 0);
	}
	assert_int_equal(open_files(), before);
}

static void refusals(void **state)
{
	struct end e = end_open(0);
	struct ibv_counters_init_attr counters = { 0 };
	struct ibv_qp_rate_limit_attr rate = { 0 };
	struct ibv_flow_attr flow = { .port = 1 };
	struct ibv_qp_init_attr init = { .send_cq = e.cq, .recv_cq = e.cq, .cap = { 1, 1, 1, 1, 0 }, .qp_type = IBV_QPT_DRIVER };

	assert_null(ibv_create_counters(e.ctx, &counters));
	assert_int_equal(errno, EOPNOTSUPP);
	assert_int_equal(ibv_modify_qp_rate_limit(e.qp, &rate), EOPNOTSUPP);
	assert_null(ibv_create_qp(e.pd, &init));
	assert_int_equal(errno, EOPNOTSUPP);
	assert_null(ibv_create_flow(e.qp, &flow));
	assert_int_equal(errno, EINVAL);
	assert_int_equal(ibv_query_qp_data_in_order(e.qp, IBV_WR_SEND, 0), 0);
	end_close(&e);
}

/* ---- system calls of the data path ---- */

static _Atomic unsigned calls;
static _Atomic int last_call;

static void count_call(int signal, siginfo_t *info, void *context)
{
	(void)signal;
	(void)context;
	calls++;
	last_call = info->si_syscall;
}

/* From now on every system call of this thread is refused with a SIGSYS, but for those that a lock, a clock or an allocator may
 * need, or a poll that finds nothing. False: the system has no seccomp. */
static bool refuse_calls(void)
{
	static const int allowed[] = {
		SYS_futex, SYS_sched_yield, SYS_clock_gettime, SYS_mmap, SYS_munmap, SYS_madvise, SYS_brk, SYS_rt_sigreturn,
		SYS_rt_sigprocmask, SYS_getrusage, SYS_exit, SYS_exit_group,
	};
	enum { N = sizeof(allowed) / sizeof(allowed[0]) };
	struct sock_filter filter[N + 3] = { BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)) };
	struct sock_fprog program = { N + 3, filter };

	for (unsigned i = 0; i < N; i++)
		filter[i + 1] = (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, (uint32_t)allowed[i],
							     (uint8_t)(N - i), 0);
	filter[N + 1] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_TRAP);
	filter[N + 2] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW);
	return prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 && prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) == 0;
}

struct counted {
	struct end end;
	bool counts;	/* system calls can be counted here */
	long taken;	/* how often the system took the processor away from the thread */
	unsigned counted;
	sem_t done, never;
};

static long times_taken(void)
{
	struct rusage r;

	getrusage(RUSAGE_THREAD, &r);
	return r.ru_nivcsw;
}

/* Sends and polls. The thread does not end: sanitizers make calls of their own then. */
static void *send_many(void *arg)
{
	struct counted *c = arg;
	long before = times_taken();

	if (refuse_calls())
		syscall(SYS_getppid);
	c->counts = calls > 0;
	calls = 0;
	for (unsigned i = 0; i < ROUNDS; i++) {
		send_one(&c->end, IBV_SEND_SIGNALED);
		poll_one(&c->end);
		poll_one(&c->end);
	}
	c->counted = calls;
	c->taken = times_taken() - before;
	sem_post(&c->done);
	sem_wait(&c->never);
	return NULL;
}

/* SAN-33: a program that polls sends and receives without system calls. A few are made at first, and whenever the system took
 * the processor away for so long that the helper thread stepped in. */
static void polling_makes_no_system_calls(void **state)
{
	struct sigaction count = { .sa_sigaction = count_call, .sa_flags = SA_SIGINFO }, before;
	static struct counted c;
	pthread_t thread;

	(void)state;
	c.end = end_open(0);
	sem_init(&c.done, 0, 0);
	sem_init(&c.never, 0, 0);
	calls = 0;
	sigaction(SIGSYS, &count, &before);
	assert_int_equal(pthread_create(&thread, NULL, send_many, &c), 0);
	sem_wait(&c.done);
	sigaction(SIGSYS, &before, NULL);
	end_close(&c.end);
	if (!c.counts) {
		print_message("system calls cannot be counted here: no seccomp\n");
		skip();
	}
	print_message("%u system calls in %u rounds, the last was number %d; the processor was taken away %ld times\n", c.counted,
		      ROUNDS, last_call, c.taken);
	assert_true(c.counted <= FIRST_CALLS + CALLS_A_PAUSE * (unsigned long)c.taken);
}

/* One port's share of the queue pairs: each is its own peer, and all send through the port before anything is polled. */
struct share {
	struct ibv_context *ctx;
	struct ibv_pd *pd;
	struct ibv_cq *cq;
	struct ibv_qp *qp[MANY / 2];
	struct ibv_mr *mr;
	uint32_t out[MANY / 2], in[MANY / 2];
};

static struct share *share_open(int device)
{
	struct share *s = calloc(1, sizeof(*s));
	struct ibv_qp_init_attr init = { .cap = { 1, 1, 1, 1, 0 }, .qp_type = IBV_QPT_RC, .sq_sig_all = 1 };

	s->ctx = open_device_at(device);
	s->pd = ibv_alloc_pd(s->ctx);
	init.send_cq = init.recv_cq = s->cq = ibv_create_cq(s->ctx, MANY, NULL, NULL, 0);
	assert_non_null(s->cq);
	s->mr = ibv_reg_mr(s->pd, s, sizeof(*s), IBV_ACCESS_LOCAL_WRITE);
	assert_non_null(s->mr);
	for (unsigned i = 0; i < MANY / 2; i++) {
		s->qp[i] = ibv_create_qp(s->pd, &init);
		assert_non_null(s->qp[i]);
		to_rts(s->qp[i], s->qp[i]);
	}
	return s;
}

static void share_send(struct share *s, unsigned i, uint32_t value)
{
	struct ibv_sge out = { (uintptr_t)&s->out[i], sizeof(s->out[i]), s->mr->lkey };
	struct ibv_sge in = { (uintptr_t)&s->in[i], sizeof(s->in[i]), s->mr->lkey };
	struct ibv_send_wr *bad_send, send = { .sg_list = &out, .num_sge = 1, .opcode = IBV_WR_SEND };
	struct ibv_recv_wr *bad_recv, recv = { .sg_list = &in, .num_sge = 1 };

	s->out[i] = value;
	assert_int_equal(ibv_post_recv(s->qp[i], &recv, &bad_recv), 0);
	assert_int_equal(ibv_post_send(s->qp[i], &send, &bad_send), 0);
}

static void share_finish(struct share *s, uint32_t first)
{
	struct ibv_wc wc;

	for (unsigned done = 0; done < MANY;) {
		int n = ibv_poll_cq(s->cq, 1, &wc);

		assert_true(n >= 0);
		if (n == 0)
			continue;
		assert_int_equal(wc.status, IBV_WC_SUCCESS);
		done++;
	}
	for (unsigned i = 0; i < MANY / 2; i++)
		assert_int_equal(s->in[i], first + i);
	assert_int_equal(ibv_close_device(s->ctx), 0);
	free(s);
}

/* SAN-16: 4096 queue pairs on two ports, which is also more than one range of numbers of the process holds. */
static void thousands_share_two_ports(void **state)
{
	struct share *port[2] = { share_open(0), share_open(1) };

	(void)state;
	for (unsigned i = 0; i < MANY; i++)
		share_send(port[i % 2], i / 2, i % 2 * MANY + i / 2);
	share_finish(port[0], 0);
	share_finish(port[1], MANY);
}

/* More groups than there can be at once. */
static void closing_leaves_groups(void **state)
{
	enum { GROUPS = 300 };

	for (unsigned i = 0; i < GROUPS; i++) {
		struct ibv_context *ctx = open_device();
		struct ibv_pd *pd = ibv_alloc_pd(ctx);
		struct ibv_cq *cq = ibv_create_cq(ctx, 10, NULL, NULL, 0);
		struct ibv_qp_init_attr init = { .send_cq = cq, .recv_cq = cq, .cap = { 1, 1, 1, 1, 0 }, .qp_type = IBV_QPT_UD };
		struct ibv_qp *qp = ibv_create_qp(pd, &init);
		union ibv_gid group = { .raw = { 0xff, 0x12, [14] = (uint8_t)(i >> 8), [15] = (uint8_t)i } };

		assert_non_null(qp);
		assert_int_equal(ibv_attach_mcast(qp, &group, 0xc010), 0);
		assert_int_equal(ibv_destroy_qp(qp), EBUSY);
		assert_int_equal(ibv_close_device(ctx), 0);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(registration), cmocka_unit_test(regions_change_to_what_is_there),
		cmocka_unit_test(large_regions_are_probed_too),
		cmocka_unit_test(completion_events), cmocka_unit_test(a_sleeper_is_its_own_peer), cmocka_unit_test(async_events),
		cmocka_unit_test(builders), cmocka_unit_test(plain_has_no_builders), cmocka_unit_test(extended_cq),
		cmocka_unit_test(imports), cmocka_unit_test(refusals), cmocka_unit_test(close_takes_all),
		cmocka_unit_test(closing_leaves_groups),
		cmocka_unit_test(thousands_share_two_ports), cmocka_unit_test(polling_makes_no_system_calls),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
