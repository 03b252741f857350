/* Connections of processes with other hosts, and their end when the process can no more say it. A process tells of each
 * connection as soon as a DREQ must end it (CTL_CONN), and when none must any more (CTL_UNCONN). What it has left when it ends,
 * be it by kill -9, weftd ends in its place: the peer is sent a DREQ from QP1 until its DREP comes (IBA 12.9.8), by the engine
 * that processes have (mgmt/cm.h). A DREQ that is not answered is given up after half a minute at most. Where many are to be
 * said, they are begun some at a time, so that peers can take them in.
 *
 * The peer may also have missed the last DREP of a process. So the wire stays open while farewells are said, and some seconds
 * after the last connection ended: the DREQ that the peer repeats is answered by weftd, as what is for no process is (qp1.h). */
#ifndef WEFT_WEFTD_FAREWELLS_H
#define WEFT_WEFTD_FAREWELLS_H

#include "mgmt/cm.h"
#include "weftd/hub.h"

/* CTL_CONN, CTL_UNCONN. */
void farewells_add(struct hub *h, struct client *c, const struct control_msg *msg);
void farewells_remove(struct hub *h, struct client *c, const struct control_msg *msg);
/* What it has is due, unless its slots stay for the next weftd. Before roce_port_leave. */
void farewells_leave(struct hub *h, struct client *c);
/* A message of another host. False: it is for no connection whose process has ended. */
bool farewells_input(struct hub *h, const struct gmp *in, const struct cm_msg *msg);
void farewells_expire(struct hub *h);
wtime farewells_deadline(const struct hub *h);
/* weftd ends: what is due is said once, and who misses that finds out by itself. */
void farewells_say_all(struct hub *h);
/* To be said, and being said. */
uint32_t farewells_count(const struct hub *h);
/* Is the wire still needed? */
bool farewells_wait(const struct hub *h);
void farewells_free(struct hub *h);

#endif
