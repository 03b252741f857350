#include "control/devices.h"

#include <errno.h>
#include <string.h>

const struct control_device control_devices[CONTROL_DEVICES] = { { "weft0", PAGE_IB }, { "weft1", PAGE_ROCE_V2 } };

static const struct device_protocol *const protocols[PAGE_PROTOCOLS] = {
	[PAGE_IB] = &protocol_ib, [PAGE_ROCE_V2] = &protocol_roce_v2,
};

/* The bit of the device that has this name, or 0. */
static unsigned named_so(const char *name, size_t length)
{
	for (unsigned i = 0; i < CONTROL_DEVICES; i++)
		if (strlen(control_devices[i].name) == length && memcmp(name, control_devices[i].name, length) == 0)
			return 1u << i;
	return 0;
}

int control_devices_listed(const char *list, unsigned *named)
{
	size_t length;
	int err = 0;

	*named = *list ? 0 : ~0u;
	for (; *list; list += length + (list[length] == ',')) {
		unsigned bit;

		length = strcspn(list, ",");
		bit = named_so(list, length);
		*named |= bit;
		if (!bit)
			err = -EINVAL;
	}
	return err;
}

const struct device_protocol *control_device_protocol(const struct page_device *d)
{
	return d->protocol < PAGE_PROTOCOLS ? protocols[d->protocol] : NULL;
}
