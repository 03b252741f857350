#include "bench/results.h"

#include <string.h>

/* Our choice. */
#define STEADY_SPREAD 0.05

const struct entry *results_find(const struct results *r, const char *contest, const char *name, size_t size)
{
	for (size_t i = 0; i < r->count; i++) {
		const struct entry *e = &r->entries[i];

		if (strcmp(e->contest->name, contest) == 0 && strcmp(e->who->name, name) == 0 && e->size == size)
			return e;
	}
	return NULL;
}

static void judge(const struct results *r, const struct goal *g, const struct entry *ours, struct judgement *j)
{
	*j = (struct judgement){ .goal = g, .ours = ours };
	if (g->against)
		j->other = results_find(r, g->contest, g->against, g->size);
	else
		j->ratio = series_spread(&ours->series);
	if (j->other)
		j->ratio = series_ratio(&ours->series, &j->other->series);
	if (j->ratio.count)
		j->is_met = ours->contest->is_lower_better ? j->ratio.median <= g->bound : j->ratio.median >= g->bound;
}

size_t results_sizes(const struct results *r, const struct contest *c, size_t sizes[CONTEST_SIZES])
{
	size_t count = 0;

	for (size_t i = 0; i < r->count; i++) {
		bool is_new = r->entries[i].contest == c;

		for (size_t k = 0; k < count; k++)
			is_new &= sizes[k] != r->entries[i].size;
		if (is_new && count < CONTEST_SIZES)
			sizes[count++] = r->entries[i].size;
	}
	return count;
}

const struct entry *results_next_failure(const struct results *r, const struct entry *before)
{
	for (const struct entry *e = before ? before + 1 : r->entries; e < r->entries + r->count; e++)
		if (*e->why && !(before && before->who == e->who && strcmp(before->why, e->why) == 0))
			return e;
	return NULL;
}

bool results_are_steady(const struct results *r, const struct contest *c)
{
	for (size_t i = 0; i < r->count; i++) {
		struct spread s = series_spread(&r->entries[i].series);

		if (r->entries[i].contest == c && s.count && s.high - s.low > STEADY_SPREAD * s.median)
			return false;
	}
	return true;
}

bool results_judge(const struct results *r, size_t index, struct judgement *j)
{
	for (size_t g = 0; g < goal_count; g++) {
		for (size_t i = 0; i < r->count; i++) {
			const struct entry *e = &r->entries[i];

			if (strcmp(e->contest->name, goals[g].contest) || e->size != goals[g].size || e->who->side != SIDE_WEFT ||
			    e->who->is_mapped != goals[g].is_mapped)
				continue;
			if (index-- == 0)
				return judge(r, &goals[g], e, j), true;
		}
	}
	return false;
}
