/* Writes the tree described in sysfs.h. Names and formats are those of the Linux kernel's documented sysfs ABI
 * (Documentation/ABI/stable/sysfs-class-infiniband), device numbers those of its devices.txt. */
#include "sysfs.h"

#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <limits.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* Major 231 is InfiniBand; minors from 0 are umad, from 64 issm, from 192 uverbs. */
#define IB_MAJOR 231
#define UMAD_MINOR 0
#define ISSM_MINOR 64
#define UVERBS_MINOR 192

/* The ABI numbers of ib_user_verbs.h, ib_user_mad.h and rdma_user_cm.h. */
#define VERBS_ABI 6
#define MAD_ABI 5
#define CM_ABI 4

/* Where the next file goes, and the first error met, after which nothing more is written. */
struct tree {
	const char *root;
	char dir[PATH_MAX];
	int error;
};

static const char *const port_counters[] = {
	"VL15_dropped", "excessive_buffer_overrun_errors", "link_downed", "link_error_recovery", "local_link_integrity_errors",
	"multicast_rcv_packets", "multicast_xmit_packets", "port_rcv_constraint_errors", "port_rcv_data", "port_rcv_errors",
	"port_rcv_packets", "port_rcv_remote_physical_errors", "port_rcv_switch_relay_errors", "port_xmit_constraint_errors",
	"port_xmit_data", "port_xmit_discards", "port_xmit_packets", "port_xmit_wait", "symbol_error", "unicast_rcv_packets",
	"unicast_xmit_packets",
};

/* The names of the kernel's software RDMA device, which tools know. */
static const char *const hw_counters[] = {
	"ack_deferred", "completer_retry_err", "duplicate_request", "link_downed", "out_of_seq_request", "rcvd_pkts",
	"rcvd_rnr_err", "rcvd_seq_err", "rdma_recvs", "rdma_sends", "retry_exceeded_err", "retry_rnr_exceeded_err", "send_err",
	"send_rnr_err", "sent_pkts",
};

#define COUNT(array) ((int)(sizeof(array) / sizeof((array)[0])))

/* Makes every missing folder of path. */
static int make_dirs(char *path)
{
	for (char *p = path + 1;; p++) {
		char c = *p;

		if (c != '/' && c != '\0')
			continue;
		*p = '\0';
		if (mkdir(path, 0755) && errno != EEXIST)
			return -errno;
		*p = c;
		if (c == '\0')
			return 0;
	}
}

/* Goes to a folder below the root, made if missing. */
__attribute__((format(printf, 2, 3))) static void enter(struct tree *t, const char *format, ...)
{
	char below[256];
	va_list ap;
	int n;

	if (t->error)
		return;
	va_start(ap, format);
	n = vsnprintf(below, sizeof(below), format, ap);
	va_end(ap);
	if (n < 0 || (size_t)n >= sizeof(below) ||
	    (size_t)snprintf(t->dir, sizeof(t->dir), "%s/%s", t->root, below) >= sizeof(t->dir)) {
		t->error = -ENAMETOOLONG;
		return;
	}
	t->error = make_dirs(t->dir);
}

static int write_file(const char *path, const char *text, size_t bytes)
{
	int fd = open(path, O_WRONLY | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0644);
	int error = 0;

	if (fd < 0)
		return -errno;
	if (write(fd, text, bytes) != (ssize_t)bytes || ftruncate(fd, bytes))
		error = errno ? -errno : -EIO;
	close(fd);
	return error;
}

/* Writes one line to a file of the folder entered. */
__attribute__((format(printf, 3, 4))) static void put(struct tree *t, const char *name, const char *format, ...)
{
	char path[PATH_MAX], text[4096];
	va_list ap;
	int n;

	if (t->error)
		return;
	va_start(ap, format);
	n = vsnprintf(text, sizeof(text) - 1, format, ap);
	va_end(ap);
	if (n < 0 || (size_t)n >= sizeof(text) - 1 ||
	    (size_t)snprintf(path, sizeof(path), "%s/%s", t->dir, name) >= sizeof(path)) {
		t->error = -ENAMETOOLONG;
		return;
	}
	text[n++] = '\n';
	t->error = write_file(path, text, n);
}

static void put_guid(struct tree *t, const char *name, uint64_t guid)
{
	put(t, name, "%04x:%04x:%04x:%04x", (unsigned int)(guid >> 48) & 0xffff, (unsigned int)(guid >> 32) & 0xffff,
	    (unsigned int)(guid >> 16) & 0xffff, (unsigned int)guid & 0xffff);
}

static void put_gid(struct tree *t, int index, const uint8_t raw[16])
{
	char name[16], text[40];
	int n = 0;

	for (int i = 0; i < 16; i += 2)
		n += snprintf(text + n, sizeof(text) - n, "%s%02x%02x", i ? ":" : "", raw[i], raw[i + 1]);
	snprintf(name, sizeof(name), "%d", index);
	put(t, name, "%s", text);
}

/* A device in software is equally near to every processor: a mask of all, in words of 32 from the highest, as %*pb prints. */
static void put_cpus(struct tree *t)
{
	long cpus = sysconf(_SC_NPROCESSORS_CONF);
	char text[2048];
	int n = 0;

	cpus = cpus < 1 ? 1 : cpus > 4096 ? 4096 : cpus;
	for (long word = (cpus - 1) / 32; word >= 0; word--) {
		long left = cpus - word * 32;
		uint32_t mask = left >= 32 ? UINT32_MAX : (1U << left) - 1;

		n += snprintf(text + n, sizeof(text) - n, "%08x%s", mask, word ? "," : "");
	}
	put(t, "local_cpus", "%s", text);
	if (cpus == 1)
		put(t, "local_cpulist", "0");
	else
		put(t, "local_cpulist", "0-%ld", cpus - 1);
}

static void put_zeros(struct tree *t, const char *const *names, int n)
{
	for (int i = 0; i < n; i++)
		put(t, names[i], "0");
}

static void write_gids(struct tree *t, const struct sysfs_device *d)
{
	char name[16];

	enter(t, "sys/class/infiniband/%s/ports/1/gids", d->name);
	for (int i = 0; i < d->gid_count; i++)
		put_gid(t, i, d->gids[i].raw);
	enter(t, "sys/class/infiniband/%s/ports/1/gid_attrs/types", d->name);
	for (int i = 0; i < d->gid_count; i++) {
		snprintf(name, sizeof(name), "%d", i);
		put(t, name, "%s", d->gids[i].type);
	}
	enter(t, "sys/class/infiniband/%s/ports/1/gid_attrs/ndevs", d->name);
	for (int i = 0; i < d->gid_count; i++) {
		snprintf(name, sizeof(name), "%d", i);
		if (d->gids[i].ndev)
			put(t, name, "%s", d->gids[i].ndev);
	}
}

static void write_port(struct tree *t, const struct sysfs_device *d)
{
	char name[16];

	enter(t, "sys/class/infiniband/%s/ports/1", d->name);
	put(t, "state", "4: ACTIVE");
	put(t, "phys_state", "5: LinkUp");
	put(t, "rate", "100 Gb/sec (4X EDR)");
	put(t, "link_layer", "%s", d->ethernet ? "Ethernet" : "InfiniBand");
	put(t, "lid", "0x%x", d->lid);
	put(t, "lid_mask_count", "%u", d->lmc);
	put(t, "sm_lid", "0x%x", d->sm_lid);
	put(t, "sm_sl", "%u", d->sm_sl);
	put(t, "cap_mask", "0x%08x", d->cap_mask);
	enter(t, "sys/class/infiniband/%s/ports/1/pkeys", d->name);
	for (int i = 0; i < d->pkey_count; i++) {
		snprintf(name, sizeof(name), "%d", i);
		put(t, name, "0x%04x", d->pkeys[i]);
	}
	enter(t, "sys/class/infiniband/%s/ports/1/counters", d->name);
	put_zeros(t, port_counters, COUNT(port_counters));
	enter(t, "sys/class/infiniband/%s/ports/1/hw_counters", d->name);
	put_zeros(t, hw_counters, COUNT(hw_counters));
	put(t, "lifespan", "10");
	write_gids(t, d);
}

/* What would be the link to the PCI function: the same folder again, named for what programs read of it. */
static void write_parent(struct tree *t, const struct sysfs_device *d, int index)
{
	enter(t, "sys/class/infiniband/%s/device", d->name);
	put(t, "numa_node", "-1");
	put(t, "vendor", "0x%04x", d->vendor_id);
	put(t, "device", "0x%04x", d->vendor_part_id);
	put_cpus(t);
	enter(t, "sys/class/infiniband/%s/device/infiniband/%s", d->name, d->name);
	enter(t, "sys/class/infiniband/%s/device/infiniband_verbs/uverbs%d", d->name, index);
	for (int i = 0; i < d->gid_count; i++)
		if (d->gids[i].ndev)
			enter(t, "sys/class/infiniband/%s/device/net/%s", d->name, d->gids[i].ndev);
}

static void write_ca(struct tree *t, const struct sysfs_device *d, int index)
{
	enter(t, "sys/class/infiniband/%s", d->name);
	put(t, "node_type", "1: CA");
	put_guid(t, "node_guid", d->node_guid);
	put_guid(t, "sys_image_guid", d->sys_image_guid);
	put(t, "node_desc", "%s", d->node_desc);
	put(t, "fw_ver", "%s", d->fw_ver);
	put(t, "hw_rev", "0");
	put(t, "hca_type", "weft");
	put(t, "board_id", "%s", d->board_id);
	write_parent(t, d, index);
	write_port(t, d);
}

static void write_uverbs(struct tree *t, const struct sysfs_device *d, int index)
{
	char name[32];

	enter(t, "sys/class/infiniband_verbs/uverbs%d", index);
	put(t, "ibdev", "%s", d->name);
	put(t, "abi_version", "1");
	put(t, "dev", "%d:%d", IB_MAJOR, UVERBS_MINOR + index);
	enter(t, "sys/class/infiniband_verbs/uverbs%d/device", index);
	put(t, "numa_node", "-1");
	put(t, "vendor", "0x%04x", d->vendor_id);
	put(t, "device", "0x%04x", d->vendor_part_id);
	put_cpus(t);
	enter(t, "dev/infiniband");
	snprintf(name, sizeof(name), "uverbs%d", index);
	put(t, name, "%s", d->name);
}

/* umadN and issmN differ in name and minor alone. */
static void write_mad_node(struct tree *t, const struct sysfs_device *d, const char *node, int index, int minor)
{
	char name[32];

	snprintf(name, sizeof(name), "%s%d", node, index);
	enter(t, "sys/class/infiniband_mad/%s", name);
	put(t, "ibdev", "%s", d->name);
	put(t, "port", "1");
	put(t, "dev", "%d:%d", IB_MAJOR, minor + index);
	enter(t, "dev/infiniband");
	put(t, name, "%s", d->name);
}

static void write_classes(struct tree *t)
{
	enter(t, "sys/class/infiniband_verbs");
	put(t, "abi_version", "%d", VERBS_ABI);
	enter(t, "sys/class/infiniband_mad");
	put(t, "abi_version", "%d", MAD_ABI);
	enter(t, "sys/class/misc/rdma_cm");
	put(t, "abi_version", "%d", CM_ABI);
	enter(t, "dev/infiniband");
	put(t, "rdma_cm", "rdma_cm");
	enter(t, "proc/sys/net/rdma_ucm");
	put(t, "max_backlog", "%d", 65535);
}

int sysfs_write(const char *root, const struct sysfs_device *devs, int n)
{
	struct tree t = { .root = root };
	int mads = 0;

	if (!root || root[0] != '/')
		return -EINVAL;
	enter(&t, "sys/class/infiniband");
	write_classes(&t);
	for (int i = 0; i < n; i++) {
		write_ca(&t, &devs[i], i);
		write_uverbs(&t, &devs[i], i);
		if (devs[i].ethernet)
			continue;
		write_mad_node(&t, &devs[i], "umad", mads, UMAD_MINOR);
		write_mad_node(&t, &devs[i], "issm", mads, ISSM_MINOR);
		mads++;
	}
	return t.error;
}

static int remove_entry(const char *path, const struct stat *st, int type, struct FTW *level)
{
	remove(path);
	return 0;
}

void sysfs_remove(const char *root)
{
	if (root && root[0] == '/' && root[1])
		nftw(root, remove_entry, 16, FTW_DEPTH | FTW_PHYS);
}
