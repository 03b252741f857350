/* Two hosts of one process, each a process of its own to weftd: they connect a QP with each other, exchange messages, are
 * forgotten by a child each, and are closed one after the other. `two_hosts direct`: records and copies; `two_hosts packet`:
 * frames; `two_hosts apart WEFTD`: of two weftds, one of which is started here, so that they cannot meet.
 * Needs WEFT_DIR of a running weftd. Exit 0: all of it. */
#include "attach.h"
#include "connect.h"

#include "runtime/config.h"
#include "runtime/entry.h"
#include "runtime/process.h"
#include "runtime/runtime.h"
#include "runtime/state.h"
#include "verbs/cq.h"
#include "verbs/mr.h"
#include "verbs/pd.h"

#include <dirent.h>
#include <sched.h>
#include <signal.h>
#include <sys/wait.h>

enum { DEPTH = 16, BYTES = 64, ROUNDS = 200, PATIENCE_S = 60 };

struct end {
	struct config config;
	struct runtime *rt;
	struct pd *pd;
	struct cq *cq;
	struct mr *mr;
	struct qp *qp;
	unsigned sent, received;
	uint8_t memory[2 * BYTES];	/* what is sent, what comes */
};

static struct end end[2];

static void open_end(struct end *e, const char *dir, const char *path)
{
	struct ibv_qp_init_attr_ex init = { .qp_type = IBV_QPT_RC, .cap = { DEPTH, DEPTH, 1, 1, 0 }, .sq_sig_all = 1 };
	struct ca *ca;

	e->config = *config_get();
	snprintf(e->config.dir, sizeof(e->config.dir), "%s", dir);
	snprintf(e->config.path, sizeof(e->config.path), "%s", path);
	e->rt = runtime_open(&e->config);
	if (!e->rt)
		check(-errno, "a second host");
	ca = runtime_ca(e->rt);
	runtime_enter(e->rt);
	check(pd_create(ca, &ca->dev[0], &e->pd), "pd");
	check(cq_create(ca, &ca->dev[0], 2 * DEPTH, &e->cq), "cq");
	check(mr_create(e->pd, e->memory, sizeof(e->memory), (uintptr_t)e->memory, IBV_ACCESS_LOCAL_WRITE, &e->mr), "mr");
	check(qp_create(ca, &ca->dev[0], &init, e->pd, e->cq, e->cq, NULL, NULL, &e->qp), "qp");
	runtime_leave(e->rt);
}

static void close_end(struct end *e)
{
	runtime_enter(e->rt);
	check(qp_destroy(e->qp), "destroy a QP");
	check(mr_destroy(e->mr), "destroy a region");
	check(cq_destroy(e->cq), "destroy a CQ");
	check(pd_destroy(e->pd), "destroy a PD");
	runtime_leave(e->rt);
	runtime_close(e->rt);
}

static void connect_to(struct end *e, const struct end *peer)
{
	wtime now = runtime_enter(e->rt);

	rc_connect(e->qp, now, (struct ibv_qp_attr){
		.port_num = 1, .path_mtu = IBV_MTU_4096, .dest_qp_num = peer->qp->qpn,
		.ah_attr = { .dlid = peer->qp->dev->lid, .port_num = 1 }, .timeout = 14, .retry_cnt = 7, .rnr_retry = 7,
		.min_rnr_timer = 1 });
	runtime_leave(e->rt);
}

static void post(struct end *e, bool is_send, uint8_t what)
{
	struct ibv_sge sge = { (uintptr_t)e->memory + (is_send ? 0 : BYTES), BYTES, e->mr->key };
	struct ibv_recv_wr recv = { .sg_list = &sge, .num_sge = 1 };
	struct ibv_send_wr *bad, send = { .sg_list = &sge, .num_sge = 1, .opcode = IBV_WR_SEND };
	const struct ibv_recv_wr *bad_recv;
	wtime now = runtime_enter(e->rt);

	if (is_send)
		memset(e->memory, what, BYTES);
	check(is_send ? qp_post_send(e->qp, now, &send, &bad) : qp_post_recv(e->qp, now, &recv, &bad_recv), "post");
	runtime_leave(e->rt);
}

static void poll(struct end *e)
{
	struct cqe cqe;

	runtime_enter_poll(e->rt);
	while (cq_poll(e->cq, &cqe)) {
		check(cqe.status != IBV_WC_SUCCESS, "a completion");
		*(cqe.opcode & IBV_WC_RECV ? &e->received : &e->sent) += 1;
		runtime_poll_found();
	}
	runtime_leave(e->rt);
}

/* One message each way. */
static void exchange(uint8_t what)
{
	unsigned done = end[0].received + 1;

	post(&end[0], false, 0);
	post(&end[1], false, 0);
	post(&end[0], true, what);
	post(&end[1], true, 0xff - what);
	while (end[0].received < done || end[1].received < done || end[0].sent < done || end[1].sent < done) {
		poll(&end[0]);
		poll(&end[1]);
	}
	if (end[1].memory[BYTES] != what || end[0].memory[2 * BYTES - 1] != 0xff - what)
		die("a message came spoilt");
}

static unsigned count_descriptors(void)
{
	DIR *list = opendir("/proc/self/fd");
	unsigned n = 0;

	while (list && readdir(list))
		n++;
	closedir(list);
	return n;
}

/* The child has neither host, and attaches by itself. */
static void fork_once(unsigned before, const struct end *open)
{
	pid_t child = fork();
	int status;

	if (child == 0) {
		alarm(PATIENCE_S);
		if (runtime_peek() || atomic_load(&process.runtimes))
			die("a child has its parent's host");
		if (count_descriptors() > before)
			die("a child has descriptors of its parent's hosts");
		if (runtime_slot(attach()) == runtime_slot(open->rt))
			die("a child attaches as its parent");
		_exit(0);
	}
	if (waitpid(child, &status, 0) != child || status != 0)
		die("the child failed");
}

static void meet(const char *path)
{
	unsigned before = count_descriptors();

	open_end(&end[0], getenv("WEFT_DIR"), path);
	open_end(&end[1], getenv("WEFT_DIR"), path);
	if (runtime_slot(end[0].rt) == runtime_slot(end[1].rt))
		die("both hosts have one slot");
	connect_to(&end[0], &end[1]);
	connect_to(&end[1], &end[0]);
	for (unsigned i = 0; i < ROUNDS; i++)
		exchange((uint8_t)i);
	if ((runtime_ca(end[0].rt)->counters.direct_sends > 0) == (strcmp(path, "packet") == 0))
		die("messages take the wrong path");
	fork_once(before, &end[1]);
	exchange(77);
	close_end(&end[0]);
	fork_once(before, &end[1]);
	/* who is left has another peer */
	open_end(&end[0], getenv("WEFT_DIR"), path);
	runtime_enter(end[1].rt);
	check(qp_modify(end[1].qp, 0, &(struct ibv_qp_attr){ .qp_state = IBV_QPS_RESET }, IBV_QP_STATE), "reset");
	runtime_leave(end[1].rt);
	end[0].sent = end[0].received = end[1].sent = end[1].received = 0;
	connect_to(&end[0], &end[1]);
	connect_to(&end[1], &end[0]);
	for (unsigned i = 0; i < ROUNDS; i++)
		exchange((uint8_t)(i + 1));
	close_end(&end[1]);
	close_end(&end[0]);
	if (count_descriptors() != before)
		die("a closed host leaves descriptors");
}

static pid_t start_weftd(const char *program, const char *dir)
{
	pid_t weftd = fork();
	char socket[128];

	if (weftd == 0) {
		setenv("WEFT_DIR", dir, 1);
		execl(program, program, "--foreground", "--keep", NULL);
		_exit(1);
	}
	snprintf(socket, sizeof(socket), "%s/ctl", dir);
	while (access(socket, F_OK))
		if (waitpid(weftd, NULL, WNOHANG) != 0)
			die("the other weftd does not start");
	return weftd;
}

static void stay_apart(const char *program)
{
	char dir[] = "/tmp/weft-other-XXXXXX";
	unsigned before;
	pid_t weftd;
	int status;

	if (!mkdtemp(dir))
		die("no directory");
	weftd = start_weftd(program, dir);
	before = count_descriptors();
	open_end(&end[0], getenv("WEFT_DIR"), "");
	open_end(&end[1], dir, "");
	if (strcmp(end[1].rt->session.dir, dir) != 0)
		die("the second host is in the first one's weftd");
	for (int i = 0; i < 2; i++) {
		connect_to(&end[i], &end[i]);
		post(&end[i], false, 0);
		post(&end[i], true, (uint8_t)(i + 1));
		while (!end[i].received || !end[i].sent)
			poll(&end[i]);
		if (end[i].memory[BYTES] != i + 1)
			die("a message came spoilt");
	}
	close_end(&end[1]);
	kill(weftd, SIGTERM);
	if (waitpid(weftd, &status, 0) != weftd || status != 0 || rmdir(dir))
		die("the other weftd does not end well");
	fork_once(before, &end[0]);
	close_end(&end[0]);
}

int main(int argc, char **argv)
{
	alarm(PATIENCE_S);
	if (argc == 3 && strcmp(argv[1], "apart") == 0)
		stay_apart(argv[2]);
	else if (argc == 2)
		meet(strcmp(argv[1], "direct") == 0 ? "" : argv[1]);
	else
		die("usage: two_hosts direct|packet|apart WEFTD");
	return 0;
}
