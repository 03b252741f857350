/* Two processes answer each other. An answer says that the question was executed, so who has seen it may post as many more as its
 * queue holds, whether or not it has polled in vain since: it does not where each end polls only when an answer lies there.
 * Runs with a weftd of its own (e2e/with_weftd.sh). */
#include "rc.h"
#include "sides.h"

#include <infiniband/verbs.h>

enum { DEPTH = 2, RECEIVES = 16, BYTES = 8, TURN = 64, ROUNDS = 1200 * TURN, POLLS_MOST = 10000000 };

/* Of both, by side. */
static struct shared {
	_Atomic uint32_t qpn[2], ready[2];
	_Atomic unsigned posted[2];
} *shared;

static struct ibv_cq *cq;
static struct ibv_qp *qp;
static struct ibv_mr *mr;
static char memory[64];

static void post_receive(void)
{
	struct ibv_sge sge = { (uintptr_t)memory + 32, BYTES, mr->lkey };
	struct ibv_recv_wr *bad, wr = { .sg_list = &sge, .num_sge = 1 };

	require(!ibv_post_recv(qp, &wr, &bad), "a receive is refused");
}

static void post_send(void)
{
	struct ibv_sge sge = { (uintptr_t)memory, BYTES, mr->lkey };
	struct ibv_send_wr *bad, wr = { .sg_list = &sge, .num_sge = 1, .opcode = IBV_WR_SEND, .send_flags = IBV_SEND_SIGNALED };

	require(!ibv_post_send(qp, &wr, &bad), "a send finds its queue full, though all before it were answered");
	atomic_fetch_add(&shared->posted[side], 1);
}

static void connect_ends(void)
{
	struct ibv_context *context = device_open(0);
	struct ibv_qp_init_attr init = { .qp_type = IBV_QPT_RC, .cap = { DEPTH, RECEIVES, 1, 1, 0 } };
	struct ibv_pd *pd;

	require(context, "no device");
	pd = ibv_alloc_pd(context);
	cq = ibv_create_cq(context, 2 * RECEIVES, NULL, NULL, 0);
	require(pd && cq, "no PD or CQ");
	mr = ibv_reg_mr(pd, memory, sizeof(memory), IBV_ACCESS_LOCAL_WRITE);
	init.send_cq = init.recv_cq = cq;
	qp = ibv_create_qp(pd, &init);
	require(mr && qp, "no region or QP");
	atomic_store(&shared->qpn[side], qp->qp_num);
	wait_for(&shared->qpn[!side], 1);
	require(!rc_connect(qp, (struct ibv_qp_attr){ .dest_qp_num = atomic_load(&shared->qpn[!side]), .timeout = 18,
						      .retry_cnt = 7, .rnr_retry = 7, .min_rnr_timer = 1 }), "no connection");
	for (int i = 0; i < RECEIVES; i++)
		post_receive();
	atomic_store(&shared->ready[side], 1);
	wait_for(&shared->ready[!side], 1);
}

/* Until the answer has come. Completions of sends come with it, before or later. */
static void take_answer(void)
{
	struct ibv_wc wc;

	for (unsigned polls = 0; polls < POLLS_MOST; polls++) {
		if (ibv_poll_cq(cq, 1, &wc) == 0)
			continue;
		require(wc.status == IBV_WC_SUCCESS, ibv_wc_status_str(wc.status));
		if (wc.opcode == IBV_WC_RECV)
			return;
	}
	require(false, "no answer comes");
}

/* Every other turn both poll all the time, so that nobody else takes their messages in. */
static void run(void)
{
	connect_ends();
	for (unsigned i = 1; i <= ROUNDS; i++) {
		if (side == 0)
			post_send();
		if (i / TURN % 2)
			wait_for(&shared->posted[!side], i);
		take_answer();
		post_receive();
		if (side == 1)
			post_send();
	}
}

int main(void)
{
	shared = sides_memory(sizeof(*shared));
	sides_run(run);
	return 0;
}
