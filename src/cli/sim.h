/* What the scenarios of weft sim share: rows of a table, each measured in a process of its own, which therefore has its memory
 * and its processor for itself. */
#ifndef WEFT_CLI_SIM_H
#define WEFT_CLI_SIM_H

#include "cli/cli.h"
#include "cli/fabric.h"
#include "cli/output.h"

#include "base/time.h"

#include <stdint.h>

enum { SIM_VALUES = 16, SIM_LIST = 32 };

/* What the command line says. */
struct sim_plan {
	const struct cli_options *o;
	uint64_t seed;
	const char *topology[SIM_LIST];	/* KIND[:NAME=VALUE]... or FILE */
	unsigned topologies;
	uint32_t loss_ppm[SIM_LIST];
	unsigned losses;
	const char *svg;
};

struct sim_scenario {
	const char *name, *summary;
	const char *options;		/* letters of what it takes of --loss and --svg */
	const char *topologies;		/* that it takes where none is named, with blanks between them; NULL: it has none */
	/* An exit status; what went wrong is told. */
	int (*run)(const struct sim_plan *p);
};
extern const struct sim_scenario sim_cold_boot, sim_path_storm, sim_mad_storm;

/* Members of a row, in the order of its values; those without a title are in JSON alone. The last one's member is NULL. */
struct sim_table {
	const char *name;		/* member of the answer, an array */
	const char *title;		/* above the table, or NULL */
	const struct output_column *columns;	/* as output_table() */
	json_t *rows;			/* owned */
};

/* Measures one row: in the process of its own. False: it did not end well, but its values are true. */
typedef bool sim_measure(const void *arg, long long value[SIM_VALUES]);
/* Runs it, and adds {"label", columns..., "peak_mb"} to the table. An exit status; what went wrong is told. */
int sim_add_row(struct sim_table *t, const char *label, const char *const *members, sim_measure *measure, const void *arg);
/* Prints all of them, or their JSON, and releases them. */
int sim_print(const struct sim_plan *p, const char *scenario, struct sim_table *tables, unsigned count);

/* Seconds of the processor that this process has used, in milliseconds. */
long long sim_cpu_ms(void);
/* For who waits, on a terminal, a few times a second; the text is written over the one before. */
bool sim_shows_progress(void);
void sim_show(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* The topology of this name. An exit status; what went wrong is told. */
int sim_load(const char *name, struct loaded *l);

#endif
