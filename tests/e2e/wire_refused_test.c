/* A process that has no descriptor left for the socket that weftd gives it has one when it can. In a network namespace of the
 * test's own. */
#include "control_client.h"
#include "own_network.h"

#include "peers/roce_socket.h"
#include "runtime/config.h"
#include "runtime/entry.h"
#include "runtime/runtime.h"
#include "runtime/state.h"

#include <poll.h>
#include <sys/resource.h>
#include <time.h>

static enum roce_socket_state state_of(struct runtime *rt)
{
	enum roce_socket_state state;

	runtime_enter(rt);
	state = rt->peers.roce.state;
	runtime_leave(rt);
	return state;
}

static void wait_for_state(struct runtime *rt, enum roce_socket_state wanted)
{
	struct timespec now;
	time_t until;

	clock_gettime(CLOCK_MONOTONIC, &now);
	until = now.tv_sec + PATIENCE_MS / 1000;
	while (state_of(rt) != wanted && now.tv_sec < until) {
		poll(NULL, 0, 1);
		clock_gettime(CLOCK_MONOTONIC, &now);
	}
	assert_int_equal(state_of(rt), wanted);
}

/* Opens nothing more. What it was. */
static rlim_t forbid_descriptors(void)
{
	struct rlimit limit;
	rlim_t before;
	int lowest = dup(0);

	assert_true(lowest >= 0);
	close(lowest);
	assert_int_equal(getrlimit(RLIMIT_NOFILE, &limit), 0);
	before = limit.rlim_cur;
	limit.rlim_cur = (rlim_t)lowest;
	assert_int_equal(setrlimit(RLIMIT_NOFILE, &limit), 0);
	return before;
}

static void allow_descriptors(rlim_t count)
{
	struct rlimit limit;

	assert_int_equal(getrlimit(RLIMIT_NOFILE, &limit), 0);
	limit.rlim_cur = count;
	assert_int_equal(setrlimit(RLIMIT_NOFILE, &limit), 0);
}

static void a_socket_that_was_lost_is_had_later(void **state)
{
	struct runtime *rt = runtime_open(config_get());
	rlim_t count;

	(void)state;
	assert_non_null(rt);
	count = forbid_descriptors();
	runtime_enter(rt);
	roce_socket_need(&rt->peers);
	runtime_leave(rt);
	wait_for_state(rt, ROCE_SOCKET_REFUSED);
	allow_descriptors(count);
	wait_for_state(rt, ROCE_SOCKET_OPEN);
	runtime_close(rt);
}

int main(void)
{
	const struct CMUnitTest tests[] = { cmocka_unit_test(a_socket_that_was_lost_is_had_later) };

	network_enter();
	return cmocka_run_group_tests(tests, start_daemon, stop_daemon);
}
