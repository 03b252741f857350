/* What is measured, by whom, and what weft is meant to reach: three tables. A contest is a figure, at one or more sizes; a
 * contestant is a command that measures it; a goal compares weft's contestants with another's figure. */
#ifndef WEFT_BENCH_CONTEST_H
#define WEFT_BENCH_CONTEST_H

#include <stdbool.h>
#include <stddef.h>

enum { CONTEST_SIZES = 8 };
enum { SIZE_TEXT = 32 };		/* bytes of a size as text */

struct contest {
	const char *name, *title, *unit;
	bool is_lower_better;
	bool has_size;			/* of messages: --size replaces the list */
	size_t sizes[CONTEST_SIZES];	/* bytes, or as many of what is counted; the last is followed by 0 */
	/* What a round takes, roughly, from which the number of rounds follows. */
	unsigned round_ns, passes;	/* times that the bytes are moved */
	bool is_wire;			/* the ends are two hosts (bench/wire.h) */
	const char *counted;		/* what the sizes count, in place of bytes: queue pairs; NULL: they are bytes */
};

enum contestant_side { SIDE_WEFT, SIDE_PEER, SIDE_LIMIT };

/* How the server says that it can be connected to. */
enum contestant_ready { READY_NONE, READY_TCP, READY_UDP, READY_RDMA_CM };

struct contestant {
	const char *contest, *name, *what;
	enum contestant_side side;
	bool is_mapped;			/* memory that both processes map, opposed to private memory */
	/* Words with {size}, {rounds}, {warm_up}, {port}, {cpus}, {bench} (our programs' folder) and {weft} in them. The server
	 * and the client add their own; without a client one command has both ends. */
	const char *command, *server, *client;
	enum contestant_ready ready;
	/* The figure in the client's output, in the contest's unit. False when it is not there. */
	bool (*parse)(const char *output, double *value);
	const char *program, *package;	/* what must be there, and the Debian package that brings it */
	const char *weft_option;	/* of weft run, which must have it; NULL: none */
	size_t only_size;		/* 0: all */
};

struct goal {
	const char *contest;
	size_t size;
	bool is_mapped;			/* which of weft's contestants */
	const char *against;		/* NULL: nobody, and the bound is of weft's figure itself */
	double bound;			/* of weft's figure divided by the other's: the greatest; the least when more is better */
};

extern const struct contest contests[];
extern const struct contestant contestants[];
extern const struct goal goals[];
extern const size_t contest_count, contestant_count, goal_count;

const struct contest *contest_find(const char *name);

/* Rounds that take about so long. */
unsigned contest_rounds(const struct contest *c, size_t size, double seconds);

/* 8 B, 64 KB, 1 GB. */
const char *size_text(size_t size, char text[SIZE_TEXT]);
/* The same of what the contest's sizes count; nothing where it has but one. */
const char *contest_size_text(const struct contest *c, size_t size, char text[SIZE_TEXT]);
enum { GOAL_TEXT = 64 };
/* Of what the goal is: write-latency, 8 B, mapped. And its bound: at most 0.70, or with a unit. */
const char *goal_text(const struct goal *g, char text[GOAL_TEXT]);
const char *goal_bound_text(const struct goal *g, char text[GOAL_TEXT]);

#endif
