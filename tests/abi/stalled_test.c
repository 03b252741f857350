/* While weftd is stopped, threads that need something of it wait, and the data of the others goes on: a ping-pong with an
 * established peer, beside joining a group, making QPs that need new numbers, the first send to a new peer and the registration
 * of shared memory. Runs with a weftd of its own (e2e/with_weftd.sh). */
#include "../weftd_pid.h"
#include "rc.h"

#include <fcntl.h>
#include <infiniband/verbs.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

enum {
	PAGE = 4096, PEERS = 2, MANY = 4000,
	STOPPED_MS = 3000, LONGEST_MS = 2000,	/* the machine may be busy; weftd is away for longer */
};

struct card {
	uint32_t qpn;
	uint16_t lid;
};

struct end {
	struct ibv_context *ctx;
	struct ibv_pd *pd;
	struct ibv_cq *cq;
	struct ibv_qp *qp;
	struct ibv_mr *mr;
	char *memory;
	int sends, receives;	/* awaited; below 0: done before they were */
};

static void require(bool good, const char *what)
{
	if (good)
		return;
	fprintf(stderr, "stalled_test[%d]: %s\n", (int)getpid(), what);
	exit(1);
}

static struct ibv_qp *qp_new(struct end *e, enum ibv_qp_type type)
{
	struct ibv_qp_init_attr init = { .send_cq = e->cq, .recv_cq = e->cq, .cap = { 4, 4, 1, 1, 0 }, .qp_type = type };

	return ibv_create_qp(e->pd, &init);
}

static struct end end_open(void)
{
	struct end e = { .ctx = device_open(0) };

	require(e.ctx, "no device");
	e.pd = ibv_alloc_pd(e.ctx);
	e.cq = ibv_create_cq(e.ctx, 64, NULL, NULL, 0);
	e.memory = aligned_alloc(PAGE, PAGE);
	e.mr = ibv_reg_mr(e.pd, e.memory, PAGE, IBV_ACCESS_LOCAL_WRITE);
	e.qp = qp_new(&e, IBV_QPT_RC);
	require(e.mr && e.qp, "no objects");
	return e;
}

static struct card card_of(const struct end *e)
{
	struct ibv_port_attr port;

	ibv_query_port(e->ctx, 1, &port);
	return (struct card){ e->qp->qp_num, port.lid };
}

static void connect_to(const struct end *e, const struct card *peer)
{
	struct ibv_qp_attr attr = {
		.dest_qp_num = peer->qpn, .timeout = 14, .retry_cnt = 7, .rnr_retry = 7, .ah_attr = { .dlid = peer->lid },
		.min_rnr_timer = 1, .max_rd_atomic = 1, .max_dest_rd_atomic = 1,
	};

	require(rc_connect(e->qp, attr) == 0, "not connected");
}

static void post_receive(struct end *e)
{
	struct ibv_sge sge = { (uintptr_t)e->memory, 64, e->mr->lkey };
	struct ibv_recv_wr *bad, wr = { .sg_list = &sge, .num_sge = 1 };

	require(ibv_post_recv(e->qp, &wr, &bad) == 0, "no receive");
}

static void post_send(struct end *e)
{
	struct ibv_sge sge = { (uintptr_t)e->memory + 64, 64, e->mr->lkey };
	struct ibv_send_wr *bad, wr = { .sg_list = &sge, .num_sge = 1, .opcode = IBV_WR_SEND, .send_flags = IBV_SEND_SIGNALED };

	require(ibv_post_send(e->qp, &wr, &bad) == 0, "no send");
}

/* Until so many more sends and receives are done. The peer's next message may complete before our last one does. */
static void await(struct end *e, int sends, int receives)
{
	struct ibv_wc wc;

	e->sends += sends;
	e->receives += receives;
	while (e->sends > 0 || e->receives > 0) {
		if (ibv_poll_cq(e->cq, 1, &wc) == 0)
			continue;
		require(wc.status == IBV_WC_SUCCESS, ibv_wc_status_str(wc.status));
		*(wc.opcode & IBV_WC_RECV ? &e->receives : &e->sends) -= 1;
	}
}

/* Answers each message, for ever. */
static void be_peer(int socket)
{
	struct end e = end_open();
	struct card own = card_of(&e), peer;

	require(write(socket, &own, sizeof(own)) == sizeof(own) && read(socket, &peer, sizeof(peer)) == sizeof(peer), "alone");
	connect_to(&e, &peer);
	post_receive(&e);
	require(write(socket, &own, 1) == 1, "alone");
	for (;;) {
		await(&e, 0, 1);
		post_receive(&e);
		post_send(&e);
		await(&e, 1, 0);
	}
}

static struct { pid_t pid; int socket; } peer[PEERS];

static void start_peers(void)
{
	for (int i = 0; i < PEERS; i++) {
		int pair[2];

		require(socketpair(AF_UNIX, SOCK_STREAM, 0, pair) == 0, "socketpair");
		peer[i].pid = fork();
		if (peer[i].pid == 0) {
			close(pair[0]);
			be_peer(pair[1]);
		}
		close(pair[1]);
		peer[i].socket = pair[0];
	}
}

static struct end connect_to_peer(int i)
{
	struct end e = end_open();
	struct card own = card_of(&e), theirs;
	char done;

	assert_int_equal(read(peer[i].socket, &theirs, sizeof(theirs)), sizeof(theirs));
	assert_int_equal(write(peer[i].socket, &own, sizeof(own)), sizeof(own));
	connect_to(&e, &theirs);
	assert_int_equal(read(peer[i].socket, &done, 1), 1);
	return e;
}

static long now_ms(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return t.tv_sec * 1000 + t.tv_nsec / 1000000;
}

/* ---- what waits for weftd ---- */

static struct end pinger, stranger, many;
static struct ibv_qp *member, *made[MANY];

static void *join_a_group(void *arg)
{
	union ibv_gid group = { .raw = { 0xff, 0x12, [15] = 9 } };

	assert_int_equal(ibv_attach_mcast(member, &group, 0xc009), 0);
	return arg;
}

static void *make_many(void *arg)
{
	for (unsigned i = 0; i < MANY; i++)
		assert_non_null(made[i] = qp_new(&many, IBV_QPT_UD));
	return arg;
}

static void *send_to_a_new_peer(void *arg)
{
	post_receive(&stranger);
	post_send(&stranger);
	await(&stranger, 1, 1);
	return arg;
}

static void *register_shared_memory(void *arg)
{
	int fd = memfd_create("shared", MFD_ALLOW_SEALING);
	char *memory;

	assert_int_equal(ftruncate(fd, 16 * PAGE), 0);
	fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW);
	memory = mmap(NULL, 16 * PAGE, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	memset(memory, 1, 16 * PAGE);
	assert_non_null(ibv_reg_mr(pinger.pd, memory, 16 * PAGE, IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE));
	return arg;
}

/* Rounds for so long; the longest of them. */
static long ping_pong(long ms)
{
	long start = now_ms(), longest = 0;

	for (long before = start, now; before - start < ms; before = now) {
		post_receive(&pinger);
		post_send(&pinger);
		await(&pinger, 1, 1);
		now = now_ms();
		if (now - before > longest)
			longest = now - before;
	}
	return longest;
}

static void data_goes_on_while_weftd_is_stopped(void **state)
{
	static void *(*const jobs[])(void *) = { join_a_group, make_many, send_to_a_new_peer, register_shared_memory };
	enum { JOBS = sizeof(jobs) / sizeof(jobs[0]) };
	pthread_t thread[JOBS];
	pid_t weftd = weftd_pid();
	long longest;

	assert_true(weftd > 0);
	pinger = connect_to_peer(0);
	stranger = connect_to_peer(1);
	many = end_open();
	member = qp_new(&many, IBV_QPT_UD);
	ping_pong(100);
	kill(weftd, SIGSTOP);
	for (unsigned i = 0; i < JOBS; i++)
		assert_int_equal(pthread_create(&thread[i], NULL, jobs[i], NULL), 0);
	longest = ping_pong(STOPPED_MS);
	kill(weftd, SIGCONT);
	for (unsigned i = 0; i < JOBS; i++)
		pthread_join(thread[i], NULL);
	printf("the longest round took %ld ms\n", longest);
	assert_in_range(longest, 0, LONGEST_MS);
}

int main(void)
{
	const struct CMUnitTest tests[] = { cmocka_unit_test(data_goes_on_while_weftd_is_stopped) };
	int failed;

	start_peers();	/* before this process has a device */
	failed = cmocka_run_group_tests(tests, NULL, NULL);
	for (int i = 0; i < PEERS; i++) {
		kill(peer[i].pid, SIGKILL);
		waitpid(peer[i].pid, NULL, 0);
	}
	return failed;
}
