#include "mad_path.h"

#include <stdlib.h>
#include <string.h>

void mad_path_init(struct mad_path *p, const struct mad_path_config *config)
{
	*p = (struct mad_path){ .config = *config, .trace = 0xcbf29ce484222325 };
	rand_seed(&p->rand, config->seed);
}

void mad_path_fini(struct mad_path *p)
{
	struct mad_flight *f;

	while ((f = event_queue_take(&p->flights)))
		free(f);
	event_queue_fini(&p->flights);
}

static void put(struct mad_path *p, wtime at, int to, const uint8_t *mad)
{
	struct mad_flight *f = malloc(sizeof(*f));

	if (!f)
		abort();
	f->to = to;
	memcpy(f->mad, mad, MAD_BYTES);
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
		return MAD_REPEATED;
	return rand_chance(&p->rand, c->swap_ppm) ? MAD_SWAPPED : MAD_PASSES;
}

/* One that is swapped arrives behind the next one of its end. */
void mad_path_send(struct mad_path *p, wtime now, int from, const uint8_t mad[MAD_BYTES])
{
	enum mad_fault fault = choose(p);
	wtime at = now > p->free_at[from] ? now : p->free_at[from];
	uint64_t word;

	p->sent[from]++;
	for (size_t i = 0; i < MAD_BYTES; i += sizeof(word)) {
		memcpy(&word, mad + i, sizeof(word));
		p->trace = (p->trace ^ word ^ p->trace >> 31) * 0x100000001b3;
	}
	p->free_at[from] = at + p->config.each_ns;
	at += p->config.delay_ns;
	if (fault == MAD_DROPPED) {
		p->lost++;
		return;
	}
	put(p, fault == MAD_SWAPPED ? at + p->config.each_ns + 1 : at, !from, mad);
	if (fault == MAD_REPEATED)
		put(p, at, !from, mad);
}

wtime mad_path_next(const struct mad_path *p)
{
	return event_queue_next(&p->flights);
}

int mad_path_take(struct mad_path *p, uint8_t mad[MAD_BYTES])
{
	struct mad_flight *f = event_queue_take(&p->flights);
	int to = f->to;

	memcpy(mad, f->mad, MAD_BYTES);
	free(f);
	return to;
}
