/* The two ends of a measurement: this process and one that it forks, each pinned to a CPU; or this one and another that was
 * started at another host, with a TCP connection between them. */
#ifndef WEFT_BENCH_ENDS_H
#define WEFT_BENCH_ENDS_H

#include <stdbool.h>
#include <sys/types.h>

struct ends {
	int me;		/* 0 measures and prints, 1 answers */
	int link_fd;	/* owned: a stream between them */
	bool is_wire;	/* it is a TCP connection */
	pid_t child;	/* of end 0 where both are here, else 0 */
};

/* place: "CPU_A" "CPU_B", "listen" "PORT" for end 1, or "HOST" "PORT" for end 0, whose HOST is an IPv4 address. Returns in both
 * processes; ends the program when it cannot. */
struct ends ends_open(char *const place[2]);
/* Waits until the other end is here, too. */
void ends_meet(const struct ends *e);
/* The program's exit status. */
int ends_close(const struct ends *e);

#endif
