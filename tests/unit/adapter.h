/* A channel adapter for tests of src/verbs: an owner that notes what it is told, and a transport that does nothing by itself.
 * The tests complete WQEs by hand, in the transport's place. */
#ifndef WEFT_TESTS_UNIT_ADAPTER_H
#define WEFT_TESTS_UNIT_ADAPTER_H

#include "verbs/qp.h"

#include <errno.h>
#include <limits.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

enum { ADAPTER_BYTES = 64 << 20, ADAPTER_LID = 5 };

struct adapter {
	struct ca ca;
	struct ca_device *ib, *roce, *second_roce;	/* weft0, weft1, weft2 */
	void *memory;
	/* what the owner was told */
	unsigned cq_events, async_events, joins, leaves;
	enum ibv_event_type last_event;
	void *last_object;
	bool no_room, no_group, no_number;
	unsigned room;			/* frames that the link takes at once; 0: any number */
	unsigned routes;		/* asked, */
	struct packet_path asked;	/* the last for this address, */
	void *place;			/* and to which they lead, */
	enum route_kind kind;		/* with this; 0: ROUTE_CHANNEL */
	uint16_t cut_lid;		/* to which nothing leads */
	struct lid_pair pair[LID_PATHS];	/* what the subnet administration names */
	unsigned pairs;
	uint32_t next_qpn, qpns;
	bool fault;			/* the program's memory is not there */
	/* what the transport was told */
	unsigned modified, doorbells, recv_doorbells, inputs, expired, engines;
	struct qp *to_send[4];		/* qp_output has a packet for these, in turn */
	unsigned sends[4];
	bool takes_wqes;		/* each packet is a WQE */
	wtime deadline;
	int init_error;
};

static inline void adapter_cq_event(void *owner, struct cq *cq)
{
	struct adapter *a = owner;

	(void)cq;
	a->cq_events++;
}

static inline void adapter_async_event(void *owner, enum ibv_event_type type, void *object)
{
	struct adapter *a = owner;

	a->async_events++;
	a->last_event = type;
	a->last_object = object;
}

static inline void adapter_route(void *owner, const struct ca_device *dev, const struct packet_path *path, struct route *r)
{
	struct adapter *a = owner;

	(void)dev;
	a->asked = *path;
	a->routes++;
	r->kind = a->cut_lid && path->dlid == a->cut_lid ? ROUTE_CUT : a->kind ? a->kind : ROUTE_CHANNEL;
	r->place = a->place;
}

static inline unsigned adapter_lid_paths(void *owner, const struct ca_device *dev, uint16_t pkey, const struct packet_path *path,
					 const struct route *r, struct lid_pair pair[LID_PATHS])
{
	const struct adapter *a = owner;

	(void)dev;
	(void)pkey;
	(void)path;
	(void)r;
	memcpy(pair, a->pair, a->pairs * sizeof(*pair));
	return a->pairs;
}

static inline unsigned adapter_room(void *owner, const struct ca_device *dev, const struct route *r, const struct av *av)
{
	(void)dev;
	(void)r;
	const struct adapter *a = owner;

	return a->no_room ? 0 : a->room ? a->room : UINT_MAX;
}

static inline bool adapter_origin_matches(void *owner, origin_t origin, const struct route *back)
{
	(void)owner;
	(void)origin;
	(void)back;
	return true;
}

static inline bool adapter_undelivered(void *owner, const struct route *r, uint64_t *mark)
{
	(void)owner;
	(void)r;
	(void)mark;
	return false;
}

static inline int adapter_copy(void *owner, void *to, const void *from, size_t bytes)
{
	if (((struct adapter *)owner)->fault)
		return -EFAULT;
	memcpy(to, from, bytes);
	return 0;
}

static inline int adapter_mcast(void *owner, struct ca_device *dev, const uint8_t gid[16], bool joined)
{
	struct adapter *a = owner;

	(void)dev;
	(void)gid;
	if (joined && a->no_group)
		return -ENOMEM;
	*(joined ? &a->joins : &a->leaves) += 1;
	return 0;
}

static inline int adapter_qpn_alloc(void *owner, uint32_t *qpn)
{
	struct adapter *a = owner;

	if (a->no_number)
		return -ENOMEM;
	*qpn = a->next_qpn = (a->next_qpn + 0x1235) & PSN_MASK;
	a->qpns++;
	return 0;
}

static inline void adapter_qpn_free(void *owner, uint32_t qpn)
{
	(void)qpn;
	((struct adapter *)owner)->qpns--;
}

static inline int adapter_qp_init(struct qp *qp)
{
	struct adapter *a = qp->ca->owner;

	if (a->init_error)
		return a->init_error;
	a->engines++;
	return 0;
}

static inline void adapter_qp_fini(struct qp *qp)
{
	((struct adapter *)qp->ca->owner)->engines--;
}

static inline void adapter_modified(struct qp *qp, wtime now, enum ibv_qp_state from, int mask)
{
	(void)now;
	(void)from;
	(void)mask;
	((struct adapter *)qp->ca->owner)->modified++;
}

static inline void adapter_doorbell(struct qp *qp, wtime now)
{
	(void)now;
	((struct adapter *)qp->ca->owner)->doorbells++;
}

static inline void adapter_recv_doorbell(struct qp *qp, wtime now)
{
	(void)now;
	((struct adapter *)qp->ca->owner)->recv_doorbells++;
}

static inline bool adapter_output(struct qp *qp, wtime now, struct packet_out *out)
{
	struct adapter *a = qp->ca->owner;

	(void)now;
	(void)out;
	for (unsigned i = 0; i < 4; i++)
		if (a->to_send[i] == qp && a->sends[i]) {
			a->sends[i]--;
			qp->sq.engine.started += a->takes_wqes;
			return true;
		}
	return false;
}

static inline wtime adapter_deadline(const struct qp *qp)
{
	const struct adapter *a = qp->ca->owner;

	return a->deadline ? a->deadline : WTIME_NEVER;
}

static inline void adapter_expire(struct qp *qp, wtime now)
{
	(void)now;
	((struct adapter *)qp->ca->owner)->expired++;
}

static inline void adapter_input(struct ca *ca, struct ca_device *dev, wtime now, origin_t origin, const struct packet *p)
{
	(void)origin;
	(void)dev;
	(void)now;
	(void)p;
	((struct adapter *)ca->owner)->inputs++;
}

static inline void adapter_message(struct qp *qp, wtime now, const void *channel, const struct direct_message *m)
{
	(void)channel;
	(void)m;
	(void)now;
	((struct adapter *)qp->ca->owner)->inputs++;
}

static inline bool adapter_collect(struct qp *qp, wtime now)
{
	(void)qp;
	(void)now;
	return false;
}

static inline bool adapter_settle(struct qp *qp)
{
	(void)qp;
	return false;
}

static inline void adapter_query(const struct qp *qp, struct ibv_qp_attr *attr)
{
	(void)qp;
	(void)attr;
}

static inline void adapter_context(const struct qp *qp, struct qp_context *context)
{
	(void)qp;
	(void)context;
}

static inline bool adapter_short(struct qp *qp, psn_t psn, psn_t received, const void *data, uint32_t bytes, bool solicited)
{
	(void)qp;
	(void)psn;
	(void)received;
	(void)data;
	(void)bytes;
	(void)solicited;
	return false;
}

static inline int adapter_set_window(struct qp *qp, uint64_t bytes)
{
	(void)qp;
	(void)bytes;
	return -EINVAL;
}

static const struct ca_ops adapter_host = {
	.cq_event = adapter_cq_event, .async_event = adapter_async_event, .route = adapter_route, .lid_paths = adapter_lid_paths,
	.space = adapter_room,
	.origin_matches = adapter_origin_matches, .undelivered = adapter_undelivered, .read_program = adapter_copy,
	.write_program = adapter_copy, .mcast = adapter_mcast, .qpn_alloc = adapter_qpn_alloc, .qpn_free = adapter_qpn_free,
};

static inline bool adapter_send_short(struct qp *qp, const struct wqe_seg *seg, unsigned flags)
{
	(void)qp;
	(void)seg;
	(void)flags;
	return false;
}

static inline bool adapter_write_short(struct qp *qp, const struct wqe_seg *seg, bool is_inline, uint32_t rkey, uint64_t va)
{
	(void)qp;
	(void)seg;
	(void)is_inline;
	(void)rkey;
	(void)va;
	return false;
}

static inline bool adapter_fetch_short(struct qp *qp, const struct wqe_seg *seg, const struct ibv_send_wr *wr)
{
	(void)qp;
	(void)seg;
	(void)wr;
	return false;
}

static const struct packet_ops adapter_packets = { .qp_output = adapter_output, .input = adapter_input };

static const struct message_ops adapter_messages = {
	.qp_message = adapter_message, .qp_short = adapter_short, .qp_send_short = adapter_send_short,
	.qp_write_short = adapter_write_short, .qp_fetch_short = adapter_fetch_short,
	.qp_reap_acks = adapter_collect, .qp_ack_postponed = adapter_settle,
};

static const struct transport_ops adapter_transport = {
	.name = "none", .qp_types = (1 << QP_KINDS) - 1, .send_ops = UINT32_MAX, .transitions = &qp_iba_transitions,
	.packets = &adapter_packets, .messages = &adapter_messages,
	.qp_init = adapter_qp_init, .qp_fini = adapter_qp_fini, .qp_modified = adapter_modified,
	.qp_doorbell = adapter_doorbell, .qp_recv_doorbell = adapter_recv_doorbell,
	.qp_deadline = adapter_deadline, .qp_expire = adapter_expire, .qp_query = adapter_query,
	.qp_context = adapter_context, .qp_set_window = adapter_set_window,
};

/* From now on all devices have this transport. */
static inline void adapter_set_transports(struct adapter *a, const struct transport_ops *transport)
{
	for (int i = 0; i < a->ca.devices; i++)
		a->ca.dev[i].transport = transport;
}

/* weft0 with a LID and one GID; weft1 and weft2, both RoCE, with the same ::ffff:10.0.0.1; arena memory of `bytes`.
 * `third` is in the place of weft2, unless it is NULL. */
static inline struct adapter *adapter_new_with(size_t bytes, const struct ca_device *third)
{
	static const struct ca_device devices[] = {
		{ .name = "weft0", .protocol = &protocol_ib, .guid = 0x0277660000000001, .lid = ADAPTER_LID,
		  .active_mtu = IBV_MTU_2048, .max_mtu = IBV_MTU_4096, .port_state = IBV_PORT_ACTIVE, .pkeys = 1,
		  .pkey = { 0xffff },
		  .gid = { { .raw = { 0xfe, 0x80, [15] = 1 }, .valid = true, .type = IBV_GID_TYPE_IB } } },
		{ .name = "weft1", .protocol = &protocol_roce_v2, .guid = 0x0277660000000002, .active_mtu = IBV_MTU_4096,
		  .max_mtu = IBV_MTU_4096, .port_state = IBV_PORT_ACTIVE, .pkeys = 1, .pkey = { 0xffff },
		  .gid = { { .raw = { [10] = 0xff, 0xff, 10, 0, 0, 1 }, .valid = true, .type = IBV_GID_TYPE_ROCE_V2 } } },
		{ .name = "weft2", .protocol = &protocol_roce_v2, .guid = 0x0277660000000003, .active_mtu = IBV_MTU_4096,
		  .max_mtu = IBV_MTU_4096, .port_state = IBV_PORT_ACTIVE, .pkeys = 1, .pkey = { 0xffff },
		  .gid = { { .raw = { [10] = 0xff, 0xff, 10, 0, 0, 1 }, .valid = true, .type = IBV_GID_TYPE_ROCE_V2 } } },
	};
	enum { DEVICES = sizeof(devices) / sizeof(devices[0]) };
	struct ca_device dev[DEVICES];
	struct adapter *a = calloc(1, sizeof(*a));
	struct ca_config config = { .ops = &adapter_host, .seed = 1, .dev = dev, .devices = DEVICES, .owner = a,
				    .arena_bytes = bytes };

	memcpy(dev, devices, sizeof(dev));
	for (int i = 0; i < DEVICES; i++)
		dev[i].transport = &adapter_transport;
	if (third)
		dev[2] = *third;
	a->memory = aligned_alloc(ARENA_PAGE, bytes);
	memset(a->memory, 0x81, bytes);	/* odd, so that a forgotten phase shows */
	config.arena = a->memory;
	assert_int_equal(ca_init(&a->ca, &config), 0);
	a->ib = &a->ca.dev[0];
	a->roce = &a->ca.dev[1];
	a->second_roce = &a->ca.dev[2];
	return a;
}

static inline struct adapter *adapter_new_sized(size_t bytes)
{
	return adapter_new_with(bytes, NULL);
}

static inline struct adapter *adapter_new(void)
{
	return adapter_new_sized(4 << 20);
}

/* Whatever a test leaves behind must be destroyed here: AddressSanitizer looks for leaks. */
static inline void adapter_delete(struct adapter *a)
{
	ca_fini(&a->ca);
	assert_int_equal(a->qpns, 0);
	assert_int_equal(a->engines, 0);
	free(a->memory);
	free(a);
}

/* A QP of the type with its own PD and CQ on weft0 (cqe entries), srq or NULL. */
static inline struct qp *adapter_qp(struct adapter *a, enum ibv_qp_type type, int cqe, struct srq *srq)
{
	struct ibv_qp_init_attr_ex init = { .qp_type = type, .cap = { .max_send_wr = 8, .max_recv_wr = 8, .max_send_sge = 4,
					    .max_recv_sge = 4, .max_inline_data = 64 } };
	struct xrcd *xrcd = NULL;
	struct pd *pd = NULL;
	struct cq *cq = NULL;
	struct qp *qp = NULL;

	if (type == IBV_QPT_XRC_RECV)
		assert_int_equal(xrcd_open(&a->ca, a->ib, 0, 0, 0100, &xrcd), 0);
	else if (srq)
		pd = srq->pd;
	else
		assert_int_equal(pd_create(&a->ca, a->ib, &pd), 0);
	if (type != IBV_QPT_XRC_RECV)
		assert_int_equal(cq_create(&a->ca, a->ib, cqe, &cq), 0);
	assert_int_equal(qp_create(&a->ca, a->ib, &init, pd, cq, type == IBV_QPT_XRC_SEND ? NULL : cq, srq, xrcd, &qp), 0);
	return qp;
}

/* Moves a fresh QP on to `to` (INIT, RTR or RTS) with ordinary attributes. */
static inline void adapter_move(struct qp *qp, enum ibv_qp_state to)
{
	struct ibv_qp_attr attr = {
		.qp_state = IBV_QPS_INIT, .port_num = 1, .path_mtu = IBV_MTU_1024, .dest_qp_num = 77, .timeout = 14,
		.retry_cnt = 7, .rnr_retry = 7, .max_rd_atomic = 1, .max_dest_rd_atomic = 1, .min_rnr_timer = 12,
		.qkey = 0x11111111,
		.qp_access_flags = IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC,
		.ah_attr = { .dlid = ADAPTER_LID, .port_num = 1 },
	};
	bool is_ud = qp->type == IBV_QPT_UD;
	bool reliable = qp->type == IBV_QPT_RC, sends = reliable || qp->type == IBV_QPT_XRC_SEND;
	bool responds = reliable || qp->type == IBV_QPT_XRC_RECV;
	int init = IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | (is_ud ? IBV_QP_QKEY : IBV_QP_ACCESS_FLAGS);
	int rtr = IBV_QP_STATE | (is_ud ? 0 : IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN) |
		  (responds ? IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER : 0);
	int rts = IBV_QP_STATE | IBV_QP_SQ_PSN | (qp->type == IBV_QPT_XRC_RECV ? IBV_QP_TIMEOUT : 0) |
		  (sends ? IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY | IBV_QP_MAX_QP_RD_ATOMIC : 0);

	assert_int_equal(qp_modify(qp, 1, &attr, init), 0);
	if (to == IBV_QPS_INIT)
		return;
	attr.qp_state = IBV_QPS_RTR;
	assert_int_equal(qp_modify(qp, 1, &attr, rtr), 0);
	if (to == IBV_QPS_RTR)
		return;
	attr.qp_state = IBV_QPS_RTS;
	assert_int_equal(qp_modify(qp, 1, &attr, rts), 0);
}

#endif
