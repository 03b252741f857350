/* Everything, every figure of every round included, for other programs. */
#include "bench/report.h"

#include <errno.h>
#include <jansson.h>
#include <math.h>

static json_t *number(double value)
{
	return isfinite(value) ? json_real(value) : json_null();
}

static json_t *spread(const struct spread *s)
{
	return json_pack("{s:o, s:o, s:o, s:i}", "median", number(s->median), "lower_quartile", number(s->low), "upper_quartile",
			 number(s->high), "count", s->count);
}

static json_t *machine(const struct machine *m)
{
	json_t *facts = json_object();

	for (int i = 0; i < m->facts; i++)
		json_object_set_new(facts, m->fact[i].name, json_string(m->fact[i].text));
	json_object_set_new(facts, "busy", json_boolean(m->is_busy));
	return facts;
}

static json_t *entry(const struct entry *e)
{
	static const char *const sides[] = { "weft", "peer", "limit" };
	struct spread s = series_spread(&e->series);
	json_t *figures = json_array();

	for (int i = 0; i < e->series.rounds; i++)
		json_array_append_new(figures, number(e->series.figure[i]));
	return json_pack("{s:s, s:s, s:s, s:s, s:I, s:s?, s:s, s:b, s:o, s:o, s:s}", "contest", e->contest->name,
			 "name", e->who->name, "side", sides[e->who->side], "what", e->who->what, "size", (json_int_t)e->size,
			 "counted", e->contest->counted,
			 "unit", e->contest->unit, "lower_is_better", e->contest->is_lower_better, "spread", spread(&s),
			 "rounds", figures, "failure", e->why);
}

static json_t *judgement(const struct judgement *j)
{
	const char *verdict = !j->ratio.count ? "unknown" : j->is_met ? "met" : "missed";

	return json_pack("{s:s, s:I, s:s, s:s?, s:f, s:o, s:s}", "contest", j->goal->contest, "size", (json_int_t)j->goal->size,
			 "weft", j->ours->who->name, "against", j->goal->against, "bound", j->goal->bound,
			 "ratio", spread(&j->ratio), "verdict", verdict);
}

int report_json(const struct results *r, FILE *to)
{
	json_t *entries = json_array(), *judgements = json_array(), *all;
	struct judgement j;
	int err;

	for (size_t i = 0; i < r->count; i++)
		json_array_append_new(entries, entry(&r->entries[i]));
	for (size_t i = 0; results_judge(r, i, &j); i++)
		json_array_append_new(judgements, judgement(&j));
	all = json_pack("{s:o, s:i, s:f, s:o, s:o, s:i}", "machine", machine(&r->machine), "rounds", r->rounds,
			"trial_seconds", r->trial_s, "results", entries, "goals", judgements, "schema", 1);
	err = all ? json_dumpf(all, to, JSON_INDENT(2)) : -1;
	json_decref(all);
	fputc('\n', to);
	return err || ferror(to) ? -EIO : 0;
}
