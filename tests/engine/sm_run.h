/* The simulator's net of management datagrams (mad_net.h) over a fabric of a test, and what has come of it. */
#ifndef WEFT_TESTS_ENGINE_SM_RUN_H
#define WEFT_TESTS_ENGINE_SM_RUN_H

#include "../unit/fabric.h"
#include "mad_net.h"

#include "fabric/host.h"
#include "fabric/survey.h"
#include "mgmt/mad_source.h"
#include "wire/sa.h"

struct run {
	struct test_fabric t;
	struct mad_net n;
	/* what an SA has said last, to whom */
	uint8_t *said;
	uint32_t said_bytes, said_count;
	struct mad_remote said_to;
	struct run_said {
		uint32_t attr_id, method, bytes;
		uint16_t lid;
		uint8_t data[MAD_BYTES];
	} all_said[64];
	/* of an answer that is made while it is sent: read at once, or kept for the test */
	bool keeps_source;
	struct mad_source *source;
	uint32_t source_gives;		/* times that it was asked */
};

/* The rest, by pieces of a window. */
static inline enum mad_given run_follow(struct run *r, struct mad_source *source)
{
	enum { PIECE = 64 * 200 };
	enum mad_given given = MAD_GIVES_MORE;

	while (given == MAD_GIVES_MORE) {
		uint32_t bytes = 0;

		r->said = realloc(r->said, r->said_bytes + PIECE);
		assert_non_null(r->said);
		given = source->give(source, r->said + r->said_bytes, PIECE, &bytes);
		assert_in_range(bytes, 0, PIECE);
		r->said_bytes += bytes;
		r->source_gives++;
	}
	source->end(source);
	return given;
}

static void run_hear(void *arg, const struct mad_letter *l)
{
	struct run *r = arg;
	struct run_said *said = &r->all_said[r->said_count++ % 64];
	struct mad_header h;

	mad_header_parse(&h, l->data);
	*said = (struct run_said){ .attr_id = h.attr_id, .method = h.method, .bytes = l->bytes, .lid = l->remote.lid };
	memcpy(said->data, l->data, l->bytes < MAD_BYTES ? l->bytes : MAD_BYTES);
	r->said = realloc(r->said, l->bytes);
	assert_non_null(r->said);
	memcpy(r->said, l->data, l->bytes);
	r->said_bytes = l->bytes;
	r->said_to = l->remote;
	if (!l->source)
		return;
	r->source = *l->source;
	*l->source = NULL;
	if (r->keeps_source)
		return;
	assert_int_equal(run_follow(r, r->source), MAD_GAVE_ALL);
	r->source = NULL;
}

/* Of the fabric r->t.f, as it is. */
static inline void run_as_it_is(struct run *r, uint64_t seed)
{
	mad_net_init(&r->n, &r->t.f, seed);
	r->n.said = run_hear;
	r->n.said_arg = r;
}

/* The same, as when it is switched on. */
static inline void run_cold(struct run *r, uint64_t seed)
{
	mad_net_init_cold(&r->n, &r->t.f, seed);
	r->n.said = run_hear;
	r->n.said_arg = r;
}

static inline void run_init(struct run *r, const char *kind, char *const settings[], uint64_t seed)
{
	*r = (struct run){ 0 };
	make_fabric(&r->t, kind, settings);
	run_cold(r, seed);
}

static inline struct mad_net_manager *run_add(struct run *r, const char *node, unsigned number, const struct sm_config *config)
{
	return mad_net_add(&r->n, port_named(&r->t.f, node, number), config);
}

/* The port has this P_Key, and a manager that is added now leaves it there. */
static inline void run_give_pkey(const struct run *r, const char *node, unsigned number, unsigned place, uint16_t pkey)
{
	uint32_t port = port_named(&r->t.f, node, number);

	fabric_pkeys(&r->t.f, port)[place] = fabric_partitions(&r->t.f, port)[place] = pkey;
}

static void run_fini(struct run *r)
{
	mad_net_fini(&r->n);
	free(r->said);
	end_fabric(&r->t);
}

/* Everybody who can be reached reaches everybody; nothing can deadlock; every link that is up is active. */
static inline void check_reaches(const struct fabric *f)
{
	char why[200] = "";
	struct survey s;

	if (fabric_check_lids(f, why, sizeof(why)))
		fail_msg("%s", why);
	assert_int_equal(survey(&s, f), 0);
	if (s.reached != s.paths || !s.paths)
		fail_msg("%llu of %llu paths reach; one not: port %u to LID %u", (unsigned long long)s.reached,
			 (unsigned long long)s.paths, s.bad_port, s.bad_lid);
	assert_false(s.has_credit_loop);
	survey_fini(&s);
	for (uint32_t port = 0; port < f->ports; port++) {
		if (fabric_peer(f, port) != PORT_NONE && f->port[port].state != PORT_DOWN)
			assert_int_equal(f->port[port].state, PORT_ACTIVE);
	}
}

#endif
