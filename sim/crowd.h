/* Many nodes of a simulator with a QP, a completion queue and memory each. Posting makes nothing move: sim_run does. */
#ifndef WEFT_SIM_CROWD_H
#define WEFT_SIM_CROWD_H

#include "sim.h"

/* Where everybody's memory is registered. */
#define CROWD_IOVA 0x100000ull

/* Zero in a member means the value in brackets. */
struct crowd_config {
	struct sim_config sim;		/* mtu [IBV_MTU_4096] */
	enum ibv_qp_type type;		/* IBV_QPT_RC or IBV_QPT_UD */
	uint32_t memory_bytes;		/* of each member [4 KB] */
	uint32_t depth;			/* of both queues [8] */
	uint32_t next_qpn;		/* everybody's number, but for the bits that are its node's [whatever comes] */
};

struct crowd_member {
	struct sim_node *node;
	struct pd *pd;
	struct cq *cq;			/* of both queues */
	struct mr *mr;
	struct qp *qp;
	uint8_t *memory;		/* borrowed */
};

struct crowd {
	struct sim *sim;
	struct crowd_config config;
	struct crowd_member *member;	/* owned: sim.nodes */
	uint8_t *memory;		/* owned */
};

struct crowd *crowd_new(const struct crowd_config *config);	/* UD is in RTS; aborts on failure: no test without it */
void crowd_delete(struct crowd *crowd);

/* Two members' RC QPs, with each other, to RTS. */
void crowd_connect(struct crowd *crowd, int a, int b);

/* `bytes` from offset `at` of the member's memory on; `to` matters to datagrams alone. Completes with wr_id `at`. */
int crowd_send(struct crowd *crowd, int from, int to, uint32_t at, uint32_t bytes);
int crowd_recv(struct crowd *crowd, int member, uint32_t at, uint32_t bytes);

#endif
