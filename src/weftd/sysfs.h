/* The tree of small files that programs are shown in place of the kernel's: sys/class/infiniband*, dev/infiniband and a few more,
 * below one root, where the preloaded shim finds them; and net/ibN, the address of each port that has one, for its getifaddrs().
 * Plain data out: nothing is read back. */
#ifndef WEFT_WEFTD_SYSFS_H
#define WEFT_WEFTD_SYSFS_H

#include <stdbool.h>
#include <stdint.h>

struct sysfs_gid {
	uint8_t raw[16];
	const char *type; /* as gid_attrs/types has it: "IB/RoCE v1" or "RoCE v2" */
	const char *ndev; /* the host's interface, NULL on InfiniBand */
};

/* How many devices there are at most, ports of one, and entries of a port's tables that are ever written. */
enum { SYSFS_DEVICES = 16, SYSFS_PORTS = 16, SYSFS_GIDS = 64, SYSFS_PKEYS = 32 };

struct sysfs_port {
	uint16_t lid;
	uint16_t sm_lid;
	uint8_t lmc;
	uint8_t sm_sl;
	uint8_t state, phys_state, width, speed;	/* as in struct ibv_port_attr */
	uint32_t cap_mask;
	const struct sysfs_gid *gids;
	int gid_count;
	const uint16_t *pkeys;
	int pkey_count;
	bool has_ipv4;
	uint8_t ipv4[4];	/* of a host of a fabric */
};

/* One device with its ports, from number 1 on. Every pointer is borrowed for the call. */
struct sysfs_device {
	const char *name;
	int index;	/* < SYSFS_DEVICES: it is uverbs<index> */
	const char *node_desc;
	const char *fw_ver;
	const char *board_id;
	bool ethernet; /* link layer; InfiniBand devices also get umadN and issmN */
	uint64_t node_guid;
	uint64_t sys_image_guid;
	uint32_t vendor_id;
	uint32_t vendor_part_id;
	int ports;
	struct sysfs_port port[SYSFS_PORTS];
	bool hw_counters;	/* its ports have ports/N/hw_counters */
};

/* Rows of weftd/port_counter.def. */
enum { SYSFS_COUNTERS = 21 };
/* Rows of weftd/hw_counter.def. */
enum { SYSFS_HW_COUNTERS = 15 };

/* Writes the tree of n devices below the directory of this name in `dir`, which is made if missing. May be called again to
 * refresh: a file that says so already is not written, one that keeps its length is never seen empty, and one that is no longer
 * due stays until sysfs_remove. Returns 0 or -errno; -EEXIST, logged: something that weft did not make is in the way. */
int sysfs_write(int dir, const char *name, const struct sysfs_device *devs, int n);

/* Writes again what a subnet manager changes of a device's ports, in a tree that is there: states, LIDs, P_Keys and GIDs. 0 or
 * -errno. */
int sysfs_write_ports(int dir, const char *name, const struct sysfs_device *d);

/* Writes the files of ports/N/counters of this device in a tree that is there. 0 or -errno. */
int sysfs_write_counters(int dir, const char *name, const char *device, unsigned port, const uint64_t value[SYSFS_COUNTERS]);

/* The same of ports/1/hw_counters. */
int sysfs_write_hw_counters(int dir, const char *name, const char *device, const uint64_t value[SYSFS_HW_COUNTERS]);

/* Removes each file and folder that sysfs_write may ever have written for the devices there, and then the directory. What else
 * is there stays, with the folders above it, and is logged. True when nothing is left; a tree that is not there is no error. */
bool sysfs_remove(int dir, const char *name);

#endif
