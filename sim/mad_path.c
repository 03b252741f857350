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
	free(p->flight);
	p->flight = NULL;
}

static bool is_before(const struct mad_flight *a, const struct mad_flight *b)
{
	return a->at != b->at ? a->at < b->at : a->order < b->order;
}

static void exchange(struct mad_flight *a, struct mad_flight *b)
{
	struct mad_flight other = *a;

	*a = *b;
	*b = other;
}

static void put(struct mad_path *p, wtime at, int to, const uint8_t mad[MAD_BYTES])
{
	size_t i = p->flights++;

	if (i == p->room) {
		p->room = p->room ? 2 * p->room : 64;
		p->flight = realloc(p->flight, p->room * sizeof(*p->flight));
		if (!p->flight)
			abort();
	}
	p->flight[i] = (struct mad_flight){ .at = at, .order = p->order++, .to = to };
	memcpy(p->flight[i].mad, mad, MAD_BYTES);
	for (; i && is_before(&p->flight[i], &p->flight[(i - 1) / 2]); i = (i - 1) / 2)
		exchange(&p->flight[i], &p->flight[(i - 1) / 2]);
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
	return p->flights ? p->flight[0].at : WTIME_NEVER;
}

int mad_path_take(struct mad_path *p, uint8_t mad[MAD_BYTES])
{
	int to = p->flight[0].to;
	size_t i = 0;

	memcpy(mad, p->flight[0].mad, MAD_BYTES);
	p->flight[0] = p->flight[--p->flights];
	for (;;) {
		size_t least = i;

		for (size_t child = 2 * i + 1; child <= 2 * i + 2 && child < p->flights; child++)
			if (is_before(&p->flight[child], &p->flight[least]))
				least = child;
		if (least == i)
			return to;
		exchange(&p->flight[i], &p->flight[least]);
		i = least;
	}
}
