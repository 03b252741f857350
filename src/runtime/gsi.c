#include "runtime/gsi.h"

#include "peers/route.h"
#include "runtime/faults.h"
#include "runtime/pump.h"
#include "runtime/runtime.h"
#include "wire/pkey.h"

#include <string.h>

void gsi_send(struct host *h, const struct gmp *gmp)
{
	const struct ca_device *dev = &h->ca.dev[gmp->device];
	enum packet_form form = dev->protocol->form;
	unsigned kind = link_kind((unsigned)gmp->device, form);
	uint8_t frame[GMP_FRAME];
	struct route r;
	size_t bytes = gmp_build(gmp, form, frame);

	if (!bytes)
		return;
	host_enter(h);
	route_ask(&h->ca, dev, &gmp->path, GSI_QPN, &r);
	if (h->faults)
		faults_send_frame(h, &r, kind, frame, bytes);
	else if (r.kind == ROUTE_MANAGEMENT)
		gsi_send_frame(h, kind, frame, bytes);
	else
		pump_send_frame(h, route_link(&r), kind, frame, bytes);
	host_leave(h);
}

void gsi_send_frame(struct host *h, unsigned kind, const void *frame, size_t bytes)
{
	struct control_msg msg = { .type = CTL_FRAME, .device = link_device(kind), .text_bytes = (uint32_t)bytes };

	if (session_post(&h->session, &msg, frame))
		h->ca.counters.send_err++;
	else
		h->ca.counters.tx_bytes += bytes;
}

void gsi_receive(struct host *h, int device, const void *frame, size_t bytes)
{
	unsigned kind;

	if (device < 0 || device >= h->ca.devices)
		return;
	kind = link_kind((unsigned)device, h->ca.dev[device].protocol->form);
	host_enter(h);
	if (h->faults) {
		faults_receive(h, 0, kind, frame, bytes);
		faults_run(h, IMPAIR_IN);
	} else {
		gsi_deliver(h, kind, frame, bytes);
	}
	host_leave(h);
}

static bool is_in_partition(const struct ca_device *dev, uint16_t pkey)
{
	for (int i = 0; i < CA_PKEYS; i++)
		if (pkey_matches(dev->pkey[i], pkey))
			return true;
	return false;
}

static void keep(struct gsi *g, const struct gmp *gmp)
{
	if (g->count < GSI_ARRIVED)
		g->arrived[(g->first + g->count++) % GSI_ARRIVED] = *gmp;
}

void gsi_deliver(struct host *h, unsigned kind, const void *frame, size_t bytes)
{
	struct gmp gmp = { .device = (int)link_device(kind) };
	const struct ca_device *dev = &h->ca.dev[gmp.device];

	h->ca.counters.rx_bytes += bytes;
	switch (gmp_parse(&gmp, link_form(kind), frame, bytes)) {
	case GMP_OK:
		break;
	case GMP_SPOILT:
		h->ca.counters.icrc_errors++;
		return;
	default:
		h->ca.counters.malformed++;
		return;
	}
	if (!is_in_partition(dev, gmp.pkey))
		return;
	gmp.is_from_here = device_is_port(dev, gmp.path.slid, gmp.path.has_grh ? gmp.path.sgid : NULL);
	keep(&h->gsi, &gmp);
}

bool gsi_take(struct host *h, struct gmp *gmp)
{
	struct gsi *g = &h->gsi;
	bool any;

	host_enter_briefly(h);
	any = g->count;
	if (any) {
		*gmp = g->arrived[g->first];
		g->first = (g->first + 1) % GSI_ARRIVED;
		g->count--;
	}
	host_leave(h);
	return any;
}
