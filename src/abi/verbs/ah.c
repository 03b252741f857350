/* Address handles, and how to answer whoever sent a datagram. */
#include "abi/verbs/object.h"

#include "runtime/entry.h"
#include "wire/addr.h"

#include <arpa/inet.h>
#include <endian.h>
#include <netinet/in.h>
#include <netinet/ip.h>
#include <stdlib.h>

static int destroy_ah(struct abi_object *o)
{
	pd_put(container_of(o, struct abi_ah, object)->ah.pd);
	return 0;
}

ABI_EXPORT struct ibv_ah *ibv_create_ah(struct ibv_pd *pd, struct ibv_ah_attr *attr)
{
	struct abi_context *ctx = to_context(pd->context);
	int err = context_call(ctx, FAULT_create_ah);
	struct abi_ah *ah = err < 0 ? NULL : calloc(1, sizeof(*ah));
	struct ca_device *port;

	if (!ah)
		return fail(err < 0 ? err : -ENOMEM);
	ah->ah.ibv = (struct ibv_ah){ .context = pd->context, .pd = pd };
	ah->ah.pd = to_pd(pd)->pd;
	runtime_enter(ctx->rt);
	port = device_port(ctx->dev, attr->port_num);
	err = port ? av_from_attr(port, attr, &ah->ah.av) : -EINVAL;
	if (err == 0) {
		pd_get(ah->ah.pd);
		context_enrol(ctx, &ah->object, destroy_ah);
	}
	runtime_leave(ctx->rt);
	if (err == 0)
		return &ah->ah.ibv;
	free(ah);
	return fail(err);
}

ABI_EXPORT int ibv_destroy_ah(struct ibv_ah *ibv)
{
	struct runtime *rt = to_context(ibv->context)->rt;
	struct abi_ah *ah = to_ah(ibv);

	runtime_enter(rt);
	destroy_ah(&ah->object);
	list_remove(&ah->object.node);
	runtime_leave(rt);
	free(ah);
	return 0;
}

/* ---- from a work completion ---- */

/* RoCEv2 over IPv4: the IP header stands in the last 20 of the 40 bytes. A17.4.5.1; its checksum tells it from a GRH. */
static const struct iphdr *ipv4_header(const struct ibv_grh *grh)
{
	const struct iphdr *ip = (const struct iphdr *)((const char *)grh + sizeof(*grh) - sizeof(*ip));
	const uint16_t *word = (const uint16_t *)ip;
	uint32_t sum = 0;

	if (ip->version != 4 || ip->ihl != sizeof(*ip) / 4)
		return NULL;
	for (unsigned i = 0; i < sizeof(*ip) / 2; i++)
		sum += word[i];
	while (sum >> 16)
		sum = (sum & 0xffff) + (sum >> 16);
	return sum == 0xffff ? ip : NULL;
}

static void map_ipv4(uint32_t address, union ibv_gid *gid)
{
	gid_from_ipv4(gid->raw, &address);
}

/* The index of our GID, or -1: not ours, or a multicast group's. */
static int own_index(const struct ca_device *port, const union ibv_gid *gid, bool is_v2)
{
	for (int i = 0; i < CA_GIDS; i++) {
		const struct ca_gid *own = &port->gid[i];

		if (own->valid && memcmp(own->raw, gid->raw, sizeof(own->raw)) == 0 &&
		    (own->type == IBV_GID_TYPE_ROCE_V2) == is_v2)
			return i;
	}
	return -1;
}

static int from_ipv4(const struct ca_device *port, const struct iphdr *ip, struct ibv_global_route *route)
{
	union ibv_gid own;
	int index;

	map_ipv4(ip->daddr, &own);
	index = own_index(port, &own, true);
	if (index < 0)
		return -EINVAL;
	map_ipv4(ip->saddr, &route->dgid);
	route->sgid_index = (uint8_t)index;
	route->hop_limit = ip->ttl;
	route->traffic_class = ip->tos;
	return 0;
}

static int from_grh(const struct ca_device *port, const struct ibv_grh *grh, struct ibv_global_route *route)
{
	int index = own_index(port, &grh->dgid, grh->next_hdr == IPPROTO_UDP);

	if (be32toh(grh->version_tclass_flow) >> 28 != 6)
		return -EPROTONOSUPPORT;
	if (index < 0)
		return -EINVAL;
	route->dgid = grh->sgid;
	route->sgid_index = (uint8_t)index;
	route->hop_limit = grh->hop_limit;
	route->traffic_class = be32toh(grh->version_tclass_flow) >> 20 & 0xff;
	return 0;
}

ABI_EXPORT int ibv_init_ah_from_wc(struct ibv_context *context, uint8_t port_num, struct ibv_wc *wc, struct ibv_grh *grh,
				   struct ibv_ah_attr *attr)
{
	struct abi_context *ctx = to_context(context);
	const struct ca_device *port = device_port(ctx->dev, port_num);
	const struct iphdr *ip;
	int err;

	*attr = (struct ibv_ah_attr){ .dlid = wc->slid, .sl = wc->sl, .src_path_bits = wc->dlid_path_bits, .port_num = port_num };
	if (!(wc->wc_flags & IBV_WC_GRH))
		return 0;
	if (!port) {
		errno = EINVAL;
		return -1;
	}
	attr->is_global = 1;
	attr->grh.flow_label = be32toh(grh->version_tclass_flow) & 0xfffff;
	ip = device_has(ctx->dev, DEVICE_IP_GIDS) ? ipv4_header(grh) : NULL;
	runtime_enter(ctx->rt);
	err = ip ? from_ipv4(port, ip, &attr->grh) : from_grh(port, grh, &attr->grh);
	runtime_leave(ctx->rt);
	if (err < 0) {
		errno = -err;
		return -1;
	}
	return 0;
}

ABI_EXPORT struct ibv_ah *ibv_create_ah_from_wc(struct ibv_pd *pd, struct ibv_wc *wc, struct ibv_grh *grh, uint8_t port_num)
{
	struct ibv_ah_attr attr;

	return ibv_init_ah_from_wc(pd->context, port_num, wc, grh, &attr) ? NULL : ibv_create_ah(pd, &attr);
}

/* weft's frames have no Ethernet header, so no neighbour need be asked: a link-local GID holds its MAC (RFC 4291, 2.5.6),
 * any other gets one of its own, locally administered. */
ABI_EXPORT int ibv_resolve_eth_l2_from_gid(struct ibv_context *context, struct ibv_ah_attr *attr,
					   uint8_t eth_mac[ETHERNET_LL_SIZE], uint16_t *vid)
{
	enum { LOCAL = 0x02, NO_VLAN = 0xffff };
	const uint8_t *gid = attr->grh.dgid.raw;

	if (!device_has(to_context(context)->dev, DEVICE_ETH_AH))
		return -EINVAL;
	if (gid[0] == 0xfe && (gid[1] & 0xc0) == 0x80) {
		const uint8_t mac[ETHERNET_LL_SIZE] = { gid[8] ^ LOCAL, gid[9], gid[10], gid[13], gid[14], gid[15] };

		memcpy(eth_mac, mac, sizeof(mac));
	} else {
		const uint8_t mac[ETHERNET_LL_SIZE] = { LOCAL, 0, gid[12], gid[13], gid[14], gid[15] };

		memcpy(eth_mac, mac, sizeof(mac));
	}
	if (vid)
		*vid = NO_VLAN;
	return 0;
}
