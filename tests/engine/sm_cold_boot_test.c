/* What it costs to bring a whole subnet up, and what a dead switch costs: datagrams, virtual time, processor time, memory. As a
 * test it looks at small ones; with arguments it prints a row of docs/management.md:
 *
 *     engine_sm_cold_boot_test LOSS_PPM KIND [NAME=VALUE]...
 */
#include "sm_run.h"

#include <sys/resource.h>
#include <time.h>

static double seconds_used(void)
{
	struct timespec t;

	clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
	return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

static void begin(struct run *r, const char *kind, char *const settings[], uint32_t loss_ppm)
{
	run_init(r, kind, settings, 1);
	r->loss_ppm = loss_ppm;
	/* a way of some switches, and an agent that takes its time: our choice */
	r->delay_ns = 20 * WTIME_US;
	run_add(r, "s1", 0, &(struct sm_config){ 0 });
}

/* All active: the time of that, not of what follows. */
static wtime until_up(struct run *r)
{
	wtime from = r->g.now;

	for (run_pump(r); !r->manager[0].sm.is_up && run_step(r, from + 10000 * WTIME_S); run_pump(r))
		;
	return r->g.now - from;
}

/* The last switch, which in a tree is in its middle. */
static uint32_t last_switch(const struct fabric *f)
{
	uint32_t node = 0;

	for (uint32_t n = 0; n < f->nodes; n++)
		node = fabric_is_switch(f, n) ? n : node;
	return node;
}

static void kill_switch(struct run *r, uint32_t node)
{
	const struct fabric *f = &r->g.t.f;

	for (unsigned i = 1; i <= f->place[node].ports; i++) {
		uint32_t port = fabric_port_index(f, node, i);

		if (fabric_peer(f, port) != PORT_NONE)
			agents_set_link(&r->g.a, r->g.now, port, false);
	}
	for (unsigned i = 0; i < AGENT_TRAPS; i++) {
		if (r->g.a.trap[i].sends && r->g.a.trap[i].port == f->place[node].first_port) {
			r->g.a.trap[i].sends = 0;
			r->g.a.traps--;
		}
	}
}

static bool reaches_all(const struct fabric *f)
{
	struct survey s;
	bool reaches;

	assert_int_equal(survey(&s, f), 0);
	reaches = s.reached == s.paths && s.paths;
	survey_fini(&s);
	return reaches;
}

static int print_row(uint32_t loss_ppm, const char *kind, char *const settings[])
{
	struct rusage usage;
	struct run r;
	double used;
	uint64_t mads;
	wtime up, again;
	long before;

	begin(&r, kind, settings, loss_ppm);
	getrusage(RUSAGE_SELF, &usage);
	before = usage.ru_maxrss;
	used = seconds_used();
	up = until_up(&r);
	getrusage(RUSAGE_SELF, &usage);
	printf("| %s", kind);
	for (unsigned i = 0; settings[i]; i++)
		printf(" %s", settings[i]);
	printf(" | %u | %u | %g | %llu | %.3f | %.2f | %ld |", r.g.t.f.nodes, r.manager[0].sm.net.ports, loss_ppm / 1e4,
	       (unsigned long long)r.mads, (double)up / 1e9, seconds_used() - used, (usage.ru_maxrss - before) / 1024);
	if (!reaches_all(&r.g.t.f))
		printf(" NOT ALL REACH");
	run_for(&r, 2 * WTIME_S);
	mads = r.mads;
	used = seconds_used();
	kill_switch(&r, last_switch(&r.g.t.f));
	r.manager[0].sm.is_up = false;
	again = until_up(&r);
	printf(" %llu | %.3f | %.2f |%s\n", (unsigned long long)(r.mads - mads), (double)again / 1e9, seconds_used() - used,
	       reaches_all(&r.g.t.f) ? "" : " NOT ALL REACH");
	run_fini(&r);
	return 0;
}

/* Nobody sends more than what a subnet of this size needs. */
static void datagrams(void **state)
{
	static const struct { char *settings[3]; uint64_t most; wtime within; } rows[] = {
		{ { "ports=8", NULL }, 1000, 10 * WTIME_MS }, { { "ports=16", NULL }, 4000, 30 * WTIME_MS },
	};

	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		struct run r;
		wtime up;

		begin(&r, "fat-tree", rows[i].settings, 0);
		up = until_up(&r);
		assert_true(r.manager[0].sm.is_up && r.mads < rows[i].most && up < rows[i].within);
		check_reaches(&r.g.t.f);
		run_for(&r, 2 * WTIME_S);
		kill_switch(&r, last_switch(&r.g.t.f));
		assert_true(run_until_quiet(&r, 5 * WTIME_S));
		assert_true(reaches_all(&r.g.t.f));
		run_fini(&r);
	}
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = { cmocka_unit_test(datagrams) };

	if (argc > 2)
		return print_row((uint32_t)atoi(argv[1]), argv[2], argv + 3);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
