/* Writes the tree described in sysfs.h. Names and formats are those of the Linux kernel's documented sysfs ABI
 * (Documentation/ABI/stable/sysfs-class-infiniband), device numbers those of its devices.txt. */
#include "weftd/sysfs.h"

#include "base/log.h"
#include "weftd/entry.h"

#include <errno.h>
#include <fcntl.h>
#include <net/if.h>
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

/* Sixteen devices, which have sixteen ports together, have less than 1000 folders; the longest name of one has 60 bytes. */
enum { FOLDERS = 1200, FOLDER_NAME = 128 };

/* One walk writes the files and removes them: which names there are is told once. */
enum phase { WRITING, DROPPING_FILES, DROPPING_FOLDERS };

struct tree {
	const char *name;
	int root;	/* owned */
	int dir;	/* owned: the folder entered, where the next file goes; negative: when removing, it is not there */
	char at[FOLDER_NAME];	/* its name */
	enum phase phase;
	int error;	/* the first error met, after which nothing more is written */
	int folders;	/* those entered while files were dropped */
	char folder[FOLDERS][FOLDER_NAME];
};

static const char *const port_counters[] = {
#define PORT_COUNTER(file, ...) #file,
#define PORT_COUNTER_EXT PORT_COUNTER
#include "weftd/port_counter.def"
#undef PORT_COUNTER
#undef PORT_COUNTER_EXT
};

_Static_assert(sizeof(port_counters) / sizeof(port_counters[0]) == SYSFS_COUNTERS, "port_counter.def");

static const char *const hw_counters[] = {
#define HW_COUNTER(name) #name,
#include "weftd/hw_counter.def"
#undef HW_COUNTER
};

_Static_assert(sizeof(hw_counters) / sizeof(hw_counters[0]) == SYSFS_HW_COUNTERS, "hw_counter.def");

#define COUNT(array) ((int)(sizeof(array) / sizeof((array)[0])))

/* Something that weft did not make: it stays, and writing stops. */
static void meet_other(struct tree *t, const char *folder, const char *name)
{
	log_line(LOG_WARNING, "%s/%s%s%s was not made by weft: it stays as it is", t->name, folder, *folder ? "/" : "", name);
}

static bool is_known(const struct tree *t, const char *folder)
{
	for (int i = 0; i < t->folders; i++) {
		if (strcmp(t->folder[i], folder) == 0)
			return true;
	}
	return false;
}

static void remember(struct tree *t, const char *folder)
{
	if (!weft_bug_on(t->folders == FOLDERS))
		snprintf(t->folder[t->folders++], FOLDER_NAME, "%s", folder);
}

/* A descriptor of the folder below the root, -errno; `below` is as it was in the end. */
static int walk(struct tree *t, char *below)
{
	int at = openat(t->root, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);

	if (at < 0)
		return -errno;
	for (char *name = below, *end; name && at >= 0; name = end) {
		bool is_new;
		int next;

		end = strchr(name, '/');
		if (end)
			*end = '\0';
		is_new = t->phase == WRITING || !is_known(t, below);
		next = entry_enter(at, name, t->phase == WRITING ? 0755 : 0);
		if (is_new && t->phase == DROPPING_FILES && next != -ENOENT)
			remember(t, below);
		if (next == -EEXIST && is_new)
			meet_other(t, "", below);
		if (end)
			*end++ = '/';
		close(at);
		at = next;
	}
	return at;
}

static void leave(struct tree *t)
{
	if (t->dir >= 0)
		close(t->dir);
	t->dir = -ENOENT;
}

/* Goes to a folder below the root; when writing, it is made if missing. */
__attribute__((format(printf, 2, 3))) static void enter(struct tree *t, const char *format, ...)
{
	va_list ap;
	int n;

	if (t->error)
		return;
	leave(t);
	va_start(ap, format);
	n = vsnprintf(t->at, sizeof(t->at), format, ap);
	va_end(ap);
	if (n < 0 || (size_t)n >= sizeof(t->at)) {
		t->error = -ENAMETOOLONG;
		return;
	}
	t->dir = walk(t, t->at);
	if (t->dir < 0 && t->phase == WRITING)
		t->error = t->dir;
}

enum { FILE_MOST = 4096 };

/* Most files of a tree that is written again say so already: reading them spares the file system a change of each. */
static bool says(int fd, const char *text, size_t bytes)
{
	char is[FILE_MOST];
	ssize_t n = read(fd, is, sizeof(is));

	return n == (ssize_t)bytes && memcmp(is, text, bytes) == 0;
}

static int write_file(int dir, const char *name, const char *text, size_t bytes)
{
	int fd = entry_open(dir, name, O_RDWR | O_CREAT, 0644);
	int error = 0;

	if (fd < 0)
		return fd;
	errno = 0;
	if (!says(fd, text, bytes) && (pwrite(fd, text, bytes, 0) != (ssize_t)bytes || ftruncate(fd, (off_t)bytes)))
		error = errno ? -errno : -EIO;
	close(fd);
	return error;
}

static void drop_file(struct tree *t, const char *name)
{
	if (t->dir >= 0 && entry_remove(t->dir, name, S_IFREG))
		meet_other(t, t->at, name);
}

/* Writes one line to a file of the folder entered, or removes it. */
__attribute__((format(printf, 3, 4))) static void put(struct tree *t, const char *name, const char *format, ...)
{
	char text[FILE_MOST];
	va_list ap;
	int n;

	if (t->error)
		return;
	if (t->phase != WRITING) {
		drop_file(t, name);
		return;
	}
	va_start(ap, format);
	n = vsnprintf(text, sizeof(text) - 1, format, ap);
	va_end(ap);
	if (n < 0 || (size_t)n >= sizeof(text) - 1) {
		t->error = -ENAMETOOLONG;
		return;
	}
	text[n++] = '\n';
	t->error = write_file(t->dir, name, text, (size_t)n);
	if (t->error == -EEXIST)
		meet_other(t, t->at, name);
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

static void write_gids(struct tree *t, const struct sysfs_device *d, int number)
{
	const struct sysfs_port *p = &d->port[number - 1];
	char name[16];

	enter(t, "sys/class/infiniband/%s/ports/%d/gids", d->name, number);
	for (int i = 0; i < p->gid_count; i++)
		put_gid(t, i, p->gids[i].raw);
	enter(t, "sys/class/infiniband/%s/ports/%d/gid_attrs/types", d->name, number);
	for (int i = 0; i < p->gid_count; i++) {
		snprintf(name, sizeof(name), "%d", i);
		put(t, name, "%s", p->gids[i].type);
	}
	enter(t, "sys/class/infiniband/%s/ports/%d/gid_attrs/ndevs", d->name, number);
	for (int i = 0; i < p->gid_count; i++) {
		snprintf(name, sizeof(name), "%d", i);
		if (p->gids[i].ndev)
			put(t, name, "%s", p->gids[i].ndev);
	}
}

/* In the kernel's words. */
static const char *state_name(unsigned state)
{
	static const char *const names[] = { "NOP", "DOWN", "INIT", "ARMED", "ACTIVE" };

	return state < (unsigned)COUNT(names) ? names[state] : "UNKNOWN";
}

static const char *phys_state_name(unsigned state)
{
	static const char *const names[] = { "NOP", "Sleep", "Polling", "Disabled", "PortConfigurationTraining", "LinkUp" };

	return state < (unsigned)COUNT(names) ? names[state] : "UNKNOWN";
}

/* As the kernel does, SDR where there is no speed: signals of all lanes, in tenths of Gb/s, by the bit of the speed. */
static void put_rate(struct tree *t, unsigned width, unsigned speed)
{
	static const struct { unsigned tenths; const char *name; } speeds[] = {
		{ 25, "SDR" }, { 50, "DDR" }, { 100, "QDR" }, { 100, "FDR10" }, { 140, "FDR" }, { 250, "EDR" }, { 500, "HDR" },
		{ 1000, "NDR" },
	};
	unsigned lanes = width == 16 ? 2 : width == 8 ? 12 : width == 4 ? 8 : width == 2 ? 4 : 1;
	unsigned row = speed ? (unsigned)__builtin_ctz(speed) : 0, rate;

	if (row >= (unsigned)COUNT(speeds))
		row = 0;
	rate = speeds[row].tenths * lanes;
	put(t, "rate", "%u%s Gb/sec (%uX %s)", rate / 10, rate % 10 ? ".5" : "", lanes, speeds[row].name);
}

static void write_hw_counters(struct tree *t, const struct sysfs_device *d, int number)
{
	if (t->phase == WRITING && !d->hw_counters)
		return;
	enter(t, "sys/class/infiniband/%s/ports/%d/hw_counters", d->name, number);
	put_zeros(t, hw_counters, COUNT(hw_counters));
	put(t, "lifespan", "0");	/* milliseconds: what is read is new */
}

/* What a subnet manager changes of a port. */
static void write_state(struct tree *t, const struct sysfs_device *d, int number)
{
	const struct sysfs_port *p = &d->port[number - 1];
	char name[16];

	enter(t, "sys/class/infiniband/%s/ports/%d", d->name, number);
	put(t, "state", "%u: %s", p->state, state_name(p->state));
	put(t, "phys_state", "%u: %s", p->phys_state, phys_state_name(p->phys_state));
	put_rate(t, p->width, p->speed);
	put(t, "link_layer", "%s", d->ethernet ? "Ethernet" : "InfiniBand");
	put(t, "lid", "0x%x", p->lid);
	put(t, "lid_mask_count", "%u", p->lmc);
	put(t, "sm_lid", "0x%x", p->sm_lid);
	put(t, "sm_sl", "%u", p->sm_sl);
	put(t, "cap_mask", "0x%08x", p->cap_mask);
	enter(t, "sys/class/infiniband/%s/ports/%d/pkeys", d->name, number);
	for (int i = 0; i < p->pkey_count; i++) {
		snprintf(name, sizeof(name), "%d", i);
		put(t, name, "0x%04x", p->pkeys[i]);
	}
	write_gids(t, d, number);
}

static void write_port(struct tree *t, const struct sysfs_device *d, int number)
{
	write_state(t, d, number);
	enter(t, "sys/class/infiniband/%s/ports/%d/counters", d->name, number);
	put_zeros(t, port_counters, COUNT(port_counters));
	write_hw_counters(t, d, number);
}

/* When removing, how many a device has is not known: the folders that are there are looked at. */
static bool has_port(struct tree *t, const struct sysfs_device *d, int number)
{
	if (t->phase == WRITING || number == 1)
		return true;
	enter(t, "sys/class/infiniband/%s/ports/%d", d->name, number);
	return t->dir >= 0;
}

static bool drop_interface(void *arg, const char *name)
{
	struct tree *t = arg;

	/* another name than an interface's, or a folder with something in it, is met again when its folder is to go */
	if (strlen(name) < IFNAMSIZ)
		entry_remove(t->dir, name, S_IFDIR);
	return true;
}

/* Their names are those that the host's interfaces had when the tree was written. */
static void drop_interfaces(struct tree *t, const struct sysfs_device *d)
{
	enter(t, "sys/class/infiniband/%s/device/net", d->name);
	if (t->dir >= 0)
		entry_visit(t->dir, drop_interface, t);
}

/* What would be the link to the PCI function: the same folder again, named for what programs read of it. */
static void write_parent(struct tree *t, const struct sysfs_device *d)
{
	enter(t, "sys/class/infiniband/%s/device", d->name);
	put(t, "numa_node", "-1");
	put(t, "vendor", "0x%04x", d->vendor_id);
	put(t, "device", "0x%04x", d->vendor_part_id);
	put_cpus(t);
	enter(t, "sys/class/infiniband/%s/device/infiniband/%s", d->name, d->name);
	enter(t, "sys/class/infiniband/%s/device/infiniband_verbs/uverbs%d", d->name, d->index);
	/* when removing, d->index is not known */
	for (int i = 0; i < SYSFS_DEVICES && t->phase != WRITING; i++)
		enter(t, "sys/class/infiniband/%s/device/infiniband_verbs/uverbs%d", d->name, i);
	if (t->phase != WRITING)
		drop_interfaces(t, d);
	for (int i = 0; i < d->port[0].gid_count && t->phase == WRITING; i++)
		if (d->port[0].gids[i].ndev)
			enter(t, "sys/class/infiniband/%s/device/net/%s", d->name, d->port[0].gids[i].ndev);
}

static void write_ca(struct tree *t, const struct sysfs_device *d)
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
	write_parent(t, d);
	for (int number = 1; number <= d->ports; number++)
		if (has_port(t, d, number))
			write_port(t, d, number);
}

static void write_uverbs(struct tree *t, const struct sysfs_device *d)
{
	int index = d->index;
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

/* umadN and issmN differ in name and minor alone. Who opens one reads there whose port it is (abi/shim/issm_device.c). */
static void write_mad_node(struct tree *t, const struct sysfs_device *d, int number, const char *node, int index, int minor)
{
	char name[32];

	snprintf(name, sizeof(name), "%s%d", node, index);
	enter(t, "sys/class/infiniband_mad/%s", name);
	put(t, "ibdev", "%s", d->name);
	put(t, "port", "%d", number);
	put(t, "dev", "%d:%d", IB_MAJOR, minor + index);
	enter(t, "dev/infiniband");
	put(t, name, "%s %d", d->name, number);
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

/* As many names as there may be ports, of which all devices have no more together. */
static void write_interfaces(struct tree *t, const struct sysfs_device *devs, int n)
{
	char name[IFNAMSIZ];
	int count = 0;

	for (int i = 0; i < n; i++) {
		for (int number = 1; number <= devs[i].ports && count < SYSFS_PORTS; number++) {
			const struct sysfs_port *p = &devs[i].port[number - 1];

			if (t->phase == WRITING && !p->has_ipv4)
				continue;
			if (!count)
				enter(t, "net");
			snprintf(name, sizeof(name), "ib%d", count++);
			put(t, name, "%u.%u.%u.%u", p->ipv4[0], p->ipv4[1], p->ipv4[2], p->ipv4[3]);
		}
	}
}

static void write_devices(struct tree *t, const struct sysfs_device *devs, int n)
{
	int mads = 0;

	enter(t, "sys/class/infiniband");
	write_classes(t);
	for (int i = 0; i < n; i++) {
		if (devs[i].name[0])
			write_ca(t, &devs[i]);
		write_uverbs(t, &devs[i]);
		if (devs[i].ethernet)
			continue;
		/* all devices have no more ports together than there are devices */
		for (int number = 1; number <= devs[i].ports && mads < SYSFS_PORTS; number++, mads++) {
			write_mad_node(t, &devs[i], number, "umad", mads, UMAD_MINOR);
			write_mad_node(t, &devs[i], number, "issm", mads, ISSM_MINOR);
		}
	}
	write_interfaces(t, devs, n);
	leave(t);
}

int sysfs_write(int dir, const char *name, const struct sysfs_device *devs, int n)
{
	struct tree t = { .name = name, .dir = -ENOENT, .root = entry_enter(dir, name, 0755) };

	if (t.root == -EEXIST)
		meet_other(&t, "", "");
	if (t.root < 0)
		return t.root;
	write_devices(&t, devs, n);
	close(t.root);
	return t.error;
}

int sysfs_write_ports(int dir, const char *name, const struct sysfs_device *d)
{
	struct tree t = { .name = name, .dir = -ENOENT, .root = entry_enter(dir, name, 0) };

	if (t.root < 0)
		return t.root;
	for (int number = 1; number <= d->ports; number++)
		write_state(&t, d, number);
	leave(&t);
	close(t.root);
	return t.error;
}

static int write_values(int dir, const char *name, const char *device, unsigned port, const char *folder,
			const char *const *files, int n, const uint64_t *value)
{
	struct tree t = { .name = name, .dir = -ENOENT, .root = entry_enter(dir, name, 0) };

	if (t.root < 0)
		return t.root;
	enter(&t, "sys/class/infiniband/%s/ports/%u/%s", device, port, folder);
	for (int i = 0; i < n; i++)
		put(&t, files[i], "%llu", (unsigned long long)value[i]);
	leave(&t);
	close(t.root);
	return t.error;
}

int sysfs_write_counters(int dir, const char *name, const char *device, unsigned port, const uint64_t value[SYSFS_COUNTERS])
{
	return write_values(dir, name, device, port, "counters", port_counters, SYSFS_COUNTERS, value);
}

int sysfs_write_hw_counters(int dir, const char *name, const char *device, const uint64_t value[SYSFS_HW_COUNTERS])
{
	return write_values(dir, name, device, 1, "hw_counters", hw_counters, SYSFS_HW_COUNTERS, value);
}

/* Longer names first: what is in a folder before the folder. */
static int by_depth(const void *a, const void *b)
{
	size_t of_a = strlen(a), of_b = strlen(b);

	return of_a < of_b ? 1 : of_a > of_b ? -1 : strcmp(a, b);
}

/* Names each entry of the folder at hand that is no folder of ours: those are met themselves. */
static bool tell_other(void *arg, const char *name)
{
	struct tree *t = arg;
	char path[2 * FOLDER_NAME + 256];

	snprintf(path, sizeof(path), "%s%s%s", t->at, *t->at ? "/" : "", name);
	if (!is_known(t, path))
		meet_other(t, t->at, name);
	return true;
}

static void drop_folder(struct tree *t, const char *folder)
{
	char above[FOLDER_NAME];
	const char *name = strrchr(folder, '/');
	int err;

	snprintf(above, sizeof(above), "%.*s", name ? (int)(name - folder) : 0, folder);
	enter(t, "%s", *above ? above : ".");
	err = t->dir < 0 ? t->dir : entry_remove(t->dir, name ? name + 1 : folder, S_IFDIR);
	if (err != -ENOTEMPTY)
		return;
	enter(t, "%s", folder);
	if (t->dir >= 0)
		entry_visit(t->dir, tell_other, t);
}

struct found {
	char name[SYSFS_DEVICES][16];
	int count;
};

static bool note_device(void *arg, const char *name)
{
	struct found *f = arg;

	if (strlen(name) < sizeof(f->name[0]) && f->count < SYSFS_DEVICES)
		strcpy(f->name[f->count++], name);
	return true;
}

/* Of as many devices as there may be, as nobody knows which of the numbers the ones found have. */
static void drop_files(struct tree *t)
{
	static const struct sysfs_gid gids[SYSFS_GIDS] = { [0 ... SYSFS_GIDS - 1] = { .type = "", .ndev = "" } };
	static const uint16_t pkeys[SYSFS_PKEYS];
	const struct sysfs_port any = { .gids = gids, .gid_count = SYSFS_GIDS, .pkeys = pkeys, .pkey_count = SYSFS_PKEYS };
	struct sysfs_device all[SYSFS_DEVICES];
	struct found f = { 0 };

	enter(t, "sys/class/infiniband");
	if (t->dir >= 0)
		entry_visit(t->dir, note_device, &f);
	for (int i = 0; i < SYSFS_DEVICES; i++)
		all[i] = (struct sysfs_device){ .name = f.name[i], .index = i, .node_desc = "", .fw_ver = "", .board_id = "",
						.ports = SYSFS_PORTS, .port = { [0 ... SYSFS_PORTS - 1] = any } };
	write_devices(t, all, SYSFS_DEVICES);
}

bool sysfs_remove(int dir, const char *name)
{
	struct tree t = { .name = name, .dir = -ENOENT, .root = entry_enter(dir, name, 0), .phase = DROPPING_FILES };

	if (t.root == -EEXIST)
		meet_other(&t, "", "");
	if (t.root < 0)
		return t.root == -ENOENT;
	drop_files(&t);
	t.phase = DROPPING_FOLDERS;
	qsort(t.folder, (size_t)t.folders, FOLDER_NAME, by_depth);
	for (int i = 0; i < t.folders; i++)
		drop_folder(&t, t.folder[i]);
	leave(&t);
	t.at[0] = '\0';
	entry_visit(t.root, tell_other, &t);
	close(t.root);
	return entry_remove(dir, name, S_IFDIR) == 0;
}
