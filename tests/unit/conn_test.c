/* weftd's connections: datagrams that come and go many at a time keep their order among other messages, none is lost where a
 * socket is full, and descriptors that come with one are not received. */
#include "control/devices.h"
#include "weftd/conn.h"

#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cmocka.h>

enum { NO_AGENT = 7, FLOOD = 500 };

static struct world {
	struct conn_set set;
	struct fabric_page page;
	struct claims claims;
	int epoll_fd, near, far;	/* of a file of datagrams: weftd's end, and the program's */
	struct client *client;
} *world;

static void open_file(void)
{
	struct control_msg msg = { .type = CTL_MAD_PORT, .seq = 1 };

	assert_int_equal(message_send(world->far, &msg, NULL, NULL, 0, 0), 0);
	conn_ready(&world->set, world->near, EPOLLIN);
	assert_int_equal(message_receive(world->far, &msg, NULL, 0, NULL, NULL, 0), 0);
	assert_int_equal(msg.status, 0);
}

static int set_up(void **state)
{
	const struct ucred who = { .pid = getpid(), .uid = geteuid(), .gid = getegid() };
	enum control_limit limit;
	struct state s;
	int pair[2];

	(void)state;
	world = calloc(1, sizeof(*world));
	assert_non_null(world);
	world->page.devices = control_default.devices;
	world->page.device[0].protocol = PAGE_IB;
	s = (struct state){ .page = &world->page, .claims = &world->claims, .page_fd = -1 };
	conn_set_init(&world->set, &s, 1);
	world->epoll_fd = epoll_create1(EPOLL_CLOEXEC);
	conn_set_epoll(&world->set, world->epoll_fd);
	assert_int_equal(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, pair), 0);
	world->near = pair[0];
	world->far = pair[1];
	assert_int_equal(conn_add(&world->set, world->near, &who, WTIME_NEVER, &limit), 0);
	world->client = list_first_entry(&world->set.hub.clients, struct client, node);
	world->client->kind = CLIENT_MADS;
	open_file();
	return 0;
}

static int tear_down(void **state)
{
	(void)state;
	conn_set_fini(&world->set);
	close(world->epoll_fd);
	close(world->far);
	free(world);
	return 0;
}

/* A question of an agent that there is not: it comes back. */
static void say(uint32_t number, const int *fds, int nfds)
{
	struct control_mad head = { .agent = NO_AGENT, .timeout_ms = 1000, .total = MAD_BYTES, .flow_label = number, .qpn = 1 };
	struct control_msg msg = { .type = CTL_MAD, .text_bytes = sizeof(head) + MAD_BYTES };
	uint8_t text[sizeof(head) + MAD_BYTES] = { 0 };

	memcpy(text, &head, sizeof(head));
	text[sizeof(head) + 1] = MAD_CLASS_SA;
	assert_int_equal(message_send(world->far, &msg, (char *)text, fds, nfds, 0), 0);
}

/* The file is open already. */
static void say_other(uint32_t number)
{
	const struct control_msg msg = { .type = CTL_MAD_PORT, .seq = number };

	assert_int_equal(message_send(world->far, &msg, NULL, NULL, 0, 0), 0);
}

/* What comes next: a datagram, or an answer; of which number. False: nothing. */
static bool hear(enum control_type *type, uint32_t *number)
{
	struct control_msg msg;
	struct control_mad head;
	char text[1000];

	if (message_receive(world->far, &msg, text, sizeof(text), NULL, NULL, MSG_DONTWAIT))
		return false;
	memcpy(&head, text, sizeof(head));
	*type = (enum control_type)msg.type;
	*number = msg.type == CTL_MAD ? head.flow_label : msg.seq;
	assert_int_equal(msg.type == CTL_MAD ? (int)head.status : msg.status, EINVAL);
	return true;
}

static void order_stays(void **state)
{
	enum { MESSAGES = 3 * MESSAGES_AT_ONCE + 5, EACH = 10 };
	enum control_type type;
	uint32_t number;

	(void)state;
	for (uint32_t i = 0; i < MESSAGES; i++) {
		if (i % EACH == EACH - 1)
			say_other(i);
		else
			say(i, NULL, 0);
	}
	for (uint32_t i = 0; i < MESSAGES; i++) {
		/* each goes when what came with it is done */
		while (!hear(&type, &number))
			conn_ready(&world->set, world->near, EPOLLIN);
		assert_int_equal(number, i);
		assert_int_equal(type, i % EACH == EACH - 1 ? CTL_MAD_PORT : CTL_MAD);
	}
	assert_false(hear(&type, &number));
}

static unsigned heard(void)
{
	enum control_type type;
	unsigned count = 0;
	uint32_t number;

	while (hear(&type, &number))
		count++;
	return count;
}

/* Whoever has more to say than fits, time after time, keeps others from their turn for a shorter time. */
static void who_always_has_more_has_short_turns(void **state)
{
	static const unsigned turns[] = { 32, 16, 8, 4, 4, 4 };

	(void)state;
	for (uint32_t i = 0; i < 80; i++)
		say(i, NULL, 0);
	for (size_t i = 0; i < sizeof(turns) / sizeof(turns[0]); i++) {
		conn_ready(&world->set, world->near, EPOLLIN);
		assert_int_equal(heard(), turns[i]);
	}
	for (unsigned left = 80 - 68; left; left -= 4) {
		conn_ready(&world->set, world->near, EPOLLIN);
		assert_int_equal(heard(), 4);
	}
	/* who has said all has long ones again */
	for (unsigned i = 0; i < 4; i++) {
		say(0, NULL, 0);
		conn_ready(&world->set, world->near, EPOLLIN);
		assert_int_equal(heard(), 1);
	}
	for (uint32_t i = 0; i < 20; i++)
		say(i, NULL, 0);
	conn_ready(&world->set, world->near, EPOLLIN);
	assert_int_equal(heard(), 20);
}

/* What comes at another time than a client's message leaves at the end of the round. */
static void a_round_ends(void **state)
{
	const struct control_mad head = { .flow_label = 5, .status = EINVAL };
	const struct control_msg msg = { .type = CTL_MAD, .text_bytes = sizeof(head) };
	enum control_type type;
	uint32_t number;

	(void)state;
	assert_true(world->set.hub.ops->send(&world->set.hub, world->client, &msg, (const char *)&head, NULL, 0));
	conn_reap(&world->set);
	assert_true(hear(&type, &number));
	assert_int_equal(number, 5);
}

static void a_full_socket_loses_nothing(void **state)
{
	int few = 4096;
	enum control_type type;
	uint32_t heard = 0, number;

	(void)state;
	setsockopt(world->near, SOL_SOCKET, SO_SNDBUF, &few, sizeof(few));
	for (uint32_t i = 0; i < FLOOD; i++) {
		say(i, NULL, 0);
		/* with the turns of one who always has more */
		if (i % 4 == 3)
			conn_ready(&world->set, world->near, EPOLLIN);
	}
	for (unsigned i = 0; i < FLOOD; i++)
		conn_ready(&world->set, world->near, EPOLLIN);	/* nothing more comes in the end */
	while (hear(&type, &number)) {
		assert_int_equal(number, heard);
		heard++;
		conn_ready(&world->set, world->near, EPOLLOUT);
	}
	assert_int_equal(heard, FLOOD);
}

static int open_descriptors(void)
{
	int n = 0;

	for (int fd = 0; fd < 256; fd++)
		n += fcntl(fd, F_GETFD) >= 0;
	return n;
}

/* Whoever sends them loses the connection; what came before them counts. */
static void descriptors_are_not_received(void **state)
{
	int before = open_descriptors(), fds[] = { world->far, world->far };
	enum control_type type;
	uint32_t heard = 0, number;

	(void)state;
	for (uint32_t i = 0; i < 5; i++)
		say(i, fds, i == 3 ? 2 : 0);
	for (int i = 0; i < 5; i++)
		conn_ready(&world->set, world->near, EPOLLIN);
	assert_int_equal(open_descriptors(), before);
	while (hear(&type, &number))
		assert_int_equal(number, heard++);
	assert_int_equal(heard, 3);
	conn_reap(&world->set);
	assert_true(list_empty(&world->set.hub.clients));
}

/* What is none ends the connection, with what is behind it; what is empty is the end, as it is for others. */
static void no_message(void **state)
{
	static const char nothing[3] = { 0 };
	enum control_type type;
	uint32_t number;

	(void)state;
	say(0, NULL, 0);
	assert_int_equal(send(world->far, nothing, sizeof(nothing), 0), sizeof(nothing));
	say(1, NULL, 0);
	for (int i = 0; i < 3; i++)
		conn_ready(&world->set, world->near, EPOLLIN);
	assert_true(hear(&type, &number));
	assert_int_equal(number, 0);
	assert_false(hear(&type, &number));
	conn_reap(&world->set);
	assert_true(list_empty(&world->set.hub.clients));
}

/* With descriptors or without: neither what is behind it counts, nor does this process close what came with it. */
static void no_bytes_are_the_end(bool has_fds)
{
	char space[CMSG_SPACE(sizeof(int))] = { 0 };
	struct msghdr header = { .msg_control = has_fds ? space : NULL, .msg_controllen = has_fds ? sizeof(space) : 0 };
	struct cmsghdr *c = (struct cmsghdr *)space;

	*c = (struct cmsghdr){ .cmsg_level = SOL_SOCKET, .cmsg_type = SCM_RIGHTS, .cmsg_len = CMSG_LEN(sizeof(int)) };
	memcpy(CMSG_DATA(c), &world->far, sizeof(world->far));
	for (uint32_t i = 0; i < 3; i++)
		say(i, NULL, 0);
	assert_int_equal(sendmsg(world->far, &header, 0), 0);
	say(3, NULL, 0);
	for (int i = 0; i < 3; i++)
		conn_ready(&world->set, world->near, EPOLLIN);
	assert_int_equal(heard(), 3);
	conn_reap(&world->set);
	assert_true(list_empty(&world->set.hub.clients));
	/* the child that had the socket open while it was closed */
	assert_false(list_empty(&world->set.intake.all));
}

static void no_bytes(void **state)
{
	(void)state;
	no_bytes_are_the_end(false);
}

static void no_bytes_but_a_descriptor(void **state)
{
	(void)state;
	no_bytes_are_the_end(true);
}

/* A longer one is among them. */
static void a_long_one_keeps_its_place(void **state)
{
	enum { LONG = 5000 };
	struct control_mad head = { .agent = NO_AGENT, .timeout_ms = 1000, .total = LONG, .flow_label = 1, .qpn = 1 };
	struct control_msg msg = { .type = CTL_MAD, .text_bytes = sizeof(head) + LONG };
	uint8_t text[sizeof(head) + LONG] = { 0 };
	enum control_type type;
	uint32_t number;

	(void)state;
	memcpy(text, &head, sizeof(head));
	text[sizeof(head) + 1] = MAD_CLASS_SA;
	say(0, NULL, 0);
	assert_int_equal(message_send(world->far, &msg, (char *)text, NULL, 0, 0), 0);
	say(2, NULL, 0);
	for (int i = 0; i < 3; i++)
		conn_ready(&world->set, world->near, EPOLLIN);
	for (uint32_t i = 0; i < 3; i++) {
		assert_true(hear(&type, &number));
		assert_int_equal(number, i);
	}
	assert_false(hear(&type, &number));
}

/* It goes while datagrams for it wait. */
static void who_goes_hears_nothing_more(void **state)
{
	const struct control_mad head = { .flow_label = 5 };
	const struct control_msg msg = { .type = CTL_MAD, .text_bytes = sizeof(head) };

	(void)state;
	assert_true(world->set.hub.ops->send(&world->set.hub, world->client, &msg, (const char *)&head, NULL, 0));
	world->set.hub.ops->drop(&world->set.hub, world->client, "a test");
	assert_false(world->set.hub.ops->send(&world->set.hub, world->client, &msg, (const char *)&head, NULL, 0));
	conn_reap(&world->set);
	assert_true(list_empty(&world->set.hub.clients));
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(order_stays),
		TEST(who_always_has_more_has_short_turns),
		TEST(a_round_ends),
		TEST(a_full_socket_loses_nothing),
		TEST(descriptors_are_not_received),
		TEST(no_message),
		TEST(no_bytes),
		TEST(no_bytes_but_a_descriptor),
		TEST(a_long_one_keeps_its_place),
		TEST(who_goes_hears_nothing_more),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
