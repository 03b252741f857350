#include "peers/node.h"

#include "base/log.h"
#include "control/devices.h"
#include "control/fabric_file.h"
#include "control/protocol.h"
#include "control/session.h"
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
	n->place = host_find_place(&n->fabric, name);
	if (n->place == PORT_NONE) {
		log_line(LOG_ERROR, "the network's fabric has no host '%s' with a link; next: weft run --node HOST, a host of "
			 "the topology that was loaded", name);
		return -ENODEV;
	}
	*msg = (struct control_msg){ .type = CTL_NODE, .a = n->place + 1, .b = msg->b };
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

struct host_adapter node_adapter(const struct node *n, const struct page_device *d, unsigned adapter)
{
	if (node_is_somewhere(n) && control_device_has(d, DEVICE_LIDS))
		return host_adapter(&n->fabric, n->place, adapter);
	return (struct host_adapter){ .first = 1, .ports = !adapter };
}

void node_describe(const struct node *n, unsigned number, struct page_device *d)
{
	uint32_t port;

	if (!node_is_somewhere(n) || !control_device_has(d, DEVICE_LIDS))
		return;
	port = host_port(&n->fabric, n->place, number);
	if (port != PORT_NONE)
		host_describe(&n->fabric, port, d);
}

/* Of a device with LIDs; at a host it has that port, or it would not be there. */
static uint32_t port_of(const struct node *n, const struct ca_device *dev)
{
	return host_port(&n->fabric, n->place, dev->place_number);
}

/* ---- addresses ---- */

enum { IPV4_AT = 12 };	/* of a mapped address (RFC 4291, 2.5.5.2) */

static bool is_mapped_ipv4(const uint8_t address[16])
{
	static const uint8_t prefix[IPV4_AT] = { [10] = 0xff, [11] = 0xff };

	return !memcmp(address, prefix, sizeof(prefix));
}

enum node_owner node_find_address(const struct node *n, const uint8_t address[16], uint8_t gid[16])
{
	bool is_ipv4 = is_mapped_ipv4(address);
	uint32_t port;

	if (!node_is_somewhere(n) || (is_ipv4 && !host_is_ipv4(address + IPV4_AT)))
		return NODE_ELSEWHERE;
	port = is_ipv4 ? host_find_ipv4(&n->fabric, address + IPV4_AT) : host_find_gid(&n->fabric, address);
	if (port == PORT_NONE)
		return is_ipv4 ? NODE_NOBODYS : NODE_ELSEWHERE;
	if (is_ipv4)
		host_write_gid(&n->fabric, port, 0, gid);
	else
		memcpy(gid, address, 16);
	return host_port_number(&n->fabric, n->place, port) ? NODE_OWN : NODE_OTHERS;
}

bool node_own_address(const struct node *n, uint8_t address[16])
{
	memset(address, 0, 16);
	memset(address + IPV4_AT - 2, 0xff, 2);
	return node_is_somewhere(n) && host_write_ipv4(&n->fabric, host_port(&n->fabric, n->place, 1), address + IPV4_AT);
}

/* ---- who reaches whom ---- */

/* Where the slot's process is, or PORT_NONE. */
static uint32_t place_of(const struct node *n, const struct fabric_page *page, uint32_t slot)
{
	uint32_t place = atomic_load_explicit(&page->slot_port[slot], memory_order_relaxed);

	return place && host_is_place(&n->fabric, place - 1) ? place - 1 : PORT_NONE;
}

static bool is_port(const struct node *n, uint32_t port, const struct packet_path *path)
{
	return host_has_lid(&n->fabric, port, path->dlid) && (!path->has_grh || host_has_gid(&n->fabric, port, path->dgid));
}

/* The port with this address of those of a place, or PORT_NONE. */
static uint32_t port_at(const struct node *n, uint32_t place, const struct packet_path *path)
{
	for (unsigned i = 1; i <= host_ports(&n->fabric, place); i++) {
		uint32_t port = host_port(&n->fabric, place, i);

		if (is_port(n, port, path))
			return port;
	}
	return PORT_NONE;
}

/* The port that a packet from this one gets to, or PORT_NONE. */
static uint32_t destination(const struct node *n, uint32_t from, uint16_t pkey, uint16_t dlid, uint8_t sl)
{
	return fabric_destination(&n->fabric, &(struct walk_packet){ .from = from, .dlid = dlid, .sl = sl, .pkey = pkey,
								     .switches = SWITCHES_MOST });
}

/* By which LID of ours the answers come back. */
static uint16_t own_lid(const struct ca_device *dev, const struct packet_path *path)
{
	return path->slid && device_has_lid(dev, path->slid) ? path->slid : dev->lid;
}

static enum route_kind way_to_management(const struct node *n, uint32_t from, uint16_t pkey, const struct packet_path *path)
{
	uint32_t to = destination(n, from, pkey, path->dlid, path->sl);

	if (to == PORT_NONE)
		return ROUTE_CUT;
	return is_port(n, to, path) ? ROUTE_LOOP : ROUTE_NOWHERE;
}

enum route_kind node_way(const struct node *n, const struct fabric_page *page, const struct ca_device *dev,
			 uint16_t pkey, const struct packet_path *path, uint32_t slot)
{
	uint32_t from = port_of(n, dev), place, to;

	if (from == PORT_NONE)
		return ROUTE_NOWHERE;
	if (!slot)
		return way_to_management(n, from, pkey, path);
	place = place_of(n, page, slot);
	to = place == PORT_NONE ? PORT_NONE : port_at(n, place, path);
	if (to == PORT_NONE)
		return ROUTE_NOWHERE;
	if (destination(n, from, pkey, path->dlid, path->sl) != to)
		return ROUTE_CUT;
	pkey = fabric_answer_pkey(&n->fabric, to, pkey);
	return destination(n, to, pkey, own_lid(dev, path), path->sl) == from ? ROUTE_LOOP : ROUTE_ONE_WAY;
}

bool node_find_ends(const struct node *n, const struct fabric_page *page, const struct ca_device *dev,
		    const struct packet_path *path, uint32_t slot, struct node_ends *ends)
{
	uint32_t from, place, to;

	if (!node_is_somewhere(n) || !slot || slot >= PAGE_SLOTS)
		return false;
	from = port_of(n, dev);
	place = place_of(n, page, slot);
	to = place == PORT_NONE ? PORT_NONE : port_at(n, place, path);
	if (from == PORT_NONE || to == PORT_NONE || to == from)
		return false;
	host_write_gid(&n->fabric, from, 0, ends->sgid);
	host_write_gid(&n->fabric, to, 0, ends->dgid);
	ends->lid = (uint16_t)FABRIC_READ(n->fabric.port[to].lid);
	ends->lmc = FABRIC_READ(n->fabric.port[to].lmc) & LMC_MOST;
	return true;
}

/* ---- what is counted ---- */

uint16_t node_find_way(struct node *n, const struct ca_device *dev, uint16_t pkey, const struct packet_path *path,
		       uint64_t generation)
{
	struct walk_packet p = { .dlid = path->dlid, .sl = path->sl & 15, .pkey = pkey, .switches = SWITCHES_MOST };

	if (!n->traffic || !device_has(dev, DEVICE_LIDS))
		return 0;
	p.from = port_of(n, dev);
	return p.from == PORT_NONE ? 0 : ways_find(&n->ways, generation, &n->fabric, &p, own_lid(dev, path));
}

void node_count(const struct node *n, const struct traffic_way *way, const struct wire_load *load)
{
	traffic_pass(n->traffic, way, load);
}

void node_count_wait(const struct node *n, uint32_t way)
{
	const struct way *w = ways_at(&n->ways, way);

	if (w->there.links)
		traffic_add(&n->traffic[w->from], TRAFFIC_WAIT, 1);
}

void node_count_discards(const struct node *n, uint32_t way, unsigned packets)
{
	traffic_add(&n->traffic[ways_at(&n->ways, way)->from], TRAFFIC_TOO_SLOW, packets);
}

/* ---- members of groups ---- */

const struct tree *node_find_tree(struct node *n, const struct ca_device *dev, const struct route *r, uint16_t dlid, uint8_t sl,
				  uint16_t mlid)
{
	struct walk_packet p = { .dlid = dlid, .sl = sl & 15, .pkey = r->pkey, .switches = SWITCHES_MOST };

	if (!node_is_somewhere(n) || !device_has(dev, DEVICE_LIDS))
		return NULL;
	p.from = port_of(n, dev);
	if (p.from == PORT_NONE)
		return NULL;
	if (!FABRIC_READ(n->fabric.port[p.from].sm_lid))
		p.dlid = mlid;
	return trees_find(&n->trees, r->generation, &n->fabric, &p);
}

static bool reaches_member(const struct node *n, const struct fabric_page *page, const struct tree *tree, uint32_t slot,
			   unsigned number)
{
	uint32_t to;

	if (!node_is_somewhere(n))
		return !atomic_load_explicit(&page->slot_port[slot], memory_order_relaxed);
	to = place_of(n, page, slot);
	to = to == PORT_NONE ? PORT_NONE : host_port(&n->fabric, to, number);
	return tree && to != PORT_NONE && tree_reaches(tree, to);
}

void node_filter(const struct node *n, const struct fabric_page *page, const struct ca_device *dev, const struct tree *tree,
		 unsigned number, uint64_t members[PAGE_SLOTS / 64])
{
	if (!device_has(dev, DEVICE_LIDS) || !atomic_load_explicit(&page->fabric, memory_order_relaxed))
		return;
	for (uint32_t slot = 0; slot < PAGE_SLOTS; slot++) {
		if (members[slot / 64] >> slot % 64 & 1 && !reaches_member(n, page, tree, slot, number))
			members[slot / 64] &= ~(1ull << slot % 64);
	}
}

void node_count_tree(const struct node *n, const struct tree *tree, const struct wire_load *load)
{
	if (n->traffic)
		tree_pass(n->traffic, tree, load);
}

void node_draw_tree(struct node *n, const struct tree *tree, uint32_t process, wtime now, uint64_t words)
{
	tree_draw(&n->trees, tree, &n->fabric, n->traffic, process, now, words);
}

bool node_tree_got(const struct node *n, const struct fabric_page *page, const struct tree *tree, uint32_t slot, unsigned number)
{
	uint32_t place = place_of(n, page, slot), port = place == PORT_NONE ? PORT_NONE : host_port(&n->fabric, place, number);

	return port != PORT_NONE && tree_got(tree, port);
}

wtime node_tree_arrival(const struct node *n, const struct fabric_page *page, const struct tree *tree, uint32_t slot,
			unsigned number, wtime now)
{
	uint32_t place = place_of(n, page, slot);

	return place == PORT_NONE ? now : tree_arrival(tree, &n->fabric, host_port(&n->fabric, place, number), now);
}
