/* Translation from the page to what sysfs.h wants. */
#include "weftd/tree.h"

#include "base/log.h"
#include "control/devices.h"
#include "fabric/host.h"
#include "weftd/entry.h"
#include "weftd/sysfs.h"

#include <errno.h>
#include <fcntl.h>
#include <infiniband/verbs.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* IBA vol. 1, 14.2.5.6, PortInfo CapabilityMask: IsTrapSupported 2, IsAutomaticMigrationSupported 3 are not ours; what stays:
 * IsSystemImageGUIDSupported 11, IsCommunicationManagementSupported 16. */
#define CAP_MASK 0x00010800u

/* As ibv_query_device says. */
#define VENDOR 0x027766

/* What a description points to. */
struct texts {
	struct sysfs_gid gids[PAGE_GIDS];
	char desc[NODE_DESCRIPTION + 1];
};

static int describe_gids(const struct page_device *d, struct sysfs_gid *to)
{
	int count = 0;

	for (int i = 0; i < PAGE_GIDS; i++) {
		const struct page_gid *g = &d->gid[i];

		memcpy(to[i].raw, g->raw, 16);
		to[i].type = control_device_protocol(d)->gid_type == IBV_GID_TYPE_ROCE_V2 ? "RoCE v2" : "IB/RoCE v1";
		to[i].ndev = g->valid && g->ifname[0] ? g->ifname : NULL;
		if (g->valid)
			count = i + 1;
	}
	return count;
}

/* node: the description of the fabric's node, NULL: none. What could end a line does not get into a file. */
static void name_node(const struct page_device *d, const char *host, const char *node, struct texts *t)
{
	if (node)
		snprintf(t->desc, sizeof(t->desc), "%.*s", NODE_DESCRIPTION, node);
	else
		snprintf(t->desc, sizeof(t->desc), "%.40s %s", host, d->name);
	for (char *p = t->desc; *p; p++)
		if ((unsigned char)*p < 0x20)
			*p = '?';
}

static struct sysfs_port describe_port(const struct page_device *d, struct texts *t)
{
	return (struct sysfs_port){
		.lid = d->lid,
		.sm_lid = d->sm_lid,
		.sm_sl = d->sm_sl,
		.lmc = d->lmc,
		.state = d->port_state,
		.phys_state = d->phys_state,
		.width = d->width,
		.speed = d->speed,
		.cap_mask = CAP_MASK,
		.gids = t->gids,
		.gid_count = describe_gids(d, t->gids),
		.pkeys = d->pkey,
		.pkey_count = d->pkeys,
	};
}

static void describe(const struct page_device *d, uint32_t index, struct texts *t, struct sysfs_device *to)
{
	*to = (struct sysfs_device){
		.name = d->name,
		.index = (int)index,
		.node_desc = t->desc,
		.fw_ver = WEFT_VERSION,
		.board_id = "weft",
		.ethernet = control_device_protocol(d)->link_layer == IBV_LINK_LAYER_ETHERNET,
		.node_guid = d->guid,
		.sys_image_guid = d->system_guid,
		.vendor_id = VENDOR,
		.vendor_part_id = 1,
		.ports = 1,
		.port[0] = describe_port(d, t),
		.hw_counters = true,
	};
}

/* Of the devices of these bits, 0: all, those that there are. */
static bool is_one_of(uint32_t device, uint32_t which)
{
	return !which || which >> device & 1;
}

/* One tree of these devices, named as rundir_tree has it. */
static int write_one(const struct rundir *dir, const struct sysfs_device devices[PAGE_DEVICES], uint32_t n, uint32_t at,
		     uint32_t which)
{
	struct sysfs_device some[PAGE_DEVICES];
	char name[RUNDIR_TREE_NAME];
	int count = 0, err;

	for (uint32_t i = 0; i < n; i++)
		if (is_one_of(i, which))
			some[count++] = devices[i];
	rundir_tree_name(at, which, name);
	err = sysfs_write(dir->own, name, some, count);
	if (err)
		log_line(LOG_ERROR, "the device files in %s/%s cannot be written: %s", dir->path, CONTROL_OWN "/" RUNDIR_TREE,
			 err == -EEXIST ? "weft did not make what is there" : strerror(-err));
	return err;
}

struct description {
	struct sysfs_device devices[PAGE_DEVICES];
	struct texts texts[PAGE_DEVICES];
};

static void describe_all(const struct fabric_page *page, struct description *to)
{
	char host[64] = "";

	_Static_assert((int)PAGE_GIDS <= (int)SYSFS_GIDS && (int)PAGE_PKEYS <= (int)SYSFS_PKEYS, "what is written is removed");
	gethostname(host, sizeof(host) - 1);
	for (uint32_t i = 0; i < page->devices; i++) {
		name_node(&page->device[i], host, NULL, &to->texts[i]);
		describe(&page->device[i], i, &to->texts[i], &to->devices[i]);
	}
}

static bool has_tree(const struct rundir *dir, uint32_t at, uint32_t which)
{
	char name[RUNDIR_TREE_NAME];

	rundir_tree_name(at, which, name);
	return faccessat(dir->own, name, F_OK, AT_SYMLINK_NOFOLLOW) == 0;
}

int tree_write(const struct rundir *dir, const struct fabric_page *page)
{
	struct description all;
	int err = 0;

	describe_all(page, &all);
	for (uint32_t which = 0; which < 1u << page->devices && !err; which++) {
		if (!which || has_tree(dir, 0, which))
			err = write_one(dir, all.devices, page->devices, 0, which);
	}
	return err;
}

int tree_write_some(const struct rundir *dir, const struct fabric_page *page, uint32_t which)
{
	struct description all;

	if (has_tree(dir, 0, which))
		return 0;
	describe_all(page, &all);
	return write_one(dir, all.devices, page->devices, 0, which);
}

struct placed {
	struct page_device device;
	struct texts text;
};

/* All devices as programs at a place see them: the page's, and one for each further adapter; of ports by their index. */
struct places {
	struct sysfs_device devices[PAGE_DEVICES];
	struct placed ports[PAGE_DEVICES];
	uint32_t count;
};

/* The port of this index. */
static struct sysfs_port describe_at(const struct fabric_page *page, uint32_t index, const struct fabric *f, uint32_t place,
				     struct placed *p)
{
	uint32_t port = host_port(f, place, page_port_number(page, index));
	struct sysfs_port to;

	p->device = page->device[page_device_of(page, index)];
	host_describe(f, port, &p->device);
	to = describe_port(&p->device, &p->text);
	to.has_ipv4 = host_has_programs(f, port) && host_write_ipv4(f, port, to.ipv4);
	return to;
}

/* An adapter; name: the device's. */
static void describe_adapter(const struct fabric_page *page, const struct fabric *f, uint32_t place, const struct host_adapter *a,
			     const char *name, struct places *to)
{
	uint32_t index = page_index(page, a->first), node = f->owner[host_port(f, place, a->first)];
	struct sysfs_device *d = &to->devices[to->count++];
	struct placed *first = &to->ports[index];
	struct sysfs_port port = describe_at(page, index, f, place, first);

	memcpy(first->device.name, name, sizeof(first->device.name));
	name_node(&first->device, "", f->node[node].description, &first->text);
	describe(&first->device, index, &first->text, d);
	d->port[0] = port;
	d->hw_counters = false;
	for (unsigned n = 1; n < a->ports && (index = page_index(page, a->first + n)) < PAGE_DEVICES; n++)
		d->port[d->ports++] = describe_at(page, index, f, place, &to->ports[index]);
}

static struct host_adapter further_adapter(const struct fabric_page *page, const struct fabric *f, uint32_t place,
					   unsigned further)
{
	struct host_adapter a = host_adapter(f, place, further);

	if (a.ports && page_index(page, a.first) >= PAGE_DEVICES)
		a.ports = 0;
	return a;
}

static void describe_place(const struct fabric_page *page, const struct fabric *f, uint32_t place, struct places *to)
{
	struct control_table names;
	struct host_adapter a;
	char name[PAGE_NAME];

	_Static_assert((int)SYSFS_PORTS >= (int)PAGE_DEVICES, "a device may have all ports");
	to->count = 0;
	for (uint32_t i = 0; i < page->devices; i++) {
		struct placed *p = &to->ports[i];

		if (control_device_has(&page->device[i], DEVICE_LIDS)) {
			a = host_adapter(f, place, 0);
			describe_adapter(page, f, place, &a, page->device[i].name, to);
			continue;
		}
		p->device = page->device[i];
		name_node(&p->device, "", f->node[f->owner[host_port(f, place, 1)]].description, &p->text);
		describe(&p->device, i, &p->text, &to->devices[to->count++]);
	}
	control_table_of(page->device, page->devices, &names);
	for (unsigned i = 1; (a = further_adapter(page, f, place, i)).ports; i++) {
		control_adapter_name(&names, i, name);
		describe_adapter(page, f, place, &a, name, to);
	}
}

uint32_t tree_devices(const struct fabric_page *page, const struct fabric *f, uint32_t place)
{
	unsigned further = 1;

	while (further_adapter(page, f, place, further).ports)
		further++;
	return page->devices + further - 1;
}

int tree_write_place(const struct rundir *dir, const struct fabric_page *page, const struct fabric *f, uint32_t place,
		     uint32_t which)
{
	struct places p;

	describe_place(page, f, place, &p);
	return write_one(dir, p.devices, p.count, place + 1, which);
}

void tree_refresh_place(const struct rundir *dir, const struct fabric_page *page, const struct fabric *f, uint32_t place,
			uint32_t which)
{
	char name[RUNDIR_TREE_NAME];
	struct places p;
	int err = 0;

	rundir_tree_name(place + 1, which, name);
	describe_place(page, f, place, &p);
	for (uint32_t i = 0; i < p.count && !err; i++) {
		if (is_one_of(i, which) && !p.devices[i].ethernet)
			err = sysfs_write_ports(dir->own, name, &p.devices[i]);
	}
	if (err)
		log_line(LOG_ERROR, "the device files of a port in %s/%s do not follow its changes: %s", dir->path,
			 CONTROL_OWN "/" RUNDIR_TREE, err == -EEXIST ? "weft did not make what is there" : strerror(-err));
}

bool tree_has_place(const struct rundir *dir, uint32_t place, uint32_t which)
{
	return has_tree(dir, place + 1, which);
}

struct place_visit {
	void (*visit)(void *arg, uint32_t place, uint32_t which);
	void *arg;
};

static bool visit_name(void *arg, const char *name)
{
	const struct place_visit *v = arg;
	char *end;
	unsigned long place, which = 0;

	if (strncmp(name, RUNDIR_PORT_TREE, strlen(RUNDIR_PORT_TREE)) != 0)
		return true;
	place = strtoul(name + strlen(RUNDIR_PORT_TREE), &end, 10);
	if (*end == '-')
		which = strtoul(end + 1, &end, 16);
	if (place < TOPOLOGY_PORTS + TOPOLOGY_NODES && !*end && !(which >> PAGE_DEVICES))
		v->visit(v->arg, (uint32_t)place, (uint32_t)which);
	return true;
}

void tree_visit_places(const struct rundir *dir, void (*visit)(void *arg, uint32_t place, uint32_t which), void *arg)
{
	entry_visit(dir->own, visit_name, &(struct place_visit){ visit, arg });
}

struct removal {
	const struct rundir *dir;
	const char *begin;	/* of the names of trees to remove */
	bool is_whole;
};

static bool remove_tree(void *arg, const char *name)
{
	struct removal *r = arg;

	if (strncmp(name, r->begin, strlen(r->begin)) == 0)
		r->is_whole &= sysfs_remove(r->dir->own, name);
	return true;
}

static bool remove_trees(const struct rundir *dir, const char *begin)
{
	struct removal r = { dir, begin, true };

	entry_visit(dir->own, remove_tree, &r);
	return r.is_whole;
}

bool tree_remove_places(const struct rundir *dir)
{
	return remove_trees(dir, RUNDIR_PORT_TREE);
}

bool tree_remove(const struct rundir *dir)
{
	return remove_trees(dir, RUNDIR_TREE);
}
