/* weft sim cold-boot: what it costs to bring a whole subnet up, and what a dead switch costs. */
#include "cli/sim.h"

#include "sim/cold_boot.h"

#include <unistd.h>

struct task {
	const char *topology;
	uint32_t loss_ppm;
	uint64_t seed;
};

static const char *const members[] = {
	"loss_ppm", "nodes", "active", "boot_datagrams", "boot_us", "boot_cpu_ms", "kill_datagrams", "kill_us", "kill_cpu_ms",
	NULL,
};
enum { LOSS, NODES, ACTIVE, BOOT, KILL = BOOT + 3 };

static const struct output_column columns[] = {
	{ "label", "TOPOLOGY" }, { "nodes", "NODES" }, { "active", "ACTIVE" }, { "loss_ppm", "LOST, PPM" },
	{ "boot_datagrams", "DATAGRAMS" }, { "boot_us", "VIRTUAL US" }, { "boot_cpu_ms", "CPU MS" }, { "peak_mb", "MB" },
	{ "kill_datagrams", "SWITCH DEAD: DATAGRAMS" }, { "kill_us", "VIRTUAL US" }, { "kill_cpu_ms", "CPU MS" }, { NULL, NULL },
};

static void show(void *arg, const struct mad_net *n)
{
	const struct task *t = arg;

	sim_show("%s, %g %% lost: %u nodes found, %llu datagrams, %.3f s of virtual time", t->topology, t->loss_ppm / 1e4,
		 n->manager[0].sm.net.nodes, (unsigned long long)n->mads, (double)n->now / WTIME_S);
}

static void note(const struct cold_boot_part *part, long long cpu_ms, long long value[3])
{
	value[0] = (long long)part->mads;
	value[1] = (long long)(part->took / WTIME_US);
	value[2] = sim_cpu_ms() - cpu_ms;
}

static bool measure(const void *arg, long long value[SIM_VALUES])
{
	struct task t = *(const struct task *)arg;
	struct cold_boot_part part;
	struct cold_boot b;
	struct loaded l;
	long long before;
	bool is_well;

	if (sim_load(t.topology, &l) != EXIT_OK)
		_exit(EXIT_FAILED);
	cold_boot_init(&b, &l.f, t.seed, t.loss_ppm);
	b.progress = show;
	b.progress_arg = &t;
	value[LOSS] = t.loss_ppm;
	value[NODES] = l.f.nodes;
	before = sim_cpu_ms();
	cold_boot_begin(&b, &part);
	note(&part, before, value + BOOT);
	value[ACTIVE] = cold_boot_active(&b);
	is_well = part.is_up && cold_boot_reaches(&b);
	before = sim_cpu_ms();
	if (is_well && cold_boot_kill(&b, &part)) {
		note(&part, before, value + KILL);
		is_well = part.is_up && cold_boot_reaches(&b);
	}
	cold_boot_fini(&b);
	fabric_unload(&l);
	return is_well;
}

static int run(const struct sim_plan *p)
{
	struct sim_table table = { .name = "boots", .columns = columns };
	int status = EXIT_OK, printed;

	for (unsigned i = 0; i < p->topologies * p->losses; i++) {
		const struct task t = { p->topology[i / p->losses], p->loss_ppm[i % p->losses], p->seed };
		int of_row = sim_add_row(&table, t.topology, members, measure, &t);

		status = status == EXIT_OK ? of_row : status;
	}
	printed = sim_print(p, "cold-boot", &table, 1);
	return status == EXIT_OK ? printed : status;
}

const struct sim_scenario sim_cold_boot = {
	.name = "cold-boot", .summary = "a subnet is switched on; then its last switch dies",
	.options = "#", .topologies = "fat-tree:ports=14:levels=3 fat-tree:ports=34:levels=3 fat-tree:ports=54:levels=3",
	.run = run,
};
