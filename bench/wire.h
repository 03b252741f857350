/* Two hosts and a wire between them: network namespaces with a veth device each, in a user namespace where this process may make
 * them. Nobody else sees them, and the kernel removes them with the last process and descriptor. */
#ifndef WEFT_BENCH_WIRE_H
#define WEFT_BENCH_WIRE_H

#include "bench/trial.h"

/* The server is at host 0, whose address this is. */
#define WIRE_SERVER "10.86.0.1"
#define WIRE_DEVICE "wire0"

struct wire {
	int host[2];		/* owned: descriptors of the network namespaces */
	const char *dir[2];	/* borrowed: the WEFT_DIR of each */
};

/* The calling process, which must have one thread, is at host 0 afterwards, and root as far as it can tell. 0 or -errno, which
 * was told on the standard error; then it may be anywhere. */
int wire_open(struct wire *w);
void wire_close(struct wire *w);

/* Moves the calling process and its WEFT_DIR there. 0 or -errno. */
int wire_enter(const struct wire *w, int host);
/* Its /sys, too, shows that host's devices from now on, where the kernel lets us: UCX looks there. */
void wire_look_around(void);

/* What there is between the hosts, for the report. */
#define WIRE_WHAT "veth between two network namespaces, MTU 9000"

#endif
