/* A program that finds a message at every other poll hardly looks after anything else, and none of its polls in vain is one of
 * many: it sees all the same, after some hundreds of polls, that a send was executed of which no message tells. So it does
 * wherever in its polls the messages come. Two processes with a weftd of their own (e2e/with_weftd.sh). */
#include "rc.h"
#include "sides.h"

#include <infiniband/verbs.h>

/* MOST: messages until the send must be complete. Phases are short and many, as a machine with other work stops this program now
 * and then, and its helper thread looks after all meanwhile. */
enum { STREAM, SINGLE, QPS, DEPTH = 16, BYTES = 8, PHASES = 60, WARM = 40, MOST = 220, MESSAGES = PHASES * (WARM + MOST) };

/* Of both, by side. */
static struct shared {
	_Atomic uint32_t qpn[2][QPS], ready[2];
	_Atomic uint32_t asked, sent;	/* messages of the stream */
} *shared;

static struct ibv_cq *cq;
static struct ibv_qp *qp[QPS];
static struct ibv_mr *mr;
static char memory[64];
static unsigned sends_done;	/* of SINGLE */

static void post_receive(int which)
{
	struct ibv_sge sge = { (uintptr_t)memory + 32, BYTES, mr->lkey };
	struct ibv_recv_wr *bad, wr = { .sg_list = &sge, .num_sge = 1 };

	require(!ibv_post_recv(qp[which], &wr, &bad), "a receive is refused");
}

static void post_send(int which)
{
	struct ibv_sge sge = { (uintptr_t)memory, BYTES, mr->lkey };
	struct ibv_send_wr *bad, wr = { .sg_list = &sge, .num_sge = 1, .opcode = IBV_WR_SEND, .send_flags = IBV_SEND_SIGNALED };

	require(!ibv_post_send(qp[which], &wr, &bad), "a send is refused");
}

static void open_ends(void)
{
	struct ibv_context *context = device_open(0);
	struct ibv_qp_init_attr init = { .qp_type = IBV_QPT_RC, .cap = { DEPTH, DEPTH, 1, 1, 0 } };
	struct ibv_pd *pd;

	require(context, "no device");
	pd = ibv_alloc_pd(context);
	cq = ibv_create_cq(context, 4 * DEPTH, NULL, NULL, 0);
	require(pd && cq, "no PD or CQ");
	mr = ibv_reg_mr(pd, memory, sizeof(memory), IBV_ACCESS_LOCAL_WRITE);
	init.send_cq = init.recv_cq = cq;
	for (int i = 0; i < QPS; i++) {
		qp[i] = ibv_create_qp(pd, &init);
		require(mr && qp[i], "no region or QP");
		atomic_store(&shared->qpn[side][i], qp[i]->qp_num);
	}
}

static void connect_ends(void)
{
	for (int i = 0; i < QPS; i++) {
		struct ibv_qp_attr attr = { .timeout = 20, .retry_cnt = 7, .rnr_retry = 7, .min_rnr_timer = 1 };

		wait_for(&shared->qpn[!side][i], 1);
		attr.dest_qp_num = atomic_load(&shared->qpn[!side][i]);
		require(!rc_connect(qp[i], attr), "no connection");
		for (int n = 0; n < DEPTH / 2; n++)
			post_receive(i);
	}
	atomic_store(&shared->ready[side], 1);
	wait_for(&shared->ready[!side], 1);
}

/* A message of the stream? */
static bool poll_once(void)
{
	struct ibv_wc wc;

	if (ibv_poll_cq(cq, 1, &wc) == 0)
		return false;
	require(wc.status == IBV_WC_SUCCESS, ibv_wc_status_str(wc.status));
	if (wc.opcode == IBV_WC_RECV)
		post_receive(wc.qp_num == qp[SINGLE]->qp_num ? SINGLE : STREAM);
	sends_done += wc.opcode == IBV_WC_SEND && wc.qp_num == qp[SINGLE]->qp_num;
	return wc.opcode == IBV_WC_RECV && wc.qp_num == qp[STREAM]->qp_num;
}

/* The peer sends when it is asked to, so that the first poll is in vain, and the second is not. */
static void take_message(uint32_t n)
{
	require(!poll_once(), "a message that nobody asked for");
	atomic_store(&shared->asked, n);
	wait_for(&shared->sent, n);
	while (!poll_once())
		;
}

static void receive_stream(void)
{
	uint32_t n = 0;

	for (unsigned phase = 1; phase <= PHASES; phase++) {
		for (unsigned i = 0; i < WARM; i++)
			take_message(++n);
		post_send(SINGLE);
		for (unsigned i = 0; i < MOST; i++)
			take_message(++n);
		require(sends_done == phase, "a send that was executed long ago is not complete");
		require(!poll_once(), "a message that nobody asked for");	/* those of the next phase come at other polls */
	}
}

static void send_stream(void)
{
	for (uint32_t n = 1; n <= MESSAGES; n++) {
		while (atomic_load(&shared->asked) < n)
			(void)poll_once();
		post_send(STREAM);
		atomic_store(&shared->sent, n);
	}
}

static void run(void)
{
	open_ends();
	connect_ends();
	if (side == 0)
		receive_stream();
	else
		send_stream();
}

int main(void)
{
	shared = sides_memory(sizeof(*shared));
	sides_run(run);
	return 0;
}
