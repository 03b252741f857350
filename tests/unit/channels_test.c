/* Channels that a process asks for again, as they did not arrive, without a socket. */
#include "weftd/channels.h"
#include "weftd/hub.h"
#include "weftd/page.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

enum { CLIENTS = 3, OTHER_USER = 2 };

static struct hub hub;
static struct client client[CLIENTS];		/* the last is another user's */
static struct control_msg last[CLIENTS];	/* that came to it */
static unsigned given[CLIENTS];			/* channels */

static bool take(struct hub *h, struct client *c, const struct control_msg *msg, const char *text, const int *fds, int nfds)
{
	(void)h;
	(void)text;
	(void)fds;
	last[c - client] = *msg;
	given[c - client] += nfds > 0;
	return true;
}

static bool has_room(struct hub *h, const struct client *c)
{
	(void)h;
	(void)c;
	return true;
}

static int set_up(void **state)
{
	static const struct hub_ops ops = { .send = take, .has_room = has_room };
	static struct fabric_page page;
	static struct claims claims;
	static struct state kept = { .page = &page, .claims = &claims, .page_fd = -1 };
	enum control_limit limit;

	(void)state;
	page_set_devices(&page, &control_default, 0x0200000000000100);
	hub_init(&hub, &ops, &kept, 1);
	hub.now = WTIME_S / 2;
	for (uint32_t i = 0; i < CLIENTS; i++) {
		client[i].uid = i == OTHER_USER ? 1001 : 1000;
		if (hub_join(&hub, &client[i], &limit))
			return -1;
		client[i].kind = CLIENT_PROCESS;
		client[i].slot = i + 1;
		hub.slot_owner[i + 1] = &client[i];
	}
	return 0;
}

/* weftd's answer to the first process. */
static int ask(unsigned peer, bool again)
{
	struct control_msg msg = { .type = CTL_CHANNEL, .seq = 7, .slot = peer + 1, .a = again };

	channels_input(&hub, &client[0], &msg);
	assert_int_equal(last[0].seq, 7);
	return last[0].status;
}

static void a_channel_that_did_not_arrive_is_made_anew(void **state)
{
	uint32_t id;

	(void)state;
	assert_int_equal(ask(1, false), 0);
	id = last[0].b;
	assert_int_equal(ask(1, false), 0);
	assert_int_equal(last[0].b, id);
	assert_int_equal(given[1], 1);
	assert_int_equal(ask(1, true), 0);
	assert_int_not_equal(last[0].b, id);
	assert_int_equal(given[1], 2);
}

/* Each makes the other process map another memory, which no share of channels counts. */
static void another_user_is_not_given_channels_all_the_time(void **state)
{
	unsigned asked = 0;
	wtime end;
	uint32_t id;

	(void)state;
	assert_int_equal(ask(OTHER_USER, true), 0);
	id = last[0].b;
	end = hub.now + 10 * WTIME_S;
	for (; hub.now < end; hub.now += WTIME_S / 100)
		asked += ask(OTHER_USER, true) == 0;
	assert_int_equal(given[OTHER_USER], 1 + asked);
	assert_in_range(asked, 9, 10);
	assert_int_not_equal(last[OTHER_USER].b, id);
	/* it is there all the time */
	hub.now += WTIME_S;
	assert_int_equal(ask(OTHER_USER, true), 0);
	id = last[OTHER_USER].b;
	assert_int_equal(ask(OTHER_USER, true), EAGAIN);
	assert_int_equal(ask(OTHER_USER, false), 0);
	assert_int_equal(last[0].b, id);
	assert_int_equal(client[OTHER_USER].channels, 1);
}

static int tear_down(void **state)
{
	(void)state;
	for (unsigned i = 0; i < CLIENTS; i++)
		channels_leave(&hub, &client[i]);
	return hub.channel_count ? -1 : 0;
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_channel_that_did_not_arrive_is_made_anew),
		cmocka_unit_test(another_user_is_not_given_channels_all_the_time),
	};

	return cmocka_run_group_tests(tests, set_up, tear_down);
}
