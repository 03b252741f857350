/* A subnet begins (GSA-33): all its nodes ask the administration at time 0, and what its receive buffers make of that.
 * usage: engine_mad_storm_test [NODES [SEED [FILE.svg]]]: prints the tables of docs/management.md, and draws its picture */
#include "mad_storm.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

enum { MODES = 4 };

static const char *const names[MODES] = { "1, fixed", "16, fixed", "adaptive", "adaptive, announced" };
static uint32_t nodes = 512;
static uint64_t seed = 1;
static const char *picture;
static struct mad_storm_result result[MODES];

static struct mad_storm_config mode(int i)
{
	struct mad_storm_config c = mad_storm_usual;

	c.nodes = nodes;
	c.seed = seed;
	c.tunables = gsa_defaults;
	c.tunables.fixed = i == 0 ? 1 : i == 1 ? 16 : 0;
	c.hint = i == 3 ? nodes : 0;
	return c;
}

static void print_row(const char *name, const struct mad_storm_result *r)
{
	printf("| %s | %lu | %lu | %lu | %.2f | %.2f |\n", name, (unsigned long)r->drops, (unsigned long)r->queries,
	       (unsigned long)(r->queries - nodes), (double)r->median / WTIME_MS, (double)r->last / WTIME_MS);
}

/* ---- the picture: answers over time, on a logarithmic axis ---- */

enum { WIDTH = 720, HEIGHT = 360, LEFT = 60, BOTTOM = 50, TOP = 20, RIGHT = 20, DECADES = 6 };

/* 10 us to 10 s. */
static double x_of(wtime at)
{
	/* of ten: the second, the fourth, ...: good to a pixel */
	static const double roots[] = { 3.162278, 1.778279, 1.333521, 1.154782, 1.074608, 1.036633, 1.018152, 1.009035 };
	double decades = 0, step = 0.5, v = (double)at / (10 * WTIME_US);

	for (; v >= 10; v /= 10)
		decades++;
	for (size_t i = 0; i < sizeof(roots) / sizeof(roots[0]); i++, step /= 2) {
		if (v >= roots[i]) {
			v /= roots[i];
			decades += step;
		}
	}
	return LEFT + decades * (WIDTH - LEFT - RIGHT) / DECADES;
}

static void draw_axes(FILE *f)
{
	static const char *const marks[DECADES + 1] = { "10 us", "100 us", "1 ms", "10 ms", "100 ms", "1 s", "10 s" };

	fprintf(f, "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 %d %d\" font-family=\"sans-serif\" "
		"font-size=\"12\">\n", WIDTH, HEIGHT);
	fprintf(f, "<rect width=\"%d\" height=\"%d\" fill=\"white\"/>\n", WIDTH, HEIGHT);
	for (int i = 0; i <= DECADES; i++) {
		int x = LEFT + i * (WIDTH - LEFT - RIGHT) / DECADES;

		fprintf(f, "<line x1=\"%d\" y1=\"%d\" x2=\"%d\" y2=\"%d\" stroke=\"#ddd\"/>\n", x, TOP, x, HEIGHT - BOTTOM);
		fprintf(f, "<text x=\"%d\" y=\"%d\" text-anchor=\"middle\">%s</text>\n", x, HEIGHT - BOTTOM + 16, marks[i]);
	}
	for (int i = 0; i <= 4; i++) {
		int y = HEIGHT - BOTTOM - i * (HEIGHT - BOTTOM - TOP) / 4;

		fprintf(f, "<line x1=\"%d\" y1=\"%d\" x2=\"%d\" y2=\"%d\" stroke=\"#ddd\"/>\n", LEFT, y, WIDTH - RIGHT, y);
		fprintf(f, "<text x=\"%d\" y=\"%d\" text-anchor=\"end\">%u</text>\n", LEFT - 6, y + 4, nodes * (unsigned)i / 4);
	}
	fprintf(f, "<text x=\"%d\" y=\"%d\" text-anchor=\"middle\">time; nodes with an answer, of %u; seed %lu</text>\n",
		(LEFT + WIDTH - RIGHT) / 2, HEIGHT - 12, nodes, (unsigned long)seed);
}

static void draw(const char *path)
{
	static const char *const colours[MODES] = { "#d62728", "#ff7f0e", "#1f77b4", "#2ca02c" };
	FILE *f = fopen(path, "w");

	assert_non_null(f);
	draw_axes(f);
	for (int i = 0; i < MODES; i++) {
		fprintf(f, "<polyline fill=\"none\" stroke=\"%s\" stroke-width=\"2\"%s points=\"", colours[i],
			i == 3 ? " stroke-dasharray=\"6 4\"" : "");
		for (uint32_t k = 0; k < nodes; k += k + 8 < nodes || k + 1 == nodes ? 8 : nodes - 1 - k)
			fprintf(f, k % 64 ? "%.1f,%.1f " : "\n%.1f,%.1f ", x_of(result[i].answered[k]),
				HEIGHT - BOTTOM - (double)(k + 1) / nodes * (HEIGHT - BOTTOM - TOP));
		fprintf(f, "\"/>\n<text x=\"%d\" y=\"%d\" fill=\"%s\">%s</text>\n", LEFT + 10, TOP + 16 + 16 * i, colours[i],
			names[i]);
	}
	fprintf(f, "</svg>\n");
	assert_int_equal(fclose(f), 0);
}

static void all_nodes_ask_at_once(void **state)
{
	(void)state;
	printf("| buffers | drops | queries | asked again | median, ms | last answer, ms |\n|---|---|---|---|---|---|\n");
	for (int i = 0; i < MODES; i++) {
		struct mad_storm_config c = mode(i);

		mad_storm_run(&c, &result[i]);
		print_row(names[i], &result[i]);
		assert_true(result[i].queries == nodes + result[i].drops + result[i].discards);
	}
	if (picture)
		draw(picture);
	assert_true(result[0].drops > result[1].drops && result[1].drops > result[2].drops);
	assert_int_equal(result[3].drops, 0);
	assert_int_equal(result[3].queries, nodes);
	assert_true(result[3].last <= result[2].last && result[2].last < result[1].last);
}

/* GSA-25..27: a client with a datagram each microsecond, which takes a millisecond for one, beside nodes that ask: they wait no
 * longer than 1.2 times as long. By the fixed depth they wait for each other's tries. */
static void a_flood_costs_nodes_nothing(void **state)
{
	static struct mad_storm_result quiet, flooded, fixed;
	struct mad_storm_config c = mode(2);

	(void)state;
	c.nodes = 32;
	c.jitter_ns = 50 * WTIME_MS;
	c.tunables.most = 256;
	c.ends = 200 * WTIME_MS;
	mad_storm_run(&c, &quiet);
	c.flood_ns = WTIME_US;
	c.flood_serve_ns = WTIME_MS;
	mad_storm_run(&c, &flooded);
	c.tunables.fixed = 16;
	mad_storm_run(&c, &fixed);
	printf("| flood | median, us | 99 of 100, us | queries | lost of the flood |\n|---|---|---|---|---|\n");
	printf("| none | %.1f | %.1f | %lu | |\n", (double)quiet.median / 1000, (double)quiet.most_of_all / 1000,
	       (unsigned long)quiet.queries);
	printf("| adaptive | %.1f | %.1f | %lu | %lu |\n", (double)flooded.median / 1000, (double)flooded.most_of_all / 1000,
	       (unsigned long)flooded.queries, (unsigned long)flooded.flood_lost);
	printf("| 16, fixed | %.1f | %.1f | %lu | %lu |\n", (double)fixed.median / 1000, (double)fixed.most_of_all / 1000,
	       (unsigned long)fixed.queries, (unsigned long)fixed.flood_lost);
	assert_int_equal(flooded.queries, 32);
	assert_true(flooded.flood_lost > 100000);
	assert_true(5 * flooded.median <= 6 * quiet.median && 5 * flooded.most_of_all <= 6 * quiet.most_of_all);
	assert_true(fixed.queries > 32 && fixed.most_of_all > 10 * quiet.most_of_all);
}

/* GSA-40: a driver that is kept from looking for 50 ms at a time while a datagram comes each microsecond. What it misses is lost,
 * and nothing stands still: nodes have their answers as soon as the flood ends. */
static void a_starved_driver_recovers(void **state)
{
	static struct mad_storm_result r;
	struct mad_storm_config c = mode(2);

	(void)state;
	c.tunables.most = 2048;
	c.jitter_ns = 20 * WTIME_MS;
	c.wake_ns = 50 * WTIME_MS;
	c.flood_ns = WTIME_US;
	c.flood_serve_ns = 10 * WTIME_US;
	c.ends = 400 * WTIME_MS;
	mad_storm_run(&c, &r);
	assert_true(r.drops > 0 && r.flood_lost > 200000);
	assert_true(r.answered[nodes - 1] == r.last && r.last < c.ends + 3 * c.retry_ns);
	assert_true(r.most_posted <= c.tunables.most);
}

static void the_same_seed_is_the_same_storm(void **state)
{
	static struct mad_storm_result a, b;
	struct mad_storm_config c = mode(1);

	(void)state;
	mad_storm_run(&c, &a);
	mad_storm_run(&c, &b);
	assert_memory_equal(&a, &b, sizeof(a));
	c.seed++;
	mad_storm_run(&c, &b);
	assert_true(memcmp(&a, &b, sizeof(a)) != 0);
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(all_nodes_ask_at_once),
		cmocka_unit_test(a_flood_costs_nodes_nothing),
		cmocka_unit_test(a_starved_driver_recovers),
		cmocka_unit_test(the_same_seed_is_the_same_storm),
	};

	if (argc > 1)
		nodes = (uint32_t)strtoul(argv[1], NULL, 0);
	if (argc > 2)
		seed = strtoull(argv[2], NULL, 0);
	if (argc > 3)
		picture = argv[3];
	if (!nodes || nodes > STORM_NODES_MOST)
		return 2;
	return cmocka_run_group_tests(tests, NULL, NULL);
}
