/* weft sim path-storm: all hosts ask for paths at once. How long the last one waits, by the buffers of the administration and by
 * the window of its answers. */
#include "cli/sim.h"

#include "sim/cold_boot.h"
#include "sim/path_storm.h"

#include <unistd.h>

struct task {
	const char *topology, *label;
	uint32_t loss_ppm, fixed, window;
	bool is_announced, is_table;
	uint64_t seed;
};

static const char *const members[] = {
	"loss_ppm", "hosts", "answered", "queries", "datagrams", "drops", "median_us", "last_us", "cpu_ms", NULL,
};

static const struct output_column columns[] = {
	{ "topology", "TOPOLOGY" }, { "label", "BUFFERS" }, { "loss_ppm", "LOST, PPM" }, { "hosts", "HOSTS" },
	{ "answered", "ANSWERED" }, { "queries", "SERVED" }, { "datagrams", "DATAGRAMS" }, { "drops", "DROPS" },
	{ "median_us", "MEDIAN US" }, { "last_us", "LAST US" }, { "cpu_ms", "CPU MS" }, { NULL, NULL },
};

static const struct { const char *label; uint32_t fixed; bool is_announced; } buffers[] = {
	{ "1, fixed", 1, false }, { "16, fixed", 16, false }, { "adaptive", 0, false }, { "adaptive, announced", 0, true },
};
static const struct { const char *label; uint32_t window; } windows[] = {
	{ "1", 1 }, { "4", 4 }, { "16", 16 }, { "64", 64 }, { "256", 256 }, { "1024", 1024 },
};

static void show(void *arg, const struct mad_net *n)
{
	const struct task *t = arg;

	sim_show("%s, %s: %u nodes found", t->topology, t->label, n->manager[0].sm.net.nodes);
}

static uint32_t hosts_of(const struct fabric *f)
{
	uint32_t hosts = 0;

	for (uint32_t n = 0; n < f->nodes; n++)
		hosts += !fabric_is_switch(f, n);
	return hosts;
}

static bool storm(const struct task *t, struct cold_boot *b, long long value[SIM_VALUES])
{
	struct path_storm_config c = path_storm_usual;
	struct path_storm_result r;
	long long before = sim_cpu_ms();

	c.seed = t->seed;
	c.is_table = t->is_table;
	c.tunables = gsa_defaults;
	c.tunables.fixed = t->fixed;
	c.hint = t->is_announced ? hosts_of(b->net.fabric) : 0;
	c.tunables.window = t->window ? t->window : c.tunables.window;
	c.loss_ppm = t->loss_ppm;
	path_storm_run(&b->net, &c, &r);
	value[0] = t->loss_ppm;
	value[1] = r.hosts;
	value[2] = r.answered;
	value[3] = (long long)r.queries;
	value[4] = (long long)r.datagrams;
	value[5] = (long long)r.drops;
	value[6] = (long long)(r.median / WTIME_US);
	value[7] = (long long)(r.last / WTIME_US);
	value[8] = sim_cpu_ms() - before;
	return r.answered + r.failed == r.hosts;
}

static bool measure(const void *arg, long long value[SIM_VALUES])
{
	struct task t = *(const struct task *)arg;
	struct cold_boot_part part;
	struct cold_boot b;
	struct loaded l;
	bool is_well;

	if (sim_load(t.topology, &l) != EXIT_OK)
		_exit(EXIT_FAILED);
	cold_boot_init(&b, &l.f, t.seed, 0);
	b.progress = show;
	b.progress_arg = &t;
	cold_boot_begin(&b, &part);
	is_well = part.is_up && mad_net_until_quiet(&b.net, 10 * WTIME_S) && storm(&t, &b, value);
	cold_boot_fini(&b);
	fabric_unload(&l);
	return is_well;
}

static int add(struct sim_table *table, const struct task *t)
{
	int status = sim_add_row(table, t->label, members, measure, t);
	size_t rows = table->rows ? json_array_size(table->rows) : 0;

	if (rows)
		json_object_set_new(json_array_get(table->rows, rows - 1), "topology", json_string(t->topology));
	return status;
}

static int run(const struct sim_plan *p)
{
	struct output_column by_window[sizeof(columns) / sizeof(columns[0])];
	struct sim_table table[] = {
		{ .name = "gets", .title = "a Get of one path each, by the buffers of the administration", .columns = columns },
		{ .name = "tables", .title = "a table of all paths each, by the window of segments", .columns = by_window },
	};
	int status = EXIT_OK, of_row;

	for (size_t i = 0; i < sizeof(columns) / sizeof(columns[0]); i++)
		by_window[i] = columns[i];
	by_window[1].title = "WINDOW";
	for (unsigned i = 0; i < p->topologies * p->losses; i++) {
		struct task t = { .topology = p->topology[i / p->losses], .loss_ppm = p->loss_ppm[i % p->losses],
				  .seed = p->seed };

		for (size_t k = 0; k < sizeof(buffers) / sizeof(buffers[0]); k++) {
			t.label = buffers[k].label;
			t.fixed = buffers[k].fixed;
			t.is_announced = buffers[k].is_announced;
			of_row = add(&table[0], &t);
			status = status == EXIT_OK ? of_row : status;
		}
		t.is_table = true;
		t.fixed = 0;
		for (size_t k = 0; k < sizeof(windows) / sizeof(windows[0]); k++) {
			t.label = windows[k].label;
			t.window = windows[k].window;
			of_row = add(&table[1], &t);
			status = status == EXIT_OK ? of_row : status;
		}
	}
	of_row = sim_print(p, "path-storm", table, 2);
	return status == EXIT_OK ? of_row : status;
}

const struct sim_scenario sim_path_storm = {
	.name = "path-storm", .summary = "all hosts ask the subnet administration for paths at once",
	.options = "#", .topologies = "fat-tree:ports=14:levels=3", .run = run,
};
