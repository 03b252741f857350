/* MADs of tests: built, sent through agents of a fabric, and looked at. */
#ifndef WEFT_TESTS_UNIT_AGENTS_H
#define WEFT_TESTS_UNIT_AGENTS_H

#include "fabric.h"

#include "agents/agents.h"
#include "mgmt/gmp.h"
#include "wire/field.h"
#include "wire/smp.h"

struct test_agents {
	struct test_fabric t;
	struct agents a;
	wtime now;
	uint8_t mad[MAD_BYTES];
	struct mad_arrival out;
};

#define AGENTS(g, kind, ...)				\
	do {						\
		*(g) = (struct test_agents){ .now = 1 };	\
		MAKE(&(g)->t, kind, __VA_ARGS__);	\
		assert_int_equal(agents_init(&(g)->a, &(g)->t.f), 0);	\
	} while (0)

static inline void end_agents(struct test_agents *g)
{
	agents_fini(&g->a);
	end_fabric(&g->t);
}

/* A directed-route SMP: `path` has `hops` port numbers. */
static inline void make_directed(uint8_t mad[MAD_BYTES], unsigned method, unsigned attribute, uint32_t modifier,
				 const uint8_t *path, unsigned hops)
{
	struct mad_header h = { .base_version = 1, .mgmt_class = MAD_CLASS_SUBN_DIRECTED, .class_version = 1,
				.method = (uint8_t)method, .tid = 0x1122334455667788, .attr_id = (uint16_t)attribute,
				.attr_modifier = modifier };
	struct smp_head s;

	memset(mad, 0, MAD_BYTES);
	mad_header_build(&h, mad);
	smp_head_get(&s, mad);
	s.hop_count = (uint8_t)hops;
	s.dr_slid = s.dr_dlid = LID_PERMISSIVE;
	if (hops)
		memcpy(s.initial_path + 1, path, hops);
	smp_head_put(&s, mad);
}

#define PATH(...) (const uint8_t[]){ __VA_ARGS__ }, sizeof((const uint8_t[]){ __VA_ARGS__ })

static const struct mad_address to_permissive = { .path = { .slid = LID_PERMISSIVE, .dlid = LID_PERMISSIVE } };

static inline enum mad_outcome send_directed(struct test_agents *g, uint32_t from)
{
	return agents_mad(&g->a, g->now, from, &to_permissive, g->mad, &g->out);
}

static inline unsigned status_of(const uint8_t mad[MAD_BYTES])
{
	return (unsigned)wire_get(mad, 4, 1, 15);
}

#endif
