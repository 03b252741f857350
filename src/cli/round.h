/* One run of a server and its clients in a network of their own. */
#ifndef WEFT_CLI_ROUND_H
#define WEFT_CLI_ROUND_H

#include "base/time.h"
#include "cli/cli.h"

#include <regex.h>
#include <signal.h>
#include <stdio.h>

enum { ROUND_CLIENTS = 64 };	/* our choice: more than a machine of today starts at once in a test */

struct round_plan {
	const struct cli_options *options;	/* of weft run; borrowed, as are argv and ready */
	char **server, **client;		/* each ends with NULL */
	int clients;
	const sigset_t *mask;	/* the programs' signals; borrowed */
	wtime limit_ns;		/* for all of it */
	wtime delay_ns;		/* before the clients start; WTIME_NEVER: until the server is ready */
	const regex_t *ready;	/* what the server prints then; NULL: until it listens */
	bool stops_server;	/* it serves on: it is ended when the clients have ended, and has not failed then */
};

enum round_end {
	ROUND_FINE,		/* all exited with 0 */
	ROUND_MEMBER_FAILED,
	ROUND_NO_LISTENER,	/* the server ended, without a failure, before it was ready */
	ROUND_TIMED_OUT,
	ROUND_INTERRUPTED,	/* by a signal */
	ROUND_BROKEN,		/* weft itself failed: told on the standard error */
};

struct round_result {
	enum round_end end;
	int status;			/* weft pair's: the first failure's, as a shell has it */
	int failed;			/* who failed first: 0 is the server, 1 the first client; -1: nobody */
	int member[1 + ROUND_CLIENTS];	/* exit statuses; -1: did not run, or was ended */
	char ready[16];			/* "tcp", "rdma_cm", "output", "delay"; "": never */
	wtime took_ns;
};

/* Runs it, with the lines of all programs going to `to`, and removes all that it started and made. SIGINT, SIGTERM and SIGHUP,
 * which the caller has blocked with SIGCHLD, end it. */
void round_run(const struct round_plan *plan, FILE *to, struct round_result *result);

#endif
