/* Transfers of gigabytes between two processes on the direct path, which take many turns. Exit 0: all was right.
 * `long write`, `long read`, `long send`, `long imm` (a write with immediate data): one thread moves 2 GiB, the most there is,
 *   while another plays ping-pong.
 * `long apart`: posts to another QP in the midst of copies are executed between their slices (WEFT_ENGINE=thread).
 * `long dereg`: the target deregisters in the midst of it; then its memory does not change any more.
 * `long error`: the initiator's QP goes to the error state in the midst of it.
 * `long kill`, `long kill_send`: the target is killed in the midst of it; `long die`, `long die_send`: the initiator is.
 * Memory is one short file mapped again and again, so that gigabytes of addresses are few megabytes. */
#include "attach.h"
#include "connect.h"

#include "runtime/entry.h"
#include "runtime/runtime.h"
#include "runtime/state.h"
#include "verbs/cq.h"
#include "verbs/mr.h"
#include "verbs/pd.h"
#include "verbs/qp.h"

#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

enum {
	FILE_BYTES = 16 << 20,
	DEPTH = 256,
	PIECE = 4 << 20,	/* of `apart`: two slices */
	PIECES_BETWEEN = 2,	/* that may end before what was posted meanwhile: the one under way, and one more */
	PINGS = 5,		/* round trips that a transfer must let through at least */
	ROUNDS = 100,		/* tries at most to meet a transfer under way */
	ALL_ACCESS = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ,
	BULK = 0, PING = 1, QPS = 2,
	SOURCE_BYTE = 0x33, OLD_BYTE = 0x55, GUARD_BYTE = 0x77,
};

/* A busy machine takes its time; but the end of a process is to be noticed. */
enum { PATIENT = 20, BRISK = 14 };

static const uint32_t long_bytes = 1u << 31;
static const uint64_t PROBE = 1;	/* a wr_id */

struct end;

/* What is done, by whom, and who does not live to the end. */
struct mode {
	const char *name;
	enum ibv_wr_opcode opcode;	/* of what is long */
	void (*initiate)(struct end *e);
	void (*answer)(struct end *e);	/* the target's part */
	enum { NOBODY, INITIATOR, TARGET } dies;
	uint8_t timeout;		/* the attribute */
	bool has_one_cq;		/* both QPs complete into it */
};

struct address {
	uint32_t qpn, rkey;
	uint64_t va;
	uint16_t lid;
};

/* Shared by all processes. */
static struct board {
	_Atomic unsigned arrived;
	struct address end[2][QPS];
	_Atomic bool running;
	_Atomic unsigned round, in_midst, status;
} *board;

/* One process's side: QP 0 for what is long, QP 1 for the ping-pong, each with a CQ. */
struct end {
	struct runtime *rt;
	struct pd *pd;
	struct cq *cq[QPS];
	struct qp *qp[QPS];
	struct mr *mr;
	uint8_t *buffer;
	const struct mode *mode;
	_Atomic unsigned pings;
	_Atomic bool running;
};

static void meet(void)
{
	unsigned mine = atomic_fetch_add(&board->arrived, 1), wave = mine / 2;

	while (atomic_load(&board->arrived) < (wave + 1) * 2)
		sched_yield();
}

static uint8_t *make_buffer(void)
{
	int fd = memfd_create("long", 0);
	uint8_t *buffer = mmap(NULL, long_bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

	if (fd < 0 || ftruncate(fd, FILE_BYTES) < 0 || buffer == MAP_FAILED)
		die("no memory");
	for (uint64_t at = 0; at < long_bytes; at += FILE_BYTES)
		if (mmap(buffer + at, FILE_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, fd, 0) == MAP_FAILED)
			die("no mapping");
	close(fd);
	return buffer;
}

static void open_end(struct end *e, const struct mode *mode, int side)
{
	struct ca *ca;

	e->mode = mode;
	e->rt = attach();
	ca = runtime_ca(e->rt);
	e->buffer = make_buffer();
	runtime_enter(e->rt);
	check(pd_create(ca, &ca->dev[0], &e->pd), "pd");
	check(mr_create(e->pd, e->buffer, long_bytes, (uintptr_t)e->buffer, ALL_ACCESS, &e->mr), "mr");
	for (int i = 0; i < QPS; i++) {
		struct ibv_qp_init_attr_ex init = { .qp_type = IBV_QPT_RC, .cap = { .max_send_wr = DEPTH, .max_recv_wr = DEPTH,
						    .max_send_sge = 1, .max_recv_sge = 1 } };

		if (i == BULK || !mode->has_one_cq)
			check(cq_create(ca, &ca->dev[0], 4 * DEPTH, &e->cq[i]), "cq");
		else
			e->cq[i] = e->cq[BULK];
		check(qp_create(ca, &ca->dev[0], &init, e->pd, e->cq[i], e->cq[i], NULL, NULL, &e->qp[i]), "qp");
		board->end[side][i] = (struct address){ .qpn = e->qp[i]->qpn, .rkey = e->mr->key, .va = (uintptr_t)e->buffer,
							.lid = ca->dev[0].lid };
	}
	runtime_leave(e->rt);
}

static void to_state(struct end *e, int i, enum ibv_qp_state state)
{
	struct ibv_qp_attr attr = { .qp_state = state };
	wtime now = runtime_enter(e->rt);

	check(qp_modify(e->qp[i], now, &attr, IBV_QP_STATE), "modify");
	runtime_leave(e->rt);
}

/* From whatever state to RTS. */
static void connect_qp(struct end *e, int i, const struct address *peer)
{
	to_state(e, i, IBV_QPS_RESET);
	rc_connect(e->qp[i], runtime_enter(e->rt), (struct ibv_qp_attr){
		.port_num = 1, .qp_access_flags = ALL_ACCESS & ~IBV_ACCESS_LOCAL_WRITE,
		.path_mtu = IBV_MTU_4096, .dest_qp_num = peer->qpn, .ah_attr = { .dlid = peer->lid, .port_num = 1 },
		.timeout = e->mode->timeout, .retry_cnt = 7, .rnr_retry = 7, .min_rnr_timer = 1,
		.max_rd_atomic = 4, .max_dest_rd_atomic = 4 });
	runtime_leave(e->rt);
}

static bool poll_once(struct end *e, int i, struct cqe *cqe)
{
	bool any;

	runtime_enter_poll(e->rt);
	any = cq_poll(e->cq[i], cqe);
	runtime_leave(e->rt);
	return any;
}

static enum ibv_wc_status wait_done(struct end *e, int i)
{
	struct cqe cqe;

	while (!poll_once(e, i, &cqe))
		sched_yield();
	return cqe.status;
}

/* The caller has entered the host. */
static void post_inside(struct end *e, wtime now, int i, uint64_t wr_id, enum ibv_wr_opcode opcode, uint32_t bytes)
{
	const struct address *target = &board->end[0][i];
	struct ibv_sge sge = { (uintptr_t)e->buffer, bytes, e->mr->key };
	struct ibv_send_wr wr = { .wr_id = wr_id, .opcode = opcode, .sg_list = &sge, .num_sge = 1,
				  .send_flags = IBV_SEND_SIGNALED, .wr.rdma = { target->va, target->rkey } }, *bad;

	check(qp_post_send(e->qp[i], now, &wr, &bad), "post");
}

static void post(struct end *e, int i, enum ibv_wr_opcode opcode, uint32_t bytes)
{
	post_inside(e, runtime_enter(e->rt), i, 0, opcode, bytes);
	runtime_leave(e->rt);
}

static void post_receive(struct end *e, int i, uint32_t bytes)
{
	struct ibv_sge sge = { (uintptr_t)e->buffer, bytes, e->mr->key };
	struct ibv_recv_wr wr = { .sg_list = &sge, .num_sge = 1 };
	const struct ibv_recv_wr *bad;
	wtime now = runtime_enter(e->rt);

	check(qp_post_recv(e->qp[i], now, &wr, &bad), "post receive");
	runtime_leave(e->rt);
}

static bool holds(const struct end *e, uint8_t byte)
{
	for (unsigned i = 0; i < FILE_BYTES; i++)
		if (e->buffer[i] != byte)
			return false;
	return true;
}

/* ---- ping-pong ---- */

/* The one side; empty messages, as the memory is the others'. */
static void *play_ping(void *arg)
{
	struct end *e = arg;

	while (atomic_load(&e->running)) {
		post_receive(e, PING, 0);
		post(e, PING, IBV_WR_SEND, 0);
		/* its own completion and the answer */
		if (wait_done(e, PING) != IBV_WC_SUCCESS || wait_done(e, PING) != IBV_WC_SUCCESS)
			die("a ping failed");
		atomic_fetch_add(&e->pings, 1);
	}
	return NULL;
}

/* The other. */
static void play_pong(struct end *e)
{
	struct cqe cqe;

	while (atomic_load(&board->running)) {
		if (!poll_once(e, PING, &cqe)) {
			sched_yield();
			continue;
		}
		if (cqe.status != IBV_WC_SUCCESS)
			die("a pong failed");
		if (cqe.kind == CQE_SEND)
			continue;
		post_receive(e, PING, 0);
		post(e, PING, IBV_WR_SEND, 0);
	}
}

static void expect_direct(const struct end *e)
{
	const struct counters *c = &runtime_ca(e->rt)->counters;

	if (c->direct_bytes != long_bytes || c->sent_pkts > long_bytes / 4096 / 100)
		die("a long transfer did not go the direct path");
}

static void await_bulk(struct end *e)
{
	struct cqe cqe;

	while (!poll_once(e, BULK, &cqe))
		sched_yield();
	if (cqe.status != IBV_WC_SUCCESS || cqe.byte_len != long_bytes)
		die("a long message was not received");
}

static void expect_source(const struct end *e)
{
	if (!holds(e, SOURCE_BYTE))
		die("a long transfer left something out");
}

static void take_write(struct end *e)
{
	play_pong(e);
	expect_source(e);
}

static void take_message(struct end *e)
{
	play_pong(e);
	await_bulk(e);
	expect_source(e);
}

static void run_beside_pings(struct end *e)
{
	unsigned before;
	pthread_t thread;

	atomic_store(&e->running, true);
	check(pthread_create(&thread, NULL, play_ping, e), "thread");
	while (atomic_load(&e->pings) < PINGS)
		sched_yield();
	before = atomic_load(&e->pings);
	post(e, BULK, e->mode->opcode, long_bytes);
	check(wait_done(e, BULK) != IBV_WC_SUCCESS, "a long transfer failed");
	printf("%u round trips meanwhile\n", atomic_load(&e->pings) - before);
	if (atomic_load(&e->pings) - before < PINGS)
		die("a long transfer held up another thread");
	atomic_store(&e->running, false);
	pthread_join(thread, NULL);
	expect_direct(e);
	if (e->mode->opcode == IBV_WR_RDMA_READ && !holds(e, OLD_BYTE))
		die("a long read fetched something else");
	atomic_store(&board->running, false);
}

/* ---- an engine apart ---- */

/* Takes completions until the probe's. How many pieces ended before it. */
static unsigned await_probe(struct end *e)
{
	unsigned pieces = 0;
	struct cqe cqe;

	for (;; pieces++) {
		while (!poll_once(e, BULK, &cqe))
			sched_yield();
		check(cqe.status != IBV_WC_SUCCESS, "a write failed");
		if (cqe.wr_id == PROBE)
			return pieces;
	}
}

/* How many pieces have ended by now; the probe is behind them. */
static unsigned post_probe(struct end *e)
{
	wtime now = runtime_enter(e->rt);
	unsigned pieces = 0;
	struct cqe cqe;

	while (cq_poll(e->cq[BULK], &cqe))
		pieces++;
	post_inside(e, now, PING, PROBE, IBV_WR_RDMA_WRITE, 8);
	runtime_leave(e->rt);
	return pieces;
}

static void probe_beside_copies(struct end *e)
{
	unsigned done = 0, between, probes = 0;
	wtime now;

	post_probe(e);
	await_probe(e);
	now = runtime_enter(e->rt);
	for (unsigned n = 0; n < DEPTH; n++)
		post_inside(e, now, BULK, 0, IBV_WR_RDMA_WRITE, PIECE);
	runtime_leave(e->rt);
	for (; done < DEPTH; done += between, probes++) {
		done += post_probe(e);
		between = await_probe(e);
		if (between > PIECES_BETWEEN)
			die("what was posted beside long copies waited for many of them");
	}
	printf("%u writes beside %d long ones\n", probes, DEPTH);
	atomic_store(&board->running, false);
}

static void wait_for_the_end(struct end *e)
{
	while (atomic_load(&board->running))
		sched_yield();
}

/* ---- what comes in between ---- */

/* A write has begun and goes on. What RDMA writes is watched as programs do: ThreadSanitizer is right that nothing orders it. */
__attribute__((no_sanitize("thread"))) static void await_midst(const struct end *e)
{
	while (*(volatile uint8_t *)e->buffer == OLD_BYTE)
		sched_yield();
}

static void dereg_target(struct end *e)
{
	do {
		memset(e->buffer, OLD_BYTE, FILE_BYTES);
		connect_qp(e, BULK, &board->end[1][BULK]);
		meet();
		await_midst(e);
		runtime_enter(e->rt);
		check(mr_destroy(e->mr), "deregister");
		memset(e->buffer, GUARD_BYTE, FILE_BYTES);
		runtime_leave(e->rt);
		meet();
		if (!holds(e, GUARD_BYTE))
			die("memory changed after it was deregistered");
		runtime_enter(e->rt);
		check(mr_create(e->pd, e->buffer, long_bytes, (uintptr_t)e->buffer, ALL_ACCESS, &e->mr), "mr");
		runtime_leave(e->rt);
		board->end[0][BULK].rkey = e->mr->key;
		meet();
	} while (atomic_load(&board->running));
}

/* A machine that lets the write end first is asked again. */
static void dereg_initiator(struct end *e)
{
	enum ibv_wc_status status = IBV_WC_SUCCESS;

	for (unsigned n = 0; n < ROUNDS && status == IBV_WC_SUCCESS; n++) {
		connect_qp(e, BULK, &board->end[0][BULK]);
		meet();
		post(e, BULK, IBV_WR_RDMA_WRITE, long_bytes);
		status = wait_done(e, BULK);
		atomic_store(&board->running, status == IBV_WC_SUCCESS && n + 1 < ROUNDS);
		meet();
		meet();
	}
	if (status != IBV_WC_REM_ACCESS_ERR)
		die("a region that went in the midst of a write did not end in a remote access error");
}

static void *fail_qp(void *arg)
{
	struct end *e = arg;

	while (!atomic_load(&board->in_midst))
		sched_yield();
	to_state(e, BULK, IBV_QPS_ERR);
	return NULL;
}

static void error_initiator(struct end *e)
{
	enum ibv_wc_status status = IBV_WC_SUCCESS;
	pthread_t thread;

	for (unsigned n = 0; n < ROUNDS && status == IBV_WC_SUCCESS; n++) {
		connect_qp(e, BULK, &board->end[0][BULK]);
		atomic_store(&board->in_midst, 0);
		meet();
		check(pthread_create(&thread, NULL, fail_qp, e), "thread");
		post(e, BULK, IBV_WR_RDMA_WRITE, long_bytes);
		status = wait_done(e, BULK);
		pthread_join(thread, NULL);
		atomic_store(&board->running, status == IBV_WC_SUCCESS && n + 1 < ROUNDS);
		meet();
	}
	if (status != IBV_WC_WR_FLUSH_ERR)
		die("a QP in error did not flush what it was at");
}

static void error_target(struct end *e)
{
	do {
		memset(e->buffer, OLD_BYTE, FILE_BYTES);
		connect_qp(e, BULK, &board->end[1][BULK]);
		meet();
		await_midst(e);
		atomic_store(&board->in_midst, 1);
		meet();
	} while (atomic_load(&board->running));
}

static void kill_initiator(struct end *e)
{
	enum ibv_wc_status status;

	meet();
	do {
		post(e, BULK, e->mode->opcode, long_bytes);
		status = wait_done(e, BULK);
	} while (status == IBV_WC_SUCCESS);
	if (status != IBV_WC_RETRY_EXC_ERR)
		die("a dead target did not end in retries exceeded");
}

/* Whoever receives must also poll, here in another thread than the one that looks. */
static void *receive_bulk(void *arg)
{
	wait_done(arg, BULK);
	return NULL;
}

static void begin_to_receive(struct end *e)
{
	pthread_t thread;

	if (e->mode->opcode != IBV_WR_SEND)
		return;
	post_receive(e, BULK, long_bytes);
	check(pthread_create(&thread, NULL, receive_bulk, e), "thread");
	pthread_detach(thread);
}

static void kill_target(struct end *e)
{
	begin_to_receive(e);
	meet();
	await_midst(e);
	raise(SIGKILL);
}

/* The main process kills it when the target says so. */
static void die_initiator(struct end *e)
{
	meet();
	post(e, BULK, e->mode->opcode, long_bytes);
	for (;;)
		wait_done(e, BULK);
}

/* What a killed initiator was at keeps nobody: the region goes, and then stays as it is. */
static void die_target(struct end *e)
{
	begin_to_receive(e);
	meet();
	await_midst(e);
	atomic_store(&board->in_midst, 1);
	while (atomic_load(&board->running))
		sched_yield();
	to_state(e, BULK, IBV_QPS_ERR);
	runtime_enter(e->rt);
	check(mr_destroy(e->mr), "deregister");
	runtime_leave(e->rt);
}

/* ---- the whole ---- */

static const struct mode modes[] = {
	/* name		opcode				initiate		answer		dies		timeout, one CQ */
	{ "write",	IBV_WR_RDMA_WRITE,		run_beside_pings,	take_write,	NOBODY,		PATIENT, false },
	{ "read",	IBV_WR_RDMA_READ,		run_beside_pings,	play_pong,	NOBODY,		PATIENT, false },
	{ "send",	IBV_WR_SEND,			run_beside_pings,	take_message,	NOBODY,		PATIENT, false },
	{ "imm",	IBV_WR_RDMA_WRITE_WITH_IMM,	run_beside_pings,	take_message,	NOBODY,		PATIENT, false },
	{ "apart",	IBV_WR_RDMA_WRITE,		probe_beside_copies,	wait_for_the_end, NOBODY,	PATIENT, true },
	{ "dereg",	IBV_WR_RDMA_WRITE,		dereg_initiator,	dereg_target,	NOBODY,		PATIENT, false },
	{ "error",	IBV_WR_RDMA_WRITE,		error_initiator,	error_target,	NOBODY,		PATIENT, false },
	{ "kill",	IBV_WR_RDMA_WRITE,		kill_initiator,		kill_target,	TARGET,		BRISK, false },
	{ "kill_send",	IBV_WR_SEND,			kill_initiator,		kill_target,	TARGET,		BRISK, false },
	{ "die",	IBV_WR_RDMA_WRITE,		die_initiator,		die_target,	INITIATOR,	PATIENT, false },
	{ "die_send",	IBV_WR_SEND,			die_initiator,		die_target,	INITIATOR,	PATIENT, false },
};

static const struct mode *find_mode(const char *name)
{
	for (unsigned i = 0; i < sizeof(modes) / sizeof(modes[0]); i++)
		if (strcmp(modes[i].name, name) == 0)
			return &modes[i];
	return NULL;
}

/* Threads of either use it until the process ends. */
static struct end ours;

static void initiate(const struct mode *mode)
{
	open_end(&ours, mode, 1);
	memset(ours.buffer, SOURCE_BYTE, FILE_BYTES);
	meet();
	for (int i = 0; i < QPS; i++)
		connect_qp(&ours, i, &board->end[0][i]);
	meet();
	mode->initiate(&ours);
}

static void be_target(const struct mode *mode)
{
	open_end(&ours, mode, 0);
	memset(ours.buffer, OLD_BYTE, FILE_BYTES);
	meet();
	for (int i = 0; i < QPS; i++)
		connect_qp(&ours, i, &board->end[1][i]);
	post_receive(&ours, PING, 0);
	if (mode->answer == take_message)
		post_receive(&ours, BULK, mode->opcode == IBV_WR_SEND ? long_bytes : 0);
	meet();
	mode->answer(&ours);
}

static pid_t start(void (*part)(const struct mode *mode), const struct mode *mode)
{
	pid_t child = fork();

	if (child)
		return child;
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	part(mode);
	exit(0);
}

int main(int argc, char **argv)
{
	const struct mode *mode = find_mode(argc > 1 ? argv[1] : "");
	pid_t target, initiator, child;
	int status;

	if (!mode)
		die("no such mode");
	board = share_with_children(sizeof(*board));
	atomic_store(&board->running, true);
	target = start(be_target, mode);
	initiator = start(initiate, mode);
	while (mode->dies == INITIATOR && !atomic_load(&board->in_midst))
		sched_yield();
	if (mode->dies == INITIATOR)
		kill(initiator, SIGKILL);
	while ((child = wait(&status)) > 0) {
		bool should_die = mode->dies == (child == target ? TARGET : INITIATOR);

		if (child == initiator)
			atomic_store(&board->running, false);
		if (!should_die && (!WIFEXITED(status) || WEXITSTATUS(status) != 0))
			return 1;
	}
	return 0;
}
