/* Shared receive queues. Receives are taken in posting order and copied when taken; they complete in any order, and each
 * completion removed from its CQ gives one credit back. */
#include "verbs/srq.h"

#include "verbs/qp.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>

static int attr_check(const struct ibv_device_attr *limit, const struct ibv_srq_init_attr_ex *attr,
		      struct xrcd *xrcd, struct cq *cq)
{
	if (attr->srq_type != IBV_SRQT_BASIC && attr->srq_type != IBV_SRQT_XRC)
		return -EOPNOTSUPP;
	if (attr->attr.max_wr == 0 || attr->attr.max_wr > (uint32_t)limit->max_srq_wr ||
	    attr->attr.max_sge > (uint32_t)limit->max_srq_sge)
		return -EINVAL;
	return (attr->srq_type == IBV_SRQT_XRC) == (xrcd && cq) ? 0 : -EINVAL;
}

int srq_create(struct pd *pd, const struct ibv_srq_init_attr_ex *attr, struct xrcd *xrcd, struct cq *cq, struct srq **out)
{
	int err = attr_check(&pd->dev->attr.orig_attr, attr, xrcd, cq);
	struct srq *srq;

	if (err < 0)
		return err;
	srq = calloc(1, sizeof(*srq));
	if (!srq)
		return -ENOMEM;
	*srq = (struct srq){ .ca = pd->ca, .dev = pd->dev, .pd = pd, .max_sge = attr->attr.max_sge, .type = attr->srq_type };
	err = wq_init(&srq->wq, &pd->ca->arena, attr->attr.max_wr,
		      sizeof(struct recv_wqe) + srq->max_sge * sizeof(struct wqe_seg));
	if (err < 0)
		goto free_srq;
	srq->max_wr = srq->wq.engine.ring.capacity;
	err = table_insert(&pd->ca->srqs, srq, &srq->srqn);
	if (err < 0)
		goto fini_wq;
	if (srq->type == IBV_SRQT_XRC) {
		err = cq_attach(cq, srq->wq.engine.ring.capacity);
		if (err < 0)
			goto remove_srqn;
		srq->cq = cq;
		srq->wq.engine.cq = cq->handle;
		srq->xrcd = xrcd;
		xrcd->users++;
	}
	srq->handle = srq->srqn;
	pd_get(pd);
	*out = srq;
	return 0;

remove_srqn:
	table_remove(&pd->ca->srqs, srq->srqn);
fini_wq:
	wq_fini(&srq->wq);
free_srq:
	free(srq);
	return err;
}

/* A QP of the XRC domain may have a half-arrived message in one of our receives: that connection cannot go on. */
static void fail_takers(struct srq *srq)
{
	list_for_each(qp, &srq->ca->all_qps, struct qp, all) {
		if (qp->taken.srq != srq)
			continue;
		qp->taken.srq = NULL;
		qp_error(qp, srq->ca->now, IBV_EVENT_QP_FATAL);
	}
}

int srq_destroy(struct srq *srq)
{
	if (srq->refs)
		return -EBUSY;
	if (srq->type == IBV_SRQT_XRC) {
		fail_takers(srq);
		cq_detach(srq->cq, srq->wq.engine.ring.capacity);
		srq->xrcd->users--;
	}
	table_remove(&srq->ca->srqs, srq->srqn);
	wq_fini(&srq->wq);
	pd_put(srq->pd);
	free(srq->observer);
	free(srq);
	return 0;
}

struct srq *srq_find(struct ca *ca, uint32_t srqn)
{
	return table_get(&ca->srqs, srqn);
}

int srq_modify(struct srq *srq, const struct ibv_srq_attr *attr, int mask)
{
	uint32_t max_wr = mask & IBV_SRQ_MAX_WR ? attr->max_wr : srq->max_wr;

	if (mask & ~(IBV_SRQ_MAX_WR | IBV_SRQ_LIMIT) || max_wr > (uint32_t)srq->dev->attr.orig_attr.max_srq_wr)
		return -EINVAL;
	if (mask & IBV_SRQ_LIMIT && attr->srq_limit > max_wr)
		return -EINVAL;
	if (mask & IBV_SRQ_MAX_WR) {
		/* the seed profile reserved a kept completion for each WQE when the queue was attached */
		int err = srq->ca->seed_cq_profile ? -EOPNOTSUPP : wq_resize(&srq->wq, max_wr);

		if (err < 0)
			return err;
		srq->max_wr = srq->wq.engine.ring.capacity;
	}
	if (mask & IBV_SRQ_LIMIT) {
		srq->limit = attr->srq_limit;
		srq_limit_check(srq);
	}
	return 0;
}

void srq_query(const struct srq *srq, struct ibv_srq_attr *attr)
{
	*attr = (struct ibv_srq_attr){ .max_wr = srq->max_wr, .max_sge = srq->max_sge, .srq_limit = srq->limit };
}

void srq_limit_check(struct srq *srq)
{
	if (srq->limit == 0)
		return;
	wq_doorbell_read(&srq->wq.engine);
	if (srq->wq.engine.announced - srq->wq.engine.started >= srq->limit)
		return;
	srq->limit = 0;
	srq->ca->ops->async_event(srq->ca->owner, IBV_EVENT_SRQ_LIMIT_REACHED, srq);
}

int srq_post(struct srq *srq, const struct ibv_recv_wr *wr, const struct ibv_recv_wr **bad)
{
	int err = recv_post(&srq->wq, srq->max_sge, wr, bad);

	if (!srq->ca->doorbells)	/* else when a message takes one */
		wq_doorbell_read(&srq->wq.engine);
	return err;
}

void srq_done(struct srq *srq)
{
	wq_completed(&srq->wq.engine);
}

void srq_reaped(struct srq *srq)
{
	wq_reaped(&srq->wq.ulp, srq->wq.ulp.reaped);
}

int xrcd_open(struct ca *ca, struct ca_device *dev, uint64_t inode_dev, uint64_t inode, int oflags, struct xrcd **out)
{
	bool is_shared = inode_dev || inode;
	struct xrcd *xrcd;

	if (oflags & ~(O_CREAT | O_EXCL) || (!is_shared && !(oflags & O_CREAT)))
		return -EINVAL;
	list_for_each(other, &ca->xrcds, struct xrcd, all) {
		if (!is_shared || other->dev != dev || other->inode_dev != inode_dev || other->inode != inode)
			continue;
		if (oflags & O_EXCL)
			return -EINVAL;
		other->refs++;
		*out = other;
		return 0;
	}
	if (!(oflags & O_CREAT))
		return -EAGAIN;
	xrcd = calloc(1, sizeof(*xrcd));
	if (!xrcd)
		return -ENOMEM;
	*xrcd = (struct xrcd){ .ca = ca, .dev = dev, .refs = 1, .inode_dev = inode_dev, .inode = inode };
	list_append(&ca->xrcds, &xrcd->all);
	*out = xrcd;
	return 0;
}

int xrcd_close(struct xrcd *xrcd)
{
	if (xrcd->refs == 1 && xrcd->users)
		return -EBUSY;
	if (--xrcd->refs)
		return 0;
	list_remove(&xrcd->all);
	free(xrcd);
	return 0;
}
