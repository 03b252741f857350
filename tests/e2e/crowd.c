/* Many processes and RC connections between random pairs of them, all made at once: does every one carry a write and a
 * message each way, and are descriptors and memory bounded, weftd's too? `crowd PROCESSES CONNECTIONS SEED`. Needs WEFT_DIR of a
 * running weftd. Exit 0: all of it. */
#include "../weftd_pid.h"
#include "attach.h"
#include "connect.h"

#include "base/rand.h"
#include "runtime/entry.h"
#include "runtime/runtime.h"
#include "verbs/cq.h"
#include "verbs/mr.h"
#include "verbs/pd.h"
#include "verbs/qp.h"

#include <dirent.h>
#include <glob.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

/* What one more of each may cost at most. weftd keeps of a process its socket, wake eventfd, share and memory; a process of
 * a peer the memory and the wake eventfd. */
enum { WEFTD_FDS_EACH = 4, FDS_EACH_PEER = 2, FDS_OWN = 20, WEFTD_MIB = 64, PROCESS_MIB = 64, PATIENCE_S = 60 };

struct end {
	uint32_t process, qpn, rkey;
	uint16_t lid;
	uint64_t va;
};

/* One for all processes. */
struct plan {
	pthread_barrier_t barrier;
	uint32_t processes, connections;
	struct end end[][2];
};

/* One side of one connection in its process. */
struct side {
	const struct end *own, *peer;
	struct qp *qp;
	uint64_t value;
};

struct member {
	struct plan *plan;
	struct runtime *rt;
	struct cq *cq;
	struct mr *mr;
	struct side *sides;
	uint32_t count;
	uint64_t *written, *received, *sent;	/* one word each a side, in one region */
	uint32_t peers;
};

static int event_fd;

static void on_cq_event(struct cq *cq)
{
	(void)cq;
	eventfd_write(event_fd, 1);
}

static void on_async_event(enum ibv_event_type type, void *object)
{
	(void)type, (void)object;
}

static struct plan *make_plan(uint32_t processes, uint32_t connections, uint64_t seed)
{
	size_t bytes = sizeof(struct plan) + connections * sizeof(struct end[2]);
	struct plan *p = share_with_children(bytes);
	pthread_barrierattr_t attr;
	struct rand rand;

	pthread_barrierattr_init(&attr);
	pthread_barrierattr_setpshared(&attr, PTHREAD_PROCESS_SHARED);
	pthread_barrier_init(&p->barrier, &attr, processes + 1);
	p->processes = processes;
	p->connections = connections;
	rand_seed(&rand, seed);
	for (uint32_t i = 0; i < connections; i++) {
		p->end[i][0].process = (uint32_t)rand_below(&rand, processes);
		p->end[i][1].process = (p->end[i][0].process + 1 + (uint32_t)rand_below(&rand, processes - 1)) % processes;
	}
	return p;
}

/* ---- one process ---- */

static void find_sides(struct member *m, uint32_t self)
{
	bool *is_peer = calloc(m->plan->processes, sizeof(*is_peer));

	m->sides = calloc(m->plan->connections, sizeof(*m->sides));
	for (uint32_t i = 0; i < m->plan->connections; i++) {
		for (int k = 0; k < 2; k++) {
			struct end *end = m->plan->end[i];

			if (end[k].process != self)
				continue;
			m->peers += !is_peer[end[1 - k].process];
			is_peer[end[1 - k].process] = true;
			m->sides[m->count++] = (struct side){
				.own = &end[k], .peer = &end[1 - k], .value = 2 * i + (uint64_t)k + 1,
			};
		}
	}
	free(is_peer);
}

static void make_objects(struct member *m)
{
	struct ca *ca = runtime_ca(m->rt);
	struct ca_device *dev = &ca->dev[0];
	struct ibv_qp_init_attr_ex init = { .qp_type = IBV_QPT_RC, .cap = { .max_send_wr = 2, .max_recv_wr = 1, .max_send_sge = 1,
									   .max_recv_sge = 1 } };
	struct pd *pd;

	m->written = calloc(3 * m->count + 1, sizeof(*m->written));
	m->received = m->written + m->count;
	m->sent = m->received + m->count;
	runtime_enter(m->rt);
	check(pd_create(ca, dev, &pd), "pd");
	check(cq_create(ca, dev, 3 * (int)m->count + 1, &m->cq), "cq");
	m->cq->has_channel = true;
	check(mr_create(pd, m->written, (3 * m->count + 1) * sizeof(*m->written), (uintptr_t)m->written,
			IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE, &m->mr), "mr");
	for (uint32_t i = 0; i < m->count; i++) {
		struct end *own = (struct end *)(uintptr_t)m->sides[i].own;

		check(qp_create(ca, dev, &init, pd, m->cq, m->cq, NULL, NULL, &m->sides[i].qp), "qp");
		own->qpn = m->sides[i].qp->qpn;
		own->rkey = m->mr->key;
		own->lid = dev->lid;
		own->va = (uintptr_t)&m->written[i];
	}
	runtime_leave(m->rt);
}

static void connect_side(struct member *m, struct side *s)
{
	rc_connect(s->qp, runtime_enter(m->rt), (struct ibv_qp_attr){
		.port_num = 1, .qp_access_flags = IBV_ACCESS_REMOTE_WRITE,
		.path_mtu = IBV_MTU_4096, .dest_qp_num = s->peer->qpn, .ah_attr = { .dlid = s->peer->lid, .port_num = 1 },
		.timeout = 18, .retry_cnt = 7, .rnr_retry = 7, .min_rnr_timer = 12,
		.max_rd_atomic = 1, .max_dest_rd_atomic = 1 });
	runtime_leave(m->rt);
}

static void post_receive(struct member *m, uint32_t i)
{
	struct ibv_sge sge = { .addr = (uintptr_t)&m->received[i], .length = sizeof(uint64_t), .lkey = m->mr->key };
	struct ibv_recv_wr wr = { .sg_list = &sge, .num_sge = 1 };
	const struct ibv_recv_wr *bad;
	wtime now = runtime_enter(m->rt);

	check(qp_post_recv(m->sides[i].qp, now, &wr, &bad), "post receive");
	runtime_leave(m->rt);
}

static void post(struct member *m, uint32_t i, enum ibv_wr_opcode opcode)
{
	struct ibv_sge sge = { .addr = (uintptr_t)&m->sent[i], .length = sizeof(uint64_t), .lkey = m->mr->key };
	struct ibv_send_wr wr = { .sg_list = &sge, .num_sge = 1, .opcode = opcode, .send_flags = IBV_SEND_SIGNALED }, *bad;
	wtime now = runtime_enter(m->rt);

	m->sent[i] = m->sides[i].value;
	wr.wr.rdma.remote_addr = m->sides[i].peer->va;
	wr.wr.rdma.rkey = m->sides[i].peer->rkey;
	check(qp_post_send(m->sides[i].qp, now, &wr, &bad), "post send");
	runtime_leave(m->rt);
}

static uint32_t poll_all(struct member *m)
{
	struct cqe cqe;
	uint32_t n = 0;

	runtime_enter_poll(m->rt);
	while (cq_poll(m->cq, &cqe)) {
		if (cqe.status != IBV_WC_SUCCESS) {
			fprintf(stderr, "crowd: completion with status %d\n", cqe.status);
			exit(1);
		}
		n++;
	}
	runtime_leave(m->rt);
	return n;
}

static void await_completions(struct member *m, uint32_t count)
{
	struct pollfd p = { .fd = event_fd, .events = POLLIN };
	eventfd_t events;

	for (uint32_t done = poll_all(m); done < count; done += poll_all(m)) {
		runtime_enter(m->rt);
		cq_arm(m->cq, false);
		runtime_leave(m->rt);
		done += poll_all(m);
		if (done >= count)
			break;
		runtime_enter(m->rt);
		runtime_will_sleep(m->rt);
		runtime_leave(m->rt);
		poll(&p, 1, -1);
		eventfd_read(event_fd, &events);
	}
}

static void check_data(const struct member *m)
{
	for (uint32_t i = 0; i < m->count; i++) {
		/* the two values of a connection are 2 n + 1 and 2 n + 2 */
		uint64_t expected = ((m->sides[i].value - 1) ^ 1) + 1;

		if (m->written[i] != expected || m->received[i] != expected)
			die("data is wrong");
	}
}

static uint32_t count_fds(pid_t pid)
{
	char path[32];
	uint32_t n = 0;
	DIR *d;

	snprintf(path, sizeof(path), "/proc/%d/fd", (int)pid);
	d = opendir(path);
	while (d && readdir(d))
		n++;
	if (d)
		closedir(d);
	return n;
}

static bool is_pidfd(const char *fd)
{
	char target[32];
	ssize_t n = readlink(fd, target, sizeof(target) - 1);

	target[n > 0 ? n : 0] = '\0';
	return strstr(target, "pidfd");
}

/* weftd makes it soon after somebody has come, and knows it by a pidfd. */
static void await_spare_child(pid_t weftd)
{
	time_t limit = time(NULL) + PATIENCE_S;
	uint32_t pidfds = 0;

	while (!pidfds) {
		char path[32];
		glob_t fds;

		if (time(NULL) > limit)
			die("weftd has no child for who comes next");
		snprintf(path, sizeof(path), "/proc/%d/fd/*", (int)weftd);
		if (glob(path, 0, NULL, &fds))
			continue;
		for (size_t i = 0; i < fds.gl_pathc; i++)
			pidfds += is_pidfd(fds.gl_pathv[i]);
		globfree(&fds);
	}
}

static uint32_t resident_mib(pid_t pid)
{
	char path[32];
	unsigned long total = 0, resident = 0, shared = 0;
	FILE *f;

	snprintf(path, sizeof(path), "/proc/%d/statm", (int)pid);
	f = fopen(path, "re");
	if (!f || fscanf(f, "%lu %lu %lu", &total, &resident, &shared) != 3)
		die("no /proc");
	fclose(f);
	return (uint32_t)((resident - shared) * (unsigned long)sysconf(_SC_PAGESIZE) >> 20);
}

static void be_member(struct plan *plan, uint32_t self)
{
	static const struct runtime_events events = { .cq_event = on_cq_event, .async_event = on_async_event };
	struct member m = { .plan = plan };

	event_fd = eventfd(0, EFD_NONBLOCK);
	m.rt = attach();
	runtime_set_events(m.rt, &events);
	find_sides(&m, self);
	make_objects(&m);
	pthread_barrier_wait(&plan->barrier);
	for (uint32_t i = 0; i < m.count; i++) {
		connect_side(&m, &m.sides[i]);
		post_receive(&m, i);
	}
	pthread_barrier_wait(&plan->barrier);
	for (uint32_t i = 0; i < m.count; i++) {
		post(&m, i, IBV_WR_RDMA_WRITE);
		post(&m, i, IBV_WR_SEND);
	}
	await_completions(&m, 3 * m.count);
	pthread_barrier_wait(&plan->barrier);
	check_data(&m);
	if (count_fds(getpid()) > FDS_OWN + m.peers * FDS_EACH_PEER)
		die("a process has too many descriptors");
	if (resident_mib(getpid()) > PROCESS_MIB)
		die("a process has too much memory");
	pthread_barrier_wait(&plan->barrier);
	free(m.sides);
}

/* ---- the parent, which is not attached ---- */

/* A child that fails leaves the others at the barrier. */
static void watch(int signal)
{
	int status, before = errno;

	(void)signal;
	while (waitpid(-1, &status, WNOHANG) > 0) {
		if (status)
			kill(0, SIGKILL);
	}
	errno = before;
}

/* weftd also opens files for a moment. */
static bool comes_down_to(pid_t weftd, uint32_t fds)
{
	time_t limit = time(NULL) + PATIENCE_S;

	while (count_fds(weftd) > fds) {
		if (time(NULL) > limit)
			return false;
		nanosleep(&(struct timespec){ .tv_nsec = 10000000 }, NULL);
	}
	return true;
}

static void check_weftd(pid_t weftd, uint32_t base, uint32_t processes)
{
	bool is_bounded = comes_down_to(weftd, base + processes * WEFTD_FDS_EACH);
	uint32_t mib = resident_mib(weftd);

	printf("weftd: %u descriptors, %u of them from before; %u MiB\n", count_fds(weftd), base, mib);
	if (!is_bounded || mib > WEFTD_MIB) {
		fprintf(stderr, "crowd: weftd has too much\n");
		fflush(stdout);
		kill(0, SIGKILL);	/* the children wait at the barrier */
	}
}

int main(int argc, char **argv)
{
	uint32_t processes = argc > 1 ? (uint32_t)atoi(argv[1]) : 0, base;
	struct plan *plan;
	pid_t weftd;

	if (argc != 4 || processes < 2)
		die("usage: crowd PROCESSES CONNECTIONS SEED");
	plan = make_plan(processes, (uint32_t)atoi(argv[2]), strtoull(argv[3], NULL, 0));
	weftd = weftd_pid();
	if (!weftd)
		die("no weftd");
	await_spare_child(weftd);
	base = count_fds(weftd);
	setpgid(0, 0);
	signal(SIGCHLD, watch);
	for (uint32_t i = 0; i < processes; i++) {
		pid_t pid = fork();

		if (pid < 0)
			die("cannot fork");
		if (pid == 0) {
			be_member(plan, i);
			return 0;
		}
	}
	for (int i = 0; i < 3; i++)
		pthread_barrier_wait(&plan->barrier);
	check_weftd(weftd, base, processes);
	pthread_barrier_wait(&plan->barrier);
	if (!comes_down_to(weftd, base))
		die("weftd keeps descriptors of processes that are gone");
	return 0;
}
