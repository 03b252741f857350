/* What QPs and regions weigh and take. */
#include "scale.h"

#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>

#ifndef MADV_POPULATE_WRITE
#define MADV_POPULATE_WRITE 23	/* Linux 5.14 */
#endif

enum { ROUNDS = 9 };

/* Of the arrays that hold the handles, only what is written counts, so that all is touched first. */
static void *handles(int count)
{
	void **h = malloc((size_t)count * sizeof(*h));

	must(h, "memory");
	for (int i = 0; i < count; i++)
		h[i] = h;
	return h;
}

int measure_memory(int argc, char **argv)
{
	int qps = argc > 1 ? atoi(argv[1]) : 10000, send = argc > 2 ? atoi(argv[2]) : 1, receive = argc > 3 ? atoi(argv[3]) : 1;
	int sge = argc > 4 ? atoi(argv[4]) : 1;
	struct ibv_context *context = open_device(getenv("SCALE_DEVICE"));
	struct ibv_pd *pd = ibv_alloc_pd(context);
	struct ibv_cq *cq = ibv_create_cq(context, 1000, NULL, NULL, 0);
	struct ibv_qp **qp = handles(qps);
	uint64_t before = memory_kb(), after;
	double start = seconds(), created, destroyed;

	must(pd && cq, "objects");
	for (int i = 0; i < qps; i++) {
		qp[i] = create_qp(pd, cq, (uint32_t)send, (uint32_t)receive, (uint32_t)sge);
		must(qp[i], "create_qp");
	}
	created = seconds() - start;
	after = memory_kb();
	start = seconds();
	for (int i = qps - 1; i >= 0; i--)
		must(ibv_destroy_qp(qp[i]) == 0, "destroy_qp");
	destroyed = seconds() - start;
	printf("%d QPs of %d sends, %d receives, %d segments: %.1f MiB in all, %.0f bytes each; create %.2f us, destroy %.2f us; "
	       "%.1f MiB before, %.1f after\n", qps, send, receive, sge, (double)(after - before) / 1024,
	       (double)(after - before) * 1024 / qps, created / qps * 1e6, destroyed / qps * 1e6, (double)before / 1024,
	       (double)memory_kb() / 1024);
	return 0;
}

static int compare(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return (x > y) - (x < y);
}

static double median(double time[ROUNDS])
{
	qsort(time, ROUNDS, sizeof(*time), compare);
	return time[ROUNDS / 2] * 1e6;
}

static void measure_size(struct ibv_pd *pd, uint8_t *memory, size_t bytes, const char *state)
{
	const int access = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ;
	enum { REPEATS = 200 };
	double reg[ROUNDS], dereg[ROUNDS];

	for (int round = 0; round < ROUNDS; round++) {
		struct ibv_mr *mr[REPEATS];
		double start = seconds();

		for (int i = 0; i < REPEATS; i++)
			mr[i] = ibv_reg_mr(pd, memory, bytes, access);
		reg[round] = (seconds() - start) / REPEATS;
		must(mr[REPEATS - 1], "reg_mr");
		start = seconds();
		for (int i = 0; i < REPEATS; i++)
			ibv_dereg_mr(mr[i]);
		dereg[round] = (seconds() - start) / REPEATS;
	}
	printf("register %8zu KiB, %s: %7.2f us, deregister %.2f us\n", bytes >> 10, state, median(reg), median(dereg));
}

/* A line of this many regions, which makes the tables as large. */
static void measure_count(struct ibv_pd *pd, uint8_t *memory, int regions)
{
	struct ibv_mr **mr = handles(regions);
	uint64_t before = memory_kb();
	double start = seconds(), reg, dereg;

	for (int i = 0; i < regions; i++) {
		mr[i] = ibv_reg_mr(pd, memory + (size_t)i % 1000 * 4096, 4096, IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE);
		must(mr[i], "reg_mr");
	}
	reg = (seconds() - start) / regions;
	before = memory_kb() - before;
	start = seconds();
	for (int i = 0; i < regions; i++)
		ibv_dereg_mr(mr[i]);
	dereg = (seconds() - start) / regions;
	printf("%d regions: register %.2f us, deregister %.2f us, %.0f bytes each\n", regions, reg * 1e6, dereg * 1e6,
	       (double)before * 1024 / regions);
	free(mr);
}

int measure_regions(int argc, char **argv)
{
	struct ibv_context *context = open_device(getenv("SCALE_DEVICE"));
	struct ibv_pd *pd = ibv_alloc_pd(context);
	const size_t most = 1ull << 30;
	uint8_t *memory = mmap(NULL, most, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	must(pd && memory != MAP_FAILED, "memory");
	for (size_t bytes = 4096; bytes <= most; bytes *= 4)
		measure_size(pd, memory, bytes, "untouched");
	must(madvise(memory, most, MADV_POPULATE_WRITE) == 0, "populate");
	for (size_t bytes = 4096; bytes <= most; bytes *= 4)
		measure_size(pd, memory, bytes, "touched");
	for (int regions = 1; regions <= (argc > 1 ? atoi(argv[1]) : 100000); regions *= 10)
		measure_count(pd, memory, regions);
	return 0;
}
