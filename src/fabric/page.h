/* The fabric page: what weftd publishes to every attached process, read-only and mapped by all: devices and their addresses,
 * which slots are alive and at which ports of a fabric (fabric/fabric.h), and who listens to which multicast group. Data only.
 * A writer (weftd alone) makes `generation` odd, changes, makes it even; readers retry (sequence lock). Everything read from it
 * is range-checked. */
#ifndef WEFT_FABRIC_PAGE_H
#define WEFT_FABRIC_PAGE_H

#include "base/qpn.h"

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>

enum {
	PAGE_MAGIC = 0x77656674,	/* "weft" */
	PAGE_VERSION = 11,
	PAGE_NAME = 16,			/* bytes of a device's or an interface's name, with a 0 */
	PAGE_DEVICES = 16,		/* ports of a process, those of a network's devices among them: our choice */
	PAGE_NAMED = 8,			/* devices of a network: our choice; page.devices says how many there are */
	PAGE_GIDS = 64,
	PAGE_PKEYS = 32,		/* of a port of a fabric (fabric/topology.h) */
	PAGE_SLOTS = QPN_SLOTS,		/* slot 0 is weftd's */
	PAGE_GROUPS = 256,
	PAGE_CUTS = 16,			/* hosts: our choice */
};

/* A device's network: its link layer, what its addresses are like, and the form of its frames. */
enum page_protocol { PAGE_IB, PAGE_ROCE_V2, PAGE_PROTOCOLS };

struct page_gid {
	uint8_t raw[16];
	uint8_t valid;
	uint8_t type;			/* enum ibv_gid_type */
	uint16_t rsvd;
	uint32_t ifindex;
	char ifname[PAGE_NAME];
};

struct page_device {
	char name[PAGE_NAME];
	char netdev[PAGE_NAME];		/* the interface whose addresses it has, alone; empty: see weftd/page.h */
	uint8_t protocol;		/* enum page_protocol */
	uint8_t active_mtu, max_mtu;	/* enum ibv_mtu */
	uint8_t port_state;		/* enum ibv_port_state */
	uint16_t lid, sm_lid;
	uint64_t guid, system_guid;	/* of the node, and of what it is a part of */
	uint8_t lmc, sm_sl, phys_state, width, speed;	/* as in struct ibv_port_attr */
	uint8_t reregistered;		/* as in struct fabric_port */
	uint8_t pkeys;			/* places of its table of P_Keys, at least one; nowhere in a fabric no more */
	uint16_t pkey[PAGE_PKEYS];	/* 0: the place is free */
	struct page_gid gid[PAGE_GIDS];
};

static inline bool page_device_has_gid(const struct page_device *d, const uint8_t gid[16])
{
	for (int i = 0; i < PAGE_GIDS; i++)
		if (d->gid[i].valid && !memcmp(d->gid[i].raw, gid, sizeof(d->gid[i].raw)))
			return true;
	return false;
}

struct page_group {
	uint8_t used;
	uint8_t device;			/* the index of the ports that its members listen at */
	uint16_t mlid;			/* 0xc000.. on InfiniBand */
	uint8_t gid[16];
	uint64_t slots[PAGE_SLOTS / 64];
};

/* Paths of QPs whose first one leads to this address, which lose what goes by them: one bit each, 0: the place is free. */
struct page_cut {
	uint8_t gid[16];
	uint32_t paths;
};

enum page_packets { PAGE_IMPAIRED = 1, PAGE_CAPTURED = 2 };

struct fabric_page {
	uint32_t magic, version;
	_Atomic uint64_t generation;
	uint32_t devices;
	uint32_t rsvd;
	uint64_t home;			/* the network namespace whose addresses these are: its inode number */
	struct page_device device[PAGE_NAMED];
	_Atomic uint32_t slot_generation[PAGE_SLOTS];	/* odd while alive */
	/* The process that has the slot, or had it last: one number for all its slots, which no other process gets before
	 * its first slot was given away 2^18 times. 0: nobody had it. Below 2^30. */
	_Atomic uint32_t slot_owner[PAGE_SLOTS];
	/* Where the slot's process is in the fabric that was loaded, or was when it ended, as its peers take in what it has sent
	 * until then: 0 nowhere, else its place (fabric/host.h), and 1. */
	_Atomic uint32_t slot_port[PAGE_SLOTS];
	/* enum page_packets. Not 0: the slot's process is impaired or captured while it runs, and whoever deals with it sends
	 * packets. */
	_Atomic uint8_t slot_packets[PAGE_SLOTS];
	_Atomic uint32_t fabric;	/* the number of the fabric that was loaded last; 0: there is none */
	uint32_t rsvd2;
	struct page_group group[PAGE_GROUPS];
	struct page_cut cut[PAGE_CUTS];
};

/* Ports of a process have an index: the first port of each device that of the device. A network with a fabric has one InfiniBand
 * device, and a process at several ports, of one adapter or more, has further ones of its network: those have the indexes behind,
 * in the order of their numbers at the process's place (fabric/host.h). */
static inline uint32_t page_ib_device(const struct fabric_page *p)
{
	uint32_t i = 0;

	while (i < PAGE_NAMED && p->device[i].protocol != PAGE_IB)
		i++;
	return i < PAGE_NAMED ? i : 0;
}

/* The device whose network it is in. */
static inline uint32_t page_device_of(const struct fabric_page *p, uint32_t index)
{
	return index < p->devices ? index : page_ib_device(p);
}

/* Its number at the place, from 1 on. */
static inline unsigned page_port_number(const struct fabric_page *p, uint32_t index)
{
	return index < p->devices ? 1 : index - p->devices + 2;
}

/* Of the place's port of this number. With PAGE_DEVICES or more, nobody has it. */
static inline uint32_t page_index(const struct fabric_page *p, unsigned number)
{
	return number <= 1 ? page_ib_device(p) : p->devices + number - 2;
}

#endif
