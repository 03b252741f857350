/* weft sim: weft's own engines in virtual time, at sizes that no machine here has. The same seed gives the same figures, but for
 * what the machine itself takes. */
#include "cli/sim.h"

#include "fabric/generate.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

static const struct sim_scenario *const scenarios[] = { &sim_cold_boot, &sim_path_storm, &sim_mad_storm };

enum { SCENARIOS = sizeof(scenarios) / sizeof(scenarios[0]), SETTINGS = 16, PPM = 1000000 };

static int print_scenarios(void)
{
	fputs("Scenarios:\n", stderr);
	for (size_t i = 0; i < SCENARIOS; i++)
		fprintf(stderr, "  %-10s %s%s%s\n", scenarios[i]->name, scenarios[i]->summary,
			scenarios[i]->topologies ? "\n             of " : "",
			scenarios[i]->topologies ? scenarios[i]->topologies : "");
	return EXIT_USAGE;
}

/* ---- topologies ---- */

static const struct generate_kind *find_kind(const char *name)
{
	size_t length = strcspn(name, ":");

	for (const struct generate_kind *k = generate_kinds; k->name; k++) {
		if (strlen(k->name) == length && !strncmp(k->name, name, length))
			return k;
	}
	return NULL;
}

int sim_load(const char *name, struct loaded *l)
{
	const struct generate_kind *kind = find_kind(name);
	char *settings[SETTINGS], *copy, *rest = NULL;
	unsigned n = 0;
	int status;

	if (!kind)
		return fabric_load(name, NULL, l);
	copy = strdup(name);
	if (!copy)
		return fabric_no_memory();
	strtok_r(copy, ":", &rest);
	while (n < SETTINGS && (settings[n] = strtok_r(NULL, ":", &rest)))
		n++;
	status = fabric_make(kind->name, n, settings, l);
	free(copy);
	return status;
}

/* It can be read by each row too: a pipe is read once. */
static bool reads_again(const char *name)
{
	struct stat st;

	return strcmp(name, "-") != 0 && (find_kind(name) || stat(name, &st) || S_ISREG(st.st_mode));
}

/* Tells once of one that cannot be loaded, before rows are measured. */
static int check_topologies(const struct sim_plan *p)
{
	struct loaded l;
	int status = EXIT_OK;

	for (unsigned i = 0; i < p->topologies && status == EXIT_OK; i++) {
		if (!reads_again(p->topology[i]))
			continue;
		status = sim_load(p->topology[i], &l);
		if (status == EXIT_OK)
			fabric_unload(&l);
	}
	return status;
}

/* ---- the command line ---- */

static int wrong(const char *what, const char *word)
{
	cli_fail("weft sim --help", "%s: '%s'", what, word);
	return EXIT_USAGE;
}

static bool take_loss(struct sim_plan *p, const char *text)
{
	char *end;
	double percent = strtod(text, &end);

	end += *end == '%';
	if (end == text || (*end && *end != ',') || !(percent >= 0 && percent <= 100) || p->losses == SIM_LIST)
		return false;
	p->loss_ppm[p->losses++] = (uint32_t)(percent / 100 * PPM + 0.5);
	return !*end || take_loss(p, end + 1);
}

static int take_options(struct sim_plan *p, const struct sim_scenario *s)
{
	char *end;

	p->seed = 1;
	if (p->o->seed) {
		errno = 0;
		p->seed = strtoull(p->o->seed, &end, 0);
		if (errno || end == p->o->seed || *end || *p->o->seed == '-')
			return wrong("a seed is a number", p->o->seed);
	}
	if (p->o->loss && !strchr(s->options, '#'))
		return wrong("this scenario has no --loss", s->name);
	if (p->o->svg && !strchr(s->options, 'G'))
		return wrong("this scenario has no --svg", s->name);
	p->svg = p->o->svg;
	if (!p->o->loss)
		p->losses = 1;
	else if (!take_loss(p, p->o->loss))
		return wrong("losses are percentages from 0 to 100, with commas between them", p->o->loss);
	return EXIT_OK;
}

static int take_topologies(struct sim_plan *p, const struct sim_scenario *s, int argc, char **argv, char **usual)
{
	char *rest = NULL;

	*usual = NULL;
	if (argc > SIM_LIST || (argc && !s->topologies))
		return wrong(argc > SIM_LIST ? "there are too many" : "this scenario has no topology", argv[0]);
	p->topologies = (unsigned)argc;
	for (int i = 0; i < argc; i++)
		p->topology[i] = argv[i];
	if (argc || !s->topologies)
		return EXIT_OK;
	*usual = strdup(s->topologies);
	if (!*usual)
		return fabric_no_memory();
	for (char *word = strtok_r(*usual, " ", &rest); word; word = strtok_r(NULL, " ", &rest))
		p->topology[p->topologies++] = word;
	return EXIT_OK;
}

int cli_sim(const struct cli_options *o, int argc, char **argv)
{
	const struct sim_scenario *s = scenarios[0];
	struct sim_plan p = { .o = o };
	bool is_named = false;
	char *usual;
	int status;

	if (argc < 1)
		return print_scenarios();
	for (size_t i = 0; i < SCENARIOS; i++) {
		if (!strcmp(argv[0], scenarios[i]->name)) {
			s = scenarios[i];
			is_named = true;
		}
	}
	/* a topology alone is switched on */
	argc -= is_named;
	argv += is_named;
	status = take_options(&p, s);
	if (status != EXIT_OK)
		return status;
	status = take_topologies(&p, s, argc, argv, &usual);
	if (status == EXIT_OK)
		status = check_topologies(&p);
	if (status == EXIT_OK)
		status = s->run(&p);
	free(usual);
	return status;
}
