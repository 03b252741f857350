/* Devices and their ports, as the tree of small files tells them (weftd/sysfs.h); the path shim leads there. */
#include "abi/umad/umad_sysfs.h"

#include "base/natural.h"

#include <dirent.h>
#include <endian.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define CLASS "/sys/class/infiniband"
#define MAD_CLASS "/sys/class/infiniband_mad"

enum { PATH = 256, LINE = 64 };

/* One line of a file, without its end. 0 or -errno. */
static int read_line(const char *folder, const char *file, char *line, size_t room)
{
	char path[2 * PATH];
	ssize_t n;
	int fd;

	snprintf(path, sizeof(path), "%s/%s", folder, file);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return -errno;
	n = read(fd, line, room - 1);
	close(fd);
	line[n > 0 ? n : 0] = '\0';
	line[strcspn(line, "\n")] = '\0';
	return n > 0 ? 0 : -EIO;
}

/* The number that a file begins with, decimal or, after 0x, hexadecimal. */
static int read_number(const char *folder, const char *file, unsigned *number)
{
	char line[LINE];
	int err = read_line(folder, file, line, sizeof(line));

	if (!err)
		*number = (unsigned)strtoul(line, NULL, 0);
	return err;
}

/* Groups of 16 bits: two or more, from `at` on. */
static be64 read_groups(const char *at)
{
	uint64_t value = 0;

	for (int i = 0; i < 4 && at; i++) {
		value = value << 16 | (strtoul(at, NULL, 16) & 0xffff);
		at = strchr(at, ':');
		at = at ? at + 1 : NULL;
	}
	return htobe64(value);
}

static int read_guid(const char *folder, const char *file, be64 *guid)
{
	char line[LINE];
	int err = read_line(folder, file, line, sizeof(line));

	if (!err)
		*guid = read_groups(line);
	return err;
}

/* ---- names ---- */

/* An adapter, a switch or a router. Those of RoCE count, as programs only read of many. */
static bool is_ib(const char *ca_name)
{
	char folder[PATH];
	unsigned type;

	snprintf(folder, sizeof(folder), CLASS "/%s", ca_name);
	return read_number(folder, "node_type", &type) == 0 && type >= 1 && type <= 3;
}

static int by_name(const void *a, const void *b)
{
	return natural_compare(a, b);
}

UMAD_EXPORT int umad_get_cas_names(char cas[][UMAD_NAME], int max)
{
	struct dirent *e;
	int n = 0;
	DIR *d = opendir(CLASS);

	while (d && n < max && (e = readdir(d))) {
		if (e->d_name[0] == '.' || strlen(e->d_name) >= UMAD_NAME || !is_ib(e->d_name))
			continue;
		memcpy(cas[n++], e->d_name, strlen(e->d_name) + 1);
	}
	if (d)
		closedir(d);
	qsort(cas, (size_t)n, UMAD_NAME, by_name);
	return n;
}

UMAD_EXPORT void umad_free_ca_device_list(struct umad_device_node *head)
{
	while (head) {
		struct umad_device_node *next = head->next;

		free((void *)(uintptr_t)head->ca_name);
		free(head);
		head = next;
	}
}

UMAD_EXPORT struct umad_device_node *umad_get_ca_device_list(void)
{
	char names[UMAD_DEVICES][UMAD_NAME];
	int n = umad_get_cas_names(names, UMAD_DEVICES);
	struct umad_device_node *head = NULL;

	errno = 0;
	while (n-- > 0) {
		struct umad_device_node *node = calloc(1, sizeof(*node));

		if (node)
			node->ca_name = strdup(names[n]);
		if (!node || !node->ca_name) {
			free(node);
			umad_free_ca_device_list(head);
			errno = ENOMEM;
			return NULL;
		}
		node->next = head;
		head = node;
	}
	return head;
}

static int by_ca_name(const void *a, const void *b)
{
	const struct umad_device_node *const *x = a, *const *y = b;

	return natural_compare((*x)->ca_name, (*y)->ca_name);
}

/* size: how many there are, 0: unknown. What comes after so many is left out of the sorted list, as the caller says it is not
 * there. */
UMAD_EXPORT int umad_sort_ca_device_list(struct umad_device_node **head, size_t size)
{
	struct umad_device_node **all;
	size_t n = 0;

	for (struct umad_device_node *node = head ? *head : NULL; node; node = node->next)
		n++;
	if (!n)
		return 0;
	if (size && size != n)
		return EINVAL;
	all = calloc(n, sizeof(*all));
	if (!all)
		return errno;
	n = 0;
	for (struct umad_device_node *node = *head; node; node = node->next)
		all[n++] = node;
	qsort(all, n, sizeof(*all), by_ca_name);
	for (size_t i = 0; i < n; i++)
		all[i]->next = i + 1 < n ? all[i + 1] : NULL;
	*head = all[0];
	free(all);
	return 0;
}

/* ---- ports ---- */

/* The name that a caller means; the first device that there is for none. 0 or -ENODEV. */
static int find_ca(const char *wanted, char name[UMAD_NAME])
{
	char names[UMAD_DEVICES][UMAD_NAME];
	int n = umad_get_cas_names(names, UMAD_DEVICES);

	for (int i = 0; i < n; i++) {
		if (wanted && strcmp(wanted, names[i]) != 0)
			continue;
		memcpy(name, names[i], UMAD_NAME);
		return 0;
	}
	return -ENODEV;
}

static int count_pkeys(const char *folder)
{
	char file[LINE];
	unsigned value;
	int n = 0;

	do
		snprintf(file, sizeof(file), "pkeys/%d", n);
	while (read_number(folder, file, &value) == 0 && ++n < 65536);
	return n;
}

static int read_pkeys(const char *folder, umad_port_t *port)
{
	int n = count_pkeys(folder);

	port->pkeys = calloc((size_t)n + 1, sizeof(*port->pkeys));
	if (!port->pkeys)
		return -ENOMEM;
	for (int i = 0; i < n; i++) {
		char file[LINE];
		unsigned value = 0;

		snprintf(file, sizeof(file), "pkeys/%d", i);
		read_number(folder, file, &value);
		port->pkeys[i] = (uint16_t)value;
	}
	port->pkeys_size = (unsigned)n;
	return 0;
}

static int read_gid(const char *folder, umad_port_t *port)
{
	char gid[LINE], *at = gid;
	int err = read_line(folder, "gids/0", gid, sizeof(gid));

	if (err)
		return err;
	port->gid_prefix = read_groups(gid);
	for (int i = 0; i < 4 && at; i++) {
		at = strchr(at, ':');
		at = at ? at + 1 : NULL;
	}
	port->port_guid = at ? read_groups(at) : 0;
	return 0;
}

static int read_port(const char *ca_name, int number, umad_port_t *port)
{
	const struct {
		const char *file;
		unsigned *to;
	} numbers[] = {
		{ "lid", &port->base_lid }, { "lid_mask_count", &port->lmc }, { "sm_lid", &port->sm_lid },
		{ "sm_sl", &port->sm_sl }, { "state", &port->state }, { "phys_state", &port->phys_state },
		{ "rate", &port->rate },
	};
	char folder[PATH];
	unsigned capabilities = 0;
	int err = 0;

	memset(port, 0, sizeof(*port));
	snprintf(port->ca_name, sizeof(port->ca_name), "%s", ca_name);
	port->portnum = number;
	snprintf(folder, sizeof(folder), CLASS "/%.*s/ports/%d", UMAD_NAME, ca_name, number);
	for (size_t i = 0; i < sizeof(numbers) / sizeof(numbers[0]) && !err; i++)
		err = read_number(folder, numbers[i].file, numbers[i].to);
	if (!err)
		err = read_number(folder, "cap_mask", &capabilities);
	port->capmask = htobe32(capabilities);
	/* before there were others than InfiniBand's there was no such file */
	if (!err && read_line(folder, "link_layer", port->link_layer, sizeof(port->link_layer)))
		snprintf(port->link_layer, sizeof(port->link_layer), "IB");
	if (!err)
		err = read_gid(folder, port);
	return err ? err : read_pkeys(folder, port);
}

UMAD_EXPORT int umad_release_port(umad_port_t *port)
{
	free(port->pkeys);
	port->pkeys = NULL;
	port->pkeys_size = 0;
	return 0;
}

static bool has_port(const char *ca_name, int number)
{
	char folder[PATH];
	unsigned state;

	snprintf(folder, sizeof(folder), CLASS "/%.*s/ports/%d", UMAD_NAME, ca_name, number);
	return read_number(folder, "state", &state) == 0;
}

/* The port that a caller means by 0: the first that is active, else the first whose link is not down, else the first; of those
 * with an SMI alone, if so asked. */
static int choose_port(const char *ca_name, enum umad_interface interface)
{
	int best = -ENODEV, best_rank = -1;

	for (int i = 1; i < UMAD_CA_PORTS; i++) {
		char folder[PATH];
		unsigned state, capabilities = 0;
		int rank;

		snprintf(folder, sizeof(folder), CLASS "/%.*s/ports/%d", UMAD_NAME, ca_name, i);
		if (read_number(folder, "state", &state))
			continue;
		read_number(folder, "cap_mask", &capabilities);
		if (interface == UMAD_SMI && !umad_has_smi(htobe32(capabilities)))
			continue;
		rank = state == 4 ? 2 : state > 1;
		if (rank > best_rank) {
			best_rank = rank;
			best = i;
		}
	}
	return best;
}

int umad_resolve(const char *ca_name, int number, enum umad_interface interface, char name[UMAD_NAME])
{
	char names[UMAD_DEVICES][UMAD_NAME];
	int n = umad_get_cas_names(names, UMAD_DEVICES), chosen = -ENODEV;

	for (int i = 0; i < n && chosen < 0; i++) {
		if (ca_name && strcmp(ca_name, names[i]) != 0)
			continue;
		memcpy(name, names[i], UMAD_NAME);
		if (number == 0)
			chosen = choose_port(name, interface);
		else
			chosen = number > 0 && number < UMAD_CA_PORTS && has_port(name, number) ? number : -EINVAL;
	}
	return chosen;
}

UMAD_EXPORT int umad_get_port(const char *ca_name, int portnum, umad_port_t *port)
{
	char name[UMAD_NAME];
	int number = umad_resolve(ca_name, portnum, UMAD_GSI, name), err;

	if (number < 0)
		return number;
	err = read_port(name, number, port);
	if (err)
		umad_release_port(port);
	return err;
}

UMAD_EXPORT int umad_release_ca(umad_ca_t *ca)
{
	for (int i = 0; i < UMAD_CA_PORTS; i++) {
		if (!ca->ports[i])
			continue;
		umad_release_port(ca->ports[i]);
		free(ca->ports[i]);
		ca->ports[i] = NULL;
	}
	return 0;
}

static int read_ports(umad_ca_t *ca)
{
	int err = 0;

	for (int i = 1; i < UMAD_CA_PORTS && !err; i++) {
		if (!has_port(ca->ca_name, i))
			continue;
		ca->ports[i] = calloc(1, sizeof(*ca->ports[i]));
		err = ca->ports[i] ? read_port(ca->ca_name, i, ca->ports[i]) : -ENOMEM;
		ca->numports = i;
	}
	return err;
}

UMAD_EXPORT int umad_get_ca(const char *ca_name, umad_ca_t *ca)
{
	char folder[PATH];
	int err;

	memset(ca, 0, sizeof(*ca));
	err = find_ca(ca_name, ca->ca_name);
	if (err)
		return err;
	snprintf(folder, sizeof(folder), CLASS "/%.*s", UMAD_NAME, ca->ca_name);
	err = read_number(folder, "node_type", &ca->node_type);
	if (!err)
		err = read_guid(folder, "node_guid", &ca->node_guid);
	if (!err)
		err = read_guid(folder, "sys_image_guid", &ca->system_guid);
	/* these are not there with every device */
	read_line(folder, "fw_ver", ca->fw_ver, sizeof(ca->fw_ver));
	read_line(folder, "hw_rev", ca->hw_ver, sizeof(ca->hw_ver));
	read_line(folder, "hca_type", ca->ca_type, sizeof(ca->ca_type));
	if (!err)
		err = read_ports(ca);
	if (err)
		umad_release_ca(ca);
	return err;
}

UMAD_EXPORT int umad_get_ca_portguids(const char *ca_name, be64 *guids, int max)
{
	umad_ca_t ca;
	int err = umad_get_ca(ca_name, &ca), n = 0;

	if (err)
		return err;
	if (guids && ca.numports + 1 > max)
		err = -ENOMEM;
	for (; !err && guids && n <= ca.numports; n++)
		guids[n] = ca.ports[n] ? ca.ports[n]->port_guid : 0;
	umad_release_ca(&ca);
	return err ? err : ca.numports + 1;
}

/* The number N of umadN, or -errno. */
static int find_file(const char *ca_name, int number)
{
	for (int i = 0; i < UMAD_DEVICES; i++) {
		char folder[PATH], name[LINE];
		unsigned port;

		snprintf(folder, sizeof(folder), MAD_CLASS "/umad%d", i);
		if (read_line(folder, "ibdev", name, sizeof(name)) || read_number(folder, "port", &port))
			continue;
		if (strcmp(name, ca_name) == 0 && (int)port == number)
			return i;
	}
	return -EINVAL;
}

UMAD_EXPORT int umad_get_issm_path(const char *ca_name, int portnum, char path[], int max)
{
	char name[UMAD_NAME];
	int number = umad_resolve(ca_name, portnum, UMAD_GSI, name), file;

	if (number < 0)
		return number;
	file = find_file(name, number);
	if (file < 0)
		return file;
	return snprintf(path, (size_t)max, "/dev/infiniband/issm%d", file) < max ? 0 : -ENAMETOOLONG;
}
