/* weft pair: a server and its clients, once or with one seed after another until one fails. */
#include "cli/apart.h"
#include "cli/faults.h"
#include "cli/output.h"
#include "cli/own_network.h"
#include "cli/program.h"
#include "cli/round.h"
#include "cli/run.h"
#include "cli/shell_words.h"
#include "impair/impair.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <unistd.h>

enum { TIMEOUT_S = 120, SEEDS_MOST = 1000000, DAY_S = 86400 };	/* our choices */

struct pair {
	struct cli_options options;	/* of weft run, with this round's seed */
	const struct cli_options *asked;
	struct round_plan plan;
	regex_t ready;
	bool has_ready;
	unsigned long long seed;	/* the first */
	unsigned seeds;			/* how many are tried; 0: no search */
	char impair[IMPAIR_TEXT], by_index[IMPAIR_TEXT];
	sigset_t mask;			/* before this command blocked its signals */
};

/* ---- the command line ---- */

static bool take_number(const char *option, const char *text, unsigned long long most, unsigned long long *value)
{
	unsigned long long n;
	char *end;

	if (!text)
		return true;
	errno = 0;
	n = strtoull(text, &end, 10);
	if (*text >= '0' && *text <= '9' && !*end && !errno && n <= most) {
		*value = n;
		return true;
	}
	cli_fail("weft pair --help", "--%s %s is not a number from 0 to %llu", option, text, most);
	return false;
}

static bool take_seconds(const char *option, const char *text, wtime *value)
{
	char *end;
	double seconds;

	if (!text)
		return true;
	seconds = strtod(text, &end);
	if (end != text && !*end && seconds >= 0 && seconds <= DAY_S) {
		*value = (wtime)(seconds * WTIME_S);
		return true;
	}
	cli_fail("0.5 is half a second", "--%s %s is not a number of seconds", option, text);
	return false;
}

static bool take_regex(struct pair *p, const char *text)
{
	char why[128];
	int err;

	if (!text)
		return true;
	err = regcomp(&p->ready, text, REG_EXTENDED | REG_NOSUB);
	p->has_ready = !err;
	if (p->has_ready) {
		p->plan.ready = &p->ready;
		return true;
	}
	regerror(err, &p->ready, why, sizeof(why));
	cli_fail("regex(7) has their rules", "--ready %s is no extended regular expression: %s", text, why);
	return false;
}

/* SERVER... --- CLIENT...: each becomes a vector of its own. */
static bool take_programs(struct pair *p, int argc, char **argv)
{
	int at = 0;

	while (at < argc && strcmp(argv[at], "---") != 0)
		at++;
	if (at == 0 || at + 1 >= argc) {
		cli_fail("weft pair -- SERVER [ARGUMENT]... --- CLIENT [ARGUMENT]...",
			 at == argc && argc ? "there is no --- between a server and a client" :
			 at == 0 ? "there is no server to run" : "there is no client to run");
		return false;
	}
	argv[at] = NULL;
	p->plan.server = argv;
	p->plan.client = argv + at + 1;
	return true;
}

static bool take_seeds(struct pair *p)
{
	unsigned long long seeds = 0;
	struct impair_spec spec = { 0 };
	uint32_t drawn;
	char why[256];

	if (!p->asked->impair) {
		if (!p->asked->seed && !p->asked->seeds)
			return true;
		cli_fail("--impair says which faults", "a seed chooses faults, and there are none without --impair");
		return false;
	}
	if (!take_number("seeds", p->asked->seeds, SEEDS_MOST, &seeds) || faults_by_index(p->asked, p->by_index))
		return false;
	p->options.impair = p->by_index;
	if (impair_parse(p->by_index, &spec, why, sizeof(why)))
		return false;
	p->seeds = (unsigned)seeds;
	if (p->asked->seed)
		return take_number("seed", p->asked->seed, UINT64_MAX, &p->seed);
	if (!spec.has_seed && !p->seeds && getrandom(&drawn, sizeof(drawn), 0) != sizeof(drawn)) {
		cli_fail("name one by --seed", "no random number: %s", strerror(errno));
		return false;
	}
	p->seed = spec.has_seed ? spec.seed : p->seeds ? 1 : drawn;
	return true;
}

static bool take_all(struct pair *p, int argc, char **argv)
{
	unsigned long long clients = 1;

	if (!take_programs(p, argc, argv) || run_check(p->asked))
		return false;
	if (!take_number("clients", p->asked->clients, ROUND_CLIENTS, &clients) ||
	    !take_seconds("timeout", p->asked->timeout, &p->plan.limit_ns) ||
	    !take_seconds("delay", p->asked->delay, &p->plan.delay_ns) || !take_regex(p, p->asked->ready))
		return false;
	p->plan.clients = (int)clients;
	if (clients == 0) {
		cli_fail("-n 1 is the default", "without a client there is no pair");
		return false;
	}
	return take_seeds(p);
}

/* ---- what is said in the end ---- */

static const char *name_of(int member, char name[24])
{
	if (member == 0)
		return strcpy(name, "the server");
	snprintf(name, 24, "client %d", member);
	return name;
}

static void describe_status(int status, char *text, size_t room)
{
	if (status > 128)
		snprintf(text, room, "was killed by signal %d (%s)", status - 128, strsignal(status - 128));
	else
		snprintf(text, room, "exited with %d", status);
}

static void describe(const struct round_plan *plan, const struct round_result *r, char *text, size_t room)
{
	char status[96], name[24];

	switch (r->end) {
	case ROUND_FINE:
		snprintf(text, room, "server and %d client%s ended well", plan->clients, plan->clients > 1 ? "s" : "");
		break;
	case ROUND_MEMBER_FAILED:
		describe_status(r->status, status, sizeof(status));
		snprintf(text, room, "%s %s%s", name_of(r->failed, name), status, *r->ready ? "" : " before it was ready");
		break;
	case ROUND_NO_LISTENER:
		snprintf(text, room, "the server exited with 0 before it was ready");
		break;
	case ROUND_TIMED_OUT:
		snprintf(text, room, "%s within %g s", *r->ready ? "not all programs ended" : "the server was not ready",
			 (double)plan->limit_ns / WTIME_S);
		break;
	case ROUND_INTERRUPTED:
		snprintf(text, room, "ended by signal %d", r->status - 128);
		break;
	case ROUND_BROKEN:
		snprintf(text, room, "weft could not run them");
		break;
	}
}

static const char *next_step(const struct round_result *r)
{
	if (r->end == ROUND_MEMBER_FAILED)
		return NULL;
	if (*r->ready)
		return r->end == ROUND_TIMED_OUT ? "--timeout for longer, --stop-server for a server that serves on" : NULL;
	return r->end == ROUND_TIMED_OUT || r->end == ROUND_NO_LISTENER ?
		"see what it printed; --ready or --delay for a server that listens nowhere" : NULL;
}

/* The command that runs this seed again. */
static void print_repeat(FILE *to, const struct pair *p)
{
	const struct cli_options *o = &p->options;
	const struct { const char *name, *value; } taken[] = {
		{ "--devices", o->network }, { "--device", o->devices },
		{ "--impair", o->impair }, { "--profile", o->profile }, { "--path", o->path },
		{ "--engine", o->engine }, { "--clients", o->clients }, { "--timeout", o->timeout }, { "--delay", o->delay },
		{ "--ready", o->ready }, { "--trace", o->trace },
	};

	fputs("weft pair", to);
	for (size_t i = 0; i < sizeof(taken) / sizeof(taken[0]); i++) {
		if (taken[i].value)
			fprintf(to, " %s ", taken[i].name), shell_word(to, taken[i].value);
	}
	if (o->shared_heap)
		fputs(" --shared-heap", to), *o->shared_heap ? fprintf(to, "=%s", o->shared_heap) : 0;
	if (o->remap)
		fputs(" --remap", to), *o->remap ? fprintf(to, "=%s", o->remap) : 0;
	fputs(o->stop_server ? " --stop-server --" : " --", to);
	for (char **word = p->plan.server; *word; word++)
		fputc(' ', to), shell_word(to, *word);
	fputs(" ---", to);
	for (char **word = p->plan.client; *word; word++)
		fputc(' ', to), shell_word(to, *word);
	fputc('\n', to);
}

static json_t *status_of(const struct round_result *r, int member)
{
	return r->member[member] < 0 ? json_null() : json_integer(r->member[member]);
}

static int print_json(const struct pair *p, const struct round_result *r, unsigned tried)
{
	json_t *clients = json_array(), *all;
	char text[192], *repeat = NULL;
	size_t bytes = 0;
	FILE *f = open_memstream(&repeat, &bytes);

	if (f) {
		print_repeat(f, p);
		fclose(f);
		repeat[bytes - 1] = '\0';
	}
	for (int i = 1; i <= p->plan.clients; i++)
		json_array_append_new(clients, status_of(r, i));
	describe(&p->plan, r, text, sizeof(text));
	all = json_pack("{s:i, s:s, s:I, s:s*, s:o, s:o, s:s*, s:s}", "status", r->status, "summary", text, "took_ms",
			(json_int_t)(r->took_ns / WTIME_MS), "ready", *r->ready ? r->ready : NULL, "server", status_of(r, 0),
			"clients", clients, "trace", p->options.trace, "command", repeat ? repeat : "");
	if (p->asked->impair)
		json_object_set_new(all, "seed", json_integer((json_int_t)(p->seed + tried - 1)));
	if (p->seeds)
		json_object_set_new(all, "seeds_tried", json_integer(tried));
	free(repeat);
	return output_json(all);
}

static void tell_failure(const struct pair *p, const struct round_result *r, const char *text, unsigned tried)
{
	if (p->asked->impair)
		cli_fail(next_step(r), "%s (seed=%llu)", text, p->seed + tried - 1);
	else
		cli_fail(next_step(r), "%s", text);
	if (r->end == ROUND_INTERRUPTED)
		return;
	if (p->asked->impair) {
		fputs("  repeat: ", stderr);
		print_repeat(stderr, p);
	}
	if (p->options.trace)
		fputs("  frames: weft replay ", stderr), shell_word(stderr, p->options.trace), fputc('\n', stderr);
}

/* What broke a round has been told by whoever met it. */
static int conclude(const struct pair *p, const struct round_result *r, unsigned tried)
{
	char text[192];

	describe(&p->plan, r, text, sizeof(text));
	if (r->end == ROUND_FINE && p->seeds)
		fprintf(stderr, "weft: no failure with the seeds %llu to %llu\n", p->seed, p->seed + p->seeds - 1);
	else if (r->end == ROUND_FINE)
		fprintf(stderr, "weft: %s, after %.2f s\n", text, (double)r->took_ns / WTIME_S);
	else if (r->end != ROUND_BROKEN)
		tell_failure(p, r, text, tried);
	if (p->asked->json && print_json(p, r, tried))
		return EXIT_FAILED;
	return r->status;
}

/* ---- running ---- */

/* One seed's output is kept until it is known whether anybody wants it. */
static FILE *open_kept(void)
{
	int fd = memfd_create("weft-pair", MFD_CLOEXEC);

	return fd < 0 ? NULL : fdopen(fd, "w+");
}

static void show_kept(FILE *kept, FILE *to)
{
	char piece[4096];
	size_t n;

	rewind(kept);
	while ((n = fread(piece, 1, sizeof(piece), kept)) > 0)
		fwrite(piece, 1, n, to);
	fflush(to);
}

static void show_progress(const struct pair *p, unsigned tried, wtime took)
{
	if (isatty(STDERR_FILENO))
		fprintf(stderr, "\rweft: seed %llu, %u of %u, %.2f s \033[K", p->seed + tried, tried + 1, p->seeds,
			(double)took / WTIME_S);
}

/* Runs the seeds until one fails. */
static unsigned search(struct pair *p, FILE *to, struct round_result *result)
{
	unsigned rounds = p->seeds ? p->seeds : 1, tried;

	result->end = ROUND_FINE;
	result->took_ns = 0;
	for (tried = 0; tried < rounds && result->end == ROUND_FINE; tried++) {
		FILE *kept = p->seeds ? open_kept() : NULL;

		if (p->asked->impair) {
			impair_set_seed(p->by_index, p->seed + tried, p->impair, sizeof(p->impair));
			p->options.impair = p->impair;
		}
		if (p->seeds)
			show_progress(p, tried, result->took_ns);
		round_run(&p->plan, kept ? kept : to, result);
		if (p->seeds && isatty(STDERR_FILENO))
			fputs("\r\033[K", stderr);
		if (kept && result->end != ROUND_FINE)
			show_kept(kept, to);
		if (kept)
			fclose(kept);
	}
	return tried;
}

/* Those which the user has not had ignored, as nohup does. */
static void block_signals(sigset_t *before)
{
	static const int signals[] = { SIGINT, SIGTERM, SIGHUP, SIGQUIT };
	sigset_t wanted;

	signal(SIGCHLD, SIG_DFL);
	sigemptyset(&wanted);
	sigaddset(&wanted, SIGCHLD);
	for (size_t i = 0; i < sizeof(signals) / sizeof(signals[0]); i++) {
		struct sigaction now;

		if (sigaction(signals[i], NULL, &now) == 0 && now.sa_handler != SIG_IGN)
			sigaddset(&wanted, signals[i]);
	}
	sigprocmask(SIG_BLOCK, &wanted, before);
}

static int run_seeds(void *arg)
{
	struct pair *p = arg;
	struct round_result result;
	unsigned tried = search(p, p->asked->json ? stderr : stdout, &result);

	return conclude(p, &result, tried);
}

int cli_pair(const struct cli_options *o, int argc, char **argv)
{
	struct pair p = { .options = *o, .asked = o };
	int status = EXIT_USAGE;

	p.plan = (struct round_plan){ .options = &p.options, .limit_ns = TIMEOUT_S * WTIME_S, .delay_ns = WTIME_NEVER,
				      .mask = &p.mask, .stops_server = o->stop_server };
	if (take_all(&p, argc, argv)) {
		block_signals(&p.mask);
		own_network_sweep();
		program_warn(*p.plan.server);
		program_warn(*p.plan.client);
		if (o->impair && !p.seeds)
			fprintf(stderr, "weft: impaired with seed=%llu\n", p.seed);
		status = apart_run(run_seeds, &p);
	}
	if (p.has_ready)
		regfree(&p.ready);
	return status;
}
