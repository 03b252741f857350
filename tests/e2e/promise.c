/* Sends that the peer has promised to take are complete while its process does nothing at all, and are executed all the same when
 * their QP stops, their region goes, or the sender has ended meanwhile. `promise error|region|exit`. Two processes, on the object
 * model: the receiver has its adapter's lock all the time. A machine that is too busy makes a round one of acknowledgements, as
 * the sender then does not poll; one of many rounds at least is none. Exit 0: every byte was right. */
#include "attach.h"
#include "connect.h"

#include "control/clock.h"
#include "runtime/entry.h"
#include "runtime/runtime.h"
#include "verbs/cq.h"
#include "verbs/mr.h"
#include "verbs/pd.h"
#include "verbs/qp.h"

#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

enum { DEPTH = 16, BYTES = 64, MEMORY = 4096, WARM = 200, PROMISED = 8, SENT = 5, ROUNDS = 200, ENOUGH = 3 };

static const wtime PATIENCE = 100 * WTIME_MS;

/* What a round comes to. */
enum phase { WARMING, LOCKED, COMPLETED, GIVEN_UP, JUDGED };

static struct board {
	struct { _Atomic uint32_t qpn; uint16_t lid; } end[2];
	_Atomic unsigned arrived;
	_Atomic unsigned phase;
} *board;

struct end {
	struct runtime *rt;
	struct pd *pd;
	struct cq *cq;
	struct qp *qp;
	struct mr *mr, *receives;	/* of what is sent, and of what comes */
	uint8_t *memory;		/* the first half is sent */
	int me;
};

static void meet(void)
{
	unsigned wave = atomic_fetch_add(&board->arrived, 1) / 2;

	while (atomic_load(&board->arrived) < 2 * (wave + 1))
		sched_yield();
}

static struct mr *new_region(struct end *e, size_t offset)
{
	struct mr *mr;

	check(mr_create(e->pd, e->memory + offset, MEMORY / 2, (uintptr_t)e->memory + offset, IBV_ACCESS_LOCAL_WRITE, &mr), "mr");
	return mr;
}

static void open_end(struct end *e, int me)
{
	struct ibv_qp_init_attr_ex init = { .qp_type = IBV_QPT_RC, .cap = { DEPTH, DEPTH, 1, 1, 0 } };
	struct ca *ca;

	e->me = me;
	e->rt = attach();
	ca = runtime_ca(e->rt);
	e->memory = aligned_alloc(MEMORY, MEMORY);
	memset(e->memory, 0, MEMORY);
	runtime_enter(e->rt);
	check(pd_create(ca, &ca->dev[0], &e->pd), "pd");
	check(cq_create(ca, &ca->dev[0], 4 * DEPTH, &e->cq), "cq");
	e->mr = new_region(e, 0);
	check(qp_create(ca, &ca->dev[0], &init, e->pd, e->cq, e->cq, NULL, NULL, &e->qp), "qp");
	board->end[me].lid = e->qp->dev->lid;
	atomic_store(&board->end[me].qpn, e->qp->qpn);
	runtime_leave(e->rt);
}

static void connect_end(struct end *e)
{
	struct ibv_qp_attr reset = { .qp_state = IBV_QPS_RESET };
	wtime now = runtime_enter(e->rt);

	check(qp_modify(e->qp, now, &reset, IBV_QP_STATE), "reset");
	rc_connect(e->qp, now, (struct ibv_qp_attr){
		.port_num = 1, .path_mtu = IBV_MTU_4096, .dest_qp_num = board->end[!e->me].qpn,
		.ah_attr = { .dlid = board->end[!e->me].lid, .port_num = 1 }, .timeout = 14, .retry_cnt = 7, .rnr_retry = 7,
		.min_rnr_timer = 1, .max_rd_atomic = 1, .max_dest_rd_atomic = 1 });
	e->receives = new_region(e, MEMORY / 2);
	runtime_leave(e->rt);
}

static void post_receive(struct end *e, uint64_t id)
{
	struct ibv_sge sge = { (uintptr_t)e->memory + MEMORY / 2 + id * BYTES, BYTES, e->receives->key };
	struct ibv_recv_wr wr = { .wr_id = id, .sg_list = &sge, .num_sge = 1 };
	const struct ibv_recv_wr *bad;
	wtime now = runtime_enter_receive(e->rt);

	check(qp_post_recv(e->qp, now, &wr, &bad), "post a receive");
	runtime_leave(e->rt);
}

static void post_send(struct end *e, uint8_t value)
{
	struct ibv_sge sge = { (uintptr_t)e->memory, BYTES, e->mr->key };
	struct ibv_send_wr wr = { .sg_list = &sge, .num_sge = 1, .opcode = IBV_WR_SEND, .send_flags = IBV_SEND_SIGNALED }, *bad;
	wtime now = runtime_enter_post(e->rt);

	memset(e->memory, value, BYTES);
	check(qp_post_send(e->qp, now, &wr, &bad), "post a send");
	runtime_leave(e->rt);
}

static bool poll_once(struct end *e, struct cqe *cqe)
{
	bool any;

	runtime_enter_poll(e->rt);
	any = cq_poll(e->cq, cqe) || (runtime_look_again(e->rt) && cq_poll(e->cq, cqe));
	runtime_leave(e->rt);
	return any;
}

/* Waits for so many completions of each kind. */
static void wait_for(struct end *e, unsigned sends, unsigned receives)
{
	struct cqe cqe;

	while (sends || receives) {
		if (!poll_once(e, &cqe))
			continue;
		if (cqe.status != IBV_WC_SUCCESS)
			die("a completion with an error");
		*(cqe.kind == CQE_SEND ? &sends : &receives) -= 1;
	}
}

/* Both poll until they are trusted to; afterwards the sender knows of PROMISED receives. */
static void warm_up(struct end *e)
{
	for (unsigned i = 0; i < WARM; i++) {
		post_receive(e, 0);
		meet();
		if (e->me == 0) {
			post_send(e, 1);
			wait_for(e, 1, 1);
			continue;
		}
		wait_for(e, 0, 1);
		for (uint64_t id = 0; i + 1 == WARM && id < PROMISED; id++)
			post_receive(e, id);
		post_send(e, 1);
		wait_for(e, 1, 0);
	}
}

/* True: all were completed while the receiver stood still. */
static bool send_promised(struct end *e, const char *how)
{
	struct cqe cqe;
	unsigned done = 0;
	wtime until;

	while (atomic_load(&board->phase) != LOCKED)
		poll_once(e, &cqe);
	for (uint8_t i = 0; i < SENT; i++)
		post_send(e, 10 + i);
	for (until = clock_now() + PATIENCE; done < SENT && clock_now() < until;)
		if (poll_once(e, &cqe)) {
			if (cqe.status != IBV_WC_SUCCESS)
				die("a send failed");
			done++;
		}
	if (done == SENT && strcmp(how, "exit") == 0) {
		atomic_store(&board->phase, COMPLETED);
		_exit(0);
	}
	atomic_store(&board->phase, done == SENT ? COMPLETED : GIVEN_UP);
	if (done < SENT)
		wait_for(e, SENT - done, 0);
	return done == SENT;
}

static void expect_messages(struct end *e, bool flushes)
{
	struct cqe cqe;

	for (uint64_t i = 0; i < (flushes ? PROMISED : SENT); i++) {
		while (!poll_once(e, &cqe))
			;
		if (cqe.wr_id != i || cqe.kind != CQE_RECV)
			die("another completion");
		if (cqe.status != (i < SENT ? IBV_WC_SUCCESS : IBV_WC_WR_FLUSH_ERR))
			die(i < SENT ? "a message that was complete is lost" : "a receive was not flushed");
		for (unsigned n = 0; i < SENT && n < BYTES; n++)
			if (e->memory[MEMORY / 2 + i * BYTES + n] != 10 + i)
				die("other bytes");
	}
}

static bool take_promised(struct end *e, const char *how)
{
	bool is_error = strcmp(how, "error") == 0, completed;
	struct mr *receives = e->receives;
	wtime now;

	memset(e->memory + MEMORY / 2, 0, MEMORY / 2);
	now = runtime_enter(e->rt);
	atomic_store(&board->phase, LOCKED);
	while (atomic_load(&board->phase) == LOCKED)
		sched_yield();
	completed = atomic_load(&board->phase) == COMPLETED;
	if (completed && is_error)
		check(qp_modify(e->qp, now, &(struct ibv_qp_attr){ .qp_state = IBV_QPS_ERR }, IBV_QP_STATE), "error");
	else if (completed && strcmp(how, "region") == 0)
		check(mr_destroy(receives), "destroy");
	runtime_leave(e->rt);
	expect_messages(e, completed && is_error);
	return completed;
}

static void be(int me, const char *how)
{
	struct end e = { 0 };
	unsigned completed = 0;

	open_end(&e, me);
	meet();
	for (unsigned i = 0; i < ROUNDS && completed < ENOUGH; i++) {
		atomic_store(&board->phase, WARMING);
		meet();
		connect_end(&e);
		meet();
		warm_up(&e);
		completed += me == 0 ? send_promised(&e, how) : take_promised(&e, how);
		if (me == 1 && completed && strcmp(how, "exit") == 0)
			exit(0);
		meet();
	}
	if (!completed)
		die("nothing was complete before it was taken");
	exit(0);
}

int main(int argc, char **argv)
{
	int status, failed = 0;

	if (argc != 2)
		die("usage: promise error|region|exit");
	board = share_with_children(sizeof(*board));
	for (int i = 0; i < 2; i++)
		if (fork() == 0) {
			prctl(PR_SET_PDEATHSIG, SIGKILL);
			be(i, argv[1]);
		}
	while (!failed && wait(&status) > 0)
		failed |= status;
	return failed != 0;
}
