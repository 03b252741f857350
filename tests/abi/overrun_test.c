/* What a program meets when a completion queue is too small: each QP that completes into the dead queue goes to the error state
 * with IBV_EVENT_QP_FATAL, the queue is told of once, and no call waits or fails for ever. Two QPs of one process, over each
 * service. Runs with a weftd of its own (e2e/with_weftd.sh). */
#include "rc.h"

#include <errno.h>
#include <fcntl.h>
#include <infiniband/verbs.h>
#include <poll.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <cmocka.h>

enum { PAGE = 4096, SMALL = 4, DEPTH = 64, BYTES = 100, QKEY = 0x77, PATIENCE_S = 30 };

struct net {
	struct ibv_context *ctx;
	struct ibv_pd *pd;
	struct ibv_xrcd *xrcd;
	struct ibv_cq *small, *large;
	struct ibv_srq *srq;
	struct ibv_qp *from, *to;	/* requests of `from` complete into the small queue, or their receives at `to` do */
	struct ibv_mr *mr;
	struct ibv_ah *ah;
	char *memory;
};

static struct ibv_qp *qp_new(struct net *n, enum ibv_qp_type type, struct ibv_cq *send_cq, struct ibv_cq *recv_cq)
{
	struct ibv_qp_init_attr_ex init = {
		.qp_type = type, .send_cq = send_cq, .recv_cq = recv_cq, .cap = { DEPTH, DEPTH, 1, 1, 0 }, .sq_sig_all = 1,
		.comp_mask = IBV_QP_INIT_ATTR_PD, .pd = n->pd,
	};
	struct ibv_qp *qp;

	if (type == IBV_QPT_RC)
		init.srq = n->srq;
	if (type == IBV_QPT_XRC_RECV) {
		init.comp_mask = IBV_QP_INIT_ATTR_XRCD;
		init.xrcd = n->xrcd;
	}
	qp = ibv_create_qp_ex(n->ctx, &init);
	assert_non_null(qp);
	return qp;
}

static void to_rts(struct net *n, struct ibv_qp *qp, const struct ibv_qp *peer)
{
	struct ibv_port_attr port;
	struct ibv_qp_attr attr = {
		.port_num = 1, .path_mtu = IBV_MTU_1024, .dest_qp_num = peer->qp_num, .ah_attr = { .port_num = 1 }, .qkey = QKEY,
		.qp_access_flags = IBV_ACCESS_REMOTE_WRITE, .timeout = 10, .retry_cnt = 2, .rnr_retry = 7, .min_rnr_timer = 1,
		.max_rd_atomic = 1, .max_dest_rd_atomic = 1,
	};
	bool is_datagram = qp->qp_type == IBV_QPT_UD, is_unreliable = qp->qp_type == IBV_QPT_UC;

	assert_int_equal(ibv_query_port(n->ctx, 1, &port), 0);
	attr.ah_attr.dlid = port.lid;
	for (unsigned i = 0; i < RC_STEPS; i++) {
		int mask = rc_step[i].mask;

		attr.qp_state = rc_step[i].to;
		if (is_datagram)
			mask = i == 0 ? IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_QKEY :
			       i == 1 ? IBV_QP_STATE : IBV_QP_STATE | IBV_QP_SQ_PSN;
		else if (is_unreliable || (qp->qp_type == IBV_QPT_XRC_SEND && i == 1))
			mask &= ~(IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER);
		if (is_unreliable || qp->qp_type == IBV_QPT_XRC_RECV)
			mask &= ~(IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY | IBV_QP_MAX_QP_RD_ATOMIC);
		if (is_unreliable)
			mask &= ~IBV_QP_TIMEOUT;
		assert_int_equal(ibv_modify_qp(qp, &attr, mask), 0);
	}
	if (is_datagram && !n->ah)
		n->ah = ibv_create_ah(n->pd, &attr.ah_attr);
}

static void srq_new(struct net *n, enum ibv_srq_type type, struct ibv_cq *cq)
{
	struct ibv_srq_init_attr_ex attr = {
		.attr = { DEPTH, 1, 0 }, .srq_type = type, .pd = n->pd,
		.comp_mask = IBV_SRQ_INIT_ATTR_TYPE | IBV_SRQ_INIT_ATTR_PD,
	};

	if (type == IBV_SRQT_XRC) {
		attr.comp_mask |= IBV_SRQ_INIT_ATTR_XRCD | IBV_SRQ_INIT_ATTR_CQ;
		attr.xrcd = n->xrcd;
		attr.cq = cq;
	}
	n->srq = ibv_create_srq_ex(n->ctx, &attr);
	assert_non_null(n->srq);
}

static struct net net_open(enum ibv_qp_type type, bool shared, bool receives_are_small)
{
	struct net n = { .ctx = device_open(0) };
	struct ibv_xrcd_init_attr xrcd = {
		.comp_mask = IBV_XRCD_INIT_ATTR_FD | IBV_XRCD_INIT_ATTR_OFLAGS, .fd = -1, .oflags = O_CREAT,
	};
	bool is_xrc = type == IBV_QPT_XRC_SEND;

	assert_non_null(n.ctx);
	n.pd = ibv_alloc_pd(n.ctx);
	n.small = ibv_create_cq(n.ctx, SMALL, NULL, NULL, 0);
	n.large = ibv_create_cq(n.ctx, 4 * DEPTH, NULL, NULL, 0);
	n.memory = aligned_alloc(PAGE, PAGE);
	n.mr = ibv_reg_mr(n.pd, n.memory, PAGE, IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE);
	n.xrcd = is_xrc ? ibv_open_xrcd(n.ctx, &xrcd) : NULL;
	if (is_xrc || shared)
		srq_new(&n, is_xrc ? IBV_SRQT_XRC : IBV_SRQT_BASIC, receives_are_small ? n.small : n.large);
	n.from = qp_new(&n, type, receives_are_small ? n.large : n.small, n.large);
	n.to = qp_new(&n, is_xrc ? IBV_QPT_XRC_RECV : type, n.large, receives_are_small ? n.small : n.large);
	to_rts(&n, n.to, n.from);
	to_rts(&n, n.from, n.to);
	return n;
}

static void net_close(struct net *n)
{
	if (n->ah)
		assert_int_equal(ibv_destroy_ah(n->ah), 0);
	assert_int_equal(ibv_destroy_qp(n->from), 0);
	assert_int_equal(ibv_destroy_qp(n->to), 0);
	if (n->srq)
		assert_int_equal(ibv_destroy_srq(n->srq), 0);
	if (n->xrcd)
		assert_int_equal(ibv_close_xrcd(n->xrcd), 0);
	assert_int_equal(ibv_destroy_cq(n->small), 0);
	assert_int_equal(ibv_destroy_cq(n->large), 0);
	assert_int_equal(ibv_dereg_mr(n->mr), 0);
	assert_int_equal(ibv_dealloc_pd(n->pd), 0);
	assert_int_equal(ibv_close_device(n->ctx), 0);
	free(n->memory);
}

static int post(struct net *n, enum ibv_wr_opcode opcode)
{
	struct ibv_sge sge = { .addr = (uintptr_t)n->memory, .length = BYTES, .lkey = n->mr->lkey };
	struct ibv_send_wr *bad, wr = { .opcode = opcode, .sg_list = &sge, .num_sge = 1 };
	uint32_t srqn;

	if (n->ah) {
		wr.wr.ud.ah = n->ah;
		wr.wr.ud.remote_qpn = n->to->qp_num;
		wr.wr.ud.remote_qkey = QKEY;
	} else {
		wr.wr.rdma.remote_addr = (uintptr_t)n->memory + PAGE / 2;
		wr.wr.rdma.rkey = n->mr->rkey;
	}
	if (n->xrcd) {
		assert_int_equal(ibv_get_srq_num(n->srq, &srqn), 0);
		wr.qp_type.xrc.remote_srqn = srqn;
	}
	return ibv_post_send(n->from, &wr, &bad);
}

static int post_receive(struct net *n)
{
	struct ibv_sge sge = { .addr = (uintptr_t)n->memory + PAGE / 2, .length = PAGE / 2, .lkey = n->mr->lkey };
	struct ibv_recv_wr *bad, wr = { .sg_list = &sge, .num_sge = 1 };

	return n->srq ? ibv_post_srq_recv(n->srq, &wr, &bad) : ibv_post_recv(n->to, &wr, &bad);
}

static enum ibv_qp_state state_of(struct ibv_qp *qp)
{
	struct ibv_qp_init_attr init;
	struct ibv_qp_attr attr;

	assert_int_equal(ibv_query_qp(qp, &attr, IBV_QP_STATE, &init), 0);
	return attr.qp_state;
}

/* Until there is one; a program that hangs here would hang for ever. */
static struct ibv_async_event event_of(struct net *n)
{
	struct pollfd p = { .fd = n->ctx->async_fd, .events = POLLIN };
	struct ibv_async_event event;

	assert_int_equal(poll(&p, 1, PATIENCE_S * 1000), 1);
	assert_int_equal(ibv_get_async_event(n->ctx, &event), 0);
	ibv_ack_async_event(&event);
	return event;
}

static unsigned drain(struct ibv_cq *cq)
{
	struct ibv_wc wc;
	unsigned n = 0;

	while (ibv_poll_cq(cq, 1, &wc) > 0)
		n++;
	return n;
}

/* The small queue overruns, `stops` goes to the error state, and everything that was and is posted comes to an end. */
static void overrun(enum ibv_qp_type type, bool shared, bool receives_are_small, enum ibv_wr_opcode opcode)
{
	struct net n = net_open(type, shared, receives_are_small);
	struct ibv_qp *stops = receives_are_small ? n.to : n.from;
	bool fatal = false, cq_error = false;
	time_t give_up = time(NULL) + PATIENCE_S;
	unsigned sent = 0;

	for (unsigned i = 0; i < DEPTH / 2; i++)
		assert_int_equal(post_receive(&n), 0);
	for (unsigned i = 0; i < DEPTH / 2; i++)
		assert_int_equal(post(&n, opcode), 0);
	/* whoever looks for what it sent sees the end of all of it */
	while (receives_are_small && sent < DEPTH / 2 && time(NULL) < give_up)
		sent += drain(n.large);
	while (state_of(stops) != IBV_QPS_ERR && time(NULL) < give_up)
		drain(n.large);
	assert_int_equal(state_of(stops), IBV_QPS_ERR);
	while (!fatal || !cq_error) {
		struct ibv_async_event event = event_of(&n);

		if (event.event_type == IBV_EVENT_CQ_ERR) {
			assert_false(cq_error);
			assert_ptr_equal(event.element.cq, n.small);
			cq_error = true;
		} else if (event.event_type == IBV_EVENT_QP_FATAL) {
			assert_false(fatal);
			assert_ptr_equal(event.element.qp, stops);
			fatal = true;
		}
	}
	assert_int_equal(ibv_resize_cq(n.small, 10 * SMALL), EIO);
	assert_in_range(drain(n.small), SMALL, DEPTH / 2 - 1);
	for (unsigned i = 0; i < 3 * DEPTH; i++)
		assert_int_equal(post(&n, opcode), 0), drain(n.large);
	net_close(&n);
}

static void senders(void **state)
{
	overrun(IBV_QPT_RC, false, false, IBV_WR_SEND);
	overrun(IBV_QPT_RC, false, false, IBV_WR_RDMA_WRITE);
	overrun(IBV_QPT_UC, false, false, IBV_WR_SEND);
	overrun(IBV_QPT_UD, false, false, IBV_WR_SEND);
	overrun(IBV_QPT_XRC_SEND, false, false, IBV_WR_SEND);
}

static void receivers(void **state)
{
	overrun(IBV_QPT_RC, false, true, IBV_WR_SEND);
	overrun(IBV_QPT_RC, true, true, IBV_WR_SEND);
	overrun(IBV_QPT_UC, false, true, IBV_WR_SEND);
	overrun(IBV_QPT_UD, false, true, IBV_WR_SEND);
	overrun(IBV_QPT_XRC_SEND, false, true, IBV_WR_SEND);
	overrun(IBV_QPT_RC, false, true, IBV_WR_RDMA_WRITE_WITH_IMM);
}

/* Statuses of all that was sent, in order. */
static unsigned statuses(struct net *n, enum ibv_wc_status status[DEPTH / 2])
{
	time_t give_up = time(NULL) + PATIENCE_S;
	struct ibv_wc wc;
	unsigned done = 0;

	while (done < DEPTH / 2 && time(NULL) < give_up)
		if (ibv_poll_cq(n->large, 1, &wc) > 0)
			status[done++] = wc.status;
	return done;
}

/* Between QPs of one process, too: a send succeeds when its receive has a completion, and no other does. */
static void a_message_that_finds_the_queue_dead_is_not_acknowledged(void **state)
{
	for (int shared = 0; shared < 2; shared++) {
		struct net n = net_open(IBV_QPT_RC, shared, true);
		enum ibv_wc_status status[DEPTH / 2];
		unsigned received;

		for (unsigned i = 0; i < DEPTH / 2; i++)
			assert_int_equal(post_receive(&n), 0);
		for (unsigned i = 0; i < DEPTH / 2; i++)
			assert_int_equal(post(&n, IBV_WR_SEND), 0);
		assert_int_equal(statuses(&n, status), DEPTH / 2);
		received = drain(n.small);
		assert_in_range(received, SMALL, DEPTH / 2 - 1);
		for (unsigned i = 0; i < DEPTH / 2; i++)
			assert_int_equal(status[i], i < received ? IBV_WC_SUCCESS :
					 i == received ? IBV_WC_RETRY_EXC_ERR : IBV_WC_WR_FLUSH_ERR);
		net_close(&n);
	}
}

/* The acknowledgement of what the QP has received from itself completes its send into the queue that the receive has filled. */
static void a_qp_that_sends_to_itself_stops(void **state)
{
	struct net n = net_open(IBV_QPT_RC, false, false);
	struct ibv_qp *both = qp_new(&n, IBV_QPT_RC, n.small, n.small), *from = n.from, *to = n.to;
	time_t give_up = time(NULL) + PATIENCE_S;

	to_rts(&n, both, both);
	n.from = n.to = both;
	for (unsigned i = 0; i < DEPTH / 2; i++)
		assert_int_equal(post_receive(&n), 0);
	for (unsigned i = 0; i < DEPTH / 2; i++)
		assert_int_equal(post(&n, IBV_WR_SEND), 0);
	while (state_of(both) != IBV_QPS_ERR && time(NULL) < give_up)
		drain(n.large);
	assert_int_equal(state_of(both), IBV_QPS_ERR);
	assert_in_range(drain(n.small), SMALL, DEPTH / 2 - 1);
	for (unsigned i = 0; i < 3 * DEPTH; i++)
		assert_int_equal(post(&n, IBV_WR_SEND), 0);
	assert_int_equal(ibv_destroy_qp(both), 0);
	n.from = from;
	n.to = to;
	net_close(&n);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(senders), cmocka_unit_test(receivers),
		cmocka_unit_test(a_message_that_finds_the_queue_dead_is_not_acknowledged),
		cmocka_unit_test(a_qp_that_sends_to_itself_stops),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
