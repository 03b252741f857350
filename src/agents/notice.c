/* A trap waits in the first free place of a table; some places are none of bad keys, which any program can make, and packets of
 * one port take a share of the others. Another one with the same number from the same port takes its place, so a link that flaps,
 * or a flood of bad keys, has one trap, and this once in the port's SubnetTimeOut, also where the manager has heard the last one
 * (13.4.9). A trap is sent at once if it may, at most TRAP_SENDS times, however often a bad key comes again meanwhile: a manager
 * that is alive sweeps. */
#include "agents/notice.h"

#include "agents/smi.h"
#include "wire/field.h"

#include <string.h>

enum {
	TRAP_SENDS = 16,			/* our choice */
	INTERVAL_LEAST = 100 * 1000 * 1000,	/* ns; our choice: a SubnetTimeOut of 0 would be 4 us */
	TRAP_LINK = 128, TRAP_LINK_ERROR = 129, TRAP_CAPABILITY = 144, TRAP_M_KEY = 256, TRAP_PKEY = 257,	/* table 131 */
	TRAP_QKEY = 258, TRAP_SWITCH_PKEY = 259,
	SWITCH_PKEY_VALID = 0x013f,		/* all but the GIDs, in the order of the fields */
	URGENT = 1, SECURITY = 2, INFORMATIONAL = 4,					/* Notice.Type */
};

/* Data details of traps, from their begin (table 131). */
#define LINK_LID 0, 0, 16
#define ERROR_LID 2, 0, 16
#define ERROR_PORT 4, 0, 8
#define CAPABILITY_LID 2, 0, 16
#define KEY_LID 2, 0, 16
#define M_KEY_DR_SLID 4, 0, 16
#define M_KEY_METHOD 6, 0, 8
#define M_KEY_ATTRIBUTE 8, 0, 16
#define KEY_LID2 4, 0, 16
#define SWITCH_PKEY_DATA_VALID 0, 0, 16
#define SWITCH_PKEY_KEY 6, 0, 16
#define SWITCH_PKEY_SWITCH 48, 0, 16
#define SWITCH_PKEY_PORT 50, 0, 8

/* Details stand at byte 10 of the notice, so words of 32 bits and more are no field of wire/field.h. */
static void put32(uint8_t *at, uint32_t value)
{
	value = htobe32(value);
	memcpy(at, &value, sizeof(value));
}

static bool is_from(const struct trap *t, uint32_t port, uint16_t number)
{
	return t->port == port && t->notice.trap_number == number;
}

/* Where the places of a trap begin; cause: PORT_NONE but for data. */
static unsigned first_place(uint8_t type, uint32_t cause)
{
	return AGENT_TRAPS - (cause != PORT_NONE ? AGENT_DATA_ALARMS : type == SECURITY ? AGENT_ALARMS : AGENT_TRAPS);
}

/* The place of the last trap of this kind, though it has ended, or a free one. */
static struct trap *find(struct agents *a, uint32_t port, uint16_t number, uint8_t type, uint32_t cause)
{
	struct trap *place = NULL;
	unsigned shared = 0;

	for (unsigned i = first_place(type, cause); i < AGENT_TRAPS; i++) {
		struct trap *t = &a->trap[i];

		if (is_from(t, port, number))
			return t;
		if (!t->sends && !place)
			place = t;
		shared += t->sends && cause != PORT_NONE && t->cause == cause;
	}
	return shared < AGENT_SHARE ? place : NULL;
}

static struct smp_notice *make(struct agents *a, wtime now, uint32_t port, uint16_t number, uint8_t type, uint32_t cause)
{
	const struct fabric *f = a->fabric;
	struct trap *t = FABRIC_READ(f->port[port].sm_lid) ? find(a, port, number, type, cause) : NULL;
	uint8_t sends = TRAP_SENDS;
	wtime next;

	if (!t)
		return NULL;
	next = is_from(t, port, number) && t->next > now ? t->next : now;
	if (cause != PORT_NONE && t->sends) {
		sends = t->sends;
		cause = t->cause;
	}
	a->traps += !t->sends;
	*t = (struct trap){ .port = port, .cause = cause, .sends = sends, .next = next, .tid = ++a->last_trap };
	t->notice = (struct smp_notice){
		.is_generic = 1, .type = type, .producer = f->place[f->owner[port]].type, .trap_number = number,
		.issuer_lid = FABRIC_READ(f->port[port].lid),
	};
	return &t->notice;
}

void notice_link(struct agents *a, wtime now, uint32_t port)
{
	struct fabric *f = a->fabric;
	uint32_t node = f->owner[port];
	struct smp_notice *n;

	if (!fabric_is_switch(f, node))
		return;
	fabric_write(f, node);
	FABRIC_SET(f->node[node].port_state_change, 1);
	fabric_written(f, node);
	n = make(a, now, f->place[node].first_port, TRAP_LINK, URGENT, PORT_NONE);
	if (n)
		wire_put(n->data_details, n->issuer_lid, LINK_LID);
}

/* Of two ports of a switch the one that was last is told. */
void notice_link_error(struct agents *a, wtime now, uint32_t port, enum link_error e)
{
	struct smp_notice *n = make(a, now, smi_end_port(a->fabric, port), (uint16_t)(TRAP_LINK_ERROR + e), URGENT, PORT_NONE);

	if (!n)
		return;
	wire_put(n->data_details, n->issuer_lid, ERROR_LID);
	wire_put(n->data_details, fabric_port_number(a->fabric, port), ERROR_PORT);
}

void notice_capability(struct agents *a, wtime now, uint32_t port)
{
	struct smp_notice *n = make(a, now, port, TRAP_CAPABILITY, INFORMATIONAL, PORT_NONE);

	if (!n)
		return;
	wire_put(n->data_details, n->issuer_lid, CAPABILITY_LID);
	put32(n->data_details + 6, FABRIC_READ(a->fabric->port[port].capabilities));
}

void notice_m_key(struct agents *a, wtime now, uint32_t port, uint16_t slid, const uint8_t mad[MAD_BYTES])
{
	struct smp_notice *n = make(a, now, port, TRAP_M_KEY, SECURITY, PORT_NONE);
	struct mad_header h;
	struct smp_head s;

	if (!n)
		return;
	mad_header_parse(&h, mad);
	smp_head_get(&s, mad);
	wire_put(n->data_details, slid, KEY_LID);
	wire_put(n->data_details, h.mgmt_class == MAD_CLASS_SUBN_DIRECTED ? s.dr_slid : 0, M_KEY_DR_SLID);
	wire_put(n->data_details, h.method, M_KEY_METHOD);
	wire_put(n->data_details, h.attr_id, M_KEY_ATTRIBUTE);
	put32(n->data_details + 10, h.attr_modifier);
	put32(n->data_details + 14, (uint32_t)(s.m_key >> 32));
	put32(n->data_details + 18, (uint32_t)s.m_key);
}

static void put_queues(uint8_t *at, const struct mad_address *address)
{
	put32(at, (uint32_t)(address->path.sl & 15) << 28 | (address->src_qpn & 0xffffff));
	put32(at + 4, address->dest_qpn & 0xffffff);
}

/* The traps of both keys have the same details. */
static void put_key(const struct agents *a, struct smp_notice *n, uint32_t port, const struct mad_address *address, uint32_t key)
{
	if (!n)
		return;
	wire_put(n->data_details, address->path.slid, KEY_LID);
	wire_put(n->data_details, FABRIC_READ(a->fabric->port[port].lid), KEY_LID2);
	put32(n->data_details + 6, key);
	put_queues(n->data_details + 10, address);
}

void notice_switch_pkey(struct agents *a, wtime now, const struct walk_route *r, const struct mad_address *address)
{
	const struct fabric *f = a->fabric;
	uint32_t end_port = f->place[f->owner[r->at]].first_port;
	struct smp_notice *n = make(a, now, end_port, TRAP_SWITCH_PKEY, SECURITY, r->packet.from);

	if (!n)
		return;
	wire_put(n->data_details, SWITCH_PKEY_VALID, SWITCH_PKEY_DATA_VALID);
	wire_put(n->data_details, address->path.slid, KEY_LID);
	wire_put(n->data_details, address->path.dlid, KEY_LID2);
	wire_put(n->data_details, address->pkey, SWITCH_PKEY_KEY);
	put_queues(n->data_details + 8, address);
	wire_put(n->data_details, n->issuer_lid, SWITCH_PKEY_SWITCH);
	wire_put(n->data_details, fabric_port_number(f, r->at), SWITCH_PKEY_PORT);
}

void notice_pkey(struct agents *a, wtime now, const struct walk_route *r, const struct mad_address *address)
{
	put_key(a, make(a, now, r->at, TRAP_PKEY, SECURITY, r->packet.from), r->at, address, address->pkey);
}

void notice_qkey(struct agents *a, wtime now, const struct walk_route *r, const struct mad_address *address)
{
	put_key(a, make(a, now, r->at, TRAP_QKEY, SECURITY, r->packet.from), r->at, address, address->qkey);
}

static void end(struct agents *a, struct trap *t)
{
	a->traps--;
	t->sends = 0;
}

/* It names the trap by its number (13.4.9); the TID is the trap's, which some managers change. One that was not sent yet is
 * another one than it names. */
void notice_repress(struct agents *a, uint32_t port, const uint8_t mad[MAD_BYTES])
{
	struct smp_notice n;

	smp_notice_get(&n, mad + SMP_DATA);
	for (unsigned i = 0; i < AGENT_TRAPS; i++) {
		struct trap *t = &a->trap[i];

		if (t->sends && t->sends < TRAP_SENDS && is_from(t, port, n.trap_number))
			end(a, t);
	}
}

/* ---- sending ---- */

static wtime interval(const struct fabric_port *p)
{
	wtime ns = 4096ull << (FABRIC_READ(p->subnet_timeout) & 31);

	return ns < INTERVAL_LEAST ? INTERVAL_LEAST : ns;
}

static void build(struct trap *t, uint8_t mad[MAD_BYTES])
{
	struct mad_header h = {
		.base_version = MAD_BASE_VERSION, .mgmt_class = MAD_CLASS_SUBN_LID, .class_version = SMP_CLASS_VERSION,
		.method = MAD_TRAP, .tid = t->tid, .attr_id = SMP_NOTICE,
	};

	memset(mad, 0, MAD_BYTES);
	mad_header_build(&h, mad);
	t->notice.toggle = 0;
	smp_notice_put(&t->notice, mad + SMP_DATA);
}

wtime agents_deadline(const struct agents *a)
{
	wtime at = wtime_min(a->lease_end, a->sample_due);

	for (unsigned i = 0; a->traps && i < AGENT_TRAPS; i++) {
		if (a->trap[i].sends)
			at = wtime_min(at, a->trap[i].next);
	}
	return at;
}

/* Sends one that is due. False: it does not arrive. */
static bool send(struct agents *a, wtime now, struct trap *t, uint8_t mad[MAD_BYTES], struct mad_arrival *out)
{
	const struct fabric_port *p = &a->fabric->port[t->port];
	struct mad_address to = { .path = { .dlid = FABRIC_READ(p->sm_lid), .sl = FABRIC_READ(p->sm_sl) } };
	uint32_t port = t->port;

	build(t, mad);
	t->next = now + interval(p);
	if (!--t->sends)
		a->traps--;
	return agents_mad(a, now, port, &to, mad, out) == MAD_ARRIVED;
}

bool agents_output(struct agents *a, wtime now, uint8_t mad[MAD_BYTES], struct mad_arrival *out)
{
	agents_expire(a, now);
	for (unsigned i = 0; a->traps && i < AGENT_TRAPS; i++) {
		if (a->trap[i].sends && a->trap[i].next <= now && send(a, now, &a->trap[i], mad, out))
			return true;
	}
	return false;
}
