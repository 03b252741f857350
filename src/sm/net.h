/* What a subnet manager knows of its subnet, all of it from the answers of agents: nodes with their ports, links, addresses and
 * the tables that were written. A node that is gone keeps its place, its ports and its LIDs, so that all is as it was when it
 * comes back. Indices of nodes and ports never change. */
#ifndef WEFT_SM_NET_H
#define WEFT_SM_NET_H

#include "fabric/topology.h"
#include "wire/smp.h"

#include <stdbool.h>
#include <stdint.h>

enum {
	NET_NODES = LIDS,		/* our choice: no more can have LIDs */
	NET_PORTS_MOST = 1 << 21,	/* our choice: what nodes say that they have */
	NET_PKEYS = 32,		/* of a block of a P_KeyTable (IBA 14.2.5.7) */
	NET_PKEY_BLOCKS = 32,		/* our choice: of a port, as far as they are looked at */
	NET_GUIDS = 8,			/* of a block of GUIDInfo (14.2.5.5) */
	LFT_BLOCK = 64, MFT_BLOCK = 32,	/* entries (14.2.5.10, 14.2.5.12) */
	MFT_PORTS = 16,			/* of an entry */
};

struct net_port {
	uint64_t guid;			/* of an end port: PortGUID; 0: not known */
	uint32_t peer;			/* at the other end, or PORT_NONE */
	uint16_t lid;			/* that it has, or is to have; end ports alone */
	bool is_known;			/* info is its PortInfo, as it was read or written last */
	bool is_new;			/* its clients have not been told to register anew */
	bool is_sm;			/* another manager has answered there */
	bool is_asked;			/* by the next sweep: it may be another than it was, or have a manager now */
	bool is_crossed;		/* by the sweep under way: its peer is the one */
	bool is_disputed;		/* it leads to a port that was found elsewhere; the sweep under way is to settle that */
	uint8_t info[SMP_DATA_BYTES];
	uint16_t *pkeys;		/* owned: block 0 of its P_KeyTable, as it was read last, or NULL */
	uint32_t pkeys_behind;		/* by bits: other blocks that were not empty then */
	bool has_pkeys;			/* nobody is known to may have written others since */
	uint64_t m_key;			/* of an end port: one that is not the manager's, as it said; 0: none is known */
	uint8_t lanes;			/* OperationalVLs that its tables of lanes were written for; 0: nobody knows */
	bool has_guids;			/* those in guids were read or written */
	uint8_t guid_blocks;		/* of guids */
	uint32_t guids_due;		/* by bits: blocks that the port is to be told; again: changed meanwhile */
	uint32_t guids_again;
	uint64_t *guids;		/* owned, of an end port: GUIDInfo, all blocks; NULL: nobody has read it */
};

struct net_node {
	uint64_t guid;
	uint32_t first_port;		/* index of port 0 */
	uint8_t type, ports;		/* enum node_type; without port 0 */
	uint8_t number;			/* of the port that the way leads to */
	bool is_here;			/* there is a way to it */
	bool is_seen;			/* by the sweep under way */
	bool is_silent;			/* it did not answer in the sweep under way */
	bool is_asked;			/* of a switch: all its ports are, by the sweep under way */
	bool is_stale;			/* something could not be written into its tables */
	uint8_t hops, path[SMP_HOPS_MOST + 1];	/* the directed way: path[1] is the first port */
	uint8_t info[SMP_DATA_BYTES], description[SMP_DATA_BYTES], switch_info[SMP_DATA_BYTES];
	uint8_t *lft;			/* owned: as it was read or written; NULL: what it is nobody knows */
	uint32_t lft_entries;
	uint32_t rank;			/* of a switch, for up and down: fabric/route.h; 0: it has none */
	uint16_t *mft;			/* owned: by MLID, words of MFT_PORTS ports */
	uint32_t mft_entries;
};

/* GUIDs to numbers: open addressing, nothing is taken out. */
struct guid_map {
	struct guid_place {
		uint64_t guid;
		uint32_t number;	/* and 1; 0: free */
	} *place;			/* owned */
	uint32_t places, used;
};

struct net {
	struct net_node *node;	/* owned */
	struct net_port *port;	/* owned */
	uint32_t *owner;		/* owned: the node of each port */
	uint32_t nodes, ports, nodes_room, ports_room, owners_room;
	struct guid_map by_node, by_port;
	uint32_t *by_lid;		/* owned: port and 1, of each LID; 0: free */
	struct guid_map kept;		/* LIDs that port GUIDs had in an earlier life */
	uint8_t *is_kept;		/* owned: each LID: it is to stay free for a port that had it then */
	uint64_t lids_changed;		/* counts: who keeps them looks again */
	uint64_t changes;		/* counts: of nodes, ports, links, LIDs, P_Keys and routes */
	uint64_t writes;		/* counts: Sets that agents are to have or have had, and GUIDs of ports */
	uint32_t aliases;		/* GUIDs that end ports have beside their first ones */
	uint32_t own;			/* port where the manager runs, or PORT_NONE */
};

/* 0 or -ENOMEM; in both cases it is released by net_fini(). */
int net_init(struct net *s);
void net_fini(struct net *s);

/* Its number, or UINT32_MAX. */
uint32_t guid_map_find(const struct guid_map *m, uint64_t guid);
/* 0 or -ENOMEM. A GUID that is there gets the new number. */
int guid_map_put(struct guid_map *m, uint64_t guid, uint32_t number);

/* The node of this NodeInfo, which came over the link of port `from`, or is of the manager's own node (PORT_NONE): its index. It
 * is added when it was not there. -ENOMEM; -E2BIG: there are too many; -EINVAL: it is no node; -EEXIST: another one with this
 * NodeGUID is here and elsewhere, or was seen by the sweep under way; -EADDRINUSE: another one's port has the PortGUID. */
int net_node(struct net *s, uint32_t from, const struct smp_node_info *info);
/* The end port has this GUID. 0 or -ENOMEM. */
int net_set_guid(struct net *s, uint32_t port, uint64_t guid);

static inline bool net_is_switch(const struct net *s, uint32_t node)
{
	return s->node[node].type == NODE_SWITCH;
}

static inline uint32_t net_port_index(const struct net *s, uint32_t node, unsigned number)
{
	return s->node[node].first_port + number;
}

static inline unsigned net_port_number(const struct net *s, uint32_t port)
{
	return port - s->node[s->owner[port]].first_port;
}

/* A port that can have a LID: port 0 of a switch, or a port of another node. */
static inline bool net_is_end(const struct net *s, uint32_t port)
{
	return net_is_switch(s, s->owner[port]) == !net_port_number(s, port);
}

/* Its GUID is its own: after a node was replaced, another node's port has it. */
static inline bool net_has_own_guid(const struct net *s, uint32_t port)
{
	return guid_map_find(&s->by_port, s->port[port].guid) == port;
}

/* An end port that is in the subnet now. */
bool net_is_here(const struct net *s, uint32_t port);

/* The end port with this LID, or PORT_NONE. */
uint32_t net_port_of_lid(const struct net *s, uint32_t lid);

/* Blocks of its GUIDInfo, at least one and at most 32: as many as it said when the first one was set. */
uint32_t net_guid_blocks(const struct net *s, uint32_t port);
/* A block of these is this. 0 or -ENOMEM. */
int net_set_guids(struct net *s, uint32_t port, uint32_t block, const uint64_t guids[NET_GUIDS]);
/* It has GUIDs beside its first one. */
bool net_has_aliases(const struct net_port *p);
/* The end port with this GUID, its first one or another, or PORT_NONE. */
uint32_t net_port_of_guid(const struct net *s, uint64_t guid);
/* Another manager may write, or have written, other P_Keys and GUIDs: ports are asked again. */
void net_distrust_ports(struct net *s);
/* GUIDs that ports have not been told are the next master's business. */
void net_drop_due_guids(struct net *s);

/* What an agent has told: a change counts where it differs from what was known. */
void net_learn(struct net *s, void *known, const void *told, size_t bytes);
/* The same of a block of a P_KeyTable. 0 or -ENOMEM. */
int net_learn_pkeys(struct net *s, uint32_t port, uint32_t block, const uint8_t data[SMP_DATA_BYTES]);
/* Entries of the end port's P_KeyTable, as its node says, and the blocks of them that are looked at. */
uint32_t net_pkey_entries(const struct net *s, uint32_t port);
uint32_t net_pkey_blocks(const struct net *s, uint32_t port);
/* Links two ports; what they were linked with is not any more. */
void net_link(struct net *s, uint32_t a, uint32_t b);
void net_unlink(struct net *s, uint32_t port);

/* Does the node's way lead there, over the links as they are known? */
bool net_way_leads(const struct net *s, uint32_t node);

/* Room for so many entries of what the switch has, which lead nowhere at first. False: no memory. */
bool net_reserve_lft(struct net_node *n, uint32_t lids);
/* The directed way to a port of the node: of an adapter's port by its own link. Writes the ports behind path[0]; their number. */
uint8_t net_write_way(const struct net *s, uint32_t node, unsigned number, uint8_t path[SMP_HOPS_MOST + 1]);

/* Whatever was written into switches may be something else now. */
void net_node_forget_tables(struct net_node *n);
void net_forget_tables(struct net *s);

/* Finds the ways to all nodes over the links as they are known. Nodes without one are gone: their links are forgotten. */
void net_find_ways(struct net *s);

#endif
