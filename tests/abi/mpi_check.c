/* Collectives, point-to-point and one-sided transfers between the ranks of one MPI job, every element checked.
 * usage: mpi_check [ROUNDS], of large messages after that */
#include <mpi.h>

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int rank, ranks;
static long errors;

static void check(int right, const char *what, int count)
{
	if (right)
		return;
	errors++;
	if (errors < 10)
		fprintf(stderr, "mpi_check: rank %d: wrong %s of %d\n", rank, what, count);
}

/* A value that tells rank, place and round apart. */
static int32_t value(int who, int place)
{
	return (int32_t)((uint32_t)who * 1000003U + (uint32_t)place * 7919U + 17U);
}

static void fill(int32_t *buf, int count, int who)
{
	for (int i = 0; i < count; i++)
		buf[i] = value(who, i);
}

static int holds(const int32_t *buf, int count, int who)
{
	for (int i = 0; i < count; i++)
		if (buf[i] != value(who, i))
			return 0;
	return 1;
}

static void broadcast(int32_t *a, int count)
{
	for (int root = 0; root < ranks; root++) {
		memset(a, 0, count * sizeof(*a));
		if (rank == root)
			fill(a, count, root);
		MPI_Bcast(a, count, MPI_INT32_T, root, MPI_COMM_WORLD);
		check(holds(a, count, root), "bcast", count);
	}
}

static void reduce(int32_t *a, int32_t *b, int count)
{
	int right = 1;

	fill(a, count, rank);
	memset(b, 0, count * sizeof(*b));
	MPI_Allreduce(a, b, count, MPI_INT32_T, MPI_BXOR, MPI_COMM_WORLD);
	for (int i = 0; i < count; i++) {
		int32_t want = 0;

		for (int r = 0; r < ranks; r++)
			want ^= value(r, i);
		right &= b[i] == want;
	}
	check(right, "allreduce", count);
}

static void exchange(int32_t *a, int32_t *b, int count)
{
	for (int r = 0; r < ranks; r++)
		fill(a + (size_t)r * count, count, rank * ranks + r);
	memset(b, 0, (size_t)ranks * count * sizeof(*b));
	MPI_Alltoall(a, count, MPI_INT32_T, b, count, MPI_INT32_T, MPI_COMM_WORLD);
	for (int r = 0; r < ranks; r++)
		check(holds(b + (size_t)r * count, count, r * ranks + rank), "alltoall", count);

	fill(a, count, rank);
	MPI_Allgather(a, count, MPI_INT32_T, b, count, MPI_INT32_T, MPI_COMM_WORLD);
	for (int r = 0; r < ranks; r++)
		check(holds(b + (size_t)r * count, count, r), "allgather", count);

	MPI_Scatter(b, count, MPI_INT32_T, a, count, MPI_INT32_T, 0, MPI_COMM_WORLD);
	check(holds(a, count, rank), "scatter", count);
	MPI_Gather(a, count, MPI_INT32_T, b, count, MPI_INT32_T, ranks - 1, MPI_COMM_WORLD);
	if (rank == ranks - 1)
		for (int r = 0; r < ranks; r++)
			check(holds(b + (size_t)r * count, count, r), "gather", count);
}

static void ring(int32_t *a, int32_t *b, int count)
{
	int next = (rank + 1) % ranks, before = (rank + ranks - 1) % ranks;
	MPI_Request requests[2];

	fill(a, count, rank);
	memset(b, 0, count * sizeof(*b));
	MPI_Irecv(b, count, MPI_INT32_T, before, 5, MPI_COMM_WORLD, &requests[0]);
	MPI_Isend(a, count, MPI_INT32_T, next, 5, MPI_COMM_WORLD, &requests[1]);
	MPI_Waitall(2, requests, MPI_STATUSES_IGNORE);
	check(holds(b, count, before), "ring", count);
}

static void one_sided(int32_t *a, int32_t *b, int count)
{
	int next = (rank + 1) % ranks, before = (rank + ranks - 1) % ranks;
	MPI_Win window;

	fill(a, count, rank);
	memset(b, 0, count * sizeof(*b));
	MPI_Win_create(b, count * sizeof(*b), sizeof(*b), MPI_INFO_NULL, MPI_COMM_WORLD, &window);
	MPI_Win_fence(0, window);
	MPI_Put(a, count, MPI_INT32_T, next, 0, count, MPI_INT32_T, window);
	MPI_Win_fence(0, window);
	check(holds(b, count, before), "put", count);
	memset(a, 0, count * sizeof(*a));
	MPI_Get(a, count, MPI_INT32_T, next, 0, count, MPI_INT32_T, window);
	MPI_Win_fence(0, window);
	check(holds(a, count, rank), "get", count);
	MPI_Win_free(&window);
}

int main(int argc, char **argv)
{
	static const int counts[] = { 1, 3, 31, 256, 1025, 16384, 250001 };
	const int most = 250001;
	int32_t *a, *b;
	long all;

	MPI_Init(&argc, &argv);
	MPI_Comm_rank(MPI_COMM_WORLD, &rank);
	MPI_Comm_size(MPI_COMM_WORLD, &ranks);
	a = malloc((size_t)ranks * most * sizeof(*a));
	b = malloc((size_t)ranks * most * sizeof(*b));
	if (!a || !b)
		MPI_Abort(MPI_COMM_WORLD, 2);
	for (size_t i = 0; i < sizeof(counts) / sizeof(counts[0]); i++) {
		broadcast(a, counts[i]);
		reduce(a, b, counts[i]);
		exchange(a, b, counts[i]);
		ring(a, b, counts[i]);
		one_sided(a, b, counts[i]);
		MPI_Barrier(MPI_COMM_WORLD);
	}
	for (int i = argc > 1 ? atoi(argv[1]) : 0; i > 0; i--)
		ring(a, b, most);
	MPI_Allreduce(&errors, &all, 1, MPI_LONG, MPI_SUM, MPI_COMM_WORLD);
	if (rank == 0 && all == 0 && ranks > 1)
		printf("mpi_check: all collectives agree, %d ranks\n", ranks);
	free(a);
	free(b);
	MPI_Finalize();
	return all != 0;
}
