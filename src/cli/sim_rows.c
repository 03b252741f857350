/* Rows of weft sim: a process for each, whose values come by a pipe, and whose peak of memory is the kernel's word. */
#include "cli/sim.h"

#include "control/clock.h"

#include <errno.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define SHOWN_NS (WTIME_S / 5)		/* our choice: between two texts for who waits */

struct measured {
	bool is_well;
	long long value[SIM_VALUES];
};

long long sim_cpu_ms(void)
{
	struct timespec t;

	clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
	return t.tv_sec * 1000ll + t.tv_nsec / 1000000;
}

bool sim_shows_progress(void)
{
	return isatty(STDERR_FILENO);
}

void sim_show(const char *format, ...)
{
	static wtime last;
	wtime now = clock_now();
	va_list ap;

	if (!sim_shows_progress() || (last && now < last + SHOWN_NS))
		return;
	last = now;
	fputs("\r\033[K", stderr);
	va_start(ap, format);
	vfprintf(stderr, format, ap);
	va_end(ap);
}

static void measure_and_exit(sim_measure *measure, const void *arg, int fd)
{
	struct measured m = { 0 };
	ssize_t written;

	m.is_well = measure(arg, m.value);
	if (sim_shows_progress())
		fputs("\r\033[K", stderr);
	written = write(fd, &m, sizeof(m));
	_exit(written == sizeof(m) ? EXIT_OK : EXIT_FAILED);
}

/* In a process of its own. An exit status. */
static int run_apart(const char *label, sim_measure *measure, const void *arg, struct measured *m, struct rusage *usage)
{
	int fd[2], end = 0;
	ssize_t got;
	pid_t pid;

	if (pipe(fd))
		return cli_fail(NULL, "%s: %s", label, strerror(errno));
	pid = fork();
	if (!pid) {
		close(fd[0]);
		measure_and_exit(measure, arg, fd[1]);
	}
	close(fd[1]);
	if (pid < 0) {
		close(fd[0]);
		return cli_fail(NULL, "%s: %s", label, strerror(errno));
	}
	do
		got = read(fd[0], m, sizeof(*m));
	while (got < 0 && errno == EINTR);
	close(fd[0]);
	while (wait4(pid, &end, 0, usage) < 0 && errno == EINTR)
		;
	if (got == sizeof(*m))
		return EXIT_OK;
	if (WIFSIGNALED(end))
		return cli_fail("take a smaller topology, or a machine with more memory", "%s: the simulation ended by signal %d",
				label, WTERMSIG(end));
	return EXIT_FAILED;	/* which has told why */
}

static json_t *row_of(const char *label, const char *const *members, const struct measured *m, long peak_kb)
{
	json_t *row = json_pack("{s:s, s:I, s:b}", "label", label, "peak_mb", (json_int_t)(peak_kb / 1024), "ended_well",
				m->is_well);

	for (size_t i = 0; row && members[i]; i++)
		json_object_set_new(row, members[i], json_integer(m->value[i]));
	return row;
}

int sim_add_row(struct sim_table *t, const char *label, const char *const *members, sim_measure *measure, const void *arg)
{
	struct rusage usage = { 0 };
	struct measured m = { 0 };
	json_t *row;
	int status = run_apart(label, measure, arg, &m, &usage);

	if (status != EXIT_OK)
		return status;
	row = row_of(label, members, &m, usage.ru_maxrss);
	if (!t->rows)
		t->rows = json_array();
	if (!row || !t->rows || json_array_append_new(t->rows, row))
		return cli_fail("end programs that take much memory", "there is no memory for the answer");
	return m.is_well ? EXIT_OK : cli_fail(NULL, "%s: it does not end as it should", label);
}

static int print_json(const struct sim_plan *p, const char *scenario, struct sim_table *tables, unsigned count)
{
	json_t *all = json_pack("{s:s, s:I}", "scenario", scenario, "seed", (json_int_t)p->seed);

	for (unsigned i = 0; i < count; i++)
		json_object_set_new(all, tables[i].name, tables[i].rows ? tables[i].rows : json_array());
	return output_json(all);
}

int sim_print(const struct sim_plan *p, const char *scenario, struct sim_table *tables, unsigned count)
{
	if (p->o->json)
		return print_json(p, scenario, tables, count);
	printf("weft sim %s, seed %" PRIu64 "\n", scenario, p->seed);
	for (unsigned i = 0; i < count; i++) {
		if (tables[i].title)
			printf("\n%s\n", tables[i].title);
		output_table(tables[i].rows, tables[i].columns);
		json_decref(tables[i].rows);
	}
	return EXIT_OK;
}
