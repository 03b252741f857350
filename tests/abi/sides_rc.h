/* Of tests in two processes that speak over RC: what each side has, and messages of a few bytes between them. */
#ifndef WEFT_TESTS_ABI_SIDES_RC_H
#define WEFT_TESTS_ABI_SIDES_RC_H

#include "rc.h"
#include "sides.h"

#include <infiniband/verbs.h>

enum { SIDES_BYTES = 8 };	/* of each message */

/* Of this side. */
static struct ibv_context *context;
static struct ibv_pd *pd;
static struct ibv_cq *cq;	/* of all queues */
static struct ibv_mr *mr;
static char memory[64];

static inline void sides_open(int device, int completions)
{
	context = device_open(device);
	require(context, "no device");
	pd = ibv_alloc_pd(context);
	cq = ibv_create_cq(context, completions, NULL, NULL, 0);
	require(pd && cq, "no PD or CQ");
	mr = ibv_reg_mr(pd, memory, sizeof(memory), IBV_ACCESS_LOCAL_WRITE);
	require(mr, "no region");
}

static inline struct ibv_qp *sides_qp(unsigned sends, unsigned receives)
{
	struct ibv_qp_init_attr init = {
		.send_cq = cq, .recv_cq = cq, .qp_type = IBV_QPT_RC, .cap = { sends, receives, 1, 1, 0 },
	};
	struct ibv_qp *qp = ibv_create_qp(pd, &init);

	require(qp, "no QP");
	return qp;
}

static inline void sides_receive(struct ibv_qp *qp)
{
	struct ibv_sge sge = { (uintptr_t)memory + 32, SIDES_BYTES, mr->lkey };
	struct ibv_recv_wr *bad, wr = { .sg_list = &sge, .num_sge = 1 };

	require(!ibv_post_recv(qp, &wr, &bad), "a receive is refused");
}

/* refused: what is wrong when it is. */
static inline void sides_send(struct ibv_qp *qp, const char *refused)
{
	struct ibv_sge sge = { (uintptr_t)memory, SIDES_BYTES, mr->lkey };
	struct ibv_send_wr *bad, wr = { .sg_list = &sge, .num_sge = 1, .opcode = IBV_WR_SEND, .send_flags = IBV_SEND_SIGNALED };

	require(!ibv_post_send(qp, &wr, &bad), refused);
}

#endif
