/* The kernel's rdma_cm device (rdma/rdma_user_cm.h, ABI 4) answered in the process, for the stock librdmacm. The path shim
 * hands open, write and close of /dev/infiniband/rdma_cm to these functions, which libibverbs.so.1 exports. */
#ifndef WEFT_ABI_UCM_UCM_H
#define WEFT_ABI_UCM_UCM_H

#include <sys/types.h>

#define WEFT_UCM_EXPORT __attribute__((visibility("default")))

/* A new event channel: a real descriptor, readable exactly while events are queued. flags as open(2): O_CLOEXEC and
 * O_NONBLOCK count. -1 with errno: ENODEV no weftd, EMFILE, ENOMEM. */
WEFT_UCM_EXPORT int weft_ucm_open(int flags);

/* One command. Returns `bytes`, or -1 with the kernel's errno. GET_EVENT blocks unless the descriptor is O_NONBLOCK at
 * that moment; the other commands do not wait for the peer. Any thread. It can be cancelled before the command begins and
 * while GET_EVENT blocks, and leave that by a jump out of a signal's handler. */
WEFT_UCM_EXPORT ssize_t weft_ucm_write(int fd, const void *cmd, size_t bytes);

/* Waits until the thread that has taken DISCONNECTED as the channel's last event waits for the next one, until 50 ms after it
 * took it. rping and others close a channel as soon as another thread has acknowledged that event; the other thread's next
 * rdma_get_cm_event then fails, and ends the program, unless it comes before the descriptor is closed. Adapters of the kernel
 * are slow enough to close for it to come first. Returns at once when the caller is that thread, when it has ended, and when
 * the channel is O_NONBLOCK. */
WEFT_UCM_EXPORT void weft_ucm_await_reader(int fd);

/* Destroys the channel's ids, as closing the device does. The descriptor itself is left to the caller. */
WEFT_UCM_EXPORT void weft_ucm_close(int fd);

#endif
