/* weftd as the owner of QP1 of this host's ports: QPN 1 is in slot 0, and slot 0 is weftd's. All processes share the ports, so
 * each speaks to this host's QP1 through weftd only (mgmt/gmp.h says why in control messages), and weftd tells apart which of
 * them a packet is for, by what its class says:
 *
 * communication management (7)   a request by its service id and the address that it asks for, to who listens there (CTL_LISTEN);
 *                                any other message by its receiver's communication id, whose upper 12 bits are the slot of the
 *                                process that made it (CM_ID_SLOT); a REJ by which the sender takes its request back before it
 *                                knows that id, to who got the request, if it is among the sender's last ones
 * pings                          of the weftd of another host: pings.h
 * others                         programs have these by libibumad (weftd/umad.h), or by a UD QP at a port of the fabric; others
 *                                are dropped
 *
 * Who sends is known from the socket. A packet is taken only if its source is a port of this host and its sender's communication
 * id is the sender's own, so that no process speaks in a conversation of another; and of the sender's first slot, so that what a
 * listener counts by requester is counted (ucm_requester). Where no process is, weftd answers as the CM of a port does: a
 * request that nobody listens to and a REP of no conversation with a REJ, a DREQ with a DREP, a SIDR_REQ with "unsupported".
 * While processes are still coming back after a restart of weftd, what may be theirs is dropped, for its sender repeats it. So
 * is what is for a process that does not read: the budget of its user is account.h's. Nothing here waits.
 *
 * From other hosts packets come over the wire (roce_port.h), and are taken only from QP1 with QP1's Q_Key, in the port's
 * partition, to an address of this host and from one that is no address of it: a MAD of the wire speaks for no process of this
 * host, and what it says of communication ids is only believed by who has such a conversation with that address
 * (mgmt/cm_input.c). A request goes to who listens at the address that it came to, whatever rdma_cm's header says. */
#ifndef WEFT_WEFTD_QP1_H
#define WEFT_WEFTD_QP1_H

#include "mgmt/gmp.h"
#include "weftd/hub.h"

/* CTL_FRAME. */
void qp1_input(struct hub *h, struct client *c, const struct control_msg *msg, const char *frame);

/* A frame for QP1 of this port of a process. 0 or -ENOENT. */
int qp1_send(struct hub *h, struct client *to, uint32_t device, const void *frame, size_t bytes);

/* A frame of the wire's device, whose ICRC holds, that somebody sent to a QP of slot 0. */
enum qp1_fate qp1_input_wire(struct hub *h, const void *frame, size_t bytes);

#endif
