/* Shared receive queues, basic and XRC, and XRC domains. */
#ifndef WEFT_VERBS_SRQ_H
#define WEFT_VERBS_SRQ_H

#include "verbs/cq.h"
#include "verbs/pd.h"

struct xrcd {
	struct ca *ca;
	struct ca_device *dev;
	uint32_t handle;
	uint32_t refs;		/* openers */
	uint32_t users;		/* SRQs and QPs */
	uint64_t inode_dev, inode;	/* shared by descriptor; 0,0 when private */
	struct list_node all;
};

struct srq {
	struct ca *ca;
	struct ca_device *dev;
	struct pd *pd;		/* ref */
	struct wq wq;		/* a WQE is copied when taken, so slots free up in order; credits wait for completions */
	uint32_t max_wr, max_sge;
	uint32_t limit;		/* armed when > 0 */
	uint32_t srqn;
	enum ibv_srq_type type;
	struct xrcd *xrcd;	/* XRC, ref */
	struct cq *cq;		/* XRC, ref */
	uint32_t refs;		/* QPs */
	uint32_t handle;
	void *observer;		/* as a QP's */
	void *user;
};

int srq_create(struct pd *pd, const struct ibv_srq_init_attr_ex *attr, struct xrcd *xrcd, struct cq *cq, struct srq **srq);
int srq_modify(struct srq *srq, const struct ibv_srq_attr *attr, int mask);
void srq_query(const struct srq *srq, struct ibv_srq_attr *attr);
int srq_destroy(struct srq *srq);
int srq_post(struct srq *srq, const struct ibv_recv_wr *wr, const struct ibv_recv_wr **bad);
struct srq *srq_find(struct ca *ca, uint32_t srqn);
/* Raises SRQ_LIMIT_REACHED, once, when fewer receives are available than the armed limit. */
void srq_limit_check(struct srq *srq);
/* For the queue's consumers: a taken WQE is done, and its completion was removed from the CQ. */
void srq_done(struct srq *srq);
void srq_reaped(struct srq *srq);

/* As the kernel has it: -EAGAIN without O_CREAT when there is none yet, -EINVAL with O_EXCL when there is. */
int xrcd_open(struct ca *ca, struct ca_device *dev, uint64_t inode_dev, uint64_t inode, int oflags, struct xrcd **xrcd);
int xrcd_close(struct xrcd *xrcd);	/* -EBUSY for the last opener while SRQs or QPs use it */

#endif
