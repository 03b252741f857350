/* The adapter: its tables, who may send next, and the timers. A QP stands in at most one of three lists: `ready` (has
 * something to send), `blocked` (has, but its peer's link is full) or `later` (has executed a part of a long request). */
#include "verbs/ca.h"

#include "verbs/rss.h"

#include <endian.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

/* Our choices; what limits them is the 24-bit QP and SRQ numbers and the 24-bit key indices. */
enum {
	MAX_QP = 64 * 4095,		/* as many slots as weftd gives a process, QUOTA_SLOTS, times a slot's indices */
	MAX_QP_WR = 1 << 15,
	MAX_SGE = 32,			/* struct recv_ref has as many */
	MAX_CQ = 1 << 20,
	MAX_CQE = 1 << 22,
	MAX_KEYS = 1 << 23,
	MAX_PD = 1 << 20,
	MAX_SRQ = 1 << 18,
	MAX_RD_ATOM = 16,
	MAX_GROUPS = 256,		/* the fabric page has as many */
	MAX_ATTACH = 4096,
	MAX_DM_BYTES = 64 << 20,
	CORE_CLOCK_KHZ = 1000000,	/* timestamps are nanoseconds */
	VENDOR = 0x027766,		/* a locally administered OUI, no vendor's */
};

static void fill_odp(struct ibv_device_attr_ex *attr)
{
	uint32_t datagram = IBV_ODP_SUPPORT_SEND | IBV_ODP_SUPPORT_RECV | IBV_ODP_SUPPORT_SRQ_RECV;
	uint32_t unreliable = datagram | IBV_ODP_SUPPORT_WRITE;
	uint32_t reliable = unreliable | IBV_ODP_SUPPORT_READ | IBV_ODP_SUPPORT_ATOMIC;

	attr->odp_caps.general_caps = IBV_ODP_SUPPORT | IBV_ODP_SUPPORT_IMPLICIT;
	attr->odp_caps.per_transport_caps.rc_odp_caps = reliable;
	attr->odp_caps.per_transport_caps.uc_odp_caps = unreliable;
	attr->odp_caps.per_transport_caps.ud_odp_caps = datagram;
	attr->xrc_odp_caps = reliable;
}

static void fill_rss(struct ibv_device_attr_ex *attr)
{
	attr->rss_caps = (struct ibv_rss_caps){
		.supported_qpts = 1 << IBV_QPT_RAW_PACKET, .max_rwq_indirection_tables = MAX_QP,
		.max_rwq_indirection_table_size = 1 << RSS_LOG_SIZE_MAX, .rx_hash_function = IBV_RX_HASH_FUNC_TOEPLITZ,
		.rx_hash_fields_mask = IBV_RX_HASH_SRC_IPV4 | IBV_RX_HASH_DST_IPV4 | IBV_RX_HASH_SRC_IPV6 | IBV_RX_HASH_DST_IPV6 |
				       IBV_RX_HASH_SRC_PORT_TCP | IBV_RX_HASH_DST_PORT_TCP | IBV_RX_HASH_SRC_PORT_UDP |
				       IBV_RX_HASH_DST_PORT_UDP,
	};
	attr->max_wq_type_rq = MAX_QP;
}

static void fill_attr(struct ca_device *dev)
{
	struct ibv_device_attr_ex *ex = &dev->attr;

	memset(ex, 0, sizeof(*ex));
	ex->orig_attr = (struct ibv_device_attr){
		.fw_ver = WEFT_VERSION,
		.node_guid = htobe64(dev->guid), .sys_image_guid = htobe64(dev->guid),
		.max_mr_size = UINT64_MAX, .page_size_cap = 0xfffff000,
		.vendor_id = VENDOR, .vendor_part_id = 1, .hw_ver = 1,
		.max_qp = MAX_QP, .max_qp_wr = MAX_QP_WR,
		.device_cap_flags = IBV_DEVICE_UD_AV_PORT_ENFORCE | IBV_DEVICE_CURR_QP_STATE_MOD | IBV_DEVICE_PORT_ACTIVE_EVENT |
				    IBV_DEVICE_SYS_IMAGE_GUID | IBV_DEVICE_RC_RNR_NAK_GEN | IBV_DEVICE_SRQ_RESIZE |
				    IBV_DEVICE_MEM_WINDOW | IBV_DEVICE_MEM_WINDOW_TYPE_2B | IBV_DEVICE_XRC,
		.max_sge = MAX_SGE, .max_sge_rd = MAX_SGE,
		.max_cq = MAX_CQ, .max_cqe = MAX_CQE,
		.max_mr = MAX_KEYS / 2, .max_mw = MAX_KEYS / 2, .max_pd = MAX_PD,
		.max_qp_rd_atom = MAX_RD_ATOM, .max_qp_init_rd_atom = MAX_RD_ATOM, .max_res_rd_atom = MAX_RD_ATOM * MAX_QP,
		.atomic_cap = IBV_ATOMIC_HCA,
		.max_mcast_grp = MAX_GROUPS, .max_mcast_qp_attach = MAX_ATTACH,
		.max_total_mcast_qp_attach = MAX_GROUPS * MAX_ATTACH,
		.max_ah = MAX_QP,
		.max_srq = MAX_SRQ, .max_srq_wr = MAX_QP_WR, .max_srq_sge = MAX_SGE,
		.max_pkeys = CA_PKEYS, .phys_port_cnt = 1,
	};
	if (dev->form == PACKET_ROCE) {
		ex->orig_attr.device_cap_flags |= IBV_DEVICE_MANAGED_FLOW_STEERING;
		ex->orig_attr.max_raw_ethy_qp = MAX_QP;
	}
	fill_odp(ex);
	ex->completion_timestamp_mask = UINT64_MAX;
	ex->hca_core_clock = CORE_CLOCK_KHZ;
	ex->device_cap_flags_ex = ex->orig_attr.device_cap_flags;
	ex->max_dm_size = MAX_DM_BYTES;
	ex->phys_port_cnt_ex = 1;
	if (dev->form == PACKET_ROCE)
		fill_rss(ex);
}

int ca_init(struct ca *ca, const struct ca_config *config)
{
	int err;

	if (config->devices < 1 || config->devices > CA_DEVICES)
		return -EINVAL;
	memset(ca, 0, sizeof(*ca));
	err = arena_init(&ca->arena, config->arena, config->arena_bytes);
	if (err < 0)
		return err;
	ca->host_ops = config->host_ops;
	ca->host = config->host;
	ca->transport = config->transport;
	ca->direct = config->direct;
	ca->devices = config->devices;
	for (int i = 0; i < config->devices; i++) {
		ca->dev[i] = config->dev[i];
		fill_attr(&ca->dev[i]);
	}
	rand_seed(&ca->rand, config->seed);
	table_init(&ca->keys, 24, 8, MAX_KEYS, rand_u64(&ca->rand) | 1);
	table_init(&ca->srqs, 24, 0, MAX_SRQ, rand_u64(&ca->rand) | 1);
	table_init(&ca->pds, 24, 0, MAX_PD, 0);
	table_init(&ca->cqs, 24, 0, MAX_CQ, 0);
	table_init(&ca->qps, 24, 0, MAX_QP, 0);
	list_init(&ca->ready);
	list_init(&ca->blocked);
	list_init(&ca->later);
	list_init(&ca->awaiting);
	list_init(&ca->unseen);
	list_init(&ca->unsettled);
	list_init(&ca->mcast);
	list_init(&ca->flows);
	list_init(&ca->all_qps);
	list_init(&ca->xrcds);
	heap_init(&ca->timers);
	return 0;
}

/* Whatever holds something goes before what it holds, so that every destroy succeeds. Counts that only the ABI's objects
 * stood for (shared handles, address handles, tables of work queues) are dropped. */
static void destroy_objects(struct ca *ca)
{
	uint32_t cursor;
	void *object;

	list_for_each_safe(member, &ca->mcast, struct mcast_member, node)
		mcast_detach(member->qp, member->gid, member->lid);
	flow_destroy_all(ca);
	for (cursor = 0; (object = table_next(&ca->qps, &cursor));) {
		((struct qp *)object)->refs = 1;
		((struct qp *)object)->flows = 0;
		qp_destroy(object);
	}
	for (cursor = 0; (object = table_next(&ca->srqs, &cursor));)
		srq_destroy(object);
	list_for_each_safe(xrcd, &ca->xrcds, struct xrcd, all) {
		xrcd->refs = 1;
		xrcd_close(xrcd);
	}
	for (cursor = 0; (object = table_next(&ca->keys, &cursor));)
		if (((struct mr *)object)->kind == MR_WINDOW)
			mw_destroy(object);
	for (cursor = 0; (object = table_next(&ca->keys, &cursor));)
		mr_destroy(object);
	for (cursor = 0; (object = table_next(&ca->cqs, &cursor));)
		cq_destroy(object);
	for (cursor = 0; (object = table_next(&ca->pds, &cursor));) {
		((struct pd *)object)->refs = 0;
		pd_destroy(object);
	}
}

void ca_fini(struct ca *ca)
{
	destroy_objects(ca);
	for (unsigned i = 0; i < sizeof(ca->qp_by_number) / sizeof(ca->qp_by_number[0]); i++)
		free(ca->qp_by_number[i]);
	heap_fini(&ca->timers);
	table_fini(&ca->qps);
	table_fini(&ca->cqs);
	table_fini(&ca->pds);
	table_fini(&ca->srqs);
	table_fini(&ca->keys);
	arena_fini(&ca->arena);
}

wtime ca_deadline(const struct ca *ca)
{
	const struct heap_node *first = heap_min(&ca->timers);

	return first ? first->at : WTIME_NEVER;
}

void ca_expire(struct ca *ca, wtime now)
{
	struct heap_node *first;

	ca->now = now;
	while ((first = heap_min(&ca->timers)) && first->at <= now) {
		struct qp *qp = container_of(first, struct qp, timer);

		heap_remove(&ca->timers, first);
		ca->transport->qp_expire(qp, now);
		qp_rearm(qp);
		/* a deadline that has passed again comes next time, or this loop might not end */
		if (heap_contains(&qp->timer) && qp->timer.at <= now)
			heap_update(&ca->timers, &qp->timer, now + 1);
	}
}

/* How many of `some` had something executed. All that were looked at are in ca.awaiting again, or await nothing. */
static unsigned look_at(struct ca *ca, struct list *some, wtime now, unsigned *most)
{
	struct list_node *node;
	unsigned n = 0;

	for (; *most && (node = list_pop(some)); --*most) {
		list_append(&ca->awaiting, node);
		n += ca->transport->qp_collect(container_of(node, struct qp, awaiting), now);
	}
	return n;
}

unsigned ca_collect_unseen(struct ca *ca, wtime now)
{
	unsigned most = UINT32_MAX;

	ca->now = now;
	return look_at(ca, &ca->unseen, now, &most);
}

unsigned ca_collect(struct ca *ca, wtime now, unsigned most)
{
	struct list rest;
	unsigned n;

	ca->now = now;
	list_init(&rest);
	list_splice(&rest, &ca->awaiting);
	n = look_at(ca, &ca->unseen, now, &most);
	n += look_at(ca, &rest, now, &most);
	/* whose turn it was not are first next time */
	list_splice(&rest, &ca->awaiting);
	list_splice(&ca->awaiting, &rest);
	if (n || !ca_awaits(ca))
		ca->starved = false;
	return n;
}

bool ca_settle_all(struct ca *ca, wtime now)
{
	bool moved = false;
	struct qp *qp;

	ca->now = now;
	while ((qp = list_first_entry(&ca->unsettled, struct qp, unsettled))) {
		moved |= ca->transport->qp_settle(qp);
		qp_rearm(qp);
	}
	return moved;
}

/* Has the link room where the QP's next packet goes? A datagram QP's oldest unsent WQE says where. */
static bool has_room(struct ca *ca, struct qp *qp)
{
	const struct send_wqe *wqe;

	if (!qp_is_datagram(qp))
		return ca->host_ops->room(ca->host, qp->dev, qp->attr.dest_qp_num, NULL);
	if (qp->sq.started == qp->sq.announced)
		return true;
	wqe = qp_send_wqe(qp, qp->sq.started);
	return ca->host_ops->room(ca->host, qp->dev, wqe->remote_qpn, &wqe->av);
}

bool ca_output(struct ca *ca, wtime now, struct packet_out *out)
{
	struct qp *qp;

	ca->now = now;
	while ((qp = list_first_entry(&ca->ready, struct qp, ready))) {
		bool sent;

		list_remove(&qp->ready);
		if (!has_room(ca, qp)) {
			list_append(&ca->blocked, &qp->ready);
			continue;
		}
		sent = ca->transport->qp_output(qp, now, out);
		qp_rearm(qp);
		if (sent) {
			out->dev = qp->dev;
			qp_ready(qp);
			return true;
		}
	}
	return false;
}

bool ca_resume(struct ca *ca)
{
	struct list_node *first = list_pop(&ca->later);

	if (first)
		list_append(&ca->ready, first);
	return first;
}

void ca_unblock(struct ca *ca)
{
	list_splice(&ca->ready, &ca->blocked);
}

void ca_input(struct ca *ca, struct ca_device *dev, wtime now, const struct packet *p)
{
	ca->now = now;
	ca->transport->input(ca, dev, now, p);
}
