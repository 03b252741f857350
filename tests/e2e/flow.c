/* One end of a connection over which both ends write, read and send as long as they may, to see what becomes of it when the
 * hosts change: flow DIR NAME PEER GID_INDEX ACK_TIMEOUT [ALTERNATE [SERVER]]. The two find each other by files of DIR;
 * NAME.count has how many requests have completed. GID_INDEX lid: over weft0, by LIDs. ALTERNATE: the GID index, or the number
 * of the LID among the port's, of an alternate path between the same of both; NAME.path says in which state of migration the QP
 * is, and how often it has migrated. SERVER: they connect by rdma_cm, whose REQ tells the paths; it is the address of the end
 * with the greater name. SIGUSR1: it migrates. SIGTERM: ends when all of its requests have completed and the peer's too.
 * Whatever happens, what was posted must complete, in order; a line says how many with each status. Exit 0: all succeeded; 3:
 * the QP failed, as the standard has it; 1: anything else. */
#include "flow_cm.h"

#include <errno.h>
#include <fcntl.h>
#include <infiniband/verbs.h>
#include <signal.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum { DEPTH = 24, RECEIVES = 64, BYTES = 8192, STATUSES = 32, LIMIT_S = 60, RECEIVED = 1 << 20 };

struct end {
	uint32_t qpn, rkey;
	uint64_t address;
	union ibv_gid gid, alternate;
	uint16_t lid;
};

struct flow {
	const char *dir, *name, *peer_name;
	struct ibv_context *context;
	struct ibv_pd *pd;
	struct ibv_cq *cq;
	struct ibv_qp *qp;
	struct ibv_mr *mr;
	struct end own, peer;
	unsigned char *buffer;
	unsigned long posted, completed, receives, received, statuses[STATUSES];
	bool has_failed, is_ending;
	bool by_lid;
	uint8_t gid_index;
	int alternate;		/* -1: there is none */
	unsigned migrations;
	struct flow_cm cm;	/* without server: they do without */
};

static volatile sig_atomic_t is_told, shall_migrate;

static void tell(int signal)
{
	*(signal == SIGUSR1 ? &shall_migrate : &is_told) = 1;
}

__attribute__((format(printf, 1, 2), noreturn))
static void die(const char *format, ...)
{
	va_list ap;

	va_start(ap, format);
	vprintf(format, ap);
	va_end(ap);
	printf("\n");
	exit(1);
}

static double seconds(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

/* Appears as a whole. */
static void put_file(const struct flow *f, const char *suffix, const void *data, size_t bytes)
{
	char path[512], fresh[520];
	int fd;

	snprintf(path, sizeof(path), "%s/%s.%s", f->dir, f->name, suffix);
	snprintf(fresh, sizeof(fresh), "%s.new", path);
	fd = open(fresh, O_WRONLY | O_CREAT | O_TRUNC, 0600);
	if (fd < 0 || write(fd, data, bytes) != (ssize_t)bytes || close(fd) || rename(fresh, path))
		die("%s: %s", path, strerror(errno));
}

static bool get_file(const struct flow *f, const char *suffix, void *data, size_t bytes)
{
	char path[512];
	int fd;
	bool is_whole;

	snprintf(path, sizeof(path), "%s/%s.%s", f->dir, f->peer_name, suffix);
	fd = open(path, O_RDONLY);
	is_whole = fd >= 0 && read(fd, data, bytes) == (ssize_t)bytes;
	if (fd >= 0)
		close(fd);
	return is_whole;
}

static void open_device(struct flow *f)
{
	int n;
	struct ibv_device **list = ibv_get_device_list(&n);

	for (int i = 0; i < n && list; i++)
		if (strcmp(ibv_get_device_name(list[i]), f->by_lid ? "weft0" : "weft1") == 0)
			f->context = ibv_open_device(list[i]);
	if (!f->context || fcntl(f->context->async_fd, F_SETFL, O_NONBLOCK))
		die("the device cannot be opened");
	ibv_free_device_list(list);
}

static void find_addresses(struct flow *f)
{
	struct ibv_port_attr port;

	if (ibv_query_port(f->context, 1, &port) || ibv_query_gid(f->context, 1, f->gid_index, &f->own.gid) ||
	    (!f->by_lid && f->alternate >= 0 && ibv_query_gid(f->context, 1, f->alternate, &f->own.alternate)))
		die("no port or GID");
	f->own.lid = port.lid;
	if (f->by_lid && f->alternate >= 1 << port.lmc)
		die("the port has %d LIDs", 1 << port.lmc);
}

static void make(struct flow *f)
{
	struct ibv_qp_init_attr attr = { .qp_type = IBV_QPT_RC,
		.cap = { .max_send_wr = DEPTH, .max_recv_wr = RECEIVES, .max_send_sge = 1, .max_recv_sge = 1 } };
	const int flags = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ;

	open_device(f);
	f->buffer = calloc(4, BYTES);
	f->pd = ibv_alloc_pd(f->context);
	f->cq = attr.send_cq = attr.recv_cq = ibv_create_cq(f->context, DEPTH + RECEIVES, NULL, NULL, 0);
	f->qp = f->pd && f->cq ? ibv_create_qp(f->pd, &attr) : NULL;
	f->mr = f->pd ? ibv_reg_mr(f->pd, f->buffer, (size_t)4 * BYTES, flags) : NULL;
	if (!f->qp || !f->mr)
		die("no QP or region");
	find_addresses(f);
	f->own.qpn = f->qp->qp_num;
	f->own.rkey = f->mr->rkey;
	f->own.address = (uintptr_t)f->buffer;
}

static void post_receive(struct flow *f)
{
	struct ibv_sge sge = { (uintptr_t)f->buffer + 3 * BYTES, BYTES, f->mr->lkey };
	struct ibv_recv_wr wr = { .wr_id = RECEIVED, .sg_list = &sge, .num_sge = 1 }, *bad;

	if (ibv_post_recv(f->qp, &wr, &bad))
		die("a receive cannot be posted");
	f->receives++;
}

static struct ibv_ah_attr path(const struct flow *f, bool is_alternate)
{
	const uint8_t number = (uint8_t)(is_alternate ? f->alternate : f->gid_index);

	if (f->by_lid)
		return (struct ibv_ah_attr){ .port_num = 1, .dlid = f->peer.lid + number, .src_path_bits = number };
	return (struct ibv_ah_attr){ .is_global = 1, .port_num = 1, .grh = {
		.dgid = is_alternate ? f->peer.alternate : f->peer.gid, .sgid_index = number, .hop_limit = 64 } };
}

static void meet(struct flow *f)
{
	const struct timespec pause = { .tv_nsec = 2000000 };
	double by = seconds() + LIMIT_S;

	put_file(f, "end", &f->own, sizeof(f->own));
	while (!get_file(f, "end", &f->peer, sizeof(f->peer))) {
		if (seconds() > by)
			die("no peer");
		nanosleep(&pause, NULL);
	}
}

static void connect_by_cm(struct flow *f, uint8_t ack_timeout)
{
	struct ibv_qp_attr a = { .qp_state = IBV_QPS_INIT, .port_num = 1,
		.qp_access_flags = IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ };
	const struct timespec pause = { .tv_nsec = 200000000 };	/* for the server, which listens once it has met us */

	f->cm.is_server = strcmp(f->name, f->peer_name) > 0;
	f->cm.ack_timeout = ack_timeout;
	if (ibv_modify_qp(f->qp, &a, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS))
		die("not to INIT");
	for (int i = 0; i < RECEIVES; i++)
		post_receive(f);
	meet(f);
	f->cm.alternate[0] = f->own.alternate;
	f->cm.alternate[1] = f->peer.alternate;
	if (!f->cm.is_server)
		nanosleep(&pause, NULL);
	if (flow_cm_connect(&f->cm, f->qp))
		die("no connection: %s", strerror(errno));
}

static void connect_ends(struct flow *f, uint8_t ack_timeout)
{
	const int loads = f->alternate < 0 ? 0 : IBV_QP_ALT_PATH, arms = f->alternate < 0 ? 0 : IBV_QP_PATH_MIG_STATE;
	struct ibv_qp_attr a = { .qp_state = IBV_QPS_INIT, .port_num = 1,
		.qp_access_flags = IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ };

	if (ibv_modify_qp(f->qp, &a, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS))
		die("not to INIT");
	for (int i = 0; i < RECEIVES; i++)
		post_receive(f);
	meet(f);
	a = (struct ibv_qp_attr){ .qp_state = IBV_QPS_RTR, .path_mtu = IBV_MTU_1024, .dest_qp_num = f->peer.qpn,
		.max_dest_rd_atomic = 4, .min_rnr_timer = 12, .ah_attr = path(f, false), .alt_ah_attr = path(f, true),
		.alt_port_num = 1, .alt_timeout = ack_timeout };
	if (ibv_modify_qp(f->qp, &a, IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN |
			  IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER | loads))
		die("not to RTR");
	a = (struct ibv_qp_attr){ .qp_state = IBV_QPS_RTS, .timeout = ack_timeout, .retry_cnt = 7, .rnr_retry = 7,
		.max_rd_atomic = 4, .path_mig_state = IBV_MIG_REARM };
	if (ibv_modify_qp(f->qp, &a, arms | IBV_QP_STATE | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY | IBV_QP_SQ_PSN |
			  IBV_QP_MAX_QP_RD_ATOMIC))
		die("not to RTS");
}

static void post(struct flow *f)
{
	static const enum ibv_wr_opcode kinds[] = { IBV_WR_RDMA_WRITE, IBV_WR_SEND, IBV_WR_RDMA_READ };
	const int kind = (int)(f->posted % 3);
	struct ibv_sge sge = { (uintptr_t)f->buffer + (kind == 2 ? 2 * BYTES : 0), BYTES, f->mr->lkey };
	struct ibv_send_wr wr = { .wr_id = f->posted % RECEIVED, .sg_list = &sge, .num_sge = 1, .opcode = kinds[kind],
		.send_flags = IBV_SEND_SIGNALED, .wr.rdma = { f->peer.address + BYTES, f->peer.rkey } }, *bad;

	if (ibv_post_send(f->qp, &wr, &bad))
		die("a request cannot be posted");
	f->posted++;
}

static void take(struct flow *f, const struct ibv_wc *wc)
{
	bool is_receive = wc->wr_id == RECEIVED;

	f->statuses[(unsigned)wc->status < STATUSES ? wc->status : 0]++;
	f->has_failed |= wc->status != IBV_WC_SUCCESS && !f->is_ending;
	if (!is_receive && wc->wr_id != f->completed % RECEIVED)
		die("request %lu completes before %lu", (unsigned long)wc->wr_id, f->completed % RECEIVED);
	is_receive ? f->received++ : f->completed++;
	if (is_receive && wc->status == IBV_WC_SUCCESS)
		post_receive(f);
}

static void poll_some(struct flow *f)
{
	const struct timespec pause = { .tv_nsec = 50000 };
	struct ibv_wc wc[16];
	int n = ibv_poll_cq(f->cq, 16, wc);

	if (n < 0)
		die("polling fails");
	for (int i = 0; i < n; i++)
		take(f, &wc[i]);
	if (!n)		/* others want the processor too */
		nanosleep(&pause, NULL);
}

static void take_events(struct flow *f)
{
	struct ibv_async_event event;

	while (ibv_get_async_event(f->context, &event) == 0) {
		if (event.event_type == IBV_EVENT_PATH_MIG_ERR)
			die("%s", ibv_event_type_str(event.event_type));
		f->migrations += event.event_type == IBV_EVENT_PATH_MIG && event.element.qp == f->qp;
		if (event.event_type == IBV_EVENT_PATH_MIG && f->cm.server && flow_cm_migrated(&f->cm))
			die("the conversation stays: %s", strerror(errno));
		ibv_ack_async_event(&event);
	}
}

/* What ibv_query_qp says must be the path that the QP has. */
static void note_path(struct flow *f)
{
	static const char *const names[] = {
		[IBV_MIG_MIGRATED] = "migrated", [IBV_MIG_REARM] = "rearm", [IBV_MIG_ARMED] = "armed",
	};
	struct ibv_qp_init_attr init;
	struct ibv_qp_attr a;
	struct ibv_ah_attr want;
	char text[64];

	take_events(f);
	if (ibv_query_qp(f->qp, &a, IBV_QP_AV | IBV_QP_PATH_MIG_STATE, &init))
		die("the QP cannot be queried");
	want = path(f, a.path_mig_state == IBV_MIG_MIGRATED);
	if (a.ah_attr.dlid != want.dlid || a.ah_attr.src_path_bits != want.src_path_bits ||
	    a.ah_attr.grh.sgid_index != want.grh.sgid_index || memcmp(&a.ah_attr.grh.dgid, &want.grh.dgid, 16) != 0)
		die("ibv_query_qp says that the path is another");
	snprintf(text, sizeof(text), "%s %u\n", names[a.path_mig_state], f->migrations);
	put_file(f, "path", text, strlen(text));
}

static void note(struct flow *f)
{
	static double last;
	char text[32];

	if (seconds() - last < 0.01)
		return;
	last = seconds();
	snprintf(text, sizeof(text), "%lu\n", f->completed);
	put_file(f, "count", text, strlen(text));
	if (f->alternate >= 0)
		note_path(f);
}

static void migrate(struct flow *f)
{
	struct ibv_qp_attr a = { .path_mig_state = IBV_MIG_MIGRATED };

	shall_migrate = 0;
	if (ibv_modify_qp(f->qp, &a, IBV_QP_PATH_MIG_STATE))
		die("it does not migrate: %s", strerror(errno));
}

/* Until the QP fails or the end is told; then until all requests have completed. */
static void run(struct flow *f)
{
	bool is_drained = false;
	double by = 0;
	char byte;

	for (;;) {
		while (!is_told && !f->has_failed && f->posted - f->completed < DEPTH)
			post(f);
		poll_some(f);
		note(f);
		if (shall_migrate)
			migrate(f);
		if (!by && (is_told || f->has_failed))
			by = seconds() + LIMIT_S;
		if (by && seconds() > by)
			die("%lu of %lu requests do not complete", f->posted - f->completed, f->posted);
		if (f->has_failed && f->completed == f->posted)
			return;
		if (is_told && !is_drained && f->completed == f->posted) {
			put_file(f, "drained", "", 1);
			is_drained = true;
		}
		if (is_drained && get_file(f, "drained", &byte, 1))
			return;
	}
}

static void end(struct flow *f)
{
	struct ibv_qp_attr a = { .qp_state = IBV_QPS_ERR };
	double by = seconds() + LIMIT_S;

	f->is_ending = true;
	if (f->cm.server && flow_cm_part(&f->cm))
		die("it does not part: %s", strerror(errno));
	if (ibv_modify_qp(f->qp, &a, IBV_QP_STATE))
		die("not to ERR");
	while (f->received < f->receives && seconds() < by)
		poll_some(f);
	printf("%lu requests, %lu completed; %lu receives, %lu completed:", f->posted, f->completed, f->receives, f->received);
	for (int i = 0; i < STATUSES; i++)
		if (f->statuses[i])
			printf(" %lu %s,", f->statuses[i], ibv_wc_status_str((enum ibv_wc_status)i));
	printf(" %s\n", f->has_failed ? "failed" : "all is well");
	if (f->completed != f->posted || f->received != f->receives)
		die("not all completed");
	if (ibv_destroy_qp(f->qp) || ibv_dereg_mr(f->mr) || ibv_destroy_cq(f->cq) || ibv_dealloc_pd(f->pd) ||
	    ibv_close_device(f->context))
		die("something is still used");
	free(f->buffer);
}

int main(int argc, char **argv)
{
	struct flow f = { .alternate = argc >= 7 ? atoi(argv[6]) : -1, .cm.server = argc == 8 ? argv[7] : NULL };

	if (argc < 6 || argc > 8)
		die("flow DIR NAME PEER GID_INDEX ACK_TIMEOUT [ALTERNATE [SERVER]]");
	setvbuf(stdout, NULL, _IOLBF, 0);
	signal(SIGTERM, tell);
	signal(SIGUSR1, tell);
	f.dir = argv[1];
	f.name = argv[2];
	f.peer_name = argv[3];
	f.by_lid = strcmp(argv[4], "lid") == 0;
	f.gid_index = (uint8_t)atoi(argv[4]);
	make(&f);
	(f.cm.server ? connect_by_cm : connect_ends)(&f, (uint8_t)atoi(argv[5]));
	run(&f);
	end(&f);
	return f.has_failed ? 3 : 0;
}
