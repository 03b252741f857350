/* The least a verbs program does: one RC connection between two pinned processes, no options, no checks in the loop.
 * `verbs WHAT SIZE ROUNDS CPU_A CPU_B` prints `result` with microseconds (half a round trip; of `register` the whole), GB/s
 * or millions a second. It uses the first device that has a LID, and libibverbs as any program does. */
#include "stopwatch.h"

#include <infiniband/verbs.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

enum { DEPTH = 256, SIGNAL_EVERY = 32, PORT = 1, PAGE = 4096 };

struct address {
	uint64_t va;
	uint32_t qpn, rkey;
	uint16_t lid;
};

static struct ibv_context *context;
static struct ibv_pd *pd;
static struct ibv_comp_channel *channel;
static struct ibv_cq *send_cq, *recv_cq;
static struct ibv_qp *qp;
static struct ibv_mr *mr;
static uint8_t *in, *out;	/* one after the other in one region */
static size_t size;
static unsigned rounds;
static int me, link_fd;
static bool sleeps;
static struct address peer;

static void check(int err, const char *what)
{
	if (err)
		die(what);
}

static void open_device(void)
{
	struct ibv_device **list = ibv_get_device_list(NULL);
	struct ibv_port_attr port;

	for (int i = 0; list && list[i]; i++) {
		context = ibv_open_device(list[i]);
		if (context && ibv_query_port(context, PORT, &port) == 0 && port.lid)
			break;
		if (context)
			ibv_close_device(context);
		context = NULL;
	}
	if (!context)
		die("no InfiniBand device");
	ibv_free_device_list(list);
	pd = ibv_alloc_pd(context);
	check(!pd, "ibv_alloc_pd");
}

static void make_queues(void)
{
	struct ibv_qp_init_attr init = { .qp_type = IBV_QPT_RC,
		.cap = { .max_send_wr = DEPTH, .max_recv_wr = DEPTH, .max_send_sge = 1, .max_recv_sge = 1 } };

	channel = ibv_create_comp_channel(context);
	send_cq = ibv_create_cq(context, DEPTH, NULL, NULL, 0);
	recv_cq = ibv_create_cq(context, DEPTH, NULL, channel, 0);
	check(!channel || !send_cq || !recv_cq, "ibv_create_cq");
	init.send_cq = send_cq;
	init.recv_cq = recv_cq;
	qp = ibv_create_qp(pd, &init);
	check(!qp, "ibv_create_qp");
}

static void make_memory(void)
{
	in = aligned_alloc(PAGE, (2 * size + PAGE - 1) / PAGE * PAGE);
	check(!in, "memory");
	memset(in, 0, 2 * size);
	out = in + size;
	mr = ibv_reg_mr(pd, in, 2 * size, IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE);
	check(!mr, "ibv_reg_mr");
}

static void connect_qp(void)
{
	struct ibv_port_attr port;
	struct ibv_qp_attr a = { .qp_state = IBV_QPS_INIT, .port_num = PORT, .qp_access_flags = IBV_ACCESS_REMOTE_WRITE };
	struct address mine = { .va = (uintptr_t)in, .qpn = qp->qp_num, .rkey = mr->rkey };

	check(ibv_query_port(context, PORT, &port), "ibv_query_port");
	mine.lid = port.lid;
	check(write(link_fd, &mine, sizeof(mine)) != sizeof(mine), "exchange");
	check(read(link_fd, &peer, sizeof(peer)) != sizeof(peer), "exchange");
	check(ibv_modify_qp(qp, &a, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS), "INIT");
	a = (struct ibv_qp_attr){ .qp_state = IBV_QPS_RTR, .path_mtu = port.active_mtu, .dest_qp_num = peer.qpn,
		.max_dest_rd_atomic = 1, .min_rnr_timer = 1, .ah_attr = { .dlid = peer.lid, .port_num = PORT } };
	check(ibv_modify_qp(qp, &a, IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN |
		IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER), "RTR");
	a = (struct ibv_qp_attr){ .qp_state = IBV_QPS_RTS, .timeout = 14, .retry_cnt = 7, .rnr_retry = 7, .max_rd_atomic = 1 };
	check(ibv_modify_qp(qp, &a, IBV_QP_STATE | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY | IBV_QP_SQ_PSN |
		IBV_QP_MAX_QP_RD_ATOMIC), "RTS");
}

static void post_receive(void)
{
	struct ibv_sge sge = { (uintptr_t)in, (uint32_t)size, mr->lkey };
	struct ibv_recv_wr wr = { .sg_list = &sge, .num_sge = 1 }, *bad;

	check(ibv_post_recv(qp, &wr, &bad), "ibv_post_recv");
}

static void post(enum ibv_wr_opcode opcode, bool is_signaled)
{
	struct ibv_sge sge = { (uintptr_t)out, (uint32_t)size, mr->lkey };
	struct ibv_send_wr wr = { .sg_list = &sge, .num_sge = 1, .opcode = opcode, .wr.rdma = { peer.va, peer.rkey },
		.send_flags = is_signaled ? IBV_SEND_SIGNALED : 0 }, *bad;

	check(ibv_post_send(qp, &wr, &bad), "ibv_post_send");
}

/* Waits for one completion at least; how many there were. */
static int complete(struct ibv_cq *cq)
{
	struct ibv_wc wc[16];
	unsigned turns = 0;
	int n;

	while ((n = ibv_poll_cq(cq, 16, wc)) == 0)
		stay_fair(&turns);
	for (int i = 0; i < n; i++)
		check(wc[i].status, ibv_wc_status_str(wc[i].status));
	check(n < 0, "ibv_poll_cq");
	return n;
}

/* The same asleep. The queue was armed before the request which this completion answers was made. */
static void complete_asleep(struct ibv_cq *cq)
{
	struct ibv_cq *which;
	void *its_context;

	check(ibv_get_cq_event(channel, &which, &its_context), "ibv_get_cq_event");
	ibv_ack_cq_events(which, 1);
	check(ibv_req_notify_cq(cq, 0), "ibv_req_notify_cq");
	complete(cq);
}

static void receive(void)
{
	if (sleeps)
		complete_asleep(recv_cq);
	else
		complete(recv_cq);
	post_receive();
}

/* The completion of a send is taken once its answer, or the next message, is there: by then nobody waits for it. */
static void send_latency(void)
{
	struct stopwatch w;

	stopwatch_init(&w, rounds);
	for (unsigned i = 0; i < w.rounds; i++) {
		if (me == 0)
			post(IBV_WR_SEND, true);
		receive();
		if (me == 0 || i > 0)
			complete(send_cq);
		if (me == 1)
			post(IBV_WR_SEND, true);
		stopwatch_round(&w);
	}
	if (me == 0)
		print_result(stopwatch_median(&w) / 2 / 1000);
	stopwatch_fini(&w);
}

static void wait_in(uint8_t value)
{
	unsigned turns = 0;

	while (__atomic_load_n(in + size - 1, __ATOMIC_ACQUIRE) != value)
		relax(&turns);
}

static void write_message(uint8_t value)
{
	out[size - 1] = value;
	post(IBV_WR_RDMA_WRITE, true);
	complete(send_cq);
}

/* The receiver looks at its memory alone; each write is completed before the next. */
static void write_latency(void)
{
	struct stopwatch w;

	stopwatch_init(&w, rounds);
	for (unsigned i = 1; i <= w.rounds; i++) {
		if (me == 0)
			write_message((uint8_t)i);
		wait_in((uint8_t)i);
		if (me == 1)
			write_message((uint8_t)i);
		stopwatch_round(&w);
	}
	if (me == 0)
		print_result(stopwatch_median(&w) / 2 / 1000);
	stopwatch_fini(&w);
}

/* As many as the queue holds, every 32nd signaled. Nanoseconds for one. */
static double stream(enum ibv_wr_opcode opcode)
{
	unsigned left = DEPTH / SIGNAL_EVERY;	/* groups that may be begun */
	struct stopwatch w;
	double ns;

	stopwatch_init(&w, (rounds + SIGNAL_EVERY - 1) / SIGNAL_EVERY);
	for (unsigned i = 0; i < w.rounds; i++) {
		if (left == 0)
			left += (unsigned)complete(send_cq);
		left--;
		for (int j = 1; j <= SIGNAL_EVERY; j++)
			post(opcode, j == SIGNAL_EVERY);
		stopwatch_round(&w);
	}
	for (; left < DEPTH / SIGNAL_EVERY; left += (unsigned)complete(send_cq))
		;
	ns = stopwatch_median(&w) / SIGNAL_EVERY;
	stopwatch_fini(&w);
	return ns;
}

static void receive_stream(void)
{
	struct stopwatch w;
	unsigned long messages;

	stopwatch_init(&w, (rounds + SIGNAL_EVERY - 1) / SIGNAL_EVERY);
	messages = (unsigned long)w.rounds * SIGNAL_EVERY;
	stopwatch_fini(&w);
	while (messages > 0) {
		for (int n = complete(recv_cq); n > 0; n--, messages--)
			post_receive();
	}
}

static void send_rate(void)
{
	if (me == 0)
		print_result(1000 / stream(IBV_WR_SEND));
	else
		receive_stream();
}

static void write_bandwidth(void)
{
	if (me == 0)
		print_result((double)size / stream(IBV_WR_RDMA_WRITE));
}

static void run_connection(void (*loop)(void))
{
	char done = 0;

	open_device();
	make_queues();
	make_memory();
	check(ibv_req_notify_cq(recv_cq, 0), "ibv_req_notify_cq");
	connect_qp();
	for (int i = 0; i < DEPTH; i++)
		post_receive();
	check(write(link_fd, &done, 1) != 1 || read(link_fd, &done, 1) != 1, "start");
	loop();
	check(write(link_fd, &done, 1) != 1 || read(link_fd, &done, 1) != 1, "end");
}

static void sleep_latency(void)
{
	sleeps = true;
	send_latency();
}

/* Registers and deregisters memory that is there. */
static void register_memory(void)
{
	struct stopwatch w;
	void *memory;

	if (me == 1)
		return;
	open_device();
	memory = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);
	check(memory == MAP_FAILED, "memory");
	stopwatch_init(&w, rounds);
	for (unsigned i = 0; i < w.rounds; i++) {
		mr = ibv_reg_mr(pd, memory, size, IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ);
		check(!mr, "ibv_reg_mr");
		check(ibv_dereg_mr(mr), "ibv_dereg_mr");
		stopwatch_round(&w);
	}
	print_result(stopwatch_median(&w) / 1000);
	stopwatch_fini(&w);
}

static const struct {
	const char *name;
	void (*loop)(void);
} loops[] = {
	{ "send-latency", send_latency },
	{ "write-latency", write_latency },
	{ "send-rate", send_rate },
	{ "write-bandwidth", write_bandwidth },
	{ "event-latency", sleep_latency },
	{ "register", NULL },
};

static int run(void (*loop)(void), const int cpu[2])
{
	int ends[2], status = 0;
	pid_t child;

	check(socketpair(AF_UNIX, SOCK_STREAM, 0, ends), "socketpair");
	child = fork();
	check(child < 0, "fork");
	me = child == 0;
	if (me == 1)
		prctl(PR_SET_PDEATHSIG, SIGKILL);
	link_fd = ends[me];
	close(ends[!me]);
	pin(cpu[me]);
	if (loop)
		run_connection(loop);
	else
		register_memory();
	if (me == 1)
		return 0;
	check(waitpid(child, &status, 0) != child, "waitpid");
	return status != 0;
}

int main(int argc, char **argv)
{
	if (argc != 6) {
		fprintf(stderr, "usage: verbs WHAT SIZE ROUNDS CPU_A CPU_B\n");
		return 2;
	}
	size = strtoull(argv[2], NULL, 0);
	rounds = (unsigned)strtoul(argv[3], NULL, 0);
	for (size_t i = 0; i < sizeof(loops) / sizeof(loops[0]); i++)
		if (strcmp(loops[i].name, argv[1]) == 0 && rounds > 0 && size > 0)
			return run(loops[i].loop, (int[]){ atoi(argv[4]), atoi(argv[5]) });
	fprintf(stderr, "verbs: there is no '%s'\n", argv[1]);
	return 2;
}
