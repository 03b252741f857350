#include "weftd/fabric_records.h"

#include "fabric/host.h"
#include "fabric/walk.h"
#include "wire/field.h"
#include "wire/pkey.h"
#include "wire/smp.h"

#include <string.h>

/* 15.2.5.2 */
#define NODE_LID 0, 0, 16
enum { NODE_INFO_AT = 4, NODE_DESCRIPTION_AT = 44 };

/* 15.2.5.16 */
#define PATH_DLID 40, 0, 16
#define PATH_SLID 42, 0, 16
#define PATH_REVERSIBLE 49, 0, 1
#define PATH_COUNT 49, 1, 7
#define PATH_PKEY 50, 0, 16
#define PATH_MTU_SELECTOR 54, 0, 2
#define PATH_MTU 54, 2, 6
enum { PATH_DGID_AT = 8, PATH_SGID_AT = 24, PATH_EXACTLY = 2 };

/* The next end port with a LID from *at on, which moves behind it; or PORT_NONE. */
static uint32_t next_end(const struct fabric *f, uint32_t *at)
{
	while (*at < f->ports) {
		uint32_t port = (*at)++;

		if (!fabric_is_switch(f, f->owner[port]) == !!fabric_port_number(f, port) && FABRIC_READ(f->port[port].lid))
			return port;
	}
	return PORT_NONE;
}

bool fabric_records_give_node(void *arg, const struct sa_question *q, uint32_t *at, uint8_t *record)
{
	const struct fabric *f = arg;
	uint32_t port = next_end(f, at);
	const struct fabric_node *n;
	struct smp_node_info info;

	(void)q;
	if (port == PORT_NONE)
		return false;
	n = &f->node[f->owner[port]];
	info = (struct smp_node_info){
		.base_version = MAD_BASE_VERSION, .class_version = SMP_CLASS_VERSION, .node_type = n->type, .ports = n->ports,
		.system_guid = n->system_guid, .node_guid = n->guid, .port_guid = f->port[port].guid,
		.partition_cap = PORT_PKEYS, .device_id = n->device, .local_port = (uint8_t)fabric_port_number(f, port),
		.vendor_id = n->vendor & 0xffffff,
	};
	memset(record, 0, NODE_RECORD_BYTES);
	wire_put(record, FABRIC_READ(f->port[port].lid), NODE_LID);
	smp_node_info_put(&info, record + NODE_INFO_AT);
	memcpy(record + NODE_DESCRIPTION_AT, n->description, NODE_DESCRIPTION);
	return true;
}

/* The least MTU of the way. */
static uint8_t mtu_of(const struct fabric *f, const struct walk_route *r)
{
	uint8_t mtu = FABRIC_READ(f->port[r->packet.from].mtu);

	for (uint32_t i = 0; i < r->links; i++)
		mtu = FABRIC_READ(f->port[r->out[i]].mtu) < mtu ? FABRIC_READ(f->port[r->out[i]].mtu) : mtu;
	return mtu;
}

uint32_t fabric_records_find_lid(const struct fabric *f, uint32_t lid)
{
	uint32_t at = 0, port;

	while ((port = next_end(f, &at)) != PORT_NONE && !host_has_lid(f, port, lid))
		;
	return port;
}

bool fabric_records_give_path(void *arg, const struct sa_question *q, uint32_t *at, uint8_t *record)
{
	const struct fabric *f = arg;
	uint32_t from = fabric_records_find_lid(f, q->lid), to;
	struct walk_route r;

	while (from != PORT_NONE && (to = next_end(f, at)) != PORT_NONE) {
		const struct walk_packet p = { .from = from, .dlid = FABRIC_READ(f->port[to].lid), .pkey = PKEY_DEFAULT,
					       .switches = SWITCHES_MOST };

		if (fabric_walk(f, &p, &r) != WALK_DELIVERED || r.at != to)
			continue;
		memset(record, 0, PATH_RECORD_BYTES);
		host_write_gid(f, to, 0, record + PATH_DGID_AT);
		host_write_gid(f, from, 0, record + PATH_SGID_AT);
		wire_put(record, p.dlid, PATH_DLID);
		wire_put(record, q->lid, PATH_SLID);
		wire_put(record, 1, PATH_REVERSIBLE);
		wire_put(record, 1, PATH_COUNT);
		wire_put(record, p.pkey, PATH_PKEY);
		wire_put(record, PATH_EXACTLY, PATH_MTU_SELECTOR);
		wire_put(record, mtu_of(f, &r) & 63, PATH_MTU);
		return true;
	}
	return false;
}

uint32_t fabric_records_port(const struct fabric *f)
{
	uint32_t at = 0, first = PORT_NONE, port;
	uint16_t sm = 0;

	while ((port = next_end(f, &at)) != PORT_NONE) {
		if (!host_has_programs(f, port))
			continue;
		if (first == PORT_NONE) {
			first = port;
			sm = FABRIC_READ(f->port[port].sm_lid);
		}
		if (sm && host_has_lid(f, port, sm))
			return port;
	}
	return first;
}
