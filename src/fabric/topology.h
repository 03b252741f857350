/* What a subnet is made of before it is mapped: nodes with their ports, and which port is linked with which. A parser or a
 * generator fills it; fabric_format() writes it into a mapping. */
#ifndef WEFT_FABRIC_TOPOLOGY_H
#define WEFT_FABRIC_TOPOLOGY_H

#include "wire/addr.h"
#include "wire/pkey.h"

#include <stdatomic.h>
#include <stdint.h>

enum {
	TOPOLOGY_NODES = MLID_FIRST,	/* our choice: no more can have LIDs (4.1.3) */
	TOPOLOGY_PORTS = 1 << 20,	/* our choice */
	NODE_PORTS = 254,		/* NumPorts (IBA 14.2.5.3): 255 is no port */
	NODE_DESCRIPTION = 64,		/* bytes (14.2.5.2) */
	PORT_PKEYS = 32,		/* PartitionCap; our choice */
	LIDS = MLID_FIRST,		/* unicast LIDs end here (4.1.3) */
	MLIDS = MLID_LAST - MLID_FIRST + 1,
	LMC_MOST = 7,
};

enum { MTU_4096 = 5 };	/* enum ibv_mtu */

#define PORT_NONE UINT32_MAX
#define PREFIX_DEFAULT 0xfe80000000000000u

enum node_type { NODE_CA = 1, NODE_SWITCH, NODE_ROUTER };		/* NodeInfo.NodeType */
enum port_state { PORT_DOWN = 1, PORT_INIT, PORT_ARMED, PORT_ACTIVE };	/* PortInfo.PortState */
enum port_phys { PHYS_POLLING = 2, PHYS_DISABLED, PHYS_TRAINING, PHYS_LINK_UP };	/* PortPhysicalState */
enum port_enforce { ENFORCE_IN = 1, ENFORCE_OUT = 2 };	/* PartitionEnforcementInbound, -Outbound */

/* CapabilityMask (14.2.5.6, table 145) */
enum port_capability {
	CAPABLE_SM = 1 << 1, CAPABLE_TRAP = 1 << 3, CAPABLE_SL_MAPPING = 1 << 6, CAPABLE_LED = 1 << 9,
	CAPABLE_SYSTEM_GUID = 1 << 11, CAPABLE_EXT_SPEEDS = 1 << 14, CAPABLE_CM = 1 << 16, CAPABLE_DR_NOTICE = 1 << 21,
	CAPABLE_MASK_NOTICE = 1 << 22, CAPABLE_REREGISTER = 1 << 25, CAPABLE_LOCAL_CHANGES = 1 << 26,
	PORT_CAPABILITIES = CAPABLE_TRAP | CAPABLE_SL_MAPPING | CAPABLE_LED | CAPABLE_SYSTEM_GUID | CAPABLE_EXT_SPEEDS |
			    CAPABLE_DR_NOTICE | CAPABLE_MASK_NOTICE | CAPABLE_REREGISTER | CAPABLE_LOCAL_CHANGES,
};

/* A node; also its form in a mapping. */
struct fabric_node {
	uint64_t guid, system_guid;
	uint32_t vendor;
	uint16_t device;
	uint8_t type;			/* enum node_type */
	uint8_t ports;			/* without port 0 */
	uint32_t first_port;		/* index of port 0, which only a switch uses */
	uint8_t enhanced_port0;
	uint8_t led;			/* LedInfo */
	uint8_t life_time;		/* SwitchInfo from here on (14.2.5.4) */
	uint8_t port_state_change;
	uint16_t lft_top, mft_top;	/* LinearFDBTop, MulticastFDBTop; lft_top bounds the LIDs that are forwarded */
	uint8_t default_port, default_multicast_primary, default_multicast_other;
	uint8_t rsvd;
	char description[NODE_DESCRIPTION + 1];	/* ends with a NUL */
	uint8_t rsvd2[3];
	_Atomic uint32_t sequence;	/* odd while the node, its ports or its tables change */
};

/* A port; also its form in a mapping. */
struct fabric_port {
	uint64_t guid, prefix, m_key;
	uint32_t peer;			/* index of the port at the other end, or PORT_NONE */
	uint32_t capabilities;		/* CapabilityMask */
	uint16_t lid, sm_lid;
	uint8_t lmc;
	uint8_t state, phys_state;	/* enum port_state, port_phys */
	uint8_t width, speed;		/* enum link_width, link_speed; 0 without a link */
	uint8_t enforce;		/* enum port_enforce */
	uint8_t vls;			/* OperationalVLs: data lanes */
	uint8_t mtu;			/* enum ibv_mtu */
	uint8_t sm_sl;			/* PortInfo from here on (14.2.5.6) */
	uint8_t m_key_protect;
	uint16_t m_key_lease;		/* seconds */
	uint16_t m_key_violations, pkey_violations, qkey_violations;
	uint8_t width_most, speed_most;	/* what the port is capable of */
	uint8_t width_enabled;		/* LinkWidthEnabled */
	uint8_t speed_enabled, ext_enabled;	/* LinkSpeedEnabled, LinkSpeedExtEnabled */
	uint8_t down_default;		/* LinkDownDefaultState */
	uint8_t vl_high_limit, vl_stall, hoq_life;
	uint8_t subnet_timeout;
	uint8_t phy_errors, overrun_errors;
	uint8_t unplugged;		/* by whoever owns the fabric: no training brings the link up */
	uint8_t reregistered;		/* how often its manager has set ClientReregister, modulo 256 */
	uint32_t loss_ppm;		/* the link's fault of this direction (fabric_set_fault): packets lost, of a million */
	uint32_t rate_kbps;		/* what it carries at most, in 1000 bits a second; 0: all */
	uint32_t rsvd;
	uint64_t fault_seed;
};

struct topology {
	struct fabric_node *node;	/* owned */
	struct fabric_port *port;	/* owned */
	uint32_t nodes, ports;
	uint32_t nodes_room, ports_room;
	uint32_t lids, mlids;		/* entries of the tables of switches */
};

void topology_init(struct topology *t);
void topology_fini(struct topology *t);

/* Adds a node without name, GUIDs and links. Its index; -ENOMEM; -E2BIG: more nodes, or ports, than there may be. */
int topology_add(struct topology *t, enum node_type type, unsigned ports);

/* Gives the node its GUID and those of its ports: all the same for a switch, counted from it for others. */
void topology_set_guid(struct topology *t, uint32_t node, uint64_t guid);

/* Links two ports, by their index. -EBUSY: one of them has a link. -EINVAL: no two ports that could be linked. */
int topology_link(struct topology *t, uint32_t a, uint32_t b, uint8_t width, uint8_t speed);

/* Gives a LID to each port that has one in a subnet, and none yet: port 0 of a switch, and linked ports of other nodes. Then
 * sizes the tables. -E2BIG: more LIDs than there are. -EEXIST: two ports have one LID; `port` is the second. */
int topology_set_lids(struct topology *t, uint32_t *port);

/* All LIDs are given anew, 2^lmc of them to each port but those of switches. 0, -ENOMEM or -E2BIG. */
int topology_set_lmc(struct topology *t, unsigned lmc);

#endif
