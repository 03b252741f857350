/* Of tests in two processes, the sides, which see each other's words in shared memory. */
#ifndef WEFT_TESTS_ABI_SIDES_H
#define WEFT_TESTS_ABI_SIDES_H

#include <errno.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

enum { SIDES_SECONDS = 100 };

static int side;	/* 0, and 1 of the child */

static void require(bool good, const char *what)
{
	if (good)
		return;
	fprintf(stderr, "%s[%d]: %s\n", program_invocation_short_name, side, what);
	exit(1);
}

static inline void wait_for(const _Atomic uint32_t *word, uint32_t value)
{
	while (atomic_load(word) < value)
		sched_yield();
}

/* Zeros, for both sides. */
static inline void *sides_memory(size_t bytes)
{
	void *memory = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);

	require(memory != MAP_FAILED, "no memory");
	return memory;
}

/* Runs it at both sides. Returns at side 0, when both have ended well. */
static inline void sides_run(void (*run)(void))
{
	int status;
	pid_t child = fork();

	side = child == 0;
	alarm(SIDES_SECONDS);	/* a side whose other one has failed waits for it */
	run();
	if (side == 1)
		exit(0);
	require(waitpid(child, &status, 0) == child && status == 0, "the other end failed");
}

#endif
