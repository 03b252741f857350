/* The direct path between processes: one target and one or more initiators, on the object model. Exit 0: all was right.
 * `direct mix ROUNDS SEED`: writes, reads, atomics and sends in random order, every byte checked against a model.
 * `direct atomics ROUNDS`: three processes and the target itself add to one word, one of them by packets.
 * `direct dereg ROUNDS`: the target deregisters under traffic; after that its memory does not change.
 * `direct kill`: the target is killed under traffic; the initiator ends with the standard's status.
 * `direct sends ROUNDS`: sends, directly if both processes see each other's QP, and at once by packets otherwise.
 * `direct kill_sends`: the same with sends, which the target receives all the time.
 * `direct exec ROUNDS`: the target runs another program under traffic, whose memory stays its own.
 * `direct exec_unseen ROUNDS`: the same when weftd stands still, and cannot tell.
 * `direct stopped`: a region in whose use its peer stands still is not deregistered, and not waited for without end.
 * `direct untaken`: a target to which the channel has not come yet is written to by packets, not behind its back.
 * WEFT_TEST_LIMIT=seccomp: process_vm_* are forbidden; undumpable: /proc/self/mem too; user: the initiator is another user;
 * blind: the target has no room for the initiator's share; unlisted: the initiator's share has no place for its QP.
 * WEFT_TEST_MEMORY=mapped: buffers lie in sealed memory files; unsealed: in others. */
#include "attach.h"
#include "connect.h"

#include "control/clock.h"
#include "direct/hazard.h"
#include "link/shm.h"
#include "peers/direct_target.h"
#include "remap/pages.h"
#include "runtime/entry.h"
#include "runtime/runtime.h"
#include "runtime/state.h"
#include "verbs/cq.h"
#include "verbs/mr.h"
#include "verbs/pd.h"
#include "verbs/qp.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

enum {
	ENDS = 4,
	BYTES = 1 << 20,
	DEPTH = 16,
	ALL_ACCESS = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC,
};

struct address {
	uint32_t qpn, rkey;
	uint64_t va;
	uint16_t lid;
};

/* What a send says: this is what the target's memory holds now. */
struct claim {
	uint64_t offset, bytes, sum;
};

/* Shared by all processes. */
static struct board {
	_Atomic unsigned arrived;
	struct address target[ENDS], initiator[ENDS];
	_Atomic unsigned claims, round, total;
	_Atomic uint64_t direct_writes;	/* in the tier that is expected */
	_Atomic bool running;
	_Atomic pid_t weftd;	/* stopped by a target */
} *board;

struct end {
	struct runtime *rt;
	struct pd *pd;
	struct cq *cq;
	struct qp *qp[ENDS];
	struct mr *mr;
	uint8_t *buffer;
};

/* Everybody comes here `processes` at a time. */
static void meet(unsigned processes)
{
	unsigned mine = atomic_fetch_add(&board->arrived, 1), wave = mine / processes;

	while (atomic_load(&board->arrived) < (wave + 1) * processes)
		sched_yield();
}

static void make_qp(struct end *e, int i)
{
	struct ibv_qp_init_attr_ex init = { .qp_type = IBV_QPT_RC, .cap = { .max_send_wr = DEPTH, .max_recv_wr = DEPTH,
					    .max_send_sge = 2, .max_recv_sge = 1 } };

	check(qp_create(runtime_ca(e->rt), &runtime_ca(e->rt)->dev[0], &init, e->pd, e->cq, e->cq, NULL, NULL, &e->qp[i]), "qp");
}

/* With a page before it, so that its place in the file is not the file's start. */
static uint8_t *make_buffer(void)
{
	/* where another program has its memory too, after exec */
	void *const place = (void *)0x7e8100000000;	/* also where the sanitizers leave room */
	const char *kind = getenv("WEFT_TEST_MEMORY");
	size_t before = (size_t)sysconf(_SC_PAGESIZE);
	uint8_t *buffer;
	int fd;

	if (!kind)
		return mmap(place, BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0);
	fd = memfd_create("direct", MFD_ALLOW_SEALING);
	if (fd < 0 || ftruncate(fd, (off_t)(before + BYTES)) < 0)
		die("no memory file");
	if (strcmp(kind, "mapped") == 0 && fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK) < 0)
		die("no seals");
	buffer = mmap(NULL, before + BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	return buffer + before;
}

static const char *limit(void)
{
	return getenv("WEFT_TEST_LIMIT") ?: "";
}

/* Operations may go the direct path. */
static bool expects_direct(void)
{
	return strcmp(getenv("WEFT_PATH") ?: "", "packet") != 0 && strcmp(limit(), "undumpable") != 0 &&
	       strcmp(limit(), "user") != 0;
}

/* WEFT_REMAP: private memory becomes mapped, where the system lets its pages move. */
static bool is_mapped(void)
{
	const char *memory = getenv("WEFT_TEST_MEMORY");
	bool kernel_waits;
	int pages;

	if (!getenv("WEFT_REMAP"))
		return memory && strcmp(memory, "mapped") == 0;
	pages = pages_open(&kernel_waits);
	if (pages >= 0)
		close(pages);
	return pages >= 0;
}

/* What users and containers do to their processes. */
static void limit_process(bool is_initiator)
{
	struct sock_filter code[] = {
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_process_vm_readv, 2, 0),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_process_vm_writev, 1, 0),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EPERM),
	};
	struct sock_fprog filter = { sizeof(code) / sizeof(code[0]), code };

	if (strcmp(limit(), "seccomp") == 0 &&
	    (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) || prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &filter)))
		die("no filter");
	if (strcmp(limit(), "undumpable") == 0 && prctl(PR_SET_DUMPABLE, 0))
		die("still dumpable");
	if (strcmp(limit(), "user") == 0 && is_initiator && (setgid(65534) || setuid(65534)))
		die("still root");
}

static void open_end(struct end *e, int qps)
{
	struct ca *ca;

	e->rt = attach();
	ca = runtime_ca(e->rt);
	e->buffer = make_buffer();
	runtime_enter(e->rt);
	check(pd_create(ca, &ca->dev[0], &e->pd), "pd");
	check(cq_create(ca, &ca->dev[0], 4 * DEPTH, &e->cq), "cq");
	check(mr_create(e->pd, e->buffer, BYTES, (uintptr_t)e->buffer, ALL_ACCESS, &e->mr), "mr");
	for (int i = 0; i < qps; i++)
		make_qp(e, i);
	runtime_leave(e->rt);
}

static struct address address_of(const struct end *e, int i)
{
	return (struct address){
		.qpn = e->qp[i]->qpn, .rkey = e->mr->key, .va = (uintptr_t)e->buffer, .lid = e->qp[i]->dev->lid,
	};
}

/* From whatever state to RTS; under the lock. */
static void connect_locked(struct end *e, int i, const struct address *peer, wtime now)
{
	struct ibv_qp_attr reset = { .qp_state = IBV_QPS_RESET };

	check(qp_modify(e->qp[i], now, &reset, IBV_QP_STATE), "reset");
	rc_connect(e->qp[i], now, (struct ibv_qp_attr){
		.port_num = 1, .qp_access_flags = ALL_ACCESS & ~IBV_ACCESS_LOCAL_WRITE,
		.path_mtu = IBV_MTU_4096, .dest_qp_num = peer->qpn, .ah_attr = { .dlid = peer->lid, .port_num = 1 },
		.timeout = 12, .retry_cnt = 7, .rnr_retry = 7, .min_rnr_timer = 1,
		.max_rd_atomic = 4, .max_dest_rd_atomic = 4 });
}

static void connect_qp(struct end *e, int i, const struct address *peer)
{
	connect_locked(e, i, peer, runtime_enter(e->rt));
	runtime_leave(e->rt);
}

static bool poll_once(struct end *e, struct cqe *cqe)
{
	bool any;

	runtime_enter_poll(e->rt);
	any = cq_poll(e->cq, cqe);
	runtime_leave(e->rt);
	return any;
}

static enum ibv_wc_status wait_done(struct end *e)
{
	struct cqe cqe;

	while (!poll_once(e, &cqe))
		;
	return cqe.status;
}

static void post(struct end *e, int i, struct ibv_send_wr *wr, uint8_t *local, uint32_t bytes)
{
	/* two segments where that is possible */
	uint32_t first = bytes > 8 ? bytes / 3 : bytes;
	struct ibv_sge sge[2] = {
		{ (uintptr_t)local, first, e->mr->key }, { (uintptr_t)local + first, bytes - first, e->mr->key },
	};
	struct ibv_send_wr *bad;
	wtime now = runtime_enter(e->rt);

	wr->sg_list = sge;
	wr->num_sge = first < bytes ? 2 : 1;
	wr->send_flags |= IBV_SEND_SIGNALED;
	check(qp_post_send(e->qp[i], now, wr, &bad), "post");
	runtime_leave(e->rt);
}

static void post_access(struct end *e, int i, enum ibv_wr_opcode opcode, uint8_t *local, uint32_t bytes, uint64_t offset)
{
	const struct address *t = &board->target[i];
	struct ibv_send_wr wr = { .opcode = opcode, .wr.rdma = { t->va + offset, t->rkey } };

	post(e, i, &wr, local, bytes);
}

static void post_atomic(struct end *e, int i, enum ibv_wr_opcode opcode, uint8_t *local, uint64_t offset, uint64_t compare,
			uint64_t swap)
{
	const struct address *t = &board->target[i];
	struct ibv_send_wr wr = { .opcode = opcode, .wr.atomic = { t->va + offset, compare, swap, t->rkey } };

	post(e, i, &wr, local, 8);
}

static void post_receive(struct end *e, int i, uint64_t id)
{
	struct ibv_sge sge = { (uintptr_t)(e->buffer + BYTES - (id + 1) * 64), sizeof(struct claim), e->mr->key };
	struct ibv_recv_wr wr = { .wr_id = id, .sg_list = &sge, .num_sge = 1 };
	const struct ibv_recv_wr *bad;
	wtime now = runtime_enter(e->rt);

	check(qp_post_recv(e->qp[i], now, &wr, &bad), "post receive");
	runtime_leave(e->rt);
}

static uint64_t sum_of(const uint8_t *data, uint64_t bytes)
{
	uint64_t sum = bytes;

	for (uint64_t i = 0; i < bytes; i++)
		sum = sum * 31 + data[i];
	return sum;
}

/* ---- mix ---- */

enum { SHARED = BYTES / 2 };	/* the part of the target's buffer that the initiator plays with */

/* Order: when the send is there, so is all that was written before it. */
static void mix_target(struct end *e)
{
	struct cqe cqe;

	for (uint64_t i = 0; i < DEPTH; i++)
		post_receive(e, 0, i);
	meet(2);
	while (atomic_load(&board->running)) {
		struct claim c;

		if (!poll_once(e, &cqe))
			continue;
		if (cqe.status != IBV_WC_SUCCESS)
			die("a receive failed");
		memcpy(&c, e->buffer + BYTES - (cqe.wr_id + 1) * 64, sizeof(c));
		if (sum_of(e->buffer + c.offset, c.bytes) != c.sum)
			die("a send came before what was written before it");
		post_receive(e, 0, cqe.wr_id);
		atomic_fetch_add(&board->claims, 1);
	}
}

struct mix {
	struct end *e;
	struct rand rand;
	uint8_t *model;
	uint64_t pending;
};

static void settle(struct mix *m)
{
	for (; m->pending; m->pending--)
		if (wait_done(m->e) != IBV_WC_SUCCESS)
			die("a request failed");
}

static void mix_write(struct mix *m, uint64_t offset, uint32_t bytes)
{
	uint8_t *from = m->e->buffer + offset;

	settle(m);
	for (uint32_t i = 0; i < bytes; i++)
		from[i] = (uint8_t)rand_u64(&m->rand);
	memcpy(m->model + offset, from, bytes);
	post_access(m->e, 0, IBV_WR_RDMA_WRITE, from, bytes, offset);
	m->pending++;
}

static void mix_read(struct mix *m, uint64_t offset, uint32_t bytes)
{
	uint8_t *to = m->e->buffer + SHARED;

	memset(to, 0xee, bytes);
	post_access(m->e, 0, IBV_WR_RDMA_READ, to, bytes, offset);
	m->pending++;
	settle(m);
	if (memcmp(to, m->model + offset, bytes) != 0)
		die("a read found something else than was written");
}

static void mix_atomic_write(struct mix *m, uint64_t offset, uint64_t value)
{
	uint8_t *from = m->e->buffer + SHARED;

	memcpy(from, &value, sizeof(value));
	memcpy(m->model + offset, &value, sizeof(value));
	post_access(m->e, 0, IBV_WR_ATOMIC_WRITE, from, sizeof(value), offset);
	m->pending++;
	settle(m);
}

static void mix_atomic(struct mix *m, uint64_t offset)
{
	uint8_t *to = m->e->buffer + SHARED;
	uint64_t before, got, operand = rand_u64(&m->rand);

	if (operand % 4 == 0) {
		mix_atomic_write(m, offset, operand);
		return;
	}
	memcpy(&before, m->model + offset, 8);
	if (operand & 1)
		post_atomic(m->e, 0, IBV_WR_ATOMIC_FETCH_AND_ADD, to, offset, operand, 0);
	else
		post_atomic(m->e, 0, IBV_WR_ATOMIC_CMP_AND_SWP, to, offset, operand & 2 ? before : ~before, operand);
	m->pending++;
	settle(m);
	memcpy(&got, to, 8);
	if (got != before)
		die("an atomic found something else than was there");
	before = operand & 1 ? before + operand : operand & 2 ? operand : before;
	memcpy(m->model + offset, &before, 8);
}

static void mix_send(struct mix *m, uint64_t offset, uint32_t bytes)
{
	struct claim c = { offset, bytes, sum_of(m->model + offset, bytes) };
	unsigned claims = atomic_load(&board->claims);
	struct ibv_send_wr wr = { .opcode = IBV_WR_SEND };
	uint8_t *from = m->e->buffer + BYTES - 64;

	memcpy(from, &c, sizeof(c));
	post(m->e, 0, &wr, from, sizeof(c));
	m->pending++;
	if (rand_u64(&m->rand) % 2) {
		/* a write right behind it, elsewhere: by packets, or after the acknowledgement */
		post_access(m->e, 0, IBV_WR_RDMA_WRITE, m->e->buffer + SHARED + SHARED / 2, 8 << rand_u64(&m->rand) % 14, SHARED);
		m->pending++;
	}
	settle(m);
	while (atomic_load(&board->claims) == claims)
		sched_yield();
}

static uint32_t random_size(struct rand *r)
{
	return 1 + (uint32_t)(rand_u64(r) % (1u << rand_u64(r) % 18));
}

static void mix_initiator(struct end *e, unsigned rounds, uint64_t seed)
{
	struct mix m = { .e = e, .model = calloc(1, SHARED) };

	rand_seed(&m.rand, seed);
	meet(2);
	for (unsigned i = 0; i < rounds; i++) {
		uint32_t bytes = random_size(&m.rand);
		uint64_t offset = rand_u64(&m.rand) % (SHARED - bytes);

		switch (rand_u64(&m.rand) % 8) {
		case 0: case 1: case 2: case 3:
			mix_write(&m, offset, bytes);
			break;
		case 4: case 5:
			mix_read(&m, offset, bytes);
			break;
		case 6:
			mix_atomic(&m, offset & ~7ull & (SHARED - 8));
			break;
		default:
			mix_send(&m, offset, bytes);
			break;
		}
	}
	mix_read(&m, 0, SHARED / 2);
	mix_read(&m, SHARED / 2, SHARED / 2);
	atomic_store(&board->running, false);
	free(m.model);
}

/* ---- atomics ---- */

/* The target's own QP pair is 2 and 3, connected to itself. */
static void add_up(struct end *e, int i, unsigned rounds)
{
	for (unsigned n = 0; n < rounds; n++) {
		post_atomic(e, i, IBV_WR_ATOMIC_FETCH_AND_ADD, e->buffer + 64, 0, 1, 0);
		if (wait_done(e) != IBV_WC_SUCCESS)
			die("an atomic failed");
	}
}

/* ---- dereg ---- */

static void register_again(struct end *e, int i)
{
	memset(e->buffer, 0x55, BYTES);
	runtime_enter(e->rt);
	check(mr_create(e->pd, e->buffer, BYTES, (uintptr_t)e->buffer, ALL_ACCESS, &e->mr), "mr");
	runtime_leave(e->rt);
	board->target[i] = address_of(e, i);
}

static void dereg_target(struct end *e, unsigned rounds)
{
	for (unsigned n = 0; n < rounds; n++) {
		uint64_t direct = atomic_load(&board->direct_writes);

		connect_qp(e, 0, &board->initiator[0]);
		meet(2);
		/* some traffic first, more or less, and now and then by the path that the test is about */
		for (unsigned i = 0; i < 200 * (n % 7); i++)
			sched_yield();
		while (n % 7 == 6 && expects_direct() && atomic_load(&board->direct_writes) == direct)
			sched_yield();
		runtime_enter(e->rt);
		check(mr_destroy(e->mr), "deregister");
		memset(e->buffer, 0x77, BYTES);
		runtime_leave(e->rt);
		meet(2);
		for (unsigned i = 0; i < BYTES; i++)
			if (e->buffer[i] != 0x77)
				die("memory changed after it was deregistered");
		register_again(e, 0);
	}
}

static void dereg_initiator(struct end *e, unsigned rounds)
{
	const struct counters *c = &runtime_ca(e->rt)->counters;
	const bool mapped = is_mapped();
	enum ibv_wc_status status;

	memset(e->buffer, 0x33, BYTES);
	for (unsigned n = 0; n < rounds; n++) {
		connect_qp(e, 0, &board->target[0]);
		meet(2);
		do {
			uint32_t bytes = 1u << (n % 21);

			post_access(e, 0, IBV_WR_RDMA_WRITE, e->buffer, bytes, BYTES - bytes);
			status = wait_done(e);
			atomic_store(&board->direct_writes, mapped ? c->direct_mapped : c->direct_writes);
		} while (status == IBV_WC_SUCCESS);
		if (status != IBV_WC_REM_ACCESS_ERR)
			die("a write without a region did not end with a remote access error");
		meet(2);
	}
}

/* ---- kill ---- */

static void kill_initiator(struct end *e, pid_t target)
{
	enum ibv_wc_status status;
	unsigned n = 0;

	meet(2);
	do {
		if (n++ == 1000)
			kill(target, SIGKILL);
		post_access(e, 0, n % 2 ? IBV_WR_RDMA_WRITE : IBV_WR_RDMA_READ, e->buffer, 1u << n % 20, 0);
		status = wait_done(e);
	} while (status == IBV_WC_SUCCESS);
	if (status != IBV_WC_RETRY_EXC_ERR)
		die("a dead target did not end in retries exceeded");
}

/* ---- stopped ---- */

/* The first ones are packets: the target has not taken the channel up yet. */
static void write_directly(struct end *e)
{
	const struct counters *c = &runtime_ca(e->rt)->counters;

	do {
		post_access(e, 0, IBV_WR_RDMA_WRITE, e->buffer, 8, 0);
		check(wait_done(e) != IBV_WC_SUCCESS, "a write");
	} while (c->direct_writes == 0);
}

static void stopped_initiator(struct end *e)
{
	_Atomic uint64_t *word;

	write_directly(e);
	runtime_enter(e->rt);
	word = shm_own_hazard(direct_target_channel(&e->rt->peers, e->qp[0])->shm);
	runtime_leave(e->rt);
	hazard_begin(word, board->target[0].qpn, board->target[0].rkey);
	meet(2);
	while (atomic_load(&board->running))
		sched_yield();
	hazard_end(word);
	meet(2);
}

static int deregister(struct end *e)
{
	int err;

	runtime_enter(e->rt);
	err = mr_destroy(e->mr);
	runtime_leave(e->rt);
	return err;
}

static void stopped_target(struct end *e)
{
	meet(2);
	if (deregister(e) != -EBUSY)
		die("a region in use was deregistered");
	atomic_store(&board->running, false);
	meet(2);
	check(deregister(e), "deregister");
}

/* ---- untaken ---- */

static void untaken_initiator(struct end *e)
{
	wtime until;

	meet(2);
	connect_qp(e, 0, &board->target[0]);
	post_access(e, 0, IBV_WR_RDMA_WRITE, e->buffer, 8, 0);
	for (until = clock_now() + 200 * WTIME_MS; clock_now() < until;)
		if (poll_once(e, &(struct cqe){ 0 }))
			die("a target that has no channel was written to");
	meet(2);
	check(wait_done(e) != IBV_WC_SUCCESS, "a write");
	write_directly(e);
}

/* Nothing is taken up while the lock is held. */
static void untaken_target(struct end *e)
{
	connect_locked(e, 0, &board->initiator[0], runtime_enter(e->rt));
	meet(2);
	meet(2);
	runtime_leave(e->rt);
}

/* ---- sends ---- */

static struct rlimit unlimited;

/* What looks for leaks at the end needs room. */
static void see_again(void)
{
	setrlimit(RLIMIT_AS, &unlimited);
}

/* Room for a channel, and not for a share. */
static void go_blind(void)
{
	unsigned long pages = 0;
	FILE *f = fopen("/proc/self/statm", "re");
	struct rlimit l;

	if (!f || fscanf(f, "%lu", &pages) != 1 || getrlimit(RLIMIT_AS, &l))
		die("no limit");
	fclose(f);
	unlimited = l;
	atexit(see_again);
	l.rlim_cur = pages * (unsigned long)sysconf(_SC_PAGESIZE) + sizeof(struct share_memory) / 2;
	check(setrlimit(RLIMIT_AS, &l), "RLIMIT_AS");
}

/* With QPs that nobody has. */
static void fill_export(struct end *e)
{
	struct share_qp none = { 0 };

	runtime_enter(e->rt);
	for (uint32_t i = 0; i < 4 * SHARE_ENTRIES; i++) {
		none.qpn = i + 1;
		share_show_qp(&e->rt->peers.published.share, &none);
	}
	runtime_leave(e->rt);
}

static void send_all(struct end *e, unsigned rounds)
{
	bool direct = strcmp(limit(), "blind") != 0 && strcmp(limit(), "unlisted") != 0;
	uint64_t sent;

	meet(2);
	for (unsigned n = 0; n < rounds; n++) {
		struct ibv_send_wr wr = { .opcode = n % 3 ? IBV_WR_SEND : IBV_WR_SEND_WITH_IMM };

		post(e, 0, &wr, e->buffer, n % sizeof(struct claim));
		check(wait_done(e) != IBV_WC_SUCCESS, "a send");
	}
	sent = runtime_ca(e->rt)->counters.direct_sends;
	if (direct ? sent < rounds / 2 : sent > 0)
		die(direct ? "sends went as packets" : "messages went to who cannot know of whom");
	atomic_store(&board->running, false);
}

static void receive_all(struct end *e)
{
	struct cqe cqe;

	for (uint64_t i = 0; i < DEPTH; i++)
		post_receive(e, 0, i);
	meet(2);
	while (atomic_load(&board->running))
		if (poll_once(e, &cqe))
			post_receive(e, 0, cqe.wr_id);
}

/* ---- exec ---- */

/* Its end tells the new program that all is done. */
static int done_pipe[2];
/* The new program says that its memory is there. */
static int ready_pipe[2];

static void exec_initiator(struct end *e)
{
	enum ibv_wc_status status;

	memset(e->buffer, 0x33, BYTES);
	meet(2);
	do {
		post_access(e, 0, IBV_WR_RDMA_WRITE, e->buffer, BYTES, 0);
		status = wait_done(e);
		atomic_fetch_add(&board->round, 1);
	} while (status == IBV_WC_SUCCESS);
	if (status != IBV_WC_RETRY_EXC_ERR)
		die("another program in the target's place did not end in retries exceeded");
}

/* Writes when the new program's memory is where the target's was: the kernel alone has said that it is another's. As packets
 * it is more than the ring holds, which nobody empties. */
static void exec_unseen_initiator(struct end *e, unsigned rounds)
{
	enum ibv_wc_status status;
	uint8_t byte;

	memset(e->buffer, 0x33, BYTES);
	meet(2);
	for (unsigned n = 0; n < rounds; n++) {
		post_access(e, 0, IBV_WR_RDMA_WRITE, e->buffer, BYTES, 0);
		check(wait_done(e) != IBV_WC_SUCCESS, "a write");
	}
	meet(2);
	if (read(ready_pipe[0], &byte, 1) != 1)
		die("no new program");
	post_access(e, 0, IBV_WR_RDMA_WRITE, e->buffer, BYTES, 0);
	status = wait_done(e);
	if (status != IBV_WC_RETRY_EXC_ERR)
		die("another program in the target's place did not end in retries exceeded");
}

static void run_image(void)
{
	char done[16], ready[16];

	snprintf(done, sizeof(done), "%d", done_pipe[0]);
	snprintf(ready, sizeof(ready), "%d", ready_pipe[1]);
	execl("/proc/self/exe", "direct", "image", done, ready, (char *)NULL);
	die("no exec");
}

static void exec_target(unsigned rounds)
{
	meet(2);
	while (atomic_load(&board->round) < rounds)
		sched_yield();
	run_image();
}

static void stop_weftd(const struct end *e)
{
	struct ucred weftd;
	socklen_t bytes = sizeof(weftd);
	char name[32], state = 0;

	check(getsockopt(e->rt->session.socket, SOL_SOCKET, SO_PEERCRED, &weftd, &bytes), "SO_PEERCRED");
	snprintf(name, sizeof(name), "/proc/%d/stat", (int)weftd.pid);
	atomic_store(&board->weftd, weftd.pid);
	check(kill(weftd.pid, SIGSTOP), "SIGSTOP");
	while (state != 'T') {
		FILE *f = fopen(name, "re");

		if (!f || fscanf(f, "%*d (%*[^)]) %c", &state) != 1)
			die("no weftd");
		fclose(f);
	}
}

static void exec_unseen_target(const struct end *e)
{
	meet(2);
	meet(2);
	stop_weftd(e);
	run_image();
}

/* The new program. */
static void be_image(int done, int ready)
{
	uint8_t *buffer = make_buffer(), byte;

	memset(buffer, 0x77, BYTES);
	if (write(ready, "", 1) != 1)
		die("no initiator");
	if (read(done, &byte, 1) != 0)
		die("the initiator did not end");
	for (unsigned i = 0; i < BYTES; i++)
		if (buffer[i] != 0x77)
			die("memory of a new program was written to");
	exit(0);
}

/* ---- kill sends ---- */

static void kill_sender(struct end *e, pid_t target)
{
	enum ibv_wc_status status;
	unsigned n = 0;

	meet(2);
	do {
		struct ibv_send_wr wr = { .opcode = n % 3 ? IBV_WR_SEND : IBV_WR_SEND_WITH_IMM };

		if (n++ == 1000)
			kill(target, SIGKILL);
		post(e, 0, &wr, e->buffer, n % sizeof(struct claim));
		status = wait_done(e);
	} while (status == IBV_WC_SUCCESS);
	if (status != IBV_WC_RETRY_EXC_ERR)
		die("a dead receiver did not end in retries exceeded");
	if (runtime_ca(e->rt)->counters.direct_sends < 100)
		die("sends went as packets");
}

static void receive_until_killed(struct end *e)
{
	struct cqe cqe;

	for (uint64_t i = 0; i < DEPTH; i++)
		post_receive(e, 0, i);
	meet(2);
	for (;;) {
		if (!poll_once(e, &cqe))
			continue;
		if (cqe.status != IBV_WC_SUCCESS)
			die("a receive failed");
		post_receive(e, 0, cqe.wr_id);
	}
}

static bool kills(const char *mode)
{
	return strncmp(mode, "kill", 4) == 0;
}

/* ---- the whole ---- */

static void check_direct(const struct end *e, bool expected)
{
	const struct counters *c = &runtime_ca(e->rt)->counters;

	if ((c->direct_writes + c->direct_reads + c->direct_atomics > 0) != expected)
		die(expected ? "nothing went the direct path" : "something went the direct path");
	if ((c->direct_mapped > 0) != (expected && is_mapped()))
		die("the wrong tier of memory");
}

static bool connects_itself(const char *mode)
{
	return strcmp(mode, "dereg") == 0 || strcmp(mode, "untaken") == 0;
}

static void initiate(const char *mode, int i, unsigned rounds, uint64_t seed, unsigned processes, pid_t target)
{
	struct end e = { 0 };

	open_end(&e, i + 1);
	if (strcmp(limit(), "unlisted") == 0)
		fill_export(&e);
	board->initiator[i] = address_of(&e, i);
	meet(processes);
	if (!connects_itself(mode))
		connect_qp(&e, i, &board->target[i]);
	meet(processes);
	if (strcmp(mode, "mix") == 0)
		mix_initiator(&e, rounds, seed);
	else if (strcmp(mode, "dereg") == 0)
		dereg_initiator(&e, rounds);
	else if (strcmp(mode, "kill") == 0)
		kill_initiator(&e, target);
	else if (strcmp(mode, "exec") == 0)
		exec_initiator(&e);
	else if (strcmp(mode, "exec_unseen") == 0)
		exec_unseen_initiator(&e, rounds);
	else if (strcmp(mode, "stopped") == 0)
		stopped_initiator(&e);
	else if (strcmp(mode, "untaken") == 0)
		untaken_initiator(&e);
	else if (strcmp(mode, "kill_sends") == 0)
		kill_sender(&e, target);
	else if (strcmp(mode, "sends") == 0)
		send_all(&e, rounds);
	else
		add_up(&e, i, rounds);
	if (!strstr(mode, "sends"))
		check_direct(&e, expects_direct());
	meet(processes - (kills(mode) || strncmp(mode, "exec", 4) == 0));
	exit(0);
}

static void be_target(const char *mode, unsigned rounds, unsigned initiators)
{
	struct end e = { 0 };
	uint64_t total;

	open_end(&e, ENDS);
	if (strcmp(limit(), "blind") == 0)
		go_blind();
	for (int i = 0; i < ENDS; i++)
		board->target[i] = address_of(&e, i);
	meet(initiators + 1);
	if (!connects_itself(mode))
		for (unsigned i = 0; i < initiators; i++)
			connect_qp(&e, (int)i, &board->initiator[i]);
	meet(initiators + 1);
	if (strcmp(mode, "mix") == 0) {
		mix_target(&e);
	} else if (strcmp(mode, "dereg") == 0) {
		dereg_target(&e, rounds);
	} else if (strcmp(mode, "sends") == 0) {
		receive_all(&e);
	} else if (strcmp(mode, "kill_sends") == 0) {
		receive_until_killed(&e);
	} else if (strcmp(mode, "kill") == 0) {
		meet(2);
		for (;;)
			pause();
	} else if (strcmp(mode, "exec") == 0) {
		exec_target(rounds);
	} else if (strcmp(mode, "exec_unseen") == 0) {
		exec_unseen_target(&e);
	} else if (strcmp(mode, "stopped") == 0) {
		stopped_target(&e);
	} else if (strcmp(mode, "untaken") == 0) {
		untaken_target(&e);
	} else {
		connect_qp(&e, 2, &board->target[3]);
		connect_qp(&e, 3, &board->target[2]);
		add_up(&e, 2, rounds);
	}
	meet(initiators + 1);
	if (strcmp(mode, "atomics") == 0) {
		total = __atomic_load_n((uint64_t *)(void *)e.buffer, __ATOMIC_ACQUIRE);
		if (total != (uint64_t)rounds * (initiators + 1))
			die("an addition was lost");
	}
	exit(0);
}

int main(int argc, char **argv)
{
	const char *mode = argc > 1 ? argv[1] : "";
	unsigned rounds = argc > 2 ? (unsigned)strtoul(argv[2], NULL, 0) : 0, initiators = strcmp(mode, "atomics") == 0 ? 2 : 1;
	uint64_t seed = argc > 3 ? strtoull(argv[3], NULL, 0) : 1;
	pid_t target, child;
	int status, failed = 0;

	if (strcmp(mode, "image") == 0)
		be_image((int)rounds, (int)seed);
	check(pipe(done_pipe), "pipe");
	check(pipe(ready_pipe), "pipe");
	board = share_with_children(sizeof(*board));
	atomic_store(&board->running, true);
	target = fork();
	if (target == 0) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		close(done_pipe[1]);
		limit_process(false);
		be_target(mode, rounds, initiators);
	}
	for (unsigned i = 0; i < initiators; i++) {
		if (fork())
			continue;
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		close(ready_pipe[1]);
		limit_process(true);
		/* the second of them goes by packets alone */
		if (i == 1)
			setenv("WEFT_PATH", "packet", 1);
		initiate(mode, (int)i, rounds, seed, initiators + 1, target);
	}
	close(done_pipe[1]);
	close(ready_pipe[1]);
	while (!failed && (child = wait(&status)) > 0) {
		bool should_die = child == target && kills(mode);

		failed = !should_die && (!WIFEXITED(status) || WEXITSTATUS(status) != 0);
	}
	if (atomic_load(&board->weftd))
		kill(atomic_load(&board->weftd), SIGCONT);
	return failed;
}
