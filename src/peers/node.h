/* Where this process is in the fabric that was loaded: at a port of a host, or at all of an adapter's, or nowhere. Who is at
 * ports reaches whom the fabric's tables, states and partitions let it reach (fabric/walk.h); who is nowhere reaches those who
 * are nowhere, as without a fabric. */
#ifndef WEFT_PEERS_NODE_H
#define WEFT_PEERS_NODE_H

#include "fabric/fabric.h"
#include "fabric/host.h"
#include "fabric/page.h"
#include "peers/trees.h"
#include "peers/ways.h"
#include "verbs/ca.h"

struct session;

/* Zero: nowhere. Constant from node_join on, but for what weftd changes in the fabric. */
struct node {
	struct fabric fabric;	/* owned mapping (control/fabric_file.h); without one: nowhere */
	uint32_t place;		/* fabric/host.h */
	struct traffic_block *traffic;	/* owned mapping, by port: what data counts; NULL: nothing is counted */
	struct ways ways;
	struct trees trees;
};

static inline bool node_is_somewhere(const struct node *n)
{
	return n->fabric.head;
}

/* Puts the process at the place of that name (host_find_place). Blocks for weftd. 0; -ENODEV, logged with the cause: there is no
 * fabric or no such port; -ENOMEM, another -errno. node_leave ends it. */
int node_join(struct node *n, struct session *s, const char *name);
void node_leave(struct node *n);

/* The ports that the place has of an adapter (fabric/host.h), the first of which is this device of the page; and what a port is
 * that has this number there. Elsewhere a device is one adapter with one port. */
struct host_adapter node_adapter(const struct node *n, const struct page_device *d, unsigned adapter);
void node_describe(const struct node *n, unsigned number, struct page_device *d);

/* Whose address is it, IPv4 mapped or a GID? The GID that stands for it is set, but where there is no such port in the fabric
 * (NODE_NOBODYS). NODE_ELSEWHERE: none that a host of the fabric can have, or we are nowhere. */
enum node_owner { NODE_ELSEWHERE, NODE_OWN, NODE_OTHERS, NODE_NOBODYS };
enum node_owner node_find_address(const struct node *n, const uint8_t address[16], uint8_t gid[16]);
/* Our own, IPv4 mapped. False: there is none. */
bool node_own_address(const struct node *n, uint8_t address[16]);

/* How a packet to this address for a QP of this slot's process goes: ROUTE_NOWHERE: the address is not where that process is;
 * ROUTE_CUT: it gets lost; ROUTE_ONE_WAY: what comes back gets lost; ROUTE_LOOP: both ways are there. slot < PAGE_SLOTS; 0: for
 * QP0 or QP1 of whichever port it gets to. */
enum route_kind node_way(const struct node *n, const struct fabric_page *page, const struct ca_device *dev,
			 uint16_t pkey, const struct packet_path *path, uint32_t slot);

/* The two ends of a path to a QP of this slot's process, which is at another port than the device's: by their first GIDs, and the
 * LIDs of that one. False: it is not there. Any slot. */
struct node_ends {
	uint8_t sgid[16], dgid[16];
	uint16_t lid;
	uint8_t lmc;
};
bool node_find_ends(const struct node *n, const struct fabric_page *page, const struct ca_device *dev,
		    const struct packet_path *path, uint32_t slot, struct node_ends *ends);

/* Where what goes to this address is counted, as long as routes of this generation hold. 0: nowhere. */
uint16_t node_find_way(struct node *n, const struct ca_device *dev, uint16_t pkey, const struct packet_path *path,
		       uint64_t generation);
/* A load goes the way, or back; the first port of the way has a packet for which there is no room, or packets that it drops. */
void node_count(const struct node *n, const struct traffic_way *way, const struct wire_load *load);
void node_count_wait(const struct node *n, uint32_t way);
void node_count_discards(const struct node *n, uint32_t way, unsigned packets);

/* The tree of a datagram to a group by this route, as long as it holds. weftd knows the group by `mlid`: where no subnet
 * manager gives groups their LIDs, packets to it go by that one. NULL: this device goes through no fabric, or no memory. */
const struct tree *node_find_tree(struct node *n, const struct ca_device *dev, const struct route *r, uint16_t dlid, uint8_t sl,
				  uint16_t mlid);
/* Takes out of a group's members at their ports of this number those that the tree does not reach; without one, those that are
 * in a fabric. */
void node_filter(const struct node *n, const struct fabric_page *page, const struct ca_device *dev, const struct tree *tree,
		 unsigned number, uint64_t members[PAGE_SLOTS / 64]);
void node_count_tree(const struct node *n, const struct tree *tree, const struct wire_load *load);
/* One packet goes through a tree with faults, which says then whom it reached; ports count it. process: as for tree_draw(). */
void node_draw_tree(struct node *n, const struct tree *tree, uint32_t process, wtime now, uint64_t words);
/* Does that packet get to the port of this number of the slot's process, and when? */
bool node_tree_got(const struct node *n, const struct fabric_page *page, const struct tree *tree, uint32_t slot, unsigned number);
wtime node_tree_arrival(const struct node *n, const struct fabric_page *page, const struct tree *tree, uint32_t slot,
			unsigned number, wtime now);

#endif
