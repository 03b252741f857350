/* One request to the subnet management agent, as the attributes' functions see it. */
#ifndef WEFT_AGENTS_CALL_H
#define WEFT_AGENTS_CALL_H

#include "agents/agents.h"

struct call {
	struct agents *a;
	wtime now;
	uint32_t node, port;		/* port: by which it came */
	uint32_t modifier;
	bool m_key_hidden;		/* a Get may not see the port's M_Key (14.2.4.1) */
	uint8_t *data;			/* borrowed: the attribute */
};

/* Each gives a status of the MAD, 0: done. A setter runs inside its node's fabric_write(); what it has set is read back into the
 * response. */
enum mad_status port_info_get(const struct call *c);
enum mad_status port_info_set(const struct call *c);
/* Arrays, a block at a time. */
enum mad_status guid_info_get(const struct call *c);
enum mad_status guid_info_set(const struct call *c);
enum mad_status pkey_table_get(const struct call *c);
enum mad_status pkey_table_set(const struct call *c);
enum mad_status sl2vl_get(const struct call *c);
enum mad_status sl2vl_set(const struct call *c);
enum mad_status vlarb_get(const struct call *c);
enum mad_status vlarb_set(const struct call *c);
enum mad_status lft_get(const struct call *c);
enum mad_status lft_set(const struct call *c);
enum mad_status mft_get(const struct call *c);
enum mad_status mft_set(const struct call *c);

/* PortInfo's modifier says in its upper bit that who asks knows of extended speeds (14.2.5.6). */
static inline uint32_t call_port_info_number(const struct call *c)
{
	return c->modifier & 0x7fffffff;
}

/* The port that number names: of a switch any of its ports; of another node 0, the port by which the request came, or another
 * one of it. PORT_NONE: there is none. */
static inline uint32_t call_port(const struct call *c, uint32_t number)
{
	const struct fabric *f = c->a->fabric;

	if (!number && !fabric_is_switch(f, c->node))
		return c->port;
	return number > f->place[c->node].ports ? PORT_NONE : fabric_port_index(f, c->node, number);
}

#endif
