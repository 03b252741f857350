/* The adapter: its tables, who may send next, and the timers. A QP stands in at most one of three lists: `ready` (has
 * something to send), `blocked` (has, but its peer's link is full) or `slices` (the next slice of a long request is due). */
#include "verbs/ca.h"

#include "base/qpn.h"
#include "verbs/rss.h"
#include "wire/roce_udp.h"

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

/* What QPs of the transport do not have. */
static void take_away(const struct transport_ops *transport, struct ibv_device_attr *attr)
{
	if (!(transport->send_ops & 1u << IBV_WR_ATOMIC_CMP_AND_SWP))
		attr->atomic_cap = IBV_ATOMIC_NONE;
	if (!transport->packets)	/* none says MigReq */
		attr->device_cap_flags &= ~(unsigned)IBV_DEVICE_AUTO_PATH_MIG;
	if (!(transport->qp_types & 1 << QP_KIND_XRC_RECV))
		attr->device_cap_flags &= ~(unsigned)IBV_DEVICE_XRC;
	if (!(transport->qp_types & 1 << QP_KIND_UD))
		attr->max_mcast_grp = attr->max_mcast_qp_attach = attr->max_total_mcast_qp_attach = attr->max_ah = 0;
}

static void fill_attr(struct ca_device *dev)
{
	struct ibv_device_attr_ex *ex = &dev->attr;

	memset(ex, 0, sizeof(*ex));
	ex->orig_attr = (struct ibv_device_attr){
		.fw_ver = WEFT_VERSION,
		.node_guid = htobe64(dev->guid), .sys_image_guid = htobe64(dev->system_guid),
		.max_mr_size = UINT64_MAX, .page_size_cap = 0xfffff000,
		.vendor_id = VENDOR, .vendor_part_id = 1, .hw_ver = 1,
		.max_qp = MAX_QP, .max_qp_wr = MAX_QP_WR,
		.device_cap_flags = IBV_DEVICE_UD_AV_PORT_ENFORCE | IBV_DEVICE_CURR_QP_STATE_MOD | IBV_DEVICE_PORT_ACTIVE_EVENT |
				    IBV_DEVICE_SYS_IMAGE_GUID | IBV_DEVICE_RC_RNR_NAK_GEN | IBV_DEVICE_SRQ_RESIZE |
				    IBV_DEVICE_MEM_WINDOW | IBV_DEVICE_MEM_WINDOW_TYPE_2B | IBV_DEVICE_XRC |
				    IBV_DEVICE_AUTO_PATH_MIG,
		.max_sge = MAX_SGE, .max_sge_rd = MAX_SGE,
		.max_cq = MAX_CQ, .max_cqe = MAX_CQE,
		.max_mr = MAX_KEYS / 2, .max_mw = MAX_KEYS / 2, .max_pd = MAX_PD,
		.max_qp_rd_atom = MAX_RD_ATOM, .max_qp_init_rd_atom = MAX_RD_ATOM, .max_res_rd_atom = MAX_RD_ATOM * MAX_QP,
		.atomic_cap = IBV_ATOMIC_HCA,
		.max_mcast_grp = MAX_GROUPS, .max_mcast_qp_attach = MAX_ATTACH,
		.max_total_mcast_qp_attach = MAX_GROUPS * MAX_ATTACH,
		.max_ah = MAX_QP,
		.max_srq = MAX_SRQ, .max_srq_wr = MAX_QP_WR, .max_srq_sge = MAX_SGE,
		.max_pkeys = dev->pkeys, .phys_port_cnt = dev->ports,
	};
	take_away(dev->transport, &ex->orig_attr);
	if (device_has(dev, DEVICE_RAW_ETHERNET)) {
		ex->orig_attr.device_cap_flags |= IBV_DEVICE_MANAGED_FLOW_STEERING;
		ex->orig_attr.max_raw_ethy_qp = MAX_QP;
	}
	fill_odp(ex);
	ex->completion_timestamp_mask = UINT64_MAX;
	ex->hca_core_clock = CORE_CLOCK_KHZ;
	ex->device_cap_flags_ex = ex->orig_attr.device_cap_flags;
	ex->max_dm_size = MAX_DM_BYTES;
	ex->phys_port_cnt_ex = dev->ports;
	if (device_has(dev, DEVICE_RAW_ETHERNET))
		fill_rss(ex);
}

static void make_random_table(struct ca *ca, struct table *t, unsigned generation_bits, uint32_t max)
{
	struct siphash_key key = { rand_u64(&ca->rand), 0 };

	key.k1 = rand_u64(&ca->rand);
	table_init(t, 24, generation_bits, max, &key);
}

static void make_tables(struct ca *ca, const struct ca_config *config)
{
	if (config->key)
		rand_key(&ca->rand, config->key);
	else
		rand_seed(&ca->rand, config->seed);
	make_random_table(ca, &ca->keys, 8, MAX_KEYS);
	make_random_table(ca, &ca->srqs, 0, MAX_SRQ);
	table_init(&ca->pds, 24, 0, MAX_PD, NULL);
	table_init(&ca->cqs, 24, 0, MAX_CQ, NULL);
	table_init(&ca->qps, 24, 0, MAX_QP, NULL);
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
	ca->dev = malloc((size_t)config->devices * sizeof(*ca->dev));
	if (!ca->dev)
		return -ENOMEM;
	err = qp_table_init(&ca->by_number);
	if (err < 0) {
		free(ca->dev);
		return err;
	}
	ca->ops = config->ops;
	ca->owner = config->owner;
	ca->direct = config->direct;
	ca->direct_arg = config->direct_arg;
	ca->devices = config->devices;
	for (int i = 0; i < config->devices; i++) {
		ca->dev[i] = config->dev[i];
		ca->dev[i].index = (uint8_t)i;
		if (!ca->dev[i].ports) {
			ca->dev[i].device = ca->dev[i].network = (uint8_t)i;
			ca->dev[i].port_num = CA_PORT;
			ca->dev[i].ports = 1;
		}
		ca->dev[i].load = NULL;
		ca->dev[i].counters = NULL;
		fill_attr(&ca->dev[i]);
		device_set_link(&ca->dev[i]);
	}
	make_tables(ca, config);
	routes_init(&ca->routes);
	list_init(&ca->ready);
	list_init(&ca->blocked);
	list_init(&ca->slices);
	message_acks_init(&ca->acks);
	list_init(&ca->mcast);
	list_init(&ca->flows);
	list_init(&ca->all_qps);
	list_init(&ca->xrcds);
	timer_heap_init(&ca->timers);
	return 0;
}

/* Whatever holds something goes before what it holds, so that every destroy succeeds. Counts that only the ABI's objects
 * stood for (shared handles, address handles, tables of work queues) are dropped. */
static void destroy_objects(struct ca *ca)
{
	uint32_t cursor;
	void *object;

	flow_destroy_all(ca);
	for (cursor = 0; (object = table_next(&ca->qps, &cursor));) {
		mcast_detach_all(object);
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
	qp_table_fini(&ca->by_number);
	timer_heap_fini(&ca->timers);
	table_fini(&ca->qps);
	table_fini(&ca->cqs);
	table_fini(&ca->pds);
	table_fini(&ca->srqs);
	table_fini(&ca->keys);
	free(ca->engine);
	arena_fini(&ca->arena);
	free(ca->dev);
}

struct counters ca_counters(const struct ca *ca)
{
	struct counters now = ca->counters;

	now.queue_bytes = ca->arena.pinned;
	return now;
}

void ca_expire(struct ca *ca, wtime now)
{
	struct timer_heap_node *first;

	ca->now = now;
	while ((first = timer_heap_min(&ca->timers)) && first->at <= now) {
		struct qp *qp = container_of(first, struct qp, timer);

		timer_heap_remove(&ca->timers, first);
		qp->dev->transport->qp_expire(qp, now);
		qp_rearm(qp);
		/* a deadline that has passed again comes next time, or this loop might not end */
		if (timer_heap_contains(&qp->timer) && qp->timer.at <= now)
			timer_heap_update(&ca->timers, &qp->timer, now + 1);
	}
}

/* Where a datagram QP's next packet goes. */
struct destination {
	struct av av;
	uint32_t qpn;
};

/* The oldest WQE that is not sent says where. False: there is none, or the QP is connected. */
static bool next_destination(struct qp *qp, struct destination *to)
{
	const struct send_wqe *wqe;

	if (!qp_is_datagram(qp) || qp->sq.engine.started == qp->sq.engine.announced)
		return false;
	wqe = qp_send_next(qp);
	*to = (struct destination){ wqe->av, wqe->remote_qpn };
	return true;
}

static bool goes_on(struct qp *qp, const struct destination *first)
{
	struct destination next;

	return next_destination(qp, &next) && next.qpn == first->qpn && av_is_same(&next.av, &first->av);
}

static const struct route *next_route(struct qp *qp, const struct destination *to, bool is_datagram)
{
	return is_datagram ? route_of_av(qp, &to->av, to->qpn) : qp_route(qp);
}

/* How many packets may the QP send now by this route? */
static unsigned room_of(const struct qp *qp, const struct route *r, const struct destination *to, bool is_datagram)
{
	const struct ca *ca = qp->ca;

	if (is_datagram)
		return ca->ops->space(ca->owner, qp->dev, r, &to->av);
	return qp_is_datagram(qp) ? 1 : ca->ops->space(ca->owner, qp->dev, r, NULL);
}

/* After a packet: datagrams are all in the send queue; who is connected is asked. */
static inline bool may_have_more(const struct qp *qp)
{
	return !qp_is_datagram(qp) || qp->sq.engine.started != qp->sq.engine.announced;
}

/* The QP stays ready as long as it has more to send. Returns for how many packets there was room. */
static unsigned take_turn(struct qp *qp, const struct packet_ops *packets, wtime now, struct burst *b)
{
	struct destination first;
	bool is_datagram = next_destination(qp, &first), sent;
	unsigned room;

	b->route = next_route(qp, &first, is_datagram);
	room = room_of(qp, b->route, &first, is_datagram);
	if (qp->lid_paths)
		b->several = qp;
	if (!room) {
		list_append(&qp->ca->blocked, &qp->ready);
		return 0;
	}
	do {
		sent = packets->qp_output(qp, now, burst_place(b));
		if (sent)
			burst_add(b);
	} while (sent && b->packets < room && burst_has_place(b) && (!is_datagram || goes_on(qp, &first)));
	qp_rearm(qp);
	if (sent && may_have_more(qp))
		qp_ready(qp);
	return room;
}

/* Do the packets of both go by one link to one process of another host, and may they be one flow on their way? */
static bool goes_along(struct qp *qp, const struct qp *first)
{
	const struct packet_path *a = &qp->path, *b = &first->path;

	return qp != first && qp->dev == first->dev && qp->type == first->type && qp_route(qp)->kind == ROUTE_LINK &&
	       qp->route.place == first->route.place && qpn_slot(qp->attr.dest_qp_num) == qpn_slot(first->attr.dest_qp_num) &&
	       roce_udp_flow(a->udp_sport) == roce_udp_flow(b->udp_sport) && a->tclass == b->tclass &&
	       a->hop_limit == b->hop_limit && memcmp(a->dgid, b->dgid, sizeof(a->dgid)) == 0 &&
	       memcmp(a->sgid, b->sgid, sizeof(a->sgid)) == 0;
}

/* Our choice: of four flows, and a burst of short packets. */
enum { COMPANIONS = 64 };

/* To another host a burst costs as much as a packet: what is left of it is for those that are ready, too, and go the same way.
 * Those that find no place are first next time. */
static __attribute__((noinline)) void take_along(struct ca *ca, const struct qp *first, wtime now, struct burst *b, unsigned room)
{
	const struct packet_ops *packets = first->dev->transport->packets;
	struct list along;
	struct qp *qp;
	unsigned n = 0;
	bool sent;

	list_init(&along);
	list_for_each_safe(other, &ca->ready, struct qp, ready) {
		if (n++ == COMPANIONS)
			break;
		if (!goes_along(other, first))
			continue;
		list_remove(&other->ready);
		list_append(&along, &other->ready);
	}
	while (b->packets < room && burst_has_place(b) && (qp = list_first_entry(&along, struct qp, ready))) {
		list_remove(&qp->ready);
		do {
			sent = packets->qp_output(qp, now, burst_place(b));
			if (sent)
				burst_add(b);
		} while (sent && b->packets < room && burst_has_place(b));
		qp_rearm(qp);
		if (sent)
			qp_ready(qp);
	}
	list_splice(&along, &ca->ready);
	list_splice(&ca->ready, &along);
}

unsigned ca_output(struct ca *ca, wtime now, struct burst *b)
{
	struct qp *qp;

	ca->now = now;
	b->packets = 0;
	while (b->packets == 0 && (qp = list_first_entry(&ca->ready, struct qp, ready))) {
		const struct packet_ops *packets = qp->dev->transport->packets;
		unsigned room;

		list_remove(&qp->ready);
		if (packets) {
			burst_begin(b, qp->dev);
			room = take_turn(qp, packets, now, b);
			if (b->route->kind == ROUTE_LINK && b->packets && b->packets < room && burst_has_place(b) &&
			    !qp_is_datagram(qp) && !list_empty(&ca->ready))
				take_along(ca, qp, now, b, room);
		} else {
			qp->dev->transport->qp_doorbell(qp, now);
			qp_rearm(qp);
		}
	}
	return b->packets;
}

/* All pairs lead to one process, so the usual one, which is the best, tells of the room for them. */
struct burst_row ca_next_row_by_lids(const struct burst *b, unsigned first)
{
	const struct packet_path *path = &b->out[first].packet.path;
	struct burst_row row = {
		.dev = b->dev, .route = lid_paths_route(b->several, path->slid, path->dlid), .out = &b->out[first], .packets = 1,
	};

	while (first + row.packets < b->packets) {
		const struct packet_path *next = &b->out[first + row.packets].packet.path;

		if (next->slid != path->slid || next->dlid != path->dlid)
			break;
		row.packets++;
	}
	return row;
}

bool ca_resume(struct ca *ca)
{
	struct list_node *first = list_pop(&ca->slices);

	if (first)
		list_append(&ca->ready, first);
	return first;
}

void ca_unblock(struct ca *ca)
{
	list_splice(&ca->ready, &ca->blocked);
}

void ca_input(struct ca *ca, struct ca_device *dev, wtime now, origin_t origin, const struct packet *p)
{
	ca->now = now;
	dev->transport->packets->input(ca, dev, now, origin, p);
}
