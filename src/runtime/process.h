/* The runtimes of a process, usually one. Nothing else below abi stands at a fixed address but what
 * tests/singletons.sh lists; this does, since the handlers of fork and exit are given no argument. */
#ifndef WEFT_RUNTIME_PROCESS_H
#define WEFT_RUNTIME_PROCESS_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

struct runtime;

struct process {
	pthread_mutex_t attaching;	/* around attaching and closing, also held over fork */
	_Atomic uintptr_t forking;	/* the thread that holds it over fork: lock_self */
	struct runtime *_Atomic runtimes;	/* the attached ones, the newest first. They join and go with `attaching` */
	struct runtime *_Atomic own;	/* one of them: runtime_get's */
	pthread_once_t watched;		/* of fork_watch */
	bool has_complained;		/* that it cannot attach */
};
extern struct process process;

/* Before the first runtime is attached: what becomes of runtimes in a forked child (fork.c). */
void fork_watch(void);

#endif
