/* What weftd's QP1 reads off the wire: any bytes as a frame, or a sound frame of a CM message or a ping whose fields the input
 * chooses. A process gets exactly the frames that are passed, as they came, and none that says it is from this host. An answer is
 * no longer than its question, goes back to who asked, and what a ping says of its version is fit for a terminal. */
#include "fuzz.h"

#include "link/link.h"
#include "mgmt/cm.h"
#include "mgmt/ping.h"
#include "weftd/page.h"
#include "weftd/qp1.h"
#include "wire/addr.h"
#include "wire/field.h"

#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

enum { FRAMES = 64, DEVICE = 1 };

static const uint64_t service = 0x1060000 | 7000;
static const uint8_t here[16] = { [10] = 0xff, 0xff, 10, 0, 0, 1 };

static struct hub hub;
static struct client listener, idler;
static struct link wire;
static unsigned passed, told, answered;
static const uint8_t *expected;
static size_t expected_bytes;

static bool send_to(struct hub *h, struct client *c, const struct control_msg *msg, const char *text, const int *fds, int nfds)
{
	(void)h;
	if (msg->type == CTL_PING) {
		for (uint32_t i = 0; i < msg->text_bytes; i++)
			REQUIRE(text[i] >= ' ' && text[i] <= '~');
		REQUIRE(msg->text_bytes < PING_VERSION && msg->b == hub.pings.asked[0].bytes);
		told++;
	}
	if (msg->type != CTL_FRAME)
		return true;
	REQUIRE(c->has_socket && msg->device == DEVICE);
	REQUIRE(msg->text_bytes == expected_bytes && !memcmp(text, expected, expected_bytes));
	passed++;
	return true;
}

static bool has_room(struct hub *h, const struct client *c)
{
	return true;
}

static void drop(struct hub *h, struct client *c, const char *why)
{
	abort();
}

static int watch(struct hub *h, int fd)
{
	return 0;
}

static bool send_frame(struct link *l, unsigned kind, const void *frame, size_t bytes)
{
	struct packet_path asked, answer;
	size_t header;

	(void)l;
	(void)kind;
	REQUIRE(!packet_parse_path(&asked, expected, expected_bytes, &header));
	REQUIRE(!packet_parse_path(&answer, frame, bytes, &header));
	REQUIRE(bytes <= expected_bytes && !memcmp(asked.sgid, answer.dgid, 16) && !memcmp(asked.dgid, answer.sgid, 16));
	answered++;
	return true;
}

static const struct link_ops link_ops = { .send_frame = send_frame };

static const struct hub_ops ops = { .send = send_to, .has_room = has_room, .watch = watch, .drop = drop };

static void attach(struct client *c, int fd)
{
	struct control_msg hello = { .type = CTL_HELLO, .a = CONTROL_PROCESS, .b = CONTROL_VERSION };
	enum control_limit limit;

	c->pid = 1000000000;
	c->uid = geteuid();
	REQUIRE(!hub_join(&hub, c, &limit));
	hub_input(&hub, c, 1, &hello, "", &fd, 1);
	REQUIRE(c->slot);
}

static void set_up_once(void)
{
	static const struct page_address address = { .raw = { [10] = 0xff, 0xff, 10, 0, 0, 1 }, .ifindex = 2, .ifname = "d0" };
	struct control_msg listens = { .type = CTL_LISTEN, .service = service };
	static struct state state;
	int fd;

	if (state.page)
		return;
	fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	state = (struct state){ .page = calloc(1, sizeof(*state.page)), .claims = calloc(1, sizeof(*state.claims)),
				.page_fd = fd };
	REQUIRE(state.page && state.claims && fd >= 0);
	page_set_devices(state.page, &control_default, 0x0200000000000100);
	page_set_addresses(state.page, &address, 1);
	hub_init(&hub, &ops, &state, 1);
	attach(&listener, fd);
	attach(&idler, fd);
	hub_input(&hub, &listener, 1, &listens, "", NULL, 0);
	REQUIRE(listener.listener_count == 1);
	listener.has_socket = true;	/* the other one cannot answer */
	wire.ops = &link_ops;
	hub.roce.link = &wire;
}

/* Ids of both processes and of nobody, and an address of this host or of others. */
static size_t build(struct input *in, uint8_t frame[GMP_FRAME])
{
	const uint32_t ids[] = { listener.slot << 20 | 1, idler.slot << 20 | 1, 77, 0 };
	struct gmp gmp = { .device = DEVICE, .pkey = 0xffff, .path = { .has_grh = true, .hop_limit = 64 } };
	uint8_t what = take_byte(in), attribute = take_byte(in) % 12;
	size_t bytes;

	memcpy(gmp.path.dgid, here, 16);
	memcpy(gmp.path.sgid, here, 16);
	gmp.path.sgid[15] = take_byte(in) % 4;
	gmp.path.dgid[15] ^= what >> 7;
	memcpy(gmp.mad, (uint8_t[4]){ MAD_BASE_VERSION, MAD_CLASS_CM, CM_CLASS_VERSION, MAD_SEND }, 4);
	gmp.mad[17] = (uint8_t)(CM_REQ + attribute);
	for (int k = MAD_HEADER_BYTES; k < MAD_HEADER_BYTES + 24; k++)
		gmp.mad[k] = take_byte(in);
	wire_put(gmp.mad + MAD_HEADER_BYTES, ids[what & 3], 0, 0, 32);
	if (gmp.mad[17] == CM_REQ)
		wire_put(gmp.mad + MAD_HEADER_BYTES, service + (what >> 2 & 1), 8, 0, 64);
	else
		wire_put(gmp.mad + MAD_HEADER_BYTES, ids[what >> 2 & 3], 4, 0, 32);
	bytes = gmp_build(&gmp, PACKET_ROCE, frame);
	if (what & 64)
		frame[take_byte(in) % bytes] ^= take_byte(in);
	return bytes;
}

/* One question of ours is open: the input may answer it. */
static size_t build_ping(struct input *in, uint8_t frame[PING_FRAME])
{
	uint8_t what = take_byte(in);
	struct ping ping = {
		.path = { .has_grh = true, .hop_limit = 64 }, .pkey = what & 1 ? 0xffff : 0x7fff, .is_answer = what & 2,
		.tid = what & 4 ? 5 : take_byte(in), .bytes = PING_LEAST + (what & 8 ? take_byte(in) * 16u : 0),
	};
	uint8_t other[PING_FRAME];
	struct packet p;

	if (ping.bytes > PING_MOST)
		ping.bytes = PING_MOST;
	hub.pings.asked[0] = (struct ping_asked){ .client = &listener, .tid = 5, .bytes = PING_LEAST };
	memcpy(hub.pings.asked[0].gid, here, 16);
	hub.pings.asked[0].gid[15] ^= 3;
	memcpy(ping.path.dgid, here, 16);
	memcpy(ping.path.sgid, here, 16);
	ping.path.sgid[15] ^= take_byte(in) % 4;
	ping.path.dgid[15] ^= what >> 7;
	for (int i = 0; i < PING_VERSION - 1; i++)
		ping.version[i] = (char)take_byte(in);
	/* what a ping of ours never says, with a right ICRC */
	REQUIRE(!packet_parse(&p, PACKET_ROCE, other, ping_build(&ping, other), true));
	if (what & 64)
		((uint8_t *)p.payload->iov_base)[take_byte(in)] ^= take_byte(in);
	return packet_build(&p, frame, PING_FRAME);
}

static void check(const uint8_t *frame, size_t bytes)
{
	unsigned before = passed;
	struct packet_path path;
	enum qp1_fate fate;
	size_t header;

	expected = frame;
	expected_bytes = bytes;
	told = answered = 0;
	fate = qp1_input_wire(&hub, frame, bytes);
	REQUIRE(fate < QP1_FATES);
	REQUIRE(passed + told == before + (fate == QP1_PASSED));
	REQUIRE(answered == (fate == QP1_ANSWERED));
	if (fate == QP1_PASSED) {
		REQUIRE(!packet_parse_path(&path, frame, bytes, &header));
		REQUIRE(memcmp(path.sgid, here, 16) && !memcmp(path.dgid, here, 16));
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct input in = { data, data + size };
	uint8_t frame[PING_FRAME];

	set_up_once();
	if (size && data[0] & 1) {
		check(data + 1, size - 1);
		return 0;
	}
	in.at += size != 0;
	hub.now += WTIME_S;
	for (int i = 0; i < FRAMES && in.at < in.end; i++)
		check(frame, data[0] & 2 ? build_ping(&in, frame) : build(&in, frame));
	return 0;
}
