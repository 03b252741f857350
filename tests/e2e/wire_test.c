/* What weftd does with UDP port 4791: who gets which socket of it, when it is opened and closed, and who has it otherwise. In a
 * network namespace of the test's own. */
#include "control_client.h"
#include "own_network.h"

#include "link/udp_group.h"
#include "wire/addr.h"
#include "wire/header.h"
#include "wire/roce_udp.h"

#include <arpa/inet.h>
#include <errno.h>
#include <jansson.h>
#include <poll.h>
#include <signal.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { MANY = 40, SLOTS_OF_ONE = 16, LENGTH = 64 };

static json_t *ask_status(struct peer *c)
{
	struct control_msg msg = { .type = CTL_STATUS };
	json_t *all, *wire;

	assert_int_equal(call(c, &msg), 0);
	all = json_loadb(c->text, msg.text_bytes, 0, NULL);
	wire = json_incref(json_object_get(all, "wire"));
	json_decref(all);
	assert_non_null(wire);
	return wire;
}

static long long wire_number(const char *name)
{
	struct peer *c = join(CONTROL_COMMAND);
	json_t *wire = ask_status(c), *value = json_object_get(wire, name);
	long long n;

	if (!value)
		value = json_object_get(json_object_get(wire, "qp1"), name);
	assert_non_null(value);
	n = json_is_boolean(value) ? json_is_true(value) : json_integer_value(value);

	json_decref(wire);
	leave(c);
	return n;
}

/* A client's end is noticed soon, but not at once; and so is a packet. */
static void wait_for_wire(const char *name, long long value)
{
	time_t until = time(NULL) + PATIENCE_MS / 1000;

	while (wire_number(name) != value)
		assert_true(time(NULL) < until);
}

/* The socket, the test's own; or -errno. */
static int ask_socket(struct peer *p)
{
	struct control_msg msg = { .type = CTL_ROCE_SOCKET };
	int status = call(p, &msg), fd;

	if (status) {
		assert_int_equal(p->nfds, 0);
		return -status;
	}
	assert_int_equal(p->nfds, 1);
	assert_int_equal(msg.b, 256);
	assert_int_equal(msg.a, p->slot % 256);
	fd = p->fds[0];
	p->nfds = 0;
	return fd;
}

/* Who was attached before may have been received by a child of weftd's, which has all sockets open until it runs: a process asks
 * again meanwhile (peers/roce_socket.c). */
static bool is_held_by_child(int status, time_t until)
{
	return status == -EADDRINUSE && time(NULL) < until;
}

static int ask_for_free_port(struct peer *p)
{
	time_t until = time(NULL) + PATIENCE_MS / 1000;
	int fd;

	do
		fd = ask_socket(p);
	while (is_held_by_child(fd, until));
	return fd;
}

static struct udp_group *open_free_port(void)
{
	time_t until = time(NULL) + PATIENCE_MS / 1000;
	struct udp_group *group = NULL;
	int err;

	do
		err = udp_group_open(ROCE_PORT, 1, &group);
	while (is_held_by_child(err, until));
	assert_int_equal(err, 0);
	return group;
}

/* What a QP of this slot would be sent. */
static void send_to(uint32_t slot)
{
	struct sockaddr_in to = { .sin_family = AF_INET, .sin_port = htons(ROCE_PORT),
				  .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	uint8_t bytes[LENGTH] = { 0 };
	int fd = socket(AF_INET, SOCK_DGRAM, 0);

	wire_put(bytes, slot << 12 | 1, BTH_DEST_QPN);
	assert_int_equal(sendto(fd, bytes, sizeof(bytes), 0, (struct sockaddr *)&to, sizeof(to)), LENGTH);
	close(fd);
}

static bool receives(int fd, int wait_ms)
{
	struct pollfd p = { fd, POLLIN, 0 };
	char bytes[LENGTH];

	return poll(&p, 1, wait_ms) == 1 && recv(fd, bytes, sizeof(bytes), 0) == LENGTH;
}

static void a_process_gets_the_socket_of_its_slot(void **state)
{
	struct peer *a = join(CONTROL_PROCESS), *b = join(CONTROL_PROCESS);
	int at_a, at_b;

	assert_int_equal(wire_number("open"), 0);
	at_a = ask_socket(a);
	at_b = ask_socket(b);
	assert_true(at_a >= 0 && at_b >= 0);
	assert_int_equal(wire_number("sockets"), 2);
	assert_int_equal(wire_number("port"), ROCE_PORT);
	for (int i = 0; i < 3; i++) {
		send_to(a->slot);
		assert_true(receives(at_a, PATIENCE_MS));
		send_to(b->slot);
		assert_true(receives(at_b, PATIENCE_MS));
		assert_false(receives(at_a, 0));
	}
	close(at_a);
	close(at_b);
	leave(a);
	leave(b);
	(void)state;
}

/* A process that had no descriptor left for it, for one. */
static void who_could_not_take_its_socket_up_gets_it_again(void **state)
{
	struct peer *a = join(CONTROL_PROCESS), *b = join(CONTROL_PROCESS);
	int at_a = ask_socket(a), at_b = ask_socket(b);
	long long before = wire_number("dead_letters");

	send_to(a->slot);
	close(at_a);
	for (int i = 0; i < 3; i++) {
		at_a = ask_socket(a);
		assert_true(at_a >= 0);
		assert_false(receives(at_a, 0));
		send_to(a->slot);
		assert_true(receives(at_a, PATIENCE_MS));
		close(at_a);
	}
	assert_int_equal(wire_number("dead_letters"), before + 1);
	assert_int_equal(wire_number("sockets"), 2);
	send_to(b->slot);
	assert_true(receives(at_b, PATIENCE_MS));
	close(at_b);
	leave(a);
	leave(b);
	wait_for_wire("open", 0);
	(void)state;
}

struct holder {
	pid_t pid;
	int connection;	/* a duplicate: open, it hides from weftd that the process has ended */
};

/* Another process, with a socket. */
static struct holder start_holder(void)
{
	struct control_msg msg = { .type = CTL_ROCE_SOCKET };
	char text[CONTROL_TEXT];
	struct holder o;
	int pair[2], fd[CONTROL_FDS], fds;

	assert_int_equal(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair), 0);
	o.pid = fork();
	if (o.pid == 0) {
		struct peer *p = join(CONTROL_PROCESS);

		if (ask_socket(p) >= 0)
			message_send(pair[1], &msg, NULL, &p->socket, 1, 0);
		for (;;)
			pause();
	}
	assert_int_equal(message_receive(pair[0], &msg, text, sizeof(text), fd, &fds, 0), 0);
	assert_int_equal(fds, 1);
	o.connection = fd[0];
	close(pair[0]);
	close(pair[1]);
	return o;
}

static void kill_holder(struct holder o)
{
	kill(o.pid, SIGKILL);
	assert_int_equal(waitpid(o.pid, NULL, 0), o.pid);
}

/* weftd may learn late that a process has ended, and refuses nobody for its sake. */
static void who_has_died_does_not_refuse_others(void **state)
{
	struct holder o = start_holder();
	struct peer *a = join(CONTROL_PROCESS);
	int fd;

	kill_holder(o);
	assert_int_equal(wire_number("sockets"), 1);
	assert_int_equal(ask_socket(a), -EAGAIN);
	close(o.connection);
	wait_for_wire("sockets", 0);
	fd = ask_for_free_port(a);
	assert_true(fd >= 0);
	close(fd);
	leave(a);
	wait_for_wire("open", 0);
	(void)state;
}

static void one_that_lives_stands_for_all(void **state)
{
	struct holder before = start_holder(), after;
	struct peer *a = join(CONTROL_PROCESS), *b = join(CONTROL_PROCESS);
	int at_a = ask_socket(a), at_b;

	assert_true(at_a >= 0);
	after = start_holder();
	kill_holder(before);
	kill_holder(after);
	at_b = ask_socket(b);
	assert_true(at_b >= 0);
	assert_int_equal(wire_number("sockets"), 4);
	close(at_a);
	close(at_b);
	close(before.connection);
	close(after.connection);
	leave(a);
	leave(b);
	wait_for_wire("open", 0);
	(void)state;
}

static void the_port_is_closed_when_the_last_process_goes(void **state)
{
	struct peer *a = join(CONTROL_PROCESS), *b = join(CONTROL_PROCESS);
	struct udp_group *group;

	close(ask_socket(a));
	close(ask_socket(b));
	assert_int_equal(udp_group_open(ROCE_PORT, 1, &group), -EADDRINUSE);
	leave(a);
	wait_for_wire("sockets", 1);
	assert_int_equal(udp_group_open(ROCE_PORT, 1, &group), -EADDRINUSE);
	leave(b);
	wait_for_wire("open", 0);
	udp_group_close(open_free_port());
	(void)state;
}

static void packets_for_a_process_that_is_gone_are_counted(void **state)
{
	struct peer *a = join(CONTROL_PROCESS), *b = join(CONTROL_PROCESS);
	int at_a = ask_socket(a), at_b = ask_socket(b);
	long long before = wire_number("dead_letters");
	uint32_t slot = a->slot;

	close(at_a);
	leave(a);
	wait_for_wire("sockets", 1);
	send_to(slot);
	wait_for_wire("dead_letters", before + 1);
	send_to(b->slot);
	assert_true(receives(at_b, PATIENCE_MS));
	close(at_b);
	leave(b);
	wait_for_wire("open", 0);
	assert_int_equal(wire_number("dead_letters"), before + 1);
	(void)state;
}

static void who_has_the_port_already_keeps_it(void **state)
{
	struct peer *a = join(CONTROL_PROCESS);
	struct udp_group *other;
	int fd;

	other = open_free_port();
	assert_int_equal(ask_socket(a), -EADDRINUSE);
	assert_int_equal(wire_number("open"), 0);
	udp_group_close(other);
	fd = ask_socket(a);
	assert_true(fd >= 0);
	close(fd);
	leave(a);
	(void)state;
}

static void no_two_processes_have_slots_of_one_socket(void **state)
{
	bool taken[256] = { [0] = true };	/* weftd's */
	struct peer *p[MANY];

	for (int i = 0; i < MANY; i++) {
		struct control_msg msg = { .type = CTL_SLOT };

		p[i] = join(CONTROL_PROCESS);
		assert_false(taken[p[i]->slot % 256]);
		taken[p[i]->slot % 256] = true;
		for (int more = 1; i == 0 && more < SLOTS_OF_ONE; more++) {
			assert_int_equal(call(p[0], &msg), 0);
			assert_int_equal(msg.slot % 256, p[0]->slot % 256);
		}
	}
	for (int i = 0; i < MANY; i++)
		leave(p[i]);
	(void)state;
}

/* ---- QP1 ---- */

static const uint64_t service = (uint64_t)0x0106 << 16 | 7001;

/* What a CM of another host sends to QP1 of this one. */
struct letter {
	const char *from, *to;	/* addresses */
	uint32_t qkey, src_qpn;
	uint16_t pkey;
	uint32_t bytes;		/* of the MAD */
	struct cm_msg msg;
};

static struct letter letter_of(struct cm_msg msg)
{
	return (struct letter){ .from = "127.0.0.2", .to = "10.9.0.1", .qkey = GSI_QKEY, .src_qpn = GSI_QPN, .pkey = 0xffff,
				.bytes = MAD_BYTES, .msg = msg };
}

static void put_gid(uint8_t gid[16], const char *address)
{
	struct in_addr in;

	assert_int_equal(inet_pton(AF_INET, address, &in), 1);
	gid_from_ipv4(gid, &in);
}

static int sender(const char *from, uint16_t *port)
{
	struct sockaddr_in address = { .sin_family = AF_INET };
	socklen_t bytes = sizeof(address);
	int fd = socket(AF_INET, SOCK_DGRAM, 0), whole = IP_PMTUDISC_DO;

	assert_int_equal(inet_pton(AF_INET, from, &address.sin_addr), 1);
	assert_int_equal(bind(fd, (struct sockaddr *)&address, sizeof(address)), 0);
	assert_int_equal(setsockopt(fd, SOL_IP, IP_MTU_DISCOVER, &whole, sizeof(whole)), 0);
	assert_int_equal(getsockname(fd, (struct sockaddr *)&address, &bytes), 0);
	*port = ntohs(address.sin_port);
	return fd;
}

/* spoil: a bit of its payload, after its ICRC was made. */
static void post_letter(const struct letter *l, bool spoil)
{
	struct sockaddr_in to = { .sin_family = AF_INET, .sin_port = htons(ROCE_PORT) };
	struct packet p = { .form = PACKET_ROCE, .opcode = OPCODE_UD_SEND_ONLY, .pkey = l->pkey, .dest_qpn = GSI_QPN,
			    .deth = { l->qkey, l->src_qpn }, .payload_iovs = 1, .payload_bytes = l->bytes,
			    .path = { .has_grh = true, .is_ipv4 = true, .hop_limit = 64 } };
	uint8_t mad[MAD_BYTES], frame[GMP_FRAME];
	struct iovec iov = { mad, l->bytes };
	size_t bytes, kernel = IPV4_BYTES + UDP_BYTES;
	int fd = sender(l->from, &p.path.udp_sport);

	put_gid(p.path.sgid, l->from);
	put_gid(p.path.dgid, l->to);
	p.payload = &iov;
	cm_build(&l->msg, mad);
	bytes = packet_build(&p, frame, sizeof(frame));
	assert_true(bytes > kernel && roce_udp_repath(frame, bytes, p.path.udp_sport, 0));
	frame[kernel + 40] ^= spoil;
	assert_int_equal(inet_pton(AF_INET, l->to, &to.sin_addr), 1);
	assert_int_equal(sendto(fd, frame + kernel, bytes - kernel, 0, (struct sockaddr *)&to, sizeof(to)), bytes - kernel);
	close(fd);
}

static struct cm_msg request(uint64_t to_service, const char *address)
{
	struct cm_msg msg = { .attribute = CM_REQ, .tid = 5, .req = { .local_comm_id = 77, .service_id = to_service } };
	struct cma_header header = { .version = CMA_VERSION, .ip_version = 4, .port = 1 };
	uint8_t gid[16];

	put_gid(gid, address);
	memcpy(header.destination + 12, gid + 12, 4);
	cma_build(&header, msg.req.private_data);
	return msg;
}

static void mads_of_other_hosts_find_their_process(void **state)
{
	struct peer *a = join(CONTROL_PROCESS), *b = join(CONTROL_PROCESS);
	int at_a = ask_socket(a);
	struct letter l = letter_of(request(service, "10.9.0.1"));
	long long nobody = wire_number("nobody"), no_socket = wire_number("no_socket");
	struct cm_msg got;

	assert_int_equal(listen_at(a, service, 0, 0), 0);
	post_letter(&l, false);
	next_mad(a, &got);
	assert_int_equal(got.attribute, CM_REQ);
	assert_int_equal(got.req.local_comm_id, 77);
	l = letter_of((struct cm_msg){ .attribute = CM_RTU, .rtu = { 77, a->slot << 20 | 3 } });
	post_letter(&l, false);
	next_mad(a, &got);
	assert_int_equal(got.attribute, CM_RTU);
	/* only who asked takes it back */
	l = letter_of((struct cm_msg){ .attribute = CM_REJ, .rej = { .local_comm_id = 77, .reason = CM_REJ_TIMEOUT } });
	l.from = "127.0.0.3";
	post_letter(&l, false);
	wait_for_wire("nobody", nobody + 1);
	l.from = "127.0.0.2";
	post_letter(&l, false);
	next_mad(a, &got);
	assert_int_equal(got.attribute, CM_REJ);
	/* b could not answer */
	assert_int_equal(listen_at(b, service + 1, 0, 0), 0);
	l = letter_of(request(service + 1, "10.9.0.1"));
	post_letter(&l, false);
	wait_for_wire("no_socket", no_socket + 1);
	still_well(b);
	close(at_a);
	leave(a);
	leave(b);
	(void)state;
}

static void refused(struct letter l, const char *why)
{
	long long before = wire_number(why);

	post_letter(&l, false);
	wait_for_wire(why, before + 1);
}

static void what_is_no_mad_of_another_host_goes_nowhere(void **state)
{
	struct peer *a = join(CONTROL_PROCESS);
	struct letter good = letter_of(request(service, "10.9.0.1")), l;
	int at_a = ask_socket(a);
	long long passed = wire_number("passed");

	assert_int_equal(listen_at(a, service, 0, 0), 0);
	l = good, l.qkey = 0x11111111;
	refused(l, "wrong_key");
	l = good, l.src_qpn = 0x5001;
	refused(l, "wrong_key");
	l = good, l.pkey = 0x8001;
	refused(l, "wrong_partition");
	l = good, l.from = "10.9.0.1";	/* nobody of this host speaks over the wire */
	refused(l, "wrong_source");
	l = good, l.to = "127.0.0.1";
	refused(l, "wrong_source");
	l = good, l.bytes = MAD_BYTES - 4;
	refused(l, "no_mad");
	refused(letter_of(request(service + 9, "10.9.0.1")), "answered");
	refused(letter_of((struct cm_msg){ .attribute = CM_RTU, .rtu = { 77, 0 } }), "nobody");
	post_letter(&good, true);
	still_well(a);
	assert_int_equal(wire_number("passed"), passed);
	close(at_a);
	leave(a);
	(void)state;
}

/* Neither is passed on, nor answered. */
static void a_port_that_is_down_hears_no_other_host(void **state)
{
	struct peer *a = join(CONTROL_PROCESS), *boss = join(CONTROL_COMMAND);
	struct control_msg link = { .type = CTL_LINK, .device = 1 }, page;
	struct letter l = letter_of(request(service, "10.9.0.1"));
	int at_a = ask_socket(a);
	struct cm_msg got;

	assert_int_equal(listen_at(a, service, 0, 0), 0);
	assert_int_equal(call(boss, &link), 0);
	assert_int_equal(next(a, &page), 0);
	assert_int_equal(page.type, CTL_PAGE);
	refused(l, "port_down");
	refused(letter_of(request(service + 9, "10.9.0.1")), "port_down");
	still_well(a);
	link.c = 1;
	assert_int_equal(call(boss, &link), 0);
	assert_int_equal(next(a, &page), 0);
	post_letter(&l, false);
	next_mad(a, &got);
	assert_int_equal(got.attribute, CM_REQ);
	close(at_a);
	leave(a);
	leave(boss);
	(void)state;
}

/* Whatever rdma_cm's header says. */
static void who_listens_at_loopback_is_not_asked_by_others(void **state)
{
	struct peer *a = join(CONTROL_PROCESS);
	struct control_msg listens = { .type = CTL_LISTEN, .service = service, .gid = { [10] = 0xff, 0xff, 127, 0, 0, 1 } };
	int at_a = ask_socket(a);

	assert_int_equal(call(a, &listens), 0);
	refused(letter_of(request(service, "127.0.0.1")), "answered");
	still_well(a);
	close(at_a);
	leave(a);
	(void)state;
}

/* A machine that does not take in more than that in a second shows only that it answers no more. */
static void a_flood_is_answered_only_so_much(void **state)
{
	enum { BURST = 1000, ANSWERS = 4096 };
	struct peer *a = join(CONTROL_PROCESS);
	struct letter l = letter_of(request(service + 9, "10.9.0.1"));
	long long no_room = wire_number("no_room"), answered = wire_number("answered");
	time_t start = time(NULL);
	int at_a = ask_socket(a);

	do {
		for (int i = 0; i < BURST; i++)
			post_letter(&l, false);
		assert_true(wire_number("answered") - answered <= ANSWERS * (time(NULL) - start + 2));
	} while (wire_number("no_room") == no_room && time(NULL) - start < PATIENCE_MS / 1000);
	still_well(a);
	close(at_a);
	leave(a);
	(void)state;
}

/* Of a with the QP 0x77 of the CM at 127.0.0.2. */
static struct control_msg connection(const struct peer *a, uint32_t number)
{
	struct control_msg msg = { .type = CTL_CONN, .device = 1, .a = a->slot << 20 | number, .b = 77, .slot = a->slot << 12 | 1,
				   .c = 0x77, .service = 0xffffull << CONN_PKEY | 17ull << CONN_ACK_TIMEOUT };

	put_gid(msg.gid, "10.9.0.1");
	put_gid(msg.dgid, "127.0.0.2");
	return msg;
}

static void a_process_tells_of_its_own_connections(void **state)
{
	struct peer *a = join(CONTROL_PROCESS), *b = join(CONTROL_PROCESS);
	struct control_msg good = connection(a, 3), msg, over = { .type = CTL_UNCONN, .a = good.a };

	msg = good;
	assert_int_equal(call(b, &msg), EPERM);
	msg = good, msg.device = 0;
	assert_int_equal(call(a, &msg), EINVAL);
	msg = good, msg.device = 77;
	assert_int_equal(call(a, &msg), EINVAL);
	msg = good, msg.b = 0;
	assert_int_equal(call(a, &msg), EINVAL);
	msg = good;
	put_gid(msg.gid, "10.9.0.2");
	assert_int_equal(call(a, &msg), EPERM);
	msg = good;
	put_gid(msg.dgid, "10.9.0.1");
	assert_int_equal(call(a, &msg), EPERM);
	msg = good;
	assert_int_equal(call(a, &msg), 0);
	msg = good;
	assert_int_equal(call(a, &msg), EEXIST);
	msg = over;
	assert_int_equal(call(b, &msg), ENOENT);
	msg = over;
	assert_int_equal(call(a, &msg), 0);
	msg = over;
	assert_int_equal(call(a, &msg), ENOENT);
	/* nothing is left, and nobody could have sent anything */
	leave(a);
	leave(b);
	wait_for_wire("sockets", 0);
	assert_int_equal(wire_number("farewells"), 0);
	(void)state;
}

static void connections_of_a_process_that_ends_are_ended(void **state)
{
	struct peer *a = join(CONTROL_PROCESS);
	struct control_msg msg = connection(a, 3), over;
	uint32_t id = msg.a;
	struct letter l = letter_of((struct cm_msg){ .attribute = CM_DREP, .drep = { 77, id } });
	long long ended = wire_number("ended");
	int at_a = ask_socket(a);

	assert_int_equal(call(a, &msg), 0);
	msg = connection(a, 4);
	over = (struct control_msg){ .type = CTL_UNCONN, .a = msg.a };
	assert_int_equal(call(a, &msg), 0);
	assert_int_equal(call(a, &over), 0);
	assert_int_equal(wire_number("farewells"), 0);
	close(at_a);
	leave(a);
	wait_for_wire("sockets", 0);
	assert_int_equal(wire_number("farewells"), 1);
	assert_int_equal(wire_number("open"), 1);
	/* the peer alone answers */
	l.from = "127.0.0.3";
	post_letter(&l, false);
	wait_for_wire("ended", ended + 1);
	assert_int_equal(wire_number("farewells"), 1);
	l.from = "127.0.0.2";
	post_letter(&l, false);
	wait_for_wire("farewells", 0);
	assert_int_equal(wire_number("ended"), ended + 2);
	/* a DREQ that it repeats, as our DREP was lost, is answered */
	refused(letter_of((struct cm_msg){ .attribute = CM_DREQ, .dreq = { 77, id, 0x77 } }), "answered");
	(void)state;
}

static void a_command_gets_no_socket(void **state)
{
	struct peer *c = join(CONTROL_COMMAND), *still = join(CONTROL_PROCESS);
	struct control_msg msg = { .type = CTL_ROCE_SOCKET };

	assert_int_not_equal(call(c, &msg), 0);
	still_well(still);
	leave(c);
	leave(still);
	(void)state;
}

#define TEST(test) cmocka_unit_test_teardown(test, leave_all)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(a_process_gets_the_socket_of_its_slot),
		TEST(who_could_not_take_its_socket_up_gets_it_again),
		TEST(who_has_died_does_not_refuse_others),
		TEST(one_that_lives_stands_for_all),
		TEST(the_port_is_closed_when_the_last_process_goes),
		TEST(packets_for_a_process_that_is_gone_are_counted),
		TEST(who_has_the_port_already_keeps_it),
		TEST(no_two_processes_have_slots_of_one_socket),
		TEST(a_command_gets_no_socket),
		TEST(mads_of_other_hosts_find_their_process),
		TEST(what_is_no_mad_of_another_host_goes_nowhere),
		TEST(a_port_that_is_down_hears_no_other_host),
		TEST(who_listens_at_loopback_is_not_asked_by_others),
		TEST(a_process_tells_of_its_own_connections),
		TEST(connections_of_a_process_that_ends_are_ended),
		TEST(a_flood_is_answered_only_so_much),
	};

	network_enter();
	network_run("ip link add d0 type veth peer name d1 && ip addr add 10.9.0.1/24 dev d0 && ip link set d0 up");
	return cmocka_run_group_tests(tests, start_daemon, stop_daemon);
}
