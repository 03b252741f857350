/* A requester and a responder of the seed's protocol for several paths, between which a test hands over each packet itself. */
#ifndef WEFT_TESTS_ENGINE_MULTIPATH_PAIR_H
#define WEFT_TESTS_ENGINE_MULTIPATH_PAIR_H

#include "multipath_run.h"

enum { A, B };

static struct mp_requester requester;
static struct mp_responder responder;
static unsigned executed;
static enum mp_status answers = MP_OK;
static uint8_t data[4096];

static inline enum mp_status count(void *arg, const struct mp_packet *p, uint8_t *answer)
{
	executed += answers == MP_OK;
	memset(answer, 0x5a, mp_answer_bytes(p->code, p->length));
	return answers;
}

static inline void begin(void (*change)(struct mp_config *))
{
	const struct mp_target target = { count, NULL };
	struct mp_config c;

	mp_config_init(&c);
	c.connection = 7;
	c.paths = 2;
	c.mtu_bytes = 16;
	if (change)
		change(&c);
	executed = 0;
	answers = MP_OK;
	assert_int_equal(mp_requester_init(&requester, &c), 0);
	assert_int_equal(mp_responder_init(&responder, &c, &target), 0);
}

static inline void end(void)
{
	mp_requester_fini(&requester);
	mp_responder_fini(&responder);
}

static inline int post(enum mp_opcode opcode, bool is_unordered, uint64_t address, uint32_t bytes)
{
	struct mp_request q = { .opcode = opcode, .is_unordered = is_unordered, .address = address, .bytes = bytes, .from = data,
				.into = data };

	return mp_requester_post(&requester, &q);
}

/* The next packet, which is of this type and on this path. */
static inline struct mp_packet next(wtime now, enum mp_type type, unsigned path)
{
	struct mp_packet p;
	unsigned on;

	assert_true(mp_requester_output(&requester, now, &on, &p));
	assert_int_equal(p.type, type);
	assert_int_equal(on, path);
	return p;
}

static inline void none(wtime now)
{
	struct mp_packet p;
	unsigned on;

	assert_false(mp_requester_output(&requester, now, &on, &p));
}

static inline struct mp_packet request(unsigned path, enum mp_order order, uint32_t pkn)
{
	struct mp_packet p = next(0, MP_REQ, path);

	assert_int_equal(p.order, order);
	assert_int_equal(p.pkn, pkn);
	return p;
}

/* The responder's reply to it: a response with its number. */
static inline struct mp_packet answered(unsigned path, const struct mp_packet *p)
{
	struct mp_packet reply;

	assert_true(mp_responder_input(&responder, path, p, &reply));
	assert_int_equal(reply.pkn, p->pkn);
	assert_int_equal(reply.tag, p->tag);
	return reply;
}

static inline void dropped(unsigned path, const struct mp_packet *p)
{
	struct mp_packet reply;

	assert_false(mp_responder_input(&responder, path, p, &reply));
}

static inline void exchange(unsigned path, const struct mp_packet *p)
{
	struct mp_packet reply = answered(path, p);

	assert_int_equal(reply.type, MP_RSP);
	mp_requester_input(&requester, 0, path, &reply);
}

#endif
