/* MPI between two ranks, each pinned: `mpi WHAT SIZE ROUNDS CPU_A CPU_B` under mpirun -n 2 prints `result` with microseconds
 * (half a round trip; of `allreduce` the whole) or millions of messages a second. Any MPI; what carries the messages is mpirun's
 * business. */
#include "stopwatch.h"

#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { WINDOW = 64 };

static int me, size;
static unsigned rounds;
static char *in, *out;

static void receive(void)
{
	MPI_Recv(in, size, MPI_BYTE, !me, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
}

static void send_message(void)
{
	MPI_Send(out, size, MPI_BYTE, !me, 1, MPI_COMM_WORLD);
}

static void latency(void)
{
	struct stopwatch w;

	stopwatch_init(&w, rounds);
	for (unsigned i = 0; i < w.rounds; i++) {
		if (me == 0)
			send_message();
		receive();
		if (me == 1)
			send_message();
		stopwatch_round(&w);
	}
	if (me == 0)
		print_result(stopwatch_median(&w) / 2 / 1000);
	stopwatch_fini(&w);
}

/* Sums of as many doubles as there is room for. */
static void allreduce(void)
{
	int count = size < 8 ? 1 : size / 8;
	double *from = calloc((size_t)count, sizeof(*from)), *to = calloc((size_t)count, sizeof(*to));
	struct stopwatch w;

	if (!from || !to)
		die("memory");
	from[count - 1] = me + 1;
	stopwatch_init(&w, rounds);
	for (unsigned i = 0; i < w.rounds; i++) {
		MPI_Allreduce(from, to, count, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
		stopwatch_round(&w);
	}
	if (to[count - 1] != 3)
		die("a wrong sum");
	if (me == 0)
		print_result(stopwatch_median(&w) / 1000);
	stopwatch_fini(&w);
	free(from);
	free(to);
}

/* A window of messages, then one back. */
static void rate(void)
{
	MPI_Request request[WINDOW];
	struct stopwatch w;

	stopwatch_init(&w, (rounds + WINDOW - 1) / WINDOW);
	for (unsigned i = 0; i < w.rounds; i++) {
		for (int j = 0; j < WINDOW; j++) {
			if (me == 0)
				MPI_Isend(out, size, MPI_BYTE, 1, 1, MPI_COMM_WORLD, &request[j]);
			else
				MPI_Irecv(in, size, MPI_BYTE, 0, 1, MPI_COMM_WORLD, &request[j]);
		}
		MPI_Waitall(WINDOW, request, MPI_STATUSES_IGNORE);
		if (me == 0)
			receive();
		else
			send_message();
		stopwatch_round(&w);
	}
	if (me == 0)
		print_result(1000 * WINDOW / stopwatch_median(&w));
	stopwatch_fini(&w);
}

int main(int argc, char **argv)
{
	if (argc != 6) {
		fprintf(stderr, "usage: mpirun -n 2 mpi WHAT SIZE ROUNDS CPU_A CPU_B\n");
		return 2;
	}
	MPI_Init(&argc, &argv);
	MPI_Comm_rank(MPI_COMM_WORLD, &me);
	size = atoi(argv[2]);
	rounds = (unsigned)strtoul(argv[3], NULL, 0);
	pin(atoi(argv[4 + me]));
	in = calloc(1, (size_t)size);
	out = calloc(1, (size_t)size);
	if (!in || !out)
		die("memory");
	if (strcmp(argv[1], "latency") == 0)
		latency();
	else if (strcmp(argv[1], "allreduce") == 0)
		allreduce();
	else
		rate();
	free(in);
	free(out);
	MPI_Finalize();
	return 0;
}
