/* weft fabric load, unload and link, and a copy for check: the fabric of a running network. The topology is read, routed and
 * judged here; weftd gets the tables alone. Names are looked up here too: weftd knows ports by their numbers. */
#include "cli/fabric_net.h"

#include "cli/daemon.h"
#include "cli/environment.h"
#include "cli/fabric.h"
#include "cli/manager_options.h"
#include "cli/output.h"
#include "cli/partitions.h"
#include "control/fabric_file.h"
#include "control/message.h"
#include "fabric/host.h"
#include "impair/impair.h"
#include "link/memfile.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <unistd.h>

static const char load_one[] = "weft fabric load FILE";
static const char after_end[] = "weft up, and ask again: the next weftd takes up the network";
static const char by_manager[] = "weft's subnet manager";

/* ---- what weftd has ---- */

struct view {
	struct fabric f;	/* owned mapping */
	uint32_t number;
};

static int map_view(struct view *v, int fd)
{
	char why[200];
	int err = fabric_file_map(&v->f, fd, false, why, sizeof(why));

	if (!err)
		return EXIT_OK;
	if (err == -ENOMEM)
		return fabric_no_memory();
	return cli_fail(load_one, "the network's fabric is not sound: %s", err == -EINVAL ? why : strerror(-err));
}

static int fail_call(int err)
{
	if (err == -ENOENT)
		return cli_fail(load_one, "the network has no fabric");
	if (message_peer_ended(err))
		return cli_fail(after_end, "weftd has ended before it answered");
	if (err == -EOPNOTSUPP)
		return cli_fail("another network, whose --devices have one of the kind ib",
				"a fabric is for a network with one InfiniBand device");
	if (err == -EDQUOT)
		return cli_fail("use hosts that were used before, another network (WEFT_DIR), or have the fabric loaded anew",
				"so many hosts of this fabric were used that there are no device files for another one");
	if (err == -ESTALE)
		return cli_fail("try again", "another fabric was loaded in this moment");
	if (err == -ENETDOWN)
		return cli_fail("weft fabric link NODE:PORT up", "the link is down: its ports notice nothing");
	if (err == -EBUSY)
		return cli_fail("bring some up", "so many links are down for a time that no other can be");
	if (err == -EPERM)
		return cli_fail("ask the user who owns it, or root", "the network is not yours to change: %s",
				strerror(-err));
	return daemon_fail(err, "look into weftd.log", "weftd cannot do it");
}

/* An exit status with everything told, or -errno with nothing told: weftd has ended. */
static int try_to_view(struct view *v, int socket)
{
	struct control_msg msg = { .type = CTL_NODE };
	int fd, status, err = daemon_get(socket, &msg, &fd);

	if (message_peer_ended(err))
		return err;
	if (err == -ENOENT)
		return fail_call(err);
	if (err)
		return daemon_fail(err, "weft doctor", "weftd does not give its fabric");
	v->number = msg.b;
	status = map_view(v, fd);
	close(fd);
	return status;
}

static int view(struct view *v, int socket)
{
	int status = try_to_view(v, socket);

	return status < 0 ? fail_call(status) : status;
}

int fabric_net_call(int socket, struct control_msg *msg)
{
	int err = daemon_call(socket, msg, NULL);

	return err ? fail_call(err) : EXIT_OK;
}

bool fabric_net_has(const struct cli_options *o, const char *name)
{
	struct control_msg msg = { .type = CTL_NODE };
	struct view v = { .number = 0 };
	struct rundir d;
	int fd = daemon_directory(o->system, &d) ? -1 : daemon_connect(&d, CONTROL_COMMAND), file;
	bool has = false;

	if (fd < 0)
		return false;
	if (!daemon_get(fd, &msg, &file)) {
		if (map_view(&v, file) == EXIT_OK) {
			has = host_has_programs(&v.f, host_find_port(&v.f, name));
			fabric_file_unmap(&v.f);
		}
		close(file);
	}
	close(fd);
	return has;
}

int fabric_net_node(int socket, const char *name, uint32_t only, uint32_t *at)
{
	struct control_msg msg = { .type = CTL_NODE };
	struct view v = { .number = 0 };
	uint32_t place;
	int status = try_to_view(&v, socket), err;

	if (status != EXIT_OK)
		return status;
	place = host_find_place(&v.f, name);
	fabric_file_unmap(&v.f);
	if (place == PORT_NONE)
		return cli_fail("name a host of the topology that was loaded, or a port of it as NAME:PORT",
				"the network's fabric has no host '%s' with a link", name);
	*at = place + 1;
	msg.a = place + 1;
	msg.b = v.number;
	msg.c = only;
	err = daemon_call(socket, &msg, NULL);
	if (err == -EINVAL && only)
		return cli_fail("weft run --node HOST -- ibv_devices lists them", "the host '%s' has not all of these devices",
				name);
	if (message_peer_ended(err))
		return err;
	if (err == -EDQUOT && msg.c == LIMIT_CHOICES)
		return environment_refused_choice();
	return err ? fail_call(err) : EXIT_OK;
}

/* ---- load, unload ---- */

/* A network that stays, as the fabric would be gone with it. Its socket, or -1 with everything told. */
static int keep_network(const struct cli_options *o, struct rundir *d)
{
	return daemon_directory(o->system, d) ? -1 : daemon_keep(d);
}

static int tell_result(int err, uint32_t processes)
{
	if (err == -EBUSY)
		return cli_fail("end them (weft status lists them)", "%u processes are at ports of the fabric that is loaded",
				processes);
	return err ? fail_call(err) : EXIT_OK;
}

/* A memory file with the tables, or -1 with everything told. */
static int make_file(const struct loaded *l)
{
	int fd = memfd_create("weft-fabric", MFD_CLOEXEC), err = fd < 0 ? -errno : memfile_resize(fd, l->bytes);

	for (size_t at = 0; !err && at < l->bytes;) {
		ssize_t n = pwrite(fd, (const char *)l->mapping + at, l->bytes - at, (off_t)at);

		if (n < 0 && errno != EINTR)
			err = -errno;
		at += n > 0 ? (size_t)n : 0;
	}
	if (!err)
		return fd;
	cli_fail("raise the limit on file sizes, or end programs that take much memory", "no memory for the fabric: %s",
		 strerror(-err));
	if (fd >= 0)
		close(fd);
	return -1;
}

static int give(const struct cli_options *o, const struct loaded *l, const char *routing)
{
	bool is_managed = l->f.head->manager;
	struct control_msg msg = { .type = CTL_FABRIC };
	struct rundir d;
	int file = make_file(l), fd = file < 0 ? -1 : keep_network(o, &d), status = EXIT_FAILED;

	if (fd >= 0) {
		int err = daemon_give(fd, &msg, file);

		status = tell_result(err, msg.a);
	}
	if (fd >= 0)
		close(fd);
	if (file >= 0)
		close(file);
	if (status != EXIT_OK)
		return status;
	if (o->json)
		return output_json(json_pack("{s:i, s:I, s:s, s:b, s:s}", "nodes", (int)l->f.nodes, "bytes",
					     (json_int_t)l->bytes, "routing", routing, "managed", is_managed, "directory",
					     d.path));
	printf("the network in %s is a fabric of %u nodes now, routed by %s%s\n", d.path, l->f.nodes, routing,
	       is_managed && strcmp(routing, by_manager) != 0 ? "; weft's subnet manager takes it over" : "");
	return EXIT_OK;
}

/* As hardware is when it is switched on: what is missing is a subnet manager's to write. */
static void take_addresses(struct fabric *f)
{
	for (uint32_t i = 0; i < f->ports; i++)
		f->port[i].lid = f->port[i].sm_lid = 0;
	for (uint32_t n = 0; n < f->nodes; n++)
		f->node[n].lft_top = 0;
}

/* Where weftd's manager runs: at the first switch, or at the first host with a link. 0: there is no such port. */
static uint32_t find_manager(const struct fabric *f)
{
	uint32_t host = 0;

	for (uint32_t n = 0; n < f->nodes; n++) {
		if (fabric_is_switch(f, n))
			return f->place[n].first_port + 1;
		for (unsigned i = 1; !host && i <= f->place[n].ports; i++) {
			if (fabric_peer(f, fabric_port_index(f, n, i)) != PORT_NONE)
				host = fabric_port_index(f, n, i) + 1;
		}
	}
	return host;
}

/* The manager gives ports as many LIDs as they have. */
static void set_manager(struct fabric *f, const struct manager_options *m)
{
	uint8_t lmc = 0;

	for (uint32_t port = 0; port < f->ports; port++)
		lmc = f->port[port].lmc > lmc ? f->port[port].lmc : lmc;
	f->head->manager = find_manager(f);
	f->head->manager_lmc = lmc;
	manager_options_apply(m, f->head);
}

/* What the command says counts, and then what the file of options does. */
static int read_options(struct manager_options *m, const struct cli_options *o)
{
	uint32_t priority = 0, lmc = 0;
	int status = manager_options_read(m, o->options);

	if (status != EXIT_OK)
		return status;
	if ((o->priority && !fabric_number("priority", o->priority, 15, &priority)) ||
	    (o->lmc && !fabric_number("lmc", o->lmc, LMC_MOST, &lmc)))
		return EXIT_USAGE;
	m->priority = o->priority ? (uint8_t)priority : m->priority;
	m->lmc = o->lmc ? (uint8_t)lmc : m->lmc;
	m->has_lmc |= o->lmc != NULL;
	return EXIT_OK;
}

/* Without --routing data flows at once, by tables that weft's manager then finds: they are as it would write them. */
int fabric_net_load(const struct cli_options *o, int argc, char **argv)
{
	bool is_bare = o->routing && (!strcmp(o->routing, "sm") || !strcmp(o->routing, "none"));
	bool is_managed = !o->routing || !strcmp(o->routing, "sm");
	struct manager_options m;
	enum route_engine used;
	struct loaded l;
	int status;

	if (argc != 1) {
		cli_fail("weft fabric load FILE, or - for the standard input", "one file is wanted");
		return EXIT_USAGE;
	}
	if ((o->priority || o->options) && !is_managed) {
		cli_fail("leave --routing away, or --routing sm", "%s is that of weft's subnet manager",
			 o->priority ? "--priority" : "--options");
		return EXIT_USAGE;
	}
	status = read_options(&m, o);
	if (status == EXIT_OK)
		status = fabric_load(argv[0], m.has_lmc ? &m.lmc : NULL, &l);
	if (status != EXIT_OK)
		return status;
	if (is_bare)
		take_addresses(&l.f);
	else
		status = fabric_set_up(&l, o->routing ? o->routing : route_choice_name(m.routing), &used);
	if (is_managed)
		set_manager(&l.f, &m);
	if (o->partitions && status == EXIT_OK)
		status = partitions_apply(&l.f, o->partitions, find_manager(&l.f) - 1);
	l.f.head->rated = o->rates;
	if (status == EXIT_OK)
		status = give(o, &l, !is_bare ? route_engine_name(used) : is_managed ? by_manager : "a subnet manager to come");
	fabric_unload(&l);
	return status;
}

/* The network's socket, -1 with everything told. */
static int find_network(const struct cli_options *o)
{
	struct rundir d;
	int fd;

	if (daemon_directory(o->system, &d))
		return -1;
	fd = daemon_connect(&d, CONTROL_COMMAND);
	if (fd == -ENOENT && daemon_was_killed(&d))
		cli_fail(after_end, "weftd in %s was killed", d.path);
	else if (fd == -ENOENT)
		cli_fail(load_one, "there is no network in %s", d.path);
	return fd < 0 ? -1 : fd;
}

/* A copy is judged anew: weftd may have written while it was made. */
static int copy_view(struct loaded *l, const struct view *v)
{
	*l = (struct loaded){ .mapping = malloc(v->f.bytes), .bytes = v->f.bytes };
	if (!l->mapping)
		return fabric_no_memory();
	memcpy(l->mapping, v->f.head, v->f.bytes);
	return fabric_take(l);
}

static int copy_of(int socket, struct loaded *l, uint32_t *number)
{
	struct view v = { .number = 0 };
	int status = view(&v, socket);

	*number = v.number;
	if (status != EXIT_OK || !v.f.head)
		return status;
	status = copy_view(l, &v);
	fabric_file_unmap(&v.f);
	return status;
}

int fabric_net_copy(const struct cli_options *o, struct loaded *l)
{
	int fd = find_network(o), status;
	uint32_t number;

	if (fd < 0)
		return EXIT_FAILED;
	status = copy_of(fd, l, &number);
	close(fd);
	return status;
}

/* weftd tells those of some ports at a time. 0 or -errno. */
static int read_counts(int socket, uint32_t number, uint32_t ports, struct control_port_count *counts)
{
	static char text[CONTROL_TEXT];
	int err = 0;

	for (uint32_t at = 0; at < ports && !err;) {
		struct control_msg msg = { .type = CTL_PORT_COUNTS, .a = at, .b = number };
		uint32_t n;

		err = daemon_read(socket, &msg, text);
		n = err ? 0 : msg.text_bytes / (uint32_t)sizeof(*counts);
		if (!err && (!n || n > ports - at))
			err = -EPROTO;
		if (!err)
			memcpy(counts + at, text, n * sizeof(*counts));
		at += n;
	}
	return err;
}

int fabric_net_counts(const struct cli_options *o, struct loaded *l, struct control_port_count **counts)
{
	int fd = find_network(o), status, err;
	uint32_t number;

	if (fd < 0)
		return EXIT_FAILED;
	status = copy_of(fd, l, &number);
	if (status == EXIT_OK) {
		*counts = calloc(l->f.ports, sizeof(**counts));
		err = *counts ? read_counts(fd, number, l->f.ports, *counts) : -ENOMEM;
		status = !err ? EXIT_OK : err == -ENOMEM ? fabric_no_memory() : fail_call(err);
		if (status != EXIT_OK) {
			free(*counts);
			fabric_unload(l);
		}
	}
	close(fd);
	return status;
}

int fabric_net_unload(const struct cli_options *o, int argc, char **argv)
{
	struct control_msg msg = { .type = CTL_FABRIC };
	int fd, err;

	(void)argv;
	if (argc) {
		cli_fail("weft fabric unload", "unload takes no argument");
		return EXIT_USAGE;
	}
	fd = find_network(o);
	if (fd < 0)
		return EXIT_FAILED;
	err = daemon_call(fd, &msg, NULL);
	close(fd);
	return tell_result(err, msg.a);
}

/* ---- link ---- */

int fabric_net_find_link(int fd, const char *name, struct control_msg *msg)
{
	struct view v = { .number = 0 };
	uint32_t port;
	int err = view(&v, fd);

	if (err)
		return err;
	port = host_find_port(&v.f, name);
	if (port != PORT_NONE && fabric_peer(&v.f, port) == PORT_NONE)
		port = PORT_NONE;
	fabric_file_unmap(&v.f);
	if (port == PORT_NONE)
		return cli_fail("name a node of the topology that was loaded, and a port of it, as s2:5",
				"the network's fabric has no link at '%s'", name);
	msg->a = port + 1;
	msg->b = v.number;
	return EXIT_OK;
}

/* "loss=1%,rate=10Gbit,seed=7", of impair/impair.h's settings; the three alone. */
static bool names_a_fault(const char *text)
{
	static const char *const names[] = { "loss=", "rate=", "seed=" };
	bool is_one = true;

	for (; is_one && text; text = strchr(text, ','), text += text ? 1 : 0) {
		is_one = false;
		for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
			is_one |= !strncmp(text, names[i], strlen(names[i]));
	}
	return is_one;
}

/* 0, or an exit status, told. Without a seed it is chosen here. */
static int read_fault(const char *text, struct control_msg *msg)
{
	struct impair_spec spec;
	char why[200] = "loss=, rate= and seed= are the faults of links";

	if (!names_a_fault(text) || impair_parse(text, &spec, why, sizeof(why))) {
		cli_fail("weft fabric link NODE:PORT loss=1%,seed=7, or rate=10Gbit", "%s: %s", text, why);
		return EXIT_USAGE;
	}
	if (!spec.has_seed && getrandom(&spec.seed, sizeof(spec.seed), 0) != sizeof(spec.seed))
		return cli_fail(NULL, "no random numbers: %s", strerror(errno));
	*msg = (struct control_msg){ .type = CTL_LINK_FAULT, .c = spec.rules[0][IMPAIR_OUT].loss_ppm,
				     .slot = (uint32_t)(spec.rules[0][IMPAIR_OUT].rate_bps / 1000), .service = spec.seed };
	return 0;
}

/* What the port notices: errors N, overruns N, silence. False: the words are none of these. */
static bool read_error(int argc, char **argv, struct control_msg *msg)
{
	static const char *const words[] = { "errors", "overruns", "silence" };	/* as enum link_error */
	char *end = NULL;
	unsigned long times = argc == 3 ? strtoul(argv[2], &end, 10) : 1;

	for (uint32_t i = 0; i < sizeof(words) / sizeof(words[0]); i++) {
		if (strcmp(argv[1], words[i]) != 0 || argc != (i == 2 ? 2 : 3) || (end && *end) || !times ||
		    times > CONTROL_LINK_ERRORS)
			continue;
		*msg = (struct control_msg){ .type = CTL_LINK_ERROR, .c = i, .slot = (uint32_t)times };
		return true;
	}
	return false;
}

/* What becomes of a link. 0, or an exit status, told. */
static int read_link(int argc, char **argv, struct control_msg *msg)
{
	static const struct {
		const char *word, *setting;
	} faults[] = { { "slow", "rate" }, { "loss", "loss" } };
	char text[IMPAIR_TEXT];

	*msg = (struct control_msg){ .type = CTL_LINK };
	if (argc == 2 && (!strcmp(argv[1], "up") || !strcmp(argv[1], "down"))) {
		msg->c = !strcmp(argv[1], "up");
		return 0;
	}
	if ((argc == 2 || argc == 3) && read_error(argc, argv, msg))
		return 0;
	if (argc == 2 && strchr(argv[1], '='))
		return read_fault(argv[1], msg);
	for (size_t i = 0; argc == 3 && i < sizeof(faults) / sizeof(faults[0]); i++) {
		if (strcmp(argv[1], faults[i].word) != 0)
			continue;
		snprintf(text, sizeof(text), "%s=%s", faults[i].setting, argv[2]);
		return read_fault(text, msg);
	}
	cli_fail("weft fabric link NODE:PORT down, up, slow 10Gbit, loss 1%, loss=1%,rate=10Gbit,seed=7, errors 9, overruns 8, "
		 "or silence",
		 "a port and what becomes of its link are wanted");
	return EXIT_USAGE;
}

/* A link that comes up is whole. */
static int end_fault(int fd, const struct control_msg *msg)
{
	struct control_msg whole = { .type = CTL_LINK_FAULT, .a = msg->a, .b = msg->b };

	return fabric_net_call(fd, &whole);
}

int fabric_net_link(const struct cli_options *o, int argc, char **argv)
{
	struct control_msg msg;
	int fd, status = read_link(argc, argv, &msg);

	if (status)
		return status;
	fd = find_network(o);
	if (fd < 0)
		return EXIT_FAILED;
	status = fabric_net_find_link(fd, argv[0], &msg);
	if (status == EXIT_OK && msg.type == CTL_LINK && msg.c)
		status = end_fault(fd, &msg);
	if (status == EXIT_OK)
		status = fabric_net_call(fd, &msg);
	close(fd);
	return status;
}
