/* The wire: UDP port 4791 of the host, as one group of sockets of which each process that wants to reach other hosts gets its
 * own (link/udp_group.h). The group is opened when the first process asks for a socket, and closed when the last one that has
 * one is gone and the ends of its connections are told (farewells.h). A process asks when it has another host to reach, when
 * it listens by rdma_cm, and when it makes a UD QP of a RoCE device, to which any host may send first: from then on whoever
 * reaches the port, at any address of the host, can send to that process. Networks whose programs do none of these do not know
 * of each other; of all others one has the port.
 *
 * Member 0 of the group is weftd's: QP1 is in slot 0, so it gets what other hosts send to QP1 (qp1.h), and answers from there.
 * What a process sends to QP1 of another host leaves by the process's own socket.
 *
 * A member of the group is the low bits of a slot, so no two processes have slots of one member, as long as there are members
 * (weftd/slots.h). All slots of a process are of one member.
 *
 * Who holds a socket of the group can change the program of the group, and so take the packets of the others. So there is no wire
 * where weftd serves several users; and a process gets a socket only if each process that has one may trace it, and it may trace
 * them (weftd/trust.h): these could take the descriptor anyway. */
#ifndef WEFT_WEFTD_ROCE_PORT_H
#define WEFT_WEFTD_ROCE_PORT_H

#include "weftd/hub.h"

#include <jansson.h>

/* The member of the group that this slot leads to. */
static inline uint32_t roce_port_member(uint32_t slot)
{
	return slot % ROCE_PORT_MEMBERS;
}

/* CTL_ROCE_SOCKET. */
void roce_port_input(struct hub *h, struct client *c, const struct control_msg *msg);
void roce_port_leave(struct hub *h, struct client *c);
/* The process is a member of this group of the page from now on: what other hosts send to it comes to its socket, over each
 * interface that has an address of the device. */
void roce_port_hear(struct hub *h, struct client *c, int group);
/* It is no more, as c->joined says already. */
void roce_port_unhear(struct hub *h, struct client *c, int group);
/* The same for all groups of all processes, after interfaces or addresses have changed. */
void roce_port_hear_all(struct hub *h);
/* Closes the group that no process has a socket of, once no farewell needs it (farewells.h). */
void roce_port_close_unused(struct hub *h);
/* weftd ends: processes that stay go on with their sockets. Before they leave. */
void roce_port_close(struct hub *h);

/* Something may have come for QP1, as this descriptor says (hub_ops.watch): a bounded part of it is taken in, the rest with the
 * next hub_expire. */
bool roce_port_is_fd(const struct hub *h, int fd);
void roce_port_ready(struct hub *h);
/* Goes on with it. */
void roce_port_expire(struct hub *h);
wtime roce_port_deadline(const struct hub *h);
/* A frame of the wire's device for another host. Lost where the socket takes no more. */
bool roce_port_send(struct hub *h, const void *frame, size_t bytes);
/* The same, told what becomes of it: 0; -EAGAIN: it takes no more; -EMSGSIZE: the path is narrower; -ENETUNREACH: the kernel
 * does not send it. */
int roce_port_try(struct hub *h, const void *frame, size_t bytes);
/* weftd ends: waits until the socket has taken what waits for it, at most *ms milliseconds, which are taken off. False: they are
 * over, or there is no socket. */
bool roce_port_await_room(struct hub *h, unsigned *ms);
/* Opens the port for weftd itself: 0, or as CTL_ROCE_SOCKET says. Whoever wants it open counts in hub.roce.holders. */
int roce_port_hold(struct hub *h);
/* The device whose packets the wire carries; page.devices: there is none. */
uint32_t roce_port_device(const struct hub *h);

/* For people and weft status: state, sockets, packets that nobody got. The caller's reference. */
json_t *roce_port_describe(const struct hub *h);

#endif
