#include "agents/port_state.h"

#include "agents/notice.h"
#include "fabric/speed.h"


static enum link_speed common_speed(const struct fabric_port *a, const struct fabric_port *b)
{
	uint8_t speed = a->speed_most < b->speed_most ? a->speed_most : b->speed_most;

	for (; speed > SPEED_UNKNOWN; speed--) {
		if (speed_is_enabled(speed, a->speed_enabled, a->ext_enabled) &&
		    speed_is_enabled(speed, b->speed_enabled, b->ext_enabled))
			break;
	}
	return (enum link_speed)speed;
}

static bool may_train(const struct fabric_port *p)
{
	return p->state == PORT_DOWN && p->phys_state != PHYS_DISABLED && !p->unplugged;
}

static void set_state(struct agents *a, wtime now, uint32_t port, enum port_state state, enum port_phys phys)
{
	struct fabric *f = a->fabric;
	bool changes = (f->port[port].state == PORT_DOWN) != (state == PORT_DOWN);

	fabric_write(f, f->owner[port]);
	FABRIC_SET(f->port[port].state, state);
	FABRIC_SET(f->port[port].phys_state, phys);
	fabric_written(f, f->owner[port]);
	a->changes++;
	if (changes && state == PORT_DOWN)
		a->counters[port].total[COUNT_LINK_DOWNED]++;
	if (changes)
		notice_link(a, now, port);
}

void port_state_down(struct agents *a, wtime now, uint32_t port, enum port_phys phys)
{
	uint32_t peer = fabric_peer(a->fabric, port);

	set_state(a, now, port, PORT_DOWN, phys);
	if (peer != PORT_NONE && a->fabric->port[peer].state != PORT_DOWN)
		set_state(a, now, peer, PORT_DOWN, PHYS_POLLING);
}

void port_state_train(struct agents *a, wtime now, uint32_t port)
{
	struct fabric *f = a->fabric;
	uint32_t ends[2] = { port, fabric_peer(f, port) };
	uint8_t width, speed;

	if (ends[1] == PORT_NONE || !may_train(&f->port[ends[0]]) || !may_train(&f->port[ends[1]]))
		return;
	width = width_of_bits(f->port[ends[0]].width_enabled & f->port[ends[1]].width_enabled);
	speed = common_speed(&f->port[ends[0]], &f->port[ends[1]]);
	if (!width || !speed)
		return;
	for (int i = 0; i < 2; i++) {
		fabric_write(f, f->owner[ends[i]]);
		FABRIC_SET(f->port[ends[i]].width, width);
		FABRIC_SET(f->port[ends[i]].speed, speed);
		fabric_written(f, f->owner[ends[i]]);
		set_state(a, now, ends[i], PORT_INIT, PHYS_LINK_UP);
	}
}
