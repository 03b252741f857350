/* A row for each attribute. */
#include "agents/sma.h"

#include "agents/call.h"
#include "agents/notice.h"
#include "agents/port_state.h"
#include "agents/samples.h"
#include "agents/smi.h"
#include "wire/smp.h"

#include <string.h>

enum {
	REVISION = 0xa0,	/* NodeInfo.Revision: our choice */
	LED_ON = 0x80,		/* LedMask: 14.2.5.16 */
};

/* A status of the MAD, 0: done. A setter's data are then read back. */
typedef enum mad_status (*accessor)(const struct call *c);

static enum mad_status get_node_description(const struct call *c)
{
	struct smp_node_description d = { { 0 } };

	memcpy(d.text, c->a->fabric->node[c->node].description, sizeof(d.text));
	smp_node_description_put(&d, c->data);
	return 0;
}

static enum mad_status get_node_info(const struct call *c)
{
	const struct fabric *f = c->a->fabric;
	const struct fabric_node *n = &f->node[c->node];
	struct smp_node_info info = {
		.base_version = MAD_BASE_VERSION, .class_version = SMP_CLASS_VERSION, .node_type = n->type, .ports = n->ports,
		.system_guid = n->system_guid, .node_guid = n->guid, .port_guid = f->port[smi_end_port(f, c->port)].guid,
		.partition_cap = PORT_PKEYS, .device_id = n->device, .revision = REVISION,
		.local_port = (uint8_t)fabric_port_number(f, c->port), .vendor_id = n->vendor & 0xffffff,
	};

	smp_node_info_put(&info, c->data);
	return 0;
}

static enum mad_status get_switch_info(const struct call *c)
{
	const struct fabric *f = c->a->fabric;
	const struct fabric_node *n = &f->node[c->node];
	struct smp_switch_info info = {
		.linear_cap = (uint16_t)f->lids, .multicast_cap = (uint16_t)f->mlids, .linear_top = n->lft_top,
		.default_port = n->default_port, .default_multicast_primary = n->default_multicast_primary,
		.default_multicast_other = n->default_multicast_other, .life_time = n->life_time,
		.port_state_change = n->port_state_change, .optimized_sl2vl = 1, .enforcement_cap = PORT_PKEYS,
		.enforce_in_cap = 1, .enforce_out_cap = 1, .enhanced_port0 = n->enhanced_port0, .multicast_top = n->mft_top,
	};

	smp_switch_info_put(&info, c->data);
	return 0;
}

static enum mad_status set_switch_info(const struct call *c)
{
	const struct fabric *f = c->a->fabric;
	struct fabric_node *n = &f->node[c->node];
	struct smp_switch_info in;

	smp_switch_info_get(&in, c->data);
	if (in.linear_top >= f->lids)
		return MAD_STATUS_BAD_VALUE;
	FABRIC_SET(n->lft_top, in.linear_top);
	n->default_port = in.default_port;
	n->default_multicast_primary = in.default_multicast_primary;
	n->default_multicast_other = in.default_multicast_other;
	n->life_time = in.life_time;
	if (in.port_state_change)
		n->port_state_change = 0;
	return 0;
}

/* 14.2.5.15: nobody has anything to tell. */
static enum mad_status get_vendor_diag(const struct call *c)
{
	memset(c->data, 0, SMP_DATA_BYTES);
	return c->modifier ? MAD_STATUS_BAD_VALUE : 0;
}

static enum mad_status get_led_info(const struct call *c)
{
	memset(c->data, 0, SMP_DATA_BYTES);
	c->data[0] = c->a->fabric->node[c->node].led ? LED_ON : 0;
	return 0;
}

static enum mad_status set_led_info(const struct call *c)
{
	c->a->fabric->node[c->node].led = (c->data[0] & LED_ON) != 0;
	return 0;
}

static const struct row {
	uint16_t attribute;
	bool of_switches;		/* only they have it */
	accessor get, set;
} rows[] = {
	{ SMP_NODE_DESCRIPTION, false, get_node_description, NULL },
	{ SMP_NODE_INFO, false, get_node_info, NULL },
	{ SMP_SWITCH_INFO, true, get_switch_info, set_switch_info },
	{ SMP_GUID_INFO, false, guid_info_get, guid_info_set },
	{ SMP_PORT_INFO, false, port_info_get, port_info_set },
	{ SMP_PKEY_TABLE, false, pkey_table_get, pkey_table_set },
	{ SMP_SL2VL, false, sl2vl_get, sl2vl_set },
	{ SMP_VLARB, false, vlarb_get, vlarb_set },
	{ SMP_LFT, true, lft_get, lft_set },
	{ SMP_MFT, true, mft_get, mft_set },
	{ SMP_VENDOR_DIAG, false, get_vendor_diag, NULL },
	{ SMP_LED_INFO, false, get_led_info, set_led_info },
};

bool sma_has(const struct mad_header *h)
{
	bool asks = h->method == MAD_GET || h->method == MAD_SET;

	return h->method == MAD_TRAP_REPRESS || (asks && h->attr_id != SMP_SM_INFO);
}

/* Sets under the node's sequence word. A link that a Set lets train comes up when the rest is written. */
static enum mad_status set(const struct call *c, const struct row *row)
{
	enum mad_status status;

	fabric_write(c->a->fabric, c->node);
	status = row->set(c);
	fabric_written(c->a->fabric, c->node);
	if (status)
		return status;
	c->a->changes++;
	if (row->attribute == SMP_PORT_INFO)
		port_state_train(c->a, c->now, call_port(c, call_port_info_number(c)));
	return 0;
}

static enum mad_status serve(const struct call *c, const struct mad_header *h)
{
	const struct row *row = rows, *end = rows + sizeof(rows) / sizeof(rows[0]);
	enum mad_status status = 0;

	if (h->base_version != MAD_BASE_VERSION || h->class_version != SMP_CLASS_VERSION)
		return MAD_STATUS_BAD_VERSION;
	while (row < end && row->attribute != h->attr_id)
		row++;
	if (row == end || (row->of_switches && !fabric_is_switch(c->a->fabric, c->node)) || (h->method == MAD_SET && !row->set))
		return MAD_STATUS_BAD_ATTRIBUTE;
	if (h->method == MAD_SET)
		status = set(c, row);
	return status ? status : row->get(c);
}

/* ---- M_Keys, 14.2.4 ---- */

enum { PROTECT_HIDES = 1, PROTECT_READING = 2 };	/* M_KeyProtectBits, table 141 */

/* The first bad key starts the lease, the right one ends it. */
static void violate(struct agents *a, wtime now, uint32_t port, const struct smp_place *place, const uint8_t mad[MAD_BYTES])
{
	struct fabric_port *p = &a->fabric->port[port];

	fabric_write(a->fabric, a->fabric->owner[port]);
	if (p->m_key_violations < UINT16_MAX)
		p->m_key_violations++;
	fabric_written(a->fabric, a->fabric->owner[port]);
	if (p->m_key_lease && !a->lease[port]) {
		a->lease[port] = now + p->m_key_lease * WTIME_S;
		a->lease_end = wtime_min(a->lease_end, a->lease[port]);
	}
	notice_m_key(a, now, port, place->slid, mad);
}

/* A lease that ended: anybody may read the key, and so set it. */
void agents_expire(struct agents *a, wtime now)
{
	struct fabric *f = a->fabric;

	samples_expire(a, now);
	if (now < a->lease_end)
		return;
	a->lease_end = WTIME_NEVER;
	for (uint32_t port = 0; port < f->ports; port++) {
		if (a->lease[port] && a->lease[port] <= now) {
			a->lease[port] = 0;
			fabric_write(f, f->owner[port]);
			f->port[port].m_key_protect = 0;
			fabric_written(f, f->owner[port]);
		} else if (a->lease[port]) {
			a->lease_end = wtime_min(a->lease_end, a->lease[port]);
		}
	}
}

/* May the request be served? */
static bool check_m_key(struct call *c, const struct smp_place *place, uint8_t method, const uint8_t mad[MAD_BYTES])
{
	uint32_t port = smi_end_port(c->a->fabric, place->port);
	const struct fabric_port *p = &c->a->fabric->port[port];
	struct smp_head h;

	smp_head_get(&h, mad);
	if (!p->m_key || h.m_key == p->m_key) {
		c->a->lease[port] = 0;
		return true;
	}
	c->m_key_hidden = p->m_key_protect >= PROTECT_HIDES;
	if (method == MAD_GET && p->m_key_protect < PROTECT_READING)
		return true;
	violate(c->a, c->now, port, place, mad);
	return false;
}

enum mad_outcome sma_input(struct agents *a, wtime now, const struct smp_place *place, uint8_t mad[MAD_BYTES],
			   enum mad_loss *loss)
{
	struct call c = { .a = a, .now = now, .node = a->fabric->owner[place->port], .port = place->port,
			  .data = mad + SMP_DATA };
	struct mad_header h;

	mad_header_parse(&h, mad);
	c.modifier = h.attr_modifier;
	if (!check_m_key(&c, place, h.method, mad)) {
		*loss = LOSS_M_KEY;
		return MAD_LOST;
	}
	if (h.method == MAD_TRAP_REPRESS) {
		notice_repress(a, smi_end_port(a->fabric, place->port), mad);
		return MAD_TAKEN;
	}
	mad_respond(mad, serve(&c, &h));
	return MAD_ANSWERED;
}
