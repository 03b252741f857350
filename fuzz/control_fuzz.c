/* weftd's hub with a transport of ours: up to eight clients come, say whatever the input makes them say, stall and leave.
 * The books must balance again and again: slots, groups and counts; at the end nothing may be left. */
#include "fuzz.h"

#include "control/message.h"
#include "mgmt/gmp.h"
#include "weftd/hub.h"
#include "weftd/page.h"
#include "weftd/umad.h"
#include "wire/cm.h"
#include "wire/field.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

enum { CLIENTS = 8, STEPS = 400, CHECK_EVERY = 16 };	/* a check goes through all slots and groups */

static struct {
	struct hub hub;
	struct client *client[CLIENTS];		/* NULL: not there */
	bool is_dropped[CLIENTS], is_stalled[CLIENTS];
	wtime now;
} world;

static int event_fd = -1, sockets[2];
static struct fabric_page *page;
static struct state state;

static int index_of(const struct client *c)
{
	for (int i = 0; i < CLIENTS; i++) {
		if (world.client[i] == c)
			return i;
	}
	abort();
}

static bool send_nowhere(struct hub *h, struct client *c, const struct control_msg *msg, const char *text,
			 const int *fds, int nfds)
{
	int i = index_of(c);

	(void)h;
	assert(msg->type >= CTL_HELLO && msg->type <= CTL_BAD_KEY);
	assert(msg->text_bytes <= CONTROL_TEXT && (!msg->text_bytes || text));
	for (int k = 0; k < nfds; k++)
		assert(fds[k] >= 0);
	if (world.is_dropped[i])
		return false;
	if (world.is_stalled[i] && !msg->seq)
		world.is_dropped[i] = true;
	return !world.is_dropped[i];
}

static bool has_room(struct hub *h, const struct client *c)
{
	(void)h;
	return !world.is_stalled[index_of(c)];
}

static void drop(struct hub *h, struct client *c, const char *why)
{
	(void)h;
	assert(why && *why);
	world.is_dropped[index_of(c)] = true;
}

static const struct hub_ops ops = { .send = send_nowhere, .has_room = has_room, .drop = drop };

static void come(int i)
{
	enum control_limit limit;

	if (world.client[i])
		return;
	world.client[i] = calloc(1, sizeof(struct client));
	world.client[i]->pid = 1000000000 + i;	/* above the kernel's PID_MAX_LIMIT, 2^22 */
	world.client[i]->uid = i & 1 ? geteuid() : 12345;
	world.is_dropped[i] = world.is_stalled[i] = false;
	if (hub_join(&world.hub, world.client[i], &limit))
		abort();
}

static void go(int i)
{
	struct client *c = world.client[i];

	if (!c)
		return;
	hub_leave(&world.hub, c);
	world.client[i] = NULL;
	free(c);
}

/* Who was dropped goes before it can say more, as the transport has it. */
static void reap(void)
{
	for (bool again = true; again;) {
		again = false;
		for (int i = 0; i < CLIENTS; i++) {
			if (world.client[i] && world.is_dropped[i]) {
				go(i);
				again = true;
			}
		}
	}
}

/* 0: there is none. */
static uint32_t first_awaited(void)
{
	for (uint32_t i = 1; i < PAGE_SLOTS; i++) {
		if (state.claims->slot[i].first == i && !world.hub.slot_owner[i])
			return i;
	}
	return 0;
}

/* A MAD of the input's from QP1 to QP1 of a port: ids of clients, services as speak has them, now and then a byte of the frame
 * changed. */
static void say_mad(struct input *in, int i)
{
	const struct client *c = world.client[i], *other = world.client[take_byte(in) % CLIENTS];
	uint8_t what = take_byte(in), attribute = take_byte(in);
	struct control_msg msg = { .type = CTL_FRAME, .seq = what & 1, .device = what >> 1 & 1 };
	const struct page_device *dev = &state.page->device[msg.device];
	struct gmp gmp = { .pkey = 0xffff, .path = { .slid = dev->lid, .dlid = dev->lid, .has_grh = msg.device || what & 4 } };
	uint32_t theirs = other ? other->slot << 20 : 0;
	uint8_t frame[GMP_FRAME];

	memcpy(gmp.mad, (uint8_t[4]){ MAD_BASE_VERSION, MAD_CLASS_CM, CM_CLASS_VERSION, MAD_SEND }, 4);
	gmp.mad[17] = (uint8_t)(CM_REQ + attribute % 12);
	for (int k = MAD_HEADER_BYTES; k < MAD_HEADER_BYTES + 16; k++)
		gmp.mad[k] = take_byte(in);
	wire_put(gmp.mad + MAD_HEADER_BYTES, (what & 8 ? theirs : c->slot << 20) | attribute, 0, 0, 32);
	if (gmp.mad[17] != CM_REQ)
		wire_put(gmp.mad + MAD_HEADER_BYTES, what & 16 ? theirs : 0, 4, 0, 32);
	else
		wire_put(gmp.mad + MAD_HEADER_BYTES, (what & 16 ? 0x1060000u : 0x1110000u) + attribute % 8, 8, 0, 64);
	memcpy(gmp.path.sgid, dev->gid[0].raw, 16);
	memcpy(gmp.path.dgid, dev->gid[what & 32 ? 1 : 0].raw, 16);
	msg.text_bytes = (uint32_t)gmp_build(&gmp, msg.device ? PACKET_ROCE : PACKET_IB, frame);
	if (what & 64)
		frame[take_byte(in) % msg.text_bytes] ^= take_byte(in);
	hub_input(&world.hub, world.client[i], world.now, &msg, (const char *)frame, NULL, 0);
}

/* What a program says that has opened a port for datagrams: it says so, registers an agent, sends pieces of datagrams. Nobody is
 * behind the port, as there is no fabric. */
static void say_umad(struct input *in, int i)
{
	uint8_t what = take_byte(in);
	struct control_msg msg = { .type = CTL_MAD_PORT + what % 3, .seq = 1, .device = what >> 2 & 1, .a = what >> 3 & 1 };
	struct control_agent agent = { .mgmt_class = take_byte(in), .class_version = 1, .rmpp_version = what >> 4 & 1,
				       .methods = { take_byte(in) } };
	uint8_t text[sizeof(struct control_mad) + 512] = { 0 };
	struct control_mad head = { .agent = what >> 5 & 1, .timeout_ms = take_byte(in), .retries = take_byte(in) % 3,
				    .total = (uint32_t)take(in, 2), .at = (uint32_t)take(in, 2) };
	struct mad_file *f = list_first_entry(&world.hub.mads.files, struct mad_file, node);

	if (msg.type == CTL_MAD_AGENT) {
		if (f)
			umad_secret(f, msg.gid);
		memcpy(text, &agent, sizeof(agent));
		msg.text_bytes = sizeof(agent);
	} else if (msg.type == CTL_MAD) {
		memcpy(text, &head, sizeof(head));
		for (size_t k = sizeof(head); k < sizeof(head) + 40; k++)
			text[k] = take_byte(in);
		msg.text_bytes = (uint32_t)sizeof(head) + (uint32_t)take(in, 2) % 512;
	}
	hub_input(&world.hub, world.client[i], world.now, &msg, (const char *)text, NULL, 0);
}

/* A message that means something: addresses, services and texts from small sets, so that clients meet. */
static void speak(struct input *in, int i)
{
	static const char *const texts[] = { "qp", "mr", "counters", "[1, {\"a\": 2}]", "{\"", "\xff\xfe", "" };
	struct control_msg msg = { .type = take_byte(in) % (CTL_MAD_AGENT + 3), .seq = take_byte(in) % 3 };
	const struct client *other = world.client[take_byte(in) % CLIENTS];
	uint8_t what = take_byte(in);
	const char *text = what & 1 ? texts[take_byte(in) % 7] : "";

	if (msg.type == CTL_FRAME) {
		say_mad(in, i);
		return;
	}
	if (msg.type >= CTL_MAD_PORT && msg.type <= CTL_MAD_AGENT) {
		say_umad(in, i);
		return;
	}
	msg.slot = what & 2 && other ? other->slot : take_byte(in);
	msg.a = take_byte(in) % 5;
	msg.b = what & 4 ? take_byte(in) : CONTROL_VERSION;
	msg.device = take_byte(in) % 3;
	msg.service = (what & 8 ? 0x1060000u : 0x1110000u) + take_byte(in) % 8;
	msg.gid[0] = what & 16 ? 0xff : 0;
	msg.gid[15] = take_byte(in) % 4;
	msg.dgid[15] = what & 32 ? msg.gid[15] : 0;
	msg.text_bytes = (uint32_t)strlen(text);
	if (msg.type == CTL_HELLO && msg.a == CONTROL_RETURN && what & 64) {
		msg.slot = first_awaited();
		memcpy(msg.gid, state.claims->slot[msg.slot].secret, sizeof(msg.gid));
	}
	if (msg.type == CTL_REPORT && what & 64)
		msg.seq = world.hub.report_seq;
	hub_input(&world.hub, world.client[i], world.now, &msg, text, &event_fd, what >> 7 || msg.type == CTL_HELLO);
}

/* Bytes as they come, through a socket and the parser. */
static void babble(struct input *in, int i)
{
	static char text[CONTROL_TEXT + 1];
	size_t bytes = (size_t)take_byte(in) * 4;
	int fds[CONTROL_FDS], nfds = 0;
	struct control_msg msg;
	int err;

	bytes = bytes > (size_t)(in->end - in->at) ? (size_t)(in->end - in->at) : bytes;
	if (!bytes || send(sockets[0], in->at, bytes, MSG_DONTWAIT) < 0)
		return;
	in->at += bytes;
	err = message_receive(sockets[1], &msg, text, sizeof(text), fds, &nfds, MSG_DONTWAIT);
	if (err)
		world.is_dropped[i] = true;
	else
		hub_input(&world.hub, world.client[i], world.now, &msg, text, fds, nfds);
}

static void check_clients(void)
{
	uint32_t slots = 0, processes = 0, leases = 0, count = 0, channels = 0, awaited = 0, owned[CLIENTS] = { 0 };

	for (uint32_t i = 0; i < PAGE_SLOTS; i++) {
		assert(page->slot_generation[i] % 2 == (state.claims->slot[i].first != 0));
		if (world.hub.slot_owner[i])
			owned[index_of(world.hub.slot_owner[i])]++;
		else
			awaited += state.claims->slot[i].first != 0;
	}
	list_for_each(c, &world.hub.clients, struct client, node) {
		assert(owned[index_of(c)] == c->slots && c->slots <= QUOTA_SLOTS);
		assert((c->kind == CLIENT_PROCESS) == (c->slot != 0) && (c->slot != 0) == (c->wake_fd >= 0));
		assert(c->channels <= QUOTA_CHANNELS && c->group_count <= QUOTA_GROUPS);
		slots += c->slots;
		channels += c->channels;
		processes += c->kind == CLIENT_PROCESS;
		leases += c->kind == CLIENT_LEASE;
		count++;
	}
	assert(awaited == world.hub.awaited && slots + awaited == world.hub.slots_used && processes == world.hub.process_count);
	assert(leases == world.hub.lease_count && count == world.hub.client_count);
	assert(channels == 2 * world.hub.channel_count);
}

static void check_page(void)
{
	assert(page->generation % 2 == 0);
	for (int g = 0; g < PAGE_GROUPS; g++) {
		bool has_member = false;

		for (uint32_t i = 0; page->group[g].used && i < PAGE_SLOTS; i++) {
			if (!(page->group[g].slots[i / 64] >> i % 64 & 1))
				continue;
			has_member = true;
			assert(state.claims->slot[i].first == i);
			assert(!world.hub.slot_owner[i] || world.hub.slot_owner[i]->joined[g]);
		}
		assert(!page->group[g].used || has_member);
	}
}

/* weftd is killed: its clients are gone, and the next takes the state over. */
static void restart(void)
{
	hub_close(&world.hub);
	for (int i = 0; i < CLIENTS; i++)
		go(i);
	world.now += WTIME_S;
	hub_init(&world.hub, &ops, &state, world.now);
}

static void step(struct input *in)
{
	uint8_t op = take_byte(in);
	int i = op % CLIENTS;

	switch (op / CLIENTS % 8) {
	case 0:
		come(i);
		break;
	case 1:
		go(i);
		break;
	case 2:
		world.now += (wtime)take_byte(in) * 10 * WTIME_MS;
		hub_expire(&world.hub, world.now);
		assert(hub_deadline(&world.hub) > world.now);
		break;
	case 7:
		restart();
		break;
	case 3:
		world.is_stalled[i] = !world.is_stalled[i];
		break;
	case 4:
		if (world.client[i])
			babble(in, i);
		break;
	default:
		come(i);
		speak(in, i);
		break;
	}
	reap();
}

static void check_empty(void)
{
	assert(!world.hub.client_count && !world.hub.process_count && !world.hub.slots_used && !world.hub.channel_count);
	assert(list_empty(&world.hub.accounts));
	assert(!world.hub.report_count && list_empty(&world.hub.reports) && list_empty(&world.hub.clients));
	assert(list_empty(&world.hub.mads.files) && !world.hub.mads.requests.count);
	assert(!world.hub.listeners.count && !world.hub.tallies.count && !world.hub.ports.count);
	for (int i = 0; i < PORT_SPACES * PORT_WORDS; i++)
		assert(!world.hub.ports_used[i / PORT_WORDS][i % PORT_WORDS]);
}

static void set_up_once(void)
{
	if (page)
		return;
	page = calloc(1, sizeof(*page));
	event_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	state = (struct state){ .page = page, .claims = calloc(1, sizeof(struct claims)), .page_fd = event_fd };
	if (!page || !state.claims || event_fd < 0 || socketpair(AF_UNIX, SOCK_SEQPACKET, 0, sockets))
		abort();
	page_set_devices(page, &control_default, 0x0200000000000100);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
	struct input in = { data, data + bytes };

	set_up_once();
	world.now = 1;
	hub_init(&world.hub, &ops, &state, world.now);
	for (int i = 0; i < STEPS && in.at < in.end; i++) {
		step(&in);
		if (i % CHECK_EVERY)
			continue;
		check_clients();
		check_page();
	}
	check_clients();
	for (int i = 0; i < CLIENTS; i++)
		go(i);
	/* the pids are of nobody: all who have not come back are gone by then */
	hub_expire(&world.hub, world.now + 60 * WTIME_S);
	check_page();
	check_empty();
	hub_close(&world.hub);
	return 0;
}
