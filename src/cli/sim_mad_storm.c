/* weft sim mad-storm: nodes ask a subnet administration at once, by the receive buffers of its QP1; a flood beside it. */
#include "cli/sim.h"
#include "cli/sim_svg.h"

#include "sim/mad_storm.h"

enum { NODES = 512 };

static const char *const storm_members[] = { "queries", "drops", "again", "median_us", "last_us", NULL };
static const struct output_column storm_columns[] = {
	{ "label", "BUFFERS" }, { "drops", "DROPS" }, { "queries", "QUERIES" }, { "again", "ASKED AGAIN" },
	{ "median_us", "MEDIAN US" }, { "last_us", "LAST US" }, { NULL, NULL },
};

static const char *const flood_members[] = { "queries", "median_us", "most_us", "flood_lost", NULL };
static const struct output_column flood_columns[] = {
	{ "label", "FLOOD" }, { "median_us", "MEDIAN US" }, { "most_us", "99 OF 100 US" }, { "queries", "QUERIES" },
	{ "flood_lost", "LOST OF THE FLOOD" }, { NULL, NULL },
};

static bool measure_storm(const void *arg, long long value[SIM_VALUES])
{
	static struct mad_storm_result r;
	const struct mad_storm_config *c = arg;

	mad_storm_run(c, &r);
	value[0] = (long long)r.queries;
	value[1] = (long long)r.drops;
	value[2] = (long long)(r.queries - c->nodes);
	value[3] = (long long)(r.median / WTIME_US);
	value[4] = (long long)(r.last / WTIME_US);
	return true;
}

static bool measure_flood(const void *arg, long long value[SIM_VALUES])
{
	static struct mad_storm_result r;

	mad_storm_run(arg, &r);
	value[0] = (long long)r.queries;
	value[1] = (long long)(r.median / WTIME_US);
	value[2] = (long long)(r.most_of_all / WTIME_US);
	value[3] = (long long)r.flood_lost;
	return true;
}

static int run(const struct sim_plan *p)
{
	struct sim_table table[] = {
		{ .name = "storms", .title = "512 nodes ask at once, by the receive buffers of the administration",
		  .columns = storm_columns },
		{ .name = "floods", .title = "32 nodes ask beside a client that is flooded", .columns = flood_columns },
	};
	struct mad_storm_config c;
	int status = EXIT_OK;

	for (unsigned i = 0; i < STORM_MODES && status == EXIT_OK; i++) {
		mad_storm_configure(&c, i, NODES, p->seed);
		status = sim_add_row(&table[0], mad_storm_modes[i], storm_members, measure_storm, &c);
	}
	for (unsigned i = 0; i < STORM_FLOODS && status == EXIT_OK; i++) {
		mad_storm_flood(&c, i, p->seed);
		status = sim_add_row(&table[1], mad_storm_floods[i], flood_members, measure_flood, &c);
	}
	if (status == EXIT_OK && p->svg)
		status = sim_svg_storm(p->svg, NODES, p->seed);
	return status == EXIT_OK ? sim_print(p, "mad-storm", table, 2) : status;
}

const struct sim_scenario sim_mad_storm = {
	.name = "mad-storm", .summary = "512 nodes ask at once: receive buffers of QP1, and a flood", .options = "G", .run = run,
};
