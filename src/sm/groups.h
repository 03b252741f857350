/* Multicast groups of the subnet: who is a member, and the tree of each over the switches, as their multicast forwarding tables
 * are to have it (IBA 15.2.5.17, 18.2.4.3.3). A tree has a switch in the middle of its members' shortest paths. */
#ifndef WEFT_SM_GROUPS_H
#define WEFT_SM_GROUPS_H

#include "sm/net.h"

struct sm;

enum {
	MCAST_GROUPS = MLIDS,
	MCAST_FULL = 1, MCAST_NON_MEMBER = 2, MCAST_SEND_ONLY = 4, MCAST_SEND_ONLY_FULL = 8,	/* JoinState */
};

struct mcast_member {
	uint32_t port;
	uint8_t join_state;
	bool is_proxy;
	uint8_t gid[16];
};

struct mcast_group {
	uint8_t mgid[16];
	uint32_t qkey, flow_label;
	uint16_t mlid, pkey;
	uint8_t mtu, rate, life, tclass, sl, hop_limit, scope;
	bool is_permanent;		/* it stays without members */
	uint32_t maker;			/* the port that made it, while it is there; PORT_NONE: the manager */
	struct mcast_member *member;	/* owned */
	uint32_t members, room;
};

struct groups {
	struct mcast_group *group;	/* owned */
	uint32_t count, room;
	uint16_t *tree;			/* owned: for each group, the words of all switches */
	uint32_t trees, words;		/* how many groups it has; words of all switches together */
	uint32_t *word_at;		/* owned: by node, where its words begin */
	uint32_t nodes;
	uint16_t *mlid;			/* owned: the MLID of each tree */
};

void groups_fini(struct sm *s);

struct mcast_group *groups_find(struct sm *s, const uint8_t mgid[16]);
/* MLIDs that all switches have: as many groups can be. */
uint32_t groups_most(const struct sm *s);
/* A group with this MGID, and an MLID: `wanted` where it is free. NULL: there is no memory or no MLID. Others point elsewhere. */
struct mcast_group *groups_add(struct sm *s, const uint8_t mgid[16], uint16_t wanted);
void groups_remove(struct sm *s, struct mcast_group *g);
/* The membership of the port with this GID, added when there was none; NULL: no memory. */
struct mcast_member *groups_join(struct sm *s, struct mcast_group *g, uint32_t port, const uint8_t gid[16]);
struct mcast_member *groups_member(struct mcast_group *g, const uint8_t gid[16]);
void groups_leave(struct sm *s, struct mcast_group *g, struct mcast_member *m);

/* Computes all trees. 0 or -ENOMEM. */
int groups_compute(struct sm *s);
/* Blocks of MFT_BLOCK MLIDs of the node's table that are, or have been, used. */
uint32_t groups_blocks(const struct sm *s, uint32_t node);
/* modifier: as SubnSet(MulticastForwardingTable)'s, block and position. */
bool groups_differs(const struct sm *s, uint32_t node, uint32_t modifier);
void groups_fill(const struct sm *s, uint32_t node, uint32_t modifier, uint8_t data[SMP_DATA_BYTES]);
/* The switch has this. 0 or -ENOMEM. */
int groups_note(struct sm *s, uint32_t node, uint32_t modifier, const uint8_t data[SMP_DATA_BYTES]);

#endif
