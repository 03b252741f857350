/* Two processes and one RC connection, on the object model directly, without libibverbs: does data arrive, in every way
 * a program may wait for it, and how fast. `pair send|write|watch|event|stream BYTES ROUNDS`; prints half round trips or
 * bandwidth. Needs WEFT_DIR of a running weftd. Exit 0: every byte was right.
 * WEFT_TEST_LIMIT=user: the other side is another user. */
#include "attach.h"
#include "connect.h"

#include "control/clock.h"
#include "runtime/entry.h"
#include "runtime/runtime.h"
#include "verbs/cq.h"
#include "verbs/mr.h"
#include "verbs/pd.h"
#include "verbs/qp.h"

#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

enum { DEPTH = 64 };

struct address {
	uint32_t qpn, psn, rkey;
	uint16_t lid;
	uint64_t va;
};

struct side {
	struct runtime *rt;
	struct cq *cq;
	struct qp *qp;
	struct mr *mr;
	uint8_t *buffer;	/* [0, bytes) is written by the peer, [bytes, 2 bytes) is what we send */
	size_t bytes;
	struct address peer;
	int socket;
	bool is_first;
};

static int event_fd;

static void on_cq_event(struct cq *cq)
{
	(void)cq;
	eventfd_write(event_fd, 1);
}

static void on_async_event(enum ibv_event_type type, void *object)
{
	(void)object;
	fprintf(stderr, "pair: async event %d\n", type);
}

static void make_objects(struct side *s)
{
	struct ca *ca = runtime_ca(s->rt);
	struct ca_device *dev = &ca->dev[0];
	struct pd *pd;

	s->buffer = aligned_alloc(4096, (2 * s->bytes + 4095) & ~(size_t)4095);
	memset(s->buffer, 0, 2 * s->bytes);
	runtime_enter(s->rt);
	check(pd_create(ca, dev, &pd), "pd");
	check(cq_create(ca, dev, 4 * DEPTH, &s->cq), "cq");
	s->cq->has_channel = true;
	check(mr_create(pd, s->buffer, 2 * s->bytes, (uintptr_t)s->buffer, IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE,
			&s->mr), "mr");
	struct ibv_qp_init_attr_ex init = { .qp_type = IBV_QPT_RC, .cap = { .max_send_wr = DEPTH, .max_recv_wr = DEPTH,
					    .max_send_sge = 1, .max_recv_sge = 1, .max_inline_data = 64 } };
	check(qp_create(ca, dev, &init, pd, s->cq, s->cq, NULL, NULL, &s->qp), "qp");
	runtime_leave(s->rt);
}

static void exchange(struct side *s)
{
	struct address own = {
		.qpn = s->qp->qpn, .psn = 0xfffff0, .rkey = s->mr->key, .lid = s->qp->dev->lid, .va = (uintptr_t)s->buffer,
	};

	if (write(s->socket, &own, sizeof(own)) != sizeof(own) || read(s->socket, &s->peer, sizeof(s->peer)) != sizeof(s->peer))
		die("the other side is gone");
}

static void barrier(struct side *s)
{
	char c = 0;

	if (write(s->socket, &c, 1) != 1 || read(s->socket, &c, 1) != 1)
		die("the other side is gone");
}

static void connect_qp(struct side *s)
{
	rc_connect(s->qp, runtime_enter(s->rt), (struct ibv_qp_attr){
		.port_num = 1, .qp_access_flags = IBV_ACCESS_REMOTE_WRITE,
		.path_mtu = IBV_MTU_4096, .dest_qp_num = s->peer.qpn, .ah_attr = { .dlid = s->peer.lid, .port_num = 1 },
		.rq_psn = s->peer.psn, .sq_psn = 0xfffff0, .timeout = 14, .retry_cnt = 7, .rnr_retry = 7, .min_rnr_timer = 12,
		.max_rd_atomic = 1, .max_dest_rd_atomic = 1 });
	runtime_leave(s->rt);
}

static void post_recv(struct side *s)
{
	struct ibv_sge sge = { .addr = (uintptr_t)s->buffer, .length = (uint32_t)s->bytes, .lkey = s->mr->key };
	struct ibv_recv_wr wr = { .sg_list = &sge, .num_sge = 1 };
	const struct ibv_recv_wr *bad;
	wtime now = runtime_enter(s->rt);

	check(qp_post_recv(s->qp, now, &wr, &bad), "post receive");
	runtime_leave(s->rt);
}

static void post(struct side *s, enum ibv_wr_opcode opcode)
{
	struct ibv_sge sge = { .addr = (uintptr_t)(s->buffer + s->bytes), .length = (uint32_t)s->bytes, .lkey = s->mr->key };
	struct ibv_send_wr wr = { .sg_list = &sge, .num_sge = 1, .opcode = opcode, .send_flags = IBV_SEND_SIGNALED }, *bad;
	wtime now = runtime_enter(s->rt);

	if (s->bytes <= 64)
		wr.send_flags |= IBV_SEND_INLINE;
	wr.wr.rdma.remote_addr = s->peer.va;
	wr.wr.rdma.rkey = s->peer.rkey;
	check(qp_post_send(s->qp, now, &wr, &bad), "post send");
	runtime_leave(s->rt);
}

/* One completion if there is one. */
static bool poll_once(struct side *s, struct cqe *cqe)
{
	bool any;

	runtime_enter_poll(s->rt);
	any = cq_poll(s->cq, cqe);
	runtime_leave(s->rt);
	if (any && cqe->status != IBV_WC_SUCCESS) {
		fprintf(stderr, "pair: completion with status %d\n", cqe->status);
		exit(1);
	}
	return any;
}

/* Waits for this many completions of a kind; those of the other kind are counted in *other. */
static void wait_for(struct side *s, enum cqe_kind kind, unsigned *other, bool sleeps)
{
	struct pollfd p = { .fd = event_fd, .events = POLLIN };
	struct cqe cqe;
	eventfd_t count;

	for (;;) {
		if (poll_once(s, &cqe)) {
			if (cqe.kind == kind)
				return;
			++*other;
		} else if (sleeps) {
			runtime_enter(s->rt);
			cq_arm(s->cq, false);
			runtime_leave(s->rt);
			if (poll_once(s, &cqe)) {
				if (cqe.kind == kind)
					return;
				++*other;
				continue;
			}
			runtime_enter(s->rt);
			runtime_will_sleep(s->rt);
			runtime_leave(s->rt);
			poll(&p, 1, -1);
			eventfd_read(event_fd, &count);
		}
	}
}

static uint8_t pattern(unsigned round, bool by_first)
{
	return (uint8_t)(2 * round + 1 + (by_first ? 0 : 101));
}

static void prepare(struct side *s, unsigned round)
{
	memset(s->buffer + s->bytes, pattern(round, s->is_first), s->bytes);
}

static void check_round(struct side *s, unsigned round)
{
	for (size_t i = 0; i < s->bytes; i++) {
		if (s->buffer[i] != pattern(round, !s->is_first))
			die("a byte is wrong");
	}
}

static void watch_round(struct side *s, unsigned round)
{
	const volatile uint8_t *last = s->buffer + s->bytes - 1;

	while (*last != pattern(round, !s->is_first))
		;
}

/* One half: sends, or takes what the other side sent. */
static void ping_pong(struct side *s, const char *mode, unsigned rounds, double *half_us)
{
	bool sleeps = strcmp(mode, "event") == 0, watches = strcmp(mode, "watch") == 0;
	unsigned sends = 0, receives = 0;

	for (unsigned round = 0; round < rounds; round++) {
		wtime start = clock_now();

		for (int turn = 0; turn < 2; turn++) {
			if ((turn == 0) == s->is_first) {
				prepare(s, round);
				post(s, watches ? IBV_WR_RDMA_WRITE : IBV_WR_SEND);
				if (watches)
					wait_for(s, CQE_SEND, &receives, sleeps);
				continue;
			}
			if (watches)
				watch_round(s, round);
			else if (receives)
				receives--;
			else
				wait_for(s, CQE_RECV, &sends, sleeps);
			check_round(s, round);
			if (!watches)
				post_recv(s);
		}
		while (!watches && sends == 0)
			wait_for(s, CQE_SEND, &receives, sleeps), sends++;
		sends = 0;
		half_us[round] = (double)(clock_now() - start) / 2000;
	}
}

static double stream(struct side *s, unsigned rounds)
{
	wtime start = clock_now();
	unsigned posted = 0, done = 0, none = 0;

	prepare(s, 0);
	while (s->is_first && done < rounds) {
		if (posted < rounds && posted - done < DEPTH)
			post(s, IBV_WR_RDMA_WRITE), posted++;
		else
			wait_for(s, CQE_SEND, &none, false), done++;
	}
	start = clock_now() - start;
	barrier(s);
	if (!s->is_first) {
		see_what_was_placed(s->rt);
		check_round(s, 0);
	}
	return (double)rounds * (double)s->bytes / (double)start;
}

static int compare(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return (x > y) - (x < y);
}

static void run(struct side *s, const char *mode, unsigned rounds)
{
	double *half_us = calloc(rounds, sizeof(*half_us));

	make_objects(s);
	exchange(s);
	connect_qp(s);
	if (strcmp(mode, "stream") != 0) {
		for (int i = 0; i < DEPTH / 2; i++)
			post_recv(s);
	}
	barrier(s);
	if (strcmp(mode, "stream") == 0) {
		double rate = stream(s, rounds);

		if (s->is_first)
			printf("%s %zu bytes: %.3f GB/s, %.3f M/s\n", mode, s->bytes, rate, rate * 1000 / (double)s->bytes);
	} else {
		ping_pong(s, mode, rounds, half_us);
		qsort(half_us, rounds, sizeof(*half_us), compare);
		if (s->is_first)
			printf("%s %zu bytes: half round trip p50 %.2f us, p99 %.2f us, max %.0f us\n", mode, s->bytes,
			       half_us[rounds / 2], half_us[rounds - 1 - rounds / 100], half_us[rounds - 1]);
	}
	barrier(s);
	free(half_us);
}

int main(int argc, char **argv)
{
	static const struct runtime_events events = { .cq_event = on_cq_event, .async_event = on_async_event };
	struct side s = { .bytes = argc > 2 ? strtoul(argv[2], NULL, 0) : 8 };
	int pair[2], status = 0;
	pid_t child;

	if (argc != 4 || s.bytes == 0 || socketpair(AF_UNIX, SOCK_STREAM, 0, pair) < 0)
		die("usage: pair send|event|watch|stream BYTES ROUNDS");
	fflush(stdout);
	child = fork();
	s.is_first = child != 0;
	s.socket = pair[s.is_first];
	close(pair[!s.is_first]);
	if (child == 0 && strcmp(getenv("WEFT_TEST_LIMIT") ?: "", "user") == 0 && (setgid(65534) || setuid(65534)))
		die("still root");
	event_fd = eventfd(0, EFD_NONBLOCK);
	s.rt = attach();
	runtime_set_events(s.rt, &events);
	run(&s, argv[1], (unsigned)strtoul(argv[3], NULL, 0));
	if (s.is_first && (waitpid(child, &status, 0) < 0 || status != 0))
		die("the other side failed");
	return 0;
}
