/* What many objects cost, measured through the public verbs API: run under `weft run`. One table of measurements at the
 * end; each prints one line of figures per point. The part that counts is the function measured(), so that
 * `valgrind --tool=callgrind --toggle-collect=measured` counts it alone. */
#include "scale.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

double seconds(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

void must(bool ok, const char *what)
{
	if (ok)
		return;
	perror(what);
	exit(1);
}

uint64_t memory_kb(void)
{
	FILE *f = fopen("/proc/self/smaps_rollup", "r");
	char line[256];
	uint64_t kb = 0;

	must(f, "smaps_rollup");
	while (fgets(line, sizeof(line), f))
		if (sscanf(line, "Pss: %lu", &kb) == 1)
			break;
	fclose(f);
	return kb;
}

struct ibv_context *open_device(const char *name)
{
	int devices;
	struct ibv_device **list = ibv_get_device_list(&devices);
	struct ibv_context *context = NULL;

	must(list, "ibv_get_device_list");
	for (int i = 0; i < devices && !context; i++)
		if (!name || strcmp(ibv_get_device_name(list[i]), name) == 0)
			context = ibv_open_device(list[i]);
	must(context, "ibv_open_device");
	ibv_free_device_list(list);
	return context;
}

struct ibv_qp *create_qp(struct ibv_pd *pd, struct ibv_cq *cq, uint32_t send, uint32_t receive, uint32_t sge)
{
	struct ibv_qp_init_attr attr = {
		.send_cq = cq, .recv_cq = cq, .qp_type = IBV_QPT_RC, .sq_sig_all = 1,
		.cap = { .max_send_wr = send, .max_recv_wr = receive, .max_send_sge = sge, .max_recv_sge = sge },
	};

	return ibv_create_qp(pd, &attr);
}

static const struct measurement {
	const char *name, *arguments;
	int (*run)(int argc, char **argv);
} measurements[] = {
	{ "memory", "[QPS [SEND RECEIVE SEGMENTS]]", measure_memory },
	{ "regions", "[REGIONS]", measure_regions },
	{ "messages", "write|send|echo|wake|burst|stopped|idle [PEERS [QPS [COUNT]]]", measure_messages },
	{ "limits", "qp|cq|srq|mr|mw|pd [COUNT]", measure_limits },
};

int main(int argc, char **argv)
{
	enum { MEASUREMENTS = sizeof(measurements) / sizeof(measurements[0]) };

	for (int i = 0; argc > 1 && i < MEASUREMENTS; i++)
		if (strcmp(argv[1], measurements[i].name) == 0)
			return measurements[i].run(argc - 1, argv + 1);
	for (int i = 0; i < MEASUREMENTS; i++)
		fprintf(stderr, "usage: weft run -- scale %s %s\n", measurements[i].name, measurements[i].arguments);
	return 2;
}
