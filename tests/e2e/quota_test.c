/* A weftd that serves all users gives each of them so much and no more, and the others do not notice. Needs root, to be
 * somebody else. */
#include "control_client.h"

#include "../unit/fabric.h"
#include "fabric/host.h"
#include "fabric/route.h"
#include "weftd/hub.h"
#include "weftd/intake.h"
#include "weftd/rundir.h"
#include "weftd/subnet.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

/* Each test has a user of its own: when weftd has noticed the end of all that one had is not to be seen from outside. */
enum {
	MANY_SLOTS = 65534, MANY_CONNECTIONS = 65533, MANY_GROUPS = 20001, MANY_PORTS = 20002, MANY_LISTENERS = 20006,
	ASKER = 20007, DEAF = 20008, MANY_FILES = 20009, OWNER = 20010, MANY_NODES = 20011, CHOOSER = 20020, SUBORDINATE = 700000,
	ROOTS = 800000, LIMIT = 8192, SKIP = 77
};

/* Runs as another user; cmocka's assertions are the parent's, so it tells by its exit status. */
static int as_user(uid_t user, int (*run)(void))
{
	int status;
	pid_t pid = fork();

	if (pid == 0)
		_exit(setgid(user) || setuid(user) ? 125 : run());
	waitpid(pid, &status, 0);
	return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

static struct peer *come(uint32_t kind, int *status)
{
	struct peer *p = connect_peer();

	if (kind == CONTROL_PROCESS)
		p->wake_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	*status = hello(p, kind, CONTROL_VERSION, p->wake_fd);
	drop_fds(p);
	return p;
}

static int connects_too_often(void)
{
	int status = 0;

	for (int i = 0; i < QUOTA_USER_CLIENTS; i++) {
		come(CONTROL_COMMAND, &status);
		if (status)
			return 1;
	}
	come(CONTROL_COMMAND, &status);
	return status == EDQUOT ? 0 : 2;
}

static int takes_too_many_slots(void)
{
	int status = 0, taken = 0;

	while (!status && taken <= QUOTA_USER_SLOTS) {
		struct peer *p = come(CONTROL_PROCESS, &status);

		for (int i = 1; !status && i < QUOTA_SLOTS; i++) {
			struct control_msg msg = { .type = CTL_SLOT };

			taken++;
			status = call(p, &msg);
		}
		taken += !status;
	}
	return status == EDQUOT && taken == QUOTA_USER_SLOTS ? 0 : 2;
}

static void others_do_not_notice(void)
{
	struct peer *root = join(CONTROL_PROCESS);

	still_well(root);
	leave(root);
	wait_for("slots_used", 0);
}

static void a_user_has_so_many_connections(void **state)
{
	(void)state;
	assert_int_equal(as_user(MANY_CONNECTIONS, connects_too_often), 0);
	others_do_not_notice();
}

static void a_user_has_so_many_slots(void **state)
{
	(void)state;
	assert_int_equal(as_user(MANY_SLOTS, takes_too_many_slots), 0);
	others_do_not_notice();
	/* all of it is free again */
	assert_int_equal(as_user(MANY_SLOTS, takes_too_many_slots), 0);
}

/* As others_do_not_notice, while the user is still there. */
static void others_do_not_notice_much(void)
{
	struct peer *a = join(CONTROL_PROCESS), *b = join(CONTROL_PROCESS);
	struct control_msg msg = { .type = CTL_CHANNEL, .slot = b->slot };

	assert_int_equal(call(a, &msg), 0);
	assert_in_range(a->nfds, 2, CONTROL_FDS);
	drop_fds(a);
	leave(a);
	leave(b);
}

static int join_group(struct peer *p, uint32_t number)
{
	struct control_msg msg = { .type = CTL_MCAST, .a = 1, .gid = { 0xff, 0x12 } };

	/* others make others */
	number |= geteuid() << 8;
	memcpy(msg.gid + 12, &number, sizeof(number));
	return call(p, &msg);
}

/* Until there are no more, from `processes` processes in turn. How many. */
static int take_all(struct peer *p[], int processes, int (*take)(struct peer *p, uint32_t number), int most)
{
	int taken = 0, status = 0;

	for (; taken <= most; taken++) {
		status = take(p[taken % processes], (uint32_t)taken);
		if (status)
			break;
	}
	return status == EDQUOT ? taken : -status;
}

static int take_as_processes(int processes, int (*take)(struct peer *p, uint32_t number), int most)
{
	struct peer *p[8];
	int status = 0;

	for (int i = 0; i < processes && !status; i++)
		p[i] = come(CONTROL_PROCESS, &status);
	return !status && take_all(p, processes, take, most) == most ? 0 : 2;
}

static int joins_too_many_groups(void)
{
	return take_as_processes(4, join_group, PAGE_GROUPS / 4);
}

static void a_user_makes_so_many_groups(void **state)
{
	struct peer *root;

	(void)state;
	assert_int_equal(as_user(MANY_GROUPS, joins_too_many_groups), 0);
	root = join(CONTROL_PROCESS);
	assert_int_equal(join_group(root, 0xffffff), 0);
	leave(root);
	wait_for("slots_used", 0);
}

static int take_port(struct peer *p, uint32_t number)
{
	(void)number;
	return bind_port(p, 0x1060000, false, 0);
}

static int take_listener(struct peer *p, uint32_t number)
{
	struct control_msg msg = { .type = CTL_LISTEN, .service = 0x5000000 + number };

	return call(p, &msg);
}

static int takes_too_many_ports(void)
{
	return take_as_processes(4, take_port, QUOTA_PORTS / 2);
}

static int takes_too_many_listeners(void)
{
	return take_as_processes(4, take_listener, QUOTA_LISTENERS);
}

static struct {
	pid_t pid[4];
	int count;
} staying;

static void end_staying(void)
{
	while (staying.count) {
		pid_t pid = staying.pid[--staying.count];

		kill(pid, SIGKILL);
		waitpid(pid, NULL, 0);
	}
}

static int tidy(void **state)
{
	end_staying();
	return leave_all(state);
}

/* Stays with what it took until end_staying. */
static void stay_as_user(uid_t user, int (*run)(void), int *result)
{
	int to[2];
	pid_t pid;

	assert_int_equal(pipe(to), 0);
	pid = fork();
	if (pid == 0) {
		*result = setgid(user) || setuid(user) ? 125 : run();
		if (write(to[1], result, sizeof(*result)) == sizeof(*result))
			pause();
		_exit(0);
	}
	staying.pid[staying.count++] = pid;
	close(to[1]);
	assert_int_equal(read(to[0], result, sizeof(*result)), sizeof(*result));
	close(to[0]);
}

static void all_users_together_leave_ports_to_root(void **state)
{
	struct peer *root;
	int result;

	(void)state;
	for (int i = 0; i < 4; i++) {
		stay_as_user(MANY_PORTS + (uid_t)i, takes_too_many_ports, &result);
		/* the last finds that all but root have theirs */
		assert_int_equal(result, i < 2 ? 0 : 2);
	}
	root = join(CONTROL_PROCESS);
	for (int i = 0; i < 1000; i++)
		assert_int_equal(take_port(root, 0), 0);
	end_staying();
	leave(root);
	wait_for("slots_used", 0);
}

static void a_user_has_so_many_listeners(void **state)
{
	(void)state;
	assert_int_equal(as_user(MANY_LISTENERS, takes_too_many_listeners), 0);
	others_do_not_notice();
}

/* Its process answers nothing. */
static int asks_too_much(void)
{
	struct control_msg query = { .type = CTL_QUERY, .seq = 3, .text_bytes = 2 };
	struct peer *c[3];
	int status = 0;

	come(CONTROL_PROCESS, &status);
	for (int i = 0; i < 3 && !status; i++) {
		c[i] = come(CONTROL_COMMAND, &status);
		message_send(c[i]->socket, &query, "qp", NULL, 0, 0);
	}
	return !status && next(c[2], &query) == EDQUOT && query.c == LIMIT_QUESTIONS && next(c[0], &query) == 0 &&
			       next(c[1], &query) == 0 ? 0 : 2;
}

static void a_user_asks_so_many_questions(void **state)
{
	(void)state;
	assert_int_equal(as_user(ASKER, asks_too_much), 0);
	others_do_not_notice();
}

static int weftd_descriptors(void)
{
	static int pid;
	char path[64];
	int n = 0;
	DIR *d;

	if (!pid)
		pid = status_number("pid");
	snprintf(path, sizeof(path), "/proc/%d/fd", pid);
	d = opendir(path);
	while (readdir(d))
		n++;
	closedir(d);
	return n;
}

enum { PEERS = 600, ASKERS = 450 };	/* more than a socket and weftd hold together */

/* Asks for channels and reads no answer, or lets others ask: in both cases weftd holds so much for it and no more. */
static int does_not_read(void)
{
	struct peer *deaf, *p[PEERS];
	struct control_msg msg = { .type = CTL_CHANNEL, .seq = 7 };
	struct pollfd end = { 0 };
	int status = 0;

	deaf = come(CONTROL_PROCESS, &status);
	for (int i = 0; i < PEERS && !status; i++)
		p[i] = come(CONTROL_PROCESS, &status);
	for (int i = 0; i < ASKERS && !status; i++) {
		msg.slot = deaf->slot;
		status = call(p[i], &msg);
		drop_fds(p[i]);
	}
	if (status != EAGAIN)
		return 1000 + status;
	for (int i = ASKERS; i < PEERS; i++) {
		msg = (struct control_msg){ .type = CTL_CHANNEL, .seq = 7, .slot = p[i]->slot };
		if (message_send(deaf->socket, &msg, NULL, NULL, 0, 0))
			return 0;
	}
	end.fd = deaf->socket;
	return poll(&end, 1, PATIENCE_MS) == 1 && end.revents & POLLHUP ? 0 : 3;
}

static void who_does_not_read_is_not_kept_descriptors_for(void **state)
{
	int before = weftd_descriptors(), result;

	(void)state;
	stay_as_user(DEAF, does_not_read, &result);
	assert_int_equal(result, 0);
	/* a socket and a wake for each */
	assert_true(weftd_descriptors() - before < 2 * PEERS + 300);
	end_staying();
	wait_for("slots_used", 0);
}

/* With all that a process may give when it comes. */
static int come_with_memory(void)
{
	struct control_msg msg = { .type = CTL_HELLO, .seq = 5, .a = CONTROL_PROCESS, .b = CONTROL_VERSION };
	static int fds[3] = { -1 };
	struct peer *p = connect_peer();
	int status;

	if (fds[0] < 0) {
		fds[0] = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
		fds[1] = memfd_create("share", MFD_CLOEXEC | MFD_ALLOW_SEALING);
		fds[2] = open("/proc/self/mem", O_RDWR | O_CLOEXEC);
	}
	message_greet(p->socket, &msg, fds, 3);
	status = next(p, &msg);
	drop_fds(p);
	return status == EDQUOT && msg.c != LIMIT_DESCRIPTORS ? -1 : status;
}

/* A connection is one, and what comes with it three: beside another connection the last three are too many, where the connection
 * itself is not. */
static int gives_too_many_descriptors(void)
{
	int given = 1, status;

	prctl(PR_SET_DUMPABLE, 1);
	come(CONTROL_COMMAND, &status);
	for (; !status && given <= LIMIT; given += status ? 0 : 4)
		status = come_with_memory();
	return status == EDQUOT && given == LIMIT / 4 - 3 ? 0 : 2;
}

static void a_user_has_so_many_descriptors(void **state)
{
	int before = weftd_descriptors(), result;

	(void)state;
	stay_as_user(MANY_FILES, gives_too_many_descriptors, &result);
	assert_int_equal(result, 0);
	/* and two for each child that has not ended yet */
	assert_in_range(weftd_descriptors() - before, LIMIT / 4 - 8, LIMIT / 4 + 8 + 2 * INTAKE_USER);
	others_do_not_notice_much();
	end_staying();
	wait_for("slots_used", 0);
}

/* With a table of subordinate users of the test's own. */
static bool has_subordinates;

static void a_subordinate_user_counts_for_his_owner(void **state)
{
	int result;

	(void)state;
	if (!has_subordinates)
		skip();
	stay_as_user(SUBORDINATE + 5, joins_too_many_groups, &result);
	assert_int_equal(result, 0);
	/* the owner has none left */
	assert_int_equal(as_user(OWNER, joins_too_many_groups), 2);
	assert_int_equal(as_user(OWNER + 1, joins_too_many_groups), 0);
	end_staying();
	wait_for("slots_used", 0);
}

/* Who is root in a container is nobody outside. */
static void users_in_a_range_of_root_have_one_share(void **state)
{
	int result;

	(void)state;
	if (!has_subordinates)
		skip();
	stay_as_user(ROOTS + 5, joins_too_many_groups, &result);
	assert_int_equal(result, 0);
	assert_int_equal(as_user(ROOTS, joins_too_many_groups), 2);
	assert_int_equal(as_user(OWNER, joins_too_many_groups), 0);
	end_staying();
	wait_for("slots_used", 0);
}

/* A process that leaves says why its QPs have stopped. */
static int leaves_with_words(void)
{
	static const char words[] = "[{\"stop\":1}]";
	struct control_msg msg = { .type = CTL_GOODBYE };
	int status;
	struct peer *p = come(CONTROL_PROCESS, &status);

	return status ? status : call_text(p, &msg, words);
}

/* Of how many that have left it is told. */
static int counts_those_that_left(void)
{
	static const char word[] = "has_left";
	struct control_msg msg = { .type = CTL_QUERY };
	int status, n = 0;
	struct peer *p = come(CONTROL_COMMAND, &status);

	if (status || call_text(p, &msg, "history"))
		return -1;
	for (const char *at = p->text; (at = strstr(at, word)); at += strlen(word))
		n++;
	return n;
}

static void nobody_is_told_why_processes_of_another_user_stopped(void **state)
{
	(void)state;
	if (!has_subordinates)
		skip();
	assert_int_equal(as_user(0, leaves_with_words), 0);
	assert_int_equal(as_user(ROOTS + 5, leaves_with_words), 0);
	wait_for("slots_used", 0);
	assert_int_equal(as_user(0, counts_those_that_left), 2);
	assert_int_equal(as_user(ROOTS + 5, counts_those_that_left), 1);
	/* of the same account */
	assert_int_equal(as_user(ROOTS + 6, counts_those_that_left), 0);
}

static bool make_subordinates(void)
{
	char path[] = "/tmp/weft-subuid.XXXXXX", line[64];
	int fd = mkstemp(path);
	int bytes = snprintf(line, sizeof(line), "%d:%d:65536\nroot:%d:65536\n", OWNER, SUBORDINATE, ROOTS);
	bool done = fd >= 0 && write(fd, line, (size_t)bytes) == bytes && fchmod(fd, 0644) == 0 && unshare(CLONE_NEWNS) == 0 &&
		    mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) == 0 &&
		    mount(path, "/etc/subuid", NULL, MS_BIND, NULL) == 0;

	unlink(path);
	close(fd);
	return done;
}

static struct test_fabric fat_tree;

/* The status of asking for a tree of host h<number + 1>. */
static int go(struct peer *p, uint32_t host, uint32_t which)
{
	char name[16];
	struct control_msg msg = { .type = CTL_NODE };
	int status = call(p, &msg);

	drop_fds(p);
	if (status)
		return status;
	snprintf(name, sizeof(name), "h%u", host + 1);
	msg = (struct control_msg){ .type = CTL_NODE, .a = host_find_port(&fat_tree.f, name) + 1, .b = msg.b, .c = which };
	status = call(p, &msg);
	return status == EDQUOT && msg.c != LIMIT_NODES ? EPROTO : status;
}

static int take_node(struct peer *p, uint32_t number)
{
	return go(p, number, 2);
}

static int takes_too_many_nodes(void)
{
	struct peer *p;
	int status, taken;

	p = come(CONTROL_COMMAND, &status);
	taken = status ? -1 : take_all(&p, 1, take_node, SUBNET_TREES / 16);
	/* what is there is anybody's */
	return taken == SUBNET_TREES / 16 && go(p, 0, 2) == 0 && go(p, 0, 0) == 0 ? 0 : 2;
}

static int takes_no_node(void)
{
	struct peer *p;
	int status;

	p = come(CONTROL_COMMAND, &status);
	return !status && go(p, SUBNET_TREES / 4, 0) == EDQUOT ? 0 : 2;
}

static int set_fabric(struct peer *boss, int fd)
{
	struct control_msg msg = { .type = CTL_FABRIC, .seq = 7 };

	assert_int_equal(message_send(boss->socket, &msg, NULL, &fd, fd >= 0, 0), 0);
	return next(boss, &msg);
}

static void load_fat_tree(struct peer *boss)
{
	int fd = memfd_create("fabric", 0);

	MAKE(&fat_tree, "fat-tree", "ports=36");
	assert_int_equal(fabric_route(&fat_tree.f, ROUTE_MIN_HOP), 0);
	fabric_activate(&fat_tree.f);
	assert_int_equal(write(fd, fat_tree.mapping, fat_tree.bytes), fat_tree.bytes);
	assert_int_equal(set_fabric(boss, fd), 0);
	close(fd);
}

/* The folder with the device files of a host, of all devices or of the one named. */
static void tree_path(uint32_t host, uint32_t only, char path[128])
{
	char name[RUNDIR_TREE_NAME], node[16];

	snprintf(node, sizeof(node), "h%u", host + 1);
	rundir_tree_name(host_find_port(&fat_tree.f, node) + 1, only, name);
	snprintf(path, 128, "%s/" CONTROL_OWN "/%s", dir, name);
}

static bool has_tree(uint32_t host, uint32_t only)
{
	char path[128];

	tree_path(host, only, path);
	return access(path, F_OK) == 0;
}

static void a_user_has_trees_at_so_many_hosts(void **state)
{
	struct peer *boss = join(CONTROL_COMMAND);

	(void)state;
	load_fat_tree(boss);
	assert_int_equal(as_user(MANY_NODES, takes_too_many_nodes), 0);
	/* no other tree than those asked for */
	assert_true(has_tree(1, 2) && !has_tree(1, 1) && !has_tree(1, 0));
	assert_true(has_tree(0, 2) && !has_tree(0, 1) && has_tree(0, 0));
	/* his connections are gone, his trees are not */
	assert_int_equal(as_user(MANY_NODES, takes_no_node), 0);
	assert_int_equal(as_user(MANY_NODES + 1, takes_no_node), 2);
	assert_int_equal(go(boss, 299, 0), 0);
	assert_int_equal(set_fabric(boss, -1), 0);
	assert_false(has_tree(0, 2));
	end_fabric(&fat_tree);
	leave(boss);
}

static int choose(struct peer *p, uint32_t which)
{
	struct control_msg msg = { .type = CTL_COUNTS, .c = which };
	int status = call(p, &msg);

	return status == EDQUOT && msg.c != LIMIT_CHOICES ? EPROTO : status;
}

/* Each user has its own. */
static int take_choice(struct peer *p, uint32_t number)
{
	return choose(p, (geteuid() - CHOOSER) * CONTROL_USER_CHOICES + number + 1);
}

static int takes_too_many_choices(void)
{
	int status, taken;
	struct peer *p = come(CONTROL_COMMAND, &status);

	taken = status ? -1 : take_all(&p, 1, take_choice, CONTROL_USER_CHOICES);
	/* what is there is anybody's */
	return taken == CONTROL_USER_CHOICES && !take_choice(p, 0) && !choose(p, 1) && !choose(p, 0) ? 0 : 2;
}

static void a_user_has_so_many_choices_of_devices(void **state)
{
	struct peer *boss = join(CONTROL_COMMAND);

	(void)state;
	load_fat_tree(boss);
	/* the last finds that all but root have theirs */
	for (uid_t i = 0; i < 3; i++)
		assert_int_equal(as_user(CHOOSER + i, takes_too_many_choices), i < 2 ? 0 : 2);
	for (uint32_t which = 1; which <= CONTROL_CHOICES; which++)
		assert_int_equal(choose(boss, which), 0);
	assert_int_equal(choose(boss, CONTROL_CHOICES + 1), EDQUOT);
	/* at hosts too, and that is another limit than theirs */
	assert_int_equal(go(boss, 0, CONTROL_CHOICES), 0);
	assert_int_equal(go(boss, 0, CONTROL_CHOICES + 1), EPROTO);
	assert_int_equal(set_fabric(boss, -1), 0);
	end_fabric(&fat_tree);
	leave(boss);
}

/* As if users of the last weftd had used them. */
static void make_trees(uint32_t hosts)
{
	char path[128];

	for (uint32_t i = 0; i < hosts; i++) {
		tree_path(i, 0, path);
		assert_int_equal(mkdir(path, 0755), 0);
	}
}

static void trees_of_the_last_weftd_count(void **state)
{
	struct peer *boss = join(CONTROL_COMMAND);
	int fd;

	(void)state;
	load_fat_tree(boss);
	leave(boss);
	kill(status_number("pid"), SIGKILL);
	while ((fd = try_to_connect()) >= 0)
		close(fd);
	make_trees(SUBNET_TREES / 4);
	assert_int_equal(exit_status(spawn(WEFTD, "--system")), 0);
	assert_int_equal(as_user(MANY_NODES, takes_no_node), 0);
	boss = join(CONTROL_COMMAND);
	assert_int_equal(go(boss, 299, 0), 0);
	assert_int_equal(set_fabric(boss, -1), 0);
	assert_false(has_tree(0, 0));
	end_fabric(&fat_tree);
	leave(boss);
}

static int start_system(void **state)
{
	(void)state;
	snprintf(dir, sizeof(dir), "/tmp/weft-quota.XXXXXX");
	assert_non_null(mkdtemp(dir));
	assert_int_equal(chmod(dir, 0755), 0);
	setenv("WEFT_DIR", dir, 1);
	setenv("WEFT_IDLE_S", "600", 1);
	/* one InfiniBand device, as a fabric wants it, and many choices */
	setenv("WEFT_NETWORK_DEVICES", "weft0,weft1:roce,c:roce,d:roce,e:roce", 1);
	return exit_status(spawn(WEFTD, "--system"));
}

#define TEST(test) cmocka_unit_test_teardown(test, tidy)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(a_user_has_so_many_slots),
		TEST(a_user_has_so_many_connections),
		TEST(a_user_makes_so_many_groups),
		TEST(all_users_together_leave_ports_to_root),
		TEST(a_user_has_so_many_listeners),
		TEST(a_user_asks_so_many_questions),
		TEST(who_does_not_read_is_not_kept_descriptors_for),
		TEST(a_user_has_so_many_descriptors),
		TEST(a_subordinate_user_counts_for_his_owner),
		TEST(users_in_a_range_of_root_have_one_share),
		TEST(nobody_is_told_why_processes_of_another_user_stopped),
		TEST(a_user_has_so_many_choices_of_devices),
		TEST(a_user_has_trees_at_so_many_hosts),
		TEST(trees_of_the_last_weftd_count),
	};
	struct rlimit l;

	getrlimit(RLIMIT_NOFILE, &l);
	if (l.rlim_max >= LIMIT)
		l.rlim_cur = l.rlim_max = LIMIT;
	setrlimit(RLIMIT_NOFILE, &l);
	if (geteuid() || l.rlim_max != LIMIT) {
		printf("skipped: needs root and %d descriptors\n", LIMIT);
		return SKIP;
	}
	has_subordinates = make_subordinates();
	return cmocka_run_group_tests(tests, start_system, stop_daemon);
}
