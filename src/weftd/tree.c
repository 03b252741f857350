/* Translation from the page to what sysfs.h wants. */
#include "weftd/tree.h"

#include "base/log.h"
#include "weftd/sysfs.h"

#include <infiniband/verbs.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

/* IBA vol. 1, 14.2.5.6, PortInfo CapabilityMask: IsTrapSupported 2, IsAutomaticMigrationSupported 3 are not ours; what stays:
 * IsSystemImageGUIDSupported 11, IsCommunicationManagementSupported 16. */
#define CAP_MASK 0x00010800u

/* As ibv_query_device says. */
#define VENDOR 0x027766

static const uint16_t default_pkeys[] = { 0xffff };

struct texts {
	struct sysfs_gid gids[PAGE_GIDS];
	char desc[64];		/* IBA vol. 1, 14.2.5.2: NodeDescription has 64 octets */
};

static int describe_gids(const struct page_device *d, struct sysfs_gid *to)
{
	int count = 0;

	for (int i = 0; i < PAGE_GIDS; i++) {
		const struct page_gid *g = &d->gid[i];

		memcpy(to[i].raw, g->raw, 16);
		to[i].type = d->link_layer == IBV_LINK_LAYER_ETHERNET ? "RoCE v2" : "IB/RoCE v1";
		to[i].ndev = g->valid && g->ifname[0] ? g->ifname : NULL;
		if (g->valid)
			count = i + 1;
	}
	return count;
}

static void describe(const struct page_device *d, const char *host, struct texts *t, struct sysfs_device *to)
{
	snprintf(t->desc, sizeof(t->desc), "%.40s %s", host, d->name);
	*to = (struct sysfs_device){
		.name = d->name,
		.node_desc = t->desc,
		.fw_ver = WEFT_VERSION,
		.board_id = "weft",
		.ethernet = d->link_layer == IBV_LINK_LAYER_ETHERNET,
		.node_guid = d->guid,
		.sys_image_guid = d->guid,
		.vendor_id = VENDOR,
		.vendor_part_id = 1,
		.lid = d->lid,
		.sm_lid = d->sm_lid,
		.cap_mask = CAP_MASK,
		.gids = t->gids,
		.gid_count = describe_gids(d, t->gids),
		.pkeys = default_pkeys,
		.pkey_count = 1,
	};
}

int tree_write(const struct rundir *dir, const struct fabric_page *page)
{
	struct sysfs_device devices[PAGE_DEVICES];
	struct texts texts[PAGE_DEVICES];
	char host[64] = "", root[RUNDIR_FILE];
	int err;

	gethostname(host, sizeof(host) - 1);
	for (int i = 0; i < PAGE_DEVICES; i++)
		describe(&page->device[i], host, &texts[i], &devices[i]);
	rundir_file(dir, "root", root);
	err = sysfs_write(root, devices, PAGE_DEVICES);
	if (err)
		log_line(LOG_ERROR, "the device files in %s cannot be written: %s", root, strerror(-err));
	return err;
}

void tree_remove(const struct rundir *dir)
{
	char root[RUNDIR_FILE];

	rundir_file(dir, "root", root);
	sysfs_remove(root);
}
