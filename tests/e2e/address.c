/* Requests go where their address leads, and not where their QP number alone would. Of QPs whose address is no port's nothing
 * arrives, whether the QP of that number is this process's or another's, and with the right address it does. Over LIDs, over
 * GIDs, and over both. To be run by weft run. Exit 0: all of it. */
#include <infiniband/verbs.h>

#include <arpa/inet.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <unistd.h>

enum { BYTES = 8, WRITTEN = 0, SENT = 1024, DATAGRAM = 2048, GRH = 40, MEMORY = 4096, QKEY = 0x1111, PATIENCE_S = 60,
       WRONG_LID = 77, LOST = 1, RIGHT = 2 };

/* What of an address is right; a GID may be missing. */
struct address {
	const char *name;
	int device;
	bool has_gid, lid_is_wrong, gid_is_wrong;
};

static const struct address addresses[] = {
	{ "a LID", 0, false, false, false },
	{ "a LID and a GID", 0, true, false, false },
	{ "another LID", 0, false, true, false },
	{ "another LID and a GID", 0, true, true, false },
	{ "a LID and another GID", 0, true, false, true },
	{ "a GID of RoCE", 1, true, false, false },
	{ "another GID of RoCE", 1, true, false, true },
};

/* What a peer must know of a side. */
struct card {
	uint32_t rc, ud, rkey;
	uint16_t lid;
	union ibv_gid gid;
	uint64_t memory;
};

struct side {
	struct ibv_pd *pd;
	struct ibv_cq *cq;
	struct ibv_mr *mr;
	struct ibv_qp *rc, *ud;
	struct card card;
	uint8_t *memory;
};

static void must(bool fact, const char *what)
{
	if (fact)
		return;
	fprintf(stderr, "address: %s\n", what);
	exit(1);
}

static struct ibv_qp *make_qp(const struct side *s, enum ibv_qp_type type)
{
	struct ibv_qp_init_attr init = {
		.send_cq = s->cq, .recv_cq = s->cq, .qp_type = type, .sq_sig_all = 1,
		.cap = { .max_send_wr = 4, .max_recv_wr = 4, .max_send_sge = 1, .max_recv_sge = 1 },
	};
	struct ibv_qp *qp = ibv_create_qp(s->pd, &init);

	must(qp, "no QP");
	return qp;
}

static void move_ud(struct ibv_qp *qp)
{
	struct ibv_qp_attr attr = { .qp_state = IBV_QPS_INIT, .port_num = 1, .qkey = QKEY };

	must(!ibv_modify_qp(qp, &attr, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_QKEY), "UD: INIT");
	attr.qp_state = IBV_QPS_RTR;
	must(!ibv_modify_qp(qp, &attr, IBV_QP_STATE), "UD: RTR");
	attr.qp_state = IBV_QPS_RTS;
	must(!ibv_modify_qp(qp, &attr, IBV_QP_STATE | IBV_QP_SQ_PSN), "UD: RTS");
}

static void post_recv(struct side *s, struct ibv_qp *qp, uint32_t at)
{
	struct ibv_sge sge = { (uintptr_t)s->memory + at, BYTES + GRH, s->mr->lkey };
	struct ibv_recv_wr *bad, wr = { .sg_list = &sge, .num_sge = 1 };

	must(!ibv_post_recv(qp, &wr, &bad), "a receive is refused");
}

static void open_side(struct side *s, int device, uint8_t *memory)
{
	struct ibv_device **list = ibv_get_device_list(NULL);
	struct ibv_context *context = list ? ibv_open_device(list[device]) : NULL;
	struct ibv_port_attr port;

	must(context, "no device");
	ibv_free_device_list(list);
	s->memory = memory;
	s->pd = ibv_alloc_pd(context);
	s->cq = ibv_create_cq(context, 16, NULL, NULL, 0);
	s->mr = ibv_reg_mr(s->pd, memory, MEMORY, IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE);
	must(s->pd && s->cq && s->mr, "no objects");
	s->rc = make_qp(s, IBV_QPT_RC);
	s->ud = make_qp(s, IBV_QPT_UD);
	move_ud(s->ud);
	must(!ibv_query_port(context, 1, &port) && !ibv_query_gid(context, 1, 0, &s->card.gid), "no port");
	s->card.rc = s->rc->qp_num;
	s->card.ud = s->ud->qp_num;
	s->card.rkey = s->mr->rkey;
	s->card.lid = port.lid;
	s->card.memory = (uintptr_t)memory;
}

static struct ibv_ah_attr address_of(const struct card *to, const struct address *a, bool is_right)
{
	struct ibv_ah_attr attr = { .dlid = to->lid, .port_num = 1, .is_global = a->has_gid };

	attr.grh = (struct ibv_global_route){ .dgid = to->gid, .hop_limit = 64 };
	if (a->lid_is_wrong && !is_right)
		attr.dlid = WRONG_LID;
	if (a->gid_is_wrong && !is_right)
		attr.grh.dgid.raw[15] ^= 0x55;
	return attr;
}

static void connect_to(struct side *s, const struct card *to, struct ibv_ah_attr address)
{
	struct ibv_qp_attr attr = {
		.qp_state = IBV_QPS_INIT, .port_num = 1, .qp_access_flags = IBV_ACCESS_REMOTE_WRITE, .path_mtu = IBV_MTU_1024,
		.dest_qp_num = to->rc, .ah_attr = address, .timeout = 10, .retry_cnt = 1, .rnr_retry = 7, .min_rnr_timer = 1,
	};

	must(!ibv_modify_qp(s->rc, &attr, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS), "INIT");
	attr.qp_state = IBV_QPS_RTR;
	must(!ibv_modify_qp(s->rc, &attr, IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN |
			    IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER), "RTR");
	attr.qp_state = IBV_QPS_RTS;
	must(!ibv_modify_qp(s->rc, &attr, IBV_QP_STATE | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY | IBV_QP_SQ_PSN |
			    IBV_QP_MAX_QP_RD_ATOMIC), "RTS");
}

static enum ibv_wc_status finish(struct side *s)
{
	struct ibv_wc wc;
	int n;

	while ((n = ibv_poll_cq(s->cq, 1, &wc)) == 0)
		;
	must(n == 1, "no completion");
	return wc.status;
}

/* From the client's memory, where it has `what` now. */
static enum ibv_wc_status post(struct side *s, struct ibv_qp *qp, struct ibv_send_wr wr, uint8_t what)
{
	struct ibv_sge sge = { (uintptr_t)s->memory, BYTES, s->mr->lkey };
	struct ibv_send_wr *bad;

	memset(s->memory, what, BYTES);
	wr.sg_list = &sge;
	wr.num_sge = 1;
	must(!ibv_post_send(qp, &wr, &bad), "a request is refused");
	return finish(s);
}

static void send_datagram(struct side *s, const struct card *to, struct ibv_ah_attr address, uint8_t what)
{
	struct ibv_send_wr wr = { .opcode = IBV_WR_SEND };

	wr.wr.ud.ah = ibv_create_ah(s->pd, &address);
	wr.wr.ud.remote_qpn = to->ud;
	wr.wr.ud.remote_qkey = QKEY;
	must(wr.wr.ud.ah, "no address handle");
	must(post(s, s->ud, wr, what) == IBV_WC_SUCCESS, "a datagram was not sent");
	ibv_destroy_ah(wr.wr.ud.ah);
}

/* The target's own sends do not matter, its receives may complete in whatever process it is. */
static void expect(struct side *client, const struct card *target, volatile uint8_t *memory, const struct address *a,
		   bool is_write)
{
	bool arrives = !a->lid_is_wrong && !a->gid_is_wrong;
	struct ibv_send_wr wr = { .opcode = is_write ? IBV_WR_RDMA_WRITE : IBV_WR_SEND };
	enum ibv_wc_status status;
	struct ibv_wc wc;

	wr.wr.rdma.remote_addr = target->memory + WRITTEN;
	wr.wr.rdma.rkey = target->rkey;
	status = post(client, client->rc, wr, RIGHT);
	must(status == (arrives ? IBV_WC_SUCCESS : IBV_WC_RETRY_EXC_ERR), ibv_wc_status_str(status));
	send_datagram(client, target, address_of(target, a, false), arrives ? RIGHT : LOST);
	send_datagram(client, target, address_of(target, a, true), RIGHT);
	while (!memory[DATAGRAM + GRH])
		ibv_poll_cq(client->cq, 1, &wc);
	must(memory[DATAGRAM + GRH] == RIGHT, "a datagram to an address that nobody has arrived");
	must(memory[is_write ? WRITTEN : SENT] == (arrives ? RIGHT : 0), "what arrived is not what should");
}

static void be_target(struct side *s, int device, uint8_t *memory)
{
	open_side(s, device, memory);
	post_recv(s, s->ud, DATAGRAM);
	post_recv(s, s->ud, DATAGRAM + 1024);
}

/* The other process: is told which address, who the client is, and says who it is itself. */
static void serve(int socket, uint8_t *memory)
{
	struct card client;
	unsigned i;

	prctl(PR_SET_PDEATHSIG, SIGKILL);
	for (; read(socket, &i, sizeof(i)) == sizeof(i); memory += MEMORY) {
		struct side *s = calloc(1, sizeof(*s));

		be_target(s, addresses[i].device, memory);
		must(write(socket, &s->card, sizeof(s->card)) == sizeof(s->card), "the client is gone");
		must(read(socket, &client, sizeof(client)) == sizeof(client), "the client is gone");
		connect_to(s, &client, address_of(&client, &addresses[i], true));
		post_recv(s, s->rc, SENT);
		must(write(socket, "", 1) == 1, "the client is gone");
	}
}

static void try_other(int socket, unsigned i, uint8_t *own, uint8_t *others, bool is_write)
{
	struct side client = { 0 };
	struct card target;
	char ready;

	open_side(&client, addresses[i].device, own);
	must(write(socket, &i, sizeof(i)) == sizeof(i) && read(socket, &target, sizeof(target)) == sizeof(target), "no target");
	must(write(socket, &client.card, sizeof(client.card)) == sizeof(client.card), "no target");
	must(read(socket, &ready, 1) == 1, "no target");
	connect_to(&client, &target, address_of(&target, &addresses[i], false));
	expect(&client, &target, others, &addresses[i], is_write);
}

static void try_own(unsigned i, uint8_t *own, uint8_t *others, bool is_write)
{
	struct side client = { 0 }, target = { 0 };

	open_side(&client, addresses[i].device, own);
	be_target(&target, addresses[i].device, others);
	connect_to(&target, &client.card, address_of(&client.card, &addresses[i], true));
	post_recv(&target, target.rc, SENT);
	connect_to(&client, &target.card, address_of(&target.card, &addresses[i], false));
	expect(&client, &target.card, others, &addresses[i], is_write);
}

int main(void)
{
	enum { TRIALS = 2 * sizeof(addresses) / sizeof(addresses[0]) };
	uint8_t *memory = mmap(NULL, 3 * TRIALS * MEMORY, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	uint8_t *own = memory + TRIALS * MEMORY, *others = own + TRIALS * MEMORY;
	int pair[2];

	alarm(PATIENCE_S);
	must(memory != MAP_FAILED && !socketpair(AF_UNIX, SOCK_STREAM, 0, pair), "no memory or no socket");
	if (fork() == 0) {
		close(pair[0]);
		serve(pair[1], memory);
		return 0;
	}
	close(pair[1]);
	for (unsigned i = 0; i < TRIALS; i++) {
		printf("%s: %s\n", i % 2 ? "write" : "send", addresses[i / 2].name);
		fflush(stdout);
		try_other(pair[0], i / 2, own + i * MEMORY, memory + i * MEMORY, i % 2);
		memset(own + i * MEMORY, 0, MEMORY);
		try_own(i / 2, own + i * MEMORY, others + i * MEMORY, i % 2);
	}
	return 0;
}
