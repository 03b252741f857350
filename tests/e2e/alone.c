/* What a process does for itself that no peer would tell in time: an atomic on its own memory takes the lock that peers take, the
 * helper thread hears that the program sleeps, and is woken for a timer that it does not know of yet. Needs WEFT_DIR of a running
 * weftd. Exit 0: all of it. */
#include "attach.h"
#include "connect.h"

#include "peers/peer.h"
#include "runtime/entry.h"
#include "runtime/runtime.h"
#include "runtime/state.h"
#include "verbs/cq.h"
#include "verbs/mr.h"
#include "verbs/pd.h"

#include <poll.h>
#include <sched.h>
#include <sys/eventfd.h>

enum {
	DEPTH = 16,
	NOBODY = 0xfff,		/* the index that is asked for in vain; 1 when it is the one QP's own */
	TIMERS = 5,
	PATIENCE_MS = 10000,
};

static const wtime FAR = WTIME_S;

static struct {
	struct runtime *rt;
	struct pd *pd;
	struct cq *cq;
	struct mr *mr;
	struct qp *qp;
	uint64_t word[2];	/* one is added to; what it was comes to the other */
	int event_fd;
} own;

static void on_cq_event(struct cq *cq)
{
	(void)cq;
	eventfd_write(own.event_fd, 1);
}

static void on_async_event(enum ibv_event_type type, void *object)
{
	(void)type, (void)object;
}

static void make_objects(void)
{
	static const int access = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_ATOMIC;
	struct ca *ca = runtime_ca(own.rt);

	runtime_enter(own.rt);
	check(pd_create(ca, &ca->dev[0], &own.pd), "pd");
	check(cq_create(ca, &ca->dev[0], 2 * DEPTH, &own.cq), "cq");
	own.cq->has_channel = true;
	check(mr_create(own.pd, own.word, sizeof(own.word), (uintptr_t)own.word, access, &own.mr), "mr");
	runtime_leave(own.rt);
}

/* With a QP number of this process: its own, or nobody's. */
static void make_qp(bool to_itself)
{
	struct ibv_qp_init_attr_ex init = { .qp_type = IBV_QPT_RC, .cap = { DEPTH, DEPTH, 1, 1, 0 } };
	struct ca *ca = runtime_ca(own.rt);
	wtime now = runtime_enter(own.rt);
	uint32_t nobody;

	check(qp_create(ca, &ca->dev[0], &init, own.pd, own.cq, own.cq, NULL, NULL, &own.qp), "qp");
	nobody = (own.qp->qpn & ~(uint32_t)NOBODY) | (qpn_index(own.qp->qpn) == NOBODY ? 1 : NOBODY);
	rc_connect(own.qp, now, (struct ibv_qp_attr){
		.port_num = 1, .path_mtu = IBV_MTU_4096, .dest_qp_num = to_itself ? own.qp->qpn : nobody,
		.qp_access_flags = IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_ATOMIC,
		.ah_attr = { .dlid = own.qp->dev->lid, .port_num = 1 }, .max_rd_atomic = 1, .max_dest_rd_atomic = 1,
		.timeout = 8, .retry_cnt = 1, .min_rnr_timer = 1 });
	runtime_leave(own.rt);
}

static void destroy_qp(void)
{
	runtime_enter(own.rt);
	check(qp_destroy(own.qp), "destroy");
	runtime_leave(own.rt);
}

/* Between runtime_enter and runtime_leave. */
static void post_add(wtime now)
{
	struct ibv_sge sge = { (uintptr_t)&own.word[1], sizeof(own.word[1]), own.mr->key };
	struct ibv_send_wr *bad, wr = {
		.sg_list = &sge, .num_sge = 1, .opcode = IBV_WR_ATOMIC_FETCH_AND_ADD, .send_flags = IBV_SEND_SIGNALED,
		.wr.atomic = { (uintptr_t)&own.word[0], 1, 0, own.mr->key },
	};

	check(qp_post_send(own.qp, now, &wr, &bad), "post");
}

static enum ibv_wc_status poll_until_done(void)
{
	struct cqe cqe;
	bool any;

	do {
		runtime_enter_poll(own.rt);
		any = cq_poll(own.cq, &cqe);
		if (any)
			runtime_poll_found();
		runtime_leave(own.rt);
	} while (!any);
	return cqe.status;
}

static void an_own_atomic_takes_the_lock(void)
{
	struct ca *ca = runtime_ca(own.rt);
	struct atomic_lock *lock;
	wtime now;

	make_qp(true);
	do {
		now = runtime_enter(own.rt);
		post_add(now);
		runtime_leave(own.rt);
		check(poll_until_done() != IBV_WC_SUCCESS, "an atomic");
	} while (ca->counters.direct_atomics == 0);
	now = runtime_enter(own.rt);
	lock = &own.rt->peers.published.share.memory->atomics;
	/* a process that had this slot and has died: the lock is taken over, and given back */
	atomic_store(&lock->holder, peer_self(&own.rt->peers) + (2 * PAGE_SLOTS));
	post_add(now);
	runtime_leave(own.rt);
	check(poll_until_done() != IBV_WC_SUCCESS, "an atomic");
	check(ca->counters.direct_atomics != 2, "not directly");
	check(atomic_load(&lock->holder) != 0, "an atomic on own memory does not take the lock");
	destroy_qp();
}

/* The helper looks in once a tick while the program polls; one that sleeps must not wait for the tick. */
static void a_sleep_is_said(void)
{
	wtime now = runtime_enter(own.rt);

	own.rt->progress.state = BY_POLLER;
	own.rt->progress.last_poll = now;
	runtime_will_sleep(own.rt);
	check(progress_is_polled(&own.rt->progress), "who sleeps is still taken for one who polls");
	runtime_leave(own.rt);
}

/* Until the helper has gone to sleep with no timer near. */
static void await_sleep(void)
{
	bool sleeps = false;

	while (!sleeps) {
		sched_yield();
		sleeps = runtime_enter(own.rt) + FAR < own.rt->helper_until;
		runtime_leave(own.rt);
	}
}

/* Nothing arrives, and the program calls nothing: the helper alone sends again, and gives up. */
static void a_timer_wakes_the_helper(void)
{
	struct pollfd p = { .fd = own.event_fd, .events = POLLIN };
	eventfd_t count;

	make_qp(false);
	runtime_enter(own.rt);
	cq_arm(own.cq, false);
	runtime_leave(own.rt);
	await_sleep();
	post_add(runtime_enter(own.rt));
	runtime_leave(own.rt);
	check(poll(&p, 1, PATIENCE_MS) != 1, "nobody looks after a timer");
	eventfd_read(own.event_fd, &count);
	check(poll_until_done() != IBV_WC_RETRY_EXC_ERR, "a request to nobody");
	destroy_qp();
}

int main(void)
{
	static const struct runtime_events events = { .cq_event = on_cq_event, .async_event = on_async_event };

	own.event_fd = eventfd(0, EFD_NONBLOCK);
	own.rt = attach();
	runtime_set_events(own.rt, &events);
	make_objects();
	an_own_atomic_takes_the_lock();
	a_sleep_is_said();
	for (int i = 0; i < TIMERS; i++)
		a_timer_wakes_the_helper();
	return 0;
}
