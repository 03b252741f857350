/* The table of subcommands and of options, and the help made from them. */
#include "cli/cli.h"

#include <getopt.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

static const struct cli_command commands[] = {
	{ "run", "diptHNPSh", "[--] PROGRAM [ARGUMENT]...", "run a program with weft's RDMA devices",
	  "Starts weftd if it does not run. PROGRAM and all it starts see the devices; weftd leaves some seconds after the last\n"
	  "of them. The exit status is PROGRAM's; 127 when there is no such program, 126 when it cannot be run.\n",
	  cli_run },
	{ "up", "jSh", "", "start weftd, and keep it until weft down", NULL, cli_up },
	{ "down", "fjSh", "", "end weftd", NULL, cli_down },
	{ "status", "jSh", "", "show weftd and the processes attached to it",
	  "The exit status is 0 when weftd runs, 1 when not.\n", cli_status },
	{ "devices", "jSh", "", "list the devices, their ports and addresses", NULL, cli_devices },
	{ "qp", "jSh", "[PID]", "list the queue pairs of every attached process", NULL, cli_qp },
	{ "mr", "jSh", "[PID]", "list the memory regions of every attached process", NULL, cli_mr },
	{ "counters", "jSh", "[PID]", "show the counters of every attached process", NULL, cli_counters },
	{ "replay", "qh", "FILE [PID]", "show a trace, and run its impairment and engine again",
	  "FILE is what weft run --trace wrote; PID shows one of its processes. The exit status is 1 when a decision of the\n"
	  "impairment or a frame of the engine differs from the recorded one.\n",
	  cli_replay },
	{ "doctor", "jSh", "[PROGRAM]", "look for what would stand in the way on this machine",
	  "With PROGRAM also for what would keep that program from using weft. The exit status is 1 when a check failed.\n",
	  cli_doctor },
	{ "bench", "QOLRZCJMGh", "", "compare weft with its peers on this machine",
	  "Measures weft, UCX, libfabric, Open MPI and what the machine itself can do, in turn and several times. The exit\n"
	  "status is 1 when weft itself could not be measured; peers that are not installed are named.\n",
	  cli_bench },
};

static const struct option_row {
	char letter;
	const char *name, *argument, *help;
} options[] = {
	{ 'd', "device", "NAME[,NAME]", "show only these devices to the program" },
	{ 'f', "force", NULL, "also with processes attached, which lose their connections" },
	{ 'p', "profile", "PROFILE", "standard, seed or printed, with settings after commas" },
	{ 'i', "impair", "FAULTS", "lose, delay, spoil frames: loss=5%,delay=50us,seed=7" },
	{ 'j', "json", NULL, "print JSON" },
	{ 'q', "quiet", NULL, "print the last line only" },
	{ 't', "trace", "FILE", "write all frames there, for weft replay" },
	{ 'H', "shared-heap", "[=MINSIZE]", "large blocks come from memory that peers map" },
	{ 'N', "remap", "[=MINSIZE]", "registered memory is moved to where peers map it" },
	{ 'P', "path", "PATH", "direct, packet, or auto: direct where possible" },
	{ 'S', "system", NULL, "use the system's weftd, for all users, in /run/weft" },
	{ 'Q', "quick", NULL, "short trials and three rounds: a look, no verdict" },
	{ 'O', "only", "NAME[,NAME]", "these contests or contestants, see --list" },
	{ 'L', "list", NULL, "name them, and what is missing" },
	{ 'R', "reps", "N", "rounds (7)" },
	{ 'Z', "size", "BYTES[,BYTES]", "message sizes, with K, M or G" },
	{ 'C', "cpus", "A,B", "where the two ends run" },
	{ 'J', "json", "FILE", "write every figure there" },
	{ 'M', "markdown", "FILE", "write the report there instead of printing it" },
	{ 'G', "svg", "FILE", "write a plot there" },
	{ 'h', "help", NULL, "print this text" },
	{ 'V', "version", NULL, "print the version" },
};

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))

int cli_fail(const char *next, const char *cause, ...)
{
	va_list ap;

	fputs("weft: ", stderr);
	va_start(ap, cause);
	vfprintf(stderr, cause, ap);
	va_end(ap);
	fputc('\n', stderr);
	if (next)
		fprintf(stderr, "  next: %s\n", next);
	return EXIT_FAILED;
}

static bool takes(const char *letters, const struct option_row *o)
{
	return strchr(letters, o->letter);
}

static bool is_optional(const struct option_row *o)
{
	return o->argument && o->argument[0] == '[';
}

static int argument_of(const struct option_row *o)
{
	if (!o->argument)
		return no_argument;
	return is_optional(o) ? optional_argument : required_argument;
}

static void print_options(FILE *to, const char *letters)
{
	fputs("\nOptions:\n", to);
	for (size_t i = 0; i < COUNT(options); i++) {
		const struct option_row *o = &options[i];
		char left[48], letter[8];

		if (!takes(letters, o))
			continue;
		snprintf(letter, sizeof(letter), "-%c, ", o->letter);
		snprintf(left, sizeof(left), "%s--%s%s%s", o->letter >= 'a' ? letter : "    ", o->name,
			 o->argument && !is_optional(o) ? " " : "", o->argument ? o->argument : "");
		fprintf(to, "  %-28s %s\n", left, o->help);
	}
}

static void print_usage(FILE *to)
{
	fputs("Usage: weft COMMAND [OPTION]... [ARGUMENT]...\n"
	      "RDMA devices in software, for unmodified programs.\n\nCommands:\n", to);
	for (size_t i = 0; i < COUNT(commands); i++)
		fprintf(to, "  %-10s %s\n", commands[i].name, commands[i].summary);
	print_options(to, "hV");
	fputs("\n`weft COMMAND --help` says more, `man weft-COMMAND` all.\n", to);
}

static void print_command_help(FILE *to, const struct cli_command *c)
{
	char summary[80];

	snprintf(summary, sizeof(summary), "%s", c->summary);
	if (summary[0] >= 'a' && summary[0] <= 'z')
		summary[0] = (char)(summary[0] - 'a' + 'A');
	fprintf(to, "Usage: weft %s [OPTION]... %s\n%s.\n", c->name, c->arguments, summary);
	if (c->help)
		fprintf(to, "\n%s", c->help);
	print_options(to, c->options);
}

/* getopt_long's tables for these letters; "+" ends the options at the first argument, which may have options of its own. */
static void make_tables(const char *letters, char shorts[2 * COUNT(options) + 2], struct option longs[COUNT(options) + 1])
{
	size_t n = 0;

	*shorts++ = '+';
	for (size_t i = 0; i < COUNT(options); i++) {
		const struct option_row *o = &options[i];

		if (!takes(letters, o))
			continue;
		longs[n++] = (struct option){ o->name, argument_of(o), NULL, o->letter };
		if (o->letter < 'a')
			continue;
		*shorts++ = o->letter;
		if (o->argument)
			*shorts++ = ':';
	}
	*shorts = '\0';
	longs[n] = (struct option){ 0 };
}

static const struct cli_command *find_command(const char *name)
{
	for (size_t i = 0; i < COUNT(commands); i++) {
		if (strcmp(commands[i].name, name) == 0)
			return &commands[i];
	}
	return NULL;
}

static bool take_bench_option(struct cli_options *o, int letter)
{
	switch (letter) {
	case 'Q': o->quick = true; break;
	case 'L': o->list = true; break;
	case 'O': o->only = optarg; break;
	case 'R': o->reps = optarg; break;
	case 'Z': o->sizes = optarg; break;
	case 'C': o->cpus = optarg; break;
	case 'J': o->json_file = optarg; break;
	case 'M': o->markdown = optarg; break;
	case 'G': o->svg = optarg; break;
	default: return false;
	}
	return true;
}

static int run_command(const struct cli_command *command, int argc, char **argv)
{
	struct option longs[COUNT(options) + 1];
	char shorts[2 * COUNT(options) + 2];
	struct cli_options o = { 0 };
	int c;

	make_tables(command->options, shorts, longs);
	while ((c = getopt_long(argc, argv, shorts, longs, NULL)) != -1) {
		if (c == 'd')
			o.devices = optarg;
		else if (c == 'f')
			o.force = true;
		else if (c == 'i')
			o.impair = optarg;
		else if (c == 'j')
			o.json = true;
		else if (c == 'p')
			o.profile = optarg;
		else if (c == 'H')
			o.shared_heap = optarg ? optarg : "";
		else if (c == 'N')
			o.remap = optarg ? optarg : "";
		else if (c == 'P')
			o.path = optarg;
		else if (c == 'q')
			o.quiet = true;
		else if (c == 't')
			o.trace = optarg;
		else if (c == 'S')
			o.system = true;
		else if (c == 'h')
			return print_command_help(stdout, command), EXIT_OK;
		else if (!take_bench_option(&o, c))
			return print_command_help(stderr, command), EXIT_USAGE;
	}
	if (!*command->arguments && optind < argc) {
		fprintf(stderr, "weft: %s takes no argument, but there is '%s'\n", command->name, argv[optind]);
		return print_command_help(stderr, command), EXIT_USAGE;
	}
	return command->run(&o, argc - optind, argv + optind);
}

int main(int argc, char **argv)
{
	const struct cli_command *command;
	const char *first = argc > 1 ? argv[1] : "";

	if (!strcmp(first, "-h") || !strcmp(first, "--help") || (!strcmp(first, "help") && argc == 2))
		return print_usage(stdout), EXIT_OK;
	if (!strcmp(first, "--version"))
		return printf("weft %s\n", WEFT_VERSION), EXIT_OK;
	if (!strcmp(first, "help")) {
		argv[1] = argv[2];
		argv[2] = "--help";
	}
	if (argc < 2)
		return print_usage(stderr), EXIT_USAGE;
	command = find_command(argv[1]);
	if (!command) {
		cli_fail("weft --help lists the commands", "there is no command '%s'", argv[1]);
		return EXIT_USAGE;
	}
	return run_command(command, argc - 1, argv + 1);
}
