/* CTL_IMPAIR: to whom faults are passed on, and who is told that packets are wanted. */
#include "control_client.h"

#include "control/clock.h"

#include <errno.h>
#include <string.h>
#include <unistd.h>

static int impair(struct peer *p, uint32_t pid, const char *text, uint32_t *processes)
{
	struct control_msg msg = { .type = CTL_IMPAIR, .slot = pid, .text_bytes = text ? (uint32_t)strlen(text) : 0 };
	int status = call_text(p, &msg, text);

	*processes = msg.b;
	return status;
}

/* The next message; is it of the page? Otherwise it is of these faults. */
static bool hears_of_page(struct peer *p, const char *text)
{
	struct control_msg msg;

	assert_int_equal(next(p, &msg), 0);
	if (msg.type == CTL_PAGE) {
		assert_int_equal(msg.a, 4);
		return true;
	}
	assert_int_equal(msg.type, CTL_IMPAIR);
	assert_int_equal(msg.text_bytes, strlen(text));
	assert_memory_equal(p->text, text, msg.text_bytes);
	return false;
}

/* Both; of the page perhaps a moment later. */
static void hears(struct peer *p, const char *text)
{
	assert_int_equal(hears_of_page(p, text) + hears_of_page(p, text), 1);
}

static bool wants_packets(const struct peer *p, uint32_t slot)
{
	return p->page->slot_packets[slot];
}

static void processes_hear_their_faults(void **state)
{
	struct peer *boss = join(CONTROL_COMMAND), *a = join(CONTROL_PROCESS), *b = join(CONTROL_PROCESS);
	struct control_msg msg = { .type = CTL_SLOT };
	uint32_t n;

	(void)state;
	assert_int_equal(impair(boss, 0, "loss=5%,seed=1", &n), 0);
	assert_int_equal(n, 2);
	hears(a, "loss=5%,seed=1");
	hears(b, "loss=5%,seed=1");
	assert_true(wants_packets(a, a->slot) && wants_packets(a, b->slot));
	/* all of its slots are told, those too that it gets later */
	assert_int_equal(call(a, &msg), 0);
	assert_true(wants_packets(a, msg.slot));
	assert_int_equal(impair(boss, (uint32_t)getpid(), NULL, &n), 0);
	assert_int_equal(n, 2);
	hears(a, "");
	hears(b, "");
	assert_false(wants_packets(a, a->slot) || wants_packets(a, b->slot) || wants_packets(a, msg.slot));
	assert_int_equal(impair(boss, 1, "loss=5%", &n), ENOENT);
	assert_int_equal(n, 0);
	assert_int_equal(impair(boss, UINT32_MAX, "loss=5%", &n), ENOENT);
	still_well(a);
	leave(a);
	leave(b);
	leave(boss);
}

static void the_next_owner_of_a_slot_is_not_impaired(void **state)
{
	struct peer *boss = join(CONTROL_COMMAND), *a = join(CONTROL_PROCESS), *b = join(CONTROL_PROCESS);
	uint32_t n, slot = a->slot;

	(void)state;
	assert_int_equal(impair(boss, 0, "loss=5%,seed=1", &n), 0);
	hears(b, "loss=5%,seed=1");
	assert_true(wants_packets(b, slot));
	leave(a);
	wait_for("attached", 1);
	assert_false(wants_packets(b, slot));
	leave(b);
	leave(boss);
}

static void what_is_too_long_or_a_process_says_ends_the_connection(void **state)
{
	struct peer *boss = join(CONTROL_COMMAND), *a = join(CONTROL_PROCESS);
	char text[513];
	struct control_msg msg = { .type = CTL_IMPAIR, .text_bytes = sizeof(text) - 1 };
	uint32_t n;

	(void)state;
	memset(text, 'x', sizeof(text) - 1);
	text[511] = '\0';
	assert_int_equal(impair(boss, 0, text, &n), 0);
	hears(a, text);
	assert_int_equal(impair(boss, 0, NULL, &n), 0);
	hears(a, "");
	text[511] = 'x';
	assert_int_equal(message_send(boss->socket, &msg, text, NULL, 0, 0), 0);
	expect_end(boss);
	msg.text_bytes = 4;
	assert_int_equal(message_send(a->socket, &msg, "dup=", NULL, 0, 0), 0);
	expect_end(a);
}

/* Who may impair one process has all others look for their ways anew. */
static void all_are_told_only_so_often(void **state)
{
	enum { CHANGES = 400 };
	struct peer *boss = join(CONTROL_COMMAND), *a = join(CONTROL_PROCESS);
	wtime start = clock_now();
	uint32_t n, told = 0;

	(void)state;
	for (int i = 0; i < CHANGES; i++) {
		const char *text = i % 2 ? NULL : "dup=1%";

		assert_int_equal(impair(boss, 0, text, &n), 0);
		while (hears_of_page(a, text ? text : ""))
			told++;
	}
	/* the last change is not lost for that */
	if (!told)
		assert_true(hears_of_page(a, ""));
	assert_true(told <= 2 + (clock_now() - start) / (50 * WTIME_MS));
	leave(a);
	leave(boss);
}

#define WELL(test) cmocka_unit_test_teardown(test, leave_all)

int main(void)
{
	const struct CMUnitTest tests[] = {
		WELL(processes_hear_their_faults),
		WELL(the_next_owner_of_a_slot_is_not_impaired),
		WELL(what_is_too_long_or_a_process_says_ends_the_connection),
		WELL(all_are_told_only_so_often),
	};

	return cmocka_run_group_tests(tests, start_daemon, stop_daemon);
}
