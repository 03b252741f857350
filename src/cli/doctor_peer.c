/* weft doctor --peer: what is in the way between this host and another one, from the near end to the far one. What cannot be
 * tried because of what is before it says so. */
#include "cli/cli.h"
#include "cli/daemon.h"
#include "cli/doctor.h"
#include "cli/output.h"
#include "cli/pinger.h"
#include "link/udp.h"

#include <errno.h>
#include <netdb.h>
#include <stdbool.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

/* Our choices: a second for each look takes as long as a person waits; fewer questions in a second than are answered
 * (weftd/pings.h). */
enum { TRIES = 3, ROUNDS = 100, PAUSE_MS = 10, MOST_LOST_IN_A_ROW = 4 };

static const wtime PATIENCE = WTIME_S, SHORT_PATIENCE = 250 * WTIME_MS;

struct pair {
	struct rundir dir;
	const char *host;
	struct pinger p;
	bool is_routed, is_open, is_there;
	unsigned payload_mtu;	/* as this host's kernel knows; 0: not */
	char version[PINGER_TEXT];
	char advice[200];
};

static void untried(struct finding *f)
{
	finding_say(f, FAILED, "see above", "cannot be tried");
}

static void check_name(struct pair *p, struct finding *f)
{
	int error = pinger_resolve(&p->p, p->host);

	if (error)
		finding_say(f, FAILED, "name it by its IP address, or mend /etc/hosts or DNS", "%.200s: %s", p->host,
			    gai_strerror(error));
	else
		finding_say(f, FINE, NULL, "%.200s is %s", p->host, p->p.to_text);
}

static void check_route(struct pair *p, struct finding *f)
{
	int fd, err = *p->p.to_text ? pinger_route(&p->p) : -EINVAL;

	if (!*p->p.to_text) {
		untried(f);
		return;
	}
	if (err) {
		finding_say(f, FAILED, "ip route get ADDRESS shows the route", "there is no route to %s: %s", p->p.to_text,
			    strerror(-err));
		return;
	}
	fd = daemon_start(&p->dir, CONTROL_COMMAND, false);
	if (fd < 0)
		finding_say(f, FAILED, "weft doctor", "no weftd runs, or can be started");
	else if (pinger_find_gid(&p->p, fd))
		finding_say(f, FAILED, "weft devices lists those that it knows",
			    "%s, by which packets leave, is no GID of weft1", p->p.from_text);
	else if (memcmp(p->p.from, p->p.to, sizeof(p->p.to)) == 0)
		finding_say(f, FAILED, "name another host", "%s is an address of this host", p->p.to_text);
	else
		finding_say(f, FINE, NULL, "from %s, which is GID %d of weft1, by %s", p->p.from_text, p->p.gid_index,
			    p->p.interface);
	p->is_routed = f->verdict == FINE;
}

static void check_own_port(struct pair *p, struct finding *f)
{
	int err;

	if (!p->is_routed) {
		untried(f);
		return;
	}
	p->p.socket = daemon_start(&p->dir, CONTROL_COMMAND, false);
	err = p->p.socket < 0 ? -ENOTCONN : pinger_hold(p->p.socket);
	p->is_open = !err;
	if (err)
		finding_say(f, FAILED, pinger_advice(-err, p->advice, sizeof(p->advice)), "%s", pinger_cause(-err));
	else
		finding_say(f, FINE, NULL, "UDP port 4791 of this host is weftd's");
}

static void check_mtu(struct pair *p, struct finding *f)
{
	int bytes = p->is_routed ? udp_path_mtu(p->p.from, p->p.to) : 0;

	p->payload_mtu = bytes > 0 ? udp_payload_mtu((unsigned)bytes) : 0;
	if (!p->is_routed)
		untried(f);
	else if (p->payload_mtu)
		finding_say(f, FINE, NULL, "%d bytes, as this host knows it: a path MTU of %u", bytes, p->payload_mtu);
	else
		finding_say(f, FAILED, "ip link set dev DEVICE mtu 1500", "%d bytes: too few for any path MTU", bytes);
}

/* Why a ping has no answer. */
static void blame(struct pair *p, int err, struct finding *f)
{
	int why = pinger_why(&p->p, PINGER_LEAST, err);

	finding_say(f, FAILED, pinger_advice(why, p->advice, sizeof(p->advice)), "%s", pinger_cause(why));
}

static void check_far_port(struct pair *p, struct finding *f)
{
	struct pong pong;
	int err = -ETIMEDOUT;

	if (!p->is_open) {
		untried(f);
		return;
	}
	for (int i = 0; i < TRIES && err == -ETIMEDOUT; i++)
		err = pinger_ask(&p->p, PINGER_LEAST, PATIENCE, &pong);
	p->is_there = !err;
	if (err) {
		blame(p, err, f);
	} else {
		memcpy(p->version, pong.version, sizeof(p->version));
		finding_say(f, FINE, NULL, "the weftd of %s answers after %.3f ms", p->p.to_text,
			    (double)pong.round_trip / WTIME_MS);
	}
}

static void check_version(struct pair *p, struct finding *f)
{
	if (!p->is_there)
		untried(f);
	else if (strcmp(p->version, WEFT_VERSION) == 0)
		finding_say(f, FINE, NULL, "both are weft %s", WEFT_VERSION);
	else
		finding_say(f, WARNING, "use the same on both", "there it is weft %s, here %s", p->version, WEFT_VERSION);
}

static void check_loss(struct pair *p, struct finding *f)
{
	unsigned sent = 0, lost = 0, in_a_row = 0;
	double least = 0, most = 0;
	struct pong pong;

	if (!p->is_there) {
		untried(f);
		return;
	}
	for (; sent < ROUNDS && in_a_row < MOST_LOST_IN_A_ROW; sent++) {
		bool is_lost = pinger_ask(&p->p, PINGER_LEAST, SHORT_PATIENCE, &pong) != 0;
		double ms = is_lost ? 0 : (double)pong.round_trip / WTIME_MS;

		lost += is_lost;
		in_a_row = is_lost ? in_a_row + 1 : 0;
		most = ms > most ? ms : most;
		least = !is_lost && (least == 0 || ms < least) ? ms : least;
		nanosleep(&(struct timespec){ .tv_nsec = PAUSE_MS * 1000000 }, NULL);
	}
	if (lost)
		finding_say(f, WARNING, "look at the drops of ip -s link and nstat on both, and at what is between them",
			    "%u of %u pings are lost; round trips of %.3f to %.3f ms", lost, sent, least, most);
	else
		finding_say(f, FINE, NULL, "none of %u pings is lost; round trips of %.3f to %.3f ms", sent, least, most);
}

static bool passes(struct pair *p, unsigned bytes)
{
	struct pong pong;
	int err = -ETIMEDOUT;

	for (int i = 0; i < TRIES && err == -ETIMEDOUT; i++)
		err = pinger_ask(&p->p, bytes, SHORT_PATIENCE, &pong);
	return !err;
}

/* The longest that is answered, against what this host's kernel makes of the path. */
static void check_long(struct pair *p, struct finding *f)
{
	unsigned bytes = p->payload_mtu;

	if (!p->is_there || !bytes) {
		untried(f);
		return;
	}
	while (bytes > PINGER_LEAST && !passes(p, bytes))
		bytes /= 2;
	if (bytes == p->payload_mtu)
		finding_say(f, FINE, NULL, "packets of %u bytes of payload pass, both ways", bytes);
	else
		finding_say(f, WARNING,
			    "give programs a smaller path MTU (perftest: -m), or mend the MTU of what is between the hosts",
			    "packets of %u bytes of payload pass, and %u do not", bytes, 2 * bytes);
}

static const struct {
	const char *name;
	void (*check)(struct pair *p, struct finding *f);
} checks[] = {
	{ "name", check_name },
	{ "route", check_route },
	{ "own port", check_own_port },
	{ "path MTU", check_mtu },
	{ "port there", check_far_port },
	{ "version", check_version },
	{ "loss", check_loss },
	{ "long packets", check_long },
};

int doctor_peer(const struct cli_options *o)
{
	struct pair p = { .host = o->peer, .p.socket = -1 };
	json_t *all = json_array();
	bool has_failed = false;

	if (daemon_directory(o->system, &p.dir)) {
		json_decref(all);
		return EXIT_FAILED;
	}
	for (size_t i = 0; i < sizeof(checks) / sizeof(checks[0]); i++) {
		struct finding f = { 0 };

		checks[i].check(&p, &f);
		has_failed |= f.verdict == FAILED;
		finding_show(&f, checks[i].name, o->json ? all : NULL);
	}
	if (p.p.socket >= 0)
		close(p.p.socket);
	if (o->json)
		has_failed |= output_json(json_pack("{s:s, s:b, s:O}", "peer", o->peer, "healthy", !has_failed, "checks", all)) !=
			      EXIT_OK;
	json_decref(all);
	return has_failed ? EXIT_FAILED : EXIT_OK;
}
