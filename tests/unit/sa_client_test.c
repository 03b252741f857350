/* Answers of subnet administration that come from weftd in pieces, which fit together or are refused. */
#include "control/message.h"
#include "control/sa_client.h"
#include "wire/field.h"
#include "wire/sa.h"
#include "wire/sa_records.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cmocka.h>

enum { HEAD = sizeof(struct control_mad), RECORDS = 300, TOTAL = SA_HEAD + RECORDS };

static const struct sa_client_question question = {
	.class_version = SA_CLASS_VERSION, .method = SA_GET_TABLE, .attribute = SA_PATH_RECORD_ID, .lid = 1,
};

static int pair[2];
static uint8_t datagram[TOTAL];

static int set_up(void **state)
{
	(void)state;
	assert_int_equal(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair), 0);
	for (int i = 0; i < TOTAL; i++)
		datagram[i] = (uint8_t)i;
	wire_put(datagram, 0, 4, 0, 16);
	wire_put(datagram, 64 / 8, SA_ATTRIBUTE_OFFSET);
	return 0;
}

static int tear_down(void **state)
{
	(void)state;
	close(pair[0]);
	close(pair[1]);
	return 0;
}

static void say(uint32_t total, uint32_t at, uint32_t bytes)
{
	const struct control_mad head = { .total = total, .at = at };
	const struct control_msg msg = { .type = CTL_MAD, .text_bytes = HEAD + bytes };
	char text[HEAD + TOTAL];

	memcpy(text, &head, HEAD);
	memcpy(text + HEAD, datagram + at, bytes);
	assert_int_equal(message_send(pair[1], &msg, text, NULL, 0, 0), 0);
}

/* weftd ends when it has said all. */
static int hear(struct sa_client_answer *a)
{
	assert_int_equal(shutdown(pair[1], SHUT_WR), 0);
	return sa_client_ask(pair[0], 0, &question, a);
}

static void pieces_are_put_together(void **state)
{
	struct sa_client_answer a;

	(void)state;
	say(TOTAL, 0, 100);
	say(TOTAL, 100, 1);
	say(TOTAL, 101, TOTAL - 101);
	assert_int_equal(hear(&a), 0);
	assert_int_equal(a.bytes, RECORDS);
	assert_int_equal(a.record_bytes, 64);
	assert_memory_equal(a.data, datagram + SA_HEAD, RECORDS);
	free(a.data);
}

/* Each behind a first piece of 100 bytes. */
static void pieces_that_do_not_fit_are_refused(void **state)
{
	static const struct { const char *what; uint32_t total, at, bytes; } rows[] = {
		{ "a part of it is missing", TOTAL, 101, 50 }, { "it comes twice", TOTAL, 0, 100 },
		{ "it is longer than its datagram", 100 + 10, 100, 50 }, { "the datagram grows", TOTAL + 50, 100, 200 },
		{ "it shrinks", TOTAL - 100, 100, 50 }, { "it is empty", TOTAL, 100, 0 },
	};
	struct sa_client_answer a;

	for (unsigned i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		set_up(state);
		say(TOTAL, 0, 100);
		say(rows[i].total, rows[i].at, rows[i].bytes);
		if (hear(&a) != -EIO || a.data || a.bytes)
			fail_msg("%s: it is taken", rows[i].what);
		tear_down(state);
	}
}

static void a_first_piece_is_not_empty_and_no_datagram_is_without_end(void **state)
{
	struct sa_client_answer a;

	(void)state;
	set_up(state);
	say(TOTAL, 0, 0);
	assert_int_equal(hear(&a), -EIO);
	tear_down(state);
	set_up(state);
	say(CONTROL_MAD_MOST + 1, 0, 100);
	assert_int_equal(hear(&a), -EIO);
	assert_null(a.data);
	tear_down(state);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(pieces_are_put_together, set_up, tear_down),
		cmocka_unit_test(pieces_that_do_not_fit_are_refused),
		cmocka_unit_test(a_first_piece_is_not_empty_and_no_datagram_is_without_end),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
