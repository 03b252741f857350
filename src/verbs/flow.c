/* Flow rules. A frame's headers are written in the form of the ABI's own filters; a rule matches when every one of its
 * filters equals the frame's under the mask. */
#include "verbs/flow.h"

#include "verbs/frame.h"

#include <endian.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

enum {
	SPECS_MAX = 8,
	FILTER_MAX = sizeof(struct ibv_flow_ipv6_filter),	/* the largest */
};

const uint8_t flow_group[16] = { 0xff, 0x15, [10] = 'w', 'e', 'f', 't', 'r', 'w' };	/* transient, site-local scope: RFC 4291, 2.7 */

struct filter {
	enum ibv_flow_spec_type type;
	uint8_t value[FILTER_MAX], mask[FILTER_MAX];
};

struct flow {
	struct list_node all;		/* in ca.flows */
	struct qp *qp;			/* borrowed */
	enum ibv_flow_attr_type type;
	uint16_t priority;
	unsigned filters;
	struct filter filter[SPECS_MAX];
};

/* ---- the frame in the form of each filter; false: it has no such header ---- */

static bool see_eth(const struct frame *f, void *view)
{
	struct ibv_flow_eth_filter *v = view;

	memcpy(v->dst_mac, f->data, sizeof(v->dst_mac));
	memcpy(v->src_mac, f->data + 6, sizeof(v->src_mac));
	v->ether_type = htobe16(f->ether_type);
	v->vlan_tag = htobe16(f->vlan);
	return true;
}

static bool see_ipv4(const struct frame *f, void *view)
{
	struct ibv_flow_ipv4_ext_filter *v = view;
	const uint8_t *ip = f->data + f->network;

	if (!f->network || f->ether_type != FRAME_IPV4)
		return false;
	memcpy(&v->src_ip, ip + 12, sizeof(v->src_ip));
	memcpy(&v->dst_ip, ip + 16, sizeof(v->dst_ip));
	v->proto = f->protocol;
	v->tos = ip[1];
	v->ttl = ip[8];
	v->flags = ip[6] >> 5;
	return true;
}

static bool see_ipv6(const struct frame *f, void *view)
{
	struct ibv_flow_ipv6_filter *v = view;
	const uint8_t *ip = f->data + f->network;

	if (!f->network || f->ether_type != FRAME_IPV6)
		return false;
	memcpy(v->src_ip, ip + 8, sizeof(v->src_ip));
	memcpy(v->dst_ip, ip + 24, sizeof(v->dst_ip));
	v->flow_label = htobe32((uint32_t)(ip[1] & 0xf) << 16 | (uint32_t)ip[2] << 8 | ip[3]);
	v->next_hdr = f->protocol;
	v->traffic_class = (uint8_t)(ip[0] << 4 | ip[1] >> 4);
	v->hop_limit = ip[7];
	return true;
}

static bool see_ports(const struct frame *f, void *view, uint8_t protocol)
{
	struct ibv_flow_tcp_udp_filter *v = view;

	if (!f->transport || f->protocol != protocol)
		return false;
	memcpy(&v->src_port, f->data + f->transport, sizeof(v->src_port));
	memcpy(&v->dst_port, f->data + f->transport + 2, sizeof(v->dst_port));
	return true;
}

static bool see_tcp(const struct frame *f, void *view)
{
	return see_ports(f, view, FRAME_TCP);
}

static bool see_udp(const struct frame *f, void *view)
{
	return see_ports(f, view, FRAME_UDP);
}

#define SPEC(type, spec, see) { type, sizeof(struct spec), offsetof(struct spec, val), offsetof(struct spec, mask), see }

/* ipv4's filter is the beginning of ipv4_ext's. */
static const struct spec {
	enum ibv_flow_spec_type type;
	uint16_t bytes, value, mask;
	bool (*see)(const struct frame *f, void *view);
} specs[] = {
	SPEC(IBV_FLOW_SPEC_ETH, ibv_flow_spec_eth, see_eth),
	SPEC(IBV_FLOW_SPEC_IPV4, ibv_flow_spec_ipv4, see_ipv4),
	SPEC(IBV_FLOW_SPEC_IPV4_EXT, ibv_flow_spec_ipv4_ext, see_ipv4),
	SPEC(IBV_FLOW_SPEC_IPV6, ibv_flow_spec_ipv6, see_ipv6),
	SPEC(IBV_FLOW_SPEC_TCP, ibv_flow_spec_tcp_udp, see_tcp),
	SPEC(IBV_FLOW_SPEC_UDP, ibv_flow_spec_tcp_udp, see_udp),
};

static const struct spec *spec_of(enum ibv_flow_spec_type type)
{
	for (unsigned i = 0; i < sizeof(specs) / sizeof(specs[0]); i++)
		if (specs[i].type == type)
			return &specs[i];
	return NULL;
}

static bool filter_matches(const struct filter *filter, const struct frame *f)
{
	union {
		struct ibv_flow_eth_filter eth;
		struct ibv_flow_ipv4_ext_filter ipv4;
		struct ibv_flow_ipv6_filter ipv6;
		struct ibv_flow_tcp_udp_filter ports;
		uint8_t bytes[FILTER_MAX];
	} view = { .bytes = { 0 } };

	if (!spec_of(filter->type)->see(f, &view))
		return false;
	for (unsigned i = 0; i < FILTER_MAX; i++)
		if ((view.bytes[i] ^ filter->value[i]) & filter->mask[i])
			return false;
	return true;
}

static bool flow_matches(const struct flow *flow, const struct frame *f)
{
	for (unsigned i = 0; i < flow->filters; i++)
		if (!filter_matches(&flow->filter[i], f))
			return false;
	return true;
}

/* ---- rules ---- */

static int filter_read(struct filter *filter, const uint8_t *from, size_t *bytes)
{
	struct {
		enum ibv_flow_spec_type type;
		uint16_t size;
	} head;		/* all specifications begin so, and may stand at any address */
	const struct spec *spec;

	memcpy(&head, from, sizeof(head));
	spec = spec_of(head.type);
	if (!spec)
		return -EOPNOTSUPP;
	if (head.size < spec->bytes)
		return -EINVAL;
	filter->type = spec->type;
	memcpy(filter->value, from + spec->value, spec->mask - spec->value);
	memcpy(filter->mask, from + spec->mask, spec->mask - spec->value);
	*bytes = head.size;
	return 0;
}

static int filters_read(struct flow *flow, const struct ibv_flow_attr *attr)
{
	const uint8_t *at = (const uint8_t *)(attr + 1);
	size_t bytes = 0;

	if (attr->num_of_specs > SPECS_MAX)
		return -EINVAL;
	for (; flow->filters < attr->num_of_specs; flow->filters++, at += bytes) {
		int err = filter_read(&flow->filter[flow->filters], at, &bytes);

		if (err < 0)
			return err;
	}
	return 0;
}

static bool device_has_flows(const struct ca *ca, const struct ca_device *dev)
{
	list_for_each(flow, &ca->flows, struct flow, all)
		if (flow->qp->dev == dev)
			return true;
	return false;
}

int flow_create(struct qp *qp, const struct ibv_flow_attr *attr, struct flow **out)
{
	struct ca *ca = qp->ca;
	struct flow *flow;
	int err;

	if (qp->type != IBV_QPT_RAW_PACKET || attr->port != 1)
		return -EINVAL;
	if (attr->comp_mask || attr->flags || attr->type > IBV_FLOW_ATTR_SNIFFER)
		return -EOPNOTSUPP;
	flow = calloc(1, sizeof(*flow));
	if (!flow)
		return -ENOMEM;
	*flow = (struct flow){ .qp = qp, .type = attr->type, .priority = attr->priority };
	err = filters_read(flow, attr);
	if (err == 0 && !device_has_flows(ca, qp->dev))
		err = ca->host_ops->mcast(ca->host, qp->dev, flow_group, true);
	if (err < 0) {
		free(flow);
		return err;
	}
	qp->flows++;
	list_append(&ca->flows, &flow->all);
	*out = flow;
	return 0;
}

void flow_destroy(struct flow *flow)
{
	struct qp *qp = flow->qp;
	struct ca *ca = qp->ca;

	list_remove(&flow->all);
	qp->flows--;
	if (!device_has_flows(ca, qp->dev))
		(void)ca->host_ops->mcast(ca->host, qp->dev, flow_group, false);
	free(flow);
}

void flow_destroy_all(struct ca *ca)
{
	list_for_each_safe(flow, &ca->flows, struct flow, all)
		flow_destroy(flow);
}

/* ---- steering ---- */

static bool concerns(const struct flow *flow, const struct ca_device *dev, const struct packet *p)
{
	return flow->qp->dev == dev && flow->qp->qpn != p->deth.src_qpn;
}

static bool is_default_for(const struct flow *flow, const struct frame *f)
{
	return flow->type == IBV_FLOW_ATTR_ALL_DEFAULT || (flow->type == IBV_FLOW_ATTR_MC_DEFAULT && f->data[0] & 1);
}

void flow_steer(struct ca *ca, const struct ca_device *dev, const struct packet *p, void (*deliver)(struct qp *qp, const struct packet *p))
{
	uint32_t best = UINT32_MAX;
	struct frame f;

	if (!frame_read(&f, p->payload->iov_base, p->payload_bytes))
		return;
	list_for_each(flow, &ca->flows, struct flow, all)
		if (concerns(flow, dev, p) && flow->type == IBV_FLOW_ATTR_NORMAL && flow->priority < best && flow_matches(flow, &f))
			best = flow->priority;
	list_for_each(flow, &ca->flows, struct flow, all) {
		bool takes = flow->type == IBV_FLOW_ATTR_SNIFFER ||
			     (best == UINT32_MAX ? is_default_for(flow, &f) :
			      flow->type == IBV_FLOW_ATTR_NORMAL && flow->priority == best && flow_matches(flow, &f));

		if (takes && concerns(flow, dev, p))
			deliver(flow->qp, p);
	}
}
