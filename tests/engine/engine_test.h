/* What the tests of the engine share. */
#ifndef WEFT_TESTS_ENGINE_ENGINE_TEST_H
#define WEFT_TESTS_ENGINE_ENGINE_TEST_H

#include "pair.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

/* Bytes that tell their place and a tag. */
static inline uint8_t pattern_byte(uint32_t tag, uint32_t i)
{
	uint32_t v = (i + 1) * 2654435761u ^ tag * 40503u;

	return (uint8_t)(v >> 24 ^ v >> 9);
}

static inline void pattern_fill(uint8_t *memory, uint32_t bytes, uint32_t tag)
{
	for (uint32_t i = 0; i < bytes; i++)
		memory[i] = pattern_byte(tag, i);
}

static inline bool pattern_holds(const uint8_t *memory, uint32_t bytes, uint32_t tag)
{
	for (uint32_t i = 0; i < bytes; i++)
		if (memory[i] != pattern_byte(tag, i))
			return false;
	return true;
}

static inline void post_wr(struct pair *pair, int side, struct pair_wr wr)
{
	assert_int_equal(pair_send(pair, side, &wr), 0);
}

/* The next send completion is this one. */
static inline void expect_sent(struct pair *pair, int side, uint64_t wr_id, enum ibv_wc_status status)
{
	struct cqe cqe;

	assert_true(pair_poll_send(pair, side, &cqe));
	assert_int_equal(cqe.wr_id, wr_id);
	assert_int_equal(cqe.status, status);
}

static inline struct cqe expect_received(struct pair *pair, int side, uint64_t wr_id, enum ibv_wc_status status)
{
	struct cqe cqe;

	assert_true(pair_poll_recv(pair, side, &cqe));
	assert_int_equal(cqe.wr_id, wr_id);
	assert_int_equal(cqe.status, status);
	return cqe;
}

static inline void expect_nothing(struct pair *pair, int side)
{
	struct cqe cqe;

	assert_false(pair_poll_send(pair, side, &cqe));
	assert_false(pair_poll_recv(pair, side, &cqe));
}

#endif
