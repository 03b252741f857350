/* How a process is woken over a channel whose other end it has no reason to trust: a timer (timerfd) that both ends hold. It
 * carries no data, has no room that could be full and is never read, so that neither end can make the other wait: a write to an
 * eventfd waits when its owner fills it and clears O_NONBLOCK, a pipe has a lock that a reader can hold, and a socket brings
 * descriptors whose last close may wait. Nothing here blocks. Not for cancellation either: these are no cancellation points. */
#ifndef WEFT_LINK_WAKE_H
#define WEFT_LINK_WAKE_H

/* A descriptor, unset, or -errno. */
int wake_timer_create(void);

/* From now on whoever polls the descriptor finds it readable. Nothing happens to a descriptor that is no timer. */
void wake_timer_set(int fd);

/* Until it is set again it is not. */
void wake_timer_clear(int fd);

#endif
