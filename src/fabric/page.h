/* The fabric page: what weftd publishes to every attached process, read-only and mapped by all: devices and their
 * addresses, which slots are alive, and who listens to which multicast group. Data only. A writer (weftd alone) makes
 * `generation` odd, changes, makes it even; readers retry (sequence lock). Everything read from it is range-checked. */
#ifndef WEFT_FABRIC_PAGE_H
#define WEFT_FABRIC_PAGE_H

#include <stdatomic.h>
#include <stdint.h>

enum {
	PAGE_MAGIC = 0x77656674,	/* "weft" */
	PAGE_VERSION = 2,
	PAGE_DEVICES = 2,
	PAGE_GIDS = 64,
	PAGE_SLOTS = 4096,		/* upper 12 bits of a QP number; slot 0 is weftd's */
	PAGE_GROUPS = 256,
};

struct page_gid {
	uint8_t raw[16];
	uint8_t valid;
	uint8_t type;			/* enum ibv_gid_type */
	uint16_t rsvd;
	uint32_t ifindex;
	char ifname[16];
};

struct page_device {
	char name[16];
	uint8_t link_layer;		/* IBV_LINK_LAYER_* */
	uint8_t active_mtu, max_mtu;	/* enum ibv_mtu */
	uint8_t port_state;		/* enum ibv_port_state */
	uint16_t lid, sm_lid;
	uint64_t guid;
	struct page_gid gid[PAGE_GIDS];
};

struct page_group {
	uint8_t used;
	uint8_t device;
	uint16_t mlid;			/* 0xc000.. on weft0 */
	uint8_t gid[16];
	uint64_t slots[PAGE_SLOTS / 64];
};

struct fabric_page {
	uint32_t magic, version;
	_Atomic uint64_t generation;
	uint32_t devices;
	uint32_t rsvd;
	uint64_t home;			/* the network namespace whose addresses these are: its inode number */
	struct page_device device[PAGE_DEVICES];
	_Atomic uint32_t slot_generation[PAGE_SLOTS];	/* odd while alive */
	struct page_group group[PAGE_GROUPS];
};

#define QPN_SLOT(qpn) ((qpn) >> 12)
#define QPN_INDEX(qpn) ((qpn) & 0xfffu)

#endif
