/* A process ends while another thread of it is inside the adapter: what its impairment still holds back arrives all the same.
 * `leaving post`: with an engine apart, what was posted last arrives all the same though the engine has not seen it.
 * Needs WEFT_DIR of a running weftd. Exit 0: so it is. */
#include "attach.h"
#include "channel.h"

#include "base/qpn.h"
#include "runtime/cm.h"
#include "runtime/entry.h"
#include "runtime/faults.h"
#include "runtime/runtime.h"
#include "runtime/pump.h"
#include "runtime/state.h"
#include "verbs/cq.h"
#include "verbs/pd.h"
#include "verbs/qp.h"
#include "wire/opcode.h"
#include "wire/packet.h"

#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>

/* Shared. */
static struct board {
	_Atomic uint32_t slot;		/* of who takes it */
} *board;

static _Atomic bool is_inside, is_gone;

/* Is inside, but for whoever waits. */
static void *stay_inside(void *arg)
{
	struct runtime *rt = arg;

	for (;;) {
		lock_enter(&rt->lock);
		atomic_store(&is_inside, true);
		while (!atomic_load(&rt->lock.waiting))
			sched_yield();
		lock_leave(&rt->lock);
		while (atomic_load(&rt->lock.waiting))
			sched_yield();
	}
	return NULL;
}

/* Entered, with a channel. */
static struct runtime *attach_leaver(uint32_t *slot)
{
	struct runtime *rt;

	prctl(PR_SET_PDEATHSIG, SIGKILL);
	rt = attach();
	while (!(*slot = atomic_load(&board->slot)))
		sched_yield();
	runtime_enter(rt);
	if (!channel_await(rt, *slot))
		die("no channel");
	return rt;
}

static void leave_with_another_thread_inside(void)
{
	struct packet p = { .form = PACKET_IB, .opcode = OPCODE_RC_ACKNOWLEDGE, .dest_qpn = 2 };
	pthread_t thread;
	struct runtime *rt;
	uint32_t slot;

	setenv("WEFT_IMPAIR", "delay=10s,seed=1", 1);
	rt = attach_leaver(&slot);
	faults_send(rt, &(struct route){ .kind = ROUTE_CHANNEL, .qpn = qpn_make(slot, 0) }, &runtime_ca(rt)->dev[0], &p,
		    CA_PORT, 0);
	runtime_leave(rt);
	check(-pthread_create(&thread, NULL, stay_inside, rt), "thread");
	while (!atomic_load(&is_inside))
		sched_yield();
	exit(0);
}

static struct qp *make_qp(struct runtime *rt, struct ah *ah)
{
	static const enum ibv_qp_state states[] = { IBV_QPS_INIT, IBV_QPS_RTR, IBV_QPS_RTS };
	static const int masks[] = { IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_QKEY, 0, IBV_QP_SQ_PSN };
	struct ibv_qp_init_attr_ex init = { .qp_type = IBV_QPT_UD, .cap = { .max_send_wr = 1, .max_recv_wr = 1,
									   .max_send_sge = 1, .max_recv_sge = 1 } };
	struct ca *ca = runtime_ca(rt);
	struct ca_device *dev = &ca->dev[0];
	struct pd *pd;
	struct cq *cq;
	struct qp *qp;

	check(pd_create(ca, dev, &pd), "pd");
	check(cq_create(ca, dev, 1, &cq), "cq");
	check(qp_create(ca, dev, &init, pd, cq, cq, NULL, NULL, &qp), "qp");
	for (int i = 0; i < 3; i++) {
		struct ibv_qp_attr attr = { .qp_state = states[i], .port_num = 1 };

		check(qp_modify(qp, rt->ca.now, &attr, IBV_QP_STATE | masks[i]), "connect");
	}
	*ah = (struct ah){ .pd = pd };
	check(av_from_attr(dev, &(struct ibv_ah_attr){ .dlid = dev->lid, .port_num = 1 }, &ah->av), "address");
	return qp;
}

static bool is_at_rest(struct runtime *rt)
{
	bool rests;

	lock_enter(&rt->lock);
	rests = rt->helper_rests;
	lock_leave(&rt->lock);
	return rests;
}

/* The helper is not told of the post, as if it came too late to run. */
static void leave_right_after_a_post(void)
{
	struct ibv_send_wr wr = { .opcode = IBV_WR_SEND }, *bad;
	struct runtime *rt;
	struct qp *qp;
	struct ah ah;
	uint32_t slot;

	setenv("WEFT_ENGINE", "thread", 1);
	rt = attach_leaver(&slot);
	qp = make_qp(rt, &ah);
	runtime_leave(rt);
	while (!is_at_rest(rt))
		sched_yield();
	wr.wr.ud.ah = &ah.ibv;
	wr.wr.ud.remote_qpn = qpn_make(slot, 2);
	check(qp_post_send(qp, 0, &wr, &bad), "post");
	exit(0);
}

static void peer_gone(void *arg, wtime now, uint32_t slot)
{
	(void)arg, (void)now, (void)slot;
	atomic_store(&is_gone, true);
}

int main(int argc, char **argv)
{
	struct runtime_cm cm = { .peer_gone = peer_gone };
	struct runtime *rt;
	pid_t leaver;
	int status;

	board = share_with_children(sizeof(*board));
	leaver = fork();
	if (leaver == 0)
		argc > 1 ? leave_right_after_a_post() : leave_with_another_thread_inside();
	rt = attach();
	runtime_set_cm(rt, &cm);
	atomic_store(&board->slot, rt->peers.slot);
	if (waitpid(leaver, &status, 0) != leaver || status != 0)
		die("the process that leaves does not end well");
	while (!atomic_load(&is_gone))
		sched_yield();
	/* what it left is taken in with the channel's end */
	pump_all(rt, runtime_enter(rt));
	if (rt->frames != 1)
		die("what the process left to send did not come");
	runtime_leave(rt);
	return 0;
}
