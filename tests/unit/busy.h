/* A subnet administration that discards what it is asked, as it is busy (IBA 13.4.7), which is no refusal. The process at h1 has
 * asked when these functions begin, and a try takes try_ms. */
#ifndef WEFT_TESTS_UNIT_BUSY_H
#define WEFT_TESTS_UNIT_BUSY_H

#include "administration.h"

enum { REPEATS = 3 };	/* of paths and of joins */

static void answer_busy(void)
{
	reply(sa.mad[3] == MAD_SET ? MAD_GET_RESP : sa.mad[3] | MAD_RESPONSE, MAD_STATUS_BUSY);
	assert_int_equal(net->messages[0], 0);
}

/* It is asked again when one that is silent would be. */
static void discards(unsigned try_ms)
{
	const wtime then = net->hub.now + try_ms * WTIME_MS;
	unsigned requests = sa.requests;

	answer_busy();
	assert_true(umad_deadline(&net->hub) == then);
	at(then - 1);
	assert_int_equal(sa.requests, requests);
	at(then);
	assert_int_equal(sa.requests, requests + 1);
}

static void times_out(wtime then)
{
	unsigned requests = sa.requests;

	assert_int_equal(net->messages[0], 0);
	at(then);
	assert_int_equal(net->messages[0], 1);
	assert_int_equal(net->last[0].status, ETIMEDOUT);
	assert_int_equal(sa.requests, requests);
}

static void stays_busy(unsigned try_ms)
{
	for (unsigned i = 0; i < REPEATS; i++)
		discards(try_ms);
	answer_busy();
	times_out(net->hub.now + try_ms * WTIME_MS);
}

/* Busy once, and silent since: no longer than silence alone. */
static void falls_silent(unsigned try_ms)
{
	const wtime begin = net->hub.now;
	unsigned requests = sa.requests;

	answer_busy();
	for (unsigned i = 1; i <= REPEATS; i++) {
		at(begin + i * try_ms * WTIME_MS);
		assert_int_equal(sa.requests, requests + i);
		assert_int_equal(net->messages[0], 0);
	}
	times_out(begin + (REPEATS + 1) * try_ms * WTIME_MS);
}

#endif
