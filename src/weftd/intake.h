/* Descriptors that clients send. close(2) of a descriptor may wait for somebody else for ever (a FUSE file asks its server to
 * flush, a TCP socket lingers), and so may other calls that take one; no signal helps. So weftd never has one in its table
 * that it does not know: a child, which shares nothing with weftd, receives the message, looks at what came, and passes on
 * only what nothing can make wait: eventfds, memory files and the memory of processes. */
#ifndef WEFT_WEFTD_INTAKE_H
#define WEFT_WEFTD_INTAKE_H

#include "base/list.h"
#include "base/time.h"
#include "control/protocol.h"

#include <stdbool.h>
#include <sys/types.h>

/* Children of one user at a time, those included that a descriptor holds back. Our choice: who attaches needs one for a
 * millisecond. */
enum { INTAKE_USER = 8 };

/* Our choice: while so many sockets wait for children to close theirs, no more children are made. Where processes attach all the
 * time one child is always new, and 100 sockets have been seen to wait. */
enum { INTAKE_REFUSED = 64 };

struct intake;

struct intake_set {
	struct list all;	/* struct intake */
	struct intake *spare;	/* one of all, for who comes next, or NULL: he need not wait for a fork */
	wtime spare_by;		/* when it is made; WTIME_NEVER: there is one, or none can be made */
	struct list refuse;	/* sockets that the next intake_sweep closes */
	unsigned refused;	/* how many */
	wtime sweep_by;		/* when those that had to stay are looked at again */
	pid_t self;
	int epoll_fd;		/* borrowed: gets a descriptor of each child, readable when it ends */
};

void intake_init(struct intake_set *set);
/* When intake_prepare or intake_sweep is to be called. */
wtime intake_deadline(const struct intake_set *set);
/* Makes the child for who comes next, when its time has come. */
void intake_prepare(struct intake_set *set, wtime now);
/* The children that are left end by themselves. */
void intake_fini(struct intake_set *set);

/* Has a child receive the next message of `socket`, for this user's account; after that, another is made for the next. 0;
 * -EBUSY: the user has INTAKE_USER at it, or INTAKE_REFUSED sockets wait: try again when a child has ended; another -errno. */
int intake_begin(struct intake_set *set, int socket, uint32_t user, wtime now, struct intake **intake);
/* Readable when the child has answered or ended. */
int intake_fd(const struct intake *in);
/* What the child received. 0 or -errno of message_receive; -EBADF: a descriptor is not what its message says. Descriptors come
 * with 0 only; msg is always the client's, or zero. */
int intake_take(struct intake *in, struct control_msg *msg, int fds[CONTROL_FDS], int *nfds);
/* Its answer is not waited for any more. */
void intake_end(struct intake_set *set, struct intake *in);

/* Is fd one of the set's own, which says that a child has ended? Then it is dealt with. */
bool intake_ready(struct intake_set *set, int fd);

/* Ends a connection. The descriptors in messages that nobody has read are closed with it, so that this is a child's work too. */
void intake_close(struct intake_set *set, int socket);
/* Closes what intake_close has put off: once a round. While a child that has just been made has it open too, it stays: the child
 * would be the last to close it. */
void intake_sweep(struct intake_set *set, wtime now);

/* Is the descriptor, of whatever kind, an eventfd? Nothing of it is touched that could wait. */
bool intake_is_eventfd(int fd);

#endif
