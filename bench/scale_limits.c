/* How many objects of a kind one process can have, what the next one says, and what the device promised. */
#include "scale.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static struct ibv_context *context;
static struct ibv_pd *pd;
static struct ibv_cq *cq;
static uint8_t memory[4096];

static void *make_qp(void)
{
	return create_qp(pd, cq, 1, 1, 1);
}

static void *make_cq(void)
{
	return ibv_create_cq(context, 1, NULL, NULL, 0);
}

static void *make_srq(void)
{
	struct ibv_srq_init_attr attr = { .attr = { .max_wr = 1, .max_sge = 1 } };

	return ibv_create_srq(pd, &attr);
}

static void *make_mr(void)
{
	return ibv_reg_mr(pd, memory, sizeof(memory), IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE);
}

static void *make_mw(void)
{
	return ibv_alloc_mw(pd, IBV_MW_TYPE_2);
}

static void *make_pd(void)
{
	return ibv_alloc_pd(context);
}

static int promised(const struct ibv_device_attr *a, const char *kind)
{
	return strcmp(kind, "qp") == 0 ? a->max_qp : strcmp(kind, "cq") == 0 ? a->max_cq : strcmp(kind, "srq") == 0 ? a->max_srq :
	       strcmp(kind, "mr") == 0 ? a->max_mr : strcmp(kind, "mw") == 0 ? a->max_mw : a->max_pd;
}

static const struct {
	const char *name;
	void *(*make)(void);
} kinds[] = {
	{ "qp", make_qp }, { "cq", make_cq }, { "srq", make_srq }, { "mr", make_mr }, { "mw", make_mw }, { "pd", make_pd },
};

int measure_limits(int argc, char **argv)
{
	int count = argc > 2 ? atoi(argv[2]) : 65536, made = 0;
	struct ibv_device_attr attr;
	uint64_t before;
	double start;

	context = open_device(getenv("SCALE_DEVICE"));
	pd = ibv_alloc_pd(context);
	cq = ibv_create_cq(context, 1, NULL, NULL, 0);
	must(pd && cq && ibv_query_device(context, &attr) == 0, "objects");
	before = memory_kb();
	start = seconds();
	for (unsigned i = 0; argc > 1 && i < sizeof(kinds) / sizeof(kinds[0]); i++)
		while (strcmp(kinds[i].name, argv[1]) == 0 && made < count && kinds[i].make())
			made++;
	printf("%s: %d of %d, then %s; the device promises %d; %.2f us and %.0f bytes each\n", argv[1], made, count,
	       made < count ? strerror(errno) : "enough", promised(&attr, argv[1]), (seconds() - start) / made * 1e6,
	       (double)(memory_kb() - before) * 1024 / made);
	return 0;
}
