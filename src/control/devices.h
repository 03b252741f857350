/* The devices that weftd makes, and what network a device of the fabric page has. */
#ifndef WEFT_CONTROL_DEVICES_H
#define WEFT_CONTROL_DEVICES_H

#include "control/protocol.h"
#include "fabric/page.h"
#include "wire/protocol.h"

struct control_device {
	const char *name;
	enum page_protocol protocol;
};

/* By their index in the fabric page. */
extern const struct control_device control_devices[CONTROL_DEVICES];

/* Reads a list of names, "weft0,weft1": bit i of *named stands for device i. An empty list names all. -EINVAL: a name is no
 * device's; *named then has the others. */
int control_devices_listed(const char *list, unsigned *named);

/* NULL: a protocol that this weft does not know. */
const struct device_protocol *control_device_protocol(const struct page_device *d);

#endif
