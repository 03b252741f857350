/* The stock ABI's objects: each embeds the struct that <infiniband/verbs.h> shows and points to the object of verbs that does
 * the work. Who creates an object enters it in its context, so that closing the context leaves nothing. Everything here is
 * guarded by the runtime's lock unless it says otherwise. */
#ifndef WEFT_ABI_VERBS_OBJECT_H
#define WEFT_ABI_VERBS_OBJECT_H

#include "base/list.h"
#include "runtime/device_faults.h"
#include "runtime/runtime.h"
#include "verbs/qp.h"

#include <pthread.h>
#include <sys/types.h>

/* The stock header turns these names into calls with one argument more; here they are functions. */
#undef ibv_query_port
#undef ibv_reg_mr
#undef ibv_reg_mr_iova
#undef ibv_get_device_list

#define ABI_EXPORT __attribute__((visibility("default")))

/* The first member of every object, so that a forgotten one can be freed by it. */
struct abi_object {
	struct list_node node;
	/* The device is closed: destroys what stands behind the object. 0, or -EBUSY while others need it. */
	int (*destroy)(struct abi_object *o);
};

struct abi_context {
	struct runtime *rt;	/* borrowed: it lives as long as the process */
	struct ca *ca;
	struct ca_device *dev;
	struct list_node all;
	struct list objects;	/* struct abi_object, oldest first */
	struct list async;	/* struct async_event */
	dev_t cmd_dev;		/* what cmd_fd is, to recognise a duplicate */
	ino_t cmd_ino;
	struct verbs_context vctx;
};

struct abi_pd {
	struct abi_object object;
	struct ibv_pd ibv;
	struct pd *pd;
	struct abi_pd *parent;	/* ref: a parent domain uses this one's pd */
	struct abi_td *td;	/* ref */
	uint32_t refs;		/* parent domains on it */
	bool imported;
};

struct abi_td {
	struct abi_object object;
	struct ibv_td ibv;
	uint32_t refs;		/* parent domains */
};

struct abi_dm {
	struct abi_object object;
	struct ibv_dm ibv;
	uint8_t *memory;	/* owned unless imported */
	size_t bytes;
	uint32_t refs;		/* regions and imports */
	struct abi_dm *origin;	/* imported: the one that owns the memory */
};

struct abi_mr {
	struct abi_object object;
	struct ibv_mr ibv;
	struct mr *mr;
	struct abi_dm *dm;	/* ref */
	void *map;		/* owned: a dmabuf's mapping */
	size_t map_bytes;
	bool imported;
};

struct abi_mw {
	struct abi_object object;
	struct ibv_mw ibv;
	struct mr *mw;
};

struct abi_ah {
	struct abi_object object;
	struct ah ah;
};

struct abi_channel {
	struct ibv_comp_channel ibv;
	struct list ready;	/* struct abi_cq.ready: events wait */
};

struct abi_cq {
	struct abi_object object;
	struct ibv_cq_ex ibv;
	struct runtime *rt;
	struct cq *cq;
	struct list_node ready;
	uint32_t waiting;	/* completion events not fetched yet */
	uint32_t comp_events;	/* fetched; comp_events_completed follows */
	uint32_t async_events;
	/* extended polling, from start_poll to end_poll; guarded by `poller`, which is taken before the runtime's lock */
	pthread_mutex_t poller;
	bool single_threaded;	/* the program sees to it itself */
	struct cqe at;		/* the current one */
};

struct abi_srq {
	struct abi_object object;
	struct ibv_srq ibv;
	struct runtime *rt;
	struct srq *srq;
	uint32_t async_events;
};

struct abi_xrcd {
	struct abi_object object;
	struct ibv_xrcd ibv;
	struct xrcd *xrcd;
};

struct abi_qp {
	struct abi_object object;
	struct ibv_qp_ex ibv;
	struct runtime *rt;
	struct qp *qp;
	struct abi_qp *next;	/* another handle of qp, whose user is the first */
	bool is_ex;
	uint32_t async_events;
	/* building, from wr_start to wr_complete; guarded by `builder` */
	pthread_mutex_t builder;
	struct send_wqe *wqe;	/* the one being written */
	uint32_t built;		/* finished ones, not yet announced */
	int error;		/* the first fault; wr_complete returns it */
};

struct abi_wq {
	struct abi_object object;
	struct ibv_wq ibv;
	struct qp *qp;		/* a raw packet QP that only receives */
};

struct abi_table {
	struct abi_object object;
	struct ibv_rwq_ind_table ibv;
	struct rss_table *table;
};

struct abi_flow {
	struct abi_object object;
	struct ibv_flow ibv;
	struct flow *flow;
};

static inline struct abi_context *to_context(struct ibv_context *c)
{
	return container_of(c, struct abi_context, vctx.context);
}

static inline struct abi_pd *to_pd(struct ibv_pd *p)
{
	return container_of(p, struct abi_pd, ibv);
}

static inline struct abi_td *to_td(struct ibv_td *t)
{
	return container_of(t, struct abi_td, ibv);
}

static inline struct abi_dm *to_dm(struct ibv_dm *d)
{
	return container_of(d, struct abi_dm, ibv);
}

static inline struct abi_mr *to_mr(struct ibv_mr *m)
{
	return container_of(m, struct abi_mr, ibv);
}

static inline struct abi_mw *to_mw(struct ibv_mw *m)
{
	return container_of(m, struct abi_mw, ibv);
}

static inline struct abi_ah *to_ah(struct ibv_ah *a)
{
	return container_of(a, struct abi_ah, ah.ibv);
}

static inline struct abi_channel *to_channel(struct ibv_comp_channel *c)
{
	return container_of(c, struct abi_channel, ibv);
}

static inline struct abi_cq *to_cq_ex(struct ibv_cq_ex *c)
{
	return container_of(c, struct abi_cq, ibv);
}

static inline struct abi_cq *to_cq(struct ibv_cq *c)
{
	return to_cq_ex((struct ibv_cq_ex *)c);
}

static inline struct abi_srq *to_srq(struct ibv_srq *s)
{
	return container_of(s, struct abi_srq, ibv);
}

static inline struct abi_xrcd *to_xrcd(struct ibv_xrcd *x)
{
	return container_of(x, struct abi_xrcd, ibv);
}

static inline struct abi_qp *to_qp_ex(struct ibv_qp_ex *q)
{
	return container_of(q, struct abi_qp, ibv);
}

static inline struct abi_qp *to_qp(struct ibv_qp *q)
{
	return container_of(q, struct abi_qp, ibv.qp_base);
}

/* The object of the kind `sub` that a program handed in, or NULL. */
#define behind(p, to, member) ((p) ? to(p)->member : NULL)

/* The two conventions of the stock calls: NULL with errno, and a positive errno. err is 0 or -errno. */
static inline void *fail(int err)
{
	errno = -err;
	return NULL;
}

static inline int answer(int err)
{
	if (err < 0)
		errno = -err;
	return -err;
}

/* In the stock library's driver.h, which is not installed. */
const char *ibv_get_sysfs_path(void);

/* ---- context.c ---- */
struct abi_context *context_create(struct runtime *rt, struct ibv_device *device, struct ca_device *dev);
void context_enrol(struct abi_context *ctx, struct abi_object *o, int (*destroy)(struct abi_object *o));
/* All contexts, for events of a whole device; guarded by the runtime's lock. */
extern struct list contexts;

/* Posting looks for faults on demand, or does not, as the runtime now has it: in all contexts of it. Under the lock. */
void contexts_choose_posts(struct runtime *rt);
/* 0, or -errno with which this call shall end. Outside the lock. */
static inline int context_call(const struct abi_context *ctx, enum fault_verb verb)
{
	return runtime_call(ctx->rt, ctx->dev, verb, NULL);
}

/* ---- event.c ---- */
extern const struct runtime_events abi_events;
int event_fd_create(void);
/* Forgets what waits about this object: it is being destroyed. */
void events_forget_cq(struct abi_cq *cq);
void events_forget(struct abi_context *ctx, const void *element);
void events_free(struct abi_context *ctx);

/* ---- the operations, by file; context.c puts them into the tables ---- */
int query_port_ex(struct ibv_context *context, uint8_t port_num, struct ibv_port_attr *attr, size_t bytes);
int query_device_ex(struct ibv_context *context, const struct ibv_query_device_ex_input *input, struct ibv_device_attr_ex *attr,
		    size_t bytes);
int query_rt_values(struct ibv_context *context, struct ibv_values_ex *values);

struct ibv_td *td_alloc(struct ibv_context *context, struct ibv_td_init_attr *attr);
int td_dealloc(struct ibv_td *td);
struct ibv_pd *parent_domain_alloc(struct ibv_context *context, struct ibv_parent_domain_init_attr *attr);

struct ibv_mr *mr_alloc_null(struct ibv_pd *pd);
struct ibv_mr *mr_reg_dm(struct ibv_pd *pd, struct ibv_dm *dm, uint64_t offset, size_t length, unsigned int access);
int mr_advise(struct ibv_pd *pd, enum ibv_advise_mr_advice advice, uint32_t flags, struct ibv_sge *sg, uint32_t num_sge);
/* Is [addr, addr + length) mapped, and may `access` be had at its ends? 0 or -EFAULT. Costs O(mappings), not O(length). */
int memory_probe(const void *addr, size_t length, int access);

struct ibv_dm *dm_alloc(struct ibv_context *context, struct ibv_alloc_dm_attr *attr);
int dm_free(struct ibv_dm *dm);

struct ibv_mw *mw_alloc(struct ibv_pd *pd, enum ibv_mw_type type);
int mw_dealloc(struct ibv_mw *mw);
int mw_bind_type1(struct ibv_qp *qp, struct ibv_mw *mw, struct ibv_mw_bind *bind);

struct ibv_cq_ex *cq_create_ex(struct ibv_context *context, struct ibv_cq_init_attr_ex *attr);
int poll_cq(struct ibv_cq *cq, int entries, struct ibv_wc *wc);
int cq_req_notify(struct ibv_cq *cq, int solicited_only);
/* Fills the extended CQ's polling functions. */
void cq_ex_setup(struct abi_cq *cq);

struct ibv_srq *srq_create_ex(struct ibv_context *context, struct ibv_srq_init_attr_ex *attr);
int srq_number(struct ibv_srq *srq, uint32_t *srqn);
int srq_post_recv(struct ibv_srq *srq, struct ibv_recv_wr *wr, struct ibv_recv_wr **bad);
struct ibv_xrcd *xrcd_open_attr(struct ibv_context *context, struct ibv_xrcd_init_attr *attr);
int xrcd_close_ibv(struct ibv_xrcd *xrcd);

struct ibv_wq *wq_create(struct ibv_context *context, struct ibv_wq_init_attr *attr);
int wq_modify(struct ibv_wq *wq, struct ibv_wq_attr *attr);
int wq_destroy(struct ibv_wq *wq);
struct ibv_rwq_ind_table *table_create(struct ibv_context *context, struct ibv_rwq_ind_table_init_attr *attr);
int table_destroy(struct ibv_rwq_ind_table *table);

struct ibv_flow *flow_create_ibv(struct ibv_qp *qp, struct ibv_flow_attr *attr);
int flow_destroy_ibv(struct ibv_flow *flow);

struct ibv_qp *qp_create_ex(struct ibv_context *context, struct ibv_qp_init_attr_ex *attr);
struct ibv_qp *qp_open_shared(struct ibv_context *context, struct ibv_qp_open_attr *attr);
int qp_send(struct ibv_qp *qp, struct ibv_send_wr *wr, struct ibv_send_wr **bad);
int qp_recv(struct ibv_qp *qp, struct ibv_recv_wr *wr, struct ibv_recv_wr **bad);
/* The same, for calls that fail on demand. */
int qp_send_or_fail(struct ibv_qp *qp, struct ibv_send_wr *wr, struct ibv_send_wr **bad);
int qp_recv_or_fail(struct ibv_qp *qp, struct ibv_recv_wr *wr, struct ibv_recv_wr **bad);
int srq_post_recv_or_fail(struct ibv_srq *srq, struct ibv_recv_wr *wr, struct ibv_recv_wr **bad);
/* What a call for this QP is about. */
struct fault_objects qp_objects(const struct abi_qp *qp, bool is_receive);
/* The object, if it is an extended QP, posts by calls that fail on demand, or by others. */
void qp_choose_complete(struct abi_object *o, bool may_fail);
/* Fills the extended QP's builders; those that may fail on demand or the others. */
void qp_ex_setup(struct abi_qp *qp);
void qp_ex_choose_complete(struct abi_qp *qp, bool may_fail);

#endif
