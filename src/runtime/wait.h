/* Of threads that wait for events by host_wait: what each host needs for it. */
#ifndef WEFT_RUNTIME_WAIT_H
#define WEFT_RUNTIME_WAIT_H

struct host;

/* 0, or -errno: EAGAIN, as the program has all keys of thread-specific data. */
int wait_init(struct host *h);
void wait_fini(struct host *h);

#endif
