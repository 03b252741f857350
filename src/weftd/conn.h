/* The hub's clients on their sockets: messages in, and a bounded queue out for each. A client that does not read loses
 * its connection once its queue is full; nobody waits for it. */
#ifndef WEFT_WEFTD_CONN_H
#define WEFT_WEFTD_CONN_H

#include "control/message.h"
#include "weftd/hub.h"
#include "weftd/intake.h"

#include <sys/socket.h>

struct conn;

/* Datagrams for one client that leave together, at the end of what is under way (conn.c). */
struct conn_batch {
	struct conn *to;		/* borrowed; NULL: nobody's */
	unsigned count;
	struct message_short item[MESSAGES_AT_ONCE];
};

struct conn_set {
	struct hub hub;			/* first: found from the hub's own call-backs */
	int epoll_fd;			/* borrowed */
	struct intake_set intake;
	struct list held;		/* clients whose descriptors wait for a child */
	struct conn **by_fd;		/* owned; NULL where there is none */
	uint32_t by_fd_room;
	struct list doomed;
	struct conn_batch batch;
};

void conn_set_init(struct conn_set *set, const struct state *state, wtime now);
/* The epoll instance that all descriptors of the set are in. */
void conn_set_epoll(struct conn_set *set, int epoll_fd);
void conn_set_fini(struct conn_set *set);

/* A client on fd, which is the set's from now on. It must say HELLO by then. 0 or -errno, and fd is still the
 * caller's; with -EDQUOT *limit says of what there would be too many. */
int conn_add(struct conn_set *set, int fd, const struct ucred *who, wtime hello_by, enum control_limit *limit);
/* fd has these epoll events; nothing happens when it is none of ours any more. */
void conn_ready(struct conn_set *set, int fd, uint32_t events);

/* Tells who said HELLO, or is about to, on fd why it may not stay, and ends the connection. */
void conn_refuse(struct conn_set *set, int fd, int status, enum control_limit limit);

/* Drops who has not said HELLO in time, and whose descriptors nobody can receive. */
void conn_expire(struct conn_set *set, wtime now);
wtime conn_deadline(const struct conn_set *set);

/* Frees the clients that must go. */
void conn_reap(struct conn_set *set);

#endif
