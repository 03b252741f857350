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

struct texts {
	struct sysfs_gid gids[PAGE_GIDS];
	uint16_t pkey;
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

static void describe(const struct page_device *d, struct texts *t, struct sysfs_device *to)
{
	t->pkey = d->pkey;
	*to = (struct sysfs_device){
		.name = d->name,
		.node_desc = t->desc,
		.fw_ver = WEFT_VERSION,
		.board_id = "weft",
		.ethernet = control_device_protocol(d)->link_layer == IBV_LINK_LAYER_ETHERNET,
		.node_guid = d->guid,
		.sys_image_guid = d->system_guid,
		.vendor_id = VENDOR,
		.vendor_part_id = 1,
		.lid = d->lid,
		.sm_lid = d->sm_lid,
		.lmc = d->lmc,
		.state = d->port_state,
		.phys_state = d->phys_state,
		.width = d->width,
		.speed = d->speed,
		.cap_mask = CAP_MASK,
		.gids = t->gids,
		.gid_count = describe_gids(d, t->gids),
		.pkeys = &t->pkey,
		.pkey_count = 1,
	};
}

/* One tree of these devices, named for `at` as rundir_tree has it: of all, or of device which - 1 alone. */
static int write_one(const struct rundir *dir, const struct sysfs_device devices[CONTROL_DEVICES], uint32_t at, uint32_t which)
{
	int only = (int)which - 1, err;
	char name[RUNDIR_TREE_NAME];

	rundir_tree_name(at, which ? devices[only].name : NULL, name);
	err = which ? sysfs_write(dir->own, name, &devices[only], 1, only) :
		      sysfs_write(dir->own, name, devices, CONTROL_DEVICES, 0);
	if (err)
		log_line(LOG_ERROR, "the device files in %s/%s cannot be written: %s", dir->path, CONTROL_OWN "/" RUNDIR_TREE,
			 err == -EEXIST ? "weft did not make what is there" : strerror(-err));
	return err;
}

int tree_write(const struct rundir *dir, const struct fabric_page *page)
{
	struct sysfs_device devices[CONTROL_DEVICES];
	struct texts texts[CONTROL_DEVICES];
	char host[64] = "";
	int err = 0;

	_Static_assert((int)PAGE_GIDS <= (int)SYSFS_GIDS, "what is written is removed");
	gethostname(host, sizeof(host) - 1);
	for (int i = 0; i < CONTROL_DEVICES; i++) {
		name_node(&page->device[i], host, NULL, &texts[i]);
		describe(&page->device[i], &texts[i], &devices[i]);
	}
	for (uint32_t which = 0; which <= CONTROL_DEVICES && !err; which++)
		err = write_one(dir, devices, 0, which);
	return err;
}

int tree_write_port(const struct rundir *dir, const struct fabric_page *page, const struct fabric *f, uint32_t port,
		    uint32_t which)
{
	struct sysfs_device devices[CONTROL_DEVICES];
	struct page_device at_port[CONTROL_DEVICES];
	struct texts texts[CONTROL_DEVICES];

	for (int i = 0; i < CONTROL_DEVICES; i++) {
		at_port[i] = page->device[i];
		if (at_port[i].protocol == PAGE_IB)
			host_describe(f, port, &at_port[i]);
		name_node(&at_port[i], "", f->node[f->owner[port]].description, &texts[i]);
		describe(&at_port[i], &texts[i], &devices[i]);
	}
	return write_one(dir, devices, port + 1, which);
}

bool tree_has_port(const struct rundir *dir, uint32_t port, uint32_t which)
{
	char name[RUNDIR_TREE_NAME];

	rundir_tree_name(port + 1, which ? control_devices[which - 1].name : NULL, name);
	return faccessat(dir->own, name, F_OK, AT_SYMLINK_NOFOLLOW) == 0;
}

static bool remove_trees(const struct rundir *dir, uint32_t at)
{
	const char *devices[CONTROL_DEVICES];
	char name[RUNDIR_TREE_NAME];
	bool is_gone;

	for (int i = 0; i < CONTROL_DEVICES; i++)
		devices[i] = control_devices[i].name;
	rundir_tree_name(at, NULL, name);
	is_gone = sysfs_remove(dir->own, name, devices, CONTROL_DEVICES, 0);
	for (int i = 0; i < CONTROL_DEVICES; i++) {
		rundir_tree_name(at, devices[i], name);
		is_gone &= sysfs_remove(dir->own, name, &devices[i], 1, i);
	}
	return is_gone;
}

struct port_visit {
	void (*visit)(void *arg, uint32_t port);
	void *arg;
};

static bool visit_name(void *arg, const char *name)
{
	const struct port_visit *v = arg;
	char *end;
	unsigned long port;

	if (strncmp(name, RUNDIR_PORT_TREE, strlen(RUNDIR_PORT_TREE)) != 0)
		return true;
	port = strtoul(name + strlen(RUNDIR_PORT_TREE), &end, 10);
	if (port < TOPOLOGY_PORTS && (!*end || *end == '-'))
		v->visit(v->arg, (uint32_t)port);
	return true;
}

void tree_visit_ports(const struct rundir *dir, void (*visit)(void *arg, uint32_t port), void *arg)
{
	entry_visit(dir->own, visit_name, &(struct port_visit){ visit, arg });
}

struct removal {
	const struct rundir *dir;
	bool is_whole;
};

/* Whichever of a port's trees is met first takes the others along. */
static void remove_port(void *arg, uint32_t port)
{
	struct removal *r = arg;

	r->is_whole &= remove_trees(r->dir, port + 1);
}

bool tree_remove_ports(const struct rundir *dir)
{
	struct removal r = { dir, true };

	tree_visit_ports(dir, remove_port, &r);
	return r.is_whole;
}

bool tree_remove(const struct rundir *dir)
{
	return tree_remove_ports(dir) & remove_trees(dir, 0);
}
