/* A subnet that its manager has brought up, and a port that asks its administration. */
#ifndef WEFT_TESTS_ENGINE_SM_ASKER_H
#define WEFT_TESTS_ENGINE_SM_ASKER_H

#include "sm_run.h"

#include "sm/sa.h"
#include "wire/field.h"
#include "wire/sa_records.h"

#include <errno.h>

enum { MASTER_KEY = 1 };

struct asker {
	struct run r;
	struct sm *s;
	uint16_t lid;			/* who asks */
	uint64_t key;
	uint8_t record[MAD_BYTES - SA_HEAD];	/* to be asked */
	uint32_t modifier;
};

static inline uint16_t lid_of(const struct asker *a, const char *node, unsigned number)
{
	return a->r.t.f.port[port_named(&a->r.t.f, node, number)].lid;
}

static inline void begin(struct asker *a, const struct sm_config *config)
{
	memset(a, 0, sizeof(*a));
	run_init(&a->r, "fat-tree", (char *const[]){ "ports=4", NULL }, 1);
	a->s = &run_add(&a->r, "s1", 0, config)->sm;
	assert_true(mad_net_until_quiet(&a->r.n, 100 * WTIME_S));
	a->lid = lid_of(a, "h1", 1);
}

/* The records of the answer; -status: it is refused; -EAGAIN: nothing is said. */
static inline int ask(struct asker *a, unsigned method, unsigned attribute, uint64_t mask)
{
	uint8_t mad[MAD_BYTES] = { 0 };
	const struct mad_header h = { .base_version = 1, .mgmt_class = MAD_CLASS_SA, .class_version = SA_CLASS_VERSION,
				      .method = (uint8_t)method, .tid = 0x1234567, .attr_id = (uint16_t)attribute,
				      .attr_modifier = a->modifier };
	const struct mad_letter l = { .agent = SM_AGENT_SA, .data = mad, .bytes = sizeof(mad),
				      .remote = { .lid = a->lid, .qpn = 1, .qkey = 0x80010000 } };
	uint32_t said = a->r.said_count, each;
	struct mad_header back;

	mad_header_build(&h, mad);
	wire_put(mad, mask, SA_MASK);
	wire_put(mad, a->key, SA_KEY);
	memcpy(mad + SA_HEAD, a->record, sizeof(a->record));
	sm_input(a->s, a->r.n.now, &l);
	memset(a->record, 0, sizeof(a->record));
	mad_net_pump(&a->r.n);
	if (a->r.said_count == said)
		return -EAGAIN;
	assert_true(mad_net_until_quiet(&a->r.n, 10 * WTIME_S));
	mad_header_parse(&back, a->r.said);
	assert_int_equal(back.tid, h.tid);
	assert_int_equal(back.method, method == MAD_SET ? MAD_GET_RESP : method | MAD_RESPONSE);
	assert_int_equal(a->r.said_to.lid, a->lid);
	/* C15-0.1.5 */
	assert_true(!wire_get(a->r.said, SA_KEY));
	if (back.status)
		return -back.status;
	each = 8 * (uint32_t)wire_get(a->r.said, SA_ATTRIBUTE_OFFSET);
	if (method == MAD_GET || method == MAD_SET || method == SA_DELETE)
		return 1;
	assert_int_equal(a->r.said[26] & 7, 1);
	return each ? (int)((a->r.said_bytes - SA_HEAD) / each) : 0;
}

static inline const uint8_t *answer(const struct asker *a, unsigned i)
{
	return a->r.said + SA_HEAD + i * 8 * (unsigned)wire_get(a->r.said, SA_ATTRIBUTE_OFFSET);
}

static inline void write_gid(const struct asker *a, const char *node, unsigned number, uint8_t *gid)
{
	uint64_t prefix = htobe64(PREFIX_DEFAULT), guid = htobe64(a->r.t.f.port[port_named(&a->r.t.f, node, number)].guid);

	memcpy(gid, &prefix, 8);
	memcpy(gid + 8, &guid, 8);
}

/* A master hands its subnet over to this manager. */
static inline void hand_over(struct asker *a)
{
	enum { HANDOVER = 1 };
	uint8_t mad[MAD_BYTES] = { 0 };
	const struct mad_header h = { .base_version = 1, .mgmt_class = MAD_CLASS_SUBN_LID, .class_version = SMP_CLASS_VERSION,
				      .method = MAD_SET, .tid = 1, .attr_id = SMP_SM_INFO, .attr_modifier = HANDOVER };

	mad_header_build(&h, mad);
	wire_put(mad + SMP_DATA, MASTER_KEY, 8, 0, 64);
	wire_put(mad + SMP_DATA, SM_MASTER, 20, 4, 4);
	sm_input(a->s, a->r.n.now, &(struct mad_letter){ .agent = SM_AGENT_LID, .data = mad, .bytes = sizeof(mad),
							 .remote = { .lid = a->lid } });
	assert_true(mad_net_until_quiet(&a->r.n, 10 * WTIME_S));
}

#endif
