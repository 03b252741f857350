/* Links that go down and come up by CTL_LINK: who may say so, who hears of it, and those that are down for a time. */
#include "control_client.h"

#include "../unit/fabric.h"
#include "base/time.h"
#include "fabric/route.h"

#include <errno.h>
#include <infiniband/verbs.h>
#include <signal.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

enum { LINKS = 64 };	/* that may be down for a time at once */

static int set(struct peer *p, uint32_t device, bool is_up, uint64_t ns)
{
	struct control_msg msg = { .type = CTL_LINK, .device = device, .c = is_up, .service = ns };

	return call(p, &msg);
}

static int state_of(const struct peer *p, uint32_t device)
{
	return *(volatile const uint8_t *)&p->page->device[device].port_state;
}

static void hears_of_a_change(struct peer *p)
{
	struct control_msg msg;

	assert_int_equal(next(p, &msg), 0);
	assert_int_equal(msg.type, CTL_PAGE);
	assert_int_equal(msg.a, 1);
}

static void a_port_is_down_for_all(void **state)
{
	struct peer *boss = join(CONTROL_COMMAND), *a = join(CONTROL_PROCESS);

	(void)state;
	for (uint32_t device = 0; device < 2; device++) {
		assert_int_equal(set(boss, device, false, 0), 0);
		hears_of_a_change(a);
		assert_int_equal(a->page->device[device].port_state, IBV_PORT_DOWN);
		assert_int_equal(a->page->device[1 - device].port_state, IBV_PORT_ACTIVE);
		assert_int_equal(set(boss, device, true, 0), 0);
		hears_of_a_change(a);
		assert_int_equal(a->page->device[device].port_state, IBV_PORT_ACTIVE);
	}
	assert_int_equal(set(boss, 2, false, 0), EINVAL);
	assert_int_equal(set(boss, UINT32_MAX, false, 0), EINVAL);
	assert_int_equal(set(boss, 0, false, CONTROL_LINK_NS + 1), EINVAL);
	assert_int_equal(set(boss, 0, false, UINT64_MAX), EINVAL);
	assert_int_equal(set(boss, 0, true, WTIME_S), EINVAL);
	assert_int_equal(call(boss, &(struct control_msg){ .type = CTL_LINK, .c = 2 }), EINVAL);
	still_well(a);
	leave(a);
	leave(boss);
}

static int cut(struct peer *p, uint8_t host, uint32_t path, uint32_t what, uint32_t *failing)
{
	struct control_msg msg = { .type = CTL_PATH_CUT, .gid = { [15] = host }, .a = path, .c = what };
	int status = call(p, &msg);

	*failing = (uint32_t)msg.b;
	return status;
}

static void a_path_fails_for_all(void **state)
{
	struct peer *boss = join(CONTROL_COMMAND), *a = join(CONTROL_PROCESS);
	uint32_t failing;

	(void)state;
	assert_int_equal(cut(boss, 1, 3, CUT_FAILS, &failing), 0);
	assert_int_equal(failing, 8);
	hears_of_a_change(a);
	assert_int_equal(a->page->cut[0].paths, 8);
	assert_int_equal(cut(boss, 1, 0, CUT_FAILS, &failing), 0);
	hears_of_a_change(a);
	assert_int_equal(failing, 9);
	assert_int_equal(cut(boss, 1, 3, CUT_HEALS, &failing), 0);
	hears_of_a_change(a);
	assert_int_equal(cut(boss, 2, 0, CUT_ASKS, &failing), 0);
	assert_int_equal(failing, 0);
	assert_int_equal(cut(boss, 1, 0, CUT_ASKS, &failing), 0);
	assert_int_equal(failing, 1);
	assert_int_equal(cut(boss, 1, CONTROL_PATHS, CUT_FAILS, &failing), EINVAL);
	assert_int_equal(cut(boss, 1, 0, CUT_ASKS + 1, &failing), EINVAL);
	for (uint8_t host = 2; host <= PAGE_CUTS; host++) {
		assert_int_equal(cut(boss, host, 1, CUT_FAILS, &failing), 0);
		hears_of_a_change(a);
	}
	assert_int_equal(cut(boss, PAGE_CUTS + 1, 1, CUT_FAILS, &failing), EBUSY);
	assert_int_equal(cut(boss, PAGE_CUTS + 1, 1, CUT_HEALS, &failing), 0);
	hears_of_a_change(a);
	for (uint8_t host = 1; host <= PAGE_CUTS; host++) {
		assert_int_equal(cut(boss, host, host > 1, CUT_HEALS, &failing), 0);
		hears_of_a_change(a);
		assert_int_equal(failing, 0);
	}
	still_well(a);
	leave(a);
	leave(boss);
}

static void a_process_cuts_no_path(void **state)
{
	struct peer *a = join(CONTROL_PROCESS);
	struct control_msg msg = { .type = CTL_PATH_CUT, .c = CUT_FAILS };

	(void)state;
	assert_int_equal(message_send(a->socket, &msg, NULL, NULL, 0, 0), 0);
	expect_end(a);
	assert_int_equal(a->page->cut[0].paths, 0);
}

static void a_process_may_not(void **state)
{
	struct peer *a = join(CONTROL_PROCESS);
	struct control_msg msg = { .type = CTL_LINK };

	(void)state;
	assert_int_equal(message_send(a->socket, &msg, NULL, NULL, 0, 0), 0);
	expect_end(a);
	assert_int_equal(a->page->device[0].port_state, IBV_PORT_ACTIVE);
}

static void connections_are_not_asked_for(void **state)
{
	struct peer *boss = join(CONTROL_COMMAND), *a = join(CONTROL_PROCESS), *b = join(CONTROL_PROCESS);
	struct cm_msg req = req_of(a, 77, 0), got;

	(void)state;
	assert_int_equal(listen_at(b, 77, 1, 0), 0);
	assert_int_equal(set(boss, 0, false, 0), 0);
	hears_of_a_change(a);
	hears_of_a_change(b);
	assert_int_equal(send_mad(a, &req), EHOSTUNREACH);
	assert_int_equal(set(boss, 0, true, 0), 0);
	hears_of_a_change(a);
	hears_of_a_change(b);
	assert_int_equal(send_mad(a, &req), 0);
	next_mad(b, &got);
	leave(a);
	leave(b);
	leave(boss);
}

static void it_comes_up_by_itself(void **state)
{
	struct peer *boss = join(CONTROL_COMMAND), *a = join(CONTROL_PROCESS);

	(void)state;
	assert_int_equal(set(boss, 1, false, WTIME_MS), 0);
	hears_of_a_change(a);
	hears_of_a_change(a);
	assert_int_equal(a->page->device[1].port_state, IBV_PORT_ACTIVE);
	/* what is said last holds */
	assert_int_equal(set(boss, 1, false, CONTROL_LINK_NS), 0);
	hears_of_a_change(a);
	assert_int_equal(set(boss, 1, false, WTIME_MS), 0);
	hears_of_a_change(a);
	hears_of_a_change(a);
	assert_int_equal(a->page->device[1].port_state, IBV_PORT_ACTIVE);
	assert_int_equal(set(boss, 1, false, 50 * WTIME_MS), 0);
	assert_int_equal(set(boss, 1, false, 0), 0);
	assert_int_equal(set(boss, 0, false, 100 * WTIME_MS), 0);
	while (state_of(a, 0) != IBV_PORT_ACTIVE)
		hears_of_a_change(a);
	assert_int_equal(a->page->device[1].port_state, IBV_PORT_DOWN);
	assert_int_equal(set(boss, 1, true, 0), 0);
	leave(a);
	leave(boss);
}

/* More than its socket takes, so that what follows waits for it in weftd. */
static void fill(struct peer *boss)
{
	char text[512] = { 0 };
	socklen_t size = sizeof(int);
	int room;

	memset(text, 'x', sizeof(text) - 1);
	assert_int_equal(getsockopt(boss->socket, SOL_SOCKET, SO_SNDBUF, &room, &size), 0);
	for (int i = 0; i < room / (int)sizeof(text) + 2; i++) {
		struct control_msg msg = { .type = CTL_IMPAIR };

		assert_int_equal(call_text(boss, &msg, text), 0);
	}
}

/* Who does not read does not have ever more to read, and is not too slow for it. */
static void a_process_that_does_not_read_is_told_once(void **state)
{
	struct peer *boss = join(CONTROL_COMMAND), *a = join(CONTROL_PROCESS);
	struct control_msg msg = { .type = CTL_UNPORT, .seq = 77 };
	int told = 0;

	(void)state;
	fill(boss);
	for (int i = 0; i < 6; i++)
		assert_int_equal(set(boss, 1, i % 2, 0), 0);
	assert_int_equal(message_send(a->socket, &msg, NULL, NULL, 0, 0), 0);
	while (next(a, &msg) == 0)
		told += msg.type == CTL_PAGE && msg.a == 1;
	assert_int_equal(msg.seq, 77);
	assert_int_equal(told, 1);
	/* and of what comes later */
	assert_int_equal(set(boss, 1, true, 0), 0);
	hears_of_a_change(a);
	assert_int_equal(a->page->device[1].port_state, IBV_PORT_ACTIVE);
	leave(a);
	leave(boss);
}

/* Also when the one that was told to is gone. */
static void the_next_weftd_brings_it_up(void **state)
{
	struct peer *boss = join(CONTROL_COMMAND), *a = join(CONTROL_PROCESS);
	int fd;

	(void)state;
	assert_int_equal(set(boss, 0, false, 300 * WTIME_MS), 0);
	assert_int_equal(set(boss, 1, false, 0), 0);
	kill(status_number("pid"), SIGKILL);
	while ((fd = try_to_connect()) >= 0)
		close(fd);
	assert_int_equal(exit_status(spawn(WEFTD, NULL)), 0);
	close(boss->socket);
	boss->socket = connect_raw();
	assert_int_equal(hello(boss, CONTROL_COMMAND, CONTROL_VERSION, -1), 0);
	close(a->socket);
	a->socket = connect_raw();
	assert_int_equal(hello(a, CONTROL_RETURN, CONTROL_VERSION, a->wake_fd), 0);
	drop_fds(a);
	drop_fds(boss);
	while (state_of(a, 0) != IBV_PORT_ACTIVE)
		assert_int_equal(status_number("awaited"), 0);
	assert_int_equal(a->page->device[1].port_state, IBV_PORT_DOWN);
	assert_int_equal(set(boss, 1, true, 0), 0);
	leave(a);
	leave(boss);
}

static int set_port(struct peer *p, uint32_t port, uint32_t number, uint64_t ns)
{
	struct control_msg msg = { .type = CTL_LINK, .a = port + 1, .b = number, .service = ns };

	return call(p, &msg);
}

static void so_many_links_are_down_for_a_time(void **state)
{
	struct peer *boss = join(CONTROL_COMMAND);
	struct control_msg msg = { .type = CTL_FABRIC, .seq = 7 };
	struct test_fabric t;
	uint32_t number, refused = 0, port;
	int fd;

	(void)state;
	MAKE(&t, "star", "hosts=70");
	assert_int_equal(fabric_route(&t.f, ROUTE_MIN_HOP), 0);
	fabric_activate(&t.f);
	fd = memfd_create("fabric", 0);
	assert_int_equal(write(fd, t.mapping, t.bytes), t.bytes);
	assert_int_equal(message_send(boss->socket, &msg, NULL, &fd, 1, 0), 0);
	assert_int_equal(next(boss, &msg), 0);
	close(fd);
	number = boss->page->fabric;
	port = port_named(&t.f, "h1", 1);
	for (uint32_t i = 0; i < LINKS; i++)
		assert_int_equal(set_port(boss, port_named(&t.f, "s1", i + 1), number, CONTROL_LINK_NS), 0);
	for (uint32_t i = LINKS; i < 70; i++)
		refused += set_port(boss, port_named(&t.f, "s1", i + 1), number, CONTROL_LINK_NS) == EBUSY;
	assert_int_equal(refused, 70 - LINKS);
	/* without a time there is no bound, and what goes makes room */
	assert_int_equal(set_port(boss, port_named(&t.f, "s1", 70), number, 0), 0);
	assert_int_equal(set_port(boss, port_named(&t.f, "s1", 1), number, 0), 0);
	assert_int_equal(set_port(boss, port_named(&t.f, "s1", 69), number, WTIME_MS), 0);
	assert_int_equal(set_port(boss, port, number + 1, 0), ESTALE);
	assert_int_equal(set_port(boss, t.f.ports, number, 0), EINVAL);
	end_fabric(&t);
	/* those of a fabric that is gone do not count */
	msg = (struct control_msg){ .type = CTL_FABRIC };
	assert_int_equal(call(boss, &msg), 0);
	assert_int_equal(set(boss, 0, false, CONTROL_LINK_NS), 0);
	assert_int_equal(set(boss, 1, false, CONTROL_LINK_NS), 0);
	assert_int_equal(set(boss, 0, true, 0), 0);
	assert_int_equal(set(boss, 1, true, 0), 0);
	leave(boss);
}

#define WELL(test) cmocka_unit_test_teardown(test, leave_all)

int main(void)
{
	const struct CMUnitTest tests[] = {
		WELL(a_port_is_down_for_all),
		WELL(a_process_may_not),
		WELL(a_path_fails_for_all),
		WELL(a_process_cuts_no_path),
		WELL(connections_are_not_asked_for),
		WELL(it_comes_up_by_itself),
		WELL(a_process_that_does_not_read_is_told_once),
		WELL(the_next_weftd_brings_it_up),
		WELL(so_many_links_are_down_for_a_time),
	};

	return cmocka_run_group_tests(tests, start_daemon, stop_daemon);
}
