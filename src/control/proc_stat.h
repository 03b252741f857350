/* What /proc/PID/stat says of a process: proc(5). */
#ifndef WEFT_CONTROL_PROC_STAT_H
#define WEFT_CONTROL_PROC_STAT_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

struct proc_stat {
	char state;
	pid_t parent;
	uint64_t start;		/* clock ticks after boot: no two processes of one pid have the same */
	uint64_t memory_bytes;	/* of address space; 0: it ends, and has given its memory back */
};

/* False: there is no such process, or it cannot be seen from here. */
bool proc_stat_read(pid_t pid, struct proc_stat *s);
/* As proc_stat_read, of the process whose folder of /proc this is. */
bool proc_stat_read_at(int folder, struct proc_stat *s);

/* False: it has ended, and only its parent has not noticed. */
static inline bool proc_stat_lives(const struct proc_stat *s)
{
	return s->state != 'Z' && s->state != 'X';
}

/* By a signal or a debugger. */
static inline bool proc_stat_is_stopped(const struct proc_stat *s)
{
	return s->state == 'T' || s->state == 't';
}

#endif
