/* A port of a device of an adapter, with what all ports of the device have in common: its limits, and what its network is like.
 * Code asks what a device can do. Only its index in the adapter identifies it: two devices may have one protocol. What belongs to
 * the device as a whole, as PDs, CQs and SRQs, has its first port; a QP has the port that it sends by. */
#ifndef WEFT_VERBS_DEVICE_H
#define WEFT_VERBS_DEVICE_H

#include "base/counters.h"
#include "wire/addr.h"
#include "wire/port_load.h"
#include "wire/protocol.h"

#include <infiniband/verbs.h>
#include <stdbool.h>
#include <stdint.h>

enum { CA_PORT = 1 };	/* the number of a device's first port */
/* CA_DEVICES: ports of all devices. */
enum { CA_DEVICES = 16, CA_GIDS = 64, CA_PKEYS = 32 };	/* as many as the fabric page has */

struct transport_ops;

struct ca_gid {
	uint8_t raw[16];
	bool valid;
	enum ibv_gid_type type : 8;
	uint32_t ndev_ifindex;
};

struct ca_device {
	char name[16];			/* weft0 */
	const struct device_protocol *protocol;	/* borrowed */
	const struct transport_ops *transport;	/* borrowed */
	uint8_t index;			/* its place in the adapter (fabric/page.h); filled by ca_init */
	uint8_t device;			/* the index of the device's first port */
	uint8_t port_num, ports;	/* its number, from 1 on, and how many the device has; 0 in a
					 * struct ca_config: one */
	uint8_t second;			/* the index of the device's port 2, behind which those from 3 on stand, if it has one */
	uint8_t network;		/* the index of the device that is in its network without a fabric: devices of several
					 * adapters of a host share one */
	uint8_t place_number;		/* its number at the process's place in a fabric (fabric/host.h), from 1 on */
	bool shares_network;		/* other ports of the adapter are in its network */
	uint8_t reregistered;		/* how often a subnet manager has told it to join its groups again, modulo 256 */
	uint64_t guid, system_guid;	/* of the node, and of what it is a part of; host order */
	uint16_t lid, sm_lid;		/* DEVICE_LIDS */
	uint8_t lmc, sm_sl;		/* DEVICE_LIDS */
	uint8_t phys_state, width, speed;	/* as in struct ibv_port_attr */
	enum ibv_mtu active_mtu, max_mtu;
	enum ibv_port_state port_state;
	uint8_t takes;			/* by bits of enum packet_form: frames that it takes in; device_set_link */
	bool may_reorder;		/* what is sent from here may arrive in another order, or what arrives was */
	uint8_t pkeys;			/* places of its table of P_Keys, 1 to CA_PKEYS */
	uint16_t pkey[CA_PKEYS];	/* 0: the place is free */
	struct ca_gid gid[CA_GIDS];
	struct port_load *load;		/* borrowed: what its port carries for this process; NULL: the owner does not count it */
	struct counters *counters;	/* borrowed: what ca_count counts for this process; NULL: the owner does not keep it */
	struct ibv_device_attr_ex attr;	/* limits and capabilities; filled by ca_init */
};

static inline bool device_has(const struct ca_device *dev, enum device_cap cap)
{
	return dev->protocol->caps & cap;
}

/* Where the GID stands in the device's table, or -1. */
int device_gid_index(const struct ca_device *dev, const uint8_t gid[16]);
/* The device's first port, whichever port this is; and its port of this number, or NULL. */
static inline struct ca_device *device_first(const struct ca_device *dev)
{
	return (struct ca_device *)(uintptr_t)dev - dev->index + dev->device;
}
struct ca_device *device_port(const struct ca_device *dev, unsigned number);
/* Is this one of the port's LIDs (IBA 4.1.3)? */
static inline bool device_has_lid(const struct ca_device *dev, uint16_t lid)
{
	return lid_is_of(lid, dev->lid, dev->lmc);
}
/* The port's LID with these path bits, whose lowest LMC count (IBA 11.2.2.1); and those of one of its LIDs, 0 of any other. */
static inline uint16_t device_lid(const struct ca_device *dev, uint8_t path_bits)
{
	return (uint16_t)(dev->lid | (path_bits & ((1u << dev->lmc) - 1)));
}
static inline uint8_t device_path_bits(const struct ca_device *dev, uint16_t lid)
{
	return device_has_lid(dev, lid) ? (uint8_t)(lid - dev->lid) : 0;
}
/* Is what has come addressed to this port? gid: NULL in a packet without a GRH. lid: 0 where there are none. */
static inline bool device_is_addressed(const struct ca_device *dev, uint16_t lid, const uint8_t *gid)
{
	return lid ? device_has_lid(dev, lid) : gid && device_gid_index(dev, gid) >= 0;
}

/* Is this the address of the device's port? gid: NULL in a packet without a GRH. Where ports have no LIDs, lid is any. */
static inline bool device_is_port(const struct ca_device *dev, uint16_t lid, const uint8_t *gid)
{
	return (!device_has(dev, DEVICE_LIDS) || lid == dev->lid) && (!gid || device_gid_index(dev, gid) >= 0);
}

/* Is a frame of this form the device's to take in? None is while its port is down. */
static inline bool device_takes(const struct ca_device *dev, enum packet_form form)
{
	return dev->takes >> form & 1;
}
/* After its port_state was set. */
void device_set_link(struct ca_device *dev);

#endif
