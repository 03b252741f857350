/* Cost per message over many QPs and many peer processes. One process is measured; each of its peers is a process with
 * as many QPs, which sleeps until something comes. Requests go over the QPs in turn, one at a time: writes, sends, sends that
 * are echoed, the same while the measured process sleeps too (wake), one send on each QP at a time (burst), the same
 * while the peers are stopped, without what comes after posting (stopped), or polls of an empty CQ (idle). */
#include "scale.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <unistd.h>

enum { BYTES = 8, RECEIVES = 4 };

struct address {
	union ibv_gid gid;
	uint16_t lid;
	uint32_t rkey;
	uint64_t memory;
};

struct end {
	struct ibv_context *context;
	struct ibv_pd *pd;
	struct ibv_comp_channel *channel;	/* who sleeps */
	struct ibv_cq *cq;
	struct ibv_mr *mr;
	struct ibv_qp **qp;
	struct address own;
	uint8_t memory[4096];
};

static void end_open(struct end *e, bool sleeps, int qps)
{
	struct ibv_port_attr port;

	e->context = open_device(getenv("SCALE_DEVICE"));
	e->pd = ibv_alloc_pd(e->context);
	e->channel = sleeps ? ibv_create_comp_channel(e->context) : NULL;
	e->cq = ibv_create_cq(e->context, 16 + qps * RECEIVES, NULL, e->channel, 0);
	e->mr = ibv_reg_mr(e->pd, e->memory, sizeof(e->memory), IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE);
	e->qp = calloc((size_t)qps, sizeof(*e->qp));
	must(e->pd && e->cq && e->mr && e->qp, "objects");
	must(ibv_query_port(e->context, 1, &port) == 0 && ibv_query_gid(e->context, 1, 0, &e->own.gid) == 0, "port");
	e->own.lid = port.lid;
	e->own.rkey = e->mr->rkey;
	e->own.memory = (uintptr_t)e->memory;
}

static void connect_qp(struct ibv_qp *qp, const struct address *to, uint32_t qpn)
{
	struct ibv_qp_attr attr = { .qp_state = IBV_QPS_INIT, .port_num = 1, .qp_access_flags = IBV_ACCESS_REMOTE_WRITE };

	must(ibv_modify_qp(qp, &attr, IBV_QP_STATE | IBV_QP_PORT | IBV_QP_PKEY_INDEX | IBV_QP_ACCESS_FLAGS) == 0, "INIT");
	attr = (struct ibv_qp_attr){
		.qp_state = IBV_QPS_RTR, .path_mtu = IBV_MTU_1024, .dest_qp_num = qpn,
		.max_dest_rd_atomic = 1, .min_rnr_timer = 12,
		.ah_attr = { .dlid = to->lid, .port_num = 1, .is_global = 1, .grh = { .dgid = to->gid, .hop_limit = 64 } },
	};
	must(ibv_modify_qp(qp, &attr, IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN |
			   IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER) == 0, "RTR");
	attr = (struct ibv_qp_attr){ .qp_state = IBV_QPS_RTS, .timeout = 18, .retry_cnt = 7, .rnr_retry = 7, .max_rd_atomic = 1 };
	must(ibv_modify_qp(qp, &attr, IBV_QP_STATE | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY | IBV_QP_SQ_PSN |
			   IBV_QP_MAX_QP_RD_ATOMIC) == 0, "RTS");
}

static void post_receive(struct end *e, struct ibv_qp *qp)
{
	struct ibv_sge sge = { (uintptr_t)e->memory + 64, BYTES, e->mr->lkey };
	struct ibv_recv_wr wr = { .wr_id = (uintptr_t)qp, .sg_list = &sge, .num_sge = 1 }, *bad;

	must(ibv_post_recv(qp, &wr, &bad) == 0, "post_recv");
}

static void post(struct end *e, struct ibv_qp *qp, const struct address *to, enum ibv_wr_opcode opcode)
{
	struct ibv_sge sge = { (uintptr_t)e->memory, BYTES, e->mr->lkey };
	struct ibv_send_wr wr = { .sg_list = &sge, .num_sge = 1, .opcode = opcode }, *bad;

	if (to) {
		wr.wr.rdma.remote_addr = to->memory + 128;
		wr.wr.rdma.rkey = to->rkey;
	}
	must(ibv_post_send(qp, &wr, &bad) == 0, "post_send");
}

/* Both ends do the same: say who they are, hear who the other is, connect, say that it is done. */
static void exchange(struct end *e, int socket, struct ibv_qp **qp, int qps, struct address *other)
{
	size_t bytes = (size_t)qps * sizeof(uint32_t);
	uint32_t *qpn = malloc(bytes);
	char done = 0;

	for (int i = 0; i < qps; i++)
		qpn[i] = qp[i]->qp_num;
	must(write(socket, &e->own, sizeof(e->own)) == sizeof(e->own) && write(socket, qpn, bytes) == (ssize_t)bytes, "write");
	must(recv(socket, other, sizeof(*other), MSG_WAITALL) == sizeof(*other) &&
	     recv(socket, qpn, bytes, MSG_WAITALL) == (ssize_t)bytes, "recv");
	for (int i = 0; i < qps; i++) {
		connect_qp(qp[i], other, qpn[i]);
		for (int n = 0; n < RECEIVES; n++)
			post_receive(e, qp[i]);
	}
	must(write(socket, &done, 1) == 1 && recv(socket, &done, 1, MSG_WAITALL) == 1, "done");
	free(qpn);
}

static void create_qps(struct end *e, struct ibv_qp **qp, int qps)
{
	for (int i = 0; i < qps; i++) {
		qp[i] = create_qp(e->pd, e->cq, 4, RECEIVES, 1);
		must(qp[i], "create_qp");
	}
}

/* Answers what comes until the measured process goes, and takes this one with it. */
static void serve(int socket, int qps, bool answers)
{
	static struct end e;
	struct address other;
	struct ibv_wc wc;
	struct ibv_cq *cq;
	void *context;

	end_open(&e, true, qps);
	create_qps(&e, e.qp, qps);
	must(ibv_req_notify_cq(e.cq, 0) == 0, "notify");
	exchange(&e, socket, e.qp, qps, &other);
	while (ibv_get_cq_event(e.channel, &cq, &context) == 0) {
		ibv_ack_cq_events(cq, 1);
		must(ibv_req_notify_cq(cq, 0) == 0, "notify");
		while (ibv_poll_cq(cq, 1, &wc) > 0) {
			must(wc.status == IBV_WC_SUCCESS, "peer's completion");
			if (wc.opcode != IBV_WC_RECV)
				continue;
			post_receive(&e, (struct ibv_qp *)(uintptr_t)wc.wr_id);
			if (answers)
				post(&e, (struct ibv_qp *)(uintptr_t)wc.wr_id, NULL, IBV_WR_SEND);
		}
	}
}

static void sleep_if_idle(struct end *e, struct ibv_wc *wc, int *found)
{
	struct ibv_cq *cq;
	void *context;

	must(ibv_req_notify_cq(e->cq, 0) == 0, "notify");
	*found = ibv_poll_cq(e->cq, 1, wc);
	if (*found == 0)
		must(ibv_get_cq_event(e->channel, &cq, &context) == 0, "event");
	if (*found == 0)
		ibv_ack_cq_events(cq, 1);
}

static void complete(struct end *e, unsigned completions)
{
	struct ibv_wc wc;
	int found;

	while (completions) {
		found = ibv_poll_cq(e->cq, 1, &wc);
		if (found == 0 && e->channel)
			sleep_if_idle(e, &wc, &found);
		if (found == 0)
			continue;
		must(wc.status == IBV_WC_SUCCESS, "completion");
		if (wc.opcode == IBV_WC_RECV)
			post_receive(e, (struct ibv_qp *)(uintptr_t)wc.wr_id);
		completions--;
	}
}

static bool is_echoed(const char *what)
{
	return strcmp(what, "echo") == 0 || strcmp(what, "wake") == 0;
}

static void transfer(struct end *e, const struct address *to, int peers, int qps, const char *what, int count)
{
	struct ibv_wc wc;

	for (int i = 0; i < count; i++) {
		int peer = i % peers, qp = i / peers % qps;

		if (strcmp(what, "idle") == 0) {
			ibv_poll_cq(e->cq, 1, &wc);
			continue;
		}
		post(e, e->qp[peer * qps + qp], &to[peer], strcmp(what, "write") == 0 ? IBV_WR_RDMA_WRITE : IBV_WR_SEND);
		if (strcmp(what, "burst") != 0)
			complete(e, is_echoed(what) ? 2 : 1);
		else if ((i + 1) % (peers * qps) == 0)
			complete(e, (unsigned)(peers * qps));
	}
}

__attribute__((noipa))
static void measured(struct end *e, const struct address *to, int peers, int qps, const char *what, int count)
{
	transfer(e, to, peers, qps, what, count);
}

static void signal_all(const pid_t *pids, int peers, int signal)
{
	for (int i = 0; i < peers; i++)
		kill(pids[i], signal);
}

/* How long posting takes when nothing is answered meanwhile. */
static double post_to_stopped(struct end *e, const pid_t *pids, int peers, int qps)
{
	double start, time;

	signal_all(pids, peers, SIGSTOP);
	start = seconds();
	for (int i = 0; i < peers * qps; i++)
		post(e, e->qp[i], NULL, IBV_WR_SEND);
	time = seconds() - start;
	signal_all(pids, peers, SIGCONT);
	complete(e, (unsigned)(peers * qps));
	return time;
}

int measure_messages(int argc, char **argv)
{
	enum { ROUNDS = 5 };
	static struct end e;
	int peers = argc > 2 ? atoi(argv[2]) : 1, qps = argc > 3 ? atoi(argv[3]) : 1, count = argc > 4 ? atoi(argv[4]) : 10000;
	const char *what = argc > 1 ? argv[1] : "write";
	struct address *to = calloc((size_t)peers, sizeof(*to));
	int *sockets = calloc((size_t)peers, sizeof(*sockets));
	pid_t *pids = calloc((size_t)peers, sizeof(*pids));
	double best = 1e9;

	for (int i = 0; i < peers; i++) {
		int pair[2];

		must(socketpair(AF_UNIX, SOCK_STREAM, 0, pair) == 0, "socketpair");
		pids[i] = fork();
		if (pids[i] == 0) {
			prctl(PR_SET_PDEATHSIG, SIGKILL);
			serve(pair[1], qps, is_echoed(what));
			_exit(0);
		}
		close(pair[1]);
		sockets[i] = pair[0];
	}
	end_open(&e, strcmp(what, "wake") == 0, peers * qps);
	create_qps(&e, e.qp, peers * qps);
	for (int i = 0; i < peers; i++)
		exchange(&e, sockets[i], e.qp + i * qps, qps, &to[i]);
	transfer(&e, to, peers, qps, is_echoed(what) ? what : "send", peers * qps);	/* every channel is open now */
	for (int round = 0; round < ROUNDS; round++) {
		double start = seconds(), time;

		if (strcmp(what, "stopped") == 0) {
			time = post_to_stopped(&e, pids, peers, qps) / (peers * qps) * count;
		} else {
			measured(&e, to, peers, qps, what, count);
			time = seconds() - start;
		}
		best = time < best ? time : best;
	}
	printf("%s peers %d qps %d: %.0f ns each\n", what, peers, qps, best / count * 1e9);
	signal_all(pids, peers, SIGTERM);
	free(to);
	free(sockets);
	free(pids);
	return 0;
}
