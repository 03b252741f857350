/* A subnet as data: nodes, ports, links and the tables of switches in one mapping, without pointers. The places of all tables
 * follow from the types and port counts of the nodes, so no offset in the mapping has to be believed. A mapping may be a file
 * that another user writes: fabric_open() judges it once and keeps what places depend on in memory of its own. What is read
 * later is bounded where it is used.
 *
 * A writer makes a node's sequence word odd, changes the node, its ports or its tables, and makes the word even (fabric_write,
 * fabric_written); one process writes. Values that a reader may meet while they change are read by FABRIC_READ. */
#ifndef WEFT_FABRIC_FABRIC_H
#define WEFT_FABRIC_FABRIC_H

#include "fabric/qos.h"
#include "fabric/topology.h"

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
	FABRIC_MAGIC = 0x77666162,	/* "wfab" */
	FABRIC_VERSION = 5,
	FABRIC_GUIDS = 8,		/* GUIDInfo: one block (IBA 14.2.5.5); our choice of GUIDCap */
	FABRIC_VLARB = 2 * QOS_ENTRIES,		/* VLArbitrationTable: entries of high and low priority (14.2.5.9) */
	FABRIC_SL2VL = 8,		/* SLtoVLMappingTable: bytes for 16 service levels (14.2.5.8) */
	LFT_NONE = 255,			/* LinearForwardingTable: no port (14.2.5.10) */
	MFT_BITS = 16,			/* ports in one PortMaskBlock entry (14.2.5.12) */
	FABRIC_BYTES_MOST = 1 << 29,	/* our choice: 39,000 hosts behind 3,600 switches take three quarters of it */
};

struct fabric_head {
	uint32_t magic, version;
	uint64_t bytes;			/* of the whole mapping */
	uint32_t nodes, ports;
	uint32_t lids, mlids;		/* entries of each LFT and MFT */
	uint32_t faults;		/* ends of links with faults */
	uint32_t manager;		/* index, and 1, of the end port where weftd's own subnet manager runs; 0: none does */
	uint8_t manager_priority, manager_lmc;	/* of that manager: 0 to 15, and to LMC_MOST */
	uint8_t rated;			/* not 0: a link carries no more than its width and speed say */
	uint8_t manager_m_key_protect;	/* M_KeyProtectBits that that manager gives ports: 0 to 3 */
	uint16_t manager_m_key_lease;	/* seconds; 0: it never ends */
	uint8_t manager_routing;	/* enum route_choice (route.h) of that manager; what is none is AUTO */
	uint8_t manager_subnet_timeout;	/* that that manager gives ports: 1 to 31; 0: its own choice */
	uint64_t manager_m_key;		/* 0: ports have none */
	uint64_t manager_sm_key;	/* SM_Key; 0: that of managers that nobody gave one */
	struct fabric_qos manager_qos;
	uint8_t rsvd3[40];
};

/* A mapping that was judged. All pointers into it are borrowed from whoever maps it. */
struct fabric {
	struct fabric_head *head;	/* where the mapping begins; NULL: there is none */
	size_t bytes;			/* of the mapping */
	struct fabric_node *node;
	struct fabric_port *port;
	uint32_t nodes, ports, lids, mlids;
	struct fabric_place *place;	/* owned: for each node */
	uint32_t *owner;		/* owned: the node of each port */
	size_t guids, vlarb, pkeys, partitions;	/* offsets */
};

#define NODE_NONE UINT32_MAX

/* Where a node's parts are; offsets from the mapping's begin. */
struct fabric_place {
	uint32_t first_port;
	uint8_t type, ports;
	uint32_t host, next;	/* nodes: its host's first adapter, itself with but one, and the one behind it or NODE_NONE
				 * (fabric/adapters.h) */
	size_t lft, mft;		/* switches only */
	size_t sl2vl;
};

/* Bytes of the mapping for this topology. With more than FABRIC_BYTES_MOST there is no such mapping. */
size_t fabric_bytes(const struct topology *t);

/* Writes the topology into a mapping of fabric_bytes() zero bytes, aligned to 8: linked ports come up (INIT), LFTs lead nowhere,
 * P_Key tables have the default key with full membership, by the partitions too, each service level has a virtual lane. */
void fabric_format(void *mapping, const struct topology *t);

/* Judges a mapping. 0; -ENOMEM; -EINVAL: `why` tells what is wrong with it. LIDs may be any: a subnet manager that moves them
 * gives one to two ports for a while. */
int fabric_open(struct fabric *f, void *mapping, size_t bytes, char *why, size_t room);
void fabric_close(struct fabric *f);

/* Judges the LIDs of a mapping that nobody else writes: each is one port's. As fabric_open. */
int fabric_check_lids(const struct fabric *f, char *why, size_t room);

#define FABRIC_READ(value) __atomic_load_n(&(value), __ATOMIC_RELAXED)
#define FABRIC_SET(value, to) __atomic_store_n(&(value), (to), __ATOMIC_RELAXED)

/* Around changes of a node, its ports and its tables. */
void fabric_write(struct fabric *f, uint32_t node);
void fabric_written(struct fabric *f, uint32_t node);

/* Takes the link of a port down, or brings it up: active, as after a subnet manager's look at it. Tables stay as they are. The
 * port has a link. */
void fabric_set_link(struct fabric *f, uint32_t port, bool is_up);

/* From now on the link of a port loses this share of packets and carries so much, in both directions; 0 and 0: all of them, at
 * once. The port has a link. */
void fabric_set_fault(struct fabric *f, uint32_t port, uint32_t loss_ppm, uint32_t rate_kbps, uint64_t seed);

/* May links lose or slow what passes? */
static inline bool fabric_has_faults(const struct fabric *f)
{
	return FABRIC_READ(f->head->faults) || FABRIC_READ(f->head->rated);
}

/* What the link of this port carries at most, in 1000 bits a second, from the LRH to the ICRC: as it was slowed down or, in a
 * fabric with rates, as its width and speed are now; 0: all. */
uint32_t fabric_rate(const struct fabric *f, uint32_t port);

/* The index of a node's port; number is at most place.ports. */
static inline uint32_t fabric_port_index(const struct fabric *f, uint32_t node, unsigned number)
{
	return f->place[node].first_port + number;
}

static inline unsigned fabric_port_number(const struct fabric *f, uint32_t port)
{
	return port - f->place[f->owner[port]].first_port;
}

static inline bool fabric_is_switch(const struct fabric *f, uint32_t node)
{
	return f->place[node].type == NODE_SWITCH;
}

static inline uint8_t *fabric_at(const struct fabric *f, size_t offset)
{
	return (uint8_t *)f->head + offset;
}

/* The port at the other end, or PORT_NONE. */
static inline uint32_t fabric_peer(const struct fabric *f, uint32_t port)
{
	uint32_t peer = FABRIC_READ(f->port[port].peer);

	return peer < f->ports ? peer : PORT_NONE;
}

/* A switch's LFT: an output port for each LID. */
static inline uint8_t *fabric_lft(const struct fabric *f, uint32_t node)
{
	return fabric_at(f, f->place[node].lft);
}

/* A switch's MFT: fabric_mft_words() for each MLID, bit n of word n / 16 for port n. */
static inline uint16_t *fabric_mft(const struct fabric *f, uint32_t node, uint32_t mlid)
{
	return (uint16_t *)(void *)fabric_at(f, f->place[node].mft) +
	       (size_t)(mlid - MLID_FIRST) * (f->place[node].ports / MFT_BITS + 1u);
}

/* Two service levels a byte, the even one in the upper half. For a switch by input and output port; otherwise by port. */
static inline uint8_t *fabric_sl2vl(const struct fabric *f, uint32_t node, unsigned in, unsigned out)
{
	const struct fabric_place *p = &f->place[node];

	return fabric_at(f, p->sl2vl) + ((p->type == NODE_SWITCH ? in * (p->ports + 1u) : 0) + out) * FABRIC_SL2VL;
}

static inline uint16_t *fabric_pkeys(const struct fabric *f, uint32_t port)
{
	return (uint16_t *)(void *)fabric_at(f, f->pkeys) + (size_t)port * PORT_PKEYS;
}

/* The P_Keys that weft's own subnet manager gives the end port, whatever is in its table. */
static inline uint16_t *fabric_partitions(const struct fabric *f, uint32_t port)
{
	return (uint16_t *)(void *)fabric_at(f, f->partitions) + (size_t)port * PORT_PKEYS;
}

static inline uint64_t *fabric_guids(const struct fabric *f, uint32_t port)
{
	return (uint64_t *)(void *)fabric_at(f, f->guids) + (size_t)port * FABRIC_GUIDS;
}

static inline struct fabric_vlarb *fabric_vlarb(const struct fabric *f, uint32_t port)
{
	return (struct fabric_vlarb *)(void *)fabric_at(f, f->vlarb) + (size_t)port * FABRIC_VLARB;
}

#endif
