/* A process with many peers, some of whose channels rest, forks: the child lives, keeps what others of its handlers have mapped
 * meanwhile where the parent has its channels and shares, which do not come along, and uses an adapter of its own. It has none
 * of the parent's descriptors, and what it does with the parent's objects happens to copies of its own. A second child is made
 * while another thread is inside the adapter. `fork PEERS`. Needs WEFT_DIR of a running weftd. Exit 0: all of it. */
#include "attach.h"
#include "channel.h"
#include "connect.h"

#include "direct/rma.h"
#include "link/shm.h"
#include "peers/peer.h"
#include "runtime/entry.h"
#include "runtime/process.h"
#include "runtime/runtime.h"
#include "runtime/state.h"
#include "verbs/cq.h"
#include "verbs/mr.h"
#include "verbs/pd.h"

#include <dirent.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>

enum { PEERS_MOST = 64, FILL = 0x5a, DEPTH = 4, DESCRIPTORS = 2048, PATIENCE_S = 60 };

/* Shared by all. */
static struct board {
	_Atomic uint32_t slot[PEERS_MOST];
} *board;

/* Pages of the parent's that a child does not have, and has again with something else in them. */
static struct {
	uint8_t *page[2 * PEERS_MOST + 1];
	unsigned pages;
} holes;

static size_t page_bytes(void)
{
	return (size_t)sysconf(_SC_PAGESIZE);
}

static void note_hole(const volatile void *at)
{
	holes.page[holes.pages++] = (uint8_t *)((uintptr_t)at & ~(uintptr_t)(page_bytes() - 1));
}

/* A child handler that was registered before any of weft's. */
static void map_into_holes(void)
{
	for (unsigned i = 0; i < holes.pages; i++) {
		uint8_t *p = mmap(holes.page[i], page_bytes(), PROT_READ | PROT_WRITE,
				  MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0);

		if (p != holes.page[i])
			die("the child has what it should not have");
		memset(p, FILL, page_bytes());
	}
}

static void be_peer(unsigned i)
{
	struct runtime *rt;

	prctl(PR_SET_PDEATHSIG, SIGKILL);
	rt = attach();
	atomic_store(&board->slot[i], rt->peers.slot);
	for (;;)
		pause();
}

static uint32_t await_slot(unsigned i)
{
	uint32_t slot;

	while (!(slot = atomic_load(&board->slot[i])))
		sched_yield();
	return slot;
}

/* Once the peer has mapped our bells. */
static void let_last_rest(struct runtime *rt)
{
	bool rests = false;

	while (!rests) {
		runtime_enter(rt);
		channel_rest(&rt->peers.channels, rt->peers.channels.open[rt->peers.channels.count - 1]);
		rests = !list_linked(&rt->peers.channels.open[rt->peers.channels.count - 1]->link->watched);
		runtime_leave(rt);
		sched_yield();
	}
}

static void open_channels(struct runtime *rt, unsigned peers)
{
	runtime_enter(rt);
	for (unsigned i = 0; i < peers; i++) {
		const struct channel *ch = channel_await(rt, await_slot(i));

		if (!ch || !ch->peer)
			die("no direct path to a peer");
		note_hole(shm_own_hazard(ch->shm));
		note_hole(peer_rma(ch->peer)->share);
	}
	runtime_leave(rt);
	let_last_rest(rt);
}

static void use_adapter(void)
{
	static uint8_t buffer[4096];
	struct runtime *rt = attach();
	struct ca *ca;
	struct pd *pd;
	struct mr *mr;

	ca = runtime_ca(rt);
	runtime_enter(rt);
	check(pd_create(ca, &ca->dev[0], &pd), "pd");
	check(mr_create(pd, buffer, sizeof(buffer), (uintptr_t)buffer, IBV_ACCESS_LOCAL_WRITE, &mr), "mr");
	if (!channel_await(rt, await_slot(0)))
		die("no channel");
	runtime_leave(rt);
}

/* ---- what the child has of the parent's ---- */

static bool was_open[DESCRIPTORS];

static void look_at_descriptors(bool is_open[DESCRIPTORS])
{
	DIR *list = opendir("/proc/self/fd");
	const struct dirent *e;

	memset(is_open, 0, DESCRIPTORS * sizeof(*is_open));
	while (list && (e = readdir(list)))
		if (e->d_name[0] != '.' && atoi(e->d_name) != dirfd(list) && atoi(e->d_name) < DESCRIPTORS)
			is_open[atoi(e->d_name)] = true;
	closedir(list);
}

static void expect_no_descriptors_more(void)
{
	bool is_open[DESCRIPTORS];

	look_at_descriptors(is_open);
	for (int fd = 0; fd < DESCRIPTORS; fd++)
		if (is_open[fd] && !was_open[fd])
			die("the child has a descriptor of the parent's adapter");
}

/* The parent's, connected to itself. */
static struct {
	struct runtime *rt;
	struct pd *pd;
	struct cq *cq;
	struct mr *mr;
	struct qp *qp;
	uint8_t sent[8], received[8];
} own;

static void post_to_itself(uint8_t what)
{
	struct ibv_sge to = { (uintptr_t)own.received, sizeof(own.received), own.mr ? own.mr->key : 0 };
	struct ibv_sge from = { (uintptr_t)own.sent, sizeof(own.sent), 0 };
	struct ibv_recv_wr recv = { .sg_list = &to, .num_sge = 1 };
	struct ibv_send_wr *bad, send = { .sg_list = &from, .num_sge = 1, .opcode = IBV_WR_SEND,
					  .send_flags = IBV_SEND_INLINE | IBV_SEND_SIGNALED };
	const struct ibv_recv_wr *bad_recv;
	wtime now = runtime_enter(own.rt);

	memset(own.sent, what, sizeof(own.sent));
	check(qp_post_recv(own.qp, now, &recv, &bad_recv), "post receive");
	check(qp_post_send(own.qp, now, &send, &bad), "post send");
	runtime_leave(own.rt);
}

static void open_own(struct runtime *rt)
{
	struct ibv_qp_init_attr_ex init = { .qp_type = IBV_QPT_RC, .cap = { DEPTH, DEPTH, 1, 1, sizeof(own.sent) } };
	struct ca *ca = runtime_ca(rt);
	wtime now = runtime_enter(rt);

	own.rt = rt;
	check(pd_create(ca, &ca->dev[0], &own.pd), "pd");
	check(cq_create(ca, &ca->dev[0], 4 * DEPTH, &own.cq), "cq");
	check(mr_create(own.pd, own.received, sizeof(own.received), (uintptr_t)own.received, IBV_ACCESS_LOCAL_WRITE, &own.mr),
	      "mr");
	check(qp_create(ca, &ca->dev[0], &init, own.pd, own.cq, own.cq, NULL, NULL, &own.qp), "qp");
	rc_connect(own.qp, now, (struct ibv_qp_attr){
		.port_num = 1, .path_mtu = IBV_MTU_4096, .dest_qp_num = own.qp->qpn,
		.ah_attr = { .dlid = own.qp->dev->lid, .port_num = 1 }, .timeout = 14, .retry_cnt = 7, .rnr_retry = 7,
		.min_rnr_timer = 1 });
	runtime_leave(rt);
}

/* Both completions of what was posted to itself. */
static void reap_own(const char *what)
{
	struct cqe cqe;

	for (int n = 0; n < 2;) {
		bool any;

		runtime_enter_poll(own.rt);
		any = cq_poll(own.cq, &cqe);
		if (any)
			runtime_poll_found();
		runtime_leave(own.rt);
		check(any && cqe.status != IBV_WC_SUCCESS, what);
		n += any;
	}
}

/* Has a completion for each half, which nobody has polled. */
static void leave_completions(void)
{
	post_to_itself(1);
	for (unsigned n = 0; n < 2;) {
		runtime_enter_poll(own.rt);
		n = own.cq->engine.tail;
		runtime_poll_found();
		runtime_leave(own.rt);
	}
}

/* The first byte of all queues. */
static volatile uint8_t *queue_memory(void)
{
	return own.rt->arena.base;
}

/* In a thread of its own, for which the lock must not be taken. */
static void *use_own_in_child(void *arg)
{
	reap_own("the child's copy of a completion");
	post_to_itself(2);	/* goes nowhere */
	runtime_enter(own.rt);
	check(qp_destroy(own.qp), "the child destroys its copy of a QP");
	check(mr_destroy(own.mr), "the child destroys its copy of a region");
	check(cq_destroy(own.cq), "the child destroys its copy of a CQ");
	check(pd_destroy(own.pd), "the child destroys its copy of a PD");
	runtime_leave(own.rt);
	*queue_memory() ^= FILL;
	return arg;
}

static void use_own_in_parent(uint8_t first)
{
	if (*queue_memory() != first)
		die("the child writes into the parent's queues");
	reap_own("the parent's completion");
	if (own.received[0] != 1)
		die("the child sent to the parent");
	post_to_itself(3);
	reap_own("the parent's own send");
	if (own.received[0] != 3)
		die("what the parent sends does not arrive");
}

/* ---- another thread inside the adapter ---- */

static struct {
	pthread_t thread;
	_Atomic bool is_inside, may_go;
} other;

/* In the midst of a change of the list of channels. */
static void *be_inside(void *arg)
{
	struct channels *cs = &own.rt->peers.channels;
	struct channel *first;

	runtime_enter(own.rt);
	first = cs->open[0];
	cs->open[0] = NULL;
	atomic_store(&other.is_inside, true);
	while (!atomic_load(&other.may_go))
		sched_yield();
	cs->open[0] = first;
	runtime_leave(own.rt);
	return arg;
}

static pid_t fork_beside_other(void)
{
	pid_t child;

	pthread_create(&other.thread, NULL, be_inside, NULL);
	while (!atomic_load(&other.is_inside))
		sched_yield();
	child = fork();
	if (child == 0) {
		use_adapter();
		_exit(0);
	}
	atomic_store(&other.may_go, true);
	pthread_join(other.thread, NULL);
	return child;
}

static void be_child(void)
{
	pthread_t thread;

	expect_no_descriptors_more();
	pthread_create(&thread, NULL, use_own_in_child, NULL);
	pthread_join(thread, NULL);
	use_adapter();
	for (unsigned i = 0; i < holes.pages; i++)
		for (size_t at = 0; at < page_bytes(); at++)
			if (holes.page[i][at] != FILL)
				die("the child lost what it had mapped");
}

static int expect_end(pid_t child)
{
	int status;

	waitpid(child, &status, 0);
	if (WIFSIGNALED(status))
		fprintf(stderr, "fork: the child ended by signal %d\n", WTERMSIG(status));
	return status;
}

/* Nobody has it, as the threads that attach have done so. */
static void expect_free(pthread_mutex_t *mutex)
{
	check(-pthread_mutex_trylock(mutex), "a lock is kept over the fork");
	pthread_mutex_unlock(mutex);
}

int main(int argc, char **argv)
{
	unsigned peers = argc == 2 ? (unsigned)atoi(argv[1]) : 0;
	struct runtime *rt;
	uint8_t first;
	int failed;
	pid_t child;

	if (peers < 10 || peers > PEERS_MOST)
		die("usage: fork PEERS");
	board = share_with_children(sizeof(*board));
	for (unsigned i = 0; i < peers; i++) {
		if (fork() == 0)
			be_peer(i);
	}
	pthread_atfork(NULL, NULL, map_into_holes);
	look_at_descriptors(was_open);
	rt = attach();
	open_channels(rt, peers);
	note_hole(rt->peers.published.share.memory);
	open_own(rt);
	leave_completions();
	first = *queue_memory();
	child = fork();
	if (child == 0) {
		alarm(PATIENCE_S);
		be_child();
		_exit(0);	/* LeakSanitizer looks for the parent's threads */
	}
	expect_free(&process.attaching);
	failed = expect_end(child);
	use_own_in_parent(first);
	failed |= expect_end(fork_beside_other());
	use_adapter();
	return failed != 0;
}
