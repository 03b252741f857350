/* The weftd that holds a lock, whatever it answers: found by its descriptors, and ended by a pidfd, so that
 * another process that gets its pid meanwhile is not signalled. */
#ifndef WEFT_CLI_HOLDER_H
#define WEFT_CLI_HOLDER_H

/* A descriptor of the process of this user that is called weftd and holds this file's lock. -ESRCH: there is none that can be
 * seen; other -errno. */
int holder_find(int lock);

/* 0 or -errno. */
int holder_signal(int holder, int signal);

#endif
