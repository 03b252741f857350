/* weft capture: frames of processes that run, as a file for Wireshark and tshark. Each process writes records into a pipe, whose
 * other end weftd gives to us (weftd/captures.h); nobody but us writes the file, and a process waits for us a tenth of a second
 * at most. When we close the connection to weftd, the processes write what they have and close their pipes. */
#include "cli/cli.h"
#include "cli/daemon.h"
#include "cli/output.h"
#include "cli/pcap_file.h"
#include "control/clock.h"
#include "control/message.h"

#include <errno.h>
#include <inttypes.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

/* Our choices: bytes of a pipe at a time, and how often before the next one has its turn. */
enum { BUFFER = 256 << 10, TURNS = 16 };

static const uint64_t LIMIT = 1ull << 30;	/* our choice */
static const wtime GRACE = 2 * WTIME_S;		/* our choice: for processes to send what they have */

/* A process's pipe. */
struct source {
	int fd;				/* owned */
	uint32_t pid, lost;		/* lost: as it says itself */
	size_t used;			/* the beginning of a record that is not whole yet */
	uint8_t start[TRACE_RECORD_MOST];
};

struct capture {
	struct pcap_file *file;		/* owned */
	const char *path, *name;	/* borrowed; name: of the process */
	uint32_t pid;			/* 0: all */
	uint64_t count;			/* frames; 0: any number */
	int weftd, signals;		/* owned; -1: not open */
	struct source **source;		/* owned, each too */
	struct pollfd *polled;		/* owned: weftd, signals, then each source */
	size_t sources;
	uint64_t lost;			/* of sources that have ended */
	bool is_over;			/* nothing more is wanted, or can be written */
	uint8_t buffer[TRACE_RECORD_MOST + BUFFER];
};

enum { POLL_WEFTD, POLL_SIGNALS, POLL_SOURCES };

static bool read_number(const char *text, uint64_t *number)
{
	static const char units[] = "KMG";
	char *end;
	const char *unit;

	errno = 0;
	*number = strtoull(text, &end, 10);
	unit = *end ? strchr(units, *end) : NULL;
	if (*text < '0' || *text > '9' || errno || (*end && (!unit || end[1])))
		return false;
	for (const char *u = units; unit && u <= unit; u++) {
		if (*number > UINT64_MAX >> 10)
			return false;
		*number <<= 10;
	}
	return *number > 0;
}

/* What the command line says. An exit status. */
static int read_wishes(const struct cli_options *o, int argc, char **argv, struct capture *c, uint64_t *limit)
{
	char *end = NULL;

	*limit = LIMIT;
	if (argc < 1 || argc > 2) {
		cli_fail("weft capture FILE [PID|all]", "a file is wanted, and at most one process");
		return EXIT_USAGE;
	}
	c->path = argv[0];
	c->name = argc == 2 ? argv[1] : "all";
	if (strcmp(c->name, "all") != 0) {
		unsigned long pid = strtoul(c->name, &end, 10);

		c->pid = *c->name >= '1' && *c->name <= '9' && !*end && pid <= INT32_MAX ? (uint32_t)pid : 0;
	}
	if (end && !c->pid) {
		cli_fail("weft status lists the processes", "'%s' is neither a PID nor all", c->name);
		return EXIT_USAGE;
	}
	if ((o->limit && !read_number(o->limit, limit)) || (o->count && !read_number(o->count, &c->count))) {
		cli_fail("--limit 100M, --count 1000", "a limit is a number of bytes, a count one of frames");
		return EXIT_USAGE;
	}
	if (o->json && strcmp(c->path, "-") == 0) {
		cli_fail("name a file", "the standard output has the frames");
		return EXIT_USAGE;
	}
	return EXIT_OK;
}

static int tell_refusal(const struct capture *c, int err)
{
	if (err == -ENOENT)
		return cli_fail("weft status lists the processes that are", "process %s is not attached", c->name);
	if (err == -EPERM)
		return cli_fail("capture your own processes, as the user and group that they have",
				"the frames of %s%s are not yours to see", c->pid ? "process " : "", c->name);
	if (err == -EBUSY)
		return cli_fail("end the other one first", "another weft capture has the frames of %s%s",
				c->pid ? "process " : "", c->name);
	return daemon_fail(err, "weft doctor", "weftd does not pass the capture on");
}

/* Signals end a capture: they are taken from a descriptor. */
static int open_signals(struct capture *c)
{
	sigset_t set;

	sigemptyset(&set);
	sigaddset(&set, SIGINT);
	sigaddset(&set, SIGTERM);
	sigaddset(&set, SIGHUP);
	sigprocmask(SIG_BLOCK, &set, NULL);
	signal(SIGPIPE, SIG_IGN);
	c->signals = signalfd(-1, &set, SFD_CLOEXEC);
	return c->signals < 0 ? cli_fail(NULL, "%s", strerror(errno)) : EXIT_OK;
}

/* weftd is started for a capture of all, as programs may come. */
static int begin(const struct cli_options *o, struct capture *c, uint32_t *processes)
{
	struct control_msg msg = { .type = CTL_CAPTURE, .slot = c->pid };
	struct rundir d;
	int err;

	if (daemon_directory(o->system, &d))
		return EXIT_FAILED;
	c->weftd = c->pid ? daemon_connect(&d, CONTROL_COMMAND) : daemon_start(&d, CONTROL_COMMAND, false);
	if (c->weftd == -ENOENT)
		return tell_refusal(c, -ENOENT);
	if (c->weftd < 0)
		return EXIT_FAILED;
	err = daemon_call(c->weftd, &msg, NULL);
	*processes = msg.b;
	return err ? tell_refusal(c, err) : EXIT_OK;
}

/* Room for one source more. */
static bool grow(struct capture *c)
{
	struct source **source = realloc(c->source, (c->sources + 1) * sizeof(*source));
	struct pollfd *polled;

	if (!source)
		return false;
	c->source = source;
	polled = realloc(c->polled, (POLL_SOURCES + c->sources + 1) * sizeof(*polled));
	if (!polled)
		return false;
	c->polled = polled;
	return true;
}

/* The pipe is ours from now on. */
static void add_source(struct capture *c, int fd, uint32_t pid)
{
	struct source *s = grow(c) ? calloc(1, sizeof(*s)) : NULL;

	if (!s) {
		cli_fail(NULL, "process %u is not captured: %s", pid, strerror(ENOMEM));
		close(fd);
		return;
	}
	s->fd = fd;
	s->pid = pid;
	c->source[c->sources++] = s;
}

static void end_source(struct capture *c, size_t i)
{
	c->lost += c->source[i]->lost;
	close(c->source[i]->fd);
	free(c->source[i]);
	c->source[i] = c->source[--c->sources];
}

/* Records of one process; it speaks for no other. How many bytes of whole ones; SIZE_MAX: there is what no process writes. */
static size_t take_records(struct capture *c, struct source *s, size_t bytes)
{
	struct trace_record r;
	size_t at = 0;
	int length;

	while (!c->is_over && (length = trace_get(&r, c->buffer + at, bytes - at)) != 0) {
		if (length < 0)
			return SIZE_MAX;
		r.pid = s->pid;
		if (r.kind == TRACE_LOST)
			s->lost = r.to;
		c->is_over = !pcap_file_add(c->file, &r) || (c->count && pcap_file_frames(c->file) >= c->count);
		at += (size_t)length;
	}
	return at;
}

/* What there is, or enough of it for a turn. False: the process writes no more, or what is no record. */
static bool take_in(struct capture *c, struct source *s)
{
	for (int turn = 0; turn < TURNS && !c->is_over; turn++) {
		ssize_t n = read(s->fd, c->buffer + s->used, BUFFER);
		size_t bytes, taken;

		if (n <= 0)
			return n < 0 && (errno == EAGAIN || errno == EINTR);
		memcpy(c->buffer, s->start, s->used);
		bytes = s->used + (size_t)n;
		taken = take_records(c, s, bytes);
		if (taken > bytes || bytes - taken >= sizeof(s->start))
			return c->is_over;
		s->used = bytes - taken;
		memcpy(s->start, c->buffer + taken, s->used);
	}
	return true;
}

static void end_at_weftd(struct capture *c)
{
	if (c->weftd >= 0)
		close(c->weftd);
	c->weftd = -1;
}

/* A process that is captured from now on. False: weftd is gone. */
static bool take_message(struct capture *c)
{
	int fds[CONTROL_FDS], nfds = 0, err;
	struct control_msg msg;

	err = message_receive(c->weftd, &msg, NULL, 0, fds, &nfds, MSG_DONTWAIT);
	if (err)
		return err == -EAGAIN || err == -EMFILE;
	while (nfds > 1)
		close(fds[--nfds]);
	if (nfds)
		add_source(c, fds[0], msg.slot);
	else if (msg.type == CTL_CAPTURE && msg.status)
		fprintf(stderr, "weft: process %u is not captured: %s\n", msg.slot, strerror(msg.status));
	return nfds || !msg.status || !c->pid;
}

/* Waits, and takes in what came. True: something ends the capture. */
static bool turn(struct capture *c, int wait_ms)
{
	struct pollfd *p = c->polled;
	bool ends;

	p[POLL_WEFTD] = (struct pollfd){ c->weftd, POLLIN, 0 };
	p[POLL_SIGNALS] = (struct pollfd){ c->signals, POLLIN, 0 };
	for (size_t i = 0; i < c->sources; i++)
		p[POLL_SOURCES + i] = (struct pollfd){ c->source[i]->fd, POLLIN, 0 };
	if (poll(p, POLL_SOURCES + c->sources, wait_ms) <= 0)
		return false;
	ends = p[POLL_SIGNALS].revents;
	for (size_t i = c->sources; i-- > 0 && !c->is_over;) {
		if (!p[POLL_SOURCES + i].revents || take_in(c, c->source[i]))
			continue;
		end_source(c, i);
		ends |= c->pid && !c->sources;
	}
	pcap_file_flush(c->file);
	if (p[POLL_WEFTD].revents && !take_message(c))
		ends = true;
	return ends || c->is_over;
}

/* What is still on its way: a process that is stopped keeps its pipe. */
static void finish(struct capture *c)
{
	wtime until = clock_now() + GRACE, now;

	end_at_weftd(c);
	close(c->signals);
	c->signals = -1;
	while (!c->is_over && c->sources && (now = clock_now()) < until)
		turn(c, (int)((until - now) / WTIME_MS) + 1);
}

static uint64_t lost(const struct capture *c)
{
	uint64_t n = c->lost;

	for (size_t i = 0; i < c->sources; i++)
		n += c->source[i]->lost;
	return n;
}

static int report(const struct cli_options *o, const struct capture *c)
{
	uint64_t frames = pcap_file_frames(c->file), bytes = pcap_file_bytes(c->file);

	if (o->json)
		return output_json(json_pack("{s:s, s:I, s:I, s:i, s:I, s:b}", "file", c->path, "frames", (json_int_t)frames,
					     "bytes", (json_int_t)bytes, "processes", (int)pcap_file_processes(c->file), "lost",
					     (json_int_t)lost(c), "full", pcap_file_is_full(c->file)));
	fprintf(stderr, "weft: %" PRIu64 " frames of %u processes are in %s, %" PRIu64 " bytes%s\n", frames,
		pcap_file_processes(c->file), strcmp(c->path, "-") == 0 ? "the standard output" : c->path, bytes,
		pcap_file_is_full(c->file) ? ": the limit" : "");
	if (lost(c))
		fprintf(stderr, "weft: %" PRIu64 " frames are missing: they came faster than they could be written\n", lost(c));
	return EXIT_OK;
}

/* The wall clock, where the clock of records begins. */
static wtime epoch(void)
{
	struct timespec t;

	clock_gettime(CLOCK_REALTIME, &t);
	return (wtime)t.tv_sec * WTIME_S + (wtime)t.tv_nsec - clock_now();
}

static int capture(const struct cli_options *o, struct capture *c, uint64_t limit)
{
	uint32_t processes = 0;
	int status = begin(o, c, &processes), written;

	/* a file that waits for its reader is given up by a signal */
	if (status == EXIT_OK)
		status = pcap_file_create(c->path, limit, &c->file);
	if (status == EXIT_OK)
		status = open_signals(c);
	if (status != EXIT_OK)
		return status;
	pcap_file_stop_on(c->file, c->signals);
	pcap_file_set_epoch(c->file, epoch());
	pcap_file_flush(c->file);
	fprintf(stderr, "weft: capturing %u processes%s; ^C ends it\n", processes, c->pid ? "" : ", and those that start");
	while (!turn(c, -1)) {
	}
	finish(c);
	status = report(o, c);
	written = pcap_file_close(c->file);
	return status == EXIT_OK ? written : status;
}

int cli_capture(const struct cli_options *o, int argc, char **argv)
{
	struct capture *c = calloc(1, sizeof(*c));
	struct pollfd *polled = calloc(POLL_SOURCES, sizeof(*polled));
	uint64_t limit;
	int status;

	if (!c || !polled) {
		free(c);
		free(polled);
		return cli_fail(NULL, "%s", strerror(ENOMEM));
	}
	c->polled = polled;
	c->weftd = c->signals = -1;
	status = read_wishes(o, argc, argv, c, &limit);
	if (status == EXIT_OK)
		status = capture(o, c, limit);
	end_at_weftd(c);
	while (c->sources)
		end_source(c, c->sources - 1);
	if (c->signals >= 0)
		close(c->signals);
	free(c->source);
	free(c->polled);
	free(c);
	return status;
}
