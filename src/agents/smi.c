/* One step a node, until the SMP is where it is for. The hop pointer only grows on the way there and only falls on the way back,
 * and a route by LIDs has a bound of its own, so no route is endless. */
#include "agents/smi.h"

#include "agents/crossing.h"
#include "fabric/walk.h"

enum step { STEP_LINK, STEP_LID, STEP_HERE, STEP_DISCARD };

uint32_t smi_end_port(const struct fabric *f, uint32_t port)
{
	uint32_t node = f->owner[port];

	return fabric_is_switch(f, node) ? f->place[node].first_port : port;
}

/* 14.2.2.2: the way there. `begins`: the SMP has not come by a link. *out: the number of the port by which it leaves. */
static enum step step_there(const struct fabric *f, struct smp_head *h, uint32_t port, bool begins, unsigned *out)
{
	unsigned number = fabric_port_number(f, port);
	bool is_switch = fabric_is_switch(f, f->owner[port]);

	if (h->hop_count && !h->hop_pointer) {
		*out = h->initial_path[++h->hop_pointer];
		return is_switch || *out == number ? STEP_LINK : STEP_DISCARD;
	}
	if (h->hop_pointer == h->hop_count + 1)
		return STEP_HERE;
	if (begins && h->hop_count)
		return STEP_DISCARD;
	if (h->hop_count)
		h->return_path[h->hop_pointer] = (uint8_t)number;
	h->hop_pointer++;
	if (h->hop_pointer > h->hop_count)
		return h->dr_dlid == LID_PERMISSIVE ? STEP_HERE : STEP_LID;
	*out = h->initial_path[h->hop_pointer];
	return is_switch ? STEP_LINK : STEP_DISCARD;
}

/* 14.2.2.4: the way back. */
static enum step step_back(const struct fabric *f, struct smp_head *h, uint32_t port, bool begins, unsigned *out)
{
	unsigned number = fabric_port_number(f, port);
	bool is_switch = fabric_is_switch(f, f->owner[port]);

	if (!h->hop_pointer)
		return STEP_HERE;
	if (h->hop_pointer == 1) {
		h->hop_pointer = 0;
		return h->dr_slid == LID_PERMISSIVE ? STEP_HERE : STEP_LID;
	}
	if (h->hop_pointer <= h->hop_count && (begins || !is_switch))
		return STEP_DISCARD;
	*out = h->return_path[--h->hop_pointer];
	return is_switch || *out == number ? STEP_LINK : STEP_DISCARD;
}

/* By the link of this port of the node. Management packets pass links that are not armed yet (7.2.7). */
static enum mad_loss cross(struct agents *a, uint32_t *port, unsigned number)
{
	const struct fabric *f = a->fabric;
	uint32_t node = f->owner[*port], out, peer;
	enum mad_loss loss;

	if (!number || number > f->place[node].ports)
		return LOSS_BAD_ROUTE;
	out = fabric_port_index(f, node, number);
	peer = fabric_peer(f, out);
	if (peer == PORT_NONE || FABRIC_READ(f->port[out].state) == PORT_DOWN || FABRIC_READ(f->port[peer].state) == PORT_DOWN)
		return LOSS_NO_LINK;
	loss = crossing_link(a, out, peer, VL_MANAGEMENT, false);
	if (loss == LOSS_NONE)
		*port = peer;
	return loss;
}

/* By LIDs, to the port that has it. */
static enum mad_loss route(struct agents *a, struct smp_place *place, uint8_t sl)
{
	const struct fabric *f = a->fabric;
	struct walk_packet p = { .from = place->port, .dlid = place->dlid, .sl = sl, .switches = SWITCHES_MOST, .is_smp = true };
	enum walk_verdict v;
	struct walk_route r;
	enum mad_loss loss;

	p.from = smi_end_port(f, p.from);
	v = fabric_walk(f, &p, &r);
	loss = crossing_way(a, &r, false);
	if (loss != LOSS_NONE)
		return loss;
	if (v != WALK_DELIVERED)
		return LOSS_NO_ROUTE;
	place->port = r.links ? fabric_peer(f, r.out[r.links - 1]) : r.at;
	return place->port == PORT_NONE ? LOSS_NO_LINK : LOSS_NONE;
}

static uint16_t lid_of(const struct fabric *f, uint32_t port)
{
	return FABRIC_READ(f->port[smi_end_port(f, port)].lid);
}

static enum mad_loss carry_directed(struct agents *a, struct smp_place *place, uint8_t sl, struct smp_head *h)
{
	const struct fabric *f = a->fabric;
	enum mad_loss loss = LOSS_NONE;
	bool begins = true;

	while (loss == LOSS_NONE) {
		unsigned out = 0;
		enum step step = h->hop_count > SMP_HOPS_MOST || h->hop_pointer > h->hop_count + 1 ? STEP_DISCARD :
				 (h->is_return ? step_back : step_there)(f, h, place->port, begins, &out);

		if (step == STEP_HERE)
			return LOSS_NONE;
		if (step == STEP_DISCARD)
			return LOSS_BAD_ROUTE;
		begins = step == STEP_LID;
		if (step == STEP_LID) {
			place->slid = lid_of(f, place->port);
			place->dlid = h->is_return ? h->dr_slid : h->dr_dlid;
			loss = route(a, place, sl);
		} else {
			place->slid = place->dlid = LID_PERMISSIVE;
			loss = cross(a, &place->port, out);
		}
	}
	return loss;
}

enum mad_loss smi_carry(struct agents *a, struct smp_place *place, uint8_t sl, uint8_t mad[MAD_BYTES])
{
	struct mad_header m;
	struct smp_head h;
	enum mad_loss loss = LOSS_NONE;

	mad_header_parse(&m, mad);
	if (m.mgmt_class != MAD_CLASS_SUBN_DIRECTED && place->dlid == LID_PERMISSIVE)
		return LOSS_NO_ROUTE;
	if (place->dlid != LID_PERMISSIVE)
		loss = route(a, place, sl);
	if (loss != LOSS_NONE || m.mgmt_class != MAD_CLASS_SUBN_DIRECTED)
		return loss;
	smp_head_get(&h, mad);
	loss = carry_directed(a, place, sl, &h);
	smp_head_put(&h, mad);
	return loss;
}
