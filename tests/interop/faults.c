/* faults CASE DEVICE GID-INDEX PORT [SERVER]: a requester (with SERVER) asks a responder on another host for what must be
 * refused, or comes while it is not ready; both tell what their adapters reported and compare it with InfiniBand's specification
 * (vol. 1, 9.7.5.2, 9.9.3, 11.6.2). Where rdma_rxe reports otherwise, a case says what, and that is accepted from an adapter that
 * is not weft's. */
#include "peer.h"

#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum {
	ALL = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC,
	NONE = -1,			/* no completion, no event */
	SMALL = 1 << 14,		/* bytes of the region that is asked for */
	BASE = 1 << 16,			/* where it begins */
	STRIDE = 5120,			/* from message to message in memory, where there are several */
	WAIT_MS = 20000, SILENCE_MS = 300, EVENT_MS = 2000,
};

struct fault {
	const char *name;
	enum ibv_wr_opcode opcode;
	uint32_t bytes;			/* of each request */
	int64_t offset;			/* in the region, atomics and RDMA */
	uint32_t key_error;		/* is added to the rkey */
	int mr_access, qp_access;	/* of the responder */
	int receives;			/* that it posts before */
	uint32_t receive_bytes;
	bool bad_lkey;			/* of these receives */
	bool gone;			/* the responder's QP is not there any more */
	int late;			/* receives that it posts after the first RNR NAKs */
	int requests;
	uint8_t rnr_retry;
	int requester, responder;	/* how the requests and the first receive complete: enum ibv_wc_status, NONE */
	int event;			/* at the responder: enum ibv_event_type, NONE */
	/* with rdma_rxe as the responder, where that is not what it must be: the same three; 0: as it must */
	int rxe_requester, rxe_responder, rxe_event;
};

/* rdma_rxe of Linux 6.1 (drivers/infiniband/sw/rxe/rxe_resp.c, rxe_responder) reports no event of a refused request, completes
 * the receive that such a request would have used with the requester's error, and finds that a message does not fit, or that
 * its receive has a wrong key, when it copies: a fault of the operation, of whatever kind. */
#define REFUSED .requester = IBV_WC_REM_ACCESS_ERR, .event = IBV_EVENT_QP_ACCESS_ERR, .rxe_event = NONE
#define INVALID .requester = IBV_WC_REM_INV_REQ_ERR, .event = IBV_EVENT_QP_REQ_ERR, .rxe_event = NONE
#define FLUSHED .receives = 1, .receive_bytes = SMALL, .responder = IBV_WC_WR_FLUSH_ERR
#define COPIED .rxe_requester = IBV_WC_REM_OP_ERR, .rxe_responder = IBV_WC_LOC_QP_OP_ERR
#define RIGHTS .mr_access = ALL, .qp_access = ALL
#define LOCAL .mr_access = IBV_ACCESS_LOCAL_WRITE, .qp_access = ALL

static const struct fault faults[] = {
	{ "write-wrong-rkey", IBV_WR_RDMA_WRITE, 64, .key_error = 0x5500, RIGHTS, FLUSHED, REFUSED },
	{ "write-old-rkey", IBV_WR_RDMA_WRITE, 64, .key_error = 1, RIGHTS, FLUSHED, REFUSED },
	{ "write-beyond-end", IBV_WR_RDMA_WRITE, 9000, .offset = SMALL - 8999, RIGHTS, FLUSHED, REFUSED },
	{ "write-before-begin", IBV_WR_RDMA_WRITE, 64, .offset = -1, RIGHTS, FLUSHED, REFUSED },
	{ "write-no-right", IBV_WR_RDMA_WRITE, 64, LOCAL, FLUSHED, REFUSED },
	{ "write-imm-wrong-rkey", IBV_WR_RDMA_WRITE_WITH_IMM, 64, .key_error = 0x5500, RIGHTS, FLUSHED, REFUSED,
	  .rxe_responder = IBV_WC_REM_ACCESS_ERR },
	{ "write-not-enabled", IBV_WR_RDMA_WRITE, 64, .mr_access = ALL, .qp_access = IBV_ACCESS_REMOTE_READ, FLUSHED, INVALID },
	{ "read-wrong-rkey", IBV_WR_RDMA_READ, 64, .key_error = 0x5500, RIGHTS, FLUSHED, REFUSED },
	{ "read-beyond-end", IBV_WR_RDMA_READ, 9000, .offset = SMALL - 8999, RIGHTS, FLUSHED, REFUSED },
	{ "read-no-right", IBV_WR_RDMA_READ, 64, LOCAL, FLUSHED, REFUSED },
	{ "read-not-enabled", IBV_WR_RDMA_READ, 64, .mr_access = ALL, .qp_access = IBV_ACCESS_REMOTE_WRITE, FLUSHED, INVALID },
	{ "atomic-wrong-rkey", IBV_WR_ATOMIC_FETCH_AND_ADD, 8, .key_error = 0x5500, RIGHTS, FLUSHED, REFUSED },
	{ "atomic-no-right", IBV_WR_ATOMIC_CMP_AND_SWP, 8, LOCAL, FLUSHED, REFUSED },
	{ "atomic-beyond-end", IBV_WR_ATOMIC_FETCH_AND_ADD, 8, .offset = SMALL, RIGHTS, FLUSHED, REFUSED },
	{ "atomic-misaligned", IBV_WR_ATOMIC_FETCH_AND_ADD, 8, .offset = 4, RIGHTS, FLUSHED, INVALID },
	{ "write-nothing", IBV_WR_RDMA_WRITE, 0, .key_error = 0x5500, RIGHTS, .requester = IBV_WC_SUCCESS, .responder = NONE,
	  .event = NONE },
	{ "read-nothing", IBV_WR_RDMA_READ, 0, .key_error = 0x5500, RIGHTS, .requester = IBV_WC_SUCCESS, .responder = NONE,
	  .event = NONE },
	{ "send-too-long", IBV_WR_SEND, 600, RIGHTS, .receives = 1, .receive_bytes = 599, .requester = IBV_WC_REM_INV_REQ_ERR,
	  .responder = IBV_WC_LOC_LEN_ERR, .event = NONE, COPIED },
	{ "send-too-long-later", IBV_WR_SEND, 20000, RIGHTS, .receives = 1, .receive_bytes = 10000,
	  .requester = IBV_WC_REM_INV_REQ_ERR, .responder = IBV_WC_LOC_LEN_ERR, .event = NONE, COPIED },
	{ "send-bad-receive", IBV_WR_SEND, 600, RIGHTS, .receives = 1, .receive_bytes = 600, .bad_lkey = true,
	  .requester = IBV_WC_REM_OP_ERR, .responder = IBV_WC_LOC_PROT_ERR, .event = NONE, COPIED },
	{ "send-never-ready", IBV_WR_SEND, 600, RIGHTS, .rnr_retry = 2, .requester = IBV_WC_RNR_RETRY_EXC_ERR, .responder = NONE,
	  .event = NONE },
	{ "send-ready-later", IBV_WR_SEND, 5000, RIGHTS, .receives = 2, .receive_bytes = 5000, .late = 10, .requests = 12,
	  .rnr_retry = 7, .requester = IBV_WC_SUCCESS, .responder = IBV_WC_SUCCESS, .event = NONE },
	{ "write-imm-ready-later", IBV_WR_RDMA_WRITE_WITH_IMM, 5000, RIGHTS, .late = 6, .requests = 6, .rnr_retry = 7,
	  .requester = IBV_WC_SUCCESS, .responder = IBV_WC_SUCCESS, .event = NONE },
	{ "send-nobody", IBV_WR_SEND, 600, RIGHTS, .gone = true, .requester = IBV_WC_RETRY_EXC_ERR, .responder = NONE,
	  .event = NONE },
};

static struct peer peer;
static int wrong;

static bool is_weft(void)
{
	return strncmp(ibv_get_device_name(peer.ctx->device), "weft", 4) == 0;
}

static const char *status_name(int status)
{
	return status == NONE ? "none" : ibv_wc_status_str((enum ibv_wc_status)status);
}

static const char *event_name(int event)
{
	return event == NONE ? "none" : ibv_event_type_str((enum ibv_event_type)event);
}

static void check(const char *what, int got, int want, const char *(*name)(int))
{
	printf("%s: %s: %s", peer.role, what, name(got));
	if (got != want) {
		printf(" INSTEAD OF %s", name(want));
		wrong++;
	}
	printf("\n");
}

static int state_of_qp(void)
{
	struct ibv_qp_attr a;
	struct ibv_qp_init_attr init;

	return ibv_query_qp(peer.qp, &a, IBV_QP_STATE, &init) ? NONE : (int)a.qp_state;
}

static const char *state_name(int state)
{
	return state == IBV_QPS_ERR ? "error state" : state == IBV_QPS_RTS ? "ready to send" : "another state";
}

/* What comes within EVENT_MS, or at once where none is to come. */
static int next_event(int want)
{
	struct pollfd p = { .fd = peer.ctx->async_fd, .events = POLLIN };
	struct ibv_async_event event;

	fcntl(p.fd, F_SETFL, fcntl(p.fd, F_GETFL) | O_NONBLOCK);
	if (poll(&p, 1, want == NONE ? 0 : EVENT_MS) != 1 || ibv_get_async_event(peer.ctx, &event))
		return NONE;
	ibv_ack_async_event(&event);
	return (int)event.event_type;
}

static int request_count(const struct fault *f)
{
	return f->requests ? f->requests : 1;
}

/* ---- the requester ---- */

static void post(const struct fault *f, uint32_t number)
{
	size_t at = number * STRIDE;
	struct ibv_sge sge = { (uintptr_t)peer.memory + at, f->bytes, peer.mr->lkey };
	struct ibv_send_wr *bad, wr = { .wr_id = number, .sg_list = &sge, .num_sge = f->bytes ? 1 : 0, .opcode = f->opcode,
					.imm_data = number };

	peer_fill(peer.memory + at, f->bytes, number);
	if (f->opcode == IBV_WR_ATOMIC_FETCH_AND_ADD || f->opcode == IBV_WR_ATOMIC_CMP_AND_SWP) {
		wr.wr.atomic.remote_addr = peer.other.va + (uint64_t)f->offset;
		wr.wr.atomic.rkey = peer.other.rkey + f->key_error;
	} else {
		wr.wr.rdma.remote_addr = peer.other.va + (uint64_t)f->offset;
		wr.wr.rdma.rkey = peer.other.rkey + f->key_error;
	}
	if (ibv_post_send(peer.qp, &wr, &bad))
		peer_fail(&peer, "ibv_post_send");
}

static void request(const struct fault *f)
{
	int count = request_count(f), status = IBV_WC_SUCCESS;
	int want = is_weft() && f->rxe_requester ? f->rxe_requester : f->requester;
	struct ibv_wc wc;

	for (int i = 0; i < count; i++)
		post(f, (uint32_t)i);
	for (int i = 0; i < count; i++) {
		if (!peer_completion(&peer, &wc, WAIT_MS)) {
			status = NONE;
			break;
		}
		if (status == IBV_WC_SUCCESS)
			status = (int)wc.status;
		if (wc.wr_id != (uint64_t)i)
			check("order of completions", IBV_WC_GENERAL_ERR, IBV_WC_SUCCESS, status_name);
	}
	check("completion", status, want, status_name);
	check("QP", state_of_qp(), f->requester == IBV_WC_SUCCESS ? IBV_QPS_RTS : IBV_QPS_ERR, state_name);
	if (f->requester != IBV_WC_SUCCESS) {
		post(f, 1);
		check("what is posted then", peer_completion(&peer, &wc, WAIT_MS) ? (int)wc.status : NONE, IBV_WC_WR_FLUSH_ERR,
		      status_name);
	}
	peer_meet(&peer);
}

/* ---- the responder ---- */

static void post_receives(const struct fault *f, int from, int count)
{
	for (int i = from; i < from + count; i++)
		peer_receive(&peer, (uint64_t)i, (size_t)i * STRIDE, f->receive_bytes ? f->receive_bytes : 16,
			     peer.mr->lkey + (f->bad_lkey ? 0x5500 : 0));
}

/* So many messages from this one on, in their order and whole: how they complete. */
static int take(const struct fault *f, int from, int count)
{
	struct ibv_wc wc;

	for (int i = from; i < from + count; i++) {
		if (!peer_completion(&peer, &wc, WAIT_MS))
			return NONE;
		if (wc.status != IBV_WC_SUCCESS)
			return (int)wc.status;
		if (wc.wr_id != (uint64_t)i || wc.byte_len != f->bytes)
			return IBV_WC_GENERAL_ERR;
		if (f->opcode == IBV_WR_SEND ? !peer_holds(peer.memory + i * STRIDE, f->bytes, (uint32_t)i) :
		    wc.imm_data != (uint32_t)i)
			return IBV_WC_GENERAL_ERR;
	}
	return IBV_WC_SUCCESS;
}

static int respond_late(const struct fault *f)
{
	int status = take(f, 0, f->receives);

	if (status != IBV_WC_SUCCESS)
		return status;
	poll(NULL, 0, SILENCE_MS);	/* RNR NAKs meanwhile, each for 1 ms */
	post_receives(f, f->receives, f->late);
	return take(f, f->receives, f->late);
}

static void respond(const struct fault *f)
{
	int want = !is_weft() && f->rxe_responder ? f->rxe_responder : f->responder;
	int event = !is_weft() && f->rxe_event ? f->rxe_event : f->event;
	/* a request that cannot be carried out stops both QPs; a responder that is not ready or not there goes on */
	bool stops = f->requester != IBV_WC_SUCCESS && f->requester != IBV_WC_RNR_RETRY_EXC_ERR && !f->gone;
	struct ibv_wc wc;

	if (f->late)
		check("completion", respond_late(f), want, status_name);
	else
		check("completion", peer_completion(&peer, &wc, f->receives ? WAIT_MS : SILENCE_MS) ? (int)wc.status : NONE, want,
		      status_name);
	peer_meet(&peer);
	if (!f->gone)
		check("QP", state_of_qp(), stops ? IBV_QPS_ERR : IBV_QPS_RTS, state_name);
	check("event", next_event(event), event, event_name);
}

static void prepare(const struct fault *f)
{
	struct ibv_mr *region = ibv_reg_mr(peer.pd, peer.memory + BASE, SMALL, f->mr_access);
	/* rdma_rxe lets its ACK timer run on while it waits out an RNR NAK: longer than a responder is late */
	struct peer_options options = { .type = IBV_QPT_RC, .access = f->qp_access, .timeout = f->gone ? 12 : 16,
					.retry_cnt = f->gone ? 3 : 7, .rnr_retry = f->rnr_retry };

	if (!region)
		peer_fail(&peer, "ibv_reg_mr");
	peer.own.rkey = region->rkey;
	peer.own.va = (uintptr_t)peer.memory + BASE;
	peer_connect(&peer, &options);
}

int main(int argc, char **argv)
{
	bool asks = argc == 6;
	const struct fault *f = NULL;

	for (size_t i = 0; argc > 1 && i < sizeof(faults) / sizeof(faults[0]); i++) {
		if (strcmp(argv[1], "--list") == 0)
			puts(faults[i].name);
		if (strcmp(argv[1], faults[i].name) == 0)
			f = &faults[i];
	}
	if (argc == 2 && !f && strcmp(argv[1], "--list") == 0)
		return 0;
	if (!f || argc < 5 || argc > 6) {
		fprintf(stderr, "usage: faults CASE DEVICE GID-INDEX PORT [SERVER]; faults --list\n");
		return 2;
	}
	peer.role = asks ? "requester" : "responder";
	peer_open(&peer, argv[2], atoi(argv[3]), (uint16_t)atoi(argv[4]), asks ? argv[5] : "");
	prepare(f);
	if (!asks) {
		post_receives(f, 0, f->receives);
		if (f->gone) {
			ibv_destroy_qp(peer.qp);
			peer.qp = NULL;
		}
	}
	peer_meet(&peer);
	if (asks)
		request(f);
	else
		respond(f);
	return wrong > 0;
}
