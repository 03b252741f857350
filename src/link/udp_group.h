/* The sockets of port 4791 that the processes of one host share. A socket for each member, opened in order; a classic BPF program
 * of the group gives a packet to the member whose number is in the low bits of the slot of its destination QP. One owner has all
 * of them, and each process a duplicate of its own, which it reads by itself. No privilege is needed.
 *
 * A packet whose member was never opened goes to any, which drops it (UDP_MISROUTED). A member that is taken back drops in the
 * kernel what still comes for it. The group never shrinks: the kernel would give the place of a socket that closes to the last
 * one, and the program would lead astray. So only udp_group_close closes, and udp_group_leave, which leaves another program.
 *
 * Everybody who holds a member's descriptor can change the program of the whole group (SO_ATTACH_REUSEPORT_CBPF,
 * SO_DETACH_REUSEPORT_BPF), and so take packets of the other members or starve them, and the filter of its own member. A
 * descriptor that was given away cannot be taken back. So all holders must trust each other: the members of one group go to
 * processes of one user only, and a member that was issued is never issued again to another user. */
#ifndef WEFT_LINK_UDP_GROUP_H
#define WEFT_LINK_UDP_GROUP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct udp_group;

/* Opens the group with its first member, 0, whose packets are those for slots that are multiples of `members`, QP1 among them.
 * members: a power of two, up to 4096. -EADDRINUSE: somebody has the port, also another group of this user (udp_port_holder). */
int udp_group_open(uint16_t port, unsigned members, struct udp_group **group);
void udp_group_close(struct udp_group *group);
/* The same while processes have members, which go on without the owner: each still gets its packets, until one of them closes. */
void udp_group_leave(struct udp_group *group);

unsigned udp_group_members(const struct udp_group *group);

/* The socket of this member, borrowed, for a process whose slot has this number in its low bits; what came for the process before
 * it is gone. Members are opened up to this one if they are not. -errno: no descriptor is left, ... */
int udp_group_issue(struct udp_group *group, unsigned member);
/* The member's process is gone: packets for it die silently. */
void udp_group_retire(struct udp_group *group, unsigned member);
/* The member hears what comes for this multicast group over this interface, until it is retired; what another member hears it
 * does not. 0, also when it does so already; -ENOBUFS: net.ipv4.igmp_max_memberships allows no more; -errno: there is no such
 * interface, ... */
int udp_group_hear(struct udp_group *group, unsigned member, const uint8_t gid[16], uint32_t ifindex);
/* No more, over any interface. */
void udp_group_unhear(struct udp_group *group, unsigned member, const uint8_t gid[16]);
/* How many packets have died so. */
uint64_t udp_group_dead_letters(const struct udp_group *group);

/* Who has this UDP port, and what to do about it, in a line: for an error message. */
void udp_port_holder(uint16_t port, char *text, size_t room);

#endif
