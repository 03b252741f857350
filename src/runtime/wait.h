/* Of threads that wait for events by runtime_wait: what each runtime needs for it. */
#ifndef WEFT_RUNTIME_WAIT_H
#define WEFT_RUNTIME_WAIT_H

struct runtime;

/* 0, or -errno: EAGAIN, as the program has all keys of thread-specific data. */
int wait_init(struct runtime *rt);
void wait_fini(struct runtime *rt);

#endif
