/* weft replay: a trace as text, and a check that impairment and engine do again what they did. Each process's lanes are made
 * anew from the recorded specification and seed and fed with the recorded frames at the recorded times; so is its engine, with
 * the frames that arrived and what the program asked of it (replay_engine.c). */
#include "cli/cli.h"
#include "cli/output.h"
#include "cli/pcap_file.h"
#include "cli/replay_engine.h"

#include "impair/lanes.h"
#include "impair/trace_engine.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

enum { TRACES_MOST = 64 };	/* our choice */

/* A trace file, and how far it was read. */
struct source {
	const char *path;		/* borrowed */
	const uint8_t *data;		/* owned mapping */
	size_t bytes, at, length;	/* length: of the next record; 0: there is none */
	struct trace_record next;
};

/* One process of the trace. */
struct traced {
	struct traced *next;
	uint32_t pid;
	struct trace_process says;
	struct impair_lanes lanes;
	struct device_faults device;
	struct replay_engine *engine;	/* owned; NULL: it went another way than the record */
};

struct replay {
	struct traced *processes;	/* owned */
	wtime start;			/* time of the first record */
	uint32_t only;			/* this pid, or 0: all */
	bool quiet, json;
	const char *path;		/* of the first trace */
	struct source source[TRACES_MOST];
	int sources;
	struct pcap_file *pcap;		/* owned; NULL: none is wanted */
	unsigned long long decisions, passed, different, refused, sent;	/* sent: by the engines, again */
};

static struct traced *find(const struct replay *re, uint32_t pid)
{
	struct traced *t = re->processes;

	while (t && t->pid != pid)
		t = t->next;
	return t;
}

/* The process's faults, from now on. */
static int open_faults(struct traced *t, wtime now)
{
	struct impair_spec spec;
	char why[256];

	device_faults_init(&t->device, NULL, 0, 0, now);
	if (!*t->says.impair)
		return EXIT_OK;
	if (impair_parse(t->says.impair, &spec, why, sizeof(why)))
		return cli_fail(NULL, "process %u: %s", t->pid, why);
	device_faults_init(&t->device, spec.fault, spec.faults, spec.seed, now);
	return impair_lanes_init(&t->lanes, &spec) ? cli_fail(NULL, "%s", strerror(ENOMEM)) : EXIT_OK;
}

/* A process begins; or, with the same number, another one. */
static int begin(struct replay *re, const struct trace_record *r)
{
	struct traced *t = find(re, r->pid);
	int err;

	if (!t) {
		t = calloc(1, sizeof(*t));
		if (!t)
			return cli_fail(NULL, "%s", strerror(ENOMEM));
		t->next = re->processes;
		t->pid = r->pid;
		re->processes = t;
	}
	impair_lanes_fini(&t->lanes);
	replay_engine_delete(t->engine);
	t->engine = NULL;
	if (!trace_get_process(&t->says, r))
		return cli_fail("record it again", "the record of process %u is damaged", r->pid);
	t->engine = replay_engine_new(&t->says, &err);
	if (!t->engine && err == -EPROTONOSUPPORT)
		return cli_fail("this weft knows InfiniBand and RoCEv2", "process %u has a device of another protocol", r->pid);
	if (!t->engine)
		return cli_fail(NULL, "%s", strerror(-err));
	return open_faults(t, r->time);
}

static int change(const struct replay *re, struct traced *t, const struct trace_record *r)
{
	if (!trace_get_impair(r, t->says.impair))
		return cli_fail("record it again", "a record of process %u's faults is damaged", r->pid);
	impair_lanes_fini(&t->lanes);
	memset(&t->lanes, 0, sizeof(t->lanes));
	if (!re->quiet)
		printf("%12.6f %u is impaired by %s\n", (double)(r->time - re->start) / (double)WTIME_S, r->pid,
		       *t->says.impair ? t->says.impair : "nothing");
	return open_faults(t, r->time);
}

static void print_marks(unsigned marks)
{
	const char *before = " [";

	for (unsigned i = 0; i < IMPAIR_MARKS; i++) {
		if (marks >> i & 1) {
			printf("%s%s", before, impair_mark_name(i));
			before = " ";
		}
	}
	if (marks)
		putchar(']');
}

/* What the parser says of it; frames that passed without corruption must be accepted with their ICRC. */
static enum packet_error print_frame(const struct trace_record *r, bool quiet)
{
	enum packet_error err;
	char text[512];
	struct packet p;

	err = packet_parse(&p, r->form, r->data, r->bytes, true);
	if (quiet)
		return err;
	if (err)
		printf(" %u bytes: %s", r->bytes, packet_error_name(err));
	if (err == PACKET_BAD_ICRC)
		packet_parse(&p, r->form, r->data, r->bytes, false);
	if (err == PACKET_OK || err == PACKET_BAD_ICRC) {
		packet_dump(&p, text, sizeof(text));
		printf(" %s", text);
	}
	return err;
}

static void print_head(const struct replay *re, const struct trace_record *r, const char *what)
{
	const struct traced *t = find(re, r->pid);

	printf("%12.6f %u %s %s %s", (double)(r->time - re->start) / (double)WTIME_S, r->pid, t->says.device[r->device].name,
	       r->direction == IMPAIR_OUT ? "out" : "in", what);
}

static void differs(struct replay *re, const struct trace_record *r, const char *how)
{
	re->different++;
	if (re->different > 1 || re->json)
		return;
	print_head(re, r, "DIFFERS: ");
	puts(how);
}

/* What follows a difference would only repeat it, so that is the end of this engine. */
static void take_end(struct replay *re, struct traced *t, const struct trace_record *r, enum replay_end end, const char *why)
{
	if (end != REPLAY_DIFFERS)
		return;
	differs(re, r, why);
	replay_engine_delete(t->engine);
	t->engine = NULL;
}

static void replay_entry(struct replay *re, struct traced *t, const struct trace_record *r)
{
	char why[512];

	if (t->engine)
		take_end(re, t, r, replay_engine_enter(t->engine, r, why, sizeof(why)), why);
}

/* A frame that the engine was given, or had made. */
static void replay_frame(struct replay *re, struct traced *t, const struct trace_record *r)
{
	enum replay_end end;
	char why[512];

	if (!t->engine || r->form == PACKET_ETHERNET)
		return;
	end = r->direction == IMPAIR_IN ? replay_engine_input(t->engine, r, why, sizeof(why)) :
					  replay_engine_output(t->engine, r, why, sizeof(why));
	re->sent += end == REPLAY_SAME && r->direction == IMPAIR_OUT;
	take_end(re, t, r, end, why);
}

static void replay_offered(struct replay *re, struct traced *t, const struct trace_record *r)
{
	struct impair_lane *lane = impair_lane(&t->lanes, r->device, r->direction);

	if (!re->quiet) {
		print_head(re, r, "offered");
		print_marks(r->marks);
		print_frame(r, false);
		putchar('\n');
	}
	re->decisions++;
	if (r->direction == IMPAIR_OUT)
		replay_frame(re, t, r);
	if (!lane)
		differs(re, r, "a decision where the specification has no rules");
	else if (impair_push(lane, r->time, r->form, r->data, r->bytes, r->to) != r->marks)
		differs(re, r, "another decision than recorded");
}

static void replay_passed(struct replay *re, struct traced *t, const struct trace_record *r)
{
	struct impair_lane *lane = impair_lane(&t->lanes, r->device, r->direction);
	const struct impair_frame *f;
	enum packet_error err;

	if (!re->quiet)
		print_head(re, r, r->direction == IMPAIR_IN && r->marks & TRACE_REFUSED ? "refused " : "passed ");
	err = print_frame(r, re->quiet);
	if (!re->quiet && r->direction == IMPAIR_OUT && r->marks & TRACE_LINK_LOST)
		printf(" [lost in the fabric]");
	if (!re->quiet && r->direction == IMPAIR_OUT && r->marks & TRACE_LINK_HELD)
		printf(" [waits in the fabric]");
	if (!re->quiet)
		putchar('\n');
	re->passed++;
	re->refused += err != PACKET_OK;
	if (r->direction == IMPAIR_IN || !lane)
		replay_frame(re, t, r);
	if (!lane)
		return;
	f = impair_pop(lane, r->time);
	if (!f || f->bytes != r->bytes || f->to != r->to || memcmp(f->data, r->data, r->bytes))
		differs(re, r, f ? "another frame than recorded" : "no frame is due");
}

static void print_event(const struct replay *re, const struct trace_record *r, const struct traced *t, unsigned device,
			unsigned fault)
{
	if (!re->quiet)
		printf("%12.6f %u %s event %s\n", (double)(r->time - re->start) / (double)WTIME_S, r->pid,
		       t->says.device[device].name, t->device.fault[fault].event->name);
}

/* A call that faults are for: it ends as it did, with the same events. */
static void replay_call(struct replay *re, struct traced *t, const struct trace_record *r)
{
	enum fault_verb verb = (enum fault_verb)r->to;
	struct trace_call was;
	unsigned events;
	int error;

	re->decisions++;
	if (r->to >= FAULT_VERBS || !trace_get_numbers(r, &was, sizeof(was)) ||
	    !device_faults_concern(&t->device, r->device, verb)) {
		differs(re, r, "a call that no fault is for");
		return;
	}
	error = device_faults_call(&t->device, r->device, verb, &events);
	if (!re->quiet && error)
		printf("%12.6f %u %s %s fails: %s\n", (double)(r->time - re->start) / (double)WTIME_S, r->pid,
		       t->says.device[r->device].name, fault_verb_name(verb), fault_error_name(error));
	if ((uint64_t)error != was.error || events != was.bits)
		differs(re, r, "a call ends otherwise than recorded");
	for (unsigned i = 0; i < t->device.count; i++) {
		if (!(events >> i & 1))
			continue;
		print_event(re, r, t, r->device, i);
		device_faults_happen(&t->device, i, r->device);
	}
}

static void replay_event(struct replay *re, struct traced *t, const struct trace_record *r)
{
	struct trace_call was;

	re->decisions++;
	if (r->to >= t->device.count || !trace_get_numbers(r, &was, sizeof(was)) ||
	    !(device_faults_due(&t->device, r->time) >> r->to & 1)) {
		differs(re, r, "an event whose time has not come");
		return;
	}
	for (unsigned d = 0; d < t->says.devices; d++) {
		if (!(was.bits >> d & 1))
			continue;
		print_event(re, r, t, d, r->to);
		device_faults_happen(&t->device, r->to, d);
	}
}

static int replay_record(struct replay *re, const struct trace_record *r)
{
	struct traced *t;

	if (re->only && r->pid != re->only)
		return EXIT_OK;
	if (r->kind == TRACE_PROCESS) {
		int status = begin(re, r);

		if (status == EXIT_OK && !re->quiet) {
			t = find(re, r->pid);
			printf("%12.6f %u is %s%s%s\n", (double)(r->time - re->start) / (double)WTIME_S, r->pid, t->says.program,
			       *t->says.impair ? ", impaired by " : "", t->says.impair);
		}
		return status;
	}
	t = find(re, r->pid);
	if (!t)
		return cli_fail("record it again", "process %u has frames but no beginning", r->pid);
	if (r->device >= t->says.devices)
		return cli_fail("record it again", "process %u has a record of a device that it does not name", r->pid);
	if (r->kind == TRACE_LOST)
		return EXIT_OK;
	if (r->kind == TRACE_IMPAIR)
		return change(re, t, r);
	if (r->kind == TRACE_CALL)
		replay_call(re, t, r);
	else if (r->kind == TRACE_EVENT)
		replay_event(re, t, r);
	else if (r->kind == TRACE_OFFERED)
		replay_offered(re, t, r);
	else if (r->kind == TRACE_PASSED)
		replay_passed(re, t, r);
	else
		replay_entry(re, t, r);
	return EXIT_OK;
}

static int no_record(const struct source *s)
{
	int version = trace_version(s->data + s->at, s->bytes - s->at);

	if (version >= 0 && version != TRACE_VERSION)
		return cli_fail("replay it with the weft that recorded it, or record it again",
				"the trace is of version %d, and this weft reads version %d", version, TRACE_VERSION);
	if (s->at == 0)
		return cli_fail("name a file of weft run --trace", "%s is not a weft trace", s->path);
	return cli_fail("record it again", "%s is damaged: there is no record at byte %zu", s->path, s->at);
}

/* The record after the one that was taken. */
static int read_next(struct source *s)
{
	int length = 0;

	s->at += s->length;
	if (s->at < s->bytes)
		length = trace_get(&s->next, s->data + s->at, s->bytes - s->at);
	s->length = 0;
	if (length < 0)
		return no_record(s);
	if (length == 0 && s->at < s->bytes)
		fprintf(stderr, "weft: the last record of %s is cut off\n", s->path);
	s->length = (size_t)length;
	return EXIT_OK;
}

/* Whose next record is the earliest; the order of a file stays. NULL: all are read. */
static struct source *earliest(struct replay *re)
{
	struct source *first = NULL;

	for (int i = 0; i < re->sources; i++) {
		struct source *s = &re->source[i];

		if (s->length && (!first || s->next.time < first->next.time))
			first = s;
	}
	return first;
}

static int replay_all(struct replay *re)
{
	int status = EXIT_OK;
	struct source *s;

	for (int i = 0; i < re->sources && status == EXIT_OK; i++)
		status = read_next(&re->source[i]);
	s = earliest(re);
	re->start = s ? s->next.time : 0;
	for (; status == EXIT_OK && (s = earliest(re)); status = status == EXIT_OK ? read_next(s) : status) {
		status = replay_record(re, &s->next);
		if (re->pcap && status == EXIT_OK && (!re->only || s->next.pid == re->only) && !pcap_file_add(re->pcap, &s->next))
			break;	/* the reason is told when it is closed */
	}
	return status;
}

/* A trace without a frame shows nothing, least of all that a program works. */
static int fail_empty(const struct replay *re)
{
	if (re->only && !find(re, re->only))
		return cli_fail("weft replay FILE shows all processes", "no process %u was recorded in %s", re->only, re->path);
	if (!re->processes)
		return cli_fail("weft doctor PROGRAM may show why", "%s is empty: no program opened a device of weft's",
				re->path);
	return cli_fail("weft qp shows what a running program does", "no frames were recorded in %s", re->path);
}

static int verdict(const struct replay *re)
{
	if (!re->passed && !re->decisions)
		return fail_empty(re);
	if (re->json) {
		int status = output_json(json_pack("{s:b, s:I, s:I, s:I, s:I, s:I}", "as_recorded", !re->different,
						   "frames", (json_int_t)re->passed, "unparsable", (json_int_t)re->refused,
						   "decisions", (json_int_t)re->decisions, "remade", (json_int_t)re->sent,
						   "different", (json_int_t)re->different));

		return re->different ? EXIT_FAILED : status;
	}
	printf("%llu frames passed, of which %llu do not parse; %llu decisions replayed, %llu frames made again, ",
	       re->passed, re->refused, re->decisions, re->sent);
	if (re->different)
		printf("%llu differ from the trace\n", re->different);
	else
		puts("all as recorded");
	return re->different ? EXIT_FAILED : EXIT_OK;
}

static int map_file(const char *path, const uint8_t **data, size_t *bytes)
{
	struct stat st = { 0 };
	int fd = open(path, O_RDONLY | O_CLOEXEC), err = 0;
	void *at = NULL;

	if (fd < 0 || fstat(fd, &st) < 0)
		err = errno;
	else if (st.st_size > 0 && (at = mmap(NULL, (size_t)st.st_size, PROT_READ, MAP_PRIVATE, fd, 0)) == MAP_FAILED)
		err = errno;
	if (fd >= 0)
		close(fd);
	if (err)
		/* cppcheck-suppress memleak ; an error means that nothing was mapped */
		return cli_fail(NULL, "%s: %s", path, strerror(err));
	*data = at;
	*bytes = (size_t)st.st_size;
	return EXIT_OK;
}

static bool is_same_file(const char *one, const char *other)
{
	struct stat a, b;

	return stat(one, &a) == 0 && stat(other, &b) == 0 && a.st_dev == b.st_dev && a.st_ino == b.st_ino;
}

/* No trace is to be overwritten, nor the text mixed with frames. */
static bool is_fit_for_pcap(const char *path, int traces, char **trace)
{
	bool is_fit = strcmp(path, "-") != 0;

	for (int i = 0; i < traces; i++)
		is_fit &= !is_same_file(path, trace[i]);
	return is_fit;
}

/* The last argument behind a file, if it is a number. What is left are files. */
static int read_arguments(struct replay *re, int argc, char **argv)
{
	char *end = NULL;

	if (argc > 1 && argv[argc - 1][strspn(argv[argc - 1], "0123456789")] == '\0') {
		re->only = (uint32_t)strtoul(argv[argc - 1], &end, 10);
		argc--;
	}
	if (argc < 1 || argc > TRACES_MOST || (end && !re->only)) {
		cli_fail("weft replay FILE... [PID]", "trace files are wanted, at most %d, and at most one process number",
			 TRACES_MOST);
		return EXIT_USAGE;
	}
	re->sources = argc;
	re->path = argv[0];
	return EXIT_OK;
}

static int map_files(struct replay *re, char **argv)
{
	int status = EXIT_OK;

	for (int i = 0; i < re->sources && status == EXIT_OK; i++) {
		re->source[i].path = argv[i];
		for (int k = 0; k < i; k++)
			if (is_same_file(argv[k], argv[i]))
				return cli_fail("name each trace once", "%s and %s are one file", argv[k], argv[i]);
		status = map_file(argv[i], &re->source[i].data, &re->source[i].bytes);
	}
	return status;
}

static void end(struct replay *re)
{
	for (struct traced *t = re->processes, *next; t; t = next) {
		next = t->next;
		impair_lanes_fini(&t->lanes);
		replay_engine_delete(t->engine);
		free(t);
	}
	for (int i = 0; i < re->sources; i++)
		if (re->source[i].bytes)
			munmap((void *)(uintptr_t)re->source[i].data, re->source[i].bytes);
}

int cli_replay(const struct cli_options *o, int argc, char **argv)
{
	struct replay re = { .quiet = o->quiet || o->json, .json = o->json };
	int status = read_arguments(&re, argc, argv);

	if (status != EXIT_OK)
		return status;
	if (o->pcap && !is_fit_for_pcap(o->pcap, re.sources, argv)) {
		cli_fail("name another file", "--pcap %s: the frames need a file of their own", o->pcap);
		return EXIT_USAGE;
	}
	status = map_files(&re, argv);
	if (status == EXIT_OK && o->pcap)
		status = pcap_file_create(o->pcap, 0, &re.pcap);
	if (status == EXIT_OK)
		status = replay_all(&re);
	if (re.pcap && pcap_file_close(re.pcap))
		status = EXIT_FAILED;
	if (status == EXIT_OK)
		status = verdict(&re);
	end(&re);
	return status;
}
