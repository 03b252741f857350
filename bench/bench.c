#include "bench/bench.h"

#include "bench/report.h"

#include <errno.h>
#include <math.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

/* Our choice: medians of seven rounds come back within some percent; a fifth of a second has 100,000 round trips of 2 us. A
 * contest whose figures are not steady by then has more rounds, up to three times as many, none of which begins after so long. */
enum { ROUNDS = 7, MOST_ROUNDS = 21, QUICK_ROUNDS = 3, LONG_S = 15 * 60 };
#define TRIAL_S 0.2
#define QUICK_TRIAL_S 0.02

struct selection {
	size_t sizes[CONTEST_SIZES];	/* 0 ends; none: each contest's own */
	int rounds, most_rounds;
	struct trial trial;
};

static enum bench_outcome refuse(const char *what, const char *text, const char *next)
{
	fprintf(stderr, "weft: %s '%s'\n  next: %s\n", what, text, next);
	return BENCH_USAGE;
}

/* The next of a comma-separated list. */
static const char *next_item(const char **list, size_t *length)
{
	const char *item = *list;

	*length = strcspn(item, ",");
	*list = item + *length + (item[*length] == ',');
	return *length ? item : NULL;
}

/* Is this contest's contestant among the names: its contest, its name, or both with a slash? Empty names are nobody's. */
static bool is_named(const char *names, const char *contest, const char *name)
{
	char both[96];

	snprintf(both, sizeof(both), "%s/%s", contest, name);
	while (*names) {
		size_t length;
		const char *item = next_item(&names, &length);
		const char *const candidates[] = { contest, name, both };

		for (int i = 0; item && i < 3; i++)
			if (strlen(candidates[i]) == length && strncmp(candidates[i], item, length) == 0)
				return true;
	}
	return false;
}

static bool is_selected(const struct bench_options *o, const struct contestant *c)
{
	return contest_find(c->contest)->is_wire == o->is_wire && (!o->only || is_named(o->only, c->contest, c->name));
}

static enum bench_outcome check_names(const char *names, bool is_wire)
{
	while (*names) {
		char name[96];
		size_t length, known = 0;
		const char *item = next_item(&names, &length);

		snprintf(name, sizeof(name), "%.*s", item ? (int)length : 0, item ? item : "");
		for (size_t i = 0; i < contestant_count; i++)
			known += contest_find(contestants[i].contest)->is_wire == is_wire &&
				 is_named(name, contestants[i].contest, contestants[i].name);
		if (!known)
			return refuse("--only has no contest or contestant", name, is_wire ?
				      "weft bench --wire --list names them" : "weft bench --list names them");
	}
	return BENCH_MEASURED;
}

/* A number and perhaps K, M or G. 0: it is none. */
static size_t read_size(const char *text, size_t length)
{
	unsigned shift = 0;
	size_t value;
	char *end;

	if (length == 0 || *text < '0' || *text > '9')
		return 0;
	errno = 0;
	value = strtoull(text, &end, 10);
	if (end < text + length && (*end == 'K' || *end == 'M' || *end == 'G'))
		shift = *end == 'K' ? 10 : *end == 'M' ? 20 : 30, end++;
	return end == text + length && !errno && value <= ((size_t)1 << 31) >> shift ? value << shift : 0;
}

static enum bench_outcome read_sizes(const char *list, struct selection *s)
{
	size_t count = 0;

	for (const char *at = list; at && *at;) {
		size_t length;
		const char *item = next_item(&at, &length);
		size_t size = item ? read_size(item, length) : 0;

		if (size == 0 || count == CONTEST_SIZES - 1)
			return refuse("--size is not a list of up to 7 sizes:", list, "weft bench --size 8,4K,1M");
		s->sizes[count++] = size;
	}
	return BENCH_MEASURED;
}

static bool may_use(int cpu)
{
	cpu_set_t set;

	return cpu >= 0 && cpu < CPU_SETSIZE && sched_getaffinity(0, sizeof(set), &set) == 0 && CPU_ISSET((size_t)cpu, &set);
}

static enum bench_outcome read_cpus(const char *text, struct trial *t)
{
	char more;

	if (!text && machine_choose_cpus(t->cpu))
		return BENCH_MEASURED;
	if (!text)
		return refuse("the other end needs another CPU than the one in", "/proc/self/status",
			      "use a machine with two CPUs");
	if (sscanf(text, "%d,%d%c", &t->cpu[0], &t->cpu[1], &more) != 2 || t->cpu[0] == t->cpu[1] || !may_use(t->cpu[0]) ||
	    !may_use(t->cpu[1]))
		return refuse("--cpus does not name two CPUs that may be used:", text, "taskset -cp $$ tells which there are");
	return BENCH_MEASURED;
}

static enum bench_outcome read_rounds(const char *text, bool is_quick, struct selection *s)
{
	char *end;
	long value;

	s->rounds = is_quick ? QUICK_ROUNDS : ROUNDS;
	s->most_rounds = is_quick ? QUICK_ROUNDS : MOST_ROUNDS;
	if (!text)
		return BENCH_MEASURED;
	value = strtol(text, &end, 10);
	if (end == text || *end || value < 1 || value > SERIES_ROUNDS)
		return refuse("--reps is not a number from 1 to 101:", text, "weft bench --reps 7");
	s->rounds = s->most_rounds = (int)value;
	return BENCH_MEASURED;
}

static enum bench_outcome select_all(const struct bench_options *o, struct selection *s)
{
	enum bench_outcome outcome = check_names(o->only ? o->only : "", o->is_wire);

	*s = (struct selection){ .trial = { .weft = o->weft, .bench = o->bench, .wire = o->wire } };
	if (!outcome)
		outcome = read_sizes(o->sizes, s);
	if (!outcome)
		outcome = read_rounds(o->rounds, o->is_quick, s);
	if (!outcome)
		outcome = read_cpus(o->cpus, &s->trial);
	return outcome;
}

/* One file may have both reports. */
struct marks {
	const char *begin, *end;
};
static const struct marks usual_marks = { "<!-- weft bench: begin -->\n", "<!-- weft bench: end -->\n" };
static const struct marks wire_marks = { "<!-- weft bench, wire: begin -->\n", "<!-- weft bench, wire: end -->\n" };

/* The file's text; NULL: it is not there, empty, or no regular file. */
static char *read_file(const char *path)
{
	FILE *file = fopen(path, "re");
	char *text = NULL;
	struct stat st;
	size_t room = 0;

	if (file && fstat(fileno(file), &st) == 0 && S_ISREG(st.st_mode) && getdelim(&text, &room, '\0', file) < 0) {
		free(text);
		text = NULL;
	}
	if (file)
		fclose(file);
	return text;
}

static bool begins_so(const char *text, const char *begin)
{
	return strncmp(text, begin, strlen(begin)) == 0;
}

/* Is there nothing at the path that a report would overwrite, but an earlier report? */
static bool is_replaceable(const char *path, bool (*is_report)(const char *text))
{
	char *text = path && strcmp(path, "-") ? read_file(path) : NULL;
	bool is_so = !text || is_report(text);

	free(text);
	return is_so;
}

static bool has_these(const char *text, const struct marks *m)
{
	const char *begin = strstr(text, m->begin);

	return begin && strstr(begin, m->end);
}

static bool has_marks(const char *text)
{
	return has_these(text, &usual_marks);
}

static bool has_wire_marks(const char *text)
{
	return has_these(text, &wire_marks);
}

static bool is_json_report(const char *text)
{
	return begins_so(text, REPORT_JSON_BEGIN);
}

static bool is_svg_report(const char *text)
{
	return begins_so(text, REPORT_SVG_BEGIN);
}

enum bench_outcome bench_check(const struct bench_options *o)
{
	struct selection s;
	enum bench_outcome outcome = select_all(o, &s);

	if (outcome)
		return outcome;
	if (!is_replaceable(o->markdown, o->is_wire ? has_wire_marks : has_marks))
		return refuse("there is something else in", o->markdown, o->is_wire ?
			"name another file, or mark the place with <!-- weft bench, wire: begin --> and its end" :
			"name another file, or mark the place with <!-- weft bench: begin --> and <!-- weft bench: end -->");
	if (!is_replaceable(o->json, is_json_report))
		return refuse("there is something else in", o->json, "name another file");
	if (!is_replaceable(o->svg, is_svg_report))
		return refuse("there is something else in", o->svg, "name another file");
	return BENCH_MEASURED;
}

/* Why it cannot take part. False when it can. */
static bool is_missing(const struct trial *t, const struct contestant *c, char why[TRIAL_WHY])
{
	static char help[TRIAL_OUTPUT];

	if (!trial_has_program(t, c->program)) {
		const char *slash = strrchr(c->program, '/');

		snprintf(why, TRIAL_WHY, "%s is not installed: install %s", slash ? slash + 1 : c->program, c->package);
		return true;
	}
	if (c->weft_option && (!trial_capture(t, "{weft} run --help", help, sizeof(help)) || !strstr(help, c->weft_option))) {
		snprintf(why, TRIAL_WHY, "this weft run has no %s", c->weft_option);
		return true;
	}
	return false;
}

enum bench_outcome bench_list(const struct bench_options *o)
{
	struct trial t = { .weft = o->weft, .bench = o->bench };
	char why[TRIAL_WHY], text[SIZE_TEXT];

	trial_begin();
	for (size_t i = 0; i < contest_count; i++) {
		if (contests[i].is_wire != o->is_wire)
			continue;
		printf("%s: %s", contests[i].name, contests[i].title);
		for (size_t k = 0; contests[i].sizes[k] > 1 || (contests[i].counted && contests[i].sizes[k]); k++)
			printf("%s %s", k ? "," : " of", contest_size_text(&contests[i], contests[i].sizes[k], text));
		puts("");
		for (size_t k = 0; k < contestant_count; k++) {
			const struct contestant *c = &contestants[k];

			if (strcmp(c->contest, contests[i].name))
				continue;
			printf("  %-22s %s", c->name, c->what);
			if (is_missing(&t, c, why))
				printf(" [%s]", why);
			puts("");
		}
	}
	trial_end();
	return BENCH_MEASURED;
}

static bool add_entries(struct results *r, const struct selection *s, const struct contestant *c)
{
	const struct contest *contest = contest_find(c->contest);
	const size_t *sizes = contest->has_size && s->sizes[0] ? s->sizes : contest->sizes;
	struct entry entry = { .contest = contest, .who = c, .series.rounds = s->most_rounds };
	struct entry *more;

	entry.is_missing = is_missing(&s->trial, c, entry.why);
	for (int i = 0; i < s->most_rounds; i++)
		entry.series.figure[i] = NAN;
	for (; *sizes; sizes++) {
		if (c->only_size && c->only_size != *sizes)
			continue;
		more = realloc(r->entries, (r->count + 1) * sizeof(*more));
		if (!more)
			return false;
		r->entries = more;
		entry.size = *sizes;
		r->entries[r->count++] = entry;
	}
	return true;
}

static bool make_entries(const struct bench_options *o, const struct selection *s, struct results *r)
{
	for (size_t i = 0; i < contestant_count; i++) {
		const struct contestant *c = &contestants[i];

		if (is_selected(o, c) && !add_entries(r, s, c))
			return false;
	}
	return true;
}

struct progress {
	int done, all;
	time_t begun;
};

/* Writes over itself, and only where somebody looks at it. */
static void show_progress(const struct results *r, const struct entry *e, int round, const struct progress *p)
{
	char size[SIZE_TEXT];
	long left = p->done ? (long)(time(NULL) - p->begun) * (p->all - p->done) / p->done : 0;

	if (!isatty(2))
		return;
	fprintf(stderr, "\r\033[K%d of %d, round %d of %d: %s/%s, %s", p->done + 1, p->all, round + 1, r->rounds,
		e->contest->name, e->who->name, contest_size_text(e->contest, e->size, size));
	if (p->done)
		fprintf(stderr, ", %ld:%02ld left", left / 60, left % 60);
}

static void clear_progress(void)
{
	if (isatty(2))
		fputs("\r\033[K", stderr);
}

static void measure(const struct selection *s, struct results *r, struct entry *e, int round)
{
	unsigned rounds = contest_rounds(e->contest, e->size, r->trial_s);
	char why[TRIAL_WHY];

	if (!trial_run(&s->trial, e->who, e->size, rounds, &e->series.figure[round], why))
		memcpy(e->why, why, sizeof(why));
}

/* Takes every contestant of the contest in turn; NULL: of all. */
static void measure_round(const struct selection *s, struct results *r, const struct contest *c, int round, struct progress *p)
{
	for (size_t i = 0; i < r->count && !trial_interrupted(); i++) {
		struct entry *e = &r->entries[i];

		if (e->is_missing || (c && e->contest != c))
			continue;
		show_progress(r, e, round, p);
		measure(s, r, e, round);
		p->done++;
	}
}

static int count_entries(const struct results *r, const struct contest *c)
{
	int count = 0;

	for (size_t i = 0; i < r->count; i++)
		count += !r->entries[i].is_missing && (!c || r->entries[i].contest == c);
	return count;
}

/* The rounds that were asked for, and then more of contests that are not steady. */
static void measure_all(const struct selection *s, struct results *r)
{
	struct progress p = { .all = r->rounds * count_entries(r, NULL), .begun = time(NULL) };
	bool any = true;

	for (int round = 0; round < r->rounds; round++)
		measure_round(s, r, NULL, round, &p);
	while (any && r->rounds < s->most_rounds && time(NULL) - p.begun < LONG_S && !trial_interrupted()) {
		any = false;
		r->rounds++;
		for (size_t i = 0; i < contest_count; i++) {
			if (results_are_steady(r, &contests[i]))
				continue;
			any = true;
			p.all += count_entries(r, &contests[i]);
			measure_round(s, r, &contests[i], r->rounds - 1, &p);
		}
		r->rounds -= !any;
	}
	for (size_t i = 0; i < r->count; i++)
		r->entries[i].series.rounds = r->rounds;
	clear_progress();
}

/* What people wrote around the two marks of the file stays; a new file has nothing else. bench_check has looked at it. */
static int write_markdown(const struct results *r, const struct bench_options *o, const char *picture)
{
	const struct marks *m = o->is_wire ? &wire_marks : &usual_marks;
	const char *path = o->markdown;
	bool is_file = strcmp(path, "-") != 0;
	char *old = is_file ? read_file(path) : NULL;
	char *begin = old ? strstr(old, m->begin) : NULL, *end = begin ? strstr(begin, m->end) : NULL;
	FILE *file = is_file ? fopen(path, "we") : stdout;
	int err = file ? 0 : -errno;

	if (file && is_file)
		fprintf(file, "%.*s%s", end ? (int)(begin - old) : 0, old ? old : "", m->begin);
	if (file)
		err = report_markdown(r, picture, o->with_goals, file);
	if (file && is_file)
		fputs(end ? end : m->end, file);
	if (file && (file == stdout ? fflush(file) : fclose(file)))
		err = err ? err : -errno;
	free(old);
	return err;
}

static int write_file(const struct results *r, int (*report)(const struct results *r, FILE *to), const char *path)
{
	FILE *file = strcmp(path, "-") ? fopen(path, "we") : stdout;
	int err = file ? report(r, file) : -errno;

	if (file && (file == stdout ? fflush(file) : fclose(file)))
		err = err ? err : -errno;
	return err;
}

/* How the Markdown file names the plot: without the folder, when that is the same. */
static const char *picture_name(const struct bench_options *o)
{
	const char *slash = o->svg ? strrchr(o->svg, '/') : NULL;
	size_t folder = slash ? (size_t)(slash - o->svg) + 1 : 0;

	if (slash && o->markdown && strncmp(o->svg, o->markdown, folder) == 0 && !strchr(o->markdown + folder, '/'))
		return slash + 1;
	return o->svg;
}

static bool is_written(int err, const char *path)
{
	if (err)
		fprintf(stderr, "weft: %s cannot be written: %s\n", path, strerror(-err));
	return err == 0;
}

static int print_table(const struct results *r, bool with_goals)
{
	int err = report_text(r, with_goals, stdout);

	return fflush(stdout) ? -errno : err;
}

static bool write_all(const struct bench_options *o, const struct results *r)
{
	bool is_fine = true, has_plot = o->svg && report_has_plot(r);

	if (o->svg && !has_plot) {
		fprintf(stderr, "weft: %s is not written: no contest over sizes was measured\n"
			"  next: choose one that has sizes (weft bench --list), or leave out --svg\n", o->svg);
		is_fine = false;
	}
	if (!o->markdown && !o->json && !o->svg)
		is_fine &= is_written(print_table(r, o->with_goals), "the report");
	if (o->markdown)
		is_fine &= is_written(write_markdown(r, o, has_plot ? picture_name(o) : NULL), o->markdown);
	if (o->json)
		is_fine &= is_written(write_file(r, report_json, o->json), o->json);
	if (has_plot)
		is_fine &= is_written(write_file(r, report_svg, o->svg), o->svg);
	return is_fine;
}

/* Did weft do what was asked of it? Each failure is told. */
static bool weft_measured(const struct results *r)
{
	bool is_fine = true;
	char size[SIZE_TEXT];

	for (size_t i = 0; i < r->count; i++) {
		const struct entry *e = &r->entries[i];

		if (e->is_missing || series_spread(&e->series).count)
			continue;
		fprintf(stderr, "weft: %s/%s, %s: %s\n", e->contest->name, e->who->name,
			contest_size_text(e->contest, e->size, size), e->why);
		is_fine &= e->who->side != SIDE_WEFT;
	}
	return is_fine;
}

static enum bench_outcome conclude(const struct bench_options *o, const struct results *r)
{
	int sig = trial_interrupted();
	bool is_fine;

	if (sig) {
		fprintf(stderr, "weft: interrupted: nothing is written\n");
		return BENCH_INTERRUPTED;
	}
	is_fine = weft_measured(r);
	return write_all(o, r) && is_fine ? BENCH_MEASURED : BENCH_FAILED;
}

enum bench_outcome bench_run(const struct bench_options *o)
{
	struct results r = { .trial_s = o->is_quick ? QUICK_TRIAL_S : TRIAL_S };
	enum bench_outcome outcome;
	struct selection s;

	outcome = select_all(o, &s);
	if (outcome)
		return outcome;
	r.rounds = s.rounds;
	trial_begin();
	machine_describe(&r.machine, &s.trial);
	if (r.machine.is_busy)
		fprintf(stderr, "weft: the machine has other work: figures will be noisy\n");
	if (make_entries(o, &s, &r)) {
		measure_all(&s, &r);
		machine_conclude(&r.machine);
		outcome = conclude(o, &r);
	} else {
		fprintf(stderr, "weft: %s\n", strerror(ENOMEM));
		outcome = BENCH_FAILED;
	}
	trial_end();
	free(r.entries);
	return outcome;
}
