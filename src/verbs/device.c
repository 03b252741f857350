#include "verbs/device.h"

#include <string.h>

int device_gid_index(const struct ca_device *dev, const uint8_t gid[16])
{
	for (int i = 0; i < CA_GIDS; i++)
		if (dev->gid[i].valid && memcmp(dev->gid[i].raw, gid, sizeof(dev->gid[i].raw)) == 0)
			return i;
	return -1;
}

/* Further ports stand behind all devices, in their order. */
struct ca_device *device_port(const struct ca_device *dev, unsigned number)
{
	struct ca_device *first = device_first(dev);

	if (number == CA_PORT)
		return first;
	return number && number <= first->ports ? first + (first->second - first->index) + (number - 2) : NULL;
}

void device_set_link(struct ca_device *dev)
{
	dev->takes = (uint8_t)(1u << dev->protocol->form | (unsigned)device_has(dev, DEVICE_RAW_ETHERNET) << PACKET_ETHERNET);
	if (dev->port_state == IBV_PORT_DOWN)
		dev->takes = 0;
}
