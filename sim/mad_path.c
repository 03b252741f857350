#include "mad_path.h"

#include <stdlib.h>
#include <string.h>

void mad_path_init(struct mad_path *p, const struct mad_path_config *config)
{
	*p = (struct mad_path){ .config = *config, .trace = 0xcbf29ce484222325 };
	rand_seed(&p->rand, config->seed);
}

static void empty(struct event_queue *q)
{
	struct mad_flight *f;

	while ((f = event_queue_take(q)))
		free(f);
	event_queue_fini(q);
}

void mad_path_fini(struct mad_path *p)
{
	empty(&p->flights);
	empty(&p->held[0]);
	empty(&p->held[1]);
}

static void put(struct mad_path *p, struct event_queue *q, wtime at, int from, const uint8_t *mad)
{
	struct mad_flight *f = malloc(sizeof(*f));

	if (!f)
		abort();
	f->from = from;
	f->number = p->sent[from];
	memcpy(f->mad, mad, MAD_BYTES);
	event_queue_put(q, at, f);
}

/* In time: what waits for it comes right behind it. */
static void put_in_time(struct mad_path *p, wtime at, int from, const uint8_t *mad)
{
	struct mad_flight *f;

	put(p, &p->flights, at, from, mad);
	while ((f = event_queue_take(&p->held[from])))
		event_queue_put(&p->flights, at, f);
}

static enum mad_fault choose(struct mad_path *p)
{
	const struct mad_path_config *c = &p->config;
	uint64_t n = p->sent[0] + p->sent[1];

	for (int i = 0; i < 2; i++)
		if (c->fault[i] != MAD_PASSES && c->fault_at[i] >= 0 && (uint64_t)c->fault_at[i] == n)
			return c->fault[i];
	if (rand_chance(&p->rand, c->loss_ppm))
		return MAD_DROPPED;
	if (rand_chance(&p->rand, c->repeat_ppm))
		return (enum mad_fault)(MAD_REPEATED + rand_below(&p->rand, MAD_FAULTS - MAD_REPEATED));
	if (rand_chance(&p->rand, c->swap_ppm))
		return (enum mad_fault)(MAD_SWAPPED + rand_below(&p->rand, MAD_REPEATED - MAD_SWAPPED));
	return MAD_PASSES;
}

void mad_path_send(struct mad_path *p, wtime now, int from, const uint8_t mad[MAD_BYTES])
{
	enum mad_fault fault = choose(p);
	wtime at = now > p->free_at[from] ? now : p->free_at[from];
	uint64_t word, sum = 0;

	p->sent[from]++;
	for (size_t i = 0; i < MAD_BYTES; i += sizeof(word)) {
		memcpy(&word, mad + i, sizeof(word));
		sum += word * (2 * i + 1);
	}
	p->trace = (p->trace ^ sum ^ p->trace >> 31) * 0x100000001b3;
	p->free_at[from] = at + p->config.each_ns;
	at += p->config.delay_ns;
	p->lost += fault == MAD_DROPPED;
	if (fault == MAD_PASSES || fault >= MAD_REPEATED)
		put_in_time(p, at, from, mad);
	if (fault == MAD_REPEATED)
		put(p, &p->flights, at, from, mad);
	else if (fault == MAD_SWAPPED || fault == MAD_REPEATED_BEHIND)
		put(p, &p->held[from], at + p->config.hold_ns, from, mad);
	else if (fault == MAD_DELAYED || fault == MAD_REPEATED_LATE)
		put(p, &p->flights, at + p->config.late_ns, from, mad);
}

wtime mad_path_next(const struct mad_path *p)
{
	return wtime_min(event_queue_next(&p->flights), wtime_min(event_queue_next(&p->held[0]), event_queue_next(&p->held[1])));
}

int mad_path_take(struct mad_path *p, uint8_t mad[MAD_BYTES])
{
	struct event_queue *q = &p->flights;
	struct mad_flight *f;
	int from;

	for (int i = 0; i < 2; i++)
		if (event_queue_next(&p->held[i]) < event_queue_next(q))
			q = &p->held[i];
	f = event_queue_take(q);
	from = f->from;
	if (f->number > p->newest[from])
		p->newest[from] = f->number;
	else
		p->overtaken[from] += f->number < p->newest[from];
	memcpy(mad, f->mad, MAD_BYTES);
	free(f);
	return !from;
}
