/* RoCEv2 over a plain UDP socket: a link that carries packets to any address, each to the one that its path names. It has a
 * socket of port 4791 that receives (udp_group.h), and some others that only send, so that flows differ in their source port. No
 * privilege is needed. Not thread-safe, nothing here blocks. A17. */
#ifndef WEFT_LINK_UDP_H
#define WEFT_LINK_UDP_H

#include "link/link.h"

/* Why a packet was lost here. */
enum udp_loss {
	UDP_TOO_BIG,	/* the path is narrower than the packet: the owner was told (udp_config.narrow) */
	UDP_REFUSED,	/* the kernel did not send it: no route, a firewall, an address that is not ours any more */
	UDP_UNSOUND,	/* its ICRC does not hold */
	UDP_MALFORMED,	/* no packet is so short or long */
	UDP_MISROUTED,	/* for another process of this host: the kernel joined it to one for this (UDP_GRO), or nobody has it */
	UDP_LOSSES,
};

struct udp_counts {
	uint64_t sent, received;	/* packets */
	uint64_t send_calls, receive_calls;	/* system calls */
	uint64_t lost[UDP_LOSSES];
};

struct udp_config {
	int fd;			/* owned by the link once it is open: a socket from udp_group, bound to port 4791 */
	unsigned device;	/* what arrives is this device's (link_kind) */
	uint32_t member, members;	/* the process is this one of the group's so many, a power of two; members 0: alone */
	bool one_by_one;	/* neither UDP_SEGMENT nor UDP_GRO, as on a kernel that has neither */
	/* Packets of this path are longer than it takes: `mtu_bytes` with the IP header; 0: not known. Called in link.send. */
	void (*narrow)(void *owner, const struct packet_path *path, unsigned mtu_bytes);
	void *owner;
};

/* The link waits on up to 32 packets that no socket took, and has no room meanwhile. Only a system call can tell whether
 * something arrived: link.look and link.receive make one that finds nothing at most once in a microsecond,
 * but for link.look in the 20 us after a packet. What it gives are
 * whole frames of the form PACKET_ROCE, whose ICRC was checked. event_fd is readable, too, once there is room again. -errno: the
 * descriptor is not such a socket, -ENOMEM. */
int udp_open(const struct udp_config *config, struct link **link);

const struct udp_counts *udp_counts(const struct link *l);
/* Packets since udp_open that the kernel dropped because nobody read them in time. A system call. */
uint64_t udp_overruns(const struct link *l);

/* How many bytes an IP packet on the path between two addresses may have, as far as the kernel knows: the interface's MTU, or
 * what a router said of the path in the last minutes. -errno: there is no such path. */
int udp_path_mtu(const uint8_t sgid[16], const uint8_t dgid[16]);
/* The address of this host by which packets to the other one leave, as the kernel routes them. -errno: there is no way there. */
int udp_source(const uint8_t dgid[16], uint8_t sgid[16]);
/* The longest payload, 256 to 4096, that fits with all headers that a packet may have; 0: none does. */
unsigned udp_payload_mtu(unsigned mtu_bytes);

#endif
