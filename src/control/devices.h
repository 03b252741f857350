/* The devices of a network: chosen when its weftd starts, and then on the fabric page; and what network a device there has. */
#ifndef WEFT_CONTROL_DEVICES_H
#define WEFT_CONTROL_DEVICES_H

#include "control/protocol.h"
#include "fabric/page.h"
#include "wire/protocol.h"

#include <stdbool.h>
#include <stddef.h>

/* A list of devices for weftd that does not run yet; without it they are those of control_default. */
#define CONTROL_DEVICES_VARIABLE "WEFT_NETWORK_DEVICES"

struct control_device {
	char name[PAGE_NAME];
	char netdev[PAGE_NAME];		/* the host's interface whose addresses it has; empty: see page_set_addresses */
	uint8_t protocol;		/* enum page_protocol */
	uint8_t width, speed;		/* as in struct ibv_port_attr */
};

/* By their index in the fabric page. */
struct control_table {
	uint32_t devices;
	struct control_device device[PAGE_DEVICES];
};

extern const struct control_table control_default;

/* "mlx5_0,mlx5_1:roce,rate=400G,netdev=eth0": names with their kind, ib (else) or roce, and what is said of the device named
 * last. -EINVAL, *why: what is wrong with it. */
int control_table_parse(const char *list, struct control_table *t, char *why, size_t room);

/* Gb/s of a width and a speed, 0: no device has them. */
unsigned control_rate(uint8_t width, uint8_t speed);

/* The names and protocols of n devices of the page. */
void control_table_of(const struct page_device *device, uint32_t n, struct control_table *t);

/* Programs at a host of several adapters have a device for each. The first adapter is the network's InfiniBand device; a further
 * one, from 1 on, has the name of the network's first device with the next number that no device has: weft2 beside weft0 and
 * weft1. */
void control_adapter_name(const struct control_table *t, unsigned further, char name[PAGE_NAME]);
/* Appends such names as long as there are places. */
void control_table_add_adapters(struct control_table *t);

/* The index of the name, of `length` bytes, or t->devices. */
uint32_t control_table_find(const struct control_table *t, const char *name, size_t length);

/* The names of the devices of the network in this runtime directory, as its tree of device files has them, for those who are not
 * attached: nothing else of *t is set. Without a network, the default's. */
void control_table_names(const char *dir, struct control_table *t);

/* Reads a list of names, "weft0,weft1": bit i of *named stands for device i. An empty list names all. -EINVAL: a name is no
 * device's; *named then has the others. */
int control_devices_listed(const char *list, const struct control_table *t, unsigned *named);

/* NULL: a protocol that this weft does not know. */
const struct device_protocol *control_device_protocol(const struct page_device *d);
/* DEVICE_LIDS: its port is the one that a fabric, where one is loaded, has for its process. */
bool control_device_has(const struct page_device *d, enum device_cap cap);

#endif
