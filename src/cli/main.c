/* The table of subcommands and of options, and the help made from them. */
#include "cli/cli.h"
#include "cli/table.h"
#include "commit.h"

#include "control/bugs.h"

#include <errno.h>
#include <getopt.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

static const struct cli_command commands[] = {
	{ "run", "d9iptBEHK4NPSh", "[--] PROGRAM [ARGUMENT]...", "run a program with weft's RDMA devices",
	  "Starts weftd if it does not run. PROGRAM and all it starts see the devices; weftd exits some seconds after the last\n"
	  "of them. The exit status is PROGRAM's; 127 when there is no such program, 126 when it cannot be run.\n",
	  cli_run },
	{ "pair", "d9ipntEHNPAITYDWjh", "[--] SERVER [ARGUMENT]... --- CLIENT [ARGUMENT]...",
	  "run a server and its clients in a network of their own",
	  "Starts SERVER, waits until it listens, and starts the clients. The exit status is 0 when all exit with 0, else that\n"
	  "of the first that failed; 124 when the time is up. What was started is ended, and nothing is left.\n",
	  cli_pair },
	{ "up", "9jSh", "", "start weftd, and keep it until weft down", NULL, cli_up },
	{ "down", "fjSh", "", "end weftd", NULL, cli_down },
	{ "status", "jSh", "", "show weftd and the processes attached to it",
	  "The exit status is 0 when weftd runs, 1 when not.\n", cli_status },
	{ "devices", "jSh", "", "list the devices, their ports and addresses", NULL, cli_devices },
	{ "qp", "j2Sh", "[PID]", "list the queue pairs of every attached process", NULL, cli_qp },
	{ "cq", "jSh", "[PID]", "list the completion queues of every attached process", NULL, cli_cq },
	{ "mr", "jSh", "[PID]", "list the memory regions of every attached process", NULL, cli_mr },
	{ "counters", "jXFSh", "[PID]", "show the counters of every attached process", NULL, cli_counters },
	{ "replay", "*j3qh", "FILE... [PID]", "show traces, and run their impairment and engine again",
	  "FILE is what weft run --trace wrote; PID shows one of its processes. The exit status is 1 when a decision of the\n"
	  "impairment or a frame of the engine differs from the recorded one.\n",
	  cli_replay },
	{ "fabric", "*%0o@^bcsGjUSh", "make KIND [NAME=VALUE]... | check [FILE] | path FILE FROM TO\n"
	  "       | load FILE | unload | link PORT down|up|FAULT | show [NODE] | top",
	  "make fabrics, check them, and give a network one",
	  "make prints a topology in ibnetdiscover's format; without KIND it lists the kinds. check reads one, of ibnetdiscover\n"
	  "or ibsim, gives it LIDs and forwarding tables, and follows all paths; without FILE those of the network as it is.\n"
	  "path shows one. load gives the network one, in which weft run --node HOST runs programs, and weft's subnet manager\n"
	  "manages it, unless --routing says otherwise; unload takes it away; link takes a link down, brings it up, or lets\n"
	  "it lose or slow what passes (loss 1%, slow 10Gbit, loss=1%,seed=7).\n"
	  "show lists the ports of a node or of all, with addresses, links and counters, or draws them (--svg FILE); top shows\n"
	  "what links carry in a second, again and again.\n"
	  "The exit status is 1 when a path does not reach.\n",
	  cli_fabric },
	{ "impair", "*jSh", "PID|all|DEVICE FAULTS | show [PID] | clear [PID]",
	  "impair programs while they run",
	  "FAULTS are those of weft run --impair, in place of what the processes had; with DEVICE, those of its frames, for all\n"
	  "processes. show lists what is in force, clear ends it.\n",
	  cli_impair },
	{ "capture", "*5cjSh", "FILE [PID|all]", "write frames of running programs for Wireshark and tshark",
	  "FILE is of the pcapng format; - is the standard output. With all, or without PID, programs that start meanwhile are\n"
	  "captured too. ^C ends it. What is captured goes as packets, not by the direct path.\n",
	  cli_capture },
	{ "link", "*1jSh", "down|up DEVICE|NODE:PORT", "take the link of a port down, or bring it up",
	  "DEVICE is one that weft devices lists: its port is down for all programs of the network. NODE:PORT is a port of the\n"
	  "fabric that weft fabric load gave the network. Programs get the event; what they send is lost until the link is up.\n",
	  cli_link },
	{ "path", "*jSh", "HOST [fail|heal N]", "let a path to another host fail, and heal it",
	  "HOST is the address by which programs reach the other host. Path N of queue pairs that go by several (weft run\n"
	  "--profile standard,paths=N) loses what they ask and what comes back; path 0 is also that of all others. Without\n"
	  "fail or heal it says which fail.\n",
	  cli_path },
	{ "paths", "bcsjSh", "", "watch the paths of queue pairs that go by several",
	  "On a terminal the screen is drawn anew every second, and q ends it; otherwise, and with --batch or --json, each look\n"
	  "follows the one before.\n",
	  cli_paths },
	{ "mad", "*jSh", "[show | set NAME=VALUE...]", "show receive buffers of management datagrams, or tune them",
	  "Each port at which somebody receives management datagrams has buffers of its own for QP0 and QP1. NAME is each,\n"
	  "floor, low-percent, low, high, growth, most, watch, fixed, window,\n"
	  "longest-kb, program-kb, period-ms, sa-lsb-first,\n"
	  "sa-heeds-window, sa-trusted-key or sa-longest-kb.\n",
	  cli_mad },
	{ "sa", "*KpjSh", "gettable TABLE | getbulk | config FILE  [NAME=VALUE...]",
	  "ask subnet administration by class version 1, the protocol before RMPP",
	  "TABLE is nodes, paths, kept or the number of an attribute. FILE has lines: add ID TEXT, edit ID TEXT, delete ID; all\n"
	  "of them are done, or none. NAME is key, window, lid, retries or bits. With --profile standard a subnet manager's\n"
	  "administration is asked, by RMPP.\n",
	  cli_sa },
	{ "ping", "*cs67Kqjh", "HOST", "ask the weft of another host, or a host of the fabric, whether it is there",
	  "HOST is a host of the network's fabric, asked from that of --node, or a name or an IP address. Its weftd answers\n"
	  "while programs there have UDP port 4791 open, or weft ping --listen has. Without --count it ends by ^C. The exit\n"
	  "status is 0 when there was an answer.\n",
	  cli_ping },
	{ "doctor", "*8jSh", "[PROGRAM]", "check this machine for problems, or the way to another",
	  "With PROGRAM, check also whether that program can use weft; with --peer, check what is between this host and\n"
	  "another instead. The exit status is 1 when a check failed.\n",
	  cli_doctor },
	{ "env", "9Sh", "[sh|fish|docker|vscode]", "print the environment of weft run",
	  "Starts weftd and keeps it until weft down, as programs that find it so do not start it.\n", cli_env },
	{ "shell", "d9HNKipPEBtSh", "[-- ARGUMENT...]", "start a shell in the environment of weft run",
	  "It is $SHELL, whose prompt begins with (weft); with ARGUMENTs it gets these instead, as in weft shell -- -c COMMAND.\n"
	  "The exit status is the shell's.\n",
	  cli_shell },
	{ "top", "bcsjSh", "", "show what ports, processes and queue pairs do in a second",
	  "On a terminal the screen is drawn anew every second, and q ends it; otherwise, and with --batch or --json, each look\n"
	  "follows the one before.\n",
	  cli_top },
	{ "completion", "h", "bash|zsh|fish", "print a shell's completion of weft's commands", NULL, cli_completion },
	{ "sim", "*j!#Gh", "[SCENARIO] [TOPOLOGY]...", "simulate subnets of any size in virtual time",
	  "SCENARIO is cold-boot (a subnet is switched on, then a switch dies), path-storm (all hosts ask the subnet\n"
	  "administration for paths at once) or mad-storm (receive buffers of management datagrams). TOPOLOGY is a file, or a\n"
	  "kind of weft fabric make with settings, as in fat-tree:ports=16; alone it is switched on. Without arguments\n"
	  "scenarios are listed. Weft's own manager, administration and agents run; the same seed gives the same figures. The\n"
	  "exit status is 1 when not every host reaches every other one in the end.\n",
	  cli_sim },
	{ "bench", "wQOLRZCJMGgh", "", "compare weft with its peers on this machine",
	  "Measures weft, UCX, libfabric, Open MPI and what the machine itself can do, in turn and several times; with --wire\n"
	  "RoCEv2 over UDP, iperf3, sockperf and others, between two hosts that are made for it. The exit\n"
	  "status is 1 when weft itself could not be measured; peers that are not installed are named.\n",
	  cli_bench },
};

static const struct option_row {
	char letter;
	const char *name, *argument, *help;
} options[] = {
	{ 'd', "device", "NAME[,NAME]", "show only these devices to the program" },
	{ '9', "devices", "LIST", "start the network with these: mlx5_0,mlx5_1:roce,rate=400G" },
	{ 'f', "force", NULL, "also with processes attached; they keep their connections" },
	{ 'p', "profile", "PROFILE", "standard, multipath, seed or printed, with settings after commas" },
	{ 'i', "impair", "FAULTS", "lose, delay, corrupt frames: loss=5%,delay=50us,seed=7" },
	{ 'j', "json", NULL, "print JSON" },
	{ 'q', "quiet", NULL, "leave out the line of each frame or ping" },
	{ 't', "trace", "FILE", "write all frames there, for weft replay" },
	{ '5', "limit", "SIZE", "end when FILE has so many bytes, with K, M or G (1G)" },
	{ '3', "pcap", "FILE", "write the frames that passed there too, for Wireshark and tshark" },
	{ 'H', "shared-heap", "[=MINSIZE]", "large blocks come from memory that peers map" },
	{ 'N', "remap", "[=MINSIZE]", "registered memory is moved to where peers map it" },
	{ 'K', "node", "HOST", "at this host of the fabric that weft fabric load gave the network" },
	{ '4', "nodes", "HOST[,HOST]...", "a launcher's local rank runs at the host of its number, as in: -- mpirun -n 4 ..." },
	{ 'P', "path", "PATH", "direct, packet, wire (UDP), or auto: direct where possible" },
	{ 'E', "engine", "WHERE", "thread, or caller: in the calls that post and poll" },
	{ 'U', "routing", "ENGINE", "min-hop, up-down, or auto: min-hop unless it deadlocks; load: or none, sm" },
	{ '^', "priority", "N", "of weft's subnet manager: 0 to 15 (0)" },
	{ '0', "partitions", "FILE", "who is in which partition, as OpenSM's partitions.conf" },
	{ 'o', "options", "FILE", "of weft's subnet manager, as opensm.conf: M_Key, service levels, lanes" },
	{ '@', "lmc", "N", "a host's port gets 2^N LIDs: 0 to 7 (as the file says)" },
	{ '%', "rates", NULL, "load: links carry no more than their width and speed say" },
	{ 'S', "system", NULL, "use the system's weftd, for all users, in /run/weft" },
	{ 'X', "prometheus", NULL, "print Prometheus' text format" },
	{ 'F', "explain", NULL, "say what each counter counts" },
	{ 'B', "stats", "[=FILE]", "print the counters when PROGRAM has ended; JSON to *.json" },
	{ '2', "history", NULL, "why queue pairs have stopped, also of programs that have ended" },
	{ '1', "for", "TIME", "bring it up again after 500ms, 3s, ..." },
	{ 'b', "batch", NULL, "one look after another, without a screen" },
	{ 'c', "count", "N", "end after so many frames, looks or pings" },
	{ 's', "interval", "SECONDS", "between two looks, or pings (1)" },
	{ '6', "size", "BYTES", "of a ping's payload: 256 to 4096 (256)" },
	{ '7', "listen", NULL, "keep UDP port 4791 open for pings of other hosts" },
	{ '8', "peer", "HOST", "the way to this host" },
	{ 'n', "clients", "N", "so many clients, each the same command (1)" },
	{ 'A', "seeds", "N", "try so many seeds, one after another, until one fails" },
	{ 'I', "seed", "N", "the seed of --impair, or the first of --seeds" },
	{ '!', "seed", "N", "of the virtual network (1)" },
	{ '#', "loss", "PERCENT[,PERCENT]", "of management datagrams, each way; a row for each (0)" },
	{ 'T', "timeout", "SECONDS", "for all of it (120)" },
	{ 'Y', "ready", "REGEX", "the clients start when SERVER prints this" },
	{ 'D', "delay", "SECONDS", "the clients start after so long" },
	{ 'W', "stop-server", NULL, "end SERVER by SIGTERM when the clients have ended" },
	{ 'w', "wire", NULL, "between two hosts: network namespaces with a wire (veth) between them" },
	{ 'Q', "quick", NULL, "short trials and three rounds: a look, no verdict" },
	{ 'O', "only", "NAME[,NAME]", "these contests or contestants, see --list" },
	{ 'L', "list", NULL, "name them, and what is missing" },
	{ 'R', "reps", "N", "rounds (7)" },
	{ 'Z', "size", "BYTES[,BYTES]", "message sizes, with K, M or G" },
	{ 'C', "cpus", "A,B", "where the two ends run" },
	{ 'J', "json", "FILE", "write every figure there" },
	{ 'M', "markdown", "FILE", "write the report there, as Markdown" },
	{ 'G', "svg", "FILE", "draw a picture there" },
	{ 'g', "goals", NULL, "judge weft by the goals of its developers too" },
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

const struct cli_command *table_command(size_t i)
{
	return i < COUNT(commands) ? &commands[i] : NULL;
}

bool table_option(const struct cli_command *c, size_t i, struct table_option *o)
{
	for (size_t k = 0; k < COUNT(options); k++) {
		const struct option_row *row = &options[k];

		if (!takes(c->options, row) || i--)
			continue;
		*o = (struct table_option){ row->letter >= 'a' ? row->letter : '\0', row->name, row->argument, row->help };
		return true;
	}
	return false;
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
		snprintf(left, sizeof(left), "%s--%s%s%s", o->letter >= 'a' || o->letter == 'V' ? letter : "    ", o->name,
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

/* After a message about how the command was used. */
static int advise_help(const struct cli_command *c)
{
	fprintf(stderr, "  next: weft %s --help\n", c->name);
	return EXIT_USAGE;
}

/* getopt_long's tables for these letters; "+" ends the options at the first argument, which may have options of its own. */
static void make_tables(const char *letters, char shorts[2 * COUNT(options) + 2], struct option longs[COUNT(options) + 1])
{
	size_t n = 0;

	if (!strchr(letters, '*'))
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
	case 'g': o->goals = true; break;
	case 'w': o->wire = true; break;
	default: return false;
	}
	return true;
}

static bool take_other_option(struct cli_options *o, int letter)
{
	switch (letter) {
	case 'X': o->prometheus = true; break;
	case 'F': o->explain = true; break;
	case 'B': o->stats = optarg ? optarg : ""; break;
	case '2': o->history = true; break;
	case '1': o->during = optarg; break;
	case '5': o->limit = optarg; break;
	case '9': o->network = optarg; break;
	case 'c': o->count = optarg; break;
	case '6': o->size = optarg; break;
	case '7': o->listen = true; break;
	case '8': o->peer = optarg; break;
	case '3': o->pcap = optarg; break;
	case 'b': o->batch = true; break;
	case 's': o->interval = optarg; break;
	case 'K': o->node = optarg; break;
	case '^': o->priority = optarg; break;
	case '@': o->lmc = optarg; break;
	case '0': o->partitions = optarg; break;
	case 'o': o->options = optarg; break;
	case '4': o->nodes = optarg; break;
	case 'n': o->clients = optarg; break;
	case 'A': o->seeds = optarg; break;
	case 'I':
	case '!': o->seed = optarg; break;
	case '#': o->loss = optarg; break;
	case 'T': o->timeout = optarg; break;
	case 'Y': o->ready = optarg; break;
	case 'D': o->delay = optarg; break;
	case 'W': o->stop_server = true; break;
	default: return false;
	}
	return true;
}

static int run_command(const struct cli_command *command, int argc, char **argv)
{
	struct option longs[COUNT(options) + 1];
	char shorts[2 * COUNT(options) + 2];
	struct cli_options o = { 0 };
	char name[32];
	int c;

	make_tables(command->options, shorts, longs);
	snprintf(name, sizeof(name), "weft %s", command->name);
	argv[0] = name;	/* getopt's messages begin with it */
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
		else if (c == 'E')
			o.engine = optarg;
		else if (c == 'q')
			o.quiet = true;
		else if (c == 't')
			o.trace = optarg;
		else if (c == 'U')
			o.routing = optarg;
		else if (c == '%')
			o.rates = true;
		else if (c == 'S')
			o.system = true;
		else if (c == 'h')
			return print_command_help(stdout, command), EXIT_OK;
		else if (!take_other_option(&o, c) && !take_bench_option(&o, c))
			return advise_help(command);
	}
	if (!*command->arguments && optind < argc) {
		fprintf(stderr, "weft %s: takes no argument, but there is '%s'\n", command->name, argv[optind]);
		return advise_help(command);
	}
	return command->run(&o, argc - optind, argv + optind);
}

static int answer(int argc, char **argv)
{
	const struct cli_command *command;
	const char *first = argc > 1 ? argv[1] : "";

	if (!strcmp(first, "-h") || !strcmp(first, "--help") || (!strcmp(first, "help") && argc == 2))
		return print_usage(stdout), EXIT_OK;
	if (!strcmp(first, "--version") || !strcmp(first, "-V") || (!strcmp(first, "version") && argc == 2))
		return printf("weft %s (%s)\n", WEFT_VERSION, WEFT_COMMIT), EXIT_OK;
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

/* Whoever reads the answer may take the exit status for its end. */
static int finish(int status)
{
	errno = 0;
	if (!fflush(stdout) && !ferror(stdout))
		return status;
	cli_fail("see that it is open and its disk has room", "the standard output cannot be written%s%s", errno ? ": " : "",
		 errno ? strerror(errno) : "");
	return status == EXIT_OK ? EXIT_FAILED : status;
}

int main(int argc, char **argv)
{
	bugs_to_file();
	return finish(answer(argc, argv));
}
