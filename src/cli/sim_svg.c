/* Answers over time, on a logarithmic axis. */
#include "cli/sim_svg.h"

#include "cli/cli.h"

#include "sim/mad_storm.h"

#include <errno.h>
#include <math.h>
#include <string.h>

enum { WIDTH = 720, HEIGHT = 360, LEFT = 60, BOTTOM = 50, TOP = 20, RIGHT = 20, DECADES = 6 };

/* 10 us to 10 s. */
static double x_of(wtime at)
{
	double decades = log10((double)at / (10 * WTIME_US));

	return LEFT + (decades > 0 ? decades : 0) * (WIDTH - LEFT - RIGHT) / DECADES;
}

static void draw_axes(FILE *f, uint32_t nodes, uint64_t seed)
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

static void draw_mode(FILE *f, unsigned mode, uint32_t nodes, const struct mad_storm_result *r)
{
	static const char *const colours[STORM_MODES] = { "#d62728", "#ff7f0e", "#1f77b4", "#2ca02c" };

	fprintf(f, "<polyline fill=\"none\" stroke=\"%s\" stroke-width=\"2\"%s points=\"", colours[mode],
		mode == 3 ? " stroke-dasharray=\"6 4\"" : "");
	for (uint32_t k = 0; k < nodes; k += k + 8 < nodes || k + 1 == nodes ? 8 : nodes - 1 - k)
		fprintf(f, k % 64 ? "%.1f,%.1f " : "\n%.1f,%.1f ", x_of(r->answered[k]),
			HEIGHT - BOTTOM - (double)(k + 1) / nodes * (HEIGHT - BOTTOM - TOP));
	fprintf(f, "\"/>\n<text x=\"%d\" y=\"%d\" fill=\"%s\">%s</text>\n", LEFT + 10, TOP + 16 + 16 * (int)mode, colours[mode],
		mad_storm_modes[mode]);
}

int sim_svg_storm(const char *path, uint32_t nodes, uint64_t seed)
{
	static struct mad_storm_result r;
	FILE *f = fopen(path, "w");

	if (!f)
		return cli_fail(NULL, "%s: %s", path, strerror(errno));
	draw_axes(f, nodes, seed);
	for (unsigned mode = 0; mode < STORM_MODES; mode++) {
		struct mad_storm_config c;

		mad_storm_configure(&c, mode, nodes, seed);
		mad_storm_run(&c, &r);
		draw_mode(f, mode, nodes, &r);
	}
	fprintf(f, "</svg>\n");
	return fclose(f) ? cli_fail(NULL, "%s: %s", path, strerror(errno)) : EXIT_OK;
}
