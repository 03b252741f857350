/* weft ping: asks the weftd of another host whether it is there, as ping(8) asks its kernel; and lets others ask this one. A host
 * of the network's fabric is asked through the fabric. */
#include "cli/cli.h"
#include "cli/daemon.h"
#include "cli/fabric_net.h"
#include "cli/fabric_ping.h"
#include "cli/output.h"
#include "cli/pinger.h"
#include "control/clock.h"

#include <errno.h>
#include <netdb.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

static const wtime PATIENCE = WTIME_S;

struct plan {
	double count, interval, bytes;	/* count 0: until ^C */
};

struct tally {
	unsigned sent, answered;
	double least, most, sum;	/* ms */
	char version[PINGER_TEXT];
	int err;			/* the last one's */
};

/* Who is asked: one of the two is not NULL. */
struct target {
	struct pinger *host;
	struct fabric_ping *node;	/* of the fabric */
	const char *to;
};

static volatile sig_atomic_t is_over;

static void end(int signal)
{
	(void)signal;
	is_over = 1;
}

static void catch_signals(void)
{
	const struct sigaction a = { .sa_handler = end };

	sigaction(SIGINT, &a, NULL);
	sigaction(SIGTERM, &a, NULL);
}

static bool read_number(const char *text, double least, double most, double *number)
{
	char *end;

	if (!text)
		return true;
	*number = strtod(text, &end);
	return end != text && !*end && *number >= least && *number <= most;
}

static int read_plan(const struct cli_options *o, struct plan *plan)
{
	*plan = (struct plan){ 0, 1, PINGER_LEAST };
	if (!read_number(o->count, 1, 1e9, &plan->count))
		cli_fail("weft ping -c 5 HOST", "--count %s is no number of questions", o->count);
	else if (!read_number(o->interval, 0.01, 3600, &plan->interval))
		cli_fail("weft ping -s 0.1 HOST", "--interval %s is not a number of seconds from 0.01 to 3600", o->interval);
	else if (!read_number(o->size, PINGER_LEAST, PINGER_MOST, &plan->bytes))
		cli_fail("weft ping --size 1024 HOST", "--size %s is not a number of bytes from %d to %d", o->size, PINGER_LEAST,
			 PINGER_MOST);
	else
		return EXIT_OK;
	return EXIT_USAGE;
}

static void note(struct tally *t, const struct pong *pong)
{
	double ms = (double)pong->round_trip / WTIME_MS;

	t->least = t->answered && t->least < ms ? t->least : ms;
	t->most = t->most > ms ? t->most : ms;
	t->sum += ms;
	t->answered++;
	memcpy(t->version, pong->version, sizeof(t->version));
}

static void pause_until(wtime at)
{
	wtime now = clock_now();

	if (now < at)
		nanosleep(&(struct timespec){ (time_t)((at - now) / WTIME_S), (long)((at - now) % WTIME_S) }, NULL);
}

static int ask(const struct target *to, unsigned bytes, struct pong *pong)
{
	return to->node ? fabric_ping_ask(to->node, PATIENCE, pong) : pinger_ask(to->host, bytes, PATIENCE, pong);
}

static void run(const struct cli_options *o, const struct target *to, const struct plan *plan, struct tally *t)
{
	struct pong pong;
	wtime begin = 0;

	while (!is_over && (!plan->count || t->sent < plan->count)) {
		if (t->sent)
			pause_until(begin + (wtime)(plan->interval * (double)WTIME_S));
		if (is_over)
			break;
		begin = clock_now();
		t->sent++;
		t->err = ask(to, (unsigned)plan->bytes, &pong);
		if (!t->err)
			note(t, &pong);
		if (o->json || o->quiet)
			continue;
		if (t->err)
			printf("no answer: seq=%u\n", t->sent);
		else
			printf("%u bytes from %s: seq=%u time=%.3f ms\n", (unsigned)plan->bytes, to->to, t->sent,
			       (double)pong.round_trip / WTIME_MS);
		fflush(stdout);
		if (t->err && t->err != -ETIMEDOUT)
			break;
	}
}

static double lost_percent(const struct tally *t)
{
	return t->sent ? 100.0 * (t->sent - t->answered) / t->sent : 0;
}

static void print_tally(const struct tally *t)
{
	printf("%u sent, %u answered, %.0f%% lost", t->sent, t->answered, lost_percent(t));
	if (t->answered)
		printf("; round trip %.3f/%.3f/%.3f ms (least, mean, most)", t->least, t->sum / t->answered, t->most);
}

/* Of a host of the fabric. */
static int report_node(const struct cli_options *o, const struct fabric_ping *p, const struct tally *t)
{
	int status = t->answered ? EXIT_OK : EXIT_FAILED;

	if (o->json) {
		json_t *json = json_pack("{s:s, s:s, s:i, s:i, s:i, s:i, s:f, s:f, s:f, s:f}", "peer", p->to, "from", p->from,
					 "lid", (int)p->lid, "bytes", FABRIC_PING_BYTES, "sent", (int)t->sent, "answered",
					 (int)t->answered, "lost_percent", lost_percent(t), "least_ms", t->least, "mean_ms",
					 t->answered ? t->sum / t->answered : 0, "most_ms", t->most);

		return output_json(json) == EXIT_OK ? status : EXIT_FAILED;
	}
	print_tally(t);
	putchar('\n');
	fflush(stdout);
	return t->answered ? status : cli_fail("weft fabric check says whether paths lead there", "%s does not answer %s", p->to,
					       p->from);
}

static int report(const struct cli_options *o, struct pinger *p, const struct plan *plan, const struct tally *t)
{
	double mean = t->answered ? t->sum / t->answered : 0;
	int status = t->answered ? EXIT_OK : EXIT_FAILED;
	char text[200];
	int why = 0;

	if (!t->answered)
		why = pinger_why(p, (unsigned)plan->bytes, t->err);
	if (o->json) {
		json_t *json = json_pack("{s:s, s:s, s:i, s:i, s:i, s:i, s:f, s:s, s:f, s:f, s:f}", "peer", p->to_text, "from",
					 p->from_text, "gid_index", p->gid_index, "bytes", (int)plan->bytes, "sent", (int)t->sent,
					 "answered", (int)t->answered, "lost_percent", lost_percent(t), "version", t->version,
					 "least_ms", t->least, "mean_ms", mean, "most_ms", t->most);

		if (!t->answered)
			json_object_set_new(json, "cause", json_string(pinger_cause(why)));
		return output_json(json) == EXIT_OK ? status : EXIT_FAILED;
	}
	print_tally(t);
	if (t->answered)
		printf("; weft %s there", t->version);
	putchar('\n');
	fflush(stdout);
	return t->answered ? status : cli_fail(pinger_advice(why, text, sizeof(text)), "%s: %s", p->to_text, pinger_cause(why));
}

/* The socket of a weftd that has the port open, or -1 with everything told. */
static int hold(const struct cli_options *o)
{
	struct rundir d;
	char text[200];
	int fd, err;

	if (daemon_directory(o->system, &d))
		return -1;
	fd = daemon_start(&d, CONTROL_COMMAND, false);
	if (fd < 0)
		return -1;
	err = pinger_hold(fd);
	if (!err)
		return fd;
	cli_fail(pinger_advice(-err, text, sizeof(text)), "%s", pinger_cause(-err));
	close(fd);
	return -1;
}

static int listen_for_others(const struct cli_options *o)
{
	struct pollfd end = { .events = POLLIN };
	sigset_t ends, before;
	int fd;

	sigemptyset(&ends);
	sigaddset(&ends, SIGINT);
	sigaddset(&ends, SIGTERM);
	sigprocmask(SIG_BLOCK, &ends, &before);
	catch_signals();
	fd = hold(o);
	if (fd < 0)
		return EXIT_FAILED;
	end.fd = fd;
	puts("UDP port 4791 is open, and pings are answered, until ^C");
	fflush(stdout);
	/* weftd says nothing by itself: the connection ends with it */
	while (!is_over && ppoll(&end, 1, NULL, &before) <= 0)
		;
	close(fd);
	return is_over ? EXIT_OK : cli_fail("start weft ping --listen again", "weftd has ended, and with it the port is closed");
}

static int find_way(const struct cli_options *o, struct pinger *p)
{
	struct rundir d;
	int fd, err;

	err = pinger_route(p);
	if (err)
		return cli_fail("ip route get ADDRESS shows the route", "there is no route to %s", p->to_text);
	if (daemon_directory(o->system, &d))
		return EXIT_FAILED;
	fd = daemon_start(&d, CONTROL_COMMAND, false);
	if (fd < 0)
		return EXIT_FAILED;
	if (pinger_find_gid(p, fd))
		return cli_fail("weft devices lists those that it knows", "%s, by which %s is reached, is no GID of weft1",
				p->from_text, p->to_text);
	if (memcmp(p->from, p->to, sizeof(p->to)) == 0)
		return cli_fail("name another host", "%s is an address of this host", p->to_text);
	p->socket = hold(o);
	return p->socket < 0 ? EXIT_FAILED : EXIT_OK;
}

static int ping_node(const struct cli_options *o, const char *name, const struct plan *plan)
{
	struct tally tally = { 0 };
	struct fabric_ping node;
	const struct target to = { .node = &node, .to = node.to };
	int status;

	if (plan->bytes != FABRIC_PING_BYTES) {
		cli_fail("leave --size out", "a host of the fabric is asked by a management datagram, which has %d bytes",
			 FABRIC_PING_BYTES);
		return EXIT_USAGE;
	}
	status = fabric_ping_open(&node, o, name);
	if (status != EXIT_OK)
		return status;
	catch_signals();
	if (!o->json)
		printf("%s from %s, over the fabric: %s\n", node.to, node.from, node.what);
	run(o, &to, plan, &tally);
	close(node.file.fd);
	return report_node(o, &node, &tally);
}

int cli_ping(const struct cli_options *o, int argc, char **argv)
{
	struct tally tally = { 0 };
	struct pinger p;
	struct plan plan;
	int error, status = read_plan(o, &plan);

	if (status != EXIT_OK)
		return status;
	if (argc != !o->listen) {
		cli_fail("weft ping HOST, or weft ping --listen", "one host is wanted");
		return EXIT_USAGE;
	}
	if (o->listen)
		return listen_for_others(o);
	if (fabric_net_has(o, argv[0]))
		return ping_node(o, argv[0], &plan);
	error = pinger_resolve(&p, argv[0]);
	if (error)
		return cli_fail("a name or an IP address is wanted", "%s: %s", argv[0], gai_strerror(error));
	status = find_way(o, &p);
	if (status != EXIT_OK)
		return status;
	catch_signals();
	if (!o->json)
		printf("%s from %s (GID %d of weft1, %s): %u bytes\n", p.to_text, p.from_text, p.gid_index, p.interface,
		       (unsigned)plan.bytes);
	run(o, &(struct target){ .host = &p, .to = p.to_text }, &plan, &tally);
	status = report(o, &p, &plan, &tally);
	close(p.socket);
	return status;
}
