/* Sends to a QP that no process has, and ends well when the request fails by its retries and then COMMAND does:
 * stranger_qp [QPN [COMMAND]]. */
#include <infiniband/verbs.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static uint32_t destination;	/* 0: one of a process that was never there */

static int modify(struct ibv_qp *qp, enum ibv_qp_state state)
{
	struct ibv_qp_attr a = { .qp_state = state, .port_num = 1, .qp_access_flags = 0, .path_mtu = IBV_MTU_1024,
		.dest_qp_num = destination ? destination : (qp->qp_num ^ 0x555000) | 1,
		.ah_attr = { .dlid = 1, .port_num = 1 }, .timeout = 1,
		.retry_cnt = 1, .max_rd_atomic = 1, .max_dest_rd_atomic = 1 };
	static const int masks[] = {
		[IBV_QPS_INIT] = IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS,
		[IBV_QPS_RTR] = IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN |
				IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER,
		[IBV_QPS_RTS] = IBV_QP_STATE | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY | IBV_QP_SQ_PSN |
				IBV_QP_MAX_QP_RD_ATOMIC,
	};

	return ibv_modify_qp(qp, &a, masks[state]);
}

int main(int argc, char **argv)
{
	static char data[1000];
	struct ibv_device **all = ibv_get_device_list(NULL);
	struct ibv_context *context = all && all[0] ? ibv_open_device(all[0]) : NULL;
	struct ibv_pd *pd = context ? ibv_alloc_pd(context) : NULL;
	struct ibv_cq *cq = context ? ibv_create_cq(context, 4, NULL, NULL, 0) : NULL;
	struct ibv_qp_init_attr init = { .send_cq = cq, .recv_cq = cq, .qp_type = IBV_QPT_RC,
		.cap = { .max_send_wr = 1, .max_recv_wr = 1, .max_send_sge = 1, .max_recv_sge = 1 } };
	struct ibv_qp *qp = pd && cq ? ibv_create_qp(pd, &init) : NULL;
	struct ibv_mr *mr = pd ? ibv_reg_mr(pd, data, sizeof(data), 0) : NULL;
	struct ibv_sge sge = { .addr = (uintptr_t)data, .length = sizeof(data), .lkey = mr ? mr->lkey : 0 };
	struct ibv_send_wr wr = { .opcode = IBV_WR_SEND, .send_flags = IBV_SEND_SIGNALED, .sg_list = &sge, .num_sge = 1 }, *bad;
	struct ibv_wc wc = { 0 };
	int n;

	destination = argc > 1 ? (uint32_t)strtoul(argv[1], NULL, 0) : 0;
	if (!qp || !mr || modify(qp, IBV_QPS_INIT) || modify(qp, IBV_QPS_RTR) || modify(qp, IBV_QPS_RTS) ||
	    ibv_post_send(qp, &wr, &bad)) {
		perror("no QP");
		return 1;
	}
	while ((n = ibv_poll_cq(cq, 1, &wc)) == 0)
		;
	printf("%s\n", n == 1 ? ibv_wc_status_str(wc.status) : "no completion");
	if (argc > 2 && system(argv[2]))
		return 1;
	return n == 1 && wc.status == IBV_WC_RETRY_EXC_ERR ? 0 : 1;
}
