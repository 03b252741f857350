/* The protocols of networks: the form of their packets, and what devices on them have. */
#ifndef WEFT_WIRE_PROTOCOL_H
#define WEFT_WIRE_PROTOCOL_H

#include "wire/packet.h"

#include <infiniband/verbs.h>
#include <stdint.h>

/* What follows from a device's network. The kernel's names are rdma_core_cap_flags of ib_verbs.h. */
enum device_cap {
	DEVICE_LIDS = 1 << 0,		/* ports have LIDs and packets name them; a group has one too (IBA 4.1.3) */
	DEVICE_GRH_REQUIRED = 1 << 1,	/* an address always names GIDs: IBV_QPF_GRH_REQUIRED (A17.3.1) */
	DEVICE_IP_GIDS = 1 << 2,	/* GIDs are the host's IP addresses: IBV_PORT_IP_BASED_GIDS (A17.4.1) */
	DEVICE_ETH_AH = 1 << 3,		/* an address handle has a MAC: RDMA_CORE_CAP_ETH_AH */
	DEVICE_RAW_ETHERNET = 1 << 4,	/* raw packet QPs, flow rules and receive side scaling */
	DEVICE_UDP = 1 << 5,		/* packets reach other hosts as UDP datagrams (A17.9.1) */
};

/* A network's protocol. */
struct device_protocol {
	const char *name;
	enum packet_form form;		/* of its packets, if its transport has any */
	uint8_t link_layer;		/* IBV_LINK_LAYER_* */
	enum ibv_gid_type gid_type;
	unsigned caps;			/* enum device_cap */
};

extern const struct device_protocol protocol_ib, protocol_roce_v2;

/* The one of that name, or NULL. */
const struct device_protocol *device_protocol_named(const char *name);

#endif
