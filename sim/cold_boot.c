#include "cold_boot.h"

#include "fabric/survey.h"

#include <stdlib.h>

enum { EVENTS = 1 << 8 };		/* between two calls of progress */

/* Our choices: a way of some switches and an agent that takes its time; how long the changes of a boot are waited for, so that a
 * death is found by its own signs; virtual time after which there is no hope. */
#define DELAY_NS (20 * WTIME_US)
#define REST_NS (2 * WTIME_S)
#define MOST_NS (10000 * WTIME_S)

/* Port 0 of the first switch; an end port of what has none. */
static uint32_t manager_port(const struct fabric *f)
{
	for (uint32_t n = 0; n < f->nodes; n++) {
		if (fabric_is_switch(f, n))
			return fabric_port_index(f, n, 0);
	}
	return fabric_port_index(f, 0, 1);
}

void cold_boot_init(struct cold_boot *b, struct fabric *f, uint64_t seed, uint32_t loss_ppm)
{
	*b = (struct cold_boot){ .progress = NULL };
	mad_net_init_cold(&b->net, f, seed);
	b->net.loss_ppm = loss_ppm;
	b->net.delay_ns = DELAY_NS;
}

void cold_boot_fini(struct cold_boot *b)
{
	mad_net_fini(&b->net);
}

bool cold_boot_reaches(const struct cold_boot *b)
{
	struct survey s;
	bool reaches;

	if (survey(&s, b->net.fabric))
		abort();
	reaches = s.paths && s.reached == s.paths && !s.has_credit_loop;
	survey_fini(&s);
	return reaches;
}

static bool is_active(const struct fabric *f, uint32_t node)
{
	bool has_lid = false;

	for (unsigned i = 0; i <= f->place[node].ports; i++) {
		const struct fabric_port *p = &f->port[fabric_port_index(f, node, i)];

		has_lid |= p->lid != 0;
		if (i && p->peer != PORT_NONE && p->state != PORT_ACTIVE)
			return false;
	}
	return has_lid;
}

uint32_t cold_boot_active(const struct cold_boot *b)
{
	const struct fabric *f = b->net.fabric;
	uint32_t active = 0;

	for (uint32_t n = 0; n < f->nodes; n++)
		active += is_active(f, n);
	return active;
}

/* The time of all being up, not of what follows. */
static void run_until_up(struct cold_boot *b, struct cold_boot_part *part)
{
	struct mad_net *n = &b->net;
	const struct sm *s = &n->manager[0].sm;
	wtime from = n->now;
	uint64_t mads = n->mads;

	for (uint64_t i = 1; !s->is_up && mad_net_step(n, from + MOST_NS); i++) {
		mad_net_pump(n);
		if (b->progress && i % EVENTS == 0)
			b->progress(b->progress_arg, n);
	}
	*part = (struct cold_boot_part){ .mads = n->mads - mads, .took = n->now - from, .is_up = s->is_up };
}

void cold_boot_begin(struct cold_boot *b, struct cold_boot_part *part)
{
	mad_net_add(&b->net, manager_port(b->net.fabric), &(struct sm_config){ 0 });
	run_until_up(b, part);
}

bool cold_boot_kill(struct cold_boot *b, struct cold_boot_part *part)
{
	const struct fabric *f = b->net.fabric;
	uint32_t last = f->owner[b->net.manager[0].port];

	for (uint32_t n = last; n < f->nodes; n++)
		last = fabric_is_switch(f, n) ? n : last;
	if (last == f->owner[b->net.manager[0].port])
		return false;
	mad_net_for(&b->net, REST_NS);
	mad_net_set_node(&b->net, last, false);
	b->net.manager[0].sm.is_up = false;
	run_until_up(b, part);
	return true;
}
