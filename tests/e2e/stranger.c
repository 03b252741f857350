/* Three processes: two are connected, and the third, which knows all their numbers, sends their QPs packets in each other's name
 * over channels of its own, for every PSN near the expected one. Nothing of it may arrive, and the connection must live.
 * Needs WEFT_DIR of a running weftd. WEFT_TEST_LIMIT=user: each of the three is another user. `stranger QPS`: the client makes so
 * many other QPs first; with 4095 its numbers begin with a second slot. */
#include "attach.h"
#include "channel.h"
#include "connect.h"

#include "runtime/entry.h"
#include "runtime/requests.h"
#include "runtime/runtime.h"
#include "runtime/state.h"
#include "verbs/cq.h"
#include "verbs/mr.h"
#include "verbs/pd.h"
#include "wire/aeth.h"
#include "wire/packet.h"

#include <signal.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>

enum { SERVER, CLIENT, STRANGER, SIDES, PSN = 0xffffa0, SWEEP = 256, QKEY = 0x1111, BYTES = 64, ROOM = 256, USER = 20001,
       FORGED = 3 * 2 * SWEEP + 2 };	/* packets that speak_as sends */

/* What everybody knows of one process. */
struct card {
	uint32_t rc, ud, rkey;
	uint64_t va;
	uint16_t lid;
};

static struct side {
	int self;
	int socket[SIDES];		/* to the others; of the parent, SERVER, alone */
	struct runtime *rt;
	struct cq *cq;
	struct qp *rc, *ud;
	struct mr *mr;
	uint8_t *buffer;
	struct card card[SIDES];
} s;

static unsigned others;

static void make_objects(void)
{
	struct ca *ca;
	struct ca_device *dev;
	struct pd *pd;
	struct ibv_qp_init_attr_ex init = { .cap = { .max_send_wr = 8, .max_recv_wr = 8, .max_send_sge = 1, .max_recv_sge = 1 } };

	s.rt = attach();
	ca = runtime_ca(s.rt);
	dev = &ca->dev[0];
	s.buffer = aligned_alloc(4096, 4096);
	memset(s.buffer, 0, 4096);
	runtime_enter(s.rt);
	check(pd_create(ca, dev, &pd), "pd");
	check(cq_create(ca, dev, 1 << 17, &s.cq), "cq");
	check(mr_create(pd, s.buffer, 4096, (uintptr_t)s.buffer, IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE, &s.mr), "mr");
	init.qp_type = IBV_QPT_RC;
	for (unsigned i = 0; s.self == CLIENT && i < others; i++) {
		runtime_leave(s.rt);
		runtime_reserve_numbers(s.rt);
		runtime_enter(s.rt);
		check(qp_create(ca, dev, &init, pd, s.cq, s.cq, NULL, NULL, &s.rc), "one QP of many");
	}
	check(qp_create(ca, dev, &init, pd, s.cq, s.cq, NULL, NULL, &s.rc), "RC QP");
	init.qp_type = IBV_QPT_UD;
	check(qp_create(ca, dev, &init, pd, s.cq, s.cq, NULL, NULL, &s.ud), "UD QP");
	runtime_leave(s.rt);
	s.card[s.self] = (struct card){ s.rc->qpn, s.ud->qpn, s.mr->key, (uintptr_t)s.buffer, dev->lid };
}

/* The parent hands the cards round. */
static void exchange(void)
{
	if (s.self != SERVER) {
		if (write(s.socket[SERVER], &s.card[s.self], sizeof(s.card[0])) != sizeof(s.card[0]) ||
		    read(s.socket[SERVER], s.card, sizeof(s.card)) != sizeof(s.card))
			die("the server is gone");
		return;
	}
	for (int i = CLIENT; i < SIDES; i++)
		if (read(s.socket[i], &s.card[i], sizeof(s.card[i])) != sizeof(s.card[i]))
			die("a side is gone");
	for (int i = CLIENT; i < SIDES; i++)
		if (write(s.socket[i], s.card, sizeof(s.card)) != sizeof(s.card))
			die("a side is gone");
}

static void tell(int whom)
{
	if (write(s.socket[whom], "", 1) != 1)
		die("a side is gone");
}

static void wait_for(int whom)
{
	char c;

	if (read(s.socket[whom], &c, 1) != 1)
		die("a side is gone");
}

static void connect_all(void)
{
	static const enum ibv_qp_state states[] = { IBV_QPS_INIT, IBV_QPS_RTR, IBV_QPS_RTS };
	static const int masks[] = { IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_QKEY, 0, IBV_QP_SQ_PSN };
	const struct card *peer = &s.card[s.self == SERVER ? CLIENT : SERVER];
	wtime now = runtime_enter(s.rt);

	rc_connect(s.rc, now, (struct ibv_qp_attr){
		.port_num = 1, .qp_access_flags = IBV_ACCESS_REMOTE_WRITE, .path_mtu = IBV_MTU_1024, .dest_qp_num = peer->rc,
		.ah_attr = { .dlid = peer->lid, .port_num = 1 }, .rq_psn = PSN, .sq_psn = PSN, .timeout = 14, .retry_cnt = 7,
		.rnr_retry = 7, .min_rnr_timer = 12, .max_rd_atomic = 1, .max_dest_rd_atomic = 1 });
	for (int i = 0; i < 3; i++) {
		struct ibv_qp_attr attr = { .qp_state = states[i], .port_num = 1, .qkey = QKEY };

		check(qp_modify(s.ud, now, &attr, IBV_QP_STATE | masks[i]), "connect the UD QP");
	}
	runtime_leave(s.rt);
}

static void post_recv(struct qp *qp, uint32_t at)
{
	struct ibv_sge sge = { .addr = (uintptr_t)(s.buffer + at), .length = ROOM, .lkey = s.mr->key };
	struct ibv_recv_wr wr = { .sg_list = &sge, .num_sge = 1 };
	const struct ibv_recv_wr *bad;
	wtime now = runtime_enter(s.rt);

	check(qp_post_recv(qp, now, &wr, &bad), "post receive");
	runtime_leave(s.rt);
}

static void send_to_server(struct qp *qp, uint8_t what)
{
	struct ibv_sge sge = { .addr = (uintptr_t)s.buffer, .length = BYTES, .lkey = s.mr->key };
	struct ibv_send_wr wr = { .sg_list = &sge, .num_sge = 1, .opcode = IBV_WR_SEND, .send_flags = IBV_SEND_SIGNALED }, *bad;
	struct ah *made = NULL;
	wtime now;

	memset(s.buffer, what, BYTES);
	now = runtime_enter(s.rt);
	if (qp == s.ud) {
		struct ibv_ah_attr attr = { .dlid = s.card[SERVER].lid, .port_num = 1 };

		made = calloc(1, sizeof(*made));
		made->pd = qp->pd;
		check(av_from_attr(qp->dev, &attr, &made->av), "address");
		wr.wr.ud.ah = &made->ibv;
		wr.wr.ud.remote_qpn = s.card[SERVER].ud;
		wr.wr.ud.remote_qkey = QKEY;
	}
	check(qp_post_send(qp, now, &wr, &bad), "post send");
	runtime_leave(s.rt);
	free(made);
}

static bool poll_once(struct cqe *cqe)
{
	bool any;

	runtime_enter_poll(s.rt);
	any = cq_poll(s.cq, cqe);
	runtime_leave(s.rt);
	if (any && cqe->status != IBV_WC_SUCCESS)
		check(cqe->status, "a completion has failed");
	return any;
}

static struct cqe next_completion(void)
{
	struct cqe cqe;

	while (!poll_once(&cqe))
		;
	return cqe;
}

/* ---- the stranger ---- */

static void send_frame(struct channel *ch, struct packet p)
{
	static uint8_t data[BYTES] = { 0xbd };
	struct iovec iov = { data, p.payload_bytes };

	p.form = PACKET_IB;
	p.pkey = 0xffff;
	p.path.dlid = s.card[SERVER].lid;
	if (!p.path.slid)
		p.path.slid = s.card[CLIENT].lid;
	p.payload = &iov;
	p.payload_iovs = 1;
	while (!ch->link->ops->send(ch->link, 0, (const struct packet *const[]){ &p }, 1)) {
		ch->link->ops->flush(ch->link);
		sched_yield();
	}
}

/* Every kind of packet that would change something, near the PSN that the two have agreed on. */
static void speak_as(int speaker, int hearer)
{
	uint32_t qpn = s.card[hearer].rc;
	struct channel *ch;

	runtime_enter(s.rt);
	ch = channel_await(s.rt, qpn_slot(qpn));
	if (!ch)
		die("no channel");
	for (int i = -SWEEP; i < SWEEP; i++) {
		psn_t psn = psn_add(PSN, i);

		send_frame(ch, (struct packet){ .opcode = OPCODE_RC_SEND_ONLY, .dest_qpn = qpn, .psn = psn,
						.ack_requested = true, .payload_bytes = BYTES });
		send_frame(ch, (struct packet){ .opcode = OPCODE_RC_RDMA_WRITE_ONLY, .dest_qpn = qpn, .psn = psn,
						.reth = { s.card[hearer].va, s.card[hearer].rkey, BYTES },
						.payload_bytes = BYTES });
		send_frame(ch, (struct packet){ .opcode = OPCODE_RC_ACKNOWLEDGE, .dest_qpn = qpn, .psn = psn,
						.aeth = { aeth_syndrome(AETH_NAK, NAK_REMOTE_OPERATIONAL), 0 } });
	}
	send_frame(ch, (struct packet){ .opcode = OPCODE_UD_SEND_ONLY, .dest_qpn = s.card[hearer].ud, .payload_bytes = BYTES,
					.deth = { QKEY, s.card[speaker].ud } });
	/* its own QP, at an address that nobody here has */
	send_frame(ch, (struct packet){ .opcode = OPCODE_UD_SEND_ONLY, .dest_qpn = s.card[hearer].ud, .payload_bytes = BYTES,
					.deth = { QKEY, s.ud->qpn }, .path.slid = 77 });
	ch->link->ops->flush(ch->link);
	runtime_leave(s.rt);
}

static void be_stranger(void)
{
	wait_for(SERVER);
	speak_as(CLIENT, SERVER);
	speak_as(SERVER, CLIENT);
	/* in its own name, and last in the ring, so that the rest was taken in before */
	send_to_server(s.ud, STRANGER);
	next_completion();
	tell(SERVER);
	wait_for(SERVER);
}

/* ---- the two ---- */

static void be_client(void)
{
	struct cqe cqe;

	wait_for(SERVER);
	send_to_server(s.rc, CLIENT);
	next_completion();
	send_to_server(s.ud, CLIENT);
	next_completion();
	/* the client may hear of the stranger's channel late */
	while (runtime_ca(s.rt)->counters.dropped_source < FORGED)
		if (poll_once(&cqe))
			die("a stranger was heard by the client");
	if (s.buffer[ROOM])
		die("a stranger has written to the client");
	tell(SERVER);
	wait_for(SERVER);
}

static void expect(uint32_t src_qpn, uint32_t at, uint8_t what)
{
	struct cqe cqe = next_completion();

	if (cqe.kind != CQE_RECV || cqe.src_qp != src_qpn || s.buffer[at] != what || s.buffer[at + BYTES - 1] != what)
		die("what arrived is not what was sent");
}

static void be_server(void)
{
	const uint32_t rc_at = 1024, ud_at = 2048, grh = 40;
	uint64_t forged;

	post_recv(s.rc, rc_at);
	post_recv(s.ud, ud_at);
	post_recv(s.ud, ud_at + ROOM);
	tell(STRANGER);
	expect(s.card[STRANGER].ud, ud_at + grh, STRANGER);
	wait_for(STRANGER);
	forged = runtime_ca(s.rt)->counters.dropped_source;
	if (forged != FORGED)
		die("packets of a stranger were taken for the client's");
	if (s.buffer[0])
		die("a stranger has written");
	tell(CLIENT);
	expect(s.card[CLIENT].rc, rc_at, CLIENT);
	expect(s.card[CLIENT].ud, ud_at + ROOM + grh, CLIENT);
	wait_for(CLIENT);
	signal(SIGCHLD, SIG_DFL);
	printf("%llu forged packets dropped\n", (unsigned long long)forged);
	tell(CLIENT);
	tell(STRANGER);
}

static void on_child(int signal)
{
	(void)signal;
	_exit(1);
}

static void run(int self)
{
	const char *limit = getenv("WEFT_TEST_LIMIT");

	s.self = self;
	if (limit && strcmp(limit, "user") == 0 && (setresgid(USER + self, USER + self, USER + self) ||
						    setresuid(USER + self, USER + self, USER + self)))
		die("cannot become another user");
	if (self != SERVER)	/* whoever fails takes the others along */
		prctl(PR_SET_PDEATHSIG, SIGKILL);
	make_objects();
	exchange();
	connect_all();
	/* nobody speaks before all hear */
	if (self == SERVER) {
		for (int i = CLIENT; i < SIDES; i++)
			wait_for(i);
		be_server();
	} else {
		tell(SERVER);
		(self == CLIENT ? be_client : be_stranger)();
	}
}

int main(int argc, char **argv)
{
	pid_t child[SIDES] = { 0 };

	others = argc > 1 ? (unsigned)strtoul(argv[1], NULL, 0) : 0;

	signal(SIGCHLD, on_child);
	for (int i = CLIENT; i < SIDES; i++) {
		int pair[2];

		check(socketpair(AF_UNIX, SOCK_STREAM, 0, pair) ? -errno : 0, "socketpair");
		child[i] = fork();
		if (child[i] == 0) {
			s.socket[SERVER] = pair[1];
			close(pair[0]);
			run(i);
			return 0;
		}
		close(pair[1]);
		s.socket[i] = pair[0];
	}
	run(SERVER);
	for (int i = CLIENT; i < SIDES; i++) {
		int status;

		if (waitpid(child[i], &status, 0) < 0 || status)
			die("a side failed");
	}
	return 0;
}
