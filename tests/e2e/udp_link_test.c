/* The UDP link and the sockets of port 4791, in a network namespace of their own: which process gets a packet, what leaves in one
 * call, what waits, and that whatever is lost is counted by its cause. */
#include "own_network.h"

#include "control/clock.h"
#include "link/udp_group.h"
#include "link/udp_parts.h"
#include "wire/addr.h"
#include "wire/header.h"

#include <arpa/inet.h>
#include <errno.h>
#include <net/if.h>
#include <poll.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

enum { MEMBERS = 4, PACKETS = 16, PAYLOAD = 1024, TCLASS = 0x68, HOPS = 17, LOOKS = 20000, STEP_NS = 50,
	PATIENCE_MS = 20000 };

struct post {
	struct udp_group *group;
	struct link *link[MEMBERS];
	unsigned told;		/* by link.narrow */
	unsigned tellings;
};

static uint8_t memory[PACKET_MAX_PAYLOAD];

static void narrow(void *owner, const struct packet_path *path, unsigned mtu_bytes)
{
	struct post *post = owner;

	(void)path;
	post->told = mtu_bytes;
	post->tellings++;
}

static struct link *link_of(struct post *post, unsigned member, bool one_by_one)
{
	struct udp_config config = {
		.member = member, .members = MEMBERS, .one_by_one = one_by_one, .narrow = narrow, .owner = post,
	};
	struct link *l;

	config.fd = dup(udp_group_issue(post->group, member));
	assert_true(config.fd >= 0);
	assert_int_equal(udp_open(&config, &l), 0);
	return l;
}

static struct post *open_post(unsigned members, bool one_by_one)
{
	static struct post post;

	post = (struct post){ .group = NULL };
	assert_int_equal(udp_group_open(ROCE_PORT, MEMBERS, &post.group), 0);
	for (unsigned i = 0; i < members; i++)
		post.link[i] = link_of(&post, i, one_by_one);
	return &post;
}

static void close_post(struct post *post)
{
	for (unsigned i = 0; i < MEMBERS; i++)
		if (post->link[i])
			post->link[i]->ops->close(post->link[i]);
	udp_group_close(post->group);
}

static struct packet_path path_to(const char *from, const char *to)
{
	struct packet_path path = { .has_grh = true, .tclass = TCLASS, .hop_limit = HOPS, .udp_sport = 0xc000 };
	uint8_t ipv4[4];

	path.is_ipv4 = inet_pton(AF_INET, to, ipv4) == 1;
	if (path.is_ipv4) {
		gid_from_ipv4(path.dgid, ipv4);
		inet_pton(AF_INET, from, ipv4);
		gid_from_ipv4(path.sgid, ipv4);
	} else {
		inet_pton(AF_INET6, from, path.sgid);
		inet_pton(AF_INET6, to, path.dgid);
	}
	return path;
}

static struct packet a_packet(struct packet_path path, uint32_t slot, psn_t psn, struct iovec *payload, uint32_t bytes)
{
	*payload = (struct iovec){ memory, bytes };
	return (struct packet){
		.form = PACKET_ROCE, .opcode = OPCODE_RC_SEND_ONLY, .path = path, .pkey = 0xffff, .dest_qpn = slot << 12 | 0x5a5,
		.psn = psn, .payload = payload, .payload_iovs = 1, .payload_bytes = bytes,
	};
}

/* A kernel without IPv6 gives the group sockets of IPv4. */
static unsigned families(const struct post *post)
{
	return udp_of(post->link[0])->family == AF_INET6 ? 2 : 1;
}

/* So many packets, of one length, from member 0 to a slot. */
static unsigned send_some(struct post *post, struct packet_path path, uint32_t slot, unsigned n, uint32_t bytes)
{
	struct packet packet[PACKETS];
	const struct packet *list[PACKETS];
	struct iovec payload;

	for (unsigned i = 0; i < n; i++) {
		packet[i] = a_packet(path, slot, i, &payload, bytes);
		list[i] = &packet[i];
	}
	return post->link[0]->ops->send(post->link[0], 0, list, n);
}

/* The same, but the last one has a length of its own. */
static unsigned send_and_end(struct post *post, struct packet_path path, unsigned n, uint32_t bytes, uint32_t last)
{
	struct packet packet[PACKETS];
	const struct packet *list[PACKETS];
	struct iovec payload[PACKETS];

	for (unsigned i = 0; i < n; i++) {
		packet[i] = a_packet(path, 1, i, &payload[i], i + 1 < n ? bytes : last);
		list[i] = &packet[i];
	}
	return post->link[0]->ops->send(post->link[0], 0, list, n);
}

static void send_bytes(const void *bytes, size_t n)
{
	struct sockaddr_in to = {
		.sin_family = AF_INET, .sin_port = htons(ROCE_PORT), .sin_addr.s_addr = htonl(INADDR_LOOPBACK),
	};
	int fd = socket(AF_INET, SOCK_DGRAM, 0);

	assert_int_equal(sendto(fd, bytes, n, 0, (struct sockaddr *)&to, sizeof(to)), n);
	close(fd);
}

/* The next packet, if one has arrived, whenever the link looks. */
static bool next(struct link *l, struct packet *p)
{
	const void *frame;
	unsigned kind;
	size_t bytes;

	do {
		frame = l->ops->receive(l, &kind, &bytes);
	} while (!frame && udp_arrived(udp_of(l)));
	if (frame)
		assert_int_equal(packet_parse(p, PACKET_ROCE, frame, bytes, true), PACKET_OK);
	return frame;
}

/* Something is in the link's socket. */
static void await(struct link *l)
{
	assert_int_equal(poll(&(struct pollfd){ udp_of(l)->config.fd, POLLIN, 0 }, 1, PATIENCE_MS), 1);
}

/* The next packet, which comes. */
static void take(struct link *l, struct packet *p)
{
	while (!next(l, p))
		await(l);
}

static unsigned take_all(struct link *l)
{
	struct packet p;
	unsigned n = 0;

	while (next(l, &p))
		n++;
	return n;
}

static uint64_t lost(const struct link *l, enum udp_loss cause)
{
	return udp_counts(l)->lost[cause];
}

static void a_packet_goes_to_the_process_of_its_slot(void **state)
{
	struct packet_path paths[] = { path_to("127.0.0.1", "127.0.0.1"), path_to("::1", "::1") };
	struct post *post = open_post(MEMBERS, false);

	for (unsigned i = 0; i < families(post); i++)
		for (uint32_t slot = 0; slot < 64; slot++) {
			struct packet p;

			send_some(post, paths[i], slot, 1, PAYLOAD);
			take(post->link[slot % MEMBERS], &p);
			assert_int_equal(p.dest_qpn >> 12, slot);
			for (unsigned m = 0; m < MEMBERS; m++)
				assert_false(udp_arrived(udp_of(post->link[m])));
		}
	for (unsigned m = 0; m < MEMBERS; m++)
		assert_int_equal(lost(post->link[m], UDP_MISROUTED), 0);
	close_post(post);
}

static void packets_of_one_length_leave_in_one_call(void **state)
{
	struct packet_path paths[] = { path_to("127.0.0.1", "127.0.0.1"), path_to("::1", "::1") };

	for (unsigned i = 0; i < 4; i++) {
		bool one_by_one = i >= 2;
		struct post *post = open_post(MEMBERS, one_by_one);
		struct packet p;

		if (i % 2 >= families(post)) {
			close_post(post);
			continue;
		}
		assert_int_equal(send_some(post, paths[i % 2], 1, PACKETS, PAYLOAD), PACKETS);
		assert_int_equal(udp_counts(post->link[0])->send_calls, 1);
		for (unsigned k = 0; k < PACKETS; k++) {
			take(post->link[1], &p);
			assert_int_equal(p.psn, k);
			assert_int_equal(p.path.ip_id, one_by_one || i % 2 ? 0 : k);
			assert_int_equal(p.path.tclass, TCLASS);
			assert_int_equal(p.path.hop_limit, HOPS);
			assert_int_equal(p.payload_bytes, PAYLOAD);
			assert_memory_equal(p.payload->iov_base, memory, PAYLOAD);
		}
		assert_int_equal(udp_counts(post->link[0])->sent, PACKETS);
		assert_int_equal(udp_counts(post->link[1])->received, PACKETS);
		close_post(post);
	}
}

/* A packet that is longer than those before it begins a datagram of its own, in the same call; a READ's answers are copied. */
static void packets_of_several_lengths_leave_in_one_call(void **state)
{
	static const uint32_t bytes[] = { 1024, 1024, 7, 300, 300, 0, 4000, 4000 };
	enum { N = sizeof(bytes) / sizeof(*bytes) };
	struct packet_path path = path_to("127.0.0.1", "127.0.0.1");
	struct post *post = open_post(MEMBERS, false);
	const struct packet *list[N];
	struct packet packet[N], p;
	struct iovec payload[N];

	for (unsigned i = 0; i < N; i++) {
		packet[i] = a_packet(path, 1, i, &payload[i], bytes[i]);
		if (i % 2)
			packet[i].opcode = OPCODE_RC_RDMA_READ_RESPONSE_ONLY;
		list[i] = &packet[i];
	}
	assert_int_equal(post->link[0]->ops->send(post->link[0], 0, list, N), N);
	assert_int_equal(udp_counts(post->link[0])->send_calls, 1);
	for (unsigned i = 0; i < N; i++) {
		take(post->link[1], &p);
		assert_int_equal(p.psn, i);
		assert_int_equal(p.payload_bytes, bytes[i]);
		assert_memory_equal(p.payload->iov_base, memory, bytes[i]);
	}
	close_post(post);
}

static void packets_for_a_process_that_is_gone_die_and_are_counted(void **state)
{
	struct packet_path path = path_to("127.0.0.1", "127.0.0.1");
	struct post *post = open_post(MEMBERS, false);
	uint64_t before;
	struct packet p;

	send_some(post, path, 2, 3, 100);	/* it never read these */
	await(post->link[2]);
	post->link[2]->ops->close(post->link[2]);
	udp_group_retire(post->group, 2);
	before = udp_group_dead_letters(post->group);
	assert_true(before > 0);	/* joined by the kernel, perhaps */
	for (unsigned i = 0; i < 5; i++)
		send_some(post, path, 2 + 4 * i, 1, 100);
	while (udp_group_dead_letters(post->group) < before + 5)
		;
	assert_int_equal(udp_group_issue(post->group, 1), -EBUSY);
	post->link[2] = link_of(post, 2, false);
	assert_int_equal(udp_group_dead_letters(post->group), before + 5);
	assert_int_equal(take_all(post->link[2]), 0);
	for (uint32_t slot = 0; slot < MEMBERS; slot++) {	/* nobody's place has changed */
		send_some(post, path, slot, 1, 100);
		take(post->link[slot], &p);
	}
	close_post(post);
}

static void whoever_stays_gets_its_packets_when_the_owner_has_gone(void **state)
{
	struct packet_path path = path_to("127.0.0.1", "127.0.0.1");
	struct post *post = open_post(MEMBERS, false);
	struct post left = { .link = { post->link[1] } };	/* who sends */
	struct packet p;

	for (unsigned i = 0; i < MEMBERS; i += 2) {
		post->link[i]->ops->close(post->link[i]);
		udp_group_retire(post->group, i);
	}
	udp_group_leave(post->group);
	for (uint32_t slot = 1; slot < 64; slot += 2) {
		send_some(&left, path, slot, 1, 100);
		take(post->link[slot % MEMBERS], &p);
		assert_int_equal(p.dest_qpn >> 12, slot);
	}
	send_some(&left, path, 2, 1, 100);	/* to either */
	while (lost(post->link[1], UDP_MISROUTED) + lost(post->link[3], UDP_MISROUTED) == 0)
		for (unsigned i = 1; i < MEMBERS; i += 2)
			assert_int_equal(take_all(post->link[i]), 0);
	for (unsigned i = 1; i < MEMBERS; i += 2)
		post->link[i]->ops->close(post->link[i]);
}

/* Linux has the group's program choose among few sockets, for which a group's message is nobody's. */
static void a_message_of_a_group_goes_to_its_only_member(void **state)
{
	enum { MANY = 16, MEMBER = 1, ANOTHER = 0 };
	struct packet_path path = path_to("10.9.0.1", "239.9.8.7");
	struct post post = { .group = NULL };
	struct pollfd member = { .events = POLLIN };
	uint8_t group[16];

	memcpy(group, path.dgid, sizeof(group));
	assert_int_equal(udp_group_open(ROCE_PORT, MANY, &post.group), 0);
	post.link[0] = link_of(&post, ANOTHER, false);
	member.fd = udp_group_issue(post.group, MEMBER);
	assert_true(member.fd >= 0);
	assert_int_equal(udp_group_hear(post.group, MEMBER, group, if_nametoindex("v1")), 0);
	assert_int_equal(send_some(&post, path, ANOTHER, 1, 100), 1);
	assert_int_equal(poll(&member, 1, PATIENCE_MS), 1);
	assert_int_equal(take_all(post.link[0]), 0);
	close_post(&post);
}

static void packets_for_a_process_that_never_was_are_counted(void **state)
{
	struct packet_path path = path_to("127.0.0.1", "127.0.0.1");
	struct post *post = open_post(2, false);

	for (unsigned i = 0; i < 20; i++)
		send_some(post, path, 3, 1, 100);
	while (lost(post->link[0], UDP_MISROUTED) + lost(post->link[1], UDP_MISROUTED) < 20)
		assert_int_equal(take_all(post->link[0]) + take_all(post->link[1]), 0);
	close_post(post);
}

static void the_second_group_is_told_who_has_the_port(void **state)
{
	struct post *post = open_post(1, false);
	struct udp_group *second;
	char text[300], who[50];

	assert_int_equal(udp_group_open(ROCE_PORT, MEMBERS, &second), -EADDRINUSE);
	prctl(PR_SET_NAME, "udp\033[2J\x9b");	/* no terminal gets this as it is */
	udp_port_holder(ROCE_PORT, text, sizeof(text));
	snprintf(who, sizeof(who), "process %d (udp?[2J?) of", (int)getpid());
	assert_non_null(strstr(text, who));
	assert_non_null(strstr(text, "UDP port 4791"));
	close_post(post);
	udp_port_holder(ROCE_PORT, text, sizeof(text));
	assert_non_null(strstr(text, "free"));
	assert_int_equal(udp_group_open(ROCE_PORT, MEMBERS, &second), 0);
	udp_group_close(second);
	assert_int_equal(udp_group_open(ROCE_PORT, 3, &second), -EINVAL);
}

/* So many are lost in the end, and nothing is received. */
static void drop_all(struct link *l, enum udp_loss cause, uint64_t packets)
{
	while (lost(l, cause) < packets)
		assert_int_equal(take_all(l), 0);
}

static void what_is_no_packet_is_counted(void **state)
{
	struct packet_path path = path_to("127.0.0.1", "127.0.0.1");
	static uint8_t junk[9000];
	struct post *post = open_post(MEMBERS, false);
	struct iovec payload;
	struct packet p = a_packet(path, 1, 0, &payload, 100);
	uint8_t frame[PACKET_MAX_BYTES];
	size_t bytes = packet_build(&p, frame, sizeof(frame));

	for (size_t n = 0; n < ROCE_UDP_LEAST; n++)
		send_bytes(junk, n);
	drop_all(post->link[0], UDP_MALFORMED, ROCE_UDP_LEAST);
	send_bytes(junk, ROCE_UDP_LEAST);
	drop_all(post->link[0], UDP_UNSOUND, 1);
	send_bytes(junk, sizeof(junk));
	drop_all(post->link[0], UDP_MALFORMED, ROCE_UDP_LEAST + 1);
	/* a frame that is built leaves by another port and is sound; one that is spoilt stays so */
	assert_true(post->link[0]->ops->send_frame(post->link[0], link_kind(0, PACKET_ROCE), frame, bytes));
	take(post->link[1], &p);
	frame[bytes - 10] ^= 1;
	assert_true(post->link[0]->ops->send_frame(post->link[0], link_kind(0, PACKET_ROCE), frame, bytes));
	drop_all(post->link[1], UDP_UNSOUND, 1);
	frame[0] ^= 0xff;
	assert_true(post->link[0]->ops->send_frame(post->link[0], link_kind(0, PACKET_ROCE), frame, bytes));
	assert_int_equal(lost(post->link[0], UDP_REFUSED), 1);
	close_post(post);
}

static void a_path_that_is_too_narrow_is_told(void **state)
{
	struct packet_path path = path_to("10.9.0.1", "10.9.0.2"), home = path_to("127.0.0.1", "127.0.0.1");
	struct post *post = open_post(MEMBERS, false);
	uint64_t calls;
	struct packet p;

	assert_int_equal(udp_path_mtu(path.sgid, path.dgid), 1500);
	assert_int_equal(udp_payload_mtu(1500), 1024);
	assert_int_equal(udp_payload_mtu(4200), 4096);
	assert_int_equal(udp_payload_mtu(4183), 2048);
	assert_int_equal(udp_payload_mtu(200), 0);
	assert_int_equal(send_some(post, path, 1, 1, 4096), 1);
	assert_int_equal(lost(post->link[0], UDP_TOO_BIG), 1);
	assert_int_equal(post->told, 1500);
	assert_int_equal(send_some(post, path, 1, 4, 4096), 4);
	assert_int_equal(lost(post->link[0], UDP_TOO_BIG), 5);
	assert_int_equal(post->tellings, 5);
	/* the last one is short enough; the kernel can cut all the same */
	assert_int_equal(send_and_end(post, path, 4, 4096, 100), 4);
	assert_int_equal(lost(post->link[0], UDP_TOO_BIG), 8);
	assert_int_equal(lost(post->link[0], UDP_REFUSED), 0);
	calls = udp_counts(post->link[0])->send_calls;
	send_some(post, home, 1, PACKETS, PAYLOAD);
	assert_int_equal(udp_counts(post->link[0])->send_calls, calls + 1);
	for (unsigned i = 0; i < PACKETS; i++) {
		take(post->link[1], &p);
		assert_int_equal(p.path.ip_id, i);	/* 0 where each is a datagram of its own */
	}
	close_post(post);
}

static void what_the_kernel_refuses_is_counted(void **state)
{
	struct packet_path nowhere = path_to("10.9.0.1", "192.0.2.1"), not_ours = path_to("192.0.2.1", "127.0.0.1");
	struct post *post = open_post(MEMBERS, false);

	assert_int_equal(send_some(post, nowhere, 1, 3, 100), 3);
	assert_int_equal(lost(post->link[0], UDP_REFUSED), 3);
	assert_int_equal(send_some(post, not_ours, 1, 1, 100), 1);
	assert_int_equal(lost(post->link[0], UDP_REFUSED), 4);
	assert_int_equal(udp_counts(post->link[0])->sent, 0);
	close_post(post);
}

/* The neighbour does not answer, so the kernel keeps what was sent until it is told where the neighbour is. */
static void what_no_socket_takes_waits(void **state)
{
	struct packet_path path = path_to("10.9.0.1", "10.9.0.3");
	struct post *post = open_post(MEMBERS, false);
	struct link *l = post->link[0];
	int small = 4096;
	unsigned n = 0;

	send_some(post, path_to("127.0.0.1", "127.0.0.1"), 1, 1, 100);	/* opens the lane */
	for (unsigned i = 0; i < UDP_LANES; i++)
		if (udp_of(l)->lane[i].fd >= 0)
			setsockopt(udp_of(l)->lane[i].fd, SOL_SOCKET, SO_SNDBUF, &small, sizeof(small));
	for (; l->ops->room(l) && n < 1000; n++)
		assert_int_equal(send_some(post, path, 1, 1, PAYLOAD), 1);
	assert_true(n && n < 1000);
	assert_int_equal(udp_counts(l)->sent, n);	/* and the one before: the last one waits */
	assert_int_equal(send_some(post, path, 1, PACKETS, PAYLOAD), PACKETS);
	assert_int_equal(send_some(post, path, 1, PACKETS, PAYLOAD), UDP_BACKLOG - 1 - PACKETS);
	l->ops->may_sleep(l, false);
	assert_int_equal(poll(&(struct pollfd){ l->event_fd, POLLIN, 0 }, 1, 0), 0);
	assert_int_equal(system("ip neigh replace 10.9.0.3 lladdr 02:00:00:00:00:09 dev v0"), 0);
	assert_int_equal(poll(&(struct pollfd){ l->event_fd, POLLIN, 0 }, 1, PATIENCE_MS), 1);
	while (!l->ops->room(l))
		;
	assert_int_equal(udp_counts(l)->sent, 1 + n + UDP_BACKLOG - 1);
	for (unsigned i = 0; i < UDP_LOSSES; i++)
		assert_int_equal(lost(l, i), 0);
	close_post(post);
}

/* The clock of the link: the kernel's, or one that goes on by STEP_NS with each reading, as system calls of some machines take
 * longer than what lies between two looks. */
static bool clock_is_ours;
static wtime our_time;

int clock_gettime(clockid_t id, struct timespec *t)
{
	if (!clock_is_ours)
		return (int)syscall(SYS_clock_gettime, id, t);
	our_time += STEP_NS;
	*t = (struct timespec){ our_time / WTIME_S, our_time % WTIME_S };
	return 0;
}

/* Switches choose among equal ways by the source port (A17.9.5): each flow keeps to its own, and other flows and other processes
 * of the peer's host have others. */
static void flows_leave_from_ports_of_their_own(void **state)
{
	enum { SLOTS = 2 };
	struct packet_path path = path_to("127.0.0.1", "127.0.0.1");
	struct post *post = open_post(MEMBERS, false);
	uint16_t port[SLOTS * ROCE_UDP_FLOWS] = { 0 };
	struct packet p;

	for (uint32_t slot = 1; slot <= SLOTS; slot++)
		for (unsigned n = 0; n < 4 * ROCE_UDP_FLOWS; n++) {
			uint16_t *at;

			path.udp_sport = (uint16_t)(0xc000 + 37 * n);
			at = &port[(slot - 1) * ROCE_UDP_FLOWS + roce_udp_flow(path.udp_sport)];
			send_some(post, path, slot, 1, PAYLOAD);
			take(post->link[slot % MEMBERS], &p);
			assert_true(p.path.udp_sport != 0);
			if (*at)
				assert_int_equal(p.path.udp_sport, *at);
			*at = p.path.udp_sport;
		}
	for (unsigned i = 0; i < SLOTS * ROCE_UDP_FLOWS; i++)
		for (unsigned j = 0; j <= i; j++)
			assert_true(i == j ? port[i] != 0 : port[i] != port[j]);
	close_post(post);
}

static void looks_in_vain_are_few(void **state)
{
	struct post *post = open_post(1, false);
	wtime begin = clock_now();
	unsigned kind, found = 0;
	size_t bytes;

	clock_is_ours = true;
	our_time = begin;
	for (unsigned i = 0; i < LOOKS; i++)
		found += post->link[0]->ops->receive(post->link[0], &kind, &bytes) != NULL;
	clock_is_ours = false;
	assert_int_equal(found, 0);
	assert_in_range(udp_counts(post->link[0])->receive_calls, 1, (our_time - begin) / UDP_LOOK_NS + 1);
	close_post(post);
}

static void a_sleeper_is_woken(void **state)
{
	struct packet_path path = path_to("127.0.0.1", "127.0.0.1");
	struct post *post = open_post(MEMBERS, false);
	struct link *l = post->link[1];
	struct pollfd fd = { l->event_fd, POLLIN, 0 };
	struct packet p;

	send_some(post, path, 1, 1, 100);
	await(l);
	assert_int_equal(poll(&fd, 1, 0), 0);	/* nobody sleeps */
	assert_false(l->ops->may_sleep(l, false));
	l->ops->awake(l);
	take(l, &p);
	assert_true(l->ops->may_sleep(l, false));
	assert_int_equal(poll(&fd, 1, 0), 0);
	send_some(post, path, 1, 1, 100);
	assert_int_equal(poll(&fd, 1, PATIENCE_MS), 1);
	l->ops->take_event(l);
	assert_int_equal(poll(&fd, 1, 0), 0);	/* told once */
	l->ops->awake(l);
	take(l, &p);
	close_post(post);
}

/* Nothing that arrived is pending before somebody looks, nor after it was taken. */
static void a_look_tells_of_what_arrived(void **state)
{
	struct packet_path path = path_to("127.0.0.1", "127.0.0.1");
	struct post *post = open_post(MEMBERS, false);
	struct link *l = post->link[1];
	struct packet p;

	assert_false(link_pending(l));
	send_some(post, path, 1, 1, 100);
	while (!link_pending(l))
		l->ops->look(l);
	take(l, &p);
	while (next(l, &p))
		;
	assert_false(link_pending(l));
	close_post(post);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_packet_goes_to_the_process_of_its_slot),
		cmocka_unit_test(packets_of_one_length_leave_in_one_call),
		cmocka_unit_test(packets_of_several_lengths_leave_in_one_call),
		cmocka_unit_test(packets_for_a_process_that_is_gone_die_and_are_counted),
		cmocka_unit_test(whoever_stays_gets_its_packets_when_the_owner_has_gone),
		cmocka_unit_test(a_message_of_a_group_goes_to_its_only_member),
		cmocka_unit_test(packets_for_a_process_that_never_was_are_counted),
		cmocka_unit_test(the_second_group_is_told_who_has_the_port),
		cmocka_unit_test(what_is_no_packet_is_counted),
		cmocka_unit_test(a_path_that_is_too_narrow_is_told),
		cmocka_unit_test(what_the_kernel_refuses_is_counted),
		cmocka_unit_test(what_no_socket_takes_waits),
		cmocka_unit_test(flows_leave_from_ports_of_their_own), cmocka_unit_test(looks_in_vain_are_few),
		cmocka_unit_test(a_sleeper_is_woken),
		cmocka_unit_test(a_look_tells_of_what_arrived),
	};

	alarm(100);
	for (unsigned i = 0; i < sizeof(memory); i++)
		memory[i] = (uint8_t)(i * 5 + i / 256);
	network_enter();
	network_run("ip link add v0 type veth peer name v1 && ip link set v0 mtu 1500 && ip addr add 10.9.0.1/24 dev v0 && "
		    "ip link set v1 up && ip link set v0 up");
	network_run("echo 1 >/proc/sys/net/ipv4/conf/v1/accept_local && echo 0 >/proc/sys/net/ipv4/conf/v1/rp_filter && "
		    "echo 0 >/proc/sys/net/ipv4/conf/all/rp_filter");
	return cmocka_run_group_tests(tests, NULL, NULL);
}
