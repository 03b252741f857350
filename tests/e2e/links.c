/* The pump and the helper thread drive a link that is no channel's: a link of this test is added to a process's, and what is sent
 * to one address takes it. Needs WEFT_DIR of a running weftd. Exit 0: all of it. With WEFT_IMPAIR frames pass the stage. */
#include "attach.h"

#include "link/link.h"
#include "peers/route.h"
#include "runtime/cm.h"
#include "runtime/entry.h"
#include "runtime/helper.h"
#include "runtime/pump.h"
#include "runtime/state.h"
#include "verbs/cq.h"
#include "verbs/mr.h"
#include "verbs/pd.h"
#include "verbs/qp.h"
#include "wire/addr.h"

#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <sys/eventfd.h>

enum { DEPTH = 64, BYTES = 256, QKEY = 0x1234, REMOTE_QPN = 0xabcdef, STORED = 16, POLLS = 800, PATIENCE_S = 60 };

/* What the link was told. */
struct told {
	unsigned sends, longest, packets, frames, flushes, releases, own_looks, sleeps, events;
	uint32_t dest_qpn;	/* of the last that was sent */
	bool is_borrowed;	/* the last payload was the program's */
};

/* And what it has to tell. Under the host's lock. */
static struct fake {
	struct link link;
	_Atomic uint32_t arrival;
	unsigned room;
	struct told told;
	unsigned first, count;	/* frames that receive hands out, */
	unsigned by_look, by_event;	/* and those that this brings to light */
	struct {
		size_t bytes;
		uint8_t frame[1024];
	} in[STORED];
} fake;

static struct end {
	struct runtime *rt;
	struct ca_device *dev;
	struct pd *pd;
	struct cq *cq;
	struct mr *mr;
	struct qp *qp;
	struct ah ah;
	uint8_t memory[BYTES];
} end;

static pthread_t program;
static struct ca_ops ops;

/* ---- the link ---- */

static unsigned fake_room(struct link *l)
{
	(void)l;
	return fake.room;
}

static unsigned fake_send(struct link *l, unsigned device, const struct packet *const p[], unsigned n)
{
	unsigned taken = l->broken ? 0 : n < fake.room ? n : fake.room;

	if (device != end.dev->index)
		die("a packet of another device");
	fake.told.sends++;
	fake.told.packets += taken;
	fake.told.longest = n > fake.told.longest ? n : fake.told.longest;
	fake.told.dest_qpn = p[0]->dest_qpn;
	fake.told.is_borrowed = (uintptr_t)p[0]->payload->iov_base - (uintptr_t)end.memory < BYTES;
	return taken;
}

static bool fake_send_frame(struct link *l, unsigned kind, const void *frame, size_t bytes)
{
	struct packet p;

	if (l->broken)
		return false;
	if (kind != link_kind(end.dev->index, PACKET_ROCE) || packet_parse(&p, PACKET_ROCE, frame, bytes, true) != PACKET_OK)
		die("a frame of another device, or a spoilt one");
	fake.told.frames++;
	fake.told.packets++;
	fake.told.dest_qpn = p.dest_qpn;
	return true;
}

static void fake_flush(struct link *l)
{
	(void)l;
	fake.told.flushes++;
}

static const void *fake_receive(struct link *l, unsigned *kind, size_t *bytes)
{
	unsigned at = fake.first;

	(void)l;
	if (!fake.count)
		return NULL;
	fake.first = (fake.first + 1) % STORED;
	fake.arrival = --fake.count;
	*kind = link_kind(end.dev->index, PACKET_ROCE);
	*bytes = fake.in[at].bytes;
	return fake.in[at].frame;
}

static void fake_release(struct link *l)
{
	(void)l;
	fake.told.releases++;
}

static void reveal(unsigned *hidden)
{
	fake.arrival = fake.count += *hidden;
	*hidden = 0;
}

static void fake_look(struct link *l)
{
	(void)l;
	fake.told.own_looks += pthread_equal(pthread_self(), program);
	reveal(&fake.by_look);
}

static bool fake_may_sleep(struct link *l, bool by_futex)
{
	(void)l, (void)by_futex;
	fake.told.sleeps++;
	return !fake.count;
}

static void fake_awake(struct link *l)
{
	(void)l;
}

static void fake_take_event(struct link *l)
{
	uint64_t value;

	eventfd_read(l->event_fd, &value);
	fake.told.events++;
	reveal(&fake.by_event);
}

static const struct link_ops fake_ops = {
	.name = "fake", .room = fake_room, .send = fake_send, .send_frame = fake_send_frame, .flush = fake_flush,
	.receive = fake_receive, .release = fake_release, .look = fake_look, .may_sleep = fake_may_sleep, .awake = fake_awake,
	.take_event = fake_take_event, .close = fake_awake, .forget = fake_awake,
};

/* A datagram from this address to the QP. */
static size_t build(const uint8_t from[16], uint32_t src_qpn, uint8_t *frame, size_t room)
{
	struct iovec payload = { (void *)(uintptr_t)"arrives", 8 };
	struct packet p = {
		.form = PACKET_ROCE, .opcode = OPCODE_UD_SEND_ONLY, .pkey = 0xffff, .dest_qpn = end.qp->qpn,
		.deth = { QKEY, src_qpn }, .payload = &payload, .payload_iovs = 1, .payload_bytes = 8,
		.path = { .has_grh = true, .hop_limit = 64, .udp_sport = 0xc000 },
	};

	memcpy(p.path.sgid, from, 16);
	memcpy(p.path.dgid, end.dev->gid[end.ah.av.sgid_index].raw, 16);
	p.path.is_ipv4 = gid_is_ipv4(p.path.dgid);
	return packet_build(&p, frame, room);
}

/* hidden: what brings it to light; NULL: nothing needs to. */
static void arrive(const uint8_t from[16], uint32_t src_qpn, unsigned *hidden)
{
	unsigned at = (fake.first + fake.count + fake.by_look + fake.by_event) % STORED;

	runtime_enter_briefly(end.rt);
	fake.in[at].bytes = build(from, src_qpn, fake.in[at].frame, sizeof(fake.in[at].frame));
	if (hidden)
		++*hidden;
	else
		fake.arrival = ++fake.count;
	if (hidden == &fake.by_event || !list_linked(&fake.link.watched))
		eventfd_write(fake.link.event_fd, 1);
	runtime_leave(end.rt);
}

/* ---- the program ---- */

static void route(void *owner, const struct ca_device *dev, const struct packet_path *path, struct route *r)
{
	runtime_ca_ops.route(owner, dev, path, r);
	if (dev != end.dev || memcmp(path->dgid, end.ah.av.dgid, 16) != 0)
		return;
	r->kind = ROUTE_LINK;
	r->place = &fake.link;
}

static struct ca_device *roce_device(struct ca *ca)
{
	for (int i = 0; i < ca->devices; i++)
		if (ca->dev[i].protocol->form == PACKET_ROCE)
			return &ca->dev[i];
	die("no RoCE device");
	return NULL;
}

/* Not ours, and of the family of one of ours. */
static void make_address(void)
{
	struct ibv_ah_attr attr = { .port_num = 1, .is_global = 1, .grh.hop_limit = 64 };

	while (!end.dev->gid[attr.grh.sgid_index].valid)
		attr.grh.sgid_index++;
	memcpy(attr.grh.dgid.raw, end.dev->gid[attr.grh.sgid_index].raw, 16);
	attr.grh.dgid.raw[15] ^= 0x55;
	end.ah.pd = end.pd;
	check(av_from_attr(end.dev, &attr, &end.ah.av), "address");
}

static void make_qp(wtime now)
{
	static const enum ibv_qp_state states[] = { IBV_QPS_INIT, IBV_QPS_RTR, IBV_QPS_RTS };
	static const int masks[] = { IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_QKEY, 0, IBV_QP_SQ_PSN };
	struct ibv_qp_init_attr_ex init = { .qp_type = IBV_QPT_UD, .cap = { DEPTH, DEPTH, 1, 1, 0 }, .sq_sig_all = 1 };
	struct ca *ca = &end.rt->ca;

	check(qp_create(ca, end.dev, &init, end.pd, end.cq, end.cq, NULL, NULL, &end.qp), "qp");
	for (int i = 0; i < 3; i++) {
		struct ibv_qp_attr attr = { .qp_state = states[i], .port_num = 1, .qkey = QKEY };

		check(qp_modify(end.qp, now, &attr, IBV_QP_STATE | masks[i]), "connect");
	}
}

static void open_end(void)
{
	struct ca *ca;
	wtime now;

	end.rt = attach();
	ca = &end.rt->ca;
	end.dev = roce_device(ca);
	fake.room = DEPTH;
	fake.link = (struct link){ .ops = &fake_ops, .arrival = &fake.arrival, .origin = ORIGIN_NETWORK };
	fake.link.event_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	now = runtime_enter(end.rt);
	check(pd_create(ca, end.dev, &end.pd), "pd");
	check(cq_create(ca, end.dev, 2 * DEPTH, &end.cq), "cq");
	check(mr_create(end.pd, end.memory, BYTES, (uintptr_t)end.memory, IBV_ACCESS_LOCAL_WRITE, &end.mr), "mr");
	make_address();
	make_qp(now);
	/* this host has no other way to others */
	end.rt->peers.roce = (struct roce_socket){ .state = ROCE_SOCKET_REFUSED, .is_told = true, .ask_at = WTIME_NEVER };
	ops = runtime_ca_ops;
	ops.route = route;
	ca->ops = &ops;
	check(links_add(&end.rt->peers.links, &fake.link), "add a link");
	runtime_leave(end.rt);
}

static void post_sends(unsigned n)
{
	struct ibv_sge sge = { (uintptr_t)end.memory, 64, end.mr->key };
	struct ibv_send_wr wr[DEPTH], *bad;
	wtime now;

	for (unsigned i = 0; i < n; i++)
		wr[i] = (struct ibv_send_wr){ .sg_list = &sge, .num_sge = 1, .opcode = IBV_WR_SEND, .next = &wr[i + 1],
					      .wr.ud = { &end.ah.ibv, REMOTE_QPN, QKEY } };
	wr[n - 1].next = NULL;
	now = runtime_enter(end.rt);
	check(qp_post_send(end.qp, now, wr, &bad), "post");
	runtime_leave(end.rt);
}

static void post_recv(void)
{
	struct ibv_sge sge = { (uintptr_t)end.memory, BYTES, end.mr->key };
	struct ibv_recv_wr wr = { .sg_list = &sge, .num_sge = 1 };
	const struct ibv_recv_wr *bad;
	wtime now = runtime_enter(end.rt);

	check(qp_post_recv(end.qp, now, &wr, &bad), "post a receive");
	runtime_leave(end.rt);
}

/* Completions of one look at the CQ; only a poll takes in what arrived. */
static unsigned look(bool polls)
{
	struct cqe cqe;
	unsigned n = 0;

	if (polls)
		runtime_enter_poll(end.rt);
	else
		runtime_enter_briefly(end.rt);
	for (; cq_poll(end.cq, &cqe); n++)
		check(cqe.status != IBV_WC_SUCCESS, "a completion");
	runtime_leave(end.rt);
	return n;
}

static void complete(unsigned n, bool polls)
{
	while (n) {
		unsigned done = look(polls);

		if (done > n)
			die("too many completions");
		n -= done;
		if (!done)
			sched_yield();
	}
}

static struct told read_told(void)
{
	struct told told;

	runtime_enter_briefly(end.rt);
	told = fake.told;
	runtime_leave(end.rt);
	return told;
}

static struct counters read_counters(void)
{
	struct counters counters;

	runtime_enter_briefly(end.rt);
	counters = end.rt->ca.counters;
	runtime_leave(end.rt);
	return counters;
}

static void set_room(unsigned room)
{
	runtime_enter_briefly(end.rt);
	fake.room = room;
	runtime_leave(end.rt);
}

/* How many links' room is waited for. */
static unsigned waiting(void)
{
	unsigned n;

	runtime_enter_briefly(end.rt);
	n = end.rt->peers.links.waiting;
	if (n != fake.link.waiting)
		die("the wrong link is waited for");
	runtime_leave(end.rt);
	return n;
}

static void await_packets(unsigned packets)
{
	while (read_told().packets < packets)
		look(true);
	if (read_told().packets != packets)
		die("too many packets");
}

/* ---- what is to be shown ---- */

static void a_burst_leaves_at_once(void)
{
	bool stage = end.rt->faults;
	struct told told;

	post_sends(8);
	complete(8, true);
	await_packets(8);
	told = read_told();
	if (told.dest_qpn != REMOTE_QPN || !told.flushes)
		die("not what was posted, or not flushed");
	if (!stage && (told.sends != 1 || told.longest != 8 || !told.is_borrowed))
		die("packets that were posted together leave alone, or copied");
	if (stage && told.frames != 8)
		die("frames of the stage do not take the link");
}

static void no_room_blocks_until_there_is_some(void)
{
	unsigned before = read_told().packets;

	set_room(0);
	post_sends(4);
	for (unsigned i = 0; i < POLLS; i++)
		if (look(true))
			die("what found no room is complete");
	if (waiting() != 1 || read_told().packets != before)
		die("nobody waits for room");
	set_room(DEPTH);
	complete(4, true);
	await_packets(before + 4);
	if (waiting())
		die("somebody waits for room still");
}

static void frames_come_in(void)
{
	unsigned releases = read_told().releases;

	post_recv();
	arrive(end.ah.av.dgid, REMOTE_QPN, NULL);
	complete(1, true);
	if (memcmp(end.memory + 40, "arrives", 8) != 0 || read_told().releases == releases)
		die("a frame came spoilt, or its room is not given back");
}

static void await_drop(uint64_t before)
{
	while (read_counters().dropped_source == before)
		if (look(true))
			die("a frame whose source is not its sender's is taken");
}

/* Neither side of the link speaks for the other. */
static void a_source_is_its_senders(void)
{
	uint64_t dropped = read_counters().dropped_source;
	uint8_t frame[1024];
	size_t bytes;

	post_recv();
	arrive(end.dev->gid[end.ah.av.sgid_index].raw, end.qp->qpn, NULL);
	await_drop(dropped);
	runtime_enter(end.rt);
	bytes = build(end.ah.av.dgid, REMOTE_QPN, frame, sizeof(frame));
	pump_deliver(end.rt, 1, link_kind(end.dev->index, PACKET_ROCE), frame, bytes);
	runtime_leave(end.rt);
	await_drop(dropped + 1);
	arrive(end.ah.av.dgid, REMOTE_QPN, NULL);
	complete(1, true);
}

/* A link that must be asked is asked by few of the polls that find nothing. */
static void few_polls_ask(void)
{
	unsigned before = read_told().own_looks, looks;

	for (unsigned i = 0; i < POLLS; i++)
		look(true);
	looks = read_told().own_looks - before;
	if (!looks || looks * 4 > POLLS)
		die("polls in vain ask the link too often, or never");
	post_recv();
	arrive(end.ah.av.dgid, REMOTE_QPN, &fake.by_look);
	complete(1, true);
}

/* The program does not poll. */
static void the_helper_wakes_by_the_descriptor(void)
{
	unsigned sleeps = read_told().sleeps;

	post_recv();
	helper_kick(end.rt);
	while (read_told().sleeps == sleeps)
		sched_yield();
	arrive(end.ah.av.dgid, REMOTE_QPN, &fake.by_event);
	complete(1, false);
	if (read_told().events != 1)
		die("the event was not taken once");
}

/* With QP1 of a port that the link leads to, without weftd. */
static void the_connection_manager_takes_the_link(void)
{
	struct gmp gmp = { .device = end.dev->index, .pkey = 0xffff, .path = { .has_grh = true, .hop_limit = 64 } };
	struct told before = read_told();

	memcpy(gmp.path.sgid, end.dev->gid[end.ah.av.sgid_index].raw, 16);
	memcpy(gmp.path.dgid, end.ah.av.dgid, 16);
	runtime_send_gmp(end.rt, &gmp);
	await_packets(before.packets + 1);
	if (read_told().dest_qpn != GSI_QPN || read_told().frames != before.frames + 1 || read_told().flushes == before.flushes)
		die("a management packet is another, or not flushed");
}

static void a_management_packet_to_nobody_is_counted(void)
{
	struct gmp gmp = { .device = end.dev->index, .pkey = 0xffff, .path = { .has_grh = true, .hop_limit = 64 } };
	uint64_t lost = read_counters().send_err;

	memcpy(gmp.path.sgid, end.dev->gid[end.ah.av.sgid_index].raw, 16);
	memcpy(gmp.path.dgid, end.ah.av.dgid, 16);
	gmp.path.dgid[15] ^= 0x80;
	runtime_send_gmp(end.rt, &gmp);
	while (read_counters().send_err == lost)
		look(true);
}

static void expect_no_link(unsigned watched)
{
	const struct links *ls = &end.rt->peers.links;
	struct pollfd fd = { atomic_load(&ls->event_fd), POLLIN, 0 };

	runtime_enter_briefly(end.rt);
	if (list_linked(&fake.link.watched) || ls->watched_count != watched || ls->looked_at || ls->waiting)
		die("a broken link is watched");
	/* the helper takes no event meanwhile */
	eventfd_write(fake.link.event_fd, 1);
	if (poll(&fd, 1, 0) != 0)
		die("a broken link's descriptor wakes the helper");
	runtime_leave(end.rt);
}

static void a_broken_link_is_left_alone(void)
{
	struct counters before = read_counters();
	unsigned watched;

	set_room(0);
	post_sends(2);
	runtime_enter_briefly(end.rt);
	watched = end.rt->peers.links.watched_count;
	fake.link.broken = true;
	runtime_leave(end.rt);
	complete(2, true);
	post_sends(1);
	complete(1, true);
	while (read_counters().send_err < before.send_err + 3)
		look(true);
	if (read_counters().link_downed != before.link_downed + 1)
		die("a link that broke is not counted");
	expect_no_link(watched - 1);
}

int main(void)
{
	alarm(PATIENCE_S);
	program = pthread_self();
	open_end();
	a_burst_leaves_at_once();
	no_room_blocks_until_there_is_some();
	frames_come_in();
	a_source_is_its_senders();
	few_polls_ask();
	the_helper_wakes_by_the_descriptor();
	the_connection_manager_takes_the_link();
	a_management_packet_to_nobody_is_counted();
	a_broken_link_is_left_alone();
	return 0;
}
