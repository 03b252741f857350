/* The hub's clients on their sockets: messages in, and a bounded queue out for each. A client that does not read loses
 * its connection once its queue is full; nobody waits for it. */
#ifndef WEFT_WEFTD_CONN_H
#define WEFT_WEFTD_CONN_H

#include "weftd/hub.h"

#include <sys/socket.h>

struct conn;

struct conn_set {
	struct hub hub;			/* first: found from the hub's own call-backs */
	int epoll_fd;			/* borrowed */
	struct conn **by_fd;		/* owned; NULL where there is none */
	int by_fd_room;
	struct list doomed;
};

void conn_set_init(struct conn_set *set, const struct state *state, wtime now);
void conn_set_fini(struct conn_set *set);

/* A client on fd, which is the set's from now on. It must say HELLO by then. 0 or -errno, and fd is still the caller's. */
int conn_add(struct conn_set *set, int fd, const struct ucred *who, wtime hello_by);
/* fd has these epoll events; nothing happens when it is none of ours any more. */
void conn_ready(struct conn_set *set, int fd, uint32_t events);

/* Drops who has not said HELLO in time. */
void conn_expire(struct conn_set *set, wtime now);
wtime conn_deadline(const struct conn_set *set);

/* Frees the clients that must go. */
void conn_reap(struct conn_set *set);

#endif
