/* Many threads of one process enter the adapter at once, each over its own QP (connected to itself), while others fork:
 * every child finds a working device of its own, and nobody's data is lost. `threads THREADS ROUNDS [leave]`; with `leave`
 * the program ends while they are all at it. Needs WEFT_DIR. */
#include "connect.h"

#include "runtime/entry.h"
#include "runtime/runtime.h"
#include "verbs/cq.h"
#include "verbs/mr.h"
#include "verbs/pd.h"
#include "verbs/qp.h"

#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

enum { BYTES = 256 };

struct worker {
	pthread_t thread;
	struct pd *pd;
	struct cq *cq;
	struct qp *qp;
	struct mr *mr;
	uint8_t buffer[2 * BYTES];
};

static unsigned rounds;
static _Atomic unsigned done_rounds;

static void make_objects(struct runtime *rt, struct worker *w)
{
	struct ibv_qp_init_attr_ex init = { .qp_type = IBV_QPT_RC, .cap = { 8, 8, 1, 1, 0 } };
	struct ca *ca = runtime_ca(rt);

	runtime_enter(rt);
	check(pd_create(ca, &ca->dev[0], &w->pd), "pd");
	check(cq_create(ca, &ca->dev[0], 32, &w->cq), "cq");
	check(mr_create(w->pd, w->buffer, sizeof(w->buffer), (uintptr_t)w->buffer, IBV_ACCESS_LOCAL_WRITE, &w->mr), "mr");
	check(qp_create(ca, &ca->dev[0], &init, w->pd, w->cq, w->cq, NULL, NULL, &w->qp), "qp");
	runtime_leave(rt);
}

static void connect_to_self(struct runtime *rt, struct worker *w)
{
	rc_connect(w->qp, runtime_enter(rt), (struct ibv_qp_attr){
		.port_num = 1, .path_mtu = IBV_MTU_4096, .dest_qp_num = w->qp->qpn,
		.ah_attr = { .dlid = w->qp->dev->lid, .port_num = 1 },
		.timeout = 14, .retry_cnt = 7, .rnr_retry = 7, .min_rnr_timer = 1 });
	runtime_leave(rt);
}

static void destroy_objects(struct runtime *rt, struct worker *w)
{
	runtime_enter(rt);
	check(qp_destroy(w->qp), "destroy qp");
	check(mr_destroy(w->mr), "destroy mr");
	check(cq_destroy(w->cq), "destroy cq");
	check(pd_destroy(w->pd), "destroy pd");
	runtime_leave(rt);
}

static void send_to_self(struct runtime *rt, struct worker *w, unsigned round)
{
	struct ibv_sge to = { .addr = (uintptr_t)w->buffer, .length = BYTES, .lkey = w->mr->key };
	struct ibv_sge from = { .addr = (uintptr_t)w->buffer + BYTES, .length = BYTES, .lkey = w->mr->key };
	struct ibv_recv_wr recv = { .sg_list = &to, .num_sge = 1 };
	struct ibv_send_wr *bad, send = {
		.sg_list = &from, .num_sge = 1, .opcode = IBV_WR_SEND, .send_flags = IBV_SEND_SIGNALED,
	};
	const struct ibv_recv_wr *bad_recv;
	struct cqe cqe;
	wtime now;

	memset(w->buffer + BYTES, (int)round, BYTES);
	now = runtime_enter(rt);
	check(qp_post_recv(w->qp, now, &recv, &bad_recv), "post receive");
	check(qp_post_send(w->qp, now, &send, &bad), "post send");
	runtime_leave(rt);
	for (int done = 0; done < 2;) {
		bool any;

		runtime_enter_poll(rt);
		any = cq_poll(w->cq, &cqe);
		runtime_leave(rt);
		if (any && cqe.status != IBV_WC_SUCCESS)
			check(-5, "completion");
		done += any;
		if (!any)
			sched_yield();
	}
	if (memcmp(w->buffer, w->buffer + BYTES, BYTES) != 0)
		check(-5, "data");
}

static void *work(void *arg)
{
	struct runtime *rt = runtime_get();
	struct worker *w = arg;

	if (!rt)
		check(-19, "attach");
	make_objects(rt, w);
	connect_to_self(rt, w);
	for (unsigned round = 0; round < rounds; round++) {
		send_to_self(rt, w, round);
		done_rounds++;
	}
	destroy_objects(rt, w);
	return NULL;
}

/* A child with a device of its own; the parent's objects are dead weight in it. */
static void fork_once(void)
{
	pid_t child = fork();
	int status;

	if (child == 0) {
		struct worker w = { 0 };
		struct runtime *inherited = runtime_peek();

		alarm(20);
		rounds = 10;
		work(&w);
		_exit(inherited != NULL);
	}
	if (waitpid(child, &status, 0) != child || status != 0)
		check(-5, "a forked child");
}

int main(int argc, char **argv)
{
	unsigned threads = argc > 1 ? (unsigned)atoi(argv[1]) : 64;
	struct worker *w = calloc(threads, sizeof(*w));

	rounds = argc > 2 ? (unsigned)atoi(argv[2]) : 200;
	for (unsigned i = 0; i < threads; i++)
		pthread_create(&w[i].thread, NULL, work, &w[i]);
	while (argc > 3 && done_rounds < threads)
		sched_yield();
	if (argc > 3)
		return 0;
	for (int i = 0; i < 5; i++)
		fork_once();
	for (unsigned i = 0; i < threads; i++)
		pthread_join(w[i].thread, NULL);
	printf("%u threads, %u rounds each, 5 forks\n", threads, rounds);
	free(w);
	return 0;
}
