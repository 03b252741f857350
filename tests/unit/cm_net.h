/* Two communication managers over a simulated path in virtual time, which may lose, double and delay any MAD. */
#ifndef WEFT_TESTS_UNIT_CM_NET_H
#define WEFT_TESTS_UNIT_CM_NET_H

#include "mgmt/cm.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>
#include <errno.h>
#include <infiniband/verbs.h>
#include <stdio.h>
#include <string.h>

enum { SIDES = 2, FLIGHTS = 64, SERVICE = 0x1061234, DELAY = 1000000 };
enum fault { FAULT_NONE, FAULT_DROP, FAULT_DUPLICATE, FAULT_DELAY, FAULTS };
enum plan { PLAN_CONNECT, PLAN_REJECT, PLAN_SIDR, PLAN_BOTH_DISCONNECT, PLAN_SYMMETRIC, PLAN_LAP, PLANS };

struct flight {
	bool used;
	int to;
	wtime at;
	uint8_t by;		/* ALTERNATE, or 0 */
	uint8_t mad[MAD_BYTES];
};

struct side {
	struct cm cm;
	struct cm_id *id;
	int established, disconnected, rejected, unreachable, requests, sidr, timewaits, laps, aprs, laps_lost;
	uint16_t reason;
	uint8_t heard;		/* first byte of the last private data */
	uint8_t apr;		/* what it answers to a LAP, and what was answered to its own */
};

struct net {
	struct side side[SIDES];
	struct flight flight[FLIGHTS];
	wtime now;
	enum plan plan;
	int sent;
	enum fault faults[2];
	int fault_at[2];
	uint64_t trace;		/* of everything sent */
};

static const struct cm_path path[SIDES] = {
	{ .device = 1, .sgid = { 1 }, .dgid = { 2 }, .slid = 0xffff, .dlid = 0xffff, .pkey = 0xffff, .mtu = 3,
	  .ack_timeout = 19, .hop_limit = 64 },
	{ .device = 1, .sgid = { 2 }, .dgid = { 1 }, .slid = 0xffff, .dlid = 0xffff, .pkey = 0xffff, .mtu = 3,
	  .ack_timeout = 19, .hop_limit = 64 },
};

static uint32_t slot_of(int side)
{
	return (uint32_t)side + 5;
}

/* The first byte of a side's GID, and of a third port's. */
enum { STRANGER = 77, APR_LATER = 0xff, ALTERNATE = 10 /* added to both for the second path */ };

static uint8_t port_of(int side)
{
	return (uint8_t)(side + 1);
}

/* Are the sides hosts? */
static bool is_abroad;

/* A MAD as it comes to QP1 of a side, from a port of this host. */
static struct gmp arriving_by(uint8_t by, int side, uint8_t from, const uint8_t mad[MAD_BYTES])
{
	struct gmp in = { .device = 1, .pkey = 0xffff, .is_from_here = !is_abroad,
			  .path = { .has_grh = true, .sgid = { from + by }, .dgid = { port_of(side) + by } } };

	memcpy(in.mad, mad, MAD_BYTES);
	return in;
}

static inline struct gmp arriving(int side, uint8_t from, const uint8_t mad[MAD_BYTES])
{
	return arriving_by(0, side, from, mad);
}

static inline bool deliver(struct cm *cm, int side, wtime now, const uint8_t mad[MAD_BYTES], struct cm_event *event)
{
	struct gmp in = arriving(side, port_of(!side), mad);

	return cm_input(cm, now, &in, event);
}

static struct cm_param param_of(int side, const char *words)
{
	return (struct cm_param){ .qp_type = IBV_QPT_RC, .qpn = 0x5000u + (uint32_t)side, .psn = 0x1234, .responder_resources = 3,
				  .initiator_depth = 4, .retry_count = 7, .rnr_retry_count = 6, .qkey = 0x01234567,
				  .private_data = (const uint8_t *)words, .private_bytes = (uint32_t)strlen(words) };
}

static void launch(struct net *n, int from, const struct gmp *out)
{
	enum fault fault = FAULT_NONE;
	uint8_t by;

	for (int i = 0; i < 2; i++)
		if (n->sent == n->fault_at[i])
			fault = n->faults[i];
	n->sent++;
	for (int i = 0; i < MAD_BYTES; i++)
		n->trace = (n->trace ^ out->mad[i]) * 0x100000001b3;
	assert_true(out->device == 1 && out->pkey == 0xffff && out->path.has_grh);
	by = out->path.sgid[0] > ALTERNATE ? ALTERNATE : 0;
	assert_int_equal(out->path.sgid[0], port_of(from) + by);
	assert_int_equal(out->path.dgid[0], port_of(!from) + by);
	for (int copies = fault == FAULT_DROP ? 0 : fault == FAULT_DUPLICATE ? 2 : 1; copies; copies--) {
		struct flight *f = n->flight;

		while (f->used)
			f++;
		assert_true(f < n->flight + FLIGHTS);
		*f = (struct flight){ .used = true, .to = !from, .by = by,
				      .at = n->now + DELAY * (fault == FAULT_DELAY ? 3000u : 1u) };
		memcpy(f->mad, out->mad, MAD_BYTES);
	}
}

static void pull(struct net *n)
{
	struct gmp out;

	for (int i = 0; i < SIDES; i++)
		while (cm_output(&n->side[i].cm, &out))
			launch(n, i, &out);
}

static void start_disconnect(struct net *n)
{
	cm_dreq(n->side[0].id, n->now);
	if (n->plan == PLAN_BOTH_DISCONNECT)
		cm_dreq(n->side[1].id, n->now);
}

static void hear_req(struct net *n, int me, const struct cm_event *event)
{
	struct side *s = &n->side[me];
	struct cm_param param = param_of(me, "yes");

	s->requests++;
	s->id = event->id;
	assert_memory_equal(event->msg.req.private_data, "hello", 5);
	assert_int_equal(event->id->remote_qpn, 0x5000 + !me);
	assert_int_equal(event->id->initiator_depth, 3);
	assert_int_equal(event->id->responder_resources, 4);
	if (n->plan == PLAN_REJECT)
		assert_int_equal(cm_rej(event->id, n->now, CM_REJ_CONSUMER, "no", 2), 0);
	else
		assert_int_equal(cm_rep(event->id, n->now, &param), 0);
}

static void hear(struct net *n, int me, const struct cm_event *event)
{
	struct side *s = &n->side[me];
	struct cm_param param = param_of(me, "dgram");

	switch (event->type) {
	case CM_EVENT_REQ:
		hear_req(n, me, event);
		break;
	case CM_EVENT_REP:
		assert_memory_equal(event->msg.rep.private_data, "yes", 3);
		assert_int_equal(event->id->remote_qpn, 0x5000 + !me);
		assert_int_equal(cm_rtu(event->id, n->now), 0);
		s->established++;
		break;
	case CM_EVENT_RTU:
		s->established++;
		break;
	case CM_EVENT_REJ:
		s->rejected++;
		s->reason = event->msg.rej.reason;
		s->heard = event->msg.rej.private_data[0];
		break;
	case CM_EVENT_DREQ:
		s->disconnected++;
		cm_drep(event->id, n->now);
		break;
	case CM_EVENT_DREP:
	case CM_EVENT_DREQ_LOST:
		s->disconnected++;
		break;
	case CM_EVENT_UNREACHABLE:
		s->unreachable++;
		break;
	case CM_EVENT_TIMEWAIT_EXIT:
		s->timewaits++;
		break;
	case CM_EVENT_SIDR_REQ:
		s->requests++;
		s->id = event->id;
		assert_int_equal(cm_sidr_rep(event->id, n->now, CM_SIDR_VALID, &param), 0);
		break;
	case CM_EVENT_SIDR_REP:
		s->sidr++;
		assert_int_equal(event->msg.sidr_rep.status, CM_SIDR_VALID);
		assert_int_equal(event->id->remote_qkey, 0x01234567);
		assert_memory_equal(event->msg.sidr_rep.private_data, "dgram", 5);
		break;
	case CM_EVENT_LAP:
		s->laps++;
		if (s->apr != APR_LATER)
			assert_int_equal(cm_apr(event->id, s->apr, "ok", 2), 0);
		break;
	case CM_EVENT_APR:
		s->aprs++;
		s->apr = event->msg.apr.status;
		break;
	case CM_EVENT_LAP_LOST:
		s->laps_lost++;
		break;
	}
	pull(n);
}

static struct flight *earliest(struct net *n)
{
	struct flight *first = NULL;

	for (int i = 0; i < FLIGHTS; i++)
		if (n->flight[i].used && (!first || n->flight[i].at < first->at))
			first = &n->flight[i];
	return first;
}

/* One step of virtual time. False when nothing is left to happen. */
static bool step(struct net *n)
{
	struct flight *f = earliest(n);
	struct cm_event event;
	wtime at = f ? f->at : WTIME_NEVER;

	for (int i = 0; i < SIDES; i++)
		at = wtime_min(at, cm_deadline(&n->side[i].cm));
	if (at == WTIME_NEVER)
		return false;
	n->now = at;
	if (f && f->at == at) {
		struct gmp in = arriving_by(f->by, f->to, port_of(!f->to), f->mad);

		f->used = false;
		if (cm_input(&n->side[f->to].cm, n->now, &in, &event))
			hear(n, f->to, &event);
	}
	for (int i = 0; i < SIDES; i++)
		while (cm_expire(&n->side[i].cm, n->now, &event))
			hear(n, i, &event);
	pull(n);
	return true;
}

/* What cm.note was told: of each side, how many are connected, and the last one. */
static int noted_count[SIDES];
static struct cm_connection noted_last[SIDES];

static void noted(const struct cm_id *id, bool is_connected)
{
	int side = (int)CM_ID_SLOT(id->local_id) - (int)slot_of(0);

	noted_count[side] += is_connected ? 1 : -1;
	noted_last[side] = (struct cm_connection){
		.local_id = id->local_id, .remote_id = id->remote_id, .local_qpn = id->local_qpn, .remote_qpn = id->remote_qpn,
		.device = id->path.device, .pkey = id->path.pkey, .ack_timeout = id->path.ack_timeout, .to = id->to,
	};
}

static void net_init(struct net *n, enum plan plan)
{
	memset(n, 0, sizeof(*n));
	n->plan = plan;
	n->fault_at[0] = n->fault_at[1] = -1;
	for (int i = 0; i < SIDES; i++) {
		struct cm_config config = { .slot = slot_of(i), .ca_guid = { 1, 77 + (uint64_t)i }, .seed = 42, .max_ids = 8,
					    .note = noted };

		assert_int_equal(cm_init(&n->side[i].cm, &config), 0);
	}
}

static void net_fini(struct net *n)
{
	for (int i = 0; i < SIDES; i++)
		cm_fini(&n->side[i].cm);
}

static void open_from(struct net *n, int side)
{
	struct cm_param param = param_of(side, "hello");
	struct cm_id *id = cm_id_create(&n->side[side].cm, NULL);

	param.symmetric = n->plan == PLAN_SYMMETRIC;
	n->side[side].id = id;
	if (n->plan == PLAN_SIDR)
		assert_int_equal(cm_sidr_req(id, n->now, SERVICE, &path[side], "hello", 5), 0);
	else
		assert_int_equal(cm_req(id, n->now, SERVICE, &path[side], &param), 0);
}

static inline void run(struct net *n)
{
	bool closing = false;

	open_from(n, 0);
	if (n->plan == PLAN_SYMMETRIC)
		open_from(n, 1);
	pull(n);
	while (step(n)) {
		if (!closing && n->plan != PLAN_SYMMETRIC && n->side[0].established && n->side[1].established) {
			closing = true;
			start_disconnect(n);
			pull(n);
		}
		assert_true(n->sent < 1000);
	}
}

#endif
