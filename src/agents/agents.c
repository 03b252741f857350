/* Which way a MAD goes, and who has it where it arrives. */
#include "agents/agents.h"

#include "agents/crossing.h"
#include "agents/notice.h"
#include "agents/pma.h"
#include "agents/port_state.h"
#include "agents/sma.h"
#include "agents/smi.h"
#include "fabric/host.h"
#include "fabric/walk.h"
#include "mgmt/gmp.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

static const char *const texts[LOSSES] = {
#define LOSS(name, text) [LOSS_##name] = text,
#include "agents/loss.def"
#undef LOSS
};

const char *mad_loss_text(enum mad_loss loss)
{
	return loss < LOSSES ? texts[loss] : "";
}

int agents_init(struct agents *a, struct fabric *f)
{
	*a = (struct agents){ .fabric = f, .lease_end = WTIME_NEVER, .sample_due = WTIME_NEVER };
	a->lease = calloc(f->ports + 1, sizeof(*a->lease));
	a->trap = calloc(AGENT_TRAPS, sizeof(*a->trap));
	a->counters = calloc(f->ports + 1, sizeof(*a->counters));
	a->sample = calloc(AGENT_SAMPLES, sizeof(*a->sample));
	if (a->lease && a->trap && a->counters && a->sample)
		return 0;
	agents_fini(a);
	return -ENOMEM;
}

void agents_fini(struct agents *a)
{
	free(a->lease);
	free(a->trap);
	free(a->sample);
	if (!a->borrows_counters)
		free(a->counters);
	*a = (struct agents){ .lease_end = WTIME_NEVER, .sample_due = WTIME_NEVER };
}

void agents_count_in(struct agents *a, struct port_counters *counters)
{
	if (!a->borrows_counters)
		free(a->counters);
	a->counters = counters;
	a->borrows_counters = true;
}

static enum mad_outcome lose(struct agents *a, enum mad_loss loss)
{
	a->lost = loss;
	a->losses[loss]++;
	return MAD_LOST;
}

/* A port that has a QP0: 14.1. Any value. */
static bool is_end_port(const struct fabric *f, uint32_t port)
{
	return port < f->ports && !fabric_is_switch(f, f->owner[port]) == !!fabric_port_number(f, port);
}

/* The LID that the port sends from: the one that is asked for, if it has it. Nobody sends in another one's name. */
static uint16_t source(const struct fabric *f, uint32_t port, uint16_t asked)
{
	return host_has_lid(f, port, asked) ? asked : FABRIC_READ(f->port[port].lid);
}

/* A response that came to another port than the sender's is one that nobody asked for there. */
static enum mad_outcome for_sender(uint32_t from, enum mad_outcome outcome, const struct mad_arrival *out)
{
	return outcome == MAD_ANSWERED && out->port != from ? MAD_ARRIVED : outcome;
}

/* ---- QP0 ---- */

static void arrive(const struct agents *a, const struct smp_place *place, uint8_t sl, struct mad_arrival *out)
{
	*out = (struct mad_arrival){
		.port = smi_end_port(a->fabric, place->port),
		.address = { .path = { .slid = place->slid, .dlid = place->dlid, .sl = sl } },
		.due = a->at,
	};
}

/* An agent takes a receive buffer of its port's QP as others there do, and gives it back at once (GSA-28). */
static bool has_buffer(struct agents *a, wtime now, uint32_t port, enum mad_resident who)
{
	return !a->buffers || mad_buffers_pass(a->buffers, now, port, who);
}

/* The response goes back to where the request came from. */
static enum mad_outcome send_back(struct agents *a, struct smp_place *place, uint8_t sl, uint8_t mad[MAD_BYTES],
				  struct mad_arrival *out)
{
	struct smp_place back = { .port = place->port, .slid = place->dlid, .dlid = place->slid };
	enum mad_loss loss = smi_carry(a, &back, sl, mad);

	if (loss != LOSS_NONE)
		return lose(a, loss);
	arrive(a, &back, sl, out);
	a->answered++;
	return MAD_ANSWERED;
}

static enum mad_outcome send_smp(struct agents *a, wtime now, uint32_t from, const struct packet_path *path,
				 uint8_t mad[MAD_BYTES], struct mad_arrival *out)
{
	struct smp_place place = { .port = from, .slid = path->slid, .dlid = path->dlid };
	struct mad_header h;
	enum mad_loss loss;
	enum mad_outcome outcome;

	mad_header_parse(&h, mad);
	place.slid = place.dlid == LID_PERMISSIVE ? LID_PERMISSIVE : source(a->fabric, from, path->slid);
	loss = smi_carry(a, &place, path->sl, mad);
	if (loss != LOSS_NONE)
		return lose(a, loss);
	arrive(a, &place, path->sl, out);
	if (!sma_has(&h)) {
		a->arrived++;
		return MAD_ARRIVED;
	}
	if (!has_buffer(a, now, smi_end_port(a->fabric, place.port), MAD_RESIDENT_SMA))
		return lose(a, LOSS_NO_BUFFER);
	outcome = sma_input(a, now, &place, mad, &loss);
	if (outcome == MAD_LOST)
		return lose(a, loss);
	return outcome == MAD_ANSWERED ? for_sender(from, send_back(a, &place, path->sl, mad, out), out) : outcome;
}

/* ---- QP1 ---- */

/* 10.9.4, 10.2.4: a port counts what came with a bad key, and tells its manager. */
static void count_violations(struct agents *a, uint32_t port, uint16_t *violations, uint64_t packets)
{
	struct fabric *f = a->fabric;
	uint16_t room = (uint16_t)(UINT16_MAX - *violations);

	fabric_write(f, f->owner[port]);
	*violations = (uint16_t)(*violations + (packets < room ? packets : room));
	fabric_written(f, f->owner[port]);
}

static void refuse_pkey(struct agents *a, wtime now, const struct walk_route *r, const struct mad_address *address,
			uint64_t packets, bool tells)
{
	count_violations(a, r->at, &a->fabric->port[r->at].pkey_violations, packets);
	if (tells)
		notice_pkey(a, now, r, address);
}

static void refuse_qkey(struct agents *a, wtime now, const struct walk_route *r, const struct mad_address *address,
			uint64_t packets, bool tells)
{
	count_violations(a, r->at, &a->fabric->port[r->at].qkey_violations, packets);
	if (tells)
		notice_qkey(a, now, r, address);
}

/* A switch counts what comes in; what does not go out has passed its check (14.2.5.6). */
static void refuse_at_switch(struct agents *a, wtime now, const struct walk_route *r, const struct mad_address *address,
			     uint64_t packets, bool tells)
{
	if (r->verdict == WALK_PKEY_IN)
		count_violations(a, r->at, &a->fabric->port[r->at].pkey_violations, packets);
	if (tells)
		notice_switch_pkey(a, now, r, address);
}

static struct walk_packet walk_of(uint32_t from, const struct mad_address *to)
{
	return (struct walk_packet){ .from = from, .dlid = to->path.dlid, .pkey = to->pkey, .sl = to->path.sl & 15,
				     .switches = SWITCHES_MOST };
}

static bool is_barred(enum walk_verdict v)
{
	return v == WALK_PKEY_IN || v == WALK_PKEY_OUT;
}

static enum mad_outcome send_gmp(struct agents *a, wtime now, uint32_t from, const struct mad_address *to,
				 struct mad_arrival *out)
{
	const struct fabric *f = a->fabric;
	const struct walk_packet p = walk_of(from, to);
	struct mad_arrival arrival = { .address = *to };
	struct walk_route r;
	enum walk_verdict v;
	enum mad_loss loss;
	int pkey_index;

	if (!(to->pkey & ~PKEY_FULL))
		return lose(a, LOSS_PARTITION);
	v = fabric_walk(f, &p, &r);
	loss = crossing_way(a, &r, to->path.has_grh);
	if (loss != LOSS_NONE)
		return lose(a, loss);
	arrival.address.path.slid = source(f, from, to->path.slid);
	if (is_barred(v))
		refuse_at_switch(a, now, &r, &arrival.address, 1, true);
	if (v != WALK_DELIVERED)
		return lose(a, is_barred(v) ? LOSS_PARTITION : LOSS_NO_ROUTE);
	arrival.port = r.at;
	pkey_index = fabric_find_pkey(f, r.at, to->pkey);
	if (pkey_index < 0) {
		refuse_pkey(a, now, &r, &arrival.address, 1, true);
		return lose(a, LOSS_PARTITION);
	}
	/* another QP looks at its Q_Key itself */
	if (to->dest_qpn == GSI_QPN && to->qkey != GSI_QKEY) {
		refuse_qkey(a, now, &r, &arrival.address, 1, true);
		return lose(a, LOSS_QKEY);
	}
	arrival.pkey_index = (uint16_t)pkey_index;
	arrival.due = a->at;
	*out = arrival;
	a->arrived++;
	return MAD_ARRIVED;
}

/* They have come to the port, which says so itself. */
static void refuse_arrived(struct agents *a, wtime now, const struct walk_route *r, const struct mad_address *address,
			   bool is_qkey, uint64_t packets, bool tells)
{
	if (is_qkey && fabric_find_pkey(a->fabric, r->at, address->pkey) >= 0)
		refuse_qkey(a, now, r, address, packets, tells);
	else
		refuse_pkey(a, now, r, address, packets, tells);
}

static void bad_key(struct agents *a, wtime now, uint32_t from, const struct mad_address *to, bool is_qkey, uint64_t packets,
		    uint32_t claimed, bool tells)
{
	const struct fabric *f = a->fabric;
	const struct walk_packet p = walk_of(from, to);
	struct mad_address address = *to;
	struct walk_route r;
	bool has_arrived;

	if (from >= f->ports || !packets || (claimed == PORT_NONE && !fabric_has_pkey(f, from, p.pkey)))
		return;
	if (packets > AGENT_BAD_KEYS)
		packets = AGENT_BAD_KEYS;
	address.path.slid = source(f, from, to->path.slid);
	has_arrived = fabric_walk(f, &p, &r) == WALK_DELIVERED;
	if (claimed != PORT_NONE) {
		if (has_arrived && r.at == claimed)
			refuse_arrived(a, now, &r, &address, is_qkey, packets, tells);
	} else if (is_barred(r.verdict)) {
		refuse_at_switch(a, now, &r, &address, packets, tells);
	} else if (has_arrived && fabric_find_pkey(f, r.at, p.pkey) < 0) {
		refuse_pkey(a, now, &r, &address, packets, tells);
	}
}

void agents_bad_key(struct agents *a, wtime now, uint32_t from, const struct mad_address *to, bool is_qkey, uint64_t packets,
		    uint32_t claimed)
{
	bad_key(a, now, from, to, is_qkey, packets, claimed, true);
}

void agents_count_bad_key(struct agents *a, wtime now, uint32_t from, const struct mad_address *to, bool is_qkey,
			  uint64_t packets, uint32_t claimed)
{
	bad_key(a, now, from, to, is_qkey, packets, claimed, false);
}

/* A response goes back to who sent the request that came so (13.5.4). */
static enum mad_outcome answer_gmp(struct agents *a, wtime now, const struct mad_arrival *at, struct mad_arrival *out)
{
	struct mad_address back = at->address;

	back.path = gmp_path_back(&at->address.path);
	back.src_qpn = at->address.dest_qpn;
	back.dest_qpn = at->address.src_qpn;
	if (send_gmp(a, now, at->port, &back, out) == MAD_LOST)
		return MAD_LOST;
	a->arrived--;
	a->answered++;
	return MAD_ANSWERED;
}

/* 13.4.4: SMPs go from QP0 to QP0, and all other MADs from QP1 or to it, from and to any QP but QP0. */
static bool has_its_queue(const struct mad_address *to, const struct mad_header *h)
{
	if (h->mgmt_class == MAD_CLASS_SUBN_LID || h->mgmt_class == MAD_CLASS_SUBN_DIRECTED)
		return !to->src_qpn && !to->dest_qpn;
	return to->src_qpn && to->dest_qpn && (to->src_qpn == GSI_QPN || to->dest_qpn == GSI_QPN);
}

enum mad_outcome agents_mad(struct agents *a, wtime now, uint32_t from, const struct mad_address *to, uint8_t mad[MAD_BYTES],
			    struct mad_arrival *out)
{
	enum mad_outcome outcome;
	struct mad_header h;

	a->lost = LOSS_NONE;
	a->at = now;
	agents_expire(a, now);
	if (!is_end_port(a->fabric, from))
		return lose(a, LOSS_NO_PORT);
	mad_header_parse(&h, mad);
	if (!has_its_queue(to, &h))
		return lose(a, LOSS_QUEUE);
	if (!to->dest_qpn)
		return send_smp(a, now, from, &to->path, mad, out);
	outcome = send_gmp(a, now, from, to, out);
	if (outcome != MAD_ARRIVED || to->dest_qpn != GSI_QPN || !pma_has(&h))
		return outcome;
	a->arrived--;
	if (!has_buffer(a, now, out->port, MAD_RESIDENT_PMA))
		return lose(a, LOSS_NO_BUFFER);
	pma_input(a, now, out->port, mad);
	return for_sender(from, answer_gmp(a, now, out, out), out);
}

enum mad_outcome agents_refuse(struct agents *a, wtime now, const struct mad_arrival *at, uint8_t mad[MAD_BYTES],
			       struct mad_arrival *out)
{
	struct mad_header h;

	a->lost = LOSS_NONE;
	a->at = now;
	mad_header_parse(&h, mad);
	if (!is_end_port(a->fabric, at->port) || (h.method != MAD_GET && h.method != MAD_SET))
		return lose(a, LOSS_UNCLAIMED);
	mad_respond(mad, MAD_STATUS_BAD_ATTRIBUTE);
	if (!at->address.src_qpn) {
		struct smp_place place = { .port = at->port, .slid = at->address.path.slid, .dlid = at->address.path.dlid };

		return send_back(a, &place, at->address.path.sl, mad, out);
	}
	return answer_gmp(a, now, at, out);
}

void agents_set_link(struct agents *a, wtime now, uint32_t port, bool is_up)
{
	struct fabric *f = a->fabric;
	uint32_t ends[2] = { port, fabric_peer(f, port) };
	bool was_up = f->port[port].state != PORT_DOWN, is_managed = false;

	fabric_set_link(f, port, is_up);
	a->changes++;
	for (int i = 0; i < 2; i++) {
		is_managed |= FABRIC_READ(f->port[smi_end_port(f, ends[i])].sm_lid) != 0;
		a->counters[ends[i]].total[COUNT_LINK_DOWNED] += was_up && !is_up;
	}
	for (int i = 0; was_up != is_up && i < 2; i++) {
		fabric_write(f, f->owner[ends[i]]);
		if (is_up && is_managed)
			FABRIC_SET(f->port[ends[i]].state, PORT_INIT);
		fabric_written(f, f->owner[ends[i]]);
		notice_link(a, now, ends[i]);
	}
}

void agents_link_error(struct agents *a, wtime now, uint32_t port, enum link_error e, uint32_t times)
{
	const struct fabric_port *p = &a->fabric->port[port];
	uint64_t *total = a->counters[port].total;
	uint32_t overruns = FABRIC_READ(p->overrun_errors), passed = times;

	if (e == LINK_SPOILS) {
		passed = times / (FABRIC_READ(p->phy_errors) + 1u);
		total[COUNT_SYMBOL_ERRORS] += times;
		total[COUNT_RCV_ERRORS] += times;
		total[COUNT_INTEGRITY] += passed;
	} else if (e == LINK_OVERRUNS) {
		passed = times / (overruns ? overruns : 1);
		total[COUNT_RCV_ERRORS] += times;
		total[COUNT_OVERRUNS] += passed;
	}
	total[COUNT_LINK_RECOVERIES] += passed;
	if (passed)
		notice_link_error(a, now, port, e);
}

void agents_set_fault(struct agents *a, uint32_t port, uint32_t loss_ppm, uint32_t rate_kbps, uint64_t seed)
{
	fabric_set_fault(a->fabric, port, loss_ppm, rate_kbps, seed);
	passage_restart(&a->passage, port);
	passage_restart(&a->passage, fabric_peer(a->fabric, port));
	a->changes++;
}

void agents_set_sm(struct agents *a, wtime now, uint32_t port, bool is_sm)
{
	struct fabric *f = a->fabric;
	uint32_t capabilities;

	if (!is_end_port(f, port))
		return;
	capabilities = (f->port[port].capabilities & ~(uint32_t)CAPABLE_SM) | (is_sm ? CAPABLE_SM : 0);
	if (capabilities == f->port[port].capabilities)
		return;
	fabric_write(f, f->owner[port]);
	FABRIC_SET(f->port[port].capabilities, capabilities);
	fabric_written(f, f->owner[port]);
	a->changes++;
	notice_capability(a, now, port);
}
