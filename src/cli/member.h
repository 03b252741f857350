/* A program that weft pair starts: in a process group of its own, with its output, line by line, behind its name. The program
 * gets SIGKILL when the process that started it ends. */
#ifndef WEFT_CLI_MEMBER_H
#define WEFT_CLI_MEMBER_H

#include <regex.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <sys/types.h>

enum { MEMBER_LINE = 4096 };	/* longer lines come in pieces */

struct member {
	char name[16];		/* "server", "client 1" */
	pid_t pid;		/* 0: not started. Of a zombie after its end, so that its process group stays its own */
	int output;		/* owned; -1: closed */
	int status;		/* as a shell has it, 128 + N for signal N; -1: not started, or it has not ended */
	bool was_ended;		/* by member_signal */
	size_t bytes;		/* of line */
	char line[MEMBER_LINE + 1];
};

/* Where members print. */
struct member_log {
	FILE *to;		/* borrowed */
	const regex_t *wanted;	/* borrowed; NULL: nothing is looked for */
	bool is_found;		/* a line of a member matches */
};

/* Starts argv with this signal mask. With a terminal the program's output is one, as most programs keep what they print to a pipe
 * until they end. EXIT_OK, or EXIT_FAILED with a message. */
int member_start(struct member *m, char **argv, bool with_terminal, const sigset_t *mask);

/* Takes in what the program has printed, without waiting, and prints whole lines. */
void member_read(struct member *m, struct member_log *log);
/* Prints what is left of the last line and closes the output. */
void member_close(struct member *m, struct member_log *log);

/* Has it just ended? */
bool member_reap(struct member *m);
/* Is it started and has not ended? */
bool member_runs(const struct member *m);
/* Sends the signal to its process group, also when only its children live. */
void member_signal(struct member *m, int signal);

#endif
