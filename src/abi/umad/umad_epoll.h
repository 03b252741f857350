/* The watches that a program has put on a descriptor by epoll_ctl(2). They are of what it is open at, not of its number, so what
 * gets its number has none. Linux tells them in /proc/self/fdinfo (proc(5)). */
#ifndef WEFT_ABI_UMAD_UMAD_EPOLL_H
#define WEFT_ABI_UMAD_UMAD_EPOLL_H

#include <sys/epoll.h>

/* Our choice: of a port; a program that has more sets the others itself. */
enum { EPOLL_WATCHES = 8 };

struct epoll_watch {
	int epoll;
	struct epoll_event event;
};

/* Takes the watches of this descriptor, by all epoll descriptors of the process, away. How many are in w. Another thread that
 * changes them meanwhile has its own last word. */
int epoll_watches_take(int fd, struct epoll_watch w[EPOLL_WATCHES]);
/* They are of what the number is open at now. */
void epoll_watches_put(int fd, const struct epoll_watch *w, int n);

#endif
