/* The least a verbs program does: RC connections between two processes, no options, no checks in the loop.
 * `verbs WHAT SIZE ROUNDS CPU_A CPU_B`, or the same with HOST PORT where `verbs WHAT SIZE ROUNDS listen PORT` runs, prints
 * `result` with microseconds (half a round trip; of `register` the whole), GB/s or millions a second. Of `send-qps` and
 * `write-peers` SIZE is how many there are, of messages of 8 bytes. It uses the first device that has a LID, or the address by
 * which HOST is reached, and libibverbs as any program does. */
#include "ends.h"
#include "stopwatch.h"

#include <infiniband/verbs.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

enum { DEPTH = 256, SIGNAL_EVERY = 32, PORT = 1, PAGE = 4096, MOST_QPS = 1000, MOST_PEERS = 32, POLLED = 16, SHORT = 8,
       FEW = 32 };

struct address {
	uint64_t va;
	union ibv_gid gid;
	uint32_t rkey, qpn[MOST_QPS];
	uint16_t lid;
};

static struct ibv_context *context;
static struct ibv_pd *pd;
static struct ibv_comp_channel *channel;
static struct ibv_cq *send_cq, *recv_cq;
static struct ibv_qp *qp[MOST_QPS];
static unsigned qps = 1, depth = DEPTH, receives = DEPTH;	/* the last two of each */
static int gid_index = -1;	/* -1: the device has LIDs */
static struct ibv_mr *mr;
static uint8_t *in, *out;	/* one after the other in one region */
static size_t size;
static unsigned rounds;
static struct ends ends;
static int me;
static bool sleeps, adds;
static struct address peer;

static int rights(void)
{
	return IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | (adds ? IBV_ACCESS_REMOTE_ATOMIC : 0);
}

static void check(int err, const char *what)
{
	if (err)
		die(what);
}

/* The GID of the address that the two ends talk by. */
static int find_gid(const struct ibv_port_attr *port)
{
	uint8_t wanted[16] = { [10] = 0xff, [11] = 0xff };
	struct ibv_gid_entry entry;
	struct sockaddr_in here;
	socklen_t bytes = sizeof(here);

	check(getsockname(ends.link_fd, (struct sockaddr *)&here, &bytes), "getsockname");
	memcpy(wanted + 12, &here.sin_addr, 4);
	for (int i = 0; i < port->gid_tbl_len; i++)
		if (ibv_query_gid_ex(context, PORT, (uint32_t)i, &entry, 0) == 0 && entry.gid_type == IBV_GID_TYPE_ROCE_V2 &&
		    memcmp(entry.gid.raw, wanted, 16) == 0)
			return i;
	return -1;
}

static void open_device(void)
{
	struct ibv_device **list = ibv_get_device_list(NULL);
	struct ibv_port_attr port;

	for (int i = 0; list && list[i]; i++) {
		context = ibv_open_device(list[i]);
		if (context && ibv_query_port(context, PORT, &port) == 0) {
			gid_index = ends.is_wire ? find_gid(&port) : -1;
			if (ends.is_wire ? gid_index >= 0 : port.lid)
				break;
		}
		if (context)
			ibv_close_device(context);
		context = NULL;
	}
	if (!context)
		die(ends.is_wire ? "no device has the address" : "no InfiniBand device");
	ibv_free_device_list(list);
	pd = ibv_alloc_pd(context);
	check(!pd, "ibv_alloc_pd");
}

static void make_queues(void)
{
	struct ibv_qp_init_attr init = { .qp_type = IBV_QPT_RC,
		.cap = { .max_send_wr = depth, .max_recv_wr = receives ? receives : 1, .max_send_sge = 1, .max_recv_sge = 1 } };

	channel = ibv_create_comp_channel(context);
	send_cq = ibv_create_cq(context, (int)(depth * qps), NULL, NULL, 0);
	recv_cq = ibv_create_cq(context, (int)(receives ? receives * qps : 1), NULL, channel, 0);
	check(!channel || !send_cq || !recv_cq, "ibv_create_cq");
	init.send_cq = send_cq;
	init.recv_cq = recv_cq;
	for (unsigned i = 0; i < qps; i++) {
		qp[i] = ibv_create_qp(pd, &init);
		check(!qp[i], "ibv_create_qp");
	}
}

static void make_memory(void)
{
	in = aligned_alloc(PAGE, (2 * size + PAGE - 1) / PAGE * PAGE);
	check(!in, "memory");
	memset(in, 0, 2 * size);
	out = in + size;
	mr = ibv_reg_mr(pd, in, 2 * size, rights());
	check(!mr, "ibv_reg_mr");
}

/* first: the QP of ours that the other end's first has. */
static void exchange(const struct ibv_port_attr *port, unsigned first)
{
	static struct address mine;

	mine.va = (uintptr_t)in;
	mine.rkey = mr->rkey;
	mine.lid = port->lid;
	for (unsigned i = first; i < qps; i++)
		mine.qpn[i - first] = qp[i]->qp_num;
	if (gid_index >= 0)
		check(ibv_query_gid(context, PORT, gid_index, &mine.gid), "ibv_query_gid");
	check(write(ends.link_fd, &mine, sizeof(mine)) != sizeof(mine), "exchange");
	check(recv(ends.link_fd, &peer, sizeof(peer), MSG_WAITALL) != sizeof(peer), "exchange");
}

static void connect_qp(struct ibv_qp *own, uint32_t to, const struct ibv_port_attr *port)
{
	struct ibv_qp_attr a = { .qp_state = IBV_QPS_INIT, .port_num = PORT, .qp_access_flags = (unsigned)rights() };

	check(ibv_modify_qp(own, &a, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS), "INIT");
	a = (struct ibv_qp_attr){ .qp_state = IBV_QPS_RTR, .path_mtu = port->active_mtu, .dest_qp_num = to,
		.max_dest_rd_atomic = 1, .min_rnr_timer = 1, .ah_attr = { .dlid = peer.lid, .port_num = PORT } };
	if (gid_index >= 0) {
		a.ah_attr.is_global = 1;
		a.ah_attr.grh = (struct ibv_global_route){ .dgid = peer.gid, .sgid_index = (uint8_t)gid_index, .hop_limit = 64 };
	}
	check(ibv_modify_qp(own, &a, IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN |
		IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER), "RTR");
	a = (struct ibv_qp_attr){ .qp_state = IBV_QPS_RTS, .timeout = 14, .retry_cnt = 7, .rnr_retry = 7, .max_rd_atomic = 1 };
	check(ibv_modify_qp(own, &a, IBV_QP_STATE | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY | IBV_QP_SQ_PSN |
		IBV_QP_MAX_QP_RD_ATOMIC), "RTS");
}

static void post_receive_by(unsigned which)
{
	struct ibv_sge sge = { (uintptr_t)in, (uint32_t)size, mr->lkey };
	struct ibv_recv_wr wr = { .wr_id = which, .sg_list = &sge, .num_sge = 1 }, *bad;

	check(ibv_post_recv(qp[which], &wr, &bad), "ibv_post_recv");
}

static void post_receive(void)
{
	post_receive_by(0);
}

static void post_by(unsigned which, enum ibv_wr_opcode opcode, bool is_signaled)
{
	struct ibv_sge sge = { (uintptr_t)out, (uint32_t)size, mr->lkey };
	struct ibv_send_wr wr = { .wr_id = which, .sg_list = &sge, .num_sge = 1, .opcode = opcode,
		.wr.rdma = { peer.va, peer.rkey },
		.send_flags = is_signaled ? IBV_SEND_SIGNALED : 0 }, *bad;

	check(ibv_post_send(qp[which], &wr, &bad), "ibv_post_send");
}

static void post(enum ibv_wr_opcode opcode, bool is_signaled)
{
	post_by(0, opcode, is_signaled);
}

/* Waits for one completion at least; how many there were. */
static int poll(struct ibv_cq *cq, struct ibv_wc wc[POLLED])
{
	unsigned turns = 0;
	int n;

	while ((n = ibv_poll_cq(cq, POLLED, wc)) == 0)
		stay_fair(&turns);
	for (int i = 0; i < n; i++)
		check(wc[i].status, ibv_wc_status_str(wc[i].status));
	check(n < 0, "ibv_poll_cq");
	return n;
}

static int complete(struct ibv_cq *cq)
{
	struct ibv_wc wc[POLLED];

	return poll(cq, wc);
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

/* The result of a fetch-and-add lies in the line to which the other end adds next. */
static void post_add(void)
{
	struct ibv_sge sge = { (uintptr_t)out, SHORT, mr->lkey };
	struct ibv_send_wr wr = { .sg_list = &sge, .num_sge = 1, .opcode = IBV_WR_ATOMIC_FETCH_AND_ADD,
		.wr.atomic = { .remote_addr = peer.va, .compare_add = 1, .rkey = peer.rkey },
		.send_flags = IBV_SEND_SIGNALED }, *bad;

	check(ibv_post_send(qp[0], &wr, &bad), "ibv_post_send");
	complete(send_cq);
}

static void wait_for_sum(uint64_t value)
{
	unsigned turns = 0;

	while (__atomic_load_n((uint64_t *)(void *)in, __ATOMIC_ACQUIRE) != value)
		relax(&turns);
}

/* As write_latency, each end adding one to the other's word. */
static void add_latency(void)
{
	struct stopwatch w;

	stopwatch_init(&w, rounds);
	for (unsigned i = 1; i <= w.rounds; i++) {
		if (me == 0)
			post_add();
		wait_for_sum(i);
		if (me == 1)
			post_add();
		stopwatch_round(&w);
	}
	if (me == 0)
		print_result(stopwatch_median(&w) / 2 / 1000);
	stopwatch_fini(&w);
}

/* Of a stream, at the least so many that most of them wait for room in the queue: before it is full, a message costs its post. */
static unsigned groups(void)
{
	unsigned messages = rounds < 4 * DEPTH ? 4 * DEPTH : rounds;

	return (messages + SIGNAL_EVERY - 1) / SIGNAL_EVERY;
}

/* As many as the queue holds, every 32nd signaled. Nanoseconds for one. */
static double stream(enum ibv_wr_opcode opcode)
{
	unsigned left = DEPTH / SIGNAL_EVERY;	/* groups that may be begun */
	struct stopwatch w;
	double ns;

	stopwatch_init(&w, groups());
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

	stopwatch_init(&w, groups());
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

static void write_rate(void)
{
	if (me == 0)
		print_result(1000 / stream(IBV_WR_RDMA_WRITE));
}

static void write_bandwidth(void)
{
	if (me == 0)
		print_result((double)size / stream(IBV_WR_RDMA_WRITE));
}

/* Each QP has its share of requests under way, and another after each that is done. */
static void write_bandwidth_of_many(void)
{
	unsigned posted = 0, done = 0, all = qps * depth + rounds;
	struct ibv_wc wc[POLLED];
	uint64_t began = 0;

	if (me == 1)
		return;
	for (; posted < qps * depth; posted++)
		post_by(posted % qps, IBV_WR_RDMA_WRITE, true);
	while (done < all) {
		int n = poll(send_cq, wc);

		for (int i = 0; i < n; i++, posted++) {
			done++;
			began = done == qps * depth ? now_ns() : began;
			post_by((unsigned)wc[i].wr_id, IBV_WR_RDMA_WRITE, true);
		}
	}
	print_result((double)size * (done - qps * depth) / (double)(now_ns() - began));
	for (; done < posted; done += (unsigned)complete(send_cq))
		;
}

/* Over the QPs in turn, one of which may lag behind the others. The time of all but the first tenth. */
static void send_to_many(void)
{
	unsigned skipped = rounds / 10 + qps, all = rounds + skipped, posted = 0, done = 0;
	static unsigned under_way[MOST_QPS];
	struct ibv_wc wc[POLLED];
	uint64_t began = 0;

	while (done < all) {
		for (; posted < all && posted - done < DEPTH && under_way[posted % qps] < depth; posted++) {
			began = posted == skipped ? now_ns() : began;
			post_by(posted % qps, IBV_WR_SEND, true);
			under_way[posted % qps]++;
		}
		for (int n = poll(send_cq, wc); n > 0; n--, done++)
			under_way[wc[n - 1].wr_id]--;
	}
	print_result((double)(now_ns() - began) / rounds / 1000);
}

static void receive_of_many(void)
{
	struct ibv_wc wc[POLLED];

	for (unsigned left = rounds + rounds / 10 + qps; left > 0;) {
		int n = poll(recv_cq, wc);

		left -= (unsigned)n;
		for (int i = 0; i < n; i++)
			post_receive_by((unsigned)wc[i].wr_id);
	}
}

static void send_by_many(void)
{
	if (me == 0)
		send_to_many();
	else
		receive_of_many();
}

static void make_end(struct ibv_port_attr *port)
{
	open_device();
	make_queues();
	make_memory();
	check(ibv_req_notify_cq(recv_cq, 0), "ibv_req_notify_cq");
	check(ibv_query_port(context, PORT, port), "ibv_query_port");
}

static void run_connection(void (*loop)(void))
{
	struct ibv_port_attr port;

	make_end(&port);
	exchange(&port, 0);
	for (unsigned i = 0; i < qps; i++)
		connect_qp(qp[i], peer.qpn[i], &port);
	for (unsigned i = 0; i < receives * qps; i++)
		post_receive_by(i % qps);
	ends_meet(&ends);
	loop();
	ends_meet(&ends);
}

/* Processes that do nothing more than to be there. */
static void be_written_to(void)
{
}

/* Over the processes in turn; each write is completed before the next. */
static void write_to_peers(const struct address to[])
{
	struct stopwatch w;

	stopwatch_init(&w, rounds);
	for (unsigned i = 0; i < w.rounds; i++) {
		peer = to[i % qps];
		post_by(i % qps, IBV_WR_RDMA_WRITE, true);
		complete(send_cq);
		stopwatch_round(&w);
	}
	print_result(stopwatch_median(&w) / 1000);
	stopwatch_fini(&w);
}

/* All other ends run on the second CPU. */
static int run_peers(unsigned many, char *const cpu[2])
{
	static struct address to[MOST_PEERS];
	struct ends with[MOST_PEERS];
	struct ibv_port_attr port;
	int status = 0;

	if (many > MOST_PEERS)
		die("too many processes");
	size = SHORT;
	depth = FEW;
	receives = 0;
	for (unsigned i = 0; i < many; i++) {
		ends = with[i] = ends_open(cpu);
		me = ends.me;
		if (me == 1) {
			run_connection(be_written_to);
			return ends_close(&ends);
		}
	}
	qps = many;
	make_end(&port);
	for (unsigned i = 0; i < many; i++) {
		ends = with[i];
		exchange(&port, i);
		to[i] = peer;
		connect_qp(qp[i], peer.qpn[0], &port);
		ends_meet(&ends);
	}
	write_to_peers(to);
	for (unsigned i = 0; i < many; i++) {
		ends_meet(&with[i]);
		status |= ends_close(&with[i]);
	}
	return status;
}

/* From RESET to RTS and back: four transitions. */
static void change_states(void)
{
	struct ibv_qp_attr reset = { .qp_state = IBV_QPS_RESET };
	struct ibv_port_attr port;
	struct stopwatch w;

	if (me == 1)
		return;
	make_end(&port);
	peer = (struct address){ .lid = port.lid };
	stopwatch_init(&w, rounds);
	for (unsigned i = 0; i < w.rounds; i++) {
		connect_qp(qp[0], qp[0]->qp_num, &port);
		check(ibv_modify_qp(qp[0], &reset, IBV_QP_STATE), "RESET");
		stopwatch_round(&w);
	}
	print_result(4e9 / stopwatch_median(&w));
	stopwatch_fini(&w);
}

/* What a new process waits for its device. */
static double time_open(void)
{
	uint64_t began = now_ns(), ended;
	double ms = 0;
	int pair[2];
	pid_t child;

	check(pipe(pair), "pipe");
	child = fork();
	check(child < 0, "fork");
	if (child == 0) {
		began = now_ns();
		open_device();
		ended = now_ns();
		ms = (double)(ended - began) / 1e6;
		_exit(write(pair[1], &ms, sizeof(ms)) != sizeof(ms));
	}
	close(pair[1]);
	check(read(pair[0], &ms, sizeof(ms)) != sizeof(ms), "a process that opens its device");
	close(pair[0]);
	waitpid(child, NULL, 0);
	return ms;
}

static int compare(const void *a, const void *b)
{
	const double *x = a, *y = b;

	return (*x > *y) - (*x < *y);
}

static void open_devices(void)
{
	double *ms = calloc(rounds, sizeof(*ms));

	check(!ms, "memory");
	for (unsigned i = 0; me == 0 && i < rounds; i++)
		ms[i] = time_open();
	qsort(ms, rounds, sizeof(*ms), compare);
	if (me == 0)
		print_result(ms[rounds / 2]);
	free(ms);
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

static const struct way {
	const char *name;
	void (*loop)(void);
	enum { CONNECTED, ALONE, COUNTED } how;	/* COUNTED: SIZE is the number of QPs */
	unsigned qps;		/* 0: one */
} ways[] = {
	{ "send-latency", send_latency, CONNECTED, 0 },
	{ "write-latency", write_latency, CONNECTED, 0 },
	{ "atomic-latency", add_latency, CONNECTED, 0 },
	{ "send-rate", send_rate, CONNECTED, 0 },
	{ "send-qps", send_by_many, COUNTED, 0 },
	{ "write-rate", write_rate, CONNECTED, 0 },
	{ "write-bandwidth", write_bandwidth, CONNECTED, 0 },
	{ "write-bandwidth-1", write_bandwidth_of_many, CONNECTED, 1 },
	{ "write-bandwidth-8", write_bandwidth_of_many, CONNECTED, 8 },
	{ "write-bandwidth-1000", write_bandwidth_of_many, CONNECTED, MOST_QPS },
	{ "event-latency", sleep_latency, CONNECTED, 0 },
	{ "register", register_memory, ALONE, 0 },
	{ "transitions", change_states, ALONE, 0 },
	{ "open", open_devices, ALONE, 0 },
};

static void count_qps(void)
{
	if (size > MOST_QPS)
		die("too many queue pairs");
	qps = (unsigned)size;
	depth = receives = qps <= 10 ? DEPTH : FEW;
	size = SHORT;
}

static int run(const struct way *way, char *const place[2])
{
	if (way->qps) {
		qps = way->qps;
		depth = qps < DEPTH ? DEPTH / qps : 1;
		receives = qps > 1 ? 0 : DEPTH;
	}
	if (way->how == COUNTED)
		count_qps();
	adds = way->loop == add_latency;
	size = adds ? SHORT : size;
	ends = ends_open(place);
	me = ends.me;
	if (way->how == ALONE)
		way->loop();
	else
		run_connection(way->loop);
	return ends_close(&ends);
}

int main(int argc, char **argv)
{
	if (argc != 6) {
		fprintf(stderr, "usage: verbs WHAT SIZE ROUNDS {CPU_A CPU_B|listen PORT|HOST PORT}\n");
		return 2;
	}
	size = strtoull(argv[2], NULL, 0);
	rounds = (unsigned)strtoul(argv[3], NULL, 0);
	if (rounds > 0 && size > 0 && strcmp(argv[1], "write-peers") == 0)
		return run_peers((unsigned)size, argv + 4);
	for (size_t i = 0; i < sizeof(ways) / sizeof(ways[0]); i++)
		if (strcmp(ways[i].name, argv[1]) == 0 && rounds > 0 && size > 0)
			return run(&ways[i], argv + 4);
	fprintf(stderr, "verbs: there is no '%s'\n", argv[1]);
	return 2;
}
