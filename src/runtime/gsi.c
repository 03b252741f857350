#include "runtime/gsi.h"

#include "peers/route.h"
#include "runtime/entry.h"
#include "runtime/faults.h"
#include "runtime/pump.h"
#include "runtime/state.h"
#include "wire/pkey.h"

#include <string.h>

void gsi_send(struct runtime *rt, const struct gmp *gmp)
{
	const struct ca_device *dev = &rt->ca.dev[gmp->device];
	enum packet_form form = dev->protocol->form;
	unsigned kind = link_kind((unsigned)gmp->device, form);
	uint8_t frame[GMP_FRAME];
	struct route r;
	size_t bytes = gmp_build(gmp, form, frame);

	if (!bytes)
		return;
	runtime_enter(rt);
	route_ask(&rt->ca, dev, gmp->pkey, &gmp->path, GSI_QPN, &r);
	port_load_pass(dev->load, PORT_LOAD_XMIT, bytes / 4, 1, false);
	if (rt->faults)
		faults_send_frame(rt, &r, kind, frame, bytes);
	else if (r.kind == ROUTE_MANAGEMENT)
		gsi_send_frame(rt, kind, frame, bytes);
	else
		pump_send_frame(rt, route_link(&r), kind, CA_PORT, frame, bytes);
	runtime_leave(rt);
}

void gsi_send_frame(struct runtime *rt, unsigned kind, const void *frame, size_t bytes)
{
	struct control_msg msg = { .type = CTL_FRAME, .device = link_device(kind), .text_bytes = (uint32_t)bytes };

	if (session_post(&rt->session, &msg, frame))
		ca_count(&rt->ca, &rt->ca.dev[msg.device], COUNTER_INDEX(send_err), 1);
	else
		rt->ca.counters.tx_bytes += bytes;
}

bool gsi_is_for_qp1(const struct packet *p)
{
	return p->form == PACKET_IB && p->opcode == OPCODE_UD_SEND_ONLY && p->dest_qpn == GSI_QPN &&
	       p->payload_bytes == MAD_BYTES;
}

void gsi_send_packet(struct runtime *rt, unsigned kind, const struct packet *p)
{
	uint8_t frame[GMP_FRAME];
	size_t bytes = packet_build(p, frame, sizeof(frame));

	if (bytes)
		gsi_send_frame(rt, kind, frame, bytes);
}

void gsi_receive(struct runtime *rt, int device, const void *frame, size_t bytes)
{
	unsigned kind;

	if (device < 0 || device >= rt->ca.devices)
		return;
	kind = link_kind((unsigned)device, rt->ca.dev[device].protocol->form);
	runtime_enter(rt);
	if (rt->faults) {
		faults_receive(rt, 0, kind, frame, bytes);
		faults_run(rt, IMPAIR_IN);
	} else {
		gsi_deliver(rt, kind, frame, bytes);
	}
	runtime_leave(rt);
}

static bool is_in_partition(const struct ca_device *dev, uint16_t pkey)
{
	for (int i = 0; i < dev->pkeys; i++)
		if (pkey_matches(dev->pkey[i], pkey))
			return true;
	return false;
}

static void keep(struct gsi *g, const struct gmp *gmp)
{
	if (g->count < GSI_ARRIVED)
		g->arrived[(g->first + g->count++) % GSI_ARRIVED] = *gmp;
}

void gsi_deliver(struct runtime *rt, unsigned kind, const void *frame, size_t bytes)
{
	struct gmp gmp = { .device = (int)link_device(kind) };
	const struct ca_device *dev = &rt->ca.dev[gmp.device];
	enum gmp_verdict verdict = gmp_parse(&gmp, link_form(kind), frame, bytes);

	if (verdict == GMP_NOT_QP1) {
		pump_deliver(rt, ORIGIN_OWNER, kind, frame, bytes);
		return;
	}
	rt->ca.counters.rx_bytes += bytes;
	switch (verdict) {
	case GMP_OK:
		break;
	case GMP_SPOILT:
		rt->ca.counters.icrc_errors++;
		return;
	default:
		rt->ca.counters.malformed++;
		return;
	}
	if (!is_in_partition(dev, gmp.pkey))
		return;
	port_load_pass(dev->load, PORT_LOAD_RCV, bytes / 4, 1, false);
	/* a fabric is within this host */
	gmp.is_from_here = device_has(dev, DEVICE_LIDS) ||
			   device_is_port(dev, gmp.path.slid, gmp.path.has_grh ? gmp.path.sgid : NULL);
	keep(&rt->gsi, &gmp);
}

bool gsi_take(struct runtime *rt, struct gmp *gmp)
{
	struct gsi *g = &rt->gsi;
	bool any;

	runtime_enter_briefly(rt);
	any = g->count;
	if (any) {
		*gmp = g->arrived[g->first];
		g->first = (g->first + 1) % GSI_ARRIVED;
		g->count--;
	}
	runtime_leave(rt);
	return any;
}
