/* What a process has of weftd, for the next one: connections with other hosts. */
#include "control/journal.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

enum { CONNECTIONS = 5000 };

static uint8_t told[CONNECTIONS + 1];

static int note(void *arg, const struct control_msg *msg)
{
	(void)arg;
	if (msg->type == CTL_CONN)
		told[msg->a]++;
	return 0;
}

/* Ids of one bucket and of all. */
static void each_connection_is_told_once_until_it_is_given_back(void **state)
{
	static struct journal j;

	(void)state;
	journal_init(&j);
	for (uint32_t id = 1; id <= CONNECTIONS; id++)
		assert_int_equal(journal_taken(&j, &(struct control_msg){ .type = CTL_CONN, .a = id }), 0);
	for (uint32_t id = 1; id <= CONNECTIONS; id += 3)
		assert_true(journal_returned(&j, &(struct control_msg){ .type = CTL_UNCONN, .a = id }));
	assert_false(journal_returned(&j, &(struct control_msg){ .type = CTL_UNCONN, .a = 1 }));
	assert_false(journal_returned(&j, &(struct control_msg){ .type = CTL_UNCONN, .a = CONNECTIONS + 1 }));
	assert_int_equal(journal_replay(&j, note, NULL), 0);
	for (uint32_t id = 1; id <= CONNECTIONS; id++)
		assert_int_equal(told[id], id % 3 != 1);
	journal_fini(&j);
}

static uint64_t ports;

static int note_port(void *arg, const struct control_msg *msg)
{
	(void)arg;
	if (msg->type == CTL_PORT) {
		assert_int_equal(control_port_row(msg), 0);
		ports |= 1ull << msg->service % CONTROL_PORT_ROW;
	}
	return 0;
}

/* The next weftd hears of each by itself: it chooses nothing. */
static void ports_of_a_row_are_told_one_by_one(void **state)
{
	static struct journal j;
	struct control_msg granted = { .type = CTL_PORT, .service = 0x1069000 + 2 };
	struct control_msg back = { .type = CTL_UNPORT, .service = 0x1069000 };

	(void)state;
	journal_init(&j);
	control_set_port_row(&granted, 0xf0000000000000f4);
	assert_int_equal(journal_granted(&j, &granted), 0);
	assert_int_equal(journal_replay(&j, note_port, NULL), 0);
	assert_int_equal(ports, 0xf0000000000000f4);
	control_set_port_row(&back, 0x70000000000000f0);
	assert_true(journal_returned(&j, &back));
	assert_false(journal_returned(&j, &back));
	ports = 0;
	assert_int_equal(journal_replay(&j, note_port, NULL), 0);
	assert_int_equal(ports, 0x8000000000000004);
	journal_fini(&j);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(each_connection_is_told_once_until_it_is_given_back),
		cmocka_unit_test(ports_of_a_row_are_told_one_by_one),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
