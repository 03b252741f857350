/* weft fabric: topologies as text. `make` prints one of a kind; `check` reads one, routes it and follows every path, or those of
 * a running network; `path` shows one (fabric_path.c). `load`, `unload` and `link` are about a running network (fabric_net.c), as
 * are `show` and `top` (fabric_show.c, fabric_svg.c, fabric_top.c). */
#include "cli/fabric.h"
#include "cli/fabric_net.h"
#include "cli/fabric_show.h"
#include "cli/output.h"

#include "fabric/generate.h"
#include "fabric/speed.h"
#include "fabric/survey.h"
#include "fabric/topology_file.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

enum { READ_MOST = 1 << 28 };	/* bytes of a file: 100 times what the largest fabric has */

int fabric_no_memory(void)
{
	return cli_fail("end programs that take much memory", "there is no memory for the fabric");
}

int fabric_take(struct loaded *l)
{
	char why[200];
	int err = fabric_open(&l->f, l->mapping, l->bytes, why, sizeof(why));

	if (!err)
		return EXIT_OK;
	free(l->mapping);
	return err == -ENOMEM ? fabric_no_memory() : cli_fail(NULL, "the fabric is not sound: %s", why);
}

static int map_topology(struct loaded *l, const struct topology *t)
{
	l->bytes = fabric_bytes(t);
	if (l->bytes > FABRIC_BYTES_MOST)
		return cli_fail("take switches away, ports without a link, LIDs of an LMC: each switch has tables for all",
				"the fabric would take %zu MB, of at most %u", l->bytes >> 20, FABRIC_BYTES_MOST >> 20);
	l->mapping = calloc(1, l->bytes);
	if (!l->mapping)
		return fabric_no_memory();
	fabric_format(l->mapping, t);
	return fabric_take(l);
}

void fabric_unload(struct loaded *l)
{
	fabric_close(&l->f);
	free(l->mapping);
}

/* ---- make ---- */

static void put(void *to, const char *text)
{
	fputs(text, to);
}

static int print_kinds(void)
{
	fprintf(stderr, "Kinds of topologies, and their settings with what they are unless given (all have link=4xHDR):\n");
	for (const struct generate_kind *k = generate_kinds; k->name; k++)
		fprintf(stderr, "  %-10s %s\n             %s\n", k->name, k->summary, k->parameters);
	return EXIT_USAGE;
}

int fabric_make(const char *kind, unsigned settings, char *const setting[], struct loaded *l)
{
	struct topology t;
	char why[300];
	int status = EXIT_OK, err;

	topology_init(&t);
	err = generate(&t, kind, settings, setting, why, sizeof(why));
	if (err == -ENOMEM)
		status = fabric_no_memory();
	else if (!err)
		status = map_topology(l, &t);
	topology_fini(&t);
	if (err != -EINVAL)
		return status;
	cli_fail("weft fabric make lists the kinds and their settings", "%s", why);
	return EXIT_USAGE;
}

static int make(const struct cli_options *o, int argc, char **argv)
{
	struct loaded l;
	int status;

	if (o->json || o->routing) {
		cli_fail("weft fabric make KIND > FILE, then weft fabric check FILE", "make prints a topology, without options");
		return EXIT_USAGE;
	}
	if (argc < 1)
		return print_kinds();
	status = fabric_make(argv[0], (unsigned)(argc - 1), argv + 1, &l);
	if (status != EXIT_OK)
		return status;
	printf("# weft fabric make");
	for (int i = 0; i < argc; i++)
		printf(" %s", argv[i]);
	printf("\n\n");
	topology_print(&l.f, put, stdout);
	fabric_unload(&l);
	return EXIT_OK;
}

/* ---- check ---- */

int fabric_read_text(const char *path, char **text, size_t *bytes)
{
	FILE *from = strcmp(path, "-") ? fopen(path, "re") : stdin;
	size_t room = 0, got = 1;
	char *larger;

	*text = NULL;
	*bytes = 0;
	if (!from)
		return cli_fail("weft fabric make KIND > FILE writes one", "%s: %s", path, strerror(errno));
	while (got && *bytes < READ_MOST) {
		if (room < *bytes + 2) {
			room = room ? 2 * room : 1 << 16;
			larger = realloc(*text, room);
			if (!larger)
				break;
			*text = larger;
		}
		errno = 0;
		got = fread(*text + *bytes, 1, room - *bytes - 1, from);
		*bytes += got;
	}
	if (from != stdin)
		fclose(from);
	if (!got && !errno) {
		(*text)[*bytes] = '\0';
		return EXIT_OK;
	}
	free(*text);
	if (*bytes >= READ_MOST)
		return cli_fail("name a topology", "%s is larger than any topology", path);
	return got ? fabric_no_memory() : cli_fail("name a file of text", "%s: %s", path, strerror(errno));
}

bool fabric_number(const char *option, const char *text, uint32_t most, uint32_t *number)
{
	char *end;
	unsigned long n = strtoul(text, &end, 10);

	if (text[0] < '0' || text[0] > '9' || *end || n > most) {
		cli_fail("weft fabric --help", "--%s %s: it is a number from 0 to %u", option, text, most);
		return false;
	}
	*number = (uint32_t)n;
	return true;
}

/* 2^lmc LIDs for each port of a host, or NULL: as the file says. */
static int give_lids(struct topology *t, const uint8_t *lmc)
{
	int err = lmc ? topology_set_lmc(t, *lmc) : 0;

	if (err == -E2BIG)
		return cli_fail("a smaller LMC", "its ports need more than the %d LIDs of a subnet", LIDS - 1);
	return err ? fabric_no_memory() : EXIT_OK;
}

int fabric_load(const char *path, const uint8_t *lmc, struct loaded *l)
{
	struct topology_fault fault;
	struct topology t;
	char *text;
	size_t bytes;
	int status = fabric_read_text(path, &text, &bytes), err;

	if (status != EXIT_OK)
		return status;
	topology_init(&t);
	err = topology_parse(&t, text, bytes, &fault);
	if (err == -ENOMEM)
		status = fabric_no_memory();
	else if (err && fault.line)
		status = cli_fail("weft-fabric(1) describes the format", "%s:%u: %s", path, fault.line, fault.text);
	else if (err)
		status = cli_fail("weft-fabric(1) describes the format", "%s: %s", path, fault.text);
	else
		status = give_lids(&t, lmc);
	if (status == EXIT_OK)
		status = map_topology(l, &t);
	topology_fini(&t);
	free(text);
	return status;
}

struct census {
	uint32_t nodes[NODE_ROUTER + 1], links;
};

static struct census count(const struct fabric *f)
{
	struct census c = { 0 };

	for (uint32_t n = 0; n < f->nodes; n++)
		c.nodes[f->place[n].type]++;
	for (uint32_t p = 0; p < f->ports; p++)
		c.links += fabric_peer(f, p) != PORT_NONE;
	c.links /= 2;
	return c;
}

/* The least, the most and the mean of paths on a link between switches, and the port of the most. */
struct spread {
	uint32_t least, most, at, links;
	uint64_t sum;
};

static struct spread spread_of(const struct fabric *f, const struct survey *s)
{
	struct spread all = { .least = UINT32_MAX, .at = PORT_NONE };

	for (uint32_t p = 0; p < f->ports; p++) {
		uint32_t peer = fabric_peer(f, p);

		if (peer == PORT_NONE || !fabric_is_switch(f, f->owner[p]) || !fabric_is_switch(f, f->owner[peer]))
			continue;
		all.links++;
		all.sum += s->load[p];
		all.least = s->load[p] < all.least ? s->load[p] : all.least;
		if (all.at == PORT_NONE || s->load[p] > all.most) {
			all.most = s->load[p];
			all.at = p;
		}
	}
	return all;
}

/* A multicast packet from the first host to all. */
struct broadcast {
	uint32_t from;			/* port, or PORT_NONE: there is no host */
	uint32_t hosts, reached;	/* ports of others; those that get it */
	bool loops;
};

static int send_to_all(const struct fabric *f, struct broadcast *b)
{
	struct walk_packet p = { .dlid = MLID_FIRST, .pkey = PKEY_DEFAULT, .from = PORT_NONE };
	struct walk_group g;
	int err = walk_group_init(&g, f);

	*b = (struct broadcast){ .from = PORT_NONE };
	for (uint32_t port = 0; port < f->ports; port++) {
		if (fabric_is_switch(f, f->owner[port]) || fabric_peer(f, port) == PORT_NONE)
			continue;
		if (b->from == PORT_NONE)
			b->from = port;
		else
			b->hosts++;
	}
	p.from = b->from;
	if (!err && b->from != PORT_NONE)
		fabric_walk_group(f, &p, &g);
	for (uint32_t i = 0; i < g.ports; i++)
		b->reached += !fabric_is_switch(f, f->owner[g.port[i]]);
	b->loops = g.loops;
	walk_group_fini(&g);
	return err;
}

static bool is_whole(const struct survey *s)
{
	return s->reached == s->paths;
}

const char *fabric_port_name(const struct fabric *f, uint32_t port, char *to, size_t room)
{
	char name[4 * NODE_DESCRIPTION + 1];

	output_plain(f->node[f->owner[port]].description, name, sizeof(name));
	snprintf(to, room, "%s[%u]", name, fabric_port_number(f, port));
	return to;
}

static void print_survey(const struct loaded *l, const struct survey *s, const struct broadcast *b, const char *routing)
{
	const struct fabric *f = &l->f;
	struct census c = count(f);
	struct spread between = spread_of(f, s);
	char name[PORT_NAME];

	printf("nodes    %u: %u switches, %u channel adapters, %u routers; %u links; %zu bytes as tables\n", f->nodes,
	       c.nodes[NODE_SWITCH], c.nodes[NODE_CA], c.nodes[NODE_ROUTER], c.links, l->bytes);
	printf("routing  %s, %s\n", routing, s->has_credit_loop ? "with a credit loop" : "without credit loops");
	printf("paths    %llu of %llu reach", (unsigned long long)s->reached, (unsigned long long)s->paths);
	if (s->reached)
		printf("; %.2f links on average, at most %u", (double)s->links / (double)s->reached, s->longest);
	putchar('\n');
	if (!is_whole(s))
		printf("lost     %llu lead nowhere, %llu pass more than %d switches; one is from %s to LID %u\n",
		       (unsigned long long)s->lost, (unsigned long long)s->looping, SWITCHES_MOST,
		       fabric_port_name(f, s->bad_port, name, sizeof(name)), s->bad_lid);
	if (b->from != PORT_NONE)
		printf("group    a packet to %#x from %s reaches %u of %u other host ports%s\n", MLID_FIRST,
		       fabric_port_name(f, b->from, name, sizeof(name)), b->reached, b->hosts, b->loops ? ", and loops" : "");
	if (between.links)
		printf("load     paths on a link between switches: least %u, mean %.1f, most %u, from %s\n", between.least,
		       (double)between.sum / between.links, between.most, fabric_port_name(f, between.at, name, sizeof(name)));
}

static json_t *json_links(const struct fabric *f, const struct survey *s)
{
	json_t *links = json_array();

	for (uint32_t p = 0; p < f->ports; p++) {
		uint32_t peer = fabric_peer(f, p);

		if (peer == PORT_NONE)
			continue;
		json_array_append_new(links, json_pack("{s:s, s:i, s:s, s:i, s:i, s:s, s:I, s:I}",
						       "from", f->node[f->owner[p]].description,
						       "from_port", (int)fabric_port_number(f, p),
						       "to", f->node[f->owner[peer]].description,
						       "to_port", (int)fabric_port_number(f, peer),
						       "width", (int)width_lanes(f->port[p].width),
						       "speed", speed_name(f->port[p].speed),
						       "mbps", (json_int_t)link_mbps(f->port[p].width, f->port[p].speed),
						       "paths", (json_int_t)s->load[p]));
	}
	return links;
}

static int print_json(const struct loaded *l, const struct survey *s, const struct broadcast *b, const char *routing)
{
	struct census c = count(&l->f);

	return output_json(json_pack("{s:i, s:i, s:i, s:i, s:I, s:s, s:b, s:I, s:I, s:I, s:I, s:f, s:i, s:i, s:i, s:o}",
				     "switches", (int)c.nodes[NODE_SWITCH], "channel_adapters", (int)c.nodes[NODE_CA],
				     "routers", (int)c.nodes[NODE_ROUTER], "links", (int)c.links,
				     "bytes", (json_int_t)l->bytes, "routing", routing, "credit_loop", s->has_credit_loop,
				     "paths", (json_int_t)s->paths, "reached", (json_int_t)s->reached,
				     "lost", (json_int_t)s->lost, "looping", (json_int_t)s->looping,
				     "mean_links", s->reached ? (double)s->links / (double)s->reached : 0.0,
				     "longest_links", (int)s->longest, "group_hosts", (int)b->hosts,
				     "group_reached", (int)b->reached, "link_loads", json_links(&l->f, s)));
}

/* Which engine routes: -1 for both in turn, ROUTE_ENGINES when there is none of this name. */
static int engine_of(const char *name)
{
	int e = 0;

	if (!name || !strcmp(name, "auto"))
		return -1;
	while (e < ROUTE_ENGINES && strcmp(name, route_engine_name((enum route_engine)e)) != 0)
		e++;
	return e;
}

/* Shortest paths, unless those have a credit loop and nobody asked for them. 0 or -ENOMEM. */
static int route(struct fabric *f, int engine, enum route_engine *used)
{
	struct survey s;
	bool deadlocks;
	int err;

	*used = engine < 0 ? ROUTE_MIN_HOP : (enum route_engine)engine;
	err = fabric_route(f, *used);
	if (err || engine >= 0)
		return err;
	err = survey(&s, f);
	deadlocks = s.has_credit_loop;
	survey_fini(&s);
	if (err || !deadlocks)
		return err;
	*used = ROUTE_UP_DOWN;
	return fabric_route(f, *used);
}

int fabric_set_up(struct loaded *l, const char *routing, enum route_engine *used)
{
	int engine = engine_of(routing);

	if (engine == ROUTE_ENGINES) {
		cli_fail("weft fabric --help",
			 "there is no routing '%s': it is auto, min-hop or up-down, and none or sm for load", routing);
		return EXIT_USAGE;
	}
	if (route(&l->f, engine, used) || fabric_route_group(&l->f, MLID_FIRST))
		return fabric_no_memory();
	fabric_activate(&l->f);
	return EXIT_OK;
}

static int check_tables(const struct cli_options *o, const struct loaded *l, const char *routing)
{
	struct broadcast b;
	struct survey s;
	int status = EXIT_OK;

	if (survey(&s, &l->f) || send_to_all(&l->f, &b))
		status = fabric_no_memory();
	else if (o->json)
		status = print_json(l, &s, &b, routing);
	else
		print_survey(l, &s, &b, routing);
	if (!is_whole(&s))
		status = EXIT_FAILED;
	survey_fini(&s);
	return status;
}

static int check_file(const struct cli_options *o, const char *path)
{
	enum route_engine used;
	struct loaded l;
	int status = fabric_load(path, NULL, &l);

	if (status != EXIT_OK)
		return status;
	status = fabric_set_up(&l, o->routing, &used);
	if (status == EXIT_OK)
		status = check_tables(o, &l, route_engine_name(used));
	fabric_unload(&l);
	return status;
}

/* Whoever wrote them, weft or a subnet manager. */
static int check_network(const struct cli_options *o)
{
	struct loaded l;
	int status = fabric_net_copy(o, &l);

	if (status != EXIT_OK)
		return status;
	status = check_tables(o, &l, "the network's tables");
	fabric_unload(&l);
	return status;
}

static int check(const struct cli_options *o, int argc, char **argv)
{
	if (argc == 1)
		return check_file(o, argv[0]);
	if (!argc && !o->routing)
		return check_network(o);
	cli_fail("weft fabric check FILE, - for the standard input, or without both for the network's fabric",
		 argc ? "one file is wanted" : "a network's fabric is checked as it stands, without --routing");
	return EXIT_USAGE;
}

int cli_fabric(const struct cli_options *o, int argc, char **argv)
{
	static const struct {
		const char *name;
		int (*run)(const struct cli_options *o, int argc, char **argv);
	} verbs[] = { { "make", make }, { "check", check }, { "path", fabric_path }, { "load", fabric_net_load },
		      { "unload", fabric_net_unload }, { "link", fabric_net_link }, { "show", fabric_show },
		      { "top", fabric_top } };
	static const char names[] = "make, check, path, load, unload, link, show or top";

	for (size_t i = 0; argc > 0 && i < sizeof(verbs) / sizeof(verbs[0]); i++) {
		if (!strcmp(argv[0], verbs[i].name))
			return verbs[i].run(o, argc - 1, argv + 1);
	}
	if (argc > 0)
		cli_fail("weft fabric --help", "there is no 'weft fabric %s': it is %s", argv[0], names);
	else
		cli_fail("weft fabric --help", "%s is wanted", names);
	return EXIT_USAGE;
}
