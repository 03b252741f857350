/* Routes: asked once and kept until the owner says that they may have changed; found by address first and by QP number then; and
 * followed by packets when channels come, are replaced and go. */
#include "adapter.h"

#include "control/message.h"
#include "link/shm.h"
#include "peers/devices.h"
#include "peers/space.h"
#include "peers/peers.h"
#include "peers/route.h"
#include "wire/addr.h"

#include <errno.h>
#include <limits.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

enum { OWN = 7, PEER = 9, SECOND = 11, NOBODY = 13, OWN_ORIGIN = 107, PEER_ORIGIN = 109 };

static uint32_t qpn_of(uint32_t slot)
{
	return slot << 12 | 5;
}

/* ---- of any host ---- */

static const struct route *send_one(struct adapter *a, struct qp *qp, struct burst *b)
{
	a->to_send[0] = qp;
	a->sends[0] = 1;
	qp_ready(qp);
	assert_int_equal(ca_output(&a->ca, 5, b), 1);
	return b->route;
}

static void move(struct qp *qp, enum ibv_qp_state to, int mask)
{
	struct ibv_qp_attr attr = { .qp_state = to, .ah_attr = { .dlid = ADAPTER_LID + 1, .port_num = 1 } };

	assert_int_equal(qp_modify(qp, 1, &attr, IBV_QP_STATE | mask), 0);
}

/* It is asked at RTR, and not again for each packet. What was sent before a change is in flight still. */
static void a_queue_pair_keeps_its_route_until_routes_change(void **state)
{
	struct adapter *a = adapter_new();
	struct qp *qp = adapter_qp(a, IBV_QPT_RC, 8, NULL);
	struct burst *b = calloc(1, sizeof(*b));
	int here, there;

	(void)state;
	a->place = &here;
	adapter_move(qp, IBV_QPS_RTS);
	assert_int_equal(a->routes, 1);
	for (unsigned i = 0; i < 3; i++)
		assert_ptr_equal(send_one(a, qp, b)->place, &here);
	assert_int_equal(a->routes, 1);
	a->place = &there;
	assert_ptr_equal(send_one(a, qp, b)->place, &here);
	routes_change(&a->ca.routes);
	assert_ptr_equal(send_one(a, qp, b)->place, &there);
	assert_int_equal(a->routes, 2);
	move(qp, IBV_QPS_RESET, 0);
	assert_null(qp->route.place);
	adapter_move(qp, IBV_QPS_RTS);
	assert_int_equal(a->routes, 3);
	free(b);
	adapter_delete(a);
}

/* Also of one that is SQD: the table allows it there. */
static void a_new_address_asks_again(void **state)
{
	struct adapter *a = adapter_new();
	struct qp *qp = adapter_qp(a, IBV_QPT_RC, 8, NULL);

	(void)state;
	adapter_move(qp, IBV_QPS_RTS);
	move(qp, IBV_QPS_SQD, 0);
	assert_int_equal(a->routes, 1);
	move(qp, IBV_QPS_SQD, IBV_QP_AV);
	assert_int_equal(a->routes, 2);
	assert_int_equal(a->asked.dlid, ADAPTER_LID + 1);
	adapter_delete(a);
}

/* The port's table may change, and so may the QP's index. */
static void another_pkey_asks_again(void **state)
{
	struct adapter *a = adapter_new();
	struct qp *qp = adapter_qp(a, IBV_QPT_RC, 8, NULL);
	struct ibv_qp_attr attr = { .pkey_index = 2 };

	(void)state;
	a->ib->pkeys = a->ib->attr.orig_attr.max_pkeys = 3;
	a->ib->pkey[0] = 0xffff;
	a->ib->pkey[2] = 0x8002;
	adapter_move(qp, IBV_QPS_RTS);
	assert_int_equal(qp_route(qp)->pkey, 0xffff);
	move(qp, IBV_QPS_SQD, 0);
	assert_int_equal(qp_modify(qp, 1, &attr, IBV_QP_PKEY_INDEX), 0);
	assert_int_equal(qp_route(qp)->pkey, 0x8002);
	attr.pkey_index = 3;
	assert_int_equal(qp_modify(qp, 1, &attr, IBV_QP_PKEY_INDEX), -EINVAL);
	adapter_delete(a);
}

/* IBA 11.2.2.1: packets come from the LID of the port that the path bits name, of as many as it has. */
static void path_bits_choose_the_source(void **state)
{
	struct adapter *a = adapter_new();
	struct qp *qp = adapter_qp(a, IBV_QPT_RC, 8, NULL);
	struct ibv_qp_attr attr = { .qp_state = IBV_QPS_SQD, .ah_attr = { .dlid = 5, .port_num = 1, .src_path_bits = 7 } };

	(void)state;
	a->ib->lid = 0x40;
	adapter_move(qp, IBV_QPS_RTS);
	move(qp, IBV_QPS_SQD, 0);
	for (uint8_t lmc = 0; lmc <= 3; lmc++) {
		a->ib->lmc = lmc;
		assert_int_equal(qp_modify(qp, 1, &attr, IBV_QP_STATE | IBV_QP_AV), 0);
		assert_int_equal(qp->path.slid, 0x40 + (1u << lmc) - 1);
	}
	adapter_delete(a);
}

/* All that an address has tells one destination from another; sources are found by the same table. */
static void datagrams_ask_once_for_each_destination(void **state)
{
	struct adapter *a = adapter_new();
	struct qp *ib = adapter_qp(a, IBV_QPT_UD, 8, NULL), roce = *ib;
	const struct av local = { .dlid = 3 }, other_sl = { .dlid = 3, .sl = 1 }, other_lid = { .dlid = 4 };
	const struct av global = { .dlid = 3, .is_global = true, .dgid = { 0xfe, 0x80 } };
	const struct packet_path from = { .slid = 3, .has_grh = true, .sgid = { 0xfe, 0x80 } };
	struct ca_device ninth = *a->ib;
	struct qp far = *ib;
	unsigned asked;

	(void)state;
	roce.dev = a->roce;
	ninth.index = (uint8_t)(a->ib->index + 8);
	far.dev = &ninth;
	a->routes = 0;
	for (unsigned i = 0; i < 2; i++) {
		assert_int_equal(route_of_av(ib, &local, 5)->qpn, 5);
		assert_int_equal(route_of_av(ib, &global, 6)->qpn, 6);
		assert_int_equal(route_back(ib, &from, 6)->qpn, 6);
		assert_int_equal(a->routes, 2);
	}
	route_of_av(ib, &other_sl, 5);
	assert_int_equal(a->asked.sl, 1);
	route_of_av(ib, &other_lid, 5);
	assert_int_equal(a->asked.dlid, 4);
	route_of_av(&roce, &other_lid, 5);
	route_of_av(&roce, &global, 5);
	assert_true(a->asked.has_grh);
	assert_memory_equal(a->asked.dgid, global.dgid, sizeof(global.dgid));
	assert_int_equal(a->routes, 6);
	/* a process has more than eight ports */
	route_of_av(ib, &local, 7);
	asked = a->routes;
	route_of_av(&far, &local, 7);
	assert_int_equal(a->routes, asked + 1);
	/* two that share a place take it from each other */
	asked = a->routes;
	for (unsigned i = 0; i < 2; i++) {
		assert_int_equal(route_of_av(ib, &local, 8)->qpn, 8);
		assert_int_equal(route_of_av(ib, &local, 8 + ROUTES)->qpn, 8 + ROUTES);
	}
	assert_int_equal(a->routes, asked + 4);
	routes_change(&a->ca.routes);
	route_of_av(ib, &local, 8 + ROUTES);
	assert_int_equal(a->routes, asked + 5);
	/* what one partition reaches another may not */
	a->ib->pkey[0] = 0x8001;
	assert_int_equal(route_of_av(ib, &local, 8 + ROUTES)->pkey, 0x8001);
	assert_int_equal(a->routes, asked + 6);
	adapter_delete(a);
}

/* ---- of a process that has peers ---- */

struct world {
	struct adapter *a;
	struct ca_ops ops;
	struct fabric_page *page;
	struct session session;
	struct peers ps;
	uint32_t channels;	/* weftd's number of the last */
};

static struct world *world;

static void find_route(void *owner, const struct ca_device *dev, const struct packet_path *path, struct route *r)
{
	(void)owner;
	route_find(&world->ps, dev, path, r);
}

static void live(uint32_t slot, uint32_t origin)
{
	atomic_store(&world->page->slot_generation[slot], 1);
	atomic_store(&world->page->slot_owner[slot], origin);
}

static void publish_gids(void)
{
	struct page_device *d = world->page->device;

	world->page->devices = 2;
	for (int i = 0; i < 2; i++) {
		d[i].active_mtu = d[i].max_mtu = IBV_MTU_4096;
		d[i].pkeys = 1;
		d[i].pkey[0] = PKEY_DEFAULT;
		d[i].protocol = i ? PAGE_ROCE_V2 : PAGE_IB;
		memcpy(d[i].gid[0].raw, world->a->ca.dev[i].gid[0].raw, 16);
		d[i].gid[0].valid = 1;
		d[i].gid[0].type = (uint8_t)world->a->ca.dev[i].gid[0].type;
	}
	d[0].lid = ADAPTER_LID;
}

static int open_world(void **state)
{
	struct world *w = world = calloc(1, sizeof(*w));

	(void)state;
	w->a = adapter_new();
	w->page = calloc(1, sizeof(*w->page));
	w->ops = adapter_host;
	w->ops.route = find_route;
	w->a->ca.ops = &w->ops;
	w->ps = (struct peers){ .ca = &w->a->ca, .session = &w->session, .page = w->page, .slot = OWN };
	list_init(&w->session.inbox);
	list_init(&w->session.channel_box);
	pthread_mutex_init(&w->session.books, NULL);
	atomic_init(&w->session.state, SESSION_OVER);
	live(OWN, OWN_ORIGIN);
	live(PEER, PEER_ORIGIN);
	live(SECOND, PEER_ORIGIN);
	publish_gids();
	links_init(&w->ps.links);
	assert_int_equal(channels_init(&w->ps.channels, &w->ps.links, NULL), 0);
	channels_own(&w->ps, OWN);
	return 0;
}

static int close_world(void **state)
{
	struct mail *mail;

	(void)state;
	while ((mail = session_take(&world->session)))
		mail_free(mail);
	channels_fini(&world->ps.channels);
	links_fini(&world->ps.links);
	adapter_delete(world->a);
	free(world->page);
	free(world);
	return 0;
}

/* Datagrams from QP1 come from who has it, and from nobody else. */
static void the_owner_alone_speaks_for_qp1(void **state)
{
	const struct route back = { .kind = ROUTE_MANAGEMENT, .qpn = 1 };

	(void)state;
	assert_true(route_leads_to(&world->ps, &back, ORIGIN_OWNER));
	assert_false(route_leads_to(&world->ps, &back, PEER_ORIGIN));
	assert_false(route_leads_to(&world->ps, &back, ORIGIN_NETWORK));
	assert_false(route_leads_to(&world->ps, &back, 0));
}

static void receive(struct control_msg msg, int fds, const int fd[])
{
	struct mail *mail = calloc(1, sizeof(*mail));

	mail->msg = msg;
	mail->fds = fds;
	for (int i = 0; i < fds; i++)
		mail->fd[i] = fd[i];
	list_append(&world->session.channel_box, &mail->node);
	channels_collect(&world->ps);
}

/* weftd gives this process a channel to the slot's. */
static struct channel *give_channel(uint32_t slot)
{
	const int fd[] = { shm_memory_create(), eventfd(0, EFD_CLOEXEC) };

	receive((struct control_msg){ .type = CTL_CHANNEL, .slot = slot, .b = ++world->channels, .service = PEER_ORIGIN }, 2, fd);
	assert_non_null(channel_find(&world->ps.channels, world->channels));
	return channel_find(&world->ps.channels, world->channels);
}

static void sweep(void)
{
	struct channel *ch;

	while ((ch = channels_leaving(&world->ps.channels)))
		channel_leave(&world->ps, ch);
}

static const struct packet_path own_lid = { .dlid = ADAPTER_LID };

static struct route route_to(const struct ca_device *dev, struct packet_path path, uint32_t qpn)
{
	struct route r;

	route_ask(&world->a->ca, dev, PKEY_DEFAULT, &path, qpn, &r);
	return r;
}

static struct qp *connected_to(uint32_t slot)
{
	struct qp *qp = adapter_qp(world->a, IBV_QPT_RC, 8, NULL);

	adapter_move(qp, IBV_QPS_RTS);
	qp->attr.dest_qp_num = qpn_of(slot);
	qp->route = (struct route){ 0 };
	return qp;
}

static void expect_route(struct qp *qp, enum route_kind kind, const void *place)
{
	const struct route *r = qp_route(qp);

	assert_int_equal(r->kind, kind);
	assert_ptr_equal(r->place, place);
}

/* Whoever holds a route to a channel has another one before that is freed. */
static void a_route_follows_its_channel(void **state)
{
	struct qp *qp = connected_to(PEER);
	struct channel *first, *second;

	(void)state;
	expect_route(qp, ROUTE_NONE, NULL);
	first = give_channel(PEER);
	expect_route(qp, ROUTE_CHANNEL, first);
	second = give_channel(PEER);	/* its other end never had the first */
	assert_true(first->gone);
	expect_route(qp, ROUTE_CHANNEL, second);
	sweep();
	expect_route(qp, ROUTE_CHANNEL, second);
	receive((struct control_msg){ .type = CTL_KEPT, .slot = PEER, .b = second->id }, 0, NULL);
	expect_route(qp, ROUTE_NONE, NULL);
	sweep();
	first = give_channel(PEER);
	expect_route(qp, ROUTE_CHANNEL, first);
	receive((struct control_msg){ .type = CTL_PEER_GONE, .slot = PEER }, 0, NULL);
	expect_route(qp, ROUTE_NONE, NULL);
	sweep();
	assert_int_equal(world->ps.channels.count, 1);
}

/* It leads to two slots; the other end breaks the rules of the ring. */
static void a_channel_that_is_cut_off_leaves_no_route(void **state)
{
	struct qp *qp = connected_to(PEER), *other = connected_to(SECOND);
	struct channel *ch = give_channel(PEER);

	(void)state;
	receive((struct control_msg){ .type = CTL_CHANNEL, .slot = SECOND, .b = ch->id, .service = PEER_ORIGIN,
				      .c = CHANNEL_KNOWN }, 0, NULL);
	expect_route(qp, ROUTE_CHANNEL, ch);
	expect_route(other, ROUTE_CHANNEL, ch);
	ch->link->broken = world->ps.channels.sweep = true;
	sweep();
	expect_route(qp, ROUTE_NONE, NULL);
	expect_route(other, ROUTE_NONE, NULL);
}

/* weftd's answers that were on their way, and a channel that the process opens, give it none: it broke the rules of the ring. */
static void who_is_cut_off_gets_no_other_channel(void **state)
{
	struct channel *ch = give_channel(PEER);
	int fd[] = { shm_memory_create(), eventfd(0, EFD_CLOEXEC) };
	uint32_t open;

	(void)state;
	ch->link->broken = world->ps.channels.sweep = true;
	sweep();
	open = world->ps.channels.count;
	world->ps.channels.asked[PEER] = ASKED;
	receive((struct control_msg){ .type = CTL_CHANNEL, .seq = 1, .slot = PEER, .status = EAGAIN }, 0, NULL);
	world->ps.channels.asked[PEER] = ASKED_FOR_LOST;
	receive((struct control_msg){ .type = CTL_CHANNEL, .seq = 1, .slot = PEER, .status = ENOMEM }, 0, NULL);
	receive((struct control_msg){ .type = CTL_CHANNEL, .slot = PEER, .b = ++world->channels, .service = PEER_ORIGIN }, 2, fd);
	assert_null(channel_find(&world->ps.channels, world->channels));
	assert_int_equal(world->ps.channels.count, open);
}

static void a_slot_that_is_gained_is_the_loops(void **state)
{
	struct qp *qp = connected_to(SECOND);

	(void)state;
	expect_route(qp, ROUTE_NONE, NULL);
	channels_own(&world->ps, SECOND);
	expect_route(qp, ROUTE_LOOP, world->ps.channels.loop);
}

/* The parent's channels are not there in the child. */
static void a_forked_child_has_no_routes(void **state)
{
	struct qp *qp = connected_to(PEER), *own = connected_to(OWN);

	(void)state;
	expect_route(qp, ROUTE_CHANNEL, give_channel(PEER));
	expect_route(own, ROUTE_LOOP, world->ps.channels.loop);
	world->ps.in_forked_child = true;
	routes_change(&world->a->ca.routes);
	expect_route(qp, ROUTE_NOWHERE, NULL);
	expect_route(own, ROUTE_NOWHERE, NULL);
	assert_int_equal(space_for(&world->ps, own->dev, qp_route(own), NULL), 0);
	world->ps.in_forked_child = false;
}

/* The QP's number is right in all of them. */
static void the_address_decides_before_the_number(void **state)
{
	const struct ca_device *ib = world->a->ib, *roce = world->a->roce;
	const uint32_t qpn = qpn_of(OWN);
	struct packet_path gid = { .has_grh = true }, both = { .dlid = ADAPTER_LID, .has_grh = true };

	(void)state;
	memcpy(gid.dgid, roce->gid[0].raw, 16);
	memcpy(both.dgid, ib->gid[0].raw, 16);
	assert_int_equal(route_to(ib, own_lid, qpn).kind, ROUTE_LOOP);
	assert_int_equal(route_to(ib, both, qpn).kind, ROUTE_LOOP);
	assert_int_equal(route_to(roce, gid, qpn).kind, ROUTE_LOOP);
	assert_int_equal(route_to(ib, (struct packet_path){ .dlid = ADAPTER_LID + 1 }, qpn).kind, ROUTE_NOWHERE);
	both.dlid++;
	assert_int_equal(route_to(ib, both, qpn).kind, ROUTE_NOWHERE);
	both.dlid = ADAPTER_LID;
	both.dgid[15]++;
	assert_int_equal(route_to(ib, both, qpn).kind, ROUTE_NOWHERE);
	gid.dgid[15]++;
	assert_int_equal(route_to(roce, gid, qpn).kind, ROUTE_NO_LINK);
	assert_int_equal(route_to(ib, own_lid, 1).kind, ROUTE_MANAGEMENT);
	assert_int_equal(route_to(ib, own_lid, MULTICAST_QPN).kind, ROUTE_GROUP);
	assert_int_equal(route_to_slot(&world->ps, 0).kind, ROUTE_NOWHERE);
	assert_int_equal(route_to_slot(&world->ps, PAGE_SLOTS).kind, ROUTE_NOWHERE);
}

/* A peer names an address that weftd has found a moment ago; later it is gone. */
static void addresses_come_and_go(void **state)
{
	struct page_gid *fresh = &world->page->device[1].gid[1];
	struct packet_path path = { .has_grh = true, .dgid = { [10] = 0xff, 0xff, 10, 0, 0, 2 } };
	struct qp *qp = connected_to(OWN);

	(void)state;
	qp->dev = world->a->roce;
	qp->path = path;
	expect_route(qp, ROUTE_NO_LINK, NULL);
	memcpy(fresh->raw, path.dgid, sizeof(path.dgid));
	fresh->valid = 1;
	assert_int_equal(route_to(world->a->roce, path, qpn_of(OWN)).kind, ROUTE_LOOP);
	devices_refresh(world->page, &world->ps.node, &world->a->ca);
	expect_route(qp, ROUTE_LOOP, world->ps.channels.loop);
	qp->direct_path.channel = world->ps.channels.loop;
	/* another's address changes nothing for this one */
	fresh[1].raw[0] = 0xfd;
	fresh[1].valid = 1;
	devices_refresh(world->page, &world->ps.node, &world->a->ca);
	assert_ptr_equal(qp->direct_path.channel, world->ps.channels.loop);
	fresh->valid = fresh[1].valid = 0;
	devices_refresh(world->page, &world->ps.node, &world->a->ca);
	expect_route(qp, ROUTE_NO_LINK, NULL);
	assert_null(qp->direct_path.channel);
	qp->dev = world->a->ib;
}

struct shown {
	int qps;
	wtime give_up;
};

/* A peer that is stopped: who waits for the first QP has no time left for the next. */
static void show_again(void *arg, struct qp *qp, wtime *give_up)
{
	struct shown *shown = arg;

	assert_true(*give_up == (shown->qps++ ? shown->give_up : WTIME_NEVER));
	*give_up = shown->give_up;
}

/* The manager puts another P_Key in the place of a QP's: its peers see that one, and the way to them is looked for again. */
static void another_pkey_is_shown(void **state)
{
	struct page_device *d = world->page->device;
	const struct direct_ops ops = { .republish_qp = show_again }, *was = world->a->ca.direct;
	struct qp *qp = connected_to(OWN), *other = connected_to(PEER);
	struct shown shown = { .give_up = 77 };

	(void)state;
	world->a->ca.direct = &ops;
	world->a->ca.direct_arg = &shown;
	d->pkeys = 2;
	d->pkey[1] = 0x8001;
	qp->attr.pkey_index = other->attr.pkey_index = 1;
	qp->published = other->published = 1;
	for (int i = 0; i < 2; i++) {
		qp->direct_path.channel = world->ps.channels.loop;
		d->pkey[0] = (uint16_t)(0x8003 + i);
		devices_refresh(world->page, &world->ps.node, &world->a->ca);
		assert_int_equal(qp_pkey(qp), 0x8001);
		assert_int_equal(shown.qps, 2);
	}
	assert_ptr_equal(qp->direct_path.channel, world->ps.channels.loop);
	d->pkey[1] = 0x8002;
	shown.qps = 0;
	devices_refresh(world->page, &world->ps.node, &world->a->ca);
	assert_null(qp->direct_path.channel);
	assert_int_equal(shown.qps, 2);
	d->pkeys = 1;
	d->pkey[0] = PKEY_DEFAULT;
	qp->attr.pkey_index = other->attr.pkey_index = 0;
	qp->published = other->published = 0;
	devices_refresh(world->page, &world->ps.node, &world->a->ca);
	world->a->ca.direct = was;
}

/* ---- to other hosts ---- */

static const struct packet_path abroad = { .has_grh = true, .dgid = { [10] = 0xff, 0xff, 10, 0, 0, 2 } };

/* From now on the process asks this socket, weftd's end of it. */
static int open_weftd(void)
{
	struct stat st;
	int pair[2];

	assert_int_equal(socketpair(AF_UNIX, SOCK_SEQPACKET, 0, pair), 0);
	assert_int_equal(stat("/proc/self/ns/net", &st), 0);
	world->page->home = st.st_ino;
	world->session.socket = pair[0];
	atomic_store(&world->session.state, SESSION_ATTACHED);
	roce_socket_init(&world->ps.roce, false);
	return pair[1];
}

/* How many questions came to weftd. */
static unsigned asked(int weftd)
{
	struct control_msg msg;
	unsigned n = 0;

	for (; message_receive(weftd, &msg, NULL, 0, NULL, NULL, MSG_DONTWAIT) == 0; n++)
		assert_int_equal(msg.type, CTL_ROCE_SOCKET);
	return n;
}

static bool answer(struct control_msg msg, bool has_socket)
{
	struct mail *mail = calloc(1, sizeof(*mail));
	bool is_told;

	mail->msg = msg;
	mail->fds = has_socket;
	if (has_socket)
		mail->fd[0] = socket(AF_INET, SOCK_DGRAM, 0);
	is_told = roce_socket_answered(&world->ps, mail);
	mail_free(mail);
	return is_told;
}

static void close_weftd(int weftd)
{
	roce_socket_fini(&world->ps);
	close(weftd);
	close(world->session.socket);
}

static void an_address_of_another_host_leads_to_the_link(void **state)
{
	struct adapter *a = world->a;
	int weftd = open_weftd();
	struct route r = route_to(a->roce, abroad, 5);

	(void)state;
	assert_int_equal(r.kind, ROUTE_NO_LINK);
	assert_int_equal(asked(weftd), 1);
	assert_int_equal(space_for(&world->ps, a->roce, &r, NULL), 0);
	assert_int_equal(asked(weftd), 0);
	assert_false(answer((struct control_msg){ .a = 7, .b = 256 }, true));
	assert_int_not_equal(r.generation, a->ca.routes.generation);
	r = route_to(a->roce, abroad, 5);
	assert_int_equal(r.kind, ROUTE_LINK);
	assert_true(space_for(&world->ps, a->roce, &r, NULL) > 0);
	assert_true(route_leads_to(&world->ps, &r, ORIGIN_NETWORK));
	assert_false(route_leads_to(&world->ps, &r, PEER_ORIGIN));
	r = route_to(a->roce, (struct packet_path){ .has_grh = true, .dgid = { 0xff, 0x0e } }, 5);
	assert_int_equal(r.kind, ROUTE_NOWHERE);
	r = route_to(a->ib, (struct packet_path){ .dlid = ADAPTER_LID + 1, .has_grh = true }, 5);
	assert_int_equal(r.kind, ROUTE_NOWHERE);
	close_weftd(weftd);
}

static void addresses_of_one_host_or_link_lead_to_no_other(void **state)
{
	static const uint8_t home[][16] = { { 0 }, { [15] = 1 }, { 0xfe, 0x80, [15] = 7 }, { 0xfe, 0xbf },
					    { [10] = 0xff, 0xff, 127, 0, 0, 1 }, { [10] = 0xff, 0xff },
					    { [10] = 0xff, 0xff, 224, 0, 0, 1 }, { 0xff, 0x02, [15] = 1 } };
	int weftd = open_weftd();

	(void)state;
	for (unsigned i = 0; i < sizeof(home) / sizeof(home[0]); i++) {
		struct packet_path path = { .has_grh = true };

		memcpy(path.dgid, home[i], 16);
		assert_int_equal(route_to(world->a->roce, path, 5).kind, ROUTE_NOWHERE);
	}
	assert_int_equal(asked(weftd), 0);
	close_weftd(weftd);
}

/* What is open stays so until there is a weftd to ask for another, and for good where there will be none. */
static void a_socket_outlives_its_weftd_until_there_is_the_next(void **state)
{
	struct adapter *a = world->a;
	int weftd = open_weftd();

	(void)state;
	route_to(a->roce, abroad, 5);
	assert_int_equal(asked(weftd), 1);
	assert_false(answer((struct control_msg){ .a = 7, .b = 256 }, true));
	atomic_store(&world->session.state, SESSION_AWAY);
	roce_socket_lost(&world->ps);
	roce_socket_ask_again(&world->ps, a->ca.now);
	assert_int_equal(route_to(a->roce, abroad, 5).kind, ROUTE_LINK);
	atomic_store(&world->session.state, SESSION_ATTACHED);
	roce_socket_ask_again(&world->ps, a->ca.now);
	assert_int_equal(route_to(a->roce, abroad, 5).kind, ROUTE_NO_LINK);
	assert_int_equal(asked(weftd), 1);
	assert_false(answer((struct control_msg){ .a = 7, .b = 256 }, true));
	atomic_store(&world->session.state, SESSION_AWAY);
	roce_socket_lost(&world->ps);
	atomic_store(&world->session.state, SESSION_OVER);
	roce_socket_ask_again(&world->ps, a->ca.now);
	assert_int_equal(route_to(a->roce, abroad, 5).kind, ROUTE_LINK);
	close_weftd(weftd);
}

/* Who waits for a socket that never comes loses packets instead: connections end by their retries. */
static void nobody_waits_for_a_weftd_that_does_not_come(void **state)
{
	struct adapter *a = world->a;
	int weftd = open_weftd();
	struct route r;

	(void)state;
	r = route_to(a->roce, abroad, 5);
	assert_int_equal(asked(weftd), 1);
	atomic_store(&world->session.state, SESSION_AWAY);
	roce_socket_lost(&world->ps);
	assert_int_equal(space_for(&world->ps, a->roce, &r, NULL), 0);
	atomic_store(&world->session.state, SESSION_OVER);
	roce_socket_ask_again(&world->ps, a->ca.now);
	assert_int_equal(space_for(&world->ps, a->roce, &r, NULL), UINT_MAX);
	close_weftd(weftd);
}

/* Also of a process that only receives. */
static void who_was_refused_asks_again(void **state)
{
	struct adapter *a = world->a;
	int weftd = open_weftd();
	wtime next, last = 0;

	(void)state;
	roce_socket_expect(&world->ps, a->roce);
	for (unsigned i = 0; i < 8; i++) {
		assert_int_equal(asked(weftd), 1);
		assert_false(answer((struct control_msg){ .status = EPERM }, false));
		next = roce_socket_ask_again(&world->ps, a->ca.now);
		assert_int_equal(asked(weftd), 0);
		last = next - a->ca.now;
		assert_int_equal(last, i < 5 ? WTIME_S << i : 30 * WTIME_S);
		roce_socket_ask_again(&world->ps, a->ca.now = next);
	}
	assert_int_equal(asked(weftd), 1);
	assert_false(answer((struct control_msg){ .a = 7, .b = 256 }, true));
	assert_int_equal(world->ps.roce.state, ROCE_SOCKET_OPEN);
	close_weftd(weftd);
}

/* A process of this host says that it is another host, and the other way round. */
static void what_comes_over_the_wire_is_no_process_of_this_host(void **state)
{
	struct packet_path own = { .has_grh = true };
	struct route r;
	int weftd = open_weftd();

	(void)state;
	memcpy(own.dgid, world->a->roce->gid[0].raw, 16);
	r = route_to(world->a->roce, own, qpn_of(PEER));
	assert_true(route_leads_to(&world->ps, &r, PEER_ORIGIN));
	assert_false(route_leads_to(&world->ps, &r, ORIGIN_NETWORK));
	world->ps.roce.takes_all = true;
	assert_int_equal(route_to(world->a->roce, own, qpn_of(PEER)).kind, ROUTE_NO_LINK);
	assert_int_equal(route_to(world->a->roce, own, 1).kind, ROUTE_MANAGEMENT);
	close_weftd(weftd);
}

/* A program with UD QPs that no other host sends to pays nothing for it in its polls. */
static void a_link_that_is_not_needed_yet_rests(void **state)
{
	struct adapter *a = world->a;
	int weftd = open_weftd();

	(void)state;
	roce_socket_expect(&world->ps, a->roce);
	assert_false(answer((struct control_msg){ .a = 7, .b = 256 }, true));
	assert_int_equal(world->ps.links.looked_at, 0);
	assert_int_equal(route_to(a->roce, abroad, 5).kind, ROUTE_LINK);
	assert_int_equal(world->ps.links.looked_at, 1);
	close_weftd(weftd);
}

static void a_refused_link_is_told_once_and_loses_packets(void **state)
{
	struct adapter *a = world->a;
	int weftd = open_weftd();
	struct route r;

	(void)state;
	roce_socket_expect(&world->ps, a->roce);
	assert_int_equal(asked(weftd), 1);
	assert_false(answer((struct control_msg){ .status = EPERM }, false));	/* nobody had needed it */
	r = route_to(a->roce, abroad, 5);
	assert_int_equal(asked(weftd), 1);
	assert_true(answer((struct control_msg){ .status = EPERM }, false));
	assert_int_equal(space_for(&world->ps, a->roce, &r, NULL), UINT_MAX);
	a->ca.now += 2 * WTIME_S;
	assert_int_equal(space_for(&world->ps, a->roce, &r, NULL), 0);
	assert_int_equal(asked(weftd), 1);
	assert_false(answer((struct control_msg){ .status = EPERM }, false));
	close_weftd(weftd);
}

/* The port may be another's for a moment. */
static void a_port_that_is_taken_is_asked_for_some_times(void **state)
{
	struct adapter *a = world->a;
	int weftd = open_weftd();
	unsigned n = 0;
	wtime next;

	(void)state;
	route_to(a->roce, abroad, 5);
	while (asked(weftd) == 1 && !answer((struct control_msg){ .status = EADDRINUSE }, false) && n++ < 100) {
		next = roce_socket_ask_again(&world->ps, a->ca.now);
		assert_true(next > a->ca.now && next <= a->ca.now + WTIME_S);
		roce_socket_ask_again(&world->ps, a->ca.now = next);
	}
	assert_int_equal(n, 10);
	close_weftd(weftd);
}

static void an_answer_that_is_none_opens_nothing(void **state)
{
	static const struct control_msg wrong[] = { { .a = 256, .b = 256 }, { .a = 1, .b = 3 }, { .a = 0, .b = 0 },
						    { .a = 1, .b = 8192 }, { .a = 1, .b = 256 } };
	int weftd = open_weftd();

	(void)state;
	assert_false(answer((struct control_msg){ .a = 1, .b = 256 }, true));	/* not asked for */
	assert_int_equal(world->ps.roce.state, ROCE_SOCKET_CLOSED);
	for (unsigned i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
		roce_socket_init(&world->ps.roce, false);
		roce_socket_need(&world->ps);
		assert_true(answer(wrong[i], i < 4));
		assert_int_equal(world->ps.roce.state, ROCE_SOCKET_REFUSED);
		assert_null(world->ps.roce.link);
	}
	close_weftd(weftd);
}

/* A packet's source is believed when it is its sender's, at an address that is a port's. */
static void a_source_is_its_senders(void **state)
{
	const struct ca_device *ib = world->a->ib;
	struct route of_peer = route_to(ib, own_lid, qpn_of(SECOND)), nowhere;

	(void)state;
	assert_true(route_leads_to(&world->ps, &of_peer, PEER_ORIGIN));	/* no channel leads to this slot of it yet */
	assert_false(route_leads_to(&world->ps, &of_peer, OWN_ORIGIN));
	give_channel(SECOND);
	of_peer = route_to(ib, own_lid, qpn_of(SECOND));
	assert_true(route_leads_to(&world->ps, &of_peer, PEER_ORIGIN));
	nowhere = route_to(ib, (struct packet_path){ .dlid = ADAPTER_LID + 1 }, qpn_of(SECOND));
	assert_false(route_leads_to(&world->ps, &nowhere, PEER_ORIGIN));
}

#define WORLD(test) cmocka_unit_test_setup_teardown(test, open_world, close_world)

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_queue_pair_keeps_its_route_until_routes_change),
		cmocka_unit_test(a_new_address_asks_again),
		cmocka_unit_test(another_pkey_asks_again),
		cmocka_unit_test(path_bits_choose_the_source),
		cmocka_unit_test(datagrams_ask_once_for_each_destination),
		WORLD(the_owner_alone_speaks_for_qp1),
		WORLD(a_route_follows_its_channel),
		WORLD(a_channel_that_is_cut_off_leaves_no_route),
		WORLD(who_is_cut_off_gets_no_other_channel),
		WORLD(a_slot_that_is_gained_is_the_loops),
		WORLD(a_forked_child_has_no_routes),
		WORLD(the_address_decides_before_the_number),
		WORLD(addresses_come_and_go),
		WORLD(another_pkey_is_shown),
		WORLD(a_source_is_its_senders),
		WORLD(an_address_of_another_host_leads_to_the_link),
		WORLD(what_comes_over_the_wire_is_no_process_of_this_host),
		WORLD(addresses_of_one_host_or_link_lead_to_no_other),
		WORLD(a_socket_outlives_its_weftd_until_there_is_the_next),
		WORLD(nobody_waits_for_a_weftd_that_does_not_come),
		WORLD(who_was_refused_asks_again),
		WORLD(a_link_that_is_not_needed_yet_rests),
		WORLD(a_refused_link_is_told_once_and_loses_packets),
		WORLD(a_port_that_is_taken_is_asked_for_some_times),
		WORLD(an_answer_that_is_none_opens_nothing),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
