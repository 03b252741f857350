/* Two connected QPs on two nodes of a simulator, with memory, completion queues and receives: what most tests of the
 * transport start from. */
#ifndef WEFT_SIM_PAIR_H
#define WEFT_SIM_PAIR_H

#include "ib/ib.h"
#include "sim.h"

enum { PAIR_ACCESS = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC |
		     IBV_ACCESS_MW_BIND };

/* Where both sides' memory is registered: the same in every run, so that traces are too. */
#define PAIR_IOVA 0x100000ull

/* Zero in a member means the value in brackets. */
struct pair_config {
	struct sim_config sim;		/* nodes [2], mtu [IBV_MTU_4096] */
	enum ibv_qp_type type;		/* [IBV_QPT_RC]; IBV_QPT_XRC_SEND: one of each kind on both sides */
	enum ibv_mtu mtu;		/* path [IBV_MTU_1024] */
	uint32_t memory_bytes;		/* on each side [64 KB] */
	uint32_t sends, recvs;		/* queue depths [32] */
	uint32_t cqes;			/* of each completion queue [enough for both queues] */
	uint32_t sges;			/* [4] */
	psn_t psn[2];			/* where each side starts */
	uint8_t timeout;		/* this and the next three: attribute codes [8: 1.05 ms] */
	uint8_t retry_cnt, rnr_retry, min_rnr_timer;	/* as they are */
	uint8_t rd_atomic;		/* both depths [4] */
	uint8_t dest_rd_atomic;		/* the responders' [rd_atomic] */
	int qp_access;			/* [everything]; -1: none */
	bool with_grh;			/* InfiniBand link layer; RoCE always has one */
	bool shared_receives;		/* an SRQ on each side */
	bool unsignaled;		/* sq_sig_all off */
	bool stranger;			/* side 1 goes back only, whatever the options say */
	struct ib_options options;	/* window_pkts 0: ib_default_options */
};

struct pair_side {
	struct sim_node *node;
	struct pd *pd;
	struct cq *send_cq, *recv_cq;
	struct srq *srq;
	struct xrcd *xrcd;
	struct qp *qp;			/* posts sends */
	struct qp *target;		/* what the peer's packets name: qp, or for XRC the receiving QP */
	uint32_t target_qpn;		/* its number, also when it is gone */
	struct mr *mr;
	uint8_t *memory;		/* owned */
};

struct pair {
	struct sim *sim;
	struct pair_config config;
	struct pair_side side[2];
};

struct pair *pair_new(const struct pair_config *config);	/* connected, RTS; aborts on failure: no test without it */
void pair_delete(struct pair *pair);

/* Everything of `attr` that `to` needs, for QPs connected by hand. */
int pair_connect(struct pair *pair, int side, struct qp *qp, struct qp *remote, enum ibv_qp_state to);

/* A work request from offset `local` of this side's memory to offset `remote` of the other's. */
struct pair_wr {
	uint64_t wr_id;
	enum ibv_wr_opcode opcode;
	unsigned flags;			/* IBV_SEND_* */
	uint32_t local, remote, bytes;
	uint32_t pieces;		/* SGEs to cut it into [1] */
	uint32_t imm;			/* host order; or the key to invalidate */
	uint64_t compare_add, swap;
	uint32_t rkey;			/* [the other side's region] */
};
int pair_send(struct pair *pair, int side, const struct pair_wr *wr);
int pair_recv(struct pair *pair, int side, uint64_t wr_id, uint32_t local, uint32_t bytes);

/* The next completion of a side, false when there is none. */
bool pair_poll_send(struct pair *pair, int side, struct cqe *cqe);
bool pair_poll_recv(struct pair *pair, int side, struct cqe *cqe);

void pair_run(struct pair *pair);	/* until nothing happens, at most 100 virtual seconds */

#endif
