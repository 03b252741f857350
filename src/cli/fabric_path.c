/* weft fabric path: the way of a packet from one port to another, hop by hop, and why it ends. */
#include "cli/fabric.h"
#include "cli/output.h"

#include "fabric/host.h"
#include "fabric/speed.h"
#include "fabric/walk.h"

#include <stdlib.h>
#include <string.h>

/* The LID by which packets come to a port. */
static uint16_t lid_of(const struct fabric *f, uint32_t port)
{
	uint32_t node = f->owner[port];

	return f->port[fabric_is_switch(f, node) ? fabric_port_index(f, node, 0) : port].lid;
}

static int find_ends(const struct loaded *l, char **argv, uint32_t end[2])
{
	for (int i = 0; i < 2; i++) {
		end[i] = host_find_port(&l->f, argv[i]);
		if (end[i] == PORT_NONE)
			return cli_fail("name a node of the file by its description, and a port of it as NAME:PORT",
					"there is no linked port '%s'", argv[i]);
	}
	return EXIT_OK;
}

static void print_route(const struct fabric *f, const struct walk_route *r)
{
	char from[PORT_NAME], to[PORT_NAME];

	for (uint32_t i = 0; i < r->links; i++) {
		const struct fabric_port *port = &f->port[r->out[i]];

		printf("%-16s -> %-16s %ux%s\n", fabric_port_name(f, r->out[i], from, sizeof(from)),
		       fabric_port_name(f, fabric_peer(f, r->out[i]), to, sizeof(to)), width_lanes(port->width),
		       speed_name(port->speed));
	}
	fabric_port_name(f, r->at, to, sizeof(to));
	if (r->verdict == WALK_DELIVERED)
		printf("LID %u is delivered at %s after %u links, on virtual lane %u\n", r->packet.dlid, to, r->links, r->vl);
	else
		printf("LID %u is dropped at %s: %s\n", r->packet.dlid, to, walk_text(r->verdict));
}

static int print_json(const struct fabric *f, const struct walk_route *r)
{
	json_t *links = json_array();

	for (uint32_t i = 0; i < r->links; i++) {
		uint32_t peer = fabric_peer(f, r->out[i]);

		json_array_append_new(links, json_pack("{s:s, s:i, s:s, s:i}", "from", f->node[f->owner[r->out[i]]].description,
						       "from_port", (int)fabric_port_number(f, r->out[i]),
						       "to", f->node[f->owner[peer]].description,
						       "to_port", (int)fabric_port_number(f, peer)));
	}
	return output_json(json_pack("{s:b, s:s, s:s, s:i, s:i, s:i, s:o}", "delivered", r->verdict == WALK_DELIVERED,
				     "verdict", walk_text(r->verdict), "at", f->node[f->owner[r->at]].description,
				     "at_port", (int)fabric_port_number(f, r->at), "dlid", (int)r->packet.dlid,
				     "vl", (int)r->vl, "links", links));
}

static int follow(const struct cli_options *o, struct loaded *l, char **argv)
{
	enum route_engine used;
	struct walk_route r;
	uint32_t end[2] = { PORT_NONE, PORT_NONE };
	int status = find_ends(l, argv, end);

	if (status == EXIT_OK)
		status = fabric_set_up(l, o->routing, &used);
	if (status != EXIT_OK)
		return status;
	fabric_walk(&l->f, &(struct walk_packet){ .from = end[0], .dlid = lid_of(&l->f, end[1]), .pkey = PKEY_DEFAULT,
						  .switches = SWITCHES_MOST }, &r);
	if (o->json)
		status = print_json(&l->f, &r);
	else
		print_route(&l->f, &r);
	return r.verdict == WALK_DELIVERED ? status : EXIT_FAILED;
}

int fabric_path(const struct cli_options *o, int argc, char **argv)
{
	struct loaded l;
	int status;

	if (argc != 3) {
		cli_fail("weft fabric path FILE FROM TO, as in: weft fabric path net h1 h2", "a file and two nodes are wanted");
		return EXIT_USAGE;
	}
	status = fabric_load(argv[0], NULL, &l);
	if (status != EXIT_OK)
		return status;
	status = follow(o, &l, argv + 1);
	fabric_unload(&l);
	return status;
}
