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

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(each_connection_is_told_once_until_it_is_given_back),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
