#include "wire/protocol.h"

#include <string.h>

const struct device_protocol protocol_ib = {
	.name = "InfiniBand", .form = PACKET_IB, .link_layer = IBV_LINK_LAYER_INFINIBAND, .gid_type = IBV_GID_TYPE_IB,
	.caps = DEVICE_LIDS,
};

const struct device_protocol protocol_roce_v2 = {
	.name = "RoCEv2", .form = PACKET_ROCE, .link_layer = IBV_LINK_LAYER_ETHERNET, .gid_type = IBV_GID_TYPE_ROCE_V2,
	.caps = DEVICE_GRH_REQUIRED | DEVICE_IP_GIDS | DEVICE_ETH_AH | DEVICE_RAW_ETHERNET | DEVICE_UDP,
};

const struct device_protocol *device_protocol_named(const char *name)
{
	static const struct device_protocol *const all[] = { &protocol_ib, &protocol_roce_v2 };

	for (size_t i = 0; i < sizeof(all) / sizeof(all[0]); i++)
		if (strcmp(all[i]->name, name) == 0)
			return all[i];
	return NULL;
}
