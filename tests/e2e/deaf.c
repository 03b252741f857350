/* A process that is stopped loses the datagrams that are for it, and nobody else any: a sender's other receivers go on.
 * `deaf group`: both are members of a multicast group; `deaf single`: a datagram QP sends to the one and the other in turn.
 * `deaf late`: one whose receives are used up long before it polls loses none.
 * Needs WEFT_DIR of a running weftd. Exit 0: all of it. WEFT_TEST_LIMIT=user: the one that is stopped is another user. */
#include "attach.h"

#include "link/ring.h"
#include "runtime/entry.h"
#include "runtime/requests.h"
#include "runtime/runtime.h"
#include "runtime/state.h"
#include "verbs/cq.h"
#include "verbs/mr.h"
#include "verbs/pd.h"
#include "verbs/qp.h"

#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>

enum { LIVE, DEAF, RECEIVERS, DATAGRAMS = 20000, DEPTH = 64, BYTES = 1024, QKEY = 0x1234, MLID = 0xc000, PATIENCE_S = 20,
       GRH = 40 };

static const uint8_t group[16] = { 0xff, 0x12, 0x40, 0x1b, [15] = 7 };

/* Shared by all. */
static struct board {
	_Atomic uint32_t qpn[RECEIVERS];
	_Atomic uint64_t frames[RECEIVERS];
} *board;

struct end {
	struct runtime *rt;
	struct pd *pd;
	struct cq *cq;
	struct mr *mr;
	struct qp *qp;
	uint8_t *buffer;
};

static void make_end(struct end *e)
{
	static const enum ibv_qp_state states[] = { IBV_QPS_INIT, IBV_QPS_RTR, IBV_QPS_RTS };
	static const int masks[] = { IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_QKEY, 0, IBV_QP_SQ_PSN };
	struct ibv_qp_init_attr_ex init = { .qp_type = IBV_QPT_UD, .cap = { .max_send_wr = DEPTH, .max_recv_wr = DEPTH,
									   .max_send_sge = 1, .max_recv_sge = 1 } };
	struct ca *ca;
	wtime now;

	e->rt = attach();
	ca = runtime_ca(e->rt);
	e->buffer = calloc(1, GRH + BYTES);
	now = runtime_enter(e->rt);
	check(pd_create(ca, &ca->dev[0], &e->pd), "pd");
	check(cq_create(ca, &ca->dev[0], 2 * DEPTH, &e->cq), "cq");
	check(mr_create(e->pd, e->buffer, GRH + BYTES, (uintptr_t)e->buffer, IBV_ACCESS_LOCAL_WRITE, &e->mr), "mr");
	check(qp_create(ca, &ca->dev[0], &init, e->pd, e->cq, e->cq, NULL, NULL, &e->qp), "qp");
	for (int i = 0; i < 3; i++) {
		struct ibv_qp_attr attr = { .qp_state = states[i], .port_num = 1, .qkey = QKEY };

		check(qp_modify(e->qp, now, &attr, IBV_QP_STATE | masks[i]), "connect");
	}
	runtime_leave(e->rt);
}

static void be_receiver(int i)
{
	struct end e = { 0 };
	int err;

	prctl(PR_SET_PDEATHSIG, SIGKILL);
	if (i == DEAF && strcmp(getenv("WEFT_TEST_LIMIT") ?: "", "user") == 0 && (setgid(65534) || setuid(65534)))
		die("still root");
	make_end(&e);
	runtime_join_begin(e.rt);
	do {
		runtime_enter(e.rt);
		err = mcast_attach(e.qp, group, MLID);
		runtime_leave(e.rt);
	} while (runtime_join(e.rt, &err));
	runtime_join_end(e.rt);
	check(err, "join");
	for (;;) {
		runtime_enter_poll(e.rt);
		atomic_store(&board->frames[i], e.rt->frames);
		runtime_leave(e.rt);
		atomic_store(&board->qpn[i], e.qp->qpn);
	}
}

static void post_receives(struct end *e, unsigned n)
{
	struct ibv_sge sge = { (uintptr_t)e->buffer, GRH + BYTES, e->mr->key };
	struct ibv_recv_wr wr = { .sg_list = &sge, .num_sge = 1 };
	const struct ibv_recv_wr *bad;
	wtime now = runtime_enter(e->rt);

	while (n--)
		check(qp_post_recv(e->qp, now, &wr, &bad), "post a receive");
	runtime_leave(e->rt);
}

static unsigned poll_all(struct end *e)
{
	struct cqe cqe;
	unsigned n = 0;

	runtime_enter_poll(e->rt);
	while (cq_poll(e->cq, &cqe)) {
		check(cqe.status != IBV_WC_SUCCESS, "a completion");
		n++;
	}
	if (n)
		runtime_poll_found();
	runtime_leave(e->rt);
	return n;
}

static uint64_t waiting_at(struct end *e)
{
	uint64_t n;

	runtime_enter_briefly(e->rt);
	n = runtime_ca(e->rt)->counters.waited_datagrams;
	runtime_leave(e->rt);
	return n;
}

/* Its turn comes when nothing has come for long, which is when its sender waits: what waits here was on the way by then. */
static void be_late(int i)
{
	struct end e = { 0 };
	uint64_t before;
	unsigned n;

	prctl(PR_SET_PDEATHSIG, SIGKILL);
	make_end(&e);
	post_receives(&e, DEPTH);
	atomic_store(&board->qpn[i], e.qp->qpn);
	do {
		before = waiting_at(&e);
		nanosleep(&(struct timespec){ .tv_nsec = 30 * 1000 * 1000 }, NULL);
	} while (!before || waiting_at(&e) != before);
	if (before > RING_BYTES / BYTES + DEPTH)
		die("its sender went on");
	for (;;) {
		n = poll_all(&e);
		post_receives(&e, n);
		atomic_fetch_add(&board->frames[i], n);
	}
}

static void post(struct end *e, struct ah *ah, uint32_t qpn)
{
	struct ibv_sge sge = { (uintptr_t)e->buffer, BYTES, e->mr->key };
	struct ibv_send_wr wr = { .sg_list = &sge, .num_sge = 1, .opcode = IBV_WR_SEND, .send_flags = IBV_SEND_SIGNALED,
				  .wr.ud = { &ah->ibv, qpn, QKEY } }, *bad;
	wtime now = runtime_enter(e->rt);

	check(qp_post_send(e->qp, now, &wr, &bad), "post");
	runtime_leave(e->rt);
}

static void make_ah(struct end *e, bool to_group, struct ah *ah)
{
	struct ibv_ah_attr attr = { .dlid = to_group ? MLID : e->qp->dev->lid, .port_num = 1, .is_global = to_group };

	memcpy(attr.grh.dgid.raw, group, sizeof(group));
	*ah = (struct ah){ .pd = e->pd };
	check(av_from_attr(e->qp->dev, &attr, &ah->av), "address");
}

static void send_all(struct end *e, bool to_group, unsigned receivers)
{
	time_t deadline = time(NULL) + PATIENCE_S;
	unsigned posted = 0, done = 0;
	struct ah ah;

	make_ah(e, to_group, &ah);
	while (done < DATAGRAMS) {
		for (; posted < DATAGRAMS && posted - done < DEPTH; posted++)
			post(e, &ah, to_group ? 0xffffff : atomic_load(&board->qpn[posted % receivers]));
		done += poll_all(e);
		if (time(NULL) > deadline)
			die("one that is stopped stops the others");
	}
}

static void await(uint64_t expected, const char *otherwise)
{
	time_t deadline = time(NULL) + PATIENCE_S;

	while (atomic_load(&board->frames[LIVE]) < expected)
		if (time(NULL) > deadline)
			die(otherwise);
}

static int send_to_one_that_is_late(void)
{
	pid_t pid = fork();
	struct end e = { 0 };

	if (pid == 0)
		be_late(LIVE);
	make_end(&e);
	while (!atomic_load(&board->qpn[LIVE]))
		sched_yield();
	send_all(&e, false, 1);
	await(DATAGRAMS, "who was late lost datagrams");
	if (runtime_ca(e.rt)->counters.dropped_full)
		die("some were dropped before they got there");
	kill(pid, SIGKILL);
	return 0;
}

int main(int argc, char **argv)
{
	bool to_group = argc == 2 && strcmp(argv[1], "group") == 0;
	uint64_t expected = to_group ? DATAGRAMS : DATAGRAMS / RECEIVERS;
	pid_t pid[RECEIVERS];
	struct end e = { 0 };

	board = share_with_children(sizeof(*board));
	if (argc == 2 && strcmp(argv[1], "late") == 0)
		return send_to_one_that_is_late();
	for (int i = 0; i < RECEIVERS; i++) {
		pid[i] = fork();
		if (pid[i] == 0)
			be_receiver(i);
	}
	make_end(&e);
	while (!atomic_load(&board->qpn[LIVE]) || !atomic_load(&board->qpn[DEAF]))
		sched_yield();
	check(kill(pid[DEAF], SIGSTOP), "stop");
	send_all(&e, to_group, RECEIVERS);
	await(expected, "who was not stopped lost datagrams");
	if (!runtime_ca(e.rt)->counters.dropped_full)
		die("what was lost is not counted");
	for (int i = 0; i < RECEIVERS; i++)
		kill(pid[i], SIGKILL);
	return 0;
}
