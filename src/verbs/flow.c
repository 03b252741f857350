/* Rules are kept in the order in which they are asked; those of one rank and one QP stand together. */
#include "verbs/flow.h"

#include "wire/ether.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

enum {
	FLOWS_MAX = 4096,		/* our choice, as a frame is compared with one after the other */
	RANK_DEFAULT = 1 << 16,		/* behind every priority */
};

/* Transient, of site scope: RFC 4291, 2.7 */
const uint8_t flow_group[16] = { 0xff, 0x15, [10] = 'w', 'e', 'f', 't', 'r', 'w' };

struct flow {
	struct list_node all;		/* in ca.flows */
	struct qp *qp;			/* borrowed */
	uint32_t rank;			/* lower is asked first */
	struct ether value, mask;
};

/* ---- specifications ---- */

union filter {
	struct ibv_flow_eth_filter eth;
	struct ibv_flow_ipv4_filter ipv4;
	struct ibv_flow_ipv4_ext_filter ipv4_ext;
	struct ibv_flow_ipv6_filter ipv6;
	struct ibv_flow_tcp_udp_filter ports;
};

static void take_eth(struct ether *e, const union filter *f)
{
	memcpy(e->dst_mac, f->eth.dst_mac, sizeof(e->dst_mac));
	memcpy(e->src_mac, f->eth.src_mac, sizeof(e->src_mac));
	memcpy(e->type, &f->eth.ether_type, sizeof(e->type));
	memcpy(e->tag, &f->eth.vlan_tag, sizeof(e->tag));
}

static void take_ipv4(struct ether *e, const union filter *f)
{
	memcpy(e->src_ip, &f->ipv4.src_ip, sizeof(f->ipv4.src_ip));
	memcpy(e->dst_ip, &f->ipv4.dst_ip, sizeof(f->ipv4.dst_ip));
}

static void take_ipv4_ext(struct ether *e, const union filter *f)
{
	memcpy(e->src_ip, &f->ipv4_ext.src_ip, sizeof(f->ipv4_ext.src_ip));
	memcpy(e->dst_ip, &f->ipv4_ext.dst_ip, sizeof(f->ipv4_ext.dst_ip));
	e->protocol = f->ipv4_ext.proto;
	e->tos = f->ipv4_ext.tos;
	e->ttl = f->ipv4_ext.ttl;
	e->ip_flags = f->ipv4_ext.flags;
}

static void take_ipv6(struct ether *e, const union filter *f)
{
	memcpy(e->src_ip, f->ipv6.src_ip, sizeof(e->src_ip));
	memcpy(e->dst_ip, f->ipv6.dst_ip, sizeof(e->dst_ip));
	memcpy(e->flow_label, &f->ipv6.flow_label, sizeof(e->flow_label));
	e->protocol = f->ipv6.next_hdr;
	e->tos = f->ipv6.traffic_class;
	e->ttl = f->ipv6.hop_limit;
}

static void take_ports(struct ether *e, const union filter *f)
{
	memcpy(e->src_port, &f->ports.src_port, sizeof(e->src_port));
	memcpy(e->dst_port, &f->ports.dst_port, sizeof(e->dst_port));
}

#define SPEC(type, layer, headers, spec, take)								\
	{ type, layer, headers, sizeof(struct spec), offsetof(struct spec, val), offsetof(struct spec, mask),	\
	  sizeof(((struct spec *)0)->val), take }

static const struct spec {
	enum ibv_flow_spec_type type;
	unsigned layer;
	uint8_t headers;	/* that a frame must have */
	uint16_t bytes, value, mask, filter_bytes;
	void (*take)(struct ether *e, const union filter *f);
} specs[] = {
	SPEC(IBV_FLOW_SPEC_ETH, 2, 0, ibv_flow_spec_eth, take_eth),
	SPEC(IBV_FLOW_SPEC_IPV4, 3, ETHER_HAS_IPV4, ibv_flow_spec_ipv4, take_ipv4),
	SPEC(IBV_FLOW_SPEC_IPV4_EXT, 3, ETHER_HAS_IPV4, ibv_flow_spec_ipv4_ext, take_ipv4_ext),
	SPEC(IBV_FLOW_SPEC_IPV6, 3, ETHER_HAS_IPV6, ibv_flow_spec_ipv6, take_ipv6),
	SPEC(IBV_FLOW_SPEC_TCP, 4, ETHER_HAS_TCP, ibv_flow_spec_tcp_udp, take_ports),
	SPEC(IBV_FLOW_SPEC_UDP, 4, ETHER_HAS_UDP, ibv_flow_spec_tcp_udp, take_ports),
};

static const struct spec *spec_of(enum ibv_flow_spec_type type)
{
	for (unsigned i = 0; i < sizeof(specs) / sizeof(specs[0]); i++)
		if (specs[i].type == type)
			return &specs[i];
	return NULL;
}

static void require(struct flow *flow, uint8_t headers)
{
	flow->value.headers |= headers;
	flow->mask.headers |= headers;
}

/* A specification may stand at any address. `layers` are those named before: each at most once. */
static int read_spec(struct flow *flow, const uint8_t *at, unsigned *layers, size_t *bytes)
{
	const struct spec *spec;
	union filter filter;
	struct {
		enum ibv_flow_spec_type type;
		uint16_t size;
	} head;

	memcpy(&head, at, sizeof(head));
	spec = spec_of(head.type);
	if (!spec)
		return -EOPNOTSUPP;
	if (head.size < spec->bytes || *layers & 1u << spec->layer)
		return -EINVAL;
	memcpy(&filter, at + spec->value, spec->filter_bytes);
	spec->take(&flow->value, &filter);
	memcpy(&filter, at + spec->mask, spec->filter_bytes);
	spec->take(&flow->mask, &filter);
	require(flow, spec->headers);
	*layers |= 1u << spec->layer;
	*bytes = head.size;
	return 0;
}

static int read_specs(struct flow *flow, const struct ibv_flow_attr *attr)
{
	const uint8_t *at = (const uint8_t *)(attr + 1);
	unsigned layers = 0;
	size_t bytes = 0;

	for (unsigned i = 0; i < attr->num_of_specs; i++, at += bytes) {
		int err = read_spec(flow, at, &layers, &bytes);

		if (err < 0)
			return err;
	}
	if (flow->mask.tag[0] || flow->mask.tag[1])
		require(flow, ETHER_HAS_TAG);
	return 0;
}

/* The default rules look at nothing but, for multicast, the group bit: IEEE 802, 8.2. */
static int read_rule(struct flow *flow, const struct ibv_flow_attr *attr)
{
	flow->rank = attr->priority;
	if (attr->type == IBV_FLOW_ATTR_NORMAL)
		return read_specs(flow, attr);
	if (attr->num_of_specs)
		return -EINVAL;
	flow->rank += RANK_DEFAULT;
	if (attr->type == IBV_FLOW_ATTR_MC_DEFAULT)
		flow->value.dst_mac[0] = flow->mask.dst_mac[0] = 1;
	return 0;
}

/* ---- rules ---- */

static unsigned flows_of(const struct ca *ca, const struct ca_device *dev)
{
	unsigned n = 0;

	list_for_each(flow, &ca->flows, struct flow, all)
		n += flow->qp->dev == dev;
	return n;
}

static bool goes_before(const struct flow *a, const struct flow *b)
{
	return a->rank != b->rank ? a->rank < b->rank : a->qp->qpn < b->qp->qpn;
}

static void insert(struct ca *ca, struct flow *flow)
{
	list_for_each(other, &ca->flows, struct flow, all)
		if (goes_before(flow, other)) {
			list_insert_before(&other->all, &flow->all);
			return;
		}
	list_append(&ca->flows, &flow->all);
}

/* A sniffer would see all of the port's traffic, of which frames are only a part. */
static int attr_check(const struct qp *qp, const struct ibv_flow_attr *attr)
{
	if (qp->type != IBV_QPT_RAW_PACKET || attr->port != 1 || attr->type > IBV_FLOW_ATTR_SNIFFER)
		return -EINVAL;
	return attr->comp_mask || attr->flags || attr->type == IBV_FLOW_ATTR_SNIFFER ? -EOPNOTSUPP : 0;
}

int flow_create(struct qp *qp, const struct ibv_flow_attr *attr, struct flow **out)
{
	int err = attr_check(qp, attr);
	struct ca *ca = qp->ca;
	struct flow *flow;
	unsigned before;

	if (err < 0)
		return err;
	before = flows_of(ca, qp->dev);
	flow = before < FLOWS_MAX ? calloc(1, sizeof(*flow)) : NULL;
	if (!flow)
		return -ENOMEM;
	flow->qp = qp;
	err = read_rule(flow, attr);
	if (err == 0 && before == 0)
		err = ca->ops->mcast(ca->owner, qp->dev, flow_group, true);
	if (err < 0) {
		free(flow);
		return err;
	}
	qp->flows++;
	insert(ca, flow);
	*out = flow;
	return 0;
}

void flow_destroy(struct flow *flow)
{
	struct qp *qp = flow->qp;
	struct ca *ca = qp->ca;

	list_remove(&flow->all);
	qp->flows--;
	/* a failure changes nothing: the group is left at the latest when the process goes */
	if (flows_of(ca, qp->dev) == 0)
		(void)ca->ops->mcast(ca->owner, qp->dev, flow_group, false);
	free(flow);
}

void flow_destroy_all(struct ca *ca)
{
	list_for_each_safe(flow, &ca->flows, struct flow, all)
		flow_destroy(flow);
}

bool flow_steer(struct ca *ca, const struct ca_device *dev, const struct packet *p,
		void (*deliver)(struct qp *qp, const struct packet *p))
{
	const struct flow *had = NULL;	/* the last that matched */
	struct ether e;

	if (!ether_parse(&e, p->payload->iov_base, p->payload_bytes))
		return false;
	list_for_each(flow, &ca->flows, struct flow, all) {
		if (had && had->rank != flow->rank)
			break;
		if (flow->qp->dev != dev || !ether_matches(&e, &flow->value, &flow->mask))
			continue;
		if (!had || had->qp != flow->qp)
			deliver(flow->qp, p);
		had = flow;
	}
	return had;
}
