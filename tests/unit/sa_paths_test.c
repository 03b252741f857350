/* Pairs of LIDs that weftd is asked for: when, for which, and what is taken of its answers. */
#include "fabric.h"

#include "control/message.h"
#include "fabric/host.h"
#include "fabric/route.h"
#include "peers/peers.h"

#include <errno.h>
#include <sys/socket.h>
#include <unistd.h>

enum { SLOT = 9, OWN = 8, PEER = 16, LMC = 2, PKEY = 0xffff };

/* This process is at h1 of a line of two switches, that of SLOT at h2. */
static struct world {
	struct test_fabric t;
	struct fabric_page page;
	struct session session;
	struct ca ca;
	struct ca_device dev;
	struct peers ps;
	int weftd;
} *world;

static uint32_t host(const char *name)
{
	return port_named(&world->t.f, name, 1);
}

static void give_lids(const char *name, uint16_t lid, uint8_t lmc)
{
	world->t.f.port[host(name)].lid = lid;
	world->t.f.port[host(name)].lmc = lmc;
}

static int set_up(void **state)
{
	int pair[2];

	(void)state;
	world = calloc(1, sizeof(*world));
	assert_non_null(world);
	MAKE(&world->t, "line", "switches=2");
	give_lids("h1", OWN, LMC);
	give_lids("h2", PEER, LMC);
	assert_int_equal(socketpair(AF_UNIX, SOCK_SEQPACKET, 0, pair), 0);
	world->session.socket = pair[0];
	world->weftd = pair[1];
	atomic_init(&world->session.state, SESSION_ATTACHED);
	world->page.fabric = 1;
	world->page.slot_port[SLOT] = host("h2") + 1;
	world->dev = (struct ca_device){ .protocol = &protocol_ib, .port_num = 1, .place_number = 1, .lid = OWN, .lmc = LMC,
					  .sm_lid = 1 };
	world->ca = (struct ca){ .dev = &world->dev, .devices = 1, .now = WTIME_S, .routes.generation = 1 };
	world->ps = (struct peers){ .ca = &world->ca, .session = &world->session, .page = &world->page };
	world->ps.node = (struct node){ .fabric = world->t.f, .place = host("h1") };
	return 0;
}

static int tear_down(void **state)
{
	(void)state;
	sa_paths_fini(&world->ps.sa_paths);
	close(world->session.socket);
	close(world->weftd);
	end_fabric(&world->t);
	free(world);
	return 0;
}

static unsigned find(uint16_t dlid, struct lid_pair pair[LID_PATHS])
{
	const struct packet_path path = { .slid = OWN, .dlid = dlid };
	const struct route r = { .generation = world->ca.routes.generation, .qpn = SLOT << 12 | 5 };

	return sa_paths_find(&world->ps, &world->dev, PKEY, &path, &r, pair);
}

/* How many pairs are known. */
static unsigned known(void)
{
	struct lid_pair pair[LID_PATHS];

	return find(PEER, pair);
}

/* Was weftd asked since? */
static bool was_asked(struct control_msg *msg)
{
	int fds[CONTROL_FDS], nfds;

	return !message_receive(world->weftd, msg, NULL, 0, fds, &nfds, MSG_DONTWAIT);
}

static bool is_asked_for(void)
{
	struct control_msg msg;

	known();
	return was_asked(&msg);
}

static void change(wtime later)
{
	world->ca.routes.generation++;
	world->ca.now += later;
}

/* The answer to a question that was put: so many pairs with the same path bits. Routes are asked again if that is said. */
static bool answer(unsigned pairs, int status)
{
	bool is_news;

	struct control_msg msg = { .type = CTL_PATHS, .a = PKEY, .status = status };
	struct control_lids lids[LID_PATHS];

	host_write_gid(&world->t.f, host("h1"), 0, msg.gid);
	host_write_gid(&world->t.f, host("h2"), 0, msg.dgid);
	for (unsigned i = 0; i < pairs; i++)
		lids[i] = (struct control_lids){ (uint16_t)(OWN + i), (uint16_t)(PEER + i) };
	is_news = sa_paths_take(&world->ps, &msg, lids, (uint32_t)(pairs * sizeof(lids[0])));
	world->ca.routes.generation += is_news;
	return is_news;
}

/* Does the helper thread ask, then, for who found what it knew? */
static bool is_asked_later(wtime later)
{
	struct control_msg msg;
	wtime due = world->ca.now + later;

	assert_true(sa_paths_ask_again(&world->ps, world->ca.now) == due);
	world->ca.now = due - 1;
	assert_true(sa_paths_ask_again(&world->ps, world->ca.now) == due);
	assert_false(was_asked(&msg));
	world->ca.now = due;
	sa_paths_ask_again(&world->ps, world->ca.now);
	return was_asked(&msg);
}

static void weftd_is_asked_once(void **state)
{
	struct lid_pair pair[LID_PATHS];
	struct control_msg msg;
	uint8_t gid[16];

	(void)state;
	assert_int_equal(known(), 0);
	assert_true(was_asked(&msg));
	assert_int_equal(msg.type, CTL_PATHS);
	assert_int_equal(msg.a, PKEY);
	assert_int_equal(msg.b, 1 << LMC);
	host_write_gid(&world->t.f, host("h1"), 0, gid);
	assert_memory_equal(msg.gid, gid, 16);
	host_write_gid(&world->t.f, host("h2"), 0, gid);
	assert_memory_equal(msg.dgid, gid, 16);
	change(0);
	assert_false(is_asked_for());
	assert_true(answer(4, 0));
	assert_false(answer(4, 0));	/* nobody asked */
	assert_int_equal(find(PEER, pair), 4);
	for (unsigned i = 0; i < 4; i++) {
		assert_int_equal(pair[i].slid, OWN + i);
		assert_int_equal(pair[i].dlid, PEER + i);
	}
	change(SA_PATHS_PAUSE / 2);
	assert_false(is_asked_for());
}

/* Pairs that are no LIDs of the two ports do not count, whoever sends them. */
static void what_makes_no_sense_is_left_out(void **state)
{
	const struct control_lids lids[] = {
		{ OWN - 1, PEER }, { OWN + 4, PEER }, { OWN, PEER - 1 }, { OWN, PEER + 4 }, { OWN + 1, PEER + 1 }, { 0, 0 },
	};
	struct control_msg msg = { .type = CTL_PATHS, .a = PKEY };
	struct lid_pair pair[LID_PATHS];

	(void)state;
	assert_true(is_asked_for());
	host_write_gid(&world->t.f, host("h1"), 0, msg.gid);
	host_write_gid(&world->t.f, host("h2"), 0, msg.dgid);
	msg.device = 1;
	assert_false(sa_paths_take(&world->ps, &msg, lids, sizeof(lids)));
	msg.device = 0;
	assert_true(sa_paths_take(&world->ps, &msg, lids, sizeof(lids) - 1));
	assert_int_equal(find(PEER, pair), 1);
	assert_int_equal(pair[0].slid, OWN + 1);
}

/* After a sweep fewer may be named, or all again; another manager, or one that asks for registration, may name others. */
static void what_has_changed_is_asked_again(void **state)
{
	(void)state;
	assert_true(is_asked_for());
	assert_true(answer(3, 0));
	assert_false(is_asked_for());
	change(0);
	assert_true(is_asked_for());
	assert_true(answer(4, 0));
	change(SA_PATHS_PAUSE);
	assert_true(is_asked_for());
	assert_false(answer(4, 0));
	world->dev.sm_lid++;
	assert_true(is_asked_for());
	answer(4, 0);
	world->dev.reregistered++;
	assert_true(is_asked_for());
	answer(4, 0);
	world->dev.lmc = 1;
	assert_true(is_asked_for());
	assert_true(answer(2, 0));
	give_lids("h2", PEER, 1);
	assert_true(is_asked_for());
	assert_int_equal(known(), 2);
}

/* Nobody tells of routes that rest, and an answer in the midst of a sweep may be that of before. Who asked before the last change
 * or at it asks once more when there has been none for a while; what the answers change is no change. */
static void it_is_asked_once_more_when_routes_rest(void **state)
{
	(void)state;
	assert_true(sa_paths_ask_again(&world->ps, world->ca.now) == WTIME_NEVER);
	assert_true(is_asked_for());
	assert_true(answer(3, 0));
	assert_false(is_asked_for());
	assert_false(is_asked_later(SA_PATHS_PAUSE));	/* nothing has changed since */
	assert_true(sa_paths_ask_again(&world->ps, world->ca.now) == WTIME_NEVER);
	change(0);
	assert_true(is_asked_for());
	assert_true(answer(4, 0));
	assert_false(is_asked_for());
	for (unsigned i = 0; i < 3; i++) {		/* too early to ask each time */
		change(SA_PATHS_PAUSE / 10);
		assert_false(is_asked_for());
		assert_true(sa_paths_ask_again(&world->ps, world->ca.now) > world->ca.now);
	}
	assert_true(is_asked_later(SA_PATHS_PAUSE));
	assert_false(answer(4, 0));
	assert_true(sa_paths_ask_again(&world->ps, world->ca.now) == WTIME_NEVER);
	change(SA_PATHS_PAUSE);				/* the answer to who asks at a change may be early, too */
	assert_true(is_asked_for());
	assert_false(answer(4, 0));
	assert_true(is_asked_later(SA_PATHS_PAUSE));
	change(0);					/* before the answer has come */
	world->dev.sm_lid++;
	assert_false(is_asked_for());
	assert_false(answer(4, 0));
	assert_true(is_asked_later(SA_PATHS_PAUSE));
}

/* An administration that is silent is not asked for ever, and what it named counts. */
static void nobody_answers(void **state)
{
	unsigned asked = 0;

	(void)state;
	assert_true(is_asked_for());
	answer(4, 0);
	change(SA_PATHS_PAUSE);
	while (is_asked_for()) {
		assert_int_equal(answer(0, ETIMEDOUT), ++asked < 3);
		assert_true(asked < 10);
	}
	assert_int_equal(asked, 3);
	assert_int_equal(known(), 4);
	world->dev.sm_lid++;
	assert_true(is_asked_for());
	world->ca.now += SA_PATHS_PATIENCE;	/* the answer got lost */
	change(0);
	assert_true(is_asked_for());
}

static void who_chose_a_lid_gets_none(void **state)
{
	struct lid_pair pair[LID_PATHS];
	struct control_msg msg;

	(void)state;
	assert_int_equal(find(PEER + 1, pair), 0);
	give_lids("h2", PEER, 0);
	assert_int_equal(find(PEER, pair), 0);
	world->page.slot_port[SLOT] = host("h1") + 1;	/* at the same port */
	assert_int_equal(find(OWN, pair), 0);
	assert_false(was_asked(&msg));
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(weftd_is_asked_once),
		TEST(what_makes_no_sense_is_left_out),
		TEST(what_has_changed_is_asked_again),
		TEST(it_is_asked_once_more_when_routes_rest),
		TEST(nobody_answers),
		TEST(who_chose_a_lid_gets_none),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
