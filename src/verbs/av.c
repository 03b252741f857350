/* Address vectors: from the consumer's attributes to the addresses a packet carries. IBA 11.2.2.1; RoCEv2: A17. */
#include "verbs/qp.h"
#include "wire/addr.h"

#include <errno.h>
#include <string.h>

enum {
	SL_MAX = 15,
	FLOW_LABEL_MASK = 0xfffff,
	ROCE_HOP_LIMIT = 64,		/* as the kernel sends when told nothing */
};

static bool gid_is_valid(const struct ca_device *dev, unsigned index)
{
	return index < CA_GIDS && dev->gid[index].valid;
}

/* RoCE addresses by GID alone; the InfiniBand link layer needs a LID in any case. Who has neither has no address vectors. */
static bool is_addressed(const struct ca_device *dev, bool is_global, uint16_t dlid)
{
	bool needs_gid = device_has(dev, DEVICE_GRH_REQUIRED), needs_lid = device_has(dev, DEVICE_LIDS);

	return (needs_gid || needs_lid) && (is_global || !needs_gid) && (dlid || !needs_lid);
}

int av_from_attr(struct ca_device *dev, const struct ibv_ah_attr *attr, struct av *av)
{
	if (attr->sl > SL_MAX)
		return -EINVAL;
	if (attr->is_global && !gid_is_valid(dev, attr->grh.sgid_index))
		return -EINVAL;
	if (!is_addressed(dev, attr->is_global, attr->dlid))
		return -EINVAL;
	*av = (struct av){
		.dlid = attr->dlid, .sl = attr->sl, .src_path_bits = attr->src_path_bits, .static_rate = attr->static_rate,
		.port_num = attr->port_num, .is_global = attr->is_global,
	};
	if (attr->is_global) {
		memcpy(av->dgid, attr->grh.dgid.raw, sizeof(av->dgid));
		av->sgid_index = attr->grh.sgid_index;
		av->hop_limit = attr->grh.hop_limit;
		av->tclass = attr->grh.traffic_class;
		av->flow_label = attr->grh.flow_label & FLOW_LABEL_MASK;
	}
	return 0;
}

uint32_t av_flow_label(uint32_t lqpn, uint32_t rqpn)
{
	uint64_t v = (uint64_t)lqpn * rqpn;

	v ^= v >> 20;
	v ^= v >> 40;
	return v & FLOW_LABEL_MASK;
}

static uint16_t udp_sport(uint32_t flow_label)
{
	return (uint16_t)(ROCE_SPORT_BASE | ((flow_label & ROCE_SPORT_FLOWS) ^ (flow_label >> 14)));
}

bool av_is_sound(const struct ca_device *dev, const struct av *av)
{
	return av->sl <= SL_MAX && av->flow_label <= FLOW_LABEL_MASK &&
	       is_addressed(dev, av->is_global, av->dlid);
}

bool av_is_ipv4(const struct av *av)
{
	return gid_is_ipv4(av->dgid);
}

bool av_is_same(const struct av *a, const struct av *b)
{
	return a->dlid == b->dlid && a->sl == b->sl && a->src_path_bits == b->src_path_bits &&
	       a->static_rate == b->static_rate && a->port_num == b->port_num && a->is_global == b->is_global &&
	       a->sgid_index == b->sgid_index && a->hop_limit == b->hop_limit && a->tclass == b->tclass &&
	       a->flow_label == b->flow_label && memcmp(a->dgid, b->dgid, sizeof(a->dgid)) == 0;
}

int av_path(const struct ca_device *dev, const struct av *av, uint32_t qpn_hint, struct packet_path *path)
{
	if (av->is_global && !gid_is_valid(dev, av->sgid_index))
		return -EINVAL;
	*path = (struct packet_path){
		.slid = device_lid(dev, av->src_path_bits), .dlid = av->dlid, .sl = av->sl, .has_grh = av->is_global,
		.tclass = av->tclass, .hop_limit = av->hop_limit, .flow_label = av->flow_label,
	};
	if (!av->is_global)
		return 0;
	memcpy(path->sgid, dev->gid[av->sgid_index].raw, sizeof(path->sgid));
	memcpy(path->dgid, av->dgid, sizeof(path->dgid));
	if (!device_has(dev, DEVICE_IP_GIDS))
		return 0;
	path->is_ipv4 = gid_is_ipv4(path->sgid) && gid_is_ipv4(path->dgid);
	path->udp_sport = udp_sport(av->flow_label ? av->flow_label : qpn_hint);
	if (path->hop_limit == 0)
		path->hop_limit = ROCE_HOP_LIMIT;
	return 0;
}
