/* What its owner takes back or never gave, a peer on the direct path does not get: two processes on the object model. Exit 0: all
 * was right.
 * `rights table`: regions, windows and QPs lose their rights under a peer that used them a moment ago; each request ends in the
 *     standard's status and leaves the byte.
 * `rights tail`: a write that does not reach its first bytes leaves its last, so what is polled comes last.
 * `rights destroy`: a QP is not destroyed while its peer is in the midst of using it.
 * `rights exec`: the target has become another program, and nothing has been told yet: its memory stays its own. */
#include "attach.h"
#include "connect.h"

#include "direct/hazard.h"
#include "link/shm.h"
#include "peers/direct_target.h"
#include "runtime/entry.h"
#include "runtime/runtime.h"
#include "runtime/state.h"
#include "verbs/cq.h"
#include "verbs/direct.h"
#include "verbs/mr.h"
#include "verbs/pd.h"
#include "verbs/qp.h"

#include <errno.h>
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
	BYTES = 1 << 18,
	DEPTH = 16,
	REMOTE = IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC,
	ALL_ACCESS = IBV_ACCESS_LOCAL_WRITE | REMOTE | IBV_ACCESS_MW_BIND,
	STRANGE_PSN = 0x400000,		/* so far from what is expected that packets alone never fit */
};

/* Shared by both. */
static struct board {
	_Atomic unsigned arrived;
	uint32_t qpn[2], rkey;
	uint64_t va;
	uint16_t lid;
	_Atomic bool is_hidden, is_released, is_destroyed;
} *board;

static int up_pipe[2], done_pipe[2];	/* the new program is up; the initiator is done */

struct end {
	struct runtime *rt;
	struct pd *pd, *other_pd;
	struct cq *cq;
	struct qp *qp;
	struct mr *mr, *window;
	uint8_t *buffer;
};

/* Both come here. */
static void meet(void)
{
	unsigned wave = atomic_fetch_add(&board->arrived, 1) / 2;

	while (atomic_load(&board->arrived) < (wave + 1) * 2)
		sched_yield();
}

static struct ca *ca_of(const struct end *e)
{
	return runtime_ca(e->rt);
}

static uint8_t *make_buffer(void)
{
	/* where another program has its memory too, after exec; also where the sanitizers leave room */
	void *const place = (void *)0x7e8100000000;

	return mmap(place, BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0);
}

static struct qp *make_qp(struct end *e)
{
	struct ibv_qp_init_attr_ex init = { .qp_type = IBV_QPT_RC, .cap = { .max_send_wr = DEPTH, .max_recv_wr = DEPTH,
					    .max_send_sge = 1, .max_recv_sge = 1 } };
	struct qp *qp;

	check(qp_create(ca_of(e), &ca_of(e)->dev[0], &init, e->pd, e->cq, e->cq, NULL, NULL, &qp), "qp");
	return qp;
}

static void open_end(struct end *e, int side)
{
	e->rt = attach();
	e->buffer = make_buffer();
	runtime_enter(e->rt);
	check(pd_create(ca_of(e), &ca_of(e)->dev[0], &e->pd), "pd");
	check(pd_create(ca_of(e), &ca_of(e)->dev[0], &e->other_pd), "pd");
	check(cq_create(ca_of(e), &ca_of(e)->dev[0], 4 * DEPTH, &e->cq), "cq");
	e->qp = make_qp(e);
	board->qpn[side] = e->qp->qpn;
	board->lid = e->qp->dev->lid;
	runtime_leave(e->rt);
	meet();
}

/* From whatever state to RTS. */
static void connect_qp(struct end *e, struct qp *qp, uint32_t peer, uint32_t sq_psn)
{
	struct ibv_qp_attr reset = { .qp_state = IBV_QPS_RESET };
	wtime now = runtime_enter(e->rt);

	check(qp_modify(qp, now, &reset, IBV_QP_STATE), "reset");
	rc_connect(qp, now, (struct ibv_qp_attr){
		.port_num = 1, .qp_access_flags = REMOTE, .path_mtu = IBV_MTU_4096, .dest_qp_num = peer, .sq_psn = sq_psn,
		.ah_attr = { .dlid = board->lid, .port_num = 1 }, .timeout = 10, .retry_cnt = 3, .rnr_retry = 7,
		.min_rnr_timer = 1, .max_rd_atomic = 4, .max_dest_rd_atomic = 4 });
	runtime_leave(e->rt);
}

static enum ibv_wc_status wait_done(struct end *e)
{
	struct cqe cqe;
	bool any;

	do {
		runtime_enter_poll(e->rt);
		any = cq_poll(e->cq, &cqe);
		runtime_leave(e->rt);
	} while (!any);
	return cqe.status;
}

static void post(struct end *e, struct qp *qp, struct ibv_send_wr *wr, uint32_t bytes)
{
	struct ibv_sge sge = { (uintptr_t)e->buffer, bytes, e->mr ? e->mr->key : 0 };
	struct ibv_send_wr *bad;
	wtime now = runtime_enter(e->rt);

	wr->sg_list = &sge;
	wr->num_sge = 1;
	wr->send_flags = IBV_SEND_SIGNALED;
	check(qp_post_send(qp, now, wr, &bad), "post");
	runtime_leave(e->rt);
}

static enum ibv_wc_status write_to_target(struct end *e, struct qp *qp, uint32_t bytes)
{
	struct ibv_send_wr wr = { .opcode = IBV_WR_RDMA_WRITE, .wr.rdma = { board->va, board->rkey } };

	post(e, qp, &wr, bytes);
	return wait_done(e);
}

/* The first writes are packets: the target has not taken the channel up yet. */
static void write_directly(struct end *e, uint32_t bytes)
{
	const struct counters *c = &ca_of(e)->counters;
	uint64_t before = c->direct_writes;

	do
		check(write_to_target(e, e->qp, bytes) != IBV_WC_SUCCESS, "a write of what is there");
	while (c->direct_writes == before);
}

static void register_buffer(struct end *e)
{
	runtime_enter(e->rt);
	check(mr_create(e->pd, e->buffer, BYTES, (uintptr_t)e->buffer, ALL_ACCESS, &e->mr), "mr");
	runtime_leave(e->rt);
}

/* ---- table ---- */

static void bind(struct end *e, uint32_t new_key, uint64_t bytes, unsigned access)
{
	struct ibv_mw mw = { .rkey = e->window->key };
	struct ibv_mr mr = { .lkey = e->mr->key };
	struct ibv_send_wr wr = { .opcode = IBV_WR_BIND_MW, .bind_mw = { .mw = &mw, .rkey = new_key, .bind_info = {
		.mr = &mr, .addr = (uintptr_t)e->buffer, .length = bytes, .mw_access_flags = access } } };

	post(e, e->qp, &wr, 0);
	if (wait_done(e) != IBV_WC_SUCCESS)
		die("a window was not bound");
}

static void take_nothing(struct end *e)
{
	(void)e;
}

static void rereg(struct end *e, int flags, struct pd *pd, uint8_t *memory, int access)
{
	runtime_enter(e->rt);
	check(mr_rereg(e->mr, flags, pd, memory, BYTES / 2, access), "rereg");
	runtime_leave(e->rt);
}

static void take_write_from_region(struct end *e)
{
	rereg(e, IBV_REREG_MR_CHANGE_ACCESS, NULL, NULL, ALL_ACCESS & ~IBV_ACCESS_REMOTE_WRITE);
}

static void move_region_to_other_domain(struct end *e)
{
	rereg(e, IBV_REREG_MR_CHANGE_PD, e->other_pd, NULL, 0);
}

static void move_region_elsewhere(struct end *e)
{
	rereg(e, IBV_REREG_MR_CHANGE_TRANSLATION, NULL, e->buffer + BYTES / 2, 0);
}

static void deregister(struct end *e)
{
	runtime_enter(e->rt);
	check(mr_destroy(e->mr), "deregister");
	runtime_leave(e->rt);
	e->mr = NULL;
}

static void take_rights_from_qp(struct end *e)
{
	struct ibv_qp_attr none = { .qp_access_flags = 0 };
	wtime now = runtime_enter(e->rt);

	check(qp_modify(e->qp, now, &none, IBV_QP_ACCESS_FLAGS), "no access");
	runtime_leave(e->rt);
}

static void reset_qp(struct end *e)
{
	struct ibv_qp_attr reset = { .qp_state = IBV_QPS_RESET };
	wtime now = runtime_enter(e->rt);

	check(qp_modify(e->qp, now, &reset, IBV_QP_STATE), "reset");
	runtime_leave(e->rt);
}

static void invalidate(struct end *e)
{
	struct ibv_send_wr wr = { .opcode = IBV_WR_LOCAL_INV, .invalidate_rkey = e->window->key };

	post(e, e->qp, &wr, 0);
	if (wait_done(e) != IBV_WC_SUCCESS)
		die("a window was not invalidated");
}

static void unbind(struct end *e)
{
	bind(e, e->window->key ^ 1, 0, 0);
}

static void bind_for_reads(struct end *e)
{
	bind(e, e->window->key, BYTES, IBV_ACCESS_REMOTE_READ);
}

static void free_window(struct end *e)
{
	runtime_enter(e->rt);
	check(mw_destroy(e->window), "free the window");
	runtime_leave(e->rt);
	e->window = NULL;
}

enum use { BY_REGION, BY_WINDOW_1, BY_WINDOW_2, BY_STRANGER };

static const struct row {
	const char *name;
	enum use use;
	void (*take)(struct end *target);	/* after a write that succeeded */
	enum ibv_wc_status status;		/* of the next */
} rows[] = {
	{ "a region", BY_REGION, take_nothing, IBV_WC_SUCCESS },
	{ "a type 1 window", BY_WINDOW_1, take_nothing, IBV_WC_SUCCESS },
	{ "a type 2 window", BY_WINDOW_2, take_nothing, IBV_WC_SUCCESS },
	{ "a region without remote write", BY_REGION, take_write_from_region, IBV_WC_REM_ACCESS_ERR },
	{ "a region of another domain", BY_REGION, move_region_to_other_domain, IBV_WC_REM_ACCESS_ERR },
	{ "a region elsewhere", BY_REGION, move_region_elsewhere, IBV_WC_REM_ACCESS_ERR },
	{ "a deregistered region", BY_REGION, deregister, IBV_WC_REM_ACCESS_ERR },
	{ "a QP without access", BY_REGION, take_rights_from_qp, IBV_WC_REM_INV_REQ_ERR },
	{ "a QP in RESET", BY_REGION, reset_qp, IBV_WC_RETRY_EXC_ERR },
	{ "an unbound window", BY_WINDOW_1, unbind, IBV_WC_REM_ACCESS_ERR },
	{ "a window bound for reads", BY_WINDOW_1, bind_for_reads, IBV_WC_REM_ACCESS_ERR },
	{ "an invalidated window", BY_WINDOW_2, invalidate, IBV_WC_REM_ACCESS_ERR },
	{ "a freed window", BY_WINDOW_2, free_window, IBV_WC_REM_ACCESS_ERR },
	{ "a QP that is not the peer", BY_STRANGER, take_nothing, IBV_WC_RETRY_EXC_ERR },
};

enum { ROWS = sizeof(rows) / sizeof(rows[0]) };

static void give(struct end *e, enum use use)
{
	bool is_window = use == BY_WINDOW_1 || use == BY_WINDOW_2;

	memset(e->buffer, 0x11, BYTES);
	register_buffer(e);
	if (is_window) {
		runtime_enter(e->rt);
		check(mw_create(e->pd, use == BY_WINDOW_1 ? IBV_MW_TYPE_1 : IBV_MW_TYPE_2, &e->window), "window");
		runtime_leave(e->rt);
		bind(e, e->window->key ^ 1, BYTES, REMOTE);
	}
	board->rkey = is_window ? e->window->key : e->mr->key;
	board->va = (uintptr_t)e->buffer;
}

static void take_all_back(struct end *e)
{
	if (e->window)
		free_window(e);
	if (e->mr)
		deregister(e);
}

static void table_target(struct end *e)
{
	for (int i = 0; i < ROWS; i++) {
		connect_qp(e, e->qp, board->qpn[1], 0);
		give(e, rows[i].use);
		meet();
		meet();		/* it has written */
		if (e->buffer[0] != 0x22)
			die("the first write did not arrive");
		e->buffer[0] = 0x11;
		rows[i].take(e);
		meet();
		meet();		/* it has tried again */
		if (e->buffer[0] != (rows[i].status == IBV_WC_SUCCESS ? 0x22 : 0x11)) {
			fprintf(stderr, "%s: the byte is 0x%02x\n", rows[i].name, e->buffer[0]);
			die("a write did what it may not, or not what it should");
		}
		take_all_back(e);
	}
}

static void table_initiator(struct end *e)
{
	struct qp *stranger;

	memset(e->buffer, 0x22, BYTES);
	register_buffer(e);
	runtime_enter(e->rt);
	stranger = make_qp(e);
	runtime_leave(e->rt);
	for (int i = 0; i < ROWS; i++) {
		enum ibv_wc_status status;

		connect_qp(e, e->qp, board->qpn[0], 0);
		connect_qp(e, stranger, board->qpn[0], STRANGE_PSN);
		meet();
		write_directly(e, 8);
		meet();
		meet();
		status = write_to_target(e, rows[i].use == BY_STRANGER ? stranger : e->qp, 8);
		if (status != rows[i].status) {
			fprintf(stderr, "%s: status %d, not %d\n", rows[i].name, status, rows[i].status);
			die("a wrong status");
		}
		meet();
	}
}

/* ---- tail ---- */

/* Where the target's pages begin that are there; those before them are not. */
enum { HOLE = BYTES / 2 };

static void tail_target(struct end *e)
{
	connect_qp(e, e->qp, board->qpn[1], 0);
	memset(e->buffer, 0x11, BYTES);
	give(e, BY_REGION);
	check(munmap(e->buffer, HOLE), "munmap");
	meet();
	meet();
	see_what_was_placed(e->rt);
	for (unsigned i = HOLE; i < BYTES; i++)
		if (e->buffer[i] != 0x11)
			die("the end of a write came before its beginning");
}

/* Without the packets that would follow. */
static void tail_initiator(struct end *e)
{
	static const uint32_t sizes[] = { 200, 1000, 5000, 40000, HOLE };

	memset(e->buffer, 0x22, BYTES);
	register_buffer(e);
	connect_qp(e, e->qp, board->qpn[0], 0);
	meet();
	/* of which all is there: the peer is known, and both ways of writing are measured */
	board->va += HOLE;
	memset(e->buffer, 0x11, BYTES);
	write_directly(e, HOLE);
	memset(e->buffer, 0x22, BYTES);
	for (unsigned i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
		struct iovec iov = { e->buffer, sizes[i] };
		struct direct_request r = { .op = OP_WRITE, .rkey = board->rkey, .va = board->va - 64, .bytes = sizes[i],
					    .iov = &iov, .iovs = 1 };
		bool done;

		runtime_enter(e->rt);
		done = peers_direct_ops.execute(&e->rt->peers, e->qp, &r);
		runtime_leave(e->rt);
		if (done)
			die("a write into a hole succeeded");
	}
	meet();
}

/* ---- destroy ---- */

static void destroy_target(struct end *e)
{
	connect_qp(e, e->qp, board->qpn[1], 0);
	give(e, BY_REGION);
	meet();
	meet();		/* it is in the midst of it */
	runtime_enter(e->rt);
	check(qp_destroy(e->qp), "destroy");
	atomic_store(&board->is_destroyed, true);
	runtime_leave(e->rt);
	if (!atomic_load(&board->is_released))
		die("a QP was destroyed while its peer used it");
	meet();
}

static bool is_shown(struct end *e)
{
	bool shown;

	runtime_enter(e->rt);
	shown = peers_direct_ops.reaches(&e->rt->peers, e->qp);
	runtime_leave(e->rt);
	return shown;
}

static void destroy_initiator(struct end *e)
{
	enum { TURNS = 200 };
	_Atomic uint64_t *word;

	register_buffer(e);
	connect_qp(e, e->qp, board->qpn[0], 0);
	meet();
	write_directly(e, 8);
	runtime_enter(e->rt);
	word = shm_own_hazard(direct_target_channel(&e->rt->peers, e->qp)->shm);
	runtime_leave(e->rt);
	hazard_begin(word, board->qpn[0], board->rkey);
	meet();
	while (is_shown(e))
		sched_yield();
	for (unsigned i = 0; i < TURNS && !atomic_load(&board->is_destroyed); i++)
		sched_yield();
	if (atomic_load(&board->is_destroyed))
		die("a QP was destroyed while its peer used it");
	atomic_store(&board->is_released, true);
	hazard_end(word);
	meet();
}

/* ---- exec ---- */

static void exec_target(struct end *e)
{
	char up[16], done[16];

	connect_qp(e, e->qp, board->qpn[1], 0);
	give(e, BY_REGION);
	meet();
	meet();
	snprintf(up, sizeof(up), "%d", up_pipe[1]);
	snprintf(done, sizeof(done), "%d", done_pipe[0]);
	execl("/proc/self/exe", "rights", "image", up, done, (char *)NULL);
	die("no exec");
}

/* The new program. */
static int be_image(int up, int done)
{
	uint8_t *buffer = make_buffer(), byte = 0;

	memset(buffer, 0x77, BYTES);
	if (write(up, &byte, 1) != 1 || read(done, &byte, 1) != 0)
		die("the initiator did not end");
	for (unsigned i = 0; i < BYTES; i++)
		if (buffer[i] != 0x77)
			die("memory of a new program was written to");
	return 0;
}

/* Under the lock, so that nobody tells this process meanwhile that the target is gone. */
static void exec_initiator(struct end *e)
{
	uint8_t byte;

	memset(e->buffer, 0x33, BYTES);
	register_buffer(e);
	connect_qp(e, e->qp, board->qpn[0], 0);
	meet();
	write_directly(e, BYTES);
	meet();
	runtime_enter(e->rt);
	if (read(up_pipe[0], &byte, 1) != 1)
		die("no new program");
	for (uint32_t bytes = BYTES; bytes; bytes /= 8) {
		struct iovec iov = { e->buffer, bytes };
		struct direct_request r = { .op = OP_WRITE, .rkey = board->rkey, .va = board->va, .bytes = bytes,
					    .iov = &iov, .iovs = 1 };

		if (peers_direct_ops.execute(&e->rt->peers, e->qp, &r))
			die("a write into a new program succeeded");
	}
	runtime_leave(e->rt);
}

/* ---- the whole ---- */

static const struct mode {
	const char *name;
	void (*target)(struct end *e), (*initiator)(struct end *e);
} modes[] = {
	{ "table", table_target, table_initiator },
	{ "tail", tail_target, tail_initiator },
	{ "destroy", destroy_target, destroy_initiator },
	{ "exec", exec_target, exec_initiator },
};

static const struct mode *mode_of(const char *name)
{
	for (unsigned i = 0; i < sizeof(modes) / sizeof(modes[0]); i++)
		if (strcmp(modes[i].name, name) == 0)
			return &modes[i];
	die("usage: rights table|tail|destroy|exec");
	return NULL;
}

int main(int argc, char **argv)
{
	const struct mode *mode;
	int status, failed = 0;

	if (argc == 4 && strcmp(argv[1], "image") == 0)
		return be_image(atoi(argv[2]), atoi(argv[3]));
	mode = mode_of(argc > 1 ? argv[1] : "");
	board = share_with_children(sizeof(*board));
	check(pipe(up_pipe), "pipe");
	check(pipe(done_pipe), "pipe");
	for (int side = 0; side < 2; side++) {
		struct end e = { 0 };

		if (fork())
			continue;
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		if (side == 0)
			close(done_pipe[1]);
		open_end(&e, side);
		(side ? mode->initiator : mode->target)(&e);
		return 0;
	}
	close(done_pipe[1]);
	while (!failed && wait(&status) > 0)
		failed = !WIFEXITED(status) || WEXITSTATUS(status) != 0;
	return failed;
}
