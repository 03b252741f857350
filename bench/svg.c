/* One panel below another for each contest with several sizes: medians over message size, or over what is counted, both axes
 * logarithmic, whiskers from quartile to quartile, a legend in the order of the lines at the largest size. */
#include "bench/report.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { WIDTH = 900, PANEL = 350, LEFT = 70, TOP = 50, PLOT_WIDTH = 520, PLOT_HEIGHT = 270, LEGEND = LEFT + PLOT_WIDTH + 24,
	LEGEND_ROW = 20, LINES = 16 };

/* weft's lines are warm and thick, limits grey and broken. The colours stand apart for most eyes (Okabe and Ito's). */
static const struct style {
	const char *name, *colour, *dashes;
	double width;
} styles[] = {
	{ "weft-perftest", "#d55e00", "", 3 },
	{ "weft-loop", "#d55e00", "7 4", 3 },
	{ "weft-perftest-mapped", "#e69f00", "", 3 },
	{ "weft-loop-mapped", "#e69f00", "7 4", 3 },
	{ "ucx-posix", "#0072b2", "", 2 },
	{ "ucx-cma", "#56b4e9", "", 2 },
	{ "libfabric", "#009e73", "", 2 },
	{ "openmpi", "#cc79a7", "", 2 },
	{ "memcpy", "#777777", "2 3", 1.5 },
	{ "mem-fd", "#777777", "5 3", 1.5 },
	{ "process-vm", "#777777", "9 3 2 3", 1.5 },
	{ "", "#777777", "1 4", 1.5 },
};

struct line {
	const struct contestant *who;
	const struct entry *entry[CONTEST_SIZES];
	int count;
};

struct panel {
	const struct contest *contest;
	struct line line[LINES];
	size_t sizes[CONTEST_SIZES];
	int lines, size_count, top;
	double x_low, x_high, y_low, y_high;
};

static const struct style *style_of(const char *name)
{
	const struct style *s = styles;

	while (*s->name && strcmp(s->name, name))
		s++;
	return s;
}

static double x_of(const struct panel *p, double size)
{
	return LEFT + PLOT_WIDTH * (log(size) - log(p->x_low)) / (log(p->x_high) - log(p->x_low));
}

static double y_of(const struct panel *p, double value)
{
	return p->top + PLOT_HEIGHT * (1 - (log(value) - log(p->y_low)) / (log(p->y_high) - log(p->y_low)));
}

static void add_size(struct panel *p, size_t size)
{
	for (int i = 0; i < p->size_count; i++)
		if (p->sizes[i] == size)
			return;
	if (p->size_count < CONTEST_SIZES)
		p->sizes[p->size_count++] = size;
}

static void add_entry(struct panel *p, const struct entry *e, const struct spread *s)
{
	struct line *l = p->lines ? &p->line[p->lines - 1] : NULL;

	if (!l || l->who != e->who) {
		if (p->lines == LINES)
			return;
		l = &p->line[p->lines++];
		*l = (struct line){ .who = e->who };
	}
	if (l->count == CONTEST_SIZES)
		return;
	l->entry[l->count++] = e;
	add_size(p, e->size);
	p->x_low = fmin(p->x_low, (double)e->size);
	p->x_high = fmax(p->x_high, (double)e->size);
	p->y_low = fmin(p->y_low, s->low);
	p->y_high = fmax(p->y_high, s->high);
}

/* By the figure at the largest size, greatest first. */
static int compare_lines(const void *a, const void *b)
{
	const struct line *x = a, *y = b;
	const struct entry *last_x = x->entry[x->count - 1], *last_y = y->entry[y->count - 1];
	double of_x = series_spread(&last_x->series).median, of_y = series_spread(&last_y->series).median;

	if (last_x->size != last_y->size)
		return last_x->size < last_y->size ? 1 : -1;
	return (of_x < of_y) - (of_x > of_y);
}

/* 1, 2 or 5 times a power of ten, the greatest up to this value. */
static double tick_below(double value)
{
	double power = pow(10, floor(log10(value) + 1e-9)), digit = value / power + 1e-9;

	return power * (digit >= 5 ? 5 : digit >= 2 ? 2 : 1);
}

static double tick_after(double tick)
{
	double power = pow(10, floor(log10(tick) + 1e-9));

	return tick / power > 4 ? 10 * power : tick / power > 1.5 ? 5 * power : 2 * power;
}

static bool collect(const struct results *r, const struct contest *c, struct panel *p)
{
	*p = (struct panel){ .contest = c, .x_low = INFINITY, .y_low = INFINITY };
	for (size_t k = 0; k < contestant_count; k++) {
		for (size_t i = 0; i < r->count; i++) {
			struct spread s = series_spread(&r->entries[i].series);

			if (r->entries[i].contest == c && r->entries[i].who == &contestants[k] && s.count)
				add_entry(p, &r->entries[i], &s);
		}
	}
	if (!p->lines || p->x_low == p->x_high)
		return false;
	qsort(p->line, (size_t)p->lines, sizeof(p->line[0]), compare_lines);
	p->y_low = tick_below(p->y_low);
	p->y_high = tick_after(tick_below(p->y_high));
	return true;
}

static void draw_text(FILE *to, double x, double y, const char *anchor, const char *text)
{
	fprintf(to, "<text x='%.1f' y='%.1f' text-anchor='%s'>%s</text>\n", x, y, anchor, text);
}

static void draw_axes(const struct panel *p, FILE *to)
{
	double tick = p->y_low;
	char text[64];

	fprintf(to, "<text x='%d' y='%d' class='title'>%s (%s, %s is better)</text>\n", LEFT, p->top - 14, p->contest->title,
		p->contest->unit, p->contest->is_lower_better ? "less" : "more");
	while (tick <= p->y_high * 1.0001) {
		double y = y_of(p, tick);

		fprintf(to, "<line x1='%d' y1='%.1f' x2='%d' y2='%.1f' class='grid'/>\n", LEFT, y, LEFT + PLOT_WIDTH, y);
		snprintf(text, sizeof(text), "%g", tick);
		draw_text(to, LEFT - 8, y + 4, "end", text);
		tick = tick_after(tick);
	}
	for (int i = 0; i < p->size_count; i++) {
		double x = x_of(p, (double)p->sizes[i]);

		fprintf(to, "<line x1='%.1f' y1='%d' x2='%.1f' y2='%d' class='grid'/>\n", x, p->top, x, p->top + PLOT_HEIGHT);
		draw_text(to, x, p->top + PLOT_HEIGHT + 18, "middle", contest_size_text(p->contest, p->sizes[i], text));
	}
	fprintf(to, "<rect x='%d' y='%d' width='%d' height='%d' class='frame'/>\n", LEFT, p->top, PLOT_WIDTH, PLOT_HEIGHT);
}

static void draw_line(const struct panel *p, const struct line *l, int row, FILE *to)
{
	const struct style *style = style_of(l->who->name);
	int y = p->top + 12 + row * LEGEND_ROW;

	fprintf(to, "<g stroke='%s' fill='none' stroke-width='%g'><title>%s</title>\n<polyline stroke-dasharray='%s' points='",
		style->colour, style->width, l->who->what, style->dashes);
	for (int i = 0; i < l->count; i++)
		fprintf(to, "%.1f,%.1f ", x_of(p, (double)l->entry[i]->size),
			y_of(p, series_spread(&l->entry[i]->series).median));
	fputs("'/>\n", to);
	for (int i = 0; i < l->count; i++) {
		struct spread s = series_spread(&l->entry[i]->series);
		double x = x_of(p, (double)l->entry[i]->size);

		fprintf(to, "<path d='M%.1f %.1fV%.1f' stroke-width='1.2'/>\n", x, y_of(p, s.low), y_of(p, s.high));
		fprintf(to, "<circle cx='%.1f' cy='%.1f' r='2.6' fill='%s' stroke='none'/>\n", x, y_of(p, s.median),
			style->colour);
	}
	fprintf(to, "<path d='M%d %dh34' stroke-dasharray='%s'/></g>\n", LEGEND, y - 4, style->dashes);
	draw_text(to, LEGEND + 42, y, "start", l->who->what);
}

/* Are its sizes more than names of what is measured? */
static bool has_axis(const struct contest *c)
{
	return c->has_size || c->counted;
}

bool report_has_plot(const struct results *r)
{
	static struct panel panel;

	for (size_t i = 0; i < contest_count; i++) {
		if (has_axis(&contests[i]) && collect(r, &contests[i], &panel))
			return true;
	}
	return false;
}

int report_svg(const struct results *r, FILE *to)
{
	static struct panel panels[8];
	int count = 0;

	for (size_t i = 0; i < contest_count && count < 8; i++) {
		panels[count].top = 0;
		if (has_axis(&contests[i]) && collect(r, &contests[i], &panels[count]))
			count++;
	}
	fprintf(to, REPORT_SVG_BEGIN "%d %d' width='%d' height='%d'>\n", WIDTH,
		count * PANEL + 10, WIDTH, count * PANEL + 10);
	fputs("<style>text { font: 13px sans-serif; fill: #222 } .title { font-weight: bold; font-size: 15px }\n"
	      ".grid { stroke: #ddd } .frame { fill: none; stroke: #888 }</style>\n"
	      "<rect width='100%' height='100%' fill='#fff'/>\n", to);
	for (int i = 0; i < count; i++) {
		panels[i].top = i * PANEL + TOP;
		draw_axes(&panels[i], to);
		for (int k = 0; k < panels[i].lines; k++)
			draw_line(&panels[i], &panels[i].line[k], k, to);
	}
	fputs("</svg>\n", to);
	return ferror(to) ? -EIO : 0;
}
