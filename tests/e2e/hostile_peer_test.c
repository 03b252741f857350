/* What a process may do to one of another user through the channel between them (peers/channel.c): send, and nothing else. One
 * weftd for all users, a victim that stands on the object model, and attackers of other users that speak the control protocol
 * themselves and write into the channel what they like. Needs root, to be several users. */
#include "control_client.h"

#include "../rc_steps.h"
#include "base/rand.h"
#include "direct/hazard.h"
#include "direct/share.h"
#include "link/ring.h"
#include "link/wake.h"
#include "runtime/entry.h"
#include "runtime/runtime.h"
#include "runtime/state.h"
#include "verbs/cq.h"
#include "verbs/mr.h"
#include "verbs/pd.h"
#include "verbs/qp.h"
#include "weftd/hub.h"
#include "wire/pkey.h"

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { VICTIM = 20001, ATTACKER = 20002, USERS = QUOTA_FOREIGN / QUOTA_FOREIGN_USER, SKIP = 77 };

/* Shared by all processes of a test. */
static struct board {
	_Atomic uint32_t slot, key, watched, ready, qpn, liar;
	_Atomic uint64_t direct;
	_Atomic uint64_t frames;
	_Atomic int result;
	_Atomic bool go, stop, spoilt;
} *board;

/* The channel's memory, link/shm.c, as side 0 has it. */
struct side {
	_Alignas(RING_LINE) _Atomic uint32_t state;
	_Atomic uint32_t rings, reads, held, heeds;
	_Alignas(RING_LINE) _Atomic uint64_t access;
};

struct memory {
	struct side side[2];
	struct ring_words words[2];
	_Alignas(4096) uint8_t lines[2][RING_BYTES];
};

enum { LOOKS = 0, SLEEPS = 1 };

/* An attacker's end of a channel. */
struct attack {
	struct peer *peer;
	struct memory *memory;
	struct ring_producer tx;
	int wake, own;
};

/* Of the test at hand. */
static pid_t child[16];
static int children;

static pid_t run_as(uid_t user, void (*run)(void))
{
	pid_t pid = fork();

	if (pid == 0) {
		/* as if it had been started by that user: it may open its own memory */
		if (setgid(user) || setuid(user) || prctl(PR_SET_DUMPABLE, 1) || prctl(PR_SET_PDEATHSIG, SIGKILL))
			_exit(125);
		run();
		_exit(0);
	}
	child[children++] = pid;
	return pid;
}

/* False: it did not come to be in time. */
static bool await(bool (*holds)(uint64_t limit), uint64_t limit)
{
	time_t deadline = time(NULL) + PATIENCE_MS / 1000;

	while (!holds(limit)) {
		if (time(NULL) > deadline)
			return false;
		sched_yield();
	}
	return true;
}

static bool is_there(uint64_t n)
{
	return atomic_load(&board->slot) != 0 && atomic_load(&board->ready) >= n;
}

static bool took(uint64_t frames)
{
	return atomic_load(&board->frames) >= frames;
}

static bool watches_at_most(uint64_t n)
{
	return atomic_load(&board->watched) <= n;
}

static bool has_result(uint64_t unused)
{
	(void)unused;
	return atomic_load(&board->result) != INT32_MAX;
}

static void reset(void)
{
	memset(board, 0, sizeof(*board));
	atomic_store(&board->result, INT32_MAX);
}

/* A process of the test's own. */
static struct peer *own;

static int end_children(void **state)
{
	(void)state;
	if (own)
		leave(own);
	own = NULL;
	while (children) {
		kill(child[--children], SIGKILL);
		waitpid(child[children], NULL, 0);
	}
	return 0;
}

/* ---- victims ---- */

static struct runtime *attach(void)
{
	struct runtime *rt = runtime_get();

	if (!rt)
		_exit(1);
	return rt;
}

static void poll_for_ever(void)
{
	struct runtime *rt = attach();

	atomic_store(&board->watched, UINT32_MAX);
	for (;;) {
		runtime_enter_poll(rt);
		atomic_store(&board->frames, rt->frames);
		if (rt->peers.channels.count > 1)
			atomic_store(&board->watched, rt->peers.links.watched_count);
		runtime_leave(rt);
		atomic_store(&board->slot, rt->peers.slot);
	}
}

/* The other end's request makes weftd open one at ours, some time later. The first of all leads to ourselves. */
static bool has_foreign_channel(struct runtime *rt)
{
	bool has = false;

	runtime_enter(rt);
	for (uint32_t i = 0; i < rt->peers.channels.count; i++)
		has |= rt->peers.channels.open[i]->is_foreign;
	runtime_leave(rt);
	return has;
}

static void deregister_when_told(void)
{
	static uint8_t buffer[4096];
	struct runtime *rt = attach();
	struct ca *ca = runtime_ca(rt);
	struct pd *pd;
	struct mr *mr;
	int err;

	runtime_enter(rt);
	err = pd_create(ca, &ca->dev[0], &pd);
	if (!err)
		err = mr_create(pd, buffer, sizeof(buffer), (uintptr_t)buffer, IBV_ACCESS_REMOTE_READ, &mr);
	runtime_leave(rt);
	if (err)
		_exit(1);
	atomic_store(&board->key, mr->key);
	atomic_store(&board->slot, rt->peers.slot);
	while (!atomic_load(&board->go) || !has_foreign_channel(rt))
		sched_yield();
	runtime_enter(rt);
	err = mr_destroy(mr);
	runtime_leave(rt);
	atomic_store(&board->result, err);
	pause();
}

static void sleep_for_ever(void)
{
	struct runtime *rt = attach();

	atomic_store(&board->slot, rt->peers.slot);
	for (;;)
		pause();
}

/* ---- a peer of the same user, whose share is rubbish now and then ---- */

enum { LIAR_KEY = 0x4d00 };

static struct qp *connect_liar(struct runtime *rt, struct qp *qp)
{
	struct ibv_qp_attr attr = { .port_num = 1, .path_mtu = IBV_MTU_1024, .dest_qp_num = atomic_load(&board->liar),
				    .ah_attr = { .dlid = qp->dev->lid, .port_num = 1 }, .timeout = 1, .retry_cnt = 1,
				    .max_rd_atomic = 1, .max_dest_rd_atomic = 1 };
	wtime now = runtime_enter(rt);

	for (unsigned i = 0; i <= RC_STEPS; i++) {
		attr.qp_state = i ? rc_step[i - 1].to : IBV_QPS_RESET;
		if (qp_modify(qp, now, &attr, i ? rc_step[i - 1].mask : IBV_QP_STATE))
			_exit(1);
	}
	runtime_leave(rt);
	return qp;
}

static void use_liar(void)
{
	static const enum ibv_wr_opcode ops[] = { IBV_WR_RDMA_WRITE, IBV_WR_RDMA_READ, IBV_WR_ATOMIC_FETCH_AND_ADD,
						  IBV_WR_SEND };
	static uint64_t buffer[64];
	struct ibv_qp_init_attr_ex init = { .qp_type = IBV_QPT_RC, .cap = { .max_send_wr = 4, .max_recv_wr = 1, .max_send_sge = 1,
									   .max_recv_sge = 1 } };
	struct runtime *rt = attach();
	struct ca *ca = runtime_ca(rt);
	struct pd *pd;
	struct cq *cq;
	struct mr *mr;
	struct qp *qp;
	struct cqe cqe = { .status = IBV_WC_SUCCESS };

	runtime_enter(rt);
	if (pd_create(ca, &ca->dev[0], &pd) || cq_create(ca, &ca->dev[0], 8, &cq) ||
	    mr_create(pd, buffer, sizeof(buffer), (uintptr_t)buffer, IBV_ACCESS_LOCAL_WRITE, &mr) ||
	    qp_create(ca, &ca->dev[0], &init, pd, cq, cq, NULL, NULL, &qp))
		_exit(1);
	runtime_leave(rt);
	atomic_store(&board->qpn, qp->qpn);
	atomic_store(&board->slot, rt->peers.slot);
	while (!atomic_load(&board->liar))
		sched_yield();
	connect_liar(rt, qp);
	for (uint64_t i = 0;; i++) {
		bool is_atomic = ops[i % 4] == IBV_WR_ATOMIC_FETCH_AND_ADD, any = false;
		struct ibv_sge sge = { (uintptr_t)buffer, 8u << (is_atomic ? 0 : i % 7), mr->key };
		struct ibv_send_wr wr = { .sg_list = &sge, .num_sge = 1, .opcode = ops[i % 4], .send_flags = IBV_SEND_SIGNALED,
					  .wr.rdma = { 4096 * (i % 3), LIAR_KEY } }, *bad;
		struct ibv_sge into = { (uintptr_t)buffer, sizeof(buffer), mr->key };
		const struct ibv_recv_wr receive = { .sg_list = &into, .num_sge = 1 }, *bad_receive;
		wtime now = runtime_enter(rt);

		(void)qp_post_recv(qp, now, &receive, &bad_receive);	/* one may wait still; each send promises it */
		if (is_atomic) {
			wr.wr.atomic.remote_addr = 0;
			wr.wr.atomic.rkey = LIAR_KEY;
		}
		if (qp_post_send(qp, now, &wr, &bad))
			_exit(1);
		runtime_leave(rt);
		while (!any) {
			runtime_enter_poll(rt);
			any = cq_poll(cq, &cqe);
			if (any)
				runtime_poll_found();
			runtime_leave(rt);
		}
		atomic_store(&board->frames, i);
		atomic_store(&board->direct,
			     ca->counters.direct_writes + ca->counters.direct_reads + ca->counters.direct_atomics);
		if (cqe.status != IBV_WC_SUCCESS)
			connect_liar(rt, qp);
	}
}

static struct share_memory *make_export(int *fd)
{
	struct share_memory *m;

	*fd = memfd_create("share", MFD_CLOEXEC | MFD_ALLOW_SEALING);
	if (*fd < 0 || ftruncate(*fd, sizeof(*m)) || fcntl(*fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW))
		_exit(1);
	m = mmap(NULL, sizeof(*m), PROT_READ | PROT_WRITE, MAP_SHARED, *fd, 0);
	return m == MAP_FAILED ? NULL : m;
}

/* The word by which the table's key is found. */
static _Atomic uint64_t *way_of(struct share_table *t, uint32_t key)
{
	for (uint32_t i = 0; i < SHARE_BUCKETS * SHARE_WAYS; i++)
		if (atomic_load(&t->way[i / SHARE_WAYS][i % SHARE_WAYS]) >> 32 == key)
			return &t->way[i / SHARE_WAYS][i % SHARE_WAYS];
	_exit(1);
}

/* Each line is a record, and behind the last one is the first: it has no end. */
static void spoil_ring(uint8_t lines[RING_BYTES])
{
	enum { BYTES = 48, KIND = 15 };

	for (uint32_t at = 0; at < RING_BYTES / RING_LINE; at++)
		atomic_store(ring_word(lines, at), RING_VALID | (uint32_t)KIND << RING_KIND_SHIFT | BYTES);
	atomic_store(&board->spoilt, true);
}

/* Shows a QP and a region as they should be, and spoils a word here and there; seldom also where the region's entry is. After a
 * while its ring has nothing but rubbish. */
static void lie(struct share *e, uint32_t qpn, struct ring_consumer *rx, uint8_t *tx_lines)
{
	static uint8_t record[RING_MAX_RECORD], target[3 * 4096];
	struct share_qp qp = { .qpn = qpn, .peer_qpn = atomic_load(&board->qpn), .pd = 4, .type = IBV_QPT_RC, .depth = 16,
				.dlid = 1, .pkey = PKEY_DEFAULT,
				.access = IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC };
	struct share_region region = { .key = LIAR_KEY, .pd = 4, .length = sizeof(target), .address = (uintptr_t)target,
					.access = qp.access };
	struct rand r;
	unsigned kind;

	rand_seed(&r, 1);
	for (uint64_t n = 0;; n++) {
		uint32_t shown = share_show_qp(e, &qp), at = share_show_region(e, &region);

		usleep(100);
		while (ring_take(rx, record, sizeof(record), &kind))
			ring_publish(rx, true);
		for (unsigned i = 0; i < n % 8; i++) {
			struct share_table *t = rand_below(&r, 2) ? &e->memory->qps : &e->memory->regions;
			uint32_t entry = t == &e->memory->qps ? shown - 1 : at - 1;

			atomic_store(&t->entry[entry].word[rand_below(&r, SHARE_WORDS)], rand_u64(&r) >> rand_below(&r, 64));
			atomic_store(&e->memory->received[entry].psn, (uint32_t)rand_u64(&r));
			atomic_store(&e->memory->bells.sleeping, (uint32_t)rand_below(&r, 4));
			atomic_store(&e->memory->atomics.holder, (uint32_t)rand_u64(&r) * (uint32_t)rand_below(&r, 2));
		}
		if (n == 2000)
			spoil_ring(tx_lines);
		if (n % 16 == 15)
			atomic_store(way_of(&e->memory->regions, LIAR_KEY), (uint64_t)LIAR_KEY << 32 | rand_u64(&r) >> 32);
		usleep(50);
		share_hide_qp(e, shown);
		share_hide_region(e, at);
	}
}

static void be_liar(void)
{
	static uint64_t nonce = 0x1234567;
	struct control_msg msg = { .type = CTL_HELLO, .seq = 5, .a = CONTROL_PROCESS, .b = CONTROL_VERSION };
	struct peer *p = connect_peer();
	struct ring_consumer rx;
	struct memory *memory;
	struct share e;
	uint32_t qpn;
	int fds[3];

	if (share_init(&e, make_export(&fds[1])))
		_exit(1);
	e.memory->magic = SHARE_MAGIC;
	e.memory->version = SHARE_VERSION;
	e.memory->pid = getpid();
	e.memory->nonce = nonce;
	e.memory->nonce_address = (uintptr_t)&nonce;
	e.memory->scratch_address = (uintptr_t)e.memory;
	fds[0] = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	fds[2] = open("/proc/self/mem", O_RDWR | O_CLOEXEC);
	if (message_greet(p->socket, &msg, fds, 3) || next(p, &msg))
		_exit(1);
	drop_fds(p);
	qpn = msg.slot << 12 | 5;
	atomic_store(&board->liar, qpn);
	if (next(p, &msg) || msg.type != CTL_CHANNEL)
		_exit(1);
	memory = mmap(NULL, sizeof(*memory), PROT_READ | PROT_WRITE, MAP_SHARED, p->fds[0], 0);
	atomic_store(&memory->side[msg.a].heeds, 1);
	atomic_store(&memory->side[msg.a].reads, 1);
	ring_consumer_init(&rx, &memory->words[msg.a ^ 1], memory->lines[msg.a ^ 1]);
	atomic_store(&memory->side[msg.a].heeds, 1);
	lie(&e, qpn, &rx, memory->lines[msg.a]);
}

/* ---- attackers ---- */

static struct peer *come(void)
{
	struct peer *p = connect_peer();

	p->wake_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	if (hello(p, CONTROL_PROCESS, CONTROL_VERSION, p->wake_fd))
		_exit(3);
	drop_fds(p);
	return p;
}

/* weftd's status. */
static int open_channel(struct attack *a)
{
	struct control_msg msg = { .type = CTL_CHANNEL, .slot = atomic_load(&board->slot) };
	int status;

	*a = (struct attack){ .peer = come() };
	status = call(a->peer, &msg);
	if (status)
		return status;
	if (a->peer->nfds < 3)
		_exit(4);
	a->memory = mmap(NULL, sizeof(*a->memory), PROT_READ | PROT_WRITE, MAP_SHARED, a->peer->fds[0], 0);
	a->wake = a->peer->fds[1];
	a->own = a->peer->fds[2];
	ring_producer_init(&a->tx, &a->memory->words[0], a->memory->lines[0]);
	return 0;
}

/* A frame that no QP takes. */
static void send_rubbish(struct attack *a)
{
	void *frame;

	while (!(frame = ring_reserve(&a->tx, 64)))
		sched_yield();
	memset(frame, 0, 64);
	ring_commit(&a->tx, 64, 0);
}

/* As an eventfd that is full, and whose writers wait. */
static void spoil(int fd)
{
	uint64_t most = UINT64_MAX - 1;

	(void)!write(fd, &most, sizeof(most));
	fcntl(fd, F_SETFL, 0);
}

static void ask_for_wakes(void)
{
	struct attack a;

	if (open_channel(&a))
		_exit(2);
	for (int i = 0; i < a.peer->nfds; i++)
		spoil(a.peer->fds[i]);
	spoil(a.peer->wake_fd);
	for (;;) {
		atomic_store(&a.memory->side[0].state, SLEEPS);
		atomic_store(&a.memory->words[0].blocked, 1);
		send_rubbish(&a);
		sched_yield();
	}
}

static void say_busy(void)
{
	struct attack a;

	if (open_channel(&a))
		_exit(2);
	atomic_store(&a.memory->side[0].access, HAZARD_BUSY | atomic_load(&board->key));
	atomic_fetch_add(&board->ready, 1);
	pause();
}

/* It breaks the ring's rules, so that the victim closes the channel, and rings on. */
static void ring_after_the_end(void)
{
	struct attack a;

	if (open_channel(&a))
		_exit(2);
	atomic_store(ring_word(a.memory->lines[0], 0), RING_SKIP);
	atomic_store(&a.memory->side[1].state, LOOKS);
	wake_timer_set(a.wake);
	/* it rests once more before it closes the channel; then nobody takes the timer's ticks away */
	for (int i = 0; i < 50; i++) {
		sched_yield();
		wake_timer_set(a.wake);
	}
	atomic_fetch_add(&board->ready, 1);
	pause();
}

enum { MANY = 20, FEW = 8 };

/* Then the last of those that rest is used. */
static void open_many(void)
{
	static struct attack a[MANY];
	int i = MANY - 1;

	for (int n = 0; n < MANY; n++)
		if (open_channel(&a[n]))
			_exit(2);
	atomic_fetch_add(&board->ready, 1);
	while (!atomic_load(&board->go))
		sched_yield();
	while (i && atomic_load(&a[i].memory->side[1].state) != SLEEPS)
		i--;
	send_rubbish(&a[i]);
	if (atomic_exchange(&a[i].memory->side[1].state, LOOKS) == SLEEPS)
		wake_timer_set(a[i].wake);
	pause();
}

static void open_its_share(void)
{
	struct attack a;
	int status = 0, opened = 0;

	while (!status && opened <= QUOTA_FOREIGN_USER) {
		status = open_channel(&a);
		opened += !status;
	}
	atomic_store(&board->result, status == EDQUOT ? opened : -1);
	pause();
}

/* ---- the tests ---- */

static void a_peer_that_spoils_its_descriptors_does_not_stop_who_wakes_it(void **state)
{

	(void)state;
	reset();
	run_as(VICTIM, poll_for_ever);
	assert_true(await(is_there, 0));
	run_as(ATTACKER, ask_for_wakes);
	assert_true(await(took, 1000));
}

static void a_peer_that_is_at_nothing_is_not_waited_for(void **state)
{

	(void)state;
	reset();
	run_as(VICTIM, deregister_when_told);
	assert_true(await(is_there, 0));
	run_as(ATTACKER, say_busy);
	assert_true(await(is_there, 1));
	atomic_store(&board->go, true);
	assert_true(await(has_result, 0));
	assert_int_equal(atomic_load(&board->result), 0);
}

static void idle_channels_rest_until_they_are_used(void **state)
{
	uint64_t before;

	(void)state;
	reset();
	run_as(VICTIM, poll_for_ever);
	assert_true(await(is_there, 0));
	run_as(ATTACKER, open_many);
	assert_true(await(is_there, 1));
	assert_true(await(watches_at_most, FEW));
	before = atomic_load(&board->frames);
	atomic_store(&board->go, true);
	assert_true(await(took, before + 1));
}

static uint64_t cpu_ns(pid_t pid)
{
	clockid_t clock;
	struct timespec t;

	assert_int_equal(clock_getcpuclockid(pid, &clock), 0);
	assert_int_equal(clock_gettime(clock, &t), 0);
	return (uint64_t)t.tv_sec * 1000000000 + (uint64_t)t.tv_nsec;
}

static uint64_t now_ns(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (uint64_t)t.tv_sec * 1000000000 + (uint64_t)t.tv_nsec;
}

/* It does not look without end for who rings. */
static void a_channel_that_is_closed_wakes_nobody(void **state)
{
	enum { LOOK_NS = 300000000 };
	uint64_t used, start;
	pid_t victim;

	(void)state;
	reset();
	victim = run_as(VICTIM, sleep_for_ever);
	assert_true(await(is_there, 0));
	run_as(ATTACKER, ring_after_the_end);
	assert_true(await(is_there, 1));
	used = cpu_ns(victim);
	for (start = now_ns(); now_ns() < start + LOOK_NS;)
		sched_yield();
	assert_true(cpu_ns(victim) - used < LOOK_NS / 10);
}

static bool went_directly(uint64_t n)
{
	return atomic_load(&board->direct) >= n;
}

static bool has_spoilt_its_ring(uint64_t unused)
{
	(void)unused;
	return atomic_load(&board->spoilt);
}

/* It is of our user, and has our memory anyway; but to be wrong is not to take us along. */
static void an_export_of_rubbish_is_survived(void **state)
{
	uint64_t frames;

	(void)state;
	reset();
	run_as(VICTIM, use_liar);
	assert_true(await(is_there, 0));
	run_as(VICTIM, be_liar);
	assert_true(await(went_directly, 100));
	frames = atomic_load(&board->frames);
	assert_true(await(took, frames + 2000));
	assert_true(await(has_spoilt_its_ring, 0));
	frames = atomic_load(&board->frames);
	assert_true(await(took, frames + 100));
}

static void a_user_and_all_users_have_so_many_channels_to_a_process(void **state)
{
	struct control_msg msg = { .type = CTL_CHANNEL };
	struct peer *kin;

	(void)state;
	own = join(CONTROL_PROCESS);
	msg.slot = own->slot;
	for (uid_t i = 0; i <= USERS; i++) {
		reset();
		atomic_store(&board->slot, own->slot);
		run_as(ATTACKER + i, open_its_share);
		assert_true(await(has_result, 0));
		assert_int_equal(atomic_load(&board->result), i < USERS ? QUOTA_FOREIGN_USER : 0);
	}
	kin = join(CONTROL_PROCESS);
	assert_int_equal(call(kin, &msg), 0);
	assert_int_equal(msg.c & CHANNEL_FOREIGN, 0);
	leave(kin);
}

static int start_system(void **state)
{
	(void)state;
	snprintf(dir, sizeof(dir), "/tmp/weft-foreign.XXXXXX");
	assert_non_null(mkdtemp(dir));
	assert_int_equal(chmod(dir, 0755), 0);
	setenv("WEFT_DIR", dir, 1);
	setenv("WEFT_IDLE_S", "600", 1);
	board = mmap(NULL, sizeof(*board), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	return exit_status(spawn(WEFTD, "--system"));
}

/* A weftd that ends while processes are attached leaves files for the next. */
static int stop_system(void **state)
{
	wait_for("slots_used", 0);
	return stop_daemon(state);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_teardown(a_peer_that_spoils_its_descriptors_does_not_stop_who_wakes_it, end_children),
		cmocka_unit_test_teardown(a_peer_that_is_at_nothing_is_not_waited_for, end_children),
		cmocka_unit_test_teardown(a_channel_that_is_closed_wakes_nobody, end_children),
		cmocka_unit_test_teardown(idle_channels_rest_until_they_are_used, end_children),
		cmocka_unit_test_teardown(an_export_of_rubbish_is_survived, end_children),
		cmocka_unit_test_teardown(a_user_and_all_users_have_so_many_channels_to_a_process, end_children),
	};

	if (geteuid()) {
		printf("skipped: needs root\n");
		return SKIP;
	}
	return cmocka_run_group_tests(tests, start_system, stop_system);
}
