/* A report to read: the machine, the goals, and for each contest a table with a row for each contestant, in the order of
 * contest.c, so that two reports can be laid side by side. */
#include "bench/report.h"

#include <errno.h>
#include <math.h>
#include <string.h>

static void print_number(FILE *to, double value)
{
	fprintf(to, "%.*f", series_digits(value), value);
}

static void print_spread(FILE *to, const struct spread *s)
{
	print_number(to, s->median);
	if (s->count < 2)
		return;
	fputs(" (", to);
	print_number(to, s->low);
	fputs("-", to);
	print_number(to, s->high);
	fputs(")", to);
}

static void print_machine(const struct results *r, FILE *to)
{
	if (r->machine.is_busy)
		fputs("**The machine had other work during this run: averages are worth nothing, medians little.**\n\n", to);
	fputs("### Machine\n\n", to);
	for (int i = 0; i < r->machine.facts; i++)
		fprintf(to, "- %s: %s\n", r->machine.fact[i].name, r->machine.fact[i].text);
	fprintf(to, "- rounds: %d, with one trial of every contestant in each, of about %.2g s\n", r->rounds, r->trial_s);
}

static void print_median(FILE *to, const struct entry *e)
{
	struct spread s = { 0 };

	if (e)
		s = series_spread(&e->series);
	if (s.count)
		print_number(to, s.median);
	else
		fputs("not measured", to);
}

static void print_goal(const struct judgement *j, FILE *to)
{
	char text[GOAL_TEXT];

	fprintf(to, "| %s | ", goal_text(j->goal, text));
	if (j->goal->against) {
		fprintf(to, "%s: ", j->goal->against);
		print_median(to, j->other);
	}
	fprintf(to, " | %s |", goal_bound_text(j->goal, text));
}

static void print_judgement(const struct judgement *j, FILE *to)
{
	fprintf(to, " %s: ", j->ours->who->name);
	print_median(to, j->ours);
	if (j->ratio.count) {
		if (j->goal->against) {
			fputs(", ratio ", to);
			print_spread(to, &j->ratio);
		}
		fputs(j->is_met ? ", met" : ", **missed**", to);
	}
	fputs(" |", to);
}

/* A row for each goal, with a cell for each of weft's contestants. */
static void print_goals(const struct results *r, FILE *to)
{
	const struct goal *before = NULL;
	int known = 0, met = 0;
	struct judgement j;

	for (size_t i = 0; results_judge(r, i, &j); i++) {
		known += j.ratio.count > 0;
		met += j.is_met;
	}
	if (!results_judge(r, 0, &j))
		return;
	fprintf(to, "\n### Goals\n\n"
		"%d of %d are met. A ratio is weft's figure divided by the other's, round by round: the median, and\n"
		"the quartiles in brackets. Where nobody is named the bound is of weft's figure.\n\n"
		"| figure | against | goal | weft, perftest | weft, own loop |\n|---|---|---|---|---|\n", met, known);
	for (size_t i = 0; results_judge(r, i, &j); i++) {
		if (j.goal != before) {
			fputs(before ? "\n" : "", to);
			print_goal(&j, to);
		}
		print_judgement(&j, to);
		before = j.goal;
	}
	fputs("\n", to);
}

static void print_row(const struct results *r, const struct contest *c, const struct contestant *who, const size_t *sizes,
		      size_t count, FILE *to)
{
	const struct entry *any = NULL;

	for (size_t k = 0; k < count && !any; k++)
		any = results_find(r, c->name, who->name, sizes[k]);
	if (!any || any->is_missing)
		return;
	fprintf(to, "| %s%s | %s |", who->name, who->side == SIDE_LIMIT ? " (limit)" : "", who->what);
	for (size_t k = 0; k < count; k++) {
		const struct entry *e = results_find(r, c->name, who->name, sizes[k]);
		struct spread s = { 0 };

		fputs(" ", to);
		if (e)
			s = series_spread(&e->series);
		if (s.count)
			print_spread(to, &s);
		else
			fputs(e ? "failed" : "-", to);
		fputs(" |", to);
	}
	fputs("\n", to);
}

static void print_contest(const struct results *r, const struct contest *c, FILE *to)
{
	size_t sizes[CONTEST_SIZES], count = results_sizes(r, c, sizes);
	char size[SIZE_TEXT];

	if (count == 0)
		return;
	fprintf(to, "\n### %s (%s, %s is better)\n\n| | |", c->title, c->unit, c->is_lower_better ? "less" : "more");
	for (size_t k = 0; k < count; k++)
		fprintf(to, " %s |", contest_size_text(c, sizes[k], size));
	fputs("\n|---|---|", to);
	for (size_t k = 0; k < count; k++)
		fputs("--:|", to);
	fputs("\n", to);
	for (size_t i = 0; i < contestant_count; i++)
		if (strcmp(contestants[i].contest, c->name) == 0)
			print_row(r, c, &contestants[i], sizes, count, to);
}

static void print_failures(const struct results *r, FILE *to)
{
	const struct entry *e = results_next_failure(r, NULL);

	if (e)
		fputs("\n### Not measured\n\n", to);
	for (; e; e = results_next_failure(r, e))
		fprintf(to, "- %s/%s: %s\n", e->contest->name, e->who->name, e->why);
}

int report_markdown(const struct results *r, const char *picture, bool with_goals, FILE *to)
{
	print_machine(r, to);
	if (with_goals)
		print_goals(r, to);
	if (picture)
		fprintf(to, "\n![Cost over message size, queue pairs and processes](%s)\n", picture);
	for (size_t i = 0; i < contest_count; i++)
		print_contest(r, &contests[i], to);
	print_failures(r, to);
	return ferror(to) ? -EIO : 0;
}
