/* The tree of stand-ins: the lines that programs parse, for an InfiniBand and an Ethernet device. */
#include "weftd/sysfs.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

static const struct sysfs_gid ib_gids[] = {
	{ { 0xfe, 0x80, 0, 0, 0, 0, 0, 0, 0x02, 0x11, 0x22, 0xff, 0xfe, 0x33, 0x44, 0x55 }, "IB/RoCE v1", NULL },
	{ { 0xfe, 0x80, 0, 0, 0, 0, 0, 0, 0x02, 0x11, 0x22, 0xff, 0xfe, 0x33, 0x44, 0x56 }, "IB/RoCE v1", NULL },
};
static const struct sysfs_gid eth_gids[] = {
	{ { 0xfe, 0x80, [15] = 1 }, "RoCE v2", "lo" },
	{ { [10] = 0xff, 0xff, 127, 0, 0, 1 }, "RoCE v2", "lo" },
};
static const uint16_t pkeys[] = { 0xffff, 0x8001 };

static const struct sysfs_device devices[] = {
	{ .name = "weft0", .node_desc = "host weft0", .fw_ver = "0.1.0", .board_id = "weft", .node_guid = 0x0211223344556677,
	  .sys_image_guid = 0x0211223344556678, .vendor_id = 0x1234, .vendor_part_id = 7, .ports = 2, .port = {
		{ .lid = 0x11, .sm_lid = 1, .state = 4, .phys_state = 5, .width = 2, .speed = 32, .cap_mask = 0x2514868,
		  .gids = ib_gids, .gid_count = 1, .pkeys = pkeys, .pkey_count = 2, .has_ipv4 = true,
		  .ipv4 = { 127, 1, 0, 200 } },
		{ .lid = 0x12, .sm_lid = 3, .state = 1, .phys_state = 2, .width = 1, .speed = 1, .cap_mask = 0x2514868,
		  .gids = ib_gids + 1, .gid_count = 1, .pkeys = pkeys + 1, .pkey_count = 1, .has_ipv4 = true,
		  .ipv4 = { 127, 2, 0, 200 } } } },
	{ .name = "weft1", .index = 1, .node_desc = "host weft1", .fw_ver = "0.1.0", .board_id = "weft", .ethernet = true,
	  .hw_counters = true, .ports = 1, .port[0] = { .gids = eth_gids, .gid_count = 2, .pkeys = pkeys, .pkey_count = 1 } },
};

static const struct {
	const char *path, *line;
} lines[] = {
	{ "sys/class/infiniband/weft0/node_type", "1: CA" },
	{ "sys/class/infiniband/weft0/node_guid", "0211:2233:4455:6677" },
	{ "sys/class/infiniband/weft0/sys_image_guid", "0211:2233:4455:6678" },
	{ "sys/class/infiniband/weft0/node_desc", "host weft0" },
	{ "sys/class/infiniband/weft0/fw_ver", "0.1.0" },
	{ "sys/class/infiniband/weft0/board_id", "weft" },
	{ "sys/class/infiniband/weft0/device/numa_node", "-1" },
	{ "sys/class/infiniband/weft0/device/vendor", "0x1234" },
	{ "sys/class/infiniband/weft0/device/device", "0x0007" },
	{ "sys/class/infiniband/weft0/ports/1/state", "4: ACTIVE" },
	{ "sys/class/infiniband/weft0/ports/1/phys_state", "5: LinkUp" },
	{ "sys/class/infiniband/weft0/ports/1/rate", "100 Gb/sec (4X EDR)" },
	{ "sys/class/infiniband/weft0/ports/1/link_layer", "InfiniBand" },
	{ "sys/class/infiniband/weft0/ports/1/lid", "0x11" },
	{ "sys/class/infiniband/weft0/ports/1/lid_mask_count", "0" },
	{ "sys/class/infiniband/weft0/ports/1/sm_lid", "0x1" },
	{ "sys/class/infiniband/weft0/ports/1/sm_sl", "0" },
	{ "sys/class/infiniband/weft0/ports/1/cap_mask", "0x02514868" },
	{ "sys/class/infiniband/weft0/ports/1/pkeys/1", "0x8001" },
	{ "sys/class/infiniband/weft0/ports/1/gids/0", "fe80:0000:0000:0000:0211:22ff:fe33:4455" },
	{ "sys/class/infiniband/weft0/ports/1/gid_attrs/types/0", "IB/RoCE v1" },
	{ "sys/class/infiniband/weft0/ports/1/counters/port_xmit_data", "0" },
	{ "sys/class/infiniband/weft0/ports/2/state", "1: DOWN" },
	{ "sys/class/infiniband/weft0/ports/2/rate", "2.5 Gb/sec (1X SDR)" },
	{ "sys/class/infiniband/weft0/ports/2/lid", "0x12" },
	{ "sys/class/infiniband/weft0/ports/2/sm_lid", "0x3" },
	{ "sys/class/infiniband/weft0/ports/2/pkeys/0", "0x8001" },
	{ "sys/class/infiniband/weft0/ports/2/gids/0", "fe80:0000:0000:0000:0211:22ff:fe33:4456" },
	{ "sys/class/infiniband/weft0/ports/2/counters/port_xmit_data", "0" },
	{ "sys/class/infiniband/weft1/ports/1/hw_counters/sent_pkts", "0" },
	{ "sys/class/infiniband/weft1/ports/1/link_layer", "Ethernet" },
	{ "sys/class/infiniband/weft1/ports/1/gids/1", "0000:0000:0000:0000:0000:ffff:7f00:0001" },
	{ "sys/class/infiniband/weft1/ports/1/gid_attrs/types/1", "RoCE v2" },
	{ "sys/class/infiniband/weft1/ports/1/gid_attrs/ndevs/1", "lo" },
	{ "sys/class/infiniband_verbs/abi_version", "6" },
	{ "sys/class/infiniband_verbs/uverbs1/ibdev", "weft1" },
	{ "sys/class/infiniband_verbs/uverbs1/abi_version", "1" },
	{ "sys/class/infiniband_verbs/uverbs1/dev", "231:193" },
	{ "sys/class/infiniband_mad/abi_version", "5" },
	{ "sys/class/infiniband_mad/umad0/ibdev", "weft0" },
	{ "sys/class/infiniband_mad/umad0/port", "1" },
	{ "sys/class/infiniband_mad/issm0/dev", "231:64" },
	{ "sys/class/infiniband_mad/umad1/ibdev", "weft0" },
	{ "sys/class/infiniband_mad/umad1/port", "2" },
	{ "sys/class/infiniband_mad/issm1/dev", "231:65" },
	{ "sys/class/misc/rdma_cm/abi_version", "4" },
	{ "net/ib0", "127.1.0.200" },
	{ "net/ib1", "127.2.0.200" },
};

static const char *const present[] = {
	"dev/infiniband/uverbs0", "dev/infiniband/uverbs1", "dev/infiniband/umad0", "dev/infiniband/issm0",
	"dev/infiniband/rdma_cm",
	"sys/class/infiniband/weft1/device/net/lo", "sys/class/infiniband/weft0/device/local_cpus", "net/ib1",
};

static const char *const absent[] = {
	"dev/infiniband/umad2", "sys/class/infiniband_mad/umad2", "sys/class/infiniband/weft0/device/net",
	"sys/class/infiniband/weft0/ports/1/gid_attrs/ndevs/0", "sys/class/infiniband/weft0/ports/1/hw_counters",
	"sys/class/infiniband/weft1/ports/2", "sys/class/infiniband/weft0/ports/3", "net/ib2",
};

static char root[] = "/tmp/weft-sysfs-XXXXXX";

static int start(void **state)
{
	return mkdtemp(root) ? 0 : -1;
}

static int finish(void **state)
{
	return !sysfs_remove(AT_FDCWD, root);
}

static void join(char path[4096], const char *below)
{
	snprintf(path, 4096, "%s/%s", root, below);
}

static void every_line_reads_as_the_kernel_writes_it(void **state)
{
	char path[4096], line[256];
	FILE *f;

	assert_int_equal(sysfs_write(AT_FDCWD, root, devices, 2), 0);
	for (size_t i = 0; i < sizeof(lines) / sizeof(lines[0]); i++) {
		join(path, lines[i].path);
		f = fopen(path, "r");
		if (!f)
			fail_msg("%s is missing", lines[i].path);
		assert_non_null(fgets(line, sizeof(line), f));
		assert_int_equal(fgetc(f), EOF);
		fclose(f);
		assert_int_equal(line[strlen(line) - 1], '\n');
		line[strlen(line) - 1] = '\0';
		assert_string_equal(line, lines[i].line);
	}
}

static void nodes_follow_the_link_layer(void **state)
{
	char path[4096];

	for (size_t i = 0; i < sizeof(present) / sizeof(present[0]); i++) {
		join(path, present[i]);
		if (access(path, F_OK))
			fail_msg("%s is missing", present[i]);
	}
	for (size_t i = 0; i < sizeof(absent) / sizeof(absent[0]); i++) {
		join(path, absent[i]);
		assert_int_equal(access(path, F_OK), -1);
	}
}

static void a_second_write_refreshes(void **state)
{
	struct sysfs_device moved = devices[0];
	char path[4096], line[16] = "";
	FILE *f;

	moved.port[0].lid = 5;
	assert_int_equal(sysfs_write(AT_FDCWD, root, &moved, 1), 0);
	join(path, "sys/class/infiniband/weft0/ports/1/lid");
	f = fopen(path, "r");
	assert_int_equal(fread(line, 1, sizeof(line) - 1, f), 4);
	assert_string_equal(line, "0x5\n");
	fclose(f);
}

static time_t modified(const char *below)
{
	char path[4096];
	struct stat st;

	join(path, below);
	assert_int_equal(stat(path, &st), 0);
	return st.st_mtim.tv_sec;
}

static void set_old(const char *below)
{
	static const struct timespec old[2] = { { .tv_sec = 1000 }, { .tv_sec = 1000 } };
	char path[4096];

	join(path, below);
	assert_int_equal(utimensat(AT_FDCWD, path, old, 0), 0);
}

/* A file system keeps each change; a fabric whose manager sweeps writes the same again and again. */
static void what_says_so_already_is_not_written(void **state)
{
	static const char lid[] = "sys/class/infiniband/weft0/ports/1/lid";
	static const char state_file[] = "sys/class/infiniband/weft0/ports/1/state";
	struct sysfs_device moved = devices[0];

	assert_int_equal(sysfs_write(AT_FDCWD, root, devices, 2), 0);
	set_old(lid);
	set_old(state_file);
	moved.port[0].lid = 0x12;	/* as long as it was */
	assert_int_equal(sysfs_write_ports(AT_FDCWD, root, &moved), 0);
	assert_int_equal(modified(state_file), 1000);
	assert_int_not_equal(modified(lid), 1000);
	assert_int_equal(sysfs_write(AT_FDCWD, root, devices, 2), 0);
}

/* Its counters stay, which others read meanwhile; a tree that is not there is not made. */
static void a_port_is_written_again(void **state)
{
	static const uint64_t counts[SYSFS_COUNTERS] = { [0 ... SYSFS_COUNTERS - 1] = 77 };
	static const uint64_t other_counts[SYSFS_COUNTERS] = { [0 ... SYSFS_COUNTERS - 1] = 88 };
	struct sysfs_device moved = devices[0];
	const struct { const char *path, *line; } expected[] = {
		{ "sys/class/infiniband/weft0/ports/1/lid", "0x2345\n" },
		{ "sys/class/infiniband/weft0/ports/1/state", "2: INIT\n" },
		{ "sys/class/infiniband/weft0/ports/1/pkeys/1", "0x7fff\n" },
		{ "sys/class/infiniband/weft0/ports/1/counters/port_xmit_data", "77\n" },
		{ "sys/class/infiniband/weft0/ports/2/counters/port_xmit_data", "88\n" },
		{ "sys/class/infiniband/weft0/ports/2/lid", "0x3456\n" },
	};

	assert_int_equal(sysfs_write_counters(AT_FDCWD, root, "weft0", 1, counts), 0);
	assert_int_equal(sysfs_write_counters(AT_FDCWD, root, "weft0", 2, other_counts), 0);
	moved.port[0].lid = 0x2345;
	moved.port[0].state = 2;
	moved.port[1].lid = 0x3456;
	moved.port[0].pkeys = (const uint16_t[]){ 0xffff, 0x7fff };
	assert_int_equal(sysfs_write_ports(AT_FDCWD, root, &moved), 0);
	for (size_t i = 0; i < sizeof(expected) / sizeof(expected[0]); i++) {
		char path[4096], line[64] = "";
		FILE *f;

		join(path, expected[i].path);
		f = fopen(path, "r");
		assert_non_null(f);
		assert_non_null(fgets(line, sizeof(line), f));
		fclose(f);
		assert_string_equal(line, expected[i].line);
	}
	assert_int_equal(sysfs_write_ports(AT_FDCWD, "/tmp/nonesuch-weft", &moved), -ENOENT);
	assert_int_equal(sysfs_write(AT_FDCWD, root, devices, 2), 0);
}

static void bad_roots_are_refused(void **state)
{
	assert_int_equal(sysfs_write(AT_FDCWD, "/proc/nonesuch", devices, 2), -ENOENT);
	assert_int_equal(sysfs_write(AT_FDCWD, "/dev/null", devices, 2), -EEXIST);
	assert_true(sysfs_remove(AT_FDCWD, "/nonesuch/weft"));
}

static void put_file(const char *below, const char *text)
{
	char path[4096];
	FILE *f;

	join(path, below);
	f = fopen(path, "w");
	assert_non_null(f);
	assert_true(fputs(text, f) >= 0);
	fclose(f);
}

static void remove_file(const char *below)
{
	char path[4096];

	join(path, below);
	assert_int_equal(unlink(path), 0);
}

/* What the tree's names lead to, by a link of either kind, and what has other names. */
static void removal_takes_only_what_was_written(void **state)
{
	char victim[] = "/tmp/weft-victim-XXXXXX", file[64], path[4096];
	struct stat st;

	assert_non_null(mkdtemp(victim));
	snprintf(file, sizeof(file), "%s/lid", victim);
	join(path, "sys/class/infiniband/weft0/ports/1/lid");
	assert_int_equal(rename(path, file), 0);
	assert_int_equal(link(file, path), 0);
	assert_int_equal(sysfs_write(AT_FDCWD, root, devices, 2), -EEXIST);
	join(path, "sys/class/infiniband/weft1/ports/1/gids");
	assert_false(sysfs_remove(AT_FDCWD, root));
	assert_int_equal(symlink(victim, path), -1);	/* its folder is gone */
	join(path, "sys/class/infiniband_verbs");
	assert_int_equal(symlink(victim, path), 0);
	put_file("sys/class/infiniband/notes", "mine");
	assert_false(sysfs_remove(AT_FDCWD, root));
	assert_int_equal(lstat(path, &st), 0);
	assert_int_equal(stat(file, &st), 0);
	assert_int_equal(st.st_nlink, 2);
	assert_true(st.st_size > 0);
	remove_file("sys/class/infiniband/notes");
	remove_file("sys/class/infiniband_verbs");
	remove_file("sys/class/infiniband/weft0/ports/1/lid");
	assert_true(sysfs_remove(AT_FDCWD, root));
	assert_int_equal(access(root, F_OK), -1);
	assert_int_equal(unlink(file), 0);
	assert_int_equal(rmdir(victim), 0);
}

static void a_folder_of_the_way_that_is_a_link_is_not_entered(void **state)
{
	char victim[] = "/tmp/weft-victim-XXXXXX", path[4096];

	assert_non_null(mkdtemp(victim));
	assert_int_equal(mkdir(root, 0700), 0);
	join(path, "sys");
	assert_int_equal(symlink(victim, path), 0);
	assert_int_equal(sysfs_write(AT_FDCWD, root, devices, 2), -EEXIST);
	assert_false(sysfs_remove(AT_FDCWD, root));
	assert_int_equal(rmdir(victim), 0);
	assert_int_equal(unlink(path), 0);
}

/* Files of a device that has none now. */
static void removal_takes_what_an_older_weft_wrote(void **state)
{
	char path[4096];

	assert_int_equal(sysfs_write(AT_FDCWD, root, devices, 2), 0);
	join(path, "sys/class/infiniband/weft0/ports/1/hw_counters");
	assert_int_equal(mkdir(path, 0755), 0);
	put_file("sys/class/infiniband/weft0/ports/1/hw_counters/rcvd_pkts", "0\n");
	put_file("sys/class/infiniband/weft0/ports/1/hw_counters/lifespan", "10\n");
	assert_true(sysfs_remove(AT_FDCWD, root));
	assert_int_equal(access(root, F_OK), -1);
}

int main(void)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test(every_line_reads_as_the_kernel_writes_it),
		cmocka_unit_test(nodes_follow_the_link_layer),
		cmocka_unit_test(a_second_write_refreshes),
		cmocka_unit_test(what_says_so_already_is_not_written),
		cmocka_unit_test(a_port_is_written_again),
		cmocka_unit_test(bad_roots_are_refused),
		cmocka_unit_test(removal_takes_only_what_was_written),
		cmocka_unit_test(a_folder_of_the_way_that_is_a_link_is_not_entered),
		cmocka_unit_test(removal_takes_what_an_older_weft_wrote),
	};

	return cmocka_run_group_tests(tests, start, finish);
}
