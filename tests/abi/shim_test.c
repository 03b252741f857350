/* The path shim in a program that runs under it: the program writes a tree, starts itself again with the shim preloaded, as
 * `weft run` does, and looks at the devices through every variant of every call. */
#include "weftd/sysfs.h"

#include <dirent.h>
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <glob.h>
#include <ifaddrs.h>
#include <linux/netlink.h>
#include <net/if.h>
#include <netinet/in.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#define CA "/sys/class/infiniband/weft0"
#define STATE CA "/ports/1/state"
#define CM "/dev/infiniband/rdma_cm"

static const struct sysfs_gid gids[] = { { { 0xfe, 0x80 }, "IB/RoCE v1", NULL } };
static const uint16_t pkeys[] = { 0xffff };
static const struct sysfs_device device = {
	.name = "weft0", .node_desc = "weft0", .fw_ver = "1", .board_id = "weft", .node_guid = 1, .sys_image_guid = 1,
	.ports = 1, .port[0] = { .lid = 1, .state = 4, .phys_state = 5, .width = 2, .speed = 32,
				 .gids = gids, .gid_count = 1, .pkeys = pkeys, .pkey_count = 1,
				 .has_ipv4 = true, .ipv4 = { 127, 1, 0, 8 } },
};

static int fake(const char *name)
{
	int (*call)(void) = (int (*)(void))dlsym(dlopen("libibverbs.so.1", RTLD_NOW), name);

	assert_non_null(call);
	return call();
}

static void expect_line(int fd, const char *line)
{
	char text[64] = "";

	assert_true(fd >= 0);
	assert_int_equal(read(fd, text, sizeof(text) - 1), strlen(line));
	assert_string_equal(text, line);
	close(fd);
}

/* The compiler's own headers decide which of these become *64 or __*_2; the test calls each by name. */
int __open_2(const char *path, int flags);
int __open64_2(const char *path, int flags);
int __openat_2(int dir, const char *path, int flags);

static void opens_find_the_tree(void **state)
{
	FILE *f;

	expect_line(open(STATE, O_RDONLY), "4: ACTIVE\n");
	expect_line(open64(STATE, O_RDONLY), "4: ACTIVE\n");
	expect_line(openat(AT_FDCWD, STATE, O_RDONLY), "4: ACTIVE\n");
	expect_line(openat64(AT_FDCWD, STATE, O_RDONLY), "4: ACTIVE\n");
	expect_line(__open_2(STATE, O_RDONLY), "4: ACTIVE\n");
	expect_line(__open64_2(STATE, O_RDONLY), "4: ACTIVE\n");
	expect_line(__openat_2(AT_FDCWD, STATE, O_RDONLY), "4: ACTIVE\n");
	f = fopen(STATE, "r");
	assert_non_null(f);
	assert_int_equal(fgetc(f), '4');
	f = freopen(CA "/node_type", "r", f);
	assert_int_equal(fgetc(f), '1');
	fclose(f);
	f = fopen64(STATE, "r");
	assert_int_equal(fgetc(f), '4');
	fclose(f);
}

static void other_paths_are_untouched(void **state)
{
	char name[] = "/tmp/weft-shim-XXXXXX";
	struct stat st;
	int fd = mkstemp(name);

	assert_true(fd >= 0);
	close(fd);
	unlink(name);
	fd = open(name, O_RDWR | O_CREAT | O_EXCL, 0640);
	assert_int_equal(write(fd, "x", 1), 1);
	assert_int_equal(fstat(fd, &st), 0);
	assert_true(S_ISREG(st.st_mode) && (st.st_mode & 0777) == 0640 && st.st_size == 1);
	assert_int_equal(close(fd), 0);
	unlink(name);
	/* not in the tree either: main put one of this name there */
	assert_int_equal(access("/sys/class/infinibandage", F_OK), -1);
	assert_int_equal(access("/sys/class/net", F_OK), 0);
	assert_int_equal(open("/dev/infiniband/nonesuch", O_RDONLY), -1);
	assert_int_equal(errno, ENOENT);
}

static void nodes_are_character_devices(void **state)
{
	static const char *const nodes[] = { "/dev/infiniband/uverbs0", "/dev/infiniband/umad0", "/dev/infiniband/issm0", CM };
	struct stat64 st64;
	struct statx stx;
	struct stat st;

	for (size_t i = 0; i < sizeof(nodes) / sizeof(nodes[0]); i++) {
		assert_int_equal(stat(nodes[i], &st), 0);
		assert_true(S_ISCHR(st.st_mode) && (st.st_mode & 0666) == 0666);
		assert_int_equal(lstat64(nodes[i], &st64), 0);
		assert_true(S_ISCHR(st64.st_mode));
		assert_int_equal(fstatat(AT_FDCWD, nodes[i], &st, AT_SYMLINK_NOFOLLOW), 0);
		assert_true(S_ISCHR(st.st_mode));
		assert_int_equal(statx(AT_FDCWD, nodes[i], 0, STATX_MODE, &stx), 0);
		assert_true(S_ISCHR(stx.stx_mode));
		assert_int_equal(access(nodes[i], R_OK | W_OK), 0);
		assert_int_equal(euidaccess(nodes[i], R_OK | W_OK), 0);
		assert_int_equal(faccessat(AT_FDCWD, nodes[i], R_OK | W_OK, 0), 0);
	}
	assert_int_equal(close(open("/dev/infiniband/uverbs0", O_RDWR)), 0);
	assert_int_equal(stat("/dev/infiniband/uverbs1", &st), -1);
	assert_int_equal(stat("/dev/infiniband/", &st), 0);
	assert_true(S_ISDIR(st.st_mode));
}

static int not_hidden(const struct dirent *entry)
{
	return entry->d_name[0] != '.';
}

static void directories_list(void **state)
{
	struct dirent **list = NULL;
	char cwd[4096], path[4096];
	struct stat st;
	glob_t found;
	DIR *dir;
	int n;

	n = scandir("/sys/class/infiniband", &list, not_hidden, alphasort);
	assert_int_equal(n, 1);
	assert_string_equal(list[0]->d_name, "weft0");
	free(list[0]);
	free(list);
	dir = opendir("/dev/infiniband");
	assert_non_null(dir);
	expect_line(openat(dirfd(dir), "../../sys/class/infiniband/weft0/node_type", O_RDONLY), "1: CA\n");
	closedir(dir);
	assert_int_equal(glob("/sys/class/infiniband/*/ports", 0, NULL, &found), 0);
	assert_int_equal(found.gl_pathc, 1);
	globfree(&found);
	assert_non_null(getcwd(cwd, sizeof(cwd)));
	assert_int_equal(chdir("/sys/class/infiniband"), 0);
	assert_int_equal(stat("weft0/ports/1", &st), 0);
	assert_int_equal(chdir(cwd), 0);
	assert_non_null(realpath(CA "/device", path));
	assert_int_equal(readlink(STATE, path, sizeof(path)), -1);
	assert_int_equal(errno, EINVAL);
}

static void other_programs_inherit_it(void **state)
{
	assert_int_equal(system("ls -l /dev/infiniband/uverbs0 | grep -q ^crw-rw-rw-"), 0);
	assert_int_equal(system("cd /sys/class/infiniband && test -r weft0/fw_ver"), 0);
	assert_int_equal(system("ls /sys/class/infiniband/*/ports | grep -qx 1"), 0);
}

static void netlink_falls_back(void **state)
{
	int fd = socket(AF_NETLINK, SOCK_RAW, NETLINK_ROUTE);

	assert_true(fd >= 0);
	close(fd);
	assert_int_equal(socket(AF_NETLINK, SOCK_RAW, NETLINK_RDMA), -1);
	assert_int_equal(errno, EPROTONOSUPPORT);
}

static in_addr_t address_of(const struct ifaddrs *ifa)
{
	return ntohl(((const struct sockaddr_in *)ifa->ifa_addr)->sin_addr.s_addr);
}

/* The port of a host of a fabric comes first, and the machine's own interfaces are there as ever. */
static void interfaces_have_the_hosts_address(void **state)
{
	struct ifaddrs *list;
	bool has_loopback = false;

	assert_int_equal(getifaddrs(&list), 0);
	assert_string_equal(list->ifa_name, "ib0");
	assert_int_equal(list->ifa_addr->sa_family, AF_INET);
	assert_int_equal(address_of(list), 0x7f010008);
	assert_int_equal(list->ifa_flags & (IFF_UP | IFF_LOOPBACK), IFF_UP);
	for (struct ifaddrs *ifa = list->ifa_next; ifa; ifa = ifa->ifa_next) {
		assert_string_not_equal(ifa->ifa_name, "ib0");
		has_loopback |= ifa->ifa_addr && ifa->ifa_addr->sa_family == AF_INET && address_of(ifa) == INADDR_LOOPBACK;
	}
	assert_true(has_loopback);
	freeifaddrs(list);
}

static void cm_device_is_answered(void **state)
{
	char cmd[8] = { 0 };
	struct stat st;
	int fd = open(CM, O_RDWR | O_CLOEXEC);

	assert_true(fd >= 0);
	assert_int_equal(fstat(fd, &st), 0);
	assert_true(S_ISCHR(st.st_mode));
	assert_int_equal(write(fd, cmd, sizeof(cmd)), sizeof(cmd));
	assert_int_equal(fake("fake_last_fd"), fd);
	assert_int_equal(write(fd, cmd, 1), -1);
	assert_int_equal(errno, EINVAL);
	assert_int_equal(fake("fake_open_files"), 1);
	assert_int_equal(fake("fake_awaited_fd"), -1);
	assert_int_equal(close(fd), 0);
	assert_int_equal(fake("fake_open_files"), 0);
	assert_int_equal(fake("fake_awaited_fd"), fd);
	assert_int_equal(write(fd, cmd, sizeof(cmd)), -1);
	assert_int_equal(errno, EBADF);
}

static void cm_device_outlives_its_first_descriptor(void **state)
{
	char cmd[8] = { 0 };
	int fd = open64(CM, O_RDWR), copy = dup(fd), other;

	assert_true(copy >= 0);
	assert_int_equal(close(fd), 0);
	assert_int_equal(close(fd), -1);
	assert_int_equal(errno, EBADF);
	assert_int_equal(fake("fake_open_files"), 1);
	assert_int_equal(write(copy, cmd, sizeof(cmd)), sizeof(cmd));
	assert_int_equal(fake("fake_last_fd"), fd);
	other = dup2(copy, copy + 20);
	assert_int_equal(other, copy + 20);
	assert_int_equal(dup2(STDERR_FILENO, copy), copy);
	assert_int_equal(write(other, cmd, sizeof(cmd)), sizeof(cmd));
	assert_int_equal(close(other), 0);
	assert_int_equal(fake("fake_open_files"), 0);
	assert_int_equal(fcntl(fd, F_GETFD), -1);
	close(copy);
}

static void close_range_closes_the_cm_device(void **state)
{
	int fd = openat(AT_FDCWD, CM, O_RDWR);

	assert_int_equal(close_range(fd, fd, 0), 0);
	assert_int_equal(fake("fake_open_files"), 0);
	assert_int_equal(fcntl(fd, F_GETFD), -1);
}

static void a_vforked_child_closes_only_its_own(void **state)
{
	int fd = open(CM, O_RDWR), status;
	pid_t child = vfork();

	if (child == 0) {
		close(fd);
		_exit(0);
	}
	assert_int_equal(waitpid(child, &status, 0), child);
	assert_int_equal(fake("fake_open_files"), 1);
	assert_int_equal(close(fd), 0);
	assert_int_equal(fake("fake_open_files"), 0);
}

static int run_shimmed(void)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test(opens_find_the_tree),
		cmocka_unit_test(other_paths_are_untouched),
		cmocka_unit_test(nodes_are_character_devices),
		cmocka_unit_test(directories_list),
		cmocka_unit_test(other_programs_inherit_it),
		cmocka_unit_test(netlink_falls_back),
		cmocka_unit_test(interfaces_have_the_hosts_address),
		cmocka_unit_test(cm_device_is_answered),
		cmocka_unit_test(cm_device_outlives_its_first_descriptor),
		cmocka_unit_test(close_range_closes_the_cm_device),
		cmocka_unit_test(a_vforked_child_closes_only_its_own),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

int main(int argc, char **argv)
{
	char root[] = "/tmp/weft-shim-root-XXXXXX", strange[64];
	int status = 1;
	pid_t child;

	if (argc > 1)
		return run_shimmed();
	if (!mkdtemp(root) || sysfs_write(AT_FDCWD, root, &device, 1))
		return 1;
	snprintf(strange, sizeof(strange), "%s/sys/class/infinibandage", root);
	if (mkdir(strange, 0700))
		return 1;
	child = fork();
	if (child == 0) {
		setenv("WEFT_ROOT", root, 1);
		setenv("LD_PRELOAD", SHIM, 1);
		setenv("LD_LIBRARY_PATH", FAKE_DIR, 1);
		execl(argv[0], argv[0], "shimmed", (char *)NULL);
		_exit(127);
	}
	waitpid(child, &status, 0);
	rmdir(strange);
	if (!sysfs_remove(AT_FDCWD, root))
		return 1;
	return WIFEXITED(status) ? WEXITSTATUS(status) : 1;
}
