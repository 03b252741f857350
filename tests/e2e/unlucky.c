/* A program with a planted failure: it sends COUNT (8) datagrams to itself and fails when the network lost one of them. The
 * datagrams that follow, until one arrives, show that no earlier one is still under way. With "wait" as its second argument it
 * stays until it is killed. */
#include <infiniband/verbs.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { GRH = 40, RECEIVES = 64, QKEY = 7 };

static struct ibv_qp *make_qp(struct ibv_pd *pd, struct ibv_cq *cq)
{
	struct ibv_qp_init_attr init = { .send_cq = cq, .recv_cq = cq, .qp_type = IBV_QPT_UD,
		.cap = { .max_send_wr = 1, .max_recv_wr = RECEIVES, .max_send_sge = 1, .max_recv_sge = 1 } };
	struct ibv_qp_attr a = { .qp_state = IBV_QPS_INIT, .port_num = 1, .qkey = QKEY };
	struct ibv_qp *qp = pd && cq ? ibv_create_qp(pd, &init) : NULL;

	if (!qp || ibv_modify_qp(qp, &a, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_QKEY))
		return NULL;
	a.qp_state = IBV_QPS_RTR;
	if (ibv_modify_qp(qp, &a, IBV_QP_STATE))
		return NULL;
	a.qp_state = IBV_QPS_RTS;
	return ibv_modify_qp(qp, &a, IBV_QP_STATE | IBV_QP_SQ_PSN) ? NULL : qp;
}

/* Sends one datagram, numbered, and takes in completions until its own is there. The numbers that arrive are noted. */
static int send_one(struct ibv_qp *qp, struct ibv_cq *cq, struct ibv_ah *ah, struct ibv_sge *sge, uint32_t number,
		    unsigned char *arrived)
{
	struct ibv_send_wr wr = { .wr_id = RECEIVES, .opcode = IBV_WR_SEND_WITH_IMM, .imm_data = number, .sg_list = sge,
		.num_sge = 1, .send_flags = IBV_SEND_SIGNALED, .wr.ud = { ah, qp->qp_num, QKEY } }, *bad;
	int is_sent = 0;

	if (ibv_post_send(qp, &wr, &bad))
		return -1;
	while (!is_sent) {
		struct ibv_wc wc;

		if (ibv_poll_cq(cq, 1, &wc) != 1)
			continue;
		if (wc.status != IBV_WC_SUCCESS)
			return -1;
		is_sent |= wc.wr_id == RECEIVES;
		if (wc.wr_id != RECEIVES)
			arrived[wc.imm_data] = 1;
	}
	return 0;
}

int main(int argc, char **argv)
{
	static char data[GRH + 64];
	unsigned count = argc > 1 ? (unsigned)atoi(argv[1]) % RECEIVES : 8, lost = 0, number;
	struct ibv_device **all = ibv_get_device_list(NULL);
	struct ibv_context *context = all && all[0] ? ibv_open_device(all[0]) : NULL;
	struct ibv_pd *pd = context ? ibv_alloc_pd(context) : NULL;
	struct ibv_cq *cq = context ? ibv_create_cq(context, RECEIVES + 1, NULL, NULL, 0) : NULL;
	struct ibv_qp *qp = make_qp(pd, cq);
	struct ibv_mr *mr = pd ? ibv_reg_mr(pd, data, sizeof(data), IBV_ACCESS_LOCAL_WRITE) : NULL;
	struct ibv_sge in = { (uintptr_t)data, sizeof(data), mr ? mr->lkey : 0 }, out = { (uintptr_t)data, 8, in.lkey };
	struct ibv_ah_attr way = { .port_num = 1 };
	unsigned char arrived[RECEIVES] = { 0 };
	struct ibv_port_attr port;
	struct ibv_ah *ah;

	if (!qp || !mr || ibv_query_port(context, 1, &port))
		return perror("no QP"), 2;
	way.dlid = port.lid;
	ah = ibv_create_ah(pd, &way);
	for (unsigned i = 0; ah && i < RECEIVES; i++) {
		struct ibv_recv_wr wr = { .wr_id = i, .sg_list = &in, .num_sge = 1 }, *bad;

		if (ibv_post_recv(qp, &wr, &bad))
			return perror("no receive"), 2;
	}
	for (number = 0; ah && number < RECEIVES && !memchr(arrived + count, 1, RECEIVES - count); number++) {
		if (send_one(qp, cq, ah, &out, number, arrived))
			return 2;
	}
	for (unsigned i = 0; i < count; i++)
		lost += !arrived[i];
	printf("%u of %u were lost\n", lost, count);
	fflush(stdout);
	while (argc > 2)
		pause();
	return lost ? 9 : 0;
}
