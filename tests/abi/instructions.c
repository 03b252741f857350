/* Messages between two QPs of one process, one at a time: what a message costs, with both its ends. `instructions KIND COUNT`;
 * instructions.py counts what measured() takes, which is the same in each run. */
#include <infiniband/verbs.h>

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { DEPTH = 64, MEMORY = 16384, LONG = 4096, MOST_QPS = 256, BATCH = 20, HEADER = 9,
       ACCESS = IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC };

struct end {
	struct ibv_cq *cq, *send_cq;	/* the same, but for frameworks */
	struct ibv_qp *qp[MOST_QPS];
};

struct world {
	struct ibv_context *context;
	struct ibv_pd *pd;
	struct ibv_mr *mr;
	struct ibv_ah *ah;
	struct ibv_srq *srq;	/* of the second end, or NULL */
	struct end a, b;
	uint8_t *memory;	/* MEMORY bytes: what is sent in the first half, what arrives in the second */
};

struct kind {
	const char *name;
	enum ibv_wr_opcode opcode;
	uint32_t bytes;
	enum ibv_qp_type type;
	int qps;		/* that take turns */
	unsigned flags;
	bool polls_only;
	bool is_shared;		/* receives are posted to an SRQ */
	bool is_framed;		/* as frameworks for messages do it */
};

static const struct kind kinds[] = {
	{ "send", IBV_WR_SEND, 8, IBV_QPT_RC, .qps = 1 },
	{ "send-inline", IBV_WR_SEND, 8, IBV_QPT_RC, .qps = 1, .flags = IBV_SEND_INLINE },
	{ "send-4096", IBV_WR_SEND, LONG, IBV_QPT_RC, .qps = 1 },
	{ "send-shared", IBV_WR_SEND, 8, IBV_QPT_RC, .qps = 1, .is_shared = true },
	{ "send-framed", IBV_WR_SEND, 8, IBV_QPT_RC, .qps = 1, .flags = IBV_SEND_INLINE | IBV_SEND_SOLICITED, .is_shared = true,
	  .is_framed = true },
	{ "send-qps", IBV_WR_SEND, 8, IBV_QPT_RC, .qps = MOST_QPS },
	{ "send-ud", IBV_WR_SEND, 8, IBV_QPT_UD, .qps = 1 },
	{ "write", IBV_WR_RDMA_WRITE, 8, IBV_QPT_RC, .qps = 1 },
	{ "write-qps", IBV_WR_RDMA_WRITE, 8, IBV_QPT_RC, .qps = MOST_QPS },
	{ "read", IBV_WR_RDMA_READ, 8, IBV_QPT_RC, .qps = 1 },
	{ "fetch-add", IBV_WR_ATOMIC_FETCH_AND_ADD, 8, IBV_QPT_RC, .qps = 1 },
	{ "poll", IBV_WR_SEND, 0, IBV_QPT_RC, .qps = 1, .polls_only = true },
};

static void must(bool holds, const char *what)
{
	if (holds)
		return;
	fprintf(stderr, "instructions: %s\n", what);
	exit(1);
}

static void open_end(struct world *w, struct end *e, const struct kind *k, struct ibv_srq *srq)
{
	struct ibv_qp_init_attr init = { .qp_type = k->type, .cap = { DEPTH, DEPTH, 2, 1, 64 }, .srq = srq };

	e->cq = ibv_create_cq(w->context, 2 * DEPTH, NULL, NULL, 0);
	e->send_cq = k->is_framed ? ibv_create_cq(w->context, 2 * DEPTH, NULL, NULL, 0) : e->cq;
	must(e->cq && e->send_cq, "no CQ");
	init.send_cq = e->send_cq;
	init.recv_cq = e->cq;
	for (int i = 0; i < k->qps; i++) {
		e->qp[i] = ibv_create_qp(w->pd, &init);
		must(e->qp[i], "no QP");
	}
}

static void to_init(struct ibv_qp *qp)
{
	struct ibv_qp_attr attr = { .qp_state = IBV_QPS_INIT, .port_num = 1, .qkey = 1, .qp_access_flags = ACCESS };

	must(!ibv_modify_qp(qp, &attr, IBV_QP_STATE | IBV_QP_PORT | IBV_QP_PKEY_INDEX |
			    (qp->qp_type == IBV_QPT_UD ? IBV_QP_QKEY : IBV_QP_ACCESS_FLAGS)), "INIT");
}

static void to_rts(struct ibv_qp *qp, uint32_t peer, uint16_t lid)
{
	struct ibv_qp_attr rtr = { .qp_state = IBV_QPS_RTR, .path_mtu = IBV_MTU_4096, .dest_qp_num = peer,
				   .max_dest_rd_atomic = 1, .min_rnr_timer = 12, .ah_attr = { .dlid = lid, .port_num = 1 } };
	struct ibv_qp_attr rts = { .qp_state = IBV_QPS_RTS, .timeout = 18, .retry_cnt = 7, .rnr_retry = 7, .max_rd_atomic = 1 };
	bool is_ud = qp->qp_type == IBV_QPT_UD;

	must(!ibv_modify_qp(qp, &rtr, IBV_QP_STATE | (is_ud ? 0 : IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN |
						      IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER)), "RTR");
	must(!ibv_modify_qp(qp, &rts, IBV_QP_STATE | IBV_QP_SQ_PSN |
			    (is_ud ? 0 : IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY | IBV_QP_MAX_QP_RD_ATOMIC)), "RTS");
}

static void open_world(struct world *w, const struct kind *k)
{
	struct ibv_srq_init_attr shared = { .attr = { .max_wr = DEPTH, .max_sge = 1 } };
	struct ibv_device **list = ibv_get_device_list(NULL);
	struct ibv_port_attr port;

	must(list && list[0], "no device");
	w->context = ibv_open_device(list[0]);
	must(w->context, "the device cannot be opened");
	ibv_free_device_list(list);
	w->pd = ibv_alloc_pd(w->context);
	w->memory = aligned_alloc(4096, MEMORY);
	must(w->pd && w->memory, "no memory");
	memset(w->memory, 0, MEMORY);
	w->mr = ibv_reg_mr(w->pd, w->memory, MEMORY, IBV_ACCESS_LOCAL_WRITE | ACCESS);
	must(w->mr && !ibv_query_port(w->context, 1, &port), "no region or no port");
	w->srq = k->is_shared ? ibv_create_srq(w->pd, &shared) : NULL;
	must(w->srq || !k->is_shared, "no SRQ");
	open_end(w, &w->a, k, NULL);
	open_end(w, &w->b, k, w->srq);
	for (int i = 0; i < k->qps; i++) {
		to_init(w->a.qp[i]);
		to_init(w->b.qp[i]);
		to_rts(w->a.qp[i], w->b.qp[i]->qp_num, port.lid);
		to_rts(w->b.qp[i], w->a.qp[i]->qp_num, port.lid);
	}
	w->ah = ibv_create_ah(w->pd, &(struct ibv_ah_attr){ .dlid = port.lid, .port_num = 1 });
	must(w->ah, "no address handle");
}

static void take(struct ibv_cq *cq)
{
	struct ibv_wc wc;
	int n;

	while ((n = ibv_poll_cq(cq, 1, &wc)) == 0)
		;
	must(n == 1 && wc.status == IBV_WC_SUCCESS, "a completion with an error");
}

static inline void receive(struct world *w, int i, struct ibv_recv_wr *receive)
{
	struct ibv_recv_wr *bad;

	must(!(w->srq ? ibv_post_srq_recv(w->srq, receive, &bad) : ibv_post_recv(w->b.qp[i], receive, &bad)),
	     "a receive is refused");
}

static void message(struct world *w, const struct kind *k, int i)
{
	uintptr_t there = (uintptr_t)w->memory + MEMORY / 2;
	struct ibv_sge from = { (uintptr_t)w->memory, k->bytes, w->mr->lkey }, to = { there, LONG + 40, w->mr->lkey };
	struct ibv_send_wr send = { .sg_list = &from, .num_sge = 1, .opcode = k->opcode,
				    .send_flags = IBV_SEND_SIGNALED | k->flags }, *bad_send;

	if (k->opcode == IBV_WR_SEND)
		receive(w, i, &(struct ibv_recv_wr){ .sg_list = &to, .num_sge = 1 });
	if (k->type == IBV_QPT_UD) {
		send.wr.ud.ah = w->ah;
		send.wr.ud.remote_qpn = w->b.qp[0]->qp_num;
		send.wr.ud.remote_qkey = 1;
	} else if (k->opcode == IBV_WR_ATOMIC_FETCH_AND_ADD) {
		send.wr.atomic.remote_addr = there;
		send.wr.atomic.rkey = w->mr->rkey;
		send.wr.atomic.compare_add = 1;
	} else {
		send.wr.rdma.remote_addr = there;
		send.wr.rdma.rkey = w->mr->rkey;
	}
	must(!ibv_post_send(w->a.qp[i], &send, &bad_send), "a send is refused");
	if (k->opcode == IBV_WR_SEND)
		take(w->b.cq);
	take(w->a.cq);
}

static void post_batch(struct world *w)
{
	struct ibv_sge to = { (uintptr_t)w->memory + MEMORY / 2, LONG, w->mr->lkey };
	struct ibv_recv_wr wr[BATCH];

	for (int i = 0; i < BATCH; i++)
		wr[i] = (struct ibv_recv_wr){ .next = i + 1 < BATCH ? &wr[i + 1] : NULL, .sg_list = &to, .num_sge = 1 };
	receive(w, 0, wr);
}

/* A header and data, inline, to an SRQ that is filled now and then. Few sends are signaled, and each end polls both of its CQs:
 * of four polls a message three are in vain. */
static void framed_message(struct world *w, const struct kind *k, int i)
{
	struct ibv_sge from[] = { { (uintptr_t)w->memory, HEADER, 0 }, { (uintptr_t)w->memory + 64, k->bytes, 0 } };
	bool is_last = i % BATCH == BATCH - 1;
	struct ibv_send_wr *bad, send = { .sg_list = from, .num_sge = 2, .opcode = k->opcode,
					  .send_flags = k->flags | (is_last ? IBV_SEND_SIGNALED : 0) };
	struct ibv_wc wc[BATCH];

	if (i % BATCH == 0)
		post_batch(w);
	must(!ibv_post_send(w->a.qp[0], &send, &bad), "a send is refused");
	must(ibv_poll_cq(w->a.cq, BATCH, wc) == 0, "a receive of nothing");
	must(ibv_poll_cq(w->a.send_cq, BATCH, wc) == is_last, "not the send that was signaled");
	must(ibv_poll_cq(w->b.cq, BATCH, wc) == 1 && wc->status == IBV_WC_SUCCESS && wc->byte_len == HEADER + k->bytes,
	     "not the message");
	must(ibv_poll_cq(w->b.send_cq, BATCH, wc) == 0, "a send of nothing");
}

static __attribute__((noinline, noclone)) void measured(struct world *w, const struct kind *k, int count)
{
	struct ibv_wc wc;

	for (int i = 0, qp = 0; i < count; i++) {
		if (k->polls_only)
			must(ibv_poll_cq(w->a.cq, 1, &wc) == 0, "a completion of nothing");
		else if (k->is_framed)
			framed_message(w, k, i);
		else
			message(w, k, qp);
		qp = qp + 1 == k->qps ? 0 : qp + 1;
	}
}

int main(int argc, char **argv)
{
	static struct world w;
	const struct kind *k = kinds;

	must(argc == 3, "usage: instructions KIND COUNT");
	while (k < kinds + sizeof(kinds) / sizeof(*kinds) && strcmp(k->name, argv[1]) != 0)
		k++;
	must(k < kinds + sizeof(kinds) / sizeof(*kinds), "no such kind");
	open_world(&w, k);
	measured(&w, k, atoi(argv[2]));
	return 0;
}
