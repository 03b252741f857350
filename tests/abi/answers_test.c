/* Two processes answer each other. An answer says that the question was executed, so who has seen it may post as many more as its
 * queue holds, whether or not it has polled in vain since: it does not where each end polls only when an answer lies there.
 * Runs with a weftd of its own (e2e/with_weftd.sh). */
#include "sides_rc.h"

enum { DEPTH = 2, RECEIVES = 16, TURN = 64, ROUNDS = 1200 * TURN, POLLS_MOST = 10000000 };

/* Of both, by side. */
static struct shared {
	_Atomic uint32_t qpn[2], ready[2];
	_Atomic unsigned posted[2];
} *shared;

static struct ibv_qp *qp;

static void post_send(void)
{
	sides_send(qp, "a send finds its queue full, though all before it were answered");
	atomic_fetch_add(&shared->posted[side], 1);
}

static void connect_ends(void)
{
	sides_open(0, 2 * RECEIVES);
	qp = sides_qp(DEPTH, RECEIVES);
	atomic_store(&shared->qpn[side], qp->qp_num);
	wait_for(&shared->qpn[!side], 1);
	require(!rc_connect(qp, (struct ibv_qp_attr){ .dest_qp_num = atomic_load(&shared->qpn[!side]), .timeout = 18,
						      .retry_cnt = 7, .rnr_retry = 7, .min_rnr_timer = 1 }), "no connection");
	for (int i = 0; i < RECEIVES; i++)
		sides_receive(qp);
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
		sides_receive(qp);
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
