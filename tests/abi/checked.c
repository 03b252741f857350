/* checked DEVICE ROUNDS SEED: sends, writes, reads and atomics of random sizes between two processes over libibverbs, several
 * under way, every byte checked against a model: what runs beside programs that check none. Exit 0: all was right, 3: the
 * retries of a request ran out, 1: anything else.
 *
 * checked DEVICE ROUNDS SEED GID-INDEX PORT [SERVER]: one of the two on this host, with any adapter: the initiator with the IPv4
 * address of a SERVER, the target without. */
#include <infiniband/verbs.h>

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/tcp.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

enum { TARGET = 65536, MOST = 20000, SLOTS = 4, RECVS = 16, GAVE_UP = 3, END = 0xffffffff };

struct address {
	uint32_t qpn, rkey, psn, mtu;	/* mtu: enum ibv_mtu, the longest */
	uint16_t lid;
	uint64_t va;
	union ibv_gid gid;
};

struct end {
	struct ibv_context *ctx;
	struct ibv_pd *pd;
	struct ibv_cq *cq;
	struct ibv_qp *qp;
	struct ibv_mr *mr;
	struct address own, peer;
	uint8_t memory[SLOTS * MOST + RECVS * MOST + TARGET];	/* of the target what is written to comes first */
};

/* One request under way. */
struct slot {
	bool busy;
	enum ibv_wr_opcode opcode;
	uint32_t bytes;
	uint8_t expected[MOST];		/* what a read or an atomic must bring */
};

static struct end end;
static struct slot slots[SLOTS];
static uint8_t model[TARGET];
static uint64_t seed;
static const char *role = "initiator";
static pid_t child;
static bool waits;	/* for reads itself, where a request is to be fenced */

static void fail(const char *what)
{
	fprintf(stderr, "checked (%s): %s: %s\n", role, what, strerror(errno));
	exit(1);
}

static uint64_t draw(uint64_t *state)	/* splitmix64 */
{
	uint64_t z = *state += 0x9e3779b97f4a7c15;

	z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9;
	z = (z ^ z >> 27) * 0x94d049bb133111eb;
	return z ^ z >> 31;
}

static void fill(uint8_t *to, uint32_t bytes, uint64_t number)
{
	uint64_t state = seed ^ number << 20, word = 0;

	for (uint32_t i = 0; i < bytes; i++) {
		if (i % 8 == 0)
			word = draw(&state);
		to[i] = (uint8_t)(word >> i % 8 * 8);
	}
}

static void open_end(const char *name, int gid_index)
{
	struct ibv_device **list = ibv_get_device_list(NULL);
	struct ibv_qp_init_attr init = { .cap = { 2 * SLOTS, RECVS, 1, 1, 0 }, .qp_type = IBV_QPT_RC, .sq_sig_all = 1 };
	struct ibv_port_attr port;

	for (int i = 0; list && list[i] && !end.ctx; i++)
		if (strcmp(ibv_get_device_name(list[i]), name) == 0)
			end.ctx = ibv_open_device(list[i]);
	if (!end.ctx || ibv_query_port(end.ctx, 1, &port) || ibv_query_gid(end.ctx, 1, gid_index, &end.own.gid))
		fail(name);
	end.pd = ibv_alloc_pd(end.ctx);
	end.cq = ibv_create_cq(end.ctx, 2 * SLOTS + RECVS, NULL, NULL, 0);
	init.send_cq = init.recv_cq = end.cq;
	end.mr = ibv_reg_mr(end.pd, end.memory, sizeof(end.memory), IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE |
			    IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC);
	end.qp = end.cq ? ibv_create_qp(end.pd, &init) : NULL;
	if (!end.mr || !end.qp)
		fail("objects");
	end.own.qpn = end.qp->qp_num;
	end.own.rkey = end.mr->rkey;
	end.own.psn = 0xfffffe;		/* soon begins again */
	end.own.lid = port.lid;
	end.own.mtu = port.active_mtu;
	end.own.va = (uintptr_t)end.memory;
	ibv_free_device_list(list);
}

/* gid_index: -1 without a GID; mtu: enum ibv_mtu, 0: the longest that both can */
static void connect_end(int with, int gid_index, uint32_t mtu)
{
	struct ibv_qp_attr a = { .qp_state = IBV_QPS_INIT, .port_num = 1, .qp_access_flags = IBV_ACCESS_REMOTE_WRITE |
				 IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC };

	if (write(with, &end.own, sizeof(end.own)) != sizeof(end.own) ||
	    read(with, &end.peer, sizeof(end.peer)) != sizeof(end.peer))
		fail("the other end");
	if (ibv_modify_qp(end.qp, &a, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS))
		fail("INIT");
	if (mtu == 0)
		mtu = end.own.mtu < end.peer.mtu ? end.own.mtu : end.peer.mtu;
	a = (struct ibv_qp_attr){
		.qp_state = IBV_QPS_RTR, .path_mtu = mtu, .dest_qp_num = end.peer.qpn, .rq_psn = end.peer.psn,
		.max_dest_rd_atomic = 4, .min_rnr_timer = 1,
		.ah_attr = { .dlid = end.peer.lid, .port_num = 1, .is_global = gid_index >= 0,
			     .grh = { .dgid = end.peer.gid, .sgid_index = gid_index < 0 ? 0 : (uint8_t)gid_index,
				      .hop_limit = 64 } },
	};
	if (ibv_modify_qp(end.qp, &a, IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN |
			  IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER))
		fail("RTR");
	a = (struct ibv_qp_attr){ .qp_state = IBV_QPS_RTS, .timeout = 14, .retry_cnt = 7, .rnr_retry = 7, .max_rd_atomic = 4,
				  .sq_psn = end.own.psn };
	if (ibv_modify_qp(end.qp, &a, IBV_QP_STATE | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY | IBV_QP_SQ_PSN |
			  IBV_QP_MAX_QP_RD_ATOMIC))
		fail("RTS");
}

static struct ibv_wc next_completion(void)
{
	struct ibv_wc wc;
	int n;

	while ((n = ibv_poll_cq(end.cq, 1, &wc)) == 0)
		;
	/* not so when the target has ended, which it does when it finds something wrong */
	if (n == 1 && wc.status == IBV_WC_RETRY_EXC_ERR && waitpid(child, NULL, WNOHANG) == 0) {
		printf("checked: %s\n", ibv_wc_status_str(wc.status));
		exit(GAVE_UP);
	}
	if (n < 0 || wc.status != IBV_WC_SUCCESS) {
		errno = 0;
		fail(n < 0 ? "ibv_poll_cq" : ibv_wc_status_str(wc.status));
	}
	return wc;
}

/* ---- the target: receives, each with the number of its content ---- */

static uint8_t *receive(uint64_t i)
{
	uint8_t *at = end.memory + TARGET + i * MOST;
	struct ibv_sge sge = { (uintptr_t)at, MOST, end.mr->lkey };
	struct ibv_recv_wr *bad, wr = { .wr_id = i, .sg_list = &sge, .num_sge = 1 };

	memset(at, 0x55, MOST);
	if (ibv_post_recv(end.qp, &wr, &bad))
		fail("ibv_post_recv");
	return at;
}

/* Until the initiator closes its end: what it has not acknowledged may be asked for again. */
static void serve(int with)
{
	static uint8_t expected[MOST];
	bool ended = false;

	for (uint64_t i = 0; i < RECVS; i++)
		receive(i);
	if (write(with, "", 1) != 1)
		fail("the initiator");
	while (!ended) {
		struct ibv_wc wc = next_completion();
		const uint8_t *at = end.memory + TARGET + wc.wr_id * MOST;

		ended = wc.imm_data == END;
		if (wc.opcode == IBV_WC_RECV && !ended) {
			fill(expected, wc.byte_len, wc.imm_data);
			if (memcmp(at, expected, wc.byte_len) || (wc.byte_len < MOST && at[wc.byte_len] != 0x55))
				fail("a message is not what was sent");
		}
		receive(wc.wr_id);
	}
	while (read(with, expected, 1) < 0 && errno == EINTR)
		;
}

/* ---- the initiator ---- */

/* What the request does to the model, and what it must bring. */
static void foresee(struct slot *s, const struct ibv_send_wr *wr, const uint8_t *local, uint64_t offset)
{
	uint64_t old;

	switch (s->opcode) {
	case IBV_WR_RDMA_WRITE:
	case IBV_WR_RDMA_WRITE_WITH_IMM:
		memcpy(model + offset, local, s->bytes);
		break;
	case IBV_WR_RDMA_READ:
		memcpy(s->expected, model + offset, s->bytes);
		break;
	case IBV_WR_ATOMIC_FETCH_AND_ADD:
	case IBV_WR_ATOMIC_CMP_AND_SWP:
		memcpy(s->expected, model + offset, 8);
		memcpy(&old, s->expected, 8);
		if (s->opcode == IBV_WR_ATOMIC_FETCH_AND_ADD)
			old += wr->wr.atomic.compare_add;
		else if (old == wr->wr.atomic.compare_add)
			old = wr->wr.atomic.swap;
		memcpy(model + offset, &old, 8);
		break;
	default:
		break;
	}
}

static void finish(void)
{
	struct ibv_wc wc = next_completion();
	struct slot *s = &slots[wc.wr_id];
	bool brings = s->opcode == IBV_WR_RDMA_READ || s->opcode == IBV_WR_ATOMIC_FETCH_AND_ADD ||
		      s->opcode == IBV_WR_ATOMIC_CMP_AND_SWP;

	if (brings && memcmp(end.memory + wc.wr_id * MOST, s->expected, s->bytes))
		fail("a read or an atomic brought what is not there");
	s->busy = false;
}

static void drain(void)
{
	for (unsigned i = 0; i < SLOTS; i++)
		while (slots[i].busy)
			finish();
}

static void start(unsigned i, uint32_t number, uint64_t *state)
{
	static const enum ibv_wr_opcode opcodes[] = {
		IBV_WR_SEND_WITH_IMM, IBV_WR_RDMA_WRITE, IBV_WR_RDMA_WRITE_WITH_IMM, IBV_WR_RDMA_READ,
		IBV_WR_ATOMIC_FETCH_AND_ADD, IBV_WR_ATOMIC_CMP_AND_SWP,
	};
	struct slot *s = &slots[i];
	uint8_t *local = end.memory + i * MOST;
	uint32_t bytes = 1 + (uint32_t)(draw(state) % (draw(state) % 2 ? MOST : 64));
	enum ibv_wr_opcode opcode = opcodes[draw(state) % (sizeof(opcodes) / sizeof(opcodes[0]))];
	bool is_atomic = opcode == IBV_WR_ATOMIC_FETCH_AND_ADD || opcode == IBV_WR_ATOMIC_CMP_AND_SWP;
	uint64_t offset = is_atomic ? draw(state) % (TARGET / 8) * 8 : draw(state) % (TARGET - MOST);
	struct ibv_sge sge = { (uintptr_t)local, is_atomic ? 8 : bytes, end.mr->lkey };
	struct ibv_send_wr *bad, wr = { .wr_id = i, .sg_list = &sge, .num_sge = 1, .opcode = opcode, .imm_data = number };

	/* a read that is repeated reads again: what changes memory must wait for it (IBA vol. 1, 10.8.3.3) */
	if (waits && opcode != IBV_WR_RDMA_READ)
		drain();
	wr.send_flags = waits || opcode == IBV_WR_RDMA_READ ? 0 : IBV_SEND_FENCE;
	if (is_atomic) {
		wr.wr.atomic.remote_addr = end.peer.va + offset;
		wr.wr.atomic.rkey = end.peer.rkey;
		memcpy(&wr.wr.atomic.compare_add, model + offset, 8);
		wr.wr.atomic.compare_add += number % 2;		/* every other swap misses */
		wr.wr.atomic.swap = draw(state);
	} else {
		wr.wr.rdma.remote_addr = end.peer.va + offset;
		wr.wr.rdma.rkey = end.peer.rkey;
	}
	*s = (struct slot){ .busy = true, .opcode = opcode, .bytes = sge.length };
	fill(local, sge.length, number);
	foresee(s, &wr, local, offset);
	if (ibv_post_send(end.qp, &wr, &bad))
		fail("ibv_post_send");
}

/* One request alone. */
static void ask(enum ibv_wr_opcode opcode, uint64_t offset, uint32_t bytes, uint32_t imm)
{
	struct ibv_sge sge = { (uintptr_t)end.memory, bytes, end.mr->lkey };
	struct ibv_send_wr *bad, wr = { .sg_list = &sge, .num_sge = 1, .opcode = opcode, .imm_data = imm,
					.wr.rdma = { end.peer.va + offset, end.peer.rkey } };

	if (ibv_post_send(end.qp, &wr, &bad))
		fail("ibv_post_send");
	next_completion();
}

static void drive(unsigned rounds)
{
	uint64_t state = seed;
	unsigned slot = 0;

	for (uint32_t number = 0; number < rounds; number++) {
		while (slots[slot].busy)
			finish();
		start(slot, number, &state);
		slot = (slot + 1) % SLOTS;
	}
	drain();
	for (uint64_t offset = 0; offset < TARGET; offset += TARGET / 4) {
		ask(IBV_WR_RDMA_READ, offset, TARGET / 4, 0);
		if (memcmp(end.memory, model + offset, TARGET / 4))
			fail("the target's memory is not the model");
	}
	ask(IBV_WR_SEND_WITH_IMM, 0, 1, END);
	printf("checked: %u operations as expected\n", rounds);
}

/* A connection with the other host, of whose SERVER address is; NULL: it comes to us. */
static int meet_host(const char *port, const char *address)
{
	struct sockaddr_in to = { .sin_family = AF_INET, .sin_port = htons((uint16_t)atoi(port)) };
	int with = socket(AF_INET, SOCK_STREAM, 0), one = 1;

	if (address) {
		if (inet_pton(AF_INET, address, &to.sin_addr) != 1 || connect(with, (struct sockaddr *)&to, sizeof(to)))
			fail(address);
	} else {
		int listener = with;

		setsockopt(listener, SOL_SOCKET, SO_REUSEADDR, &one, sizeof(one));
		if (bind(listener, (struct sockaddr *)&to, sizeof(to)) || listen(listener, 1) ||
		    (with = accept(listener, NULL, NULL)) < 0)
			fail("the port");
		close(listener);
	}
	setsockopt(with, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
	return with;
}

static int between_hosts(int argc, char **argv)
{
	int gid_index = atoi(argv[4]), with = meet_host(argv[5], argc > 6 ? argv[6] : NULL);
	char byte;

	role = argc > 6 ? "initiator" : "target";
	waits = true;	/* a retry over a fence stops rdma_rxe of Linux 6.1 for good */
	open_end(argv[1], gid_index);
	connect_end(with, gid_index, 0);
	if (argc == 6) {
		serve(with);
		return 0;
	}
	if (read(with, &byte, 1) != 1)
		fail("the target");
	drive((unsigned)strtoul(argv[2], NULL, 0));
	return 0;
}

static int between_processes(char **argv)
{
	int with[2], status = 0, gid_index = strcmp(argv[1], "weft0") == 0 ? -1 : 0;
	char byte;

	if (socketpair(AF_UNIX, SOCK_STREAM, 0, with))
		fail("socketpair");
	child = fork();
	role = child ? "initiator" : "target";
	if (child == 0)
		prctl(PR_SET_PDEATHSIG, SIGKILL);
	open_end(argv[1], 0);
	connect_end(with[!child], gid_index, IBV_MTU_1024);
	if (child == 0) {
		close(with[0]);
		serve(with[1]);
		_exit(0);
	}
	close(with[1]);
	if (read(with[0], &byte, 1) != 1)
		fail("the target");
	drive((unsigned)strtoul(argv[2], NULL, 0));
	close(with[0]);
	if (waitpid(child, &status, 0) != child || !WIFEXITED(status) || WEXITSTATUS(status))
		fail("the target ended badly");
	return 0;
}

int main(int argc, char **argv)
{
	if (argc != 4 && argc != 6 && argc != 7) {
		fprintf(stderr, "usage: checked DEVICE ROUNDS SEED [GID-INDEX PORT [SERVER]]\n");
		return 2;
	}
	seed = strtoull(argv[3], NULL, 0);
	return argc == 4 ? between_processes(argv) : between_hosts(argc, argv);
}
