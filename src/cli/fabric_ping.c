#include "cli/fabric_ping.h"

#include "cli/daemon.h"
#include "cli/fabric.h"
#include "cli/fabric_net.h"
#include "cli/output.h"
#include "control/clock.h"
#include "control/sa_client.h"
#include "fabric/host.h"

#include <arpa/inet.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { CLASS_VERSION = 1, CLASS_PORT_INFO = 0x01 };	/* IBA 16.1.4, 13.4.8.1 */

static uint32_t first_other(const struct fabric *f, uint32_t port)
{
	uint32_t other = 0;

	while (other < f->ports && (f->owner[other] == f->owner[port] || !host_has_programs(f, other)))
		other++;
	return other < f->ports ? other : port;
}

static void name_of(const struct fabric *f, uint32_t port, char name[FABRIC_PING_NAME])
{
	output_plain(f->node[f->owner[port]].description, name, FABRIC_PING_NAME);
}

static void describe(struct fabric_ping *p, const struct fabric *f, uint32_t port)
{
	char gid[INET6_ADDRSTRLEN], address[INET_ADDRSTRLEN] = "none";
	uint8_t raw[16], ipv4[HOST_IPV4_BYTES];

	host_write_gid(f, port, 0, raw);
	inet_ntop(AF_INET6, raw, gid, sizeof(gid));
	if (host_write_ipv4(f, port, ipv4))
		inet_ntop(AF_INET, ipv4, address, sizeof(address));
	snprintf(p->what, sizeof(p->what), "GUID 0x%016llx, LID %u, GID %s, address %s",
		 (unsigned long long)fabric_guids(f, port)[0], p->lid, gid, address);
}

/* Who asks has a port of its own, or the name of one. */
static int find_asker(struct fabric_ping *p, const struct fabric *f, const struct cli_options *o, uint32_t port)
{
	const char *node = o->node ? o->node : getenv("WEFT_NODE");

	if (!node || !*node)
		name_of(f, first_other(f, port), p->from);
	else if (snprintf(p->from, sizeof(p->from), "%s", node) >= (int)sizeof(p->from))
		return cli_fail("weft fabric show lists them", "there is no host '%s'", node);
	return EXIT_OK;
}

int fabric_ping_open(struct fabric_ping *p, const struct cli_options *o, const char *name)
{
	static const struct control_agent agent = { .mgmt_class = MAD_CLASS_PERF, .class_version = CLASS_VERSION };
	struct rundir d;
	struct loaded l;
	uint32_t port;
	int status = fabric_net_copy(o, &l);

	if (status != EXIT_OK)
		return status;
	*p = (struct fabric_ping){ .lid = 0 };
	port = host_find_port(&l.f, name);
	if (host_has_programs(&l.f, port)) {
		p->lid = l.f.port[port].lid;
		name_of(&l.f, port, p->to);
		describe(p, &l.f, port);
		status = find_asker(p, &l.f, o, port);
	}
	fabric_unload(&l);
	if (status == EXIT_OK && !p->lid)
		status = cli_fail("weft run --node HOST -- opensm gives LIDs", "%s has no LID", name);
	if (status != EXIT_OK || daemon_directory(o->system, &d))
		return EXIT_FAILED;
	return node_mads_open(&d, p->from, &agent, 0, &p->file);
}

int fabric_ping_ask(struct fabric_ping *p, wtime patience, struct pong *pong)
{
	const struct mad_header h = {
		.base_version = MAD_BASE_VERSION, .mgmt_class = MAD_CLASS_PERF, .class_version = CLASS_VERSION, .method = MAD_GET,
		.tid = ++p->questions, .attr_id = CLASS_PORT_INFO,
	};
	uint8_t mad[MAD_BYTES] = { 0 };
	wtime begin = clock_now();
	int err;

	mad_header_build(&h, mad);
	err = sa_client_call(p->file.fd, p->file.agent, p->lid, (uint32_t)(patience / WTIME_MS), mad);
	pong->round_trip = clock_now() - begin;
	pong->version[0] = '\0';
	return err;
}
