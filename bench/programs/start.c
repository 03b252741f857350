/* What `weft run` adds to the start of a program: `start ROUNDS WEFT` runs `true` with it and without in turn, and prints
 * `result` with the milliseconds of the median difference. */
#include "stopwatch.h"

#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

extern char **environ;

static double run(char *const argv[])
{
	uint64_t began = now_ns();
	int status;
	pid_t pid;

	if (posix_spawnp(&pid, argv[0], NULL, NULL, argv, environ) || waitpid(pid, &status, 0) != pid || status)
		die(argv[0]);
	return (double)(now_ns() - began) / 1e6;
}

static int compare(const void *a, const void *b)
{
	const double *x = a, *y = b;

	return (*x > *y) - (*x < *y);
}

int main(int argc, char **argv)
{
	unsigned rounds = argc == 3 ? (unsigned)strtoul(argv[1], NULL, 0) : 0;
	double *more = calloc(rounds ? rounds : 1, sizeof(*more));

	if (!rounds || !more) {
		fprintf(stderr, "usage: start ROUNDS WEFT\n");
		return 2;
	}
	run((char *[]){ argv[2], "run", "--", "true", NULL });	/* weftd is there from now on */
	for (unsigned i = 0; i < rounds; i++)
		more[i] = run((char *[]){ argv[2], "run", "--", "true", NULL }) - run((char *[]){ "true", NULL });
	qsort(more, rounds, sizeof(*more), compare);
	print_result(more[rounds / 2] > 0 ? more[rounds / 2] : 1e-6);
	free(more);
	return 0;
}
