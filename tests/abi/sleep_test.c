/* Threads that sleep in ibv_get_cq_event, in two processes: every message wakes whoever waits for it, however many threads and
 * channels there are, whatever a thread does after its event, and however its sleep ends. Runs with a weftd of its own. */
#include <errno.h>
#include <fcntl.h>
#include <infiniband/verbs.h>
#include <linux/futex.h>
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

enum { QPS = 4, DEPTH = 16, ROUNDS = 2000, BYTES = 64, SIGNALS = 200, CANCELS = 50 };

/* Shared by both processes. */
static struct board {
	_Atomic unsigned arrived;
	struct address {
		uint32_t qpn;
		uint16_t lid;
	} end[2][QPS];
	_Atomic unsigned flag;
} *board;

struct end {
	int side;
	struct ibv_context *ctx;
	struct ibv_pd *pd;
	struct ibv_mr *mr;
	char memory[BYTES];
	struct line {
		struct end *end;
		struct ibv_comp_channel *channel;
		struct ibv_cq *recv, *send;	/* with one channel; the sends' is armed where said */
		struct ibv_qp *qp;
		unsigned seed;	/* the line's number: the same in each run */
	} line[QPS];
};

/* In either process; the child's assertions cannot be cmocka's. */
static void must(bool fact, const char *what)
{
	if (fact)
		return;
	fprintf(stderr, "sleep_test[%d]: %s: %s\n", (int)getpid(), what, strerror(errno));
	_exit(1);
}

static void meet(void)
{
	unsigned mine = atomic_fetch_add(&board->arrived, 1), wave = mine / 2;

	while (atomic_load(&board->arrived) < (wave + 1) * 2)
		sched_yield();
}

static void await_flag(unsigned value)
{
	while (atomic_load(&board->flag) < value)
		sched_yield();
}

static void post_receive(struct line *l)
{
	struct ibv_sge sge = { (uintptr_t)l->end->memory, BYTES, l->end->mr->lkey };
	struct ibv_recv_wr wr = { .sg_list = &sge, .num_sge = 1 }, *bad;

	must(ibv_post_recv(l->qp, &wr, &bad) == 0, "ibv_post_recv");
}

static void post_send(struct line *l)
{
	struct ibv_sge sge = { (uintptr_t)l->end->memory, 8, l->end->mr->lkey };
	struct ibv_send_wr wr = { .sg_list = &sge, .num_sge = 1, .opcode = IBV_WR_SEND, .send_flags = IBV_SEND_SIGNALED }, *bad;

	must(ibv_post_send(l->qp, &wr, &bad) == 0, "ibv_post_send");
}

static unsigned reap(struct ibv_cq *cq, enum ibv_wc_status expected)
{
	struct ibv_wc wc[DEPTH];
	int n = ibv_poll_cq(cq, DEPTH, wc);

	must(n >= 0, "ibv_poll_cq");
	for (int i = 0; i < n; i++)
		must(wc[i].status == expected, "a completion");
	return (unsigned)n;
}

static bool failed(struct ibv_cq *cq)
{
	struct ibv_wc wc;

	while (ibv_poll_cq(cq, 1, &wc) == 1)
		if (wc.status != IBV_WC_SUCCESS)
			return true;
	return false;
}

static void await_sent(struct line *l)
{
	while (reap(l->send, IBV_WC_SUCCESS) == 0)
		sched_yield();
}

static void await_event(struct line *l)
{
	struct ibv_cq *cq;
	void *context;

	must(ibv_get_cq_event(l->channel, &cq, &context) == 0, "ibv_get_cq_event");
	must(cq == context, "an event's CQ");
	ibv_ack_cq_events(cq, 1);
}

/* Sleeps until receives have completed; how many. The CQ is armed. */
static unsigned sleep_for_receives(struct line *l)
{
	unsigned n;

	do {
		await_event(l);
		must(ibv_req_notify_cq(l->recv, 0) == 0, "ibv_req_notify_cq");
		n = reap(l->recv, IBV_WC_SUCCESS);
	} while (n == 0);
	return n;
}

static void open_line(struct end *e, struct line *l, struct ibv_comp_channel *channel)
{
	struct ibv_port_attr port;
	struct ibv_qp_init_attr init = { .cap = { DEPTH, DEPTH, 1, 1, 0 }, .qp_type = IBV_QPT_RC };

	l->end = e;
	l->channel = channel ? channel : ibv_create_comp_channel(e->ctx);
	must(l->channel, "ibv_create_comp_channel");
	l->recv = ibv_create_cq(e->ctx, DEPTH, NULL, l->channel, 0);
	l->send = ibv_create_cq(e->ctx, DEPTH, NULL, l->channel, 0);
	must(l->recv && l->send, "ibv_create_cq");
	l->recv->cq_context = l->recv;
	l->send->cq_context = l->send;
	init.recv_cq = l->recv;
	init.send_cq = l->send;
	l->qp = ibv_create_qp(e->pd, &init);
	must(l->qp && ibv_query_port(e->ctx, 1, &port) == 0, "ibv_create_qp");
	board->end[e->side][l - e->line] = (struct address){ l->qp->qp_num, port.lid };
	must(ibv_req_notify_cq(l->recv, 0) == 0, "ibv_req_notify_cq");
}

static void connect_line(struct line *l)
{
	const struct address *peer = &board->end[!l->end->side][l - l->end->line];
	struct ibv_qp_attr a = { .qp_state = IBV_QPS_INIT, .port_num = 1 };

	must(ibv_modify_qp(l->qp, &a, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS) == 0, "INIT");
	a = (struct ibv_qp_attr){ .qp_state = IBV_QPS_RTR, .path_mtu = IBV_MTU_1024, .dest_qp_num = peer->qpn,
				  .max_dest_rd_atomic = 1, .min_rnr_timer = 1, .ah_attr = { .dlid = peer->lid, .port_num = 1 } };
	must(ibv_modify_qp(l->qp, &a, IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN |
			   IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER) == 0, "RTR");
	for (int i = 0; i < DEPTH / 2; i++)
		post_receive(l);
	meet();
	a = (struct ibv_qp_attr){ .qp_state = IBV_QPS_RTS, .timeout = 14, .retry_cnt = 7, .rnr_retry = 7, .max_rd_atomic = 1 };
	must(ibv_modify_qp(l->qp, &a, IBV_QP_STATE | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY | IBV_QP_SQ_PSN |
			   IBV_QP_MAX_QP_RD_ATOMIC) == 0, "RTS");
	meet();
}

/* lines QPs, each with a channel of its own; or, on side 1, all with one. */
static void open_end(struct end *e, int side, int lines, bool share)
{
	struct ibv_device **list = ibv_get_device_list(NULL);

	e->side = side;
	must(list && list[0], "ibv_get_device_list");
	e->ctx = ibv_open_device(list[0]);
	must(e->ctx && (e->pd = ibv_alloc_pd(e->ctx)), "ibv_alloc_pd");
	e->mr = ibv_reg_mr(e->pd, e->memory, BYTES, IBV_ACCESS_LOCAL_WRITE);
	must(e->mr, "ibv_reg_mr");
	for (int i = 0; i < lines; i++)
		open_line(e, &e->line[i], share && side == 1 && i > 0 ? e->line[0].channel : NULL);
	meet();
	for (int i = 0; i < lines; i++)
		connect_line(&e->line[i]);
}

static pid_t run(void (*what)(struct end *), int side, int lines, bool share)
{
	static struct end e;
	pid_t pid = fork();

	must(pid >= 0, "fork");
	if (pid > 0)
		return pid;
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	open_end(&e, side, lines, share);
	what(&e);
	_exit(0);
}

/* Both in processes of their own: what is left asleep ends with them. The second may serve for ever. */
static void run_pair(void (*here)(struct end *), void (*there)(struct end *), int lines, bool share)
{
	pid_t first, second;
	int status;

	memset(board, 0, sizeof(*board));
	first = run(here, 0, lines, share);
	second = run(there, 1, lines, share);
	assert_int_equal(waitpid(first, &status, 0), first);
	assert_int_equal(status, 0);
	kill(second, SIGKILL);
	assert_int_equal(waitpid(second, &status, 0), second);
	assert_true(status == 0 || (WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL));
}

/* ---- ping-pong ---- */

/* Now and then a thread is busy for a while after its event. */
static void dawdle(struct line *l)
{
	unsigned turns = rand_r(&l->seed) % 64 ? 0 : (unsigned)rand_r(&l->seed) % 200000;

	for (volatile unsigned i = 0; i < turns; i++)
		;
}

static void *play(void *arg)
{
	struct line *l = arg;
	unsigned got = 0;

	l->seed = (unsigned)(l - l->end->line) + 2 * (unsigned)l->end->side;
	for (unsigned i = 0; i < ROUNDS; i++) {
		if (l->end->side == 0)
			post_send(l);
		while (got <= i)
			got += sleep_for_receives(l);
		dawdle(l);
		post_receive(l);
		if (l->end->side == 1)
			post_send(l);
		await_sent(l);
	}
	return NULL;
}

static void play_all(struct end *e)
{
	pthread_t thread[QPS];
	int n = 0;

	for (; n < QPS && e->line[n].qp; n++)
		must(pthread_create(&thread[n], NULL, play, &e->line[n]) == 0, "pthread_create");
	while (n > 0)
		pthread_join(thread[--n], NULL);
	meet();
}

static void ping_pong_asleep(void **state)
{
	run_pair(play_all, play_all, 1, false);
}

static void threads_with_a_channel_each(void **state)
{
	run_pair(play_all, play_all, QPS, false);
}

/* Threads take events of one channel, whoever's they are. */
static _Atomic unsigned served;

static void *serve(void *arg)
{
	struct end *e = arg;
	struct ibv_cq *cq;
	void *context;

	while (atomic_load(&served) < QPS * ROUNDS / 4) {
		must(ibv_get_cq_event(e->line[0].channel, &cq, &context) == 0, "ibv_get_cq_event");
		ibv_ack_cq_events(cq, 1);
		must(ibv_req_notify_cq(cq, 0) == 0, "ibv_req_notify_cq");
		for (int i = 0; i < QPS; i++) {
			struct line *l = &e->line[i];
			unsigned n = l->recv == cq ? reap(cq, IBV_WC_SUCCESS) : 0;

			for (atomic_fetch_add(&served, n); n > 0; n--) {
				post_receive(l);
				post_send(l);
			}
			reap(l->send, IBV_WC_SUCCESS);
		}
	}
	return NULL;
}

/* The last events end some of them; who is left asleep ends with the process. */
static void serve_together(struct end *e)
{
	pthread_t thread[QPS];

	for (int i = 0; i < QPS; i++)
		must(pthread_create(&thread[i], NULL, serve, e) == 0, "pthread_create");
	meet();
}

static void *ask(void *arg)
{
	struct line *l = arg;
	unsigned got = 0;

	for (unsigned i = 0; i < ROUNDS / 4; i++) {
		post_send(l);
		while (got <= i)
			got += sleep_for_receives(l);
		post_receive(l);
		await_sent(l);
	}
	return NULL;
}

static void ask_all(struct end *e)
{
	pthread_t thread[QPS];

	for (int i = 0; i < QPS; i++)
		must(pthread_create(&thread[i], NULL, ask, &e->line[i]) == 0, "pthread_create");
	for (int i = 0; i < QPS; i++)
		pthread_join(thread[i], NULL);
	meet();
}

static void threads_that_share_a_channel(void **state)
{
	run_pair(ask_all, serve_together, QPS, true);
}

/* ---- what a thread does after its event ---- */

/* Computes, without a call, until its peer has what only taking in gives: completions of sends that came meanwhile. */
static void compute_after_event(struct end *e)
{
	for (unsigned i = 1; i <= 50; i++) {
		unsigned n = sleep_for_receives(&e->line[0]);

		atomic_store(&board->flag, 2 * i - 1);
		await_flag(2 * i);
		while (n < 4)
			n += sleep_for_receives(&e->line[0]);
		while (n-- > 0)
			post_receive(&e->line[0]);
		meet();
	}
}

static void send_to_computing(struct end *e)
{
	for (unsigned i = 1; i <= 50; i++) {
		post_send(&e->line[0]);
		await_sent(&e->line[0]);
		await_flag(2 * i - 1);
		for (int n = 0; n < 3; n++) {
			post_send(&e->line[0]);
			await_sent(&e->line[0]);
		}
		atomic_store(&board->flag, 2 * i);
		meet();
	}
}

static void who_computes_is_served(void **state)
{
	run_pair(send_to_computing, compute_after_event, 1, false);
}

/* ---- how sleep ends ---- */

struct sleeper {
	struct line *line;
	pthread_t thread;
	_Atomic int result;	/* of ibv_get_cq_event; 1: not yet */
	_Atomic pid_t tid;
	int error;
};

static void *sleep_once(void *arg)
{
	struct sleeper *s = arg;
	struct ibv_cq *cq;
	void *context;
	int result;

	atomic_store(&s->tid, gettid());
	result = ibv_get_cq_event(s->line->channel, &cq, &context);
	s->error = errno;
	if (result == 0)
		ibv_ack_cq_events(cq, 1);
	atomic_store(&s->result, result);
	return NULL;
}

static struct sleeper *start(struct line *l, void *(*how)(void *))
{
	struct sleeper *s = calloc(1, sizeof(*s));

	must(s, "calloc");
	s->line = l;
	s->result = 1;
	must(pthread_create(&s->thread, NULL, how, s) == 0, "pthread_create");
	return s;
}

static struct sleeper *fall_asleep(struct line *l)
{
	return start(l, sleep_once);
}

static void on_signal(int number)
{
}

/* Signals it until that ends its sleep, which may not have begun yet. */
static void interrupt(struct sleeper *s)
{
	while (atomic_load(&s->result) == 1) {
		pthread_kill(s->thread, SIGUSR1);
		sched_yield();
	}
	pthread_join(s->thread, NULL);
	must(s->result == -1 && s->error == EINTR, "a signal does not end the sleep");
	free(s);
}

static void answer(struct end *e)
{
	struct line *l = &e->line[0];

	for (;;) {
		for (unsigned n = sleep_for_receives(l); n > 0; n--) {
			post_receive(l);
			post_send(l);
			await_sent(l);
		}
	}
}

/* A message and its answer, asleep. */
static void ask_once(struct line *l)
{
	post_send(l);
	sleep_for_receives(l);
	post_receive(l);
	await_sent(l);
}

/* On channels without a CQ: messages wake such a sleeper in vain. */
static struct ibv_comp_channel *idle_channel(struct end *e)
{
	struct ibv_comp_channel *channel = ibv_create_comp_channel(e->ctx);

	must(channel, "ibv_create_comp_channel");
	return channel;
}

static void signals(struct end *e)
{
	struct sigaction plain = { .sa_handler = on_signal }, restarting = { .sa_handler = on_signal, .sa_flags = SA_RESTART };
	struct line *l = &e->line[0], idle = { .end = e, .channel = idle_channel(e) };

	sigaction(SIGUSR1, &plain, NULL);
	sigaction(SIGUSR2, &restarting, NULL);
	for (int i = 0; i < SIGNALS; i++) {
		struct sleeper *s = fall_asleep(&idle);

		ask_once(l);
		interrupt(s);
		s = fall_asleep(l);
		for (int n = 0; n < i % 8; n++) {
			pthread_kill(s->thread, SIGUSR2);
			sched_yield();
		}
		post_send(l);
		pthread_join(s->thread, NULL);
		must(s->result == 0, "a signal that restarts calls ended the sleep");
		free(s);
		must(ibv_req_notify_cq(l->recv, 0) == 0, "ibv_req_notify_cq");
		if (reap(l->recv, IBV_WC_SUCCESS) == 0)
			sleep_for_receives(l);
		post_receive(l);
		await_sent(l);
	}
}

static void cancels(struct end *e)
{
	struct line idle = { .end = e, .channel = idle_channel(e) };

	for (int i = 0; i < CANCELS; i++) {
		struct sleeper *s = fall_asleep(&idle);
		void *result;

		if (i % 2)
			ask_once(&e->line[0]);
		pthread_cancel(s->thread);
		pthread_join(s->thread, &result);
		must(result == PTHREAD_CANCELED, "a thread is not cancelled in its sleep");
		free(s);
		ask_once(&e->line[0]);
	}
}

/* Is the thread in a read or in a wait on shared memory? */
static bool is_asleep(pid_t tid)
{
	char path[64];
	long number, args[2];
	FILE *f;
	int n;

	snprintf(path, sizeof(path), "/proc/self/task/%d/syscall", (int)tid);
	f = fopen(path, "r");
	must(f, path);
	n = fscanf(f, "%ld %lx %lx", &number, (unsigned long *)&args[0], (unsigned long *)&args[1]);
	fclose(f);
	return n == 3 && (number == SYS_read || (number == SYS_futex && args[1] == FUTEX_WAIT));
}

static void await_sleep(struct sleeper *s)
{
	pid_t tid;

	while (!(tid = atomic_load(&s->tid)) || !is_asleep(tid))
		sched_yield();
}

static sigjmp_buf before_sleep;

static void jump_out(int number)
{
	siglongjmp(before_sleep, 1);
}

static void *sleep_and_jump(void *arg)
{
	struct sleeper *s = arg;
	struct ibv_cq *cq;
	void *context;

	if (sigsetjmp(before_sleep, 1) == 0) {
		atomic_store(&s->tid, gettid());
		ibv_get_cq_event(s->line->channel, &cq, &context);
	}
	pthread_exit(NULL);
}

/* A handler leaves the sleep for good; then the thread ends. */
static void jumps(struct end *e)
{
	struct sigaction action = { .sa_handler = jump_out };
	struct line idle = { .end = e, .channel = idle_channel(e) };

	sigaction(SIGUSR1, &action, NULL);
	for (int i = 0; i < CANCELS; i++) {
		struct sleeper *s = start(&idle, sleep_and_jump);

		await_sleep(s);
		pthread_kill(s->thread, SIGUSR1);
		pthread_join(s->thread, NULL);
		free(s);
		ask_once(&e->line[0]);
	}
}

static void *arm_cancelled(void *arg)
{
	struct line *l = arg;

	pthread_cancel(pthread_self());
	must(ibv_req_notify_cq(l->recv, 0) == 0, "ibv_req_notify_cq");
	return NULL;
}

/* To arm a CQ that is not empty raises an event, which is no place to be cancelled at. */
static void arms(struct end *e)
{
	struct line *l = &e->line[0];

	for (int i = 0; i < CANCELS; i++) {
		unsigned sent = 0, received = 0;
		pthread_t thread;
		void *result;

		post_send(l);
		await_event(l);
		post_send(l);
		for (; sent < 2; sent += reap(l->send, IBV_WC_SUCCESS))
			sched_yield();
		must(pthread_create(&thread, NULL, arm_cancelled, l) == 0, "pthread_create");
		pthread_join(thread, &result);
		must(result == NULL, "a thread was cancelled where verbs have no cancellation point");
		for (; received < 2; received += reap(l->recv, IBV_WC_SUCCESS))
			sched_yield();
		post_receive(l);
		post_receive(l);
	}
}

/* Others go on when the channel of one that sleeps is destroyed. */
static void destroys(struct end *e)
{
	for (int i = 0; i < CANCELS; i++) {
		struct line idle = { .end = e, .channel = idle_channel(e) };
		struct sleeper *s = fall_asleep(&idle);

		await_sleep(s);
		must(ibv_destroy_comp_channel(idle.channel) == 0, "ibv_destroy_comp_channel");
		ask_once(&e->line[0]);
		must(atomic_load(&s->result) == 1, "the end of a channel ended a sleep");
	}
}

static void does_not_block(struct end *e)
{
	struct line *l = &e->line[0];
	struct pollfd p = { .fd = l->channel->fd, .events = POLLIN };
	struct ibv_cq *cq;
	void *context;

	must(fcntl(p.fd, F_SETFL, O_NONBLOCK) == 0, "fcntl");
	for (int i = 0; i < ROUNDS; i++) {
		while (ibv_get_cq_event(l->channel, &cq, &context) == 0)
			ibv_ack_cq_events(cq, 1);
		must(errno == EAGAIN, "a channel that must not block");
		must(ibv_req_notify_cq(l->recv, 0) == 0, "ibv_req_notify_cq");
		post_send(l);
		while (reap(l->recv, IBV_WC_SUCCESS) == 0)
			must(poll(&p, 1, -1) == 1, "poll");
		post_receive(l);
		await_sent(l);
	}
}

static void signals_end_sleep_or_do_not(void **state)
{
	run_pair(signals, answer, 1, false);
}

static void cancelled_sleepers_leave_others_awake(void **state)
{
	run_pair(cancels, answer, 1, false);
}

static void jumps_out_of_sleep_leave_others_awake(void **state)
{
	run_pair(jumps, answer, 1, false);
}

static void arming_is_no_cancellation_point(void **state)
{
	run_pair(arms, answer, 1, false);
}

static void destroyed_channels_leave_others_awake(void **state)
{
	run_pair(destroys, answer, 1, false);
}

static void poll_and_no_blocking(void **state)
{
	run_pair(does_not_block, answer, 1, false);
}

/* The peer dies: what a sleeper waits for comes by timers alone. */
static void outlives(struct end *e)
{
	struct line *l = &e->line[0];

	ask_once(l);
	must(ibv_req_notify_cq(l->send, 0) == 0, "ibv_req_notify_cq");
	atomic_store(&board->flag, 1);
	do {
		post_send(l);
		await_event(l);
		must(ibv_req_notify_cq(l->recv, 0) == 0 && ibv_req_notify_cq(l->send, 0) == 0, "ibv_req_notify_cq");
	} while (!failed(l->send));
}

static void dies(struct end *e)
{
	struct line *l = &e->line[0];

	sleep_for_receives(l);
	post_receive(l);
	post_send(l);
	await_flag(1);
	raise(SIGKILL);
}

static void a_dead_peer_is_noticed_asleep(void **state)
{
	run_pair(outlives, dies, 1, false);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(ping_pong_asleep),
		cmocka_unit_test(threads_with_a_channel_each),
		cmocka_unit_test(threads_that_share_a_channel),
		cmocka_unit_test(who_computes_is_served),
		cmocka_unit_test(signals_end_sleep_or_do_not),
		cmocka_unit_test(cancelled_sleepers_leave_others_awake),
		cmocka_unit_test(jumps_out_of_sleep_leave_others_awake),
		cmocka_unit_test(arming_is_no_cancellation_point),
		cmocka_unit_test(destroyed_channels_leave_others_awake),
		cmocka_unit_test(poll_and_no_blocking),
		cmocka_unit_test(a_dead_peer_is_noticed_asleep),
	};

	board = mmap(NULL, sizeof(*board), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	return board == MAP_FAILED ? 1 : cmocka_run_group_tests(tests, NULL, NULL);
}
