#include "peers/node.h"

#include "base/log.h"
#include "control/devices.h"
#include "control/fabric_file.h"
#include "control/protocol.h"
#include "control/session.h"
#include "fabric/host.h"
#include "fabric/walk.h"
#include "link/memfile.h"

#include <errno.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

/* ---- coming and going ---- */

/* Another fabric may take the place of the one that is there until this process has said at which port it is. */
static int ask_for_fabric(struct session *s, struct control_msg *msg, int fds[CONTROL_FDS], int *nfds)
{
	int err;

	*nfds = 0;
	*msg = (struct control_msg){ .type = CTL_NODE };
	err = session_call(s, msg, NULL, 0, fds, nfds);
	return err ? err : *nfds ? 0 : -EPROTO;
}

static int map(struct node *n, int fd)
{
	char why[200];
	int err = fabric_file_map(&n->fabric, fd, false, why, sizeof(why));

	if (err != -EINVAL)
		return err;
	log_line(LOG_ERROR, "the network's fabric is not sound: %s; next: weft fabric load FILE", why);
	return -ENODEV;
}

/* Without the file nothing is counted, and all else is as it is. */
static void map_traffic(struct node *n, int fd)
{
	size_t bytes = traffic_bytes(&n->fabric);
	void *at = memfile_is_fixed(fd, bytes) ? mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0) : MAP_FAILED;

	n->traffic = at == MAP_FAILED ? NULL : at;
}

static int take_port(struct node *n, struct session *s, struct control_msg *msg, const char *name)
{
	n->port = host_find_port(&n->fabric, name);
	if (!host_has_programs(&n->fabric, n->port)) {
		log_line(LOG_ERROR, "the network's fabric has no host '%s' with a link; next: weft run --node HOST, a host of "
			 "the topology that was loaded", name);
		return -ENODEV;
	}
	*msg = (struct control_msg){ .type = CTL_NODE, .a = n->port + 1, .b = msg->b };
	return session_call(s, msg, NULL, 0, NULL, NULL);
}

static int join_once(struct node *n, struct session *s, const char *name)
{
	int fds[CONTROL_FDS], nfds;
	struct control_msg msg;
	int err = ask_for_fabric(s, &msg, fds, &nfds);

	if (err == -ENOENT) {
		log_line(LOG_ERROR, "the network has no fabric, so no host '%s'; next: weft fabric load FILE", name);
		return -ENODEV;
	}
	if (err)
		return err;
	err = map(n, fds[0]);
	if (!err && nfds > 1)
		map_traffic(n, fds[1]);
	while (nfds)
		close(fds[--nfds]);
	if (!err)
		err = take_port(n, s, &msg, name);
	if (err)
		node_leave(n);
	return err;
}

int node_join(struct node *n, struct session *s, const char *name)
{
	int err;

	/* ESTALE: another fabric was loaded meanwhile */
	do
		err = join_once(n, s, name);
	while (err == -ESTALE);
	return err;
}

void node_leave(struct node *n)
{
	if (n->traffic)
		munmap(n->traffic, traffic_bytes(&n->fabric));
	ways_fini(&n->ways);
	trees_fini(&n->trees);
	fabric_file_unmap(&n->fabric);
	*n = (struct node){ 0 };
}

void node_describe(const struct node *n, struct page_device *d)
{
	if (node_is_somewhere(n) && control_device_has(d, DEVICE_LIDS))
		host_describe(&n->fabric, n->port, d);
}

/* ---- who reaches whom ---- */

/* The port of the slot's process, or PORT_NONE. */
static uint32_t port_of(const struct node *n, const struct fabric_page *page, uint32_t slot)
{
	uint32_t port = atomic_load_explicit(&page->slot_port[slot], memory_order_relaxed);

	return port && host_has_programs(&n->fabric, port - 1) ? port - 1 : PORT_NONE;
}

static bool is_port(const struct node *n, uint32_t port, const struct packet_path *path)
{
	return host_has_lid(&n->fabric, port, path->dlid) && (!path->has_grh || host_has_gid(&n->fabric, port, path->dgid));
}

/* The port that a packet from this one gets to, or PORT_NONE. */
static uint32_t destination(const struct node *n, uint32_t from, uint16_t pkey, uint16_t dlid, uint8_t sl)
{
	return fabric_destination(&n->fabric, &(struct walk_packet){ .from = from, .dlid = dlid, .sl = sl, .pkey = pkey,
								     .switches = SWITCHES_MOST });
}

static enum route_kind way_to_management(const struct node *n, uint16_t pkey, const struct packet_path *path)
{
	uint32_t to = destination(n, n->port, pkey, path->dlid, path->sl);

	if (to == PORT_NONE)
		return ROUTE_CUT;
	return is_port(n, to, path) ? ROUTE_LOOP : ROUTE_NOWHERE;
}

enum route_kind node_way(const struct node *n, const struct fabric_page *page, const struct ca_device *dev,
			 uint16_t pkey, const struct packet_path *path, uint32_t slot)
{
	uint32_t to;

	if (!slot)
		return way_to_management(n, pkey, path);
	to = port_of(n, page, slot);
	if (to == PORT_NONE || !is_port(n, to, path))
		return ROUTE_NOWHERE;
	if (destination(n, n->port, pkey, path->dlid, path->sl) != to)
		return ROUTE_CUT;
	pkey = fabric_answer_pkey(&n->fabric, to, pkey);
	return destination(n, to, pkey, dev->lid, path->sl) == n->port ? ROUTE_LOOP : ROUTE_ONE_WAY;
}

/* ---- what is counted ---- */

uint16_t node_find_way(struct node *n, const struct ca_device *dev, uint16_t pkey, const struct packet_path *path,
		       uint64_t generation)
{
	const struct walk_packet p = { .from = n->port, .dlid = path->dlid, .sl = path->sl & 15, .pkey = pkey,
				       .switches = SWITCHES_MOST };

	return n->traffic && device_has(dev, DEVICE_LIDS) ? ways_find(&n->ways, generation, &n->fabric, &p, dev->lid) : 0;
}

void node_count(const struct node *n, const struct traffic_way *way, const struct wire_load *load)
{
	traffic_pass(n->traffic, way, load);
}

void node_count_wait(const struct node *n, uint32_t way)
{
	if (ways_at(&n->ways, way)->there.links)
		traffic_add(&n->traffic[n->port], TRAFFIC_WAIT, 1);
}

void node_count_discards(const struct node *n, unsigned packets)
{
	traffic_add(&n->traffic[n->port], TRAFFIC_XMIT_DISCARDS, packets);
}

/* ---- members of groups ---- */

const struct tree *node_find_tree(struct node *n, const struct ca_device *dev, const struct route *r, uint16_t dlid, uint8_t sl,
				  uint16_t mlid)
{
	struct walk_packet p = { .from = n->port, .dlid = dlid, .sl = sl & 15, .pkey = r->pkey, .switches = SWITCHES_MOST };

	if (!node_is_somewhere(n) || !device_has(dev, DEVICE_LIDS))
		return NULL;
	if (!FABRIC_READ(n->fabric.port[n->port].sm_lid))
		p.dlid = mlid;
	return trees_find(&n->trees, r->generation, &n->fabric, &p);
}

static bool reaches_member(const struct node *n, const struct fabric_page *page, const struct tree *tree, uint32_t slot)
{
	uint32_t to;

	if (!node_is_somewhere(n))
		return !atomic_load_explicit(&page->slot_port[slot], memory_order_relaxed);
	to = port_of(n, page, slot);
	return tree && to != PORT_NONE && tree_reaches(tree, to);
}

void node_filter(const struct node *n, const struct fabric_page *page, const struct ca_device *dev, const struct tree *tree,
		 uint64_t members[PAGE_SLOTS / 64])
{
	if (!device_has(dev, DEVICE_LIDS) || !atomic_load_explicit(&page->fabric, memory_order_relaxed))
		return;
	for (uint32_t slot = 0; slot < PAGE_SLOTS; slot++) {
		if (members[slot / 64] >> slot % 64 & 1 && !reaches_member(n, page, tree, slot))
			members[slot / 64] &= ~(1ull << slot % 64);
	}
}

void node_count_tree(const struct node *n, const struct tree *tree, const struct wire_load *load)
{
	if (n->traffic)
		tree_pass(n->traffic, tree, load);
}
