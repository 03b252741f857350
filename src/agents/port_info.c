/* PortInfo: a port's addresses, its link and the state of it (IBA 14.2.5.6). Addresses and keys are of end ports: of a switch its
 * port 0 has them. A port 0 has no link, and is active. What a Set tells is judged as a whole before any of it is used. */
#include "agents/call.h"

#include "agents/port_state.h"
#include "agents/smi.h"
#include "fabric/speed.h"
#include "wire/smp.h"

enum { RESPONSE_TIME = 18, VL_CAP_8 = 4 };	/* RespTimeValue: a second, our choice */

/* The lanes of a port, as VLCap and OperationalVLs tell them: 1, 2, 4, 8 and 15 data lanes. */
static uint8_t lanes_code(unsigned vls)
{
	return (uint8_t)(vls > 8 ? 5 : vls > 4 ? 4 : vls > 2 ? 3 : vls > 1 ? 2 : 1);
}

enum mad_status port_info_get(const struct call *c)
{
	const struct fabric *f = c->a->fabric;
	uint32_t port = call_port(c, call_port_info_number(c));
	const struct fabric_port *p = &f->port[port];
	struct smp_port_info info;

	if (port == PORT_NONE)
		return MAD_STATUS_BAD_VALUE;
	info = (struct smp_port_info){
		.m_key = c->m_key_hidden ? 0 : p->m_key, .prefix = p->prefix, .lid = p->lid, .sm_lid = p->sm_lid,
		.capabilities = p->capabilities, .m_key_lease = p->m_key_lease,
		.local_port = (uint8_t)fabric_port_number(f, c->port),
		.width_enabled = p->width_enabled, .width_supported = widths_supported(p->width_most),
		.width_active = p->width, .speed_supported = speeds_supported(p->speed_most), .state = p->state,
		.phys_state = p->phys_state, .down_default = p->down_default, .m_key_protect = p->m_key_protect,
		.lmc = p->lmc, .speed_active = speed_active(p->speed), .speed_enabled = p->speed_enabled, .mtu = p->mtu,
		.sm_sl = p->sm_sl, .vl_cap = VL_CAP_8, .vl_high_limit = p->vl_high_limit, .vlarb_high_cap = FABRIC_VLARB / 2,
		.vlarb_low_cap = FABRIC_VLARB / 2, .mtu_cap = MTU_4096, .vl_stall = p->vl_stall, .hoq_life = p->hoq_life,
		.operational_vls = lanes_code(p->vls), .enforce_in = p->enforce & ENFORCE_IN ? 1 : 0,
		.enforce_out = p->enforce & ENFORCE_OUT ? 1 : 0, .m_key_violations = p->m_key_violations,
		.pkey_violations = p->pkey_violations, .qkey_violations = p->qkey_violations, .guid_cap = FABRIC_GUIDS,
		.subnet_timeout = p->subnet_timeout, .response_time = RESPONSE_TIME,
		.phy_errors = p->phy_errors, .overrun_errors = p->overrun_errors, .ext_active = ext_speed_active(p->speed),
		.ext_supported = ext_speeds_supported(p->speed_most), .ext_enabled = p->ext_enabled,
	};
	if (!fabric_port_number(f, port)) {
		info.state = PORT_ACTIVE;
		info.phys_state = PHYS_LINK_UP;
		info.width_active = p->width_most;
		info.speed_active = speed_active(p->speed_most);
	}
	smp_port_info_put(&info, c->data);
	return 0;
}

/* ---- set ---- */

/* 14.2.5.6: values of PortState, and of the enabled widths and speeds */
enum { NO_CHANGE = 0, WIDTH_ALL = 255, SPEED_ALL = 15, EXT_ALL = 31, EXT_NONE = 30 };

static bool good_lids(const struct fabric *f, const struct fabric_port *p, bool is_switch, const struct smp_port_info *in)
{
	uint32_t lids = 1u << in->lmc;

	if (in->sm_lid >= MLID_FIRST || (is_switch && in->lmc))
		return false;
	if (!in->lid)
		return !p->lid && !in->lmc;
	return in->lid + lids <= f->lids && !(in->lid & (lids - 1));
}

/* A new value of an enabled field: none, all that is supported, or some of it. */
static bool good_choice(unsigned value, unsigned all, unsigned supported)
{
	return value == NO_CHANGE || value == all || !(value & ~supported);
}

static bool good_link(const struct fabric_port *p, const struct smp_port_info *in)
{
	return good_choice(in->width_enabled, WIDTH_ALL, widths_supported(p->width_most)) &&
	       good_choice(in->speed_enabled, SPEED_ALL, speeds_supported(p->speed_most)) &&
	       (in->ext_enabled == EXT_NONE || good_choice(in->ext_enabled, EXT_ALL, ext_speeds_supported(p->speed_most))) &&
	       in->mtu >= 1 && in->mtu <= MTU_4096 && in->operational_vls <= VL_CAP_8 && in->down_default != 1 &&
	       in->down_default <= PHYS_POLLING;
}

/* Table 146: which states a manager may ask for. */
static bool good_state(const struct fabric_port *p, const struct smp_port_info *in)
{
	if (in->phys_state && in->phys_state != PHYS_POLLING && in->phys_state != PHYS_DISABLED)
		return false;
	switch (in->state) {
	case NO_CHANGE:
	case PORT_DOWN:
		return true;
	case PORT_ARMED:
		return !in->phys_state && (p->state == PORT_INIT || p->state == PORT_ARMED);
	case PORT_ACTIVE:
		return !in->phys_state && (p->state == PORT_ARMED || p->state == PORT_ACTIVE);
	}
	return false;
}

static void set_addresses(struct fabric_port *p, const struct smp_port_info *in)
{
	FABRIC_SET(p->m_key, in->m_key);
	FABRIC_SET(p->prefix, in->prefix);
	FABRIC_SET(p->lid, in->lid);
	FABRIC_SET(p->lmc, in->lmc);
	FABRIC_SET(p->sm_lid, in->sm_lid);
	FABRIC_SET(p->sm_sl, in->sm_sl);
	p->m_key_lease = in->m_key_lease;
	p->m_key_protect = in->m_key_protect;
	FABRIC_SET(p->subnet_timeout, in->subnet_timeout);
	FABRIC_SET(p->reregistered, (uint8_t)(p->reregistered + in->reregister));
	p->m_key_violations = in->m_key_violations ? p->m_key_violations : 0;
	p->pkey_violations = in->pkey_violations ? p->pkey_violations : 0;
	p->qkey_violations = in->qkey_violations ? p->qkey_violations : 0;
}

static void set_link(struct fabric_port *p, bool is_switch, const struct smp_port_info *in)
{
	static const uint8_t lanes[] = { 0, 1, 2, 4, 8 };
	uint8_t widths = widths_supported(p->width_most), speeds = speeds_supported(p->speed_most);

	if (in->width_enabled)
		p->width_enabled = in->width_enabled & widths;
	if (in->speed_enabled)
		p->speed_enabled = in->speed_enabled & speeds;
	if (in->ext_enabled)
		p->ext_enabled = in->ext_enabled == EXT_NONE ? 0 : in->ext_enabled & ext_speeds_supported(p->speed_most);
	if (in->operational_vls)
		FABRIC_SET(p->vls, lanes[in->operational_vls]);
	if (in->down_default)
		p->down_default = in->down_default;
	FABRIC_SET(p->mtu, in->mtu);
	p->vl_high_limit = in->vl_high_limit;
	p->vl_stall = in->vl_stall;
	p->hoq_life = in->hoq_life;
	p->phy_errors = in->phy_errors;
	p->overrun_errors = in->overrun_errors;
	if (is_switch)
		FABRIC_SET(p->enforce, (in->enforce_in ? ENFORCE_IN : 0) | (in->enforce_out ? ENFORCE_OUT : 0));
}

static void set_state(const struct call *c, uint32_t port, const struct smp_port_info *in)
{
	struct fabric_port *p = &c->a->fabric->port[port];
	bool trains = in->phys_state == PHYS_POLLING;

	if (in->state == PORT_ARMED || in->state == PORT_ACTIVE)
		FABRIC_SET(p->state, in->state);
	else if (in->state == PORT_DOWN || in->phys_state == PHYS_DISABLED || trains)
		port_state_down(c->a, c->now, port, in->phys_state == PHYS_DISABLED ? PHYS_DISABLED : PHYS_POLLING);
}

/* Another port of the same adapter is its own manager's: it is reached by its own link. */
enum mad_status port_info_set(const struct call *c)
{
	struct fabric *f = c->a->fabric;
	uint32_t port = call_port(c, call_port_info_number(c));
	bool is_switch = fabric_is_switch(f, c->node), is_end, has_link;
	struct smp_port_info in;

	if (port == PORT_NONE || (!is_switch && port != c->port))
		return MAD_STATUS_BAD_VALUE;
	has_link = fabric_port_number(f, port) != 0;
	is_end = !is_switch || !has_link;
	smp_port_info_get(&in, c->data);
	if ((is_end && !good_lids(f, &f->port[port], is_switch, &in)) ||
	    (has_link && (!good_link(&f->port[port], &in) || !good_state(&f->port[port], &in))))
		return MAD_STATUS_BAD_VALUE;
	if (is_end)
		set_addresses(&f->port[port], &in);
	if (has_link) {
		set_link(&f->port[port], is_switch, &in);
		set_state(c, port, &in);
	}
	return 0;
}
