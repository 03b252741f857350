/* An RC QP's way from RESET to RTS (IBA vol. 1, table 91): of one set of attributes each step takes what is its own. */
#ifndef WEFT_TESTS_RC_STEPS_H
#define WEFT_TESTS_RC_STEPS_H

#include <infiniband/verbs.h>

enum { RC_STEPS = 3 };

static const struct { enum ibv_qp_state to; int mask; } rc_step[RC_STEPS] = {
	{ IBV_QPS_INIT, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS },
	{ IBV_QPS_RTR, IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN |
		       IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER },
	{ IBV_QPS_RTS, IBV_QP_STATE | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY | IBV_QP_SQ_PSN |
		       IBV_QP_MAX_QP_RD_ATOMIC },
};

#endif
