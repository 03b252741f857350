#include "sm/sweep.h"

#include "base/log.h"
#include "sm/configure.h"
#include "sm/discover.h"
#include "sm/election.h"
#include "sm/lanes.h"
#include "sm/lids.h"
#include "sm/request.h"
#include "sm/routing.h"
#include "sm/sa.h"

#include <string.h>

#define AGAIN_NS WTIME_S	/* our choice: after a sweep that has failed; then twice as long each time */

#define SHRINK_NS (250 * WTIME_MS)	/* our choice: what a member sent before it left is on its way for less */

/* 14.2.5.1, table 132 */
enum { TRAP_LINK = 128, TRAP_CAPABILITY = 144, TRAP_PKEY = 257 };

void sm_sweep(struct sm *s, wtime now, bool heavy)
{
	s->is_due = true;
	s->heavy_is_due |= heavy;
	s->next_sweep = wtime_min(s->next_sweep, now);
}

static void begin(struct sm *s, wtime now)
{
	if (now >= s->handed_at)
		election_take_subnet(s, now);
	s->is_heavy = s->heavy_is_due || s->state == SM_DISCOVERING || !s->net.nodes;
	s->is_due = s->heavy_is_due = s->has_failed = false;
	s->had_refused = s->has_refused;
	s->has_refused = s->settles = false;
	s->next_sweep = WTIME_NEVER;
	s->rounds = 0;
	s->phase = SM_LOOKS;
	if (s->is_heavy) {
		s->counters.heavy++;
		discover_all(s);
	} else {
		s->counters.light++;
		discover_changes(s);
	}
}

void sweep_stop(struct sm *s)
{
	request_drop_all(s);
	s->phase = SM_IDLE;
	s->is_due = s->heavy_is_due = false;
	s->next_sweep = WTIME_NEVER;
}

static wtime again(const struct sm *s)
{
	wtime wait = AGAIN_NS;

	for (uint32_t i = 1; i < s->failures && wait < s->config.sweep_ns; i++)
		wait *= 2;
	return wtime_min(wait, s->config.sweep_ns);
}

static void finish(struct sm *s, wtime now)
{
	s->phase = SM_IDLE;
	s->failures = s->has_failed ? s->failures + 1 : 0;
	if (s->state == SM_MASTER) {
		s->is_up = !s->has_failed && !s->is_due;
		s->has_changed = s->has_failed;
		s->next_sweep = now + s->config.sweep_ns;
	} else {
		/* what calls for another sweep is its master's business */
		s->is_due = false;
	}
	if (s->has_failed) {
		s->is_due = s->heavy_is_due = true;
		s->next_sweep = now + again(s);
	} else if (s->is_due) {
		s->next_sweep = now;
	} else if (s->is_poll_due && s->state == SM_MASTER) {
		s->next_sweep = now + s->config.poll_ns;
	}
}

static wtime due(const struct sm *s)
{
	return wtime_min(s->next_sweep, s->handed_at);
}

/* Sweeps begin when they are due, however often groups change. What could not be written is the next sweep's. */
static void finish_trees(struct sm *s, wtime now)
{
	s->phase = SM_IDLE;
	if (s->has_failed) {
		s->is_up = false;
		s->has_changed = s->is_due = s->heavy_is_due = true;
		s->next_sweep = wtime_min(s->next_sweep, now + again(s));
	}
	if (now >= due(s))
		begin(s, now);
}

/* A port that cannot be configured, for one, fails each sweep: trees do not wait for one that succeeds. */
static bool may_write_trees(const struct sm *s)
{
	return s->state == SM_MASTER && s->has_tables;
}

/* All have answered. A master with something to write looks at what there is first. */
static void look_done(struct sm *s, wtime now)
{
	if (discover_end(s))
		return;
	if (s->net.own == PORT_NONE || !election_decide(s, now)) {
		finish(s, now);
		return;
	}
	s->phase = SM_READS_TABLES;
	if (s->has_changed)
		discover_tables(s);
}

/* Told when it begins to be so, not by each sweep. */
static void note_without_lids(struct sm *s, uint32_t ports)
{
	if (ports && !s->without_lids)
		log_line(LOG_WARNING, "the subnet manager has no LIDs below %u, which its switches forward, for %u of the ports "
			 "that it has found", lids_end(s), ports);
	s->has_failed |= ports != 0;
	s->without_lids = ports;
}

/* All is known that is to be decided on. */
static void decide(struct sm *s, wtime now)
{
	s->phase = SM_WRITES_TABLES;
	if (!s->has_changed)
		return;
	note_without_lids(s, lids_assign(s));
	if (routing_compute(s)) {
		s->has_failed = true;
		log_line(LOG_WARNING, "the subnet manager has no memory for the tables of all switches");
	}
	sa_net_changed(s, now);
	configure_tables(s);
	s->has_tables = true;
	lanes_configure(s);
	partitions_configure(s);
}

static void step(struct sm *s, wtime now)
{
	switch (s->phase) {
	case SM_IDLE:
		if (now >= s->trees_at && may_write_trees(s)) {
			s->phase = SM_WRITES_TREES;
			configure_trees(s);
		} else if (now >= due(s) && s->state != SM_STANDBY && s->state != SM_NOT_ACTIVE) {
			begin(s, now);
		}
		return;
	case SM_WRITES_TREES:
		finish_trees(s, now);
		return;
	case SM_LOOKS:
		look_done(s, now);
		return;
	case SM_READS_TABLES:
		decide(s, now);
		return;
	case SM_WRITES_TABLES:
		s->phase = SM_ARMS;
		if (s->has_changed)
			configure_ports(s);
		return;
	case SM_ARMS:
		s->phase = SM_ACTIVATES;
		if (s->has_changed)
			configure_activate(s);
		return;
	case SM_ACTIVATES:
		finish(s, now);
		return;
	}
}

void sweep_go_on(struct sm *s, wtime now)
{
	while (request_all_done(s)) {
		enum sm_phase before = s->phase;

		step(s, now);
		if (s->phase == SM_IDLE && before == SM_IDLE)
			return;
	}
}

wtime sweep_deadline(const struct sm *s)
{
	if (!request_all_done(s))
		return WTIME_NEVER;
	if (s->phase != SM_IDLE)
		return 0;
	if (s->state == SM_STANDBY || s->state == SM_NOT_ACTIVE)
		return WTIME_NEVER;
	return wtime_min(due(s), may_write_trees(s) ? s->trees_at : WTIME_NEVER);
}

void sweep_trees(struct sm *s, bool shrinks)
{
	s->trees_at = wtime_min(s->trees_at, shrinks ? s->now + SHRINK_NS : s->now);
}

void sweep_trap(struct sm *s, wtime now, const uint8_t notice[SMP_DATA_BYTES])
{
	struct smp_notice n;
	uint32_t port;

	smp_notice_get(&n, notice);
	s->counters.traps++;
	if (s->state != SM_MASTER || !n.is_generic)
		return;
	if (n.trap_number == TRAP_LINK) {
		sm_sweep(s, now, false);
	} else if (n.trap_number == TRAP_CAPABILITY) {
		/* what the port is capable of now: another manager, for one */
		port = net_port_of_lid(&s->net, n.issuer_lid);
		if (port != PORT_NONE)
			s->net.port[port].is_asked = true;
		sm_sweep(s, now, false);
	} else if (n.trap_number == TRAP_PKEY) {
		/* it may have lost its own; whoever sends bad ones makes a sweep no earlier */
		port = net_port_of_lid(&s->net, n.issuer_lid);
		if (port != PORT_NONE) {
			s->net.port[port].is_asked = true;
			s->net.port[port].has_pkeys = false;
		}
	}
}
