/* The report for a terminal: whether the figures can be trusted, then medians in columns, then the goals if somebody asks. */
#include "bench/report.h"

#include <errno.h>
#include <string.h>

enum { NAME_COLUMNS = 36, FIGURE_COLUMNS = 9 };

/* Our choice: quartiles of a quiet machine are nearer. */
#define WIDE_SPREAD 0.1

static bool is_wide(const struct spread *s)
{
	return s->count > 1 && s->high - s->low > WIDE_SPREAD * s->median;
}

/* What the machine itself can do should be the same each time. */
static void count_limits(const struct results *r, int *known, int *wide)
{
	*known = *wide = 0;
	for (size_t i = 0; i < r->count; i++) {
		struct spread s = series_spread(&r->entries[i].series);

		if (r->entries[i].who->side != SIDE_LIMIT || s.count < 2)
			continue;
		*known += 1;
		*wide += is_wide(&s);
	}
}

static const char *fact(const struct machine *m, const char *name)
{
	for (int i = 0; i < m->facts; i++)
		if (strcmp(m->fact[i].name, name) == 0)
			return m->fact[i].text;
	return "unknown";
}

static void print_machine(const struct results *r, FILE *to)
{
	int known, wide;

	fprintf(to, "%s\n%s, pinned to CPUs %s\nload: %s\nstolen: %s\n", fact(&r->machine, "processor"),
		fact(&r->machine, "kernel"), fact(&r->machine, "pinned to CPUs"), fact(&r->machine, "load"),
		fact(&r->machine, "stolen"));
	count_limits(r, &known, &wide);
	if (r->machine.is_busy)
		fputs("The machine had other work: do not compare these figures.\n", to);
	else if (wide * 3 > known)
		fprintf(to, "The machine was not steady: %d of %d of its limits differed by a tenth and more.\n", wide, known);
	else if (known)
		fputs("The machine was quiet and steady: the figures can be compared with each other.\n", to);
	else
		fputs("The machine was quiet. No limit was measured, so nothing tells whether it was steady.\n", to);
}

static void print_figure(const struct entry *e, FILE *to)
{
	struct spread s = { 0 };
	char text[32];

	if (e)
		s = series_spread(&e->series);
	if (s.count)
		snprintf(text, sizeof(text), "%.*f%s", series_digits(s.median), s.median, is_wide(&s) ? "~" : " ");
	else
		snprintf(text, sizeof(text), "%s ", e ? "failed" : "-");
	fprintf(to, "%*s", FIGURE_COLUMNS, text);
}

static void print_row(const struct results *r, const struct contestant *who, const size_t *sizes, size_t count, FILE *to)
{
	const struct entry *any = NULL;

	for (size_t k = 0; k < count && !any; k++)
		any = results_find(r, who->contest, who->name, sizes[k]);
	if (!any || any->is_missing)
		return;
	fprintf(to, "  %-*s", NAME_COLUMNS, who->what);
	for (size_t k = 0; k < count; k++)
		print_figure(results_find(r, who->contest, who->name, sizes[k]), to);
	fputs(who->side == SIDE_LIMIT ? " limit\n" : "\n", to);
}

static void print_contest(const struct results *r, const struct contest *c, FILE *to)
{
	size_t sizes[CONTEST_SIZES], count = results_sizes(r, c, sizes);
	char size[SIZE_TEXT];

	if (count == 0)
		return;
	fprintf(to, "\n%s (%s, %s is better)\n", c->title, c->unit, c->is_lower_better ? "less" : "more");
	fprintf(to, "  %-*s", NAME_COLUMNS, "");
	for (size_t k = 0; k < count; k++)
		fprintf(to, "%*s ", FIGURE_COLUMNS - 1, contest_size_text(c, sizes[k], size));
	fputs("\n", to);
	for (size_t i = 0; i < contestant_count; i++)
		if (strcmp(contestants[i].contest, c->name) == 0)
			print_row(r, &contestants[i], sizes, count, to);
}

static void print_goals(const struct results *r, FILE *to)
{
	struct judgement j;
	char name[GOAL_TEXT], bound[GOAL_TEXT];

	if (!results_judge(r, 0, &j))
		return;
	fputs("\nGoals: weft's figure divided by the other's, round by round, or the figure itself\n", to);
	for (size_t i = 0; results_judge(r, i, &j); i++) {
		fprintf(to, "  %-28s %-20s %s %-10s %-16s", goal_text(j.goal, name), j.ours->who->name,
			j.goal->against ? "/" : " ", j.goal->against ? j.goal->against : "", goal_bound_text(j.goal, bound));
		if (j.ratio.count)
			fprintf(to, "  %6.*f %s\n", series_digits(j.ratio.median), j.ratio.median, j.is_met ? "met" : "missed");
		else
			fputs("  not measured\n", to);
	}
}

static void print_failures(const struct results *r, FILE *to)
{
	const struct entry *e = results_next_failure(r, NULL);

	if (e)
		fputs("\nNot measured\n", to);
	for (; e; e = results_next_failure(r, e))
		fprintf(to, "  %s/%s: %s\n", e->contest->name, e->who->name, e->why);
}

int report_text(const struct results *r, bool with_goals, FILE *to)
{
	print_machine(r, to);
	for (size_t i = 0; i < contest_count; i++)
		print_contest(r, &contests[i], to);
	fprintf(to, "\nMedians of up to %d rounds; ~: the rounds differ by a tenth and more.\n", r->rounds);
	if (with_goals)
		print_goals(r, to);
	print_failures(r, to);
	return ferror(to) ? -EIO : 0;
}
