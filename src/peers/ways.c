#include "peers/ways.h"

#include "fabric/passage.h"

#include <stdlib.h>

void ways_fini(struct ways *w)
{
	while (w->ways)
		free(w->way[--w->ways]);
	free(w->way);
	*w = (struct ways){ .generation = w->generation };
}

static void fill(struct way *way, const struct fabric *f, const struct walk_packet *p, uint16_t own_lid)
{
	struct walk_packet back = *p;
	struct walk_route r;

	*way = (struct way){ .from = p->from, .dlid = p->dlid, .own_lid = own_lid, .pkey = p->pkey,
			     .sl = p->sl, .back.drop = TRAFFIC_COUNTS };
	fabric_walk(f, p, &r);
	traffic_way_set(&way->there, f, &r);
	way->is_barred = r.verdict == WALK_PKEY_IN || r.verdict == WALK_PKEY_OUT ||
			 (r.verdict == WALK_DELIVERED && fabric_find_pkey(f, r.at, p->pkey) < 0);
	if (r.verdict != WALK_DELIVERED)
		return;
	back.from = r.at;
	back.dlid = own_lid;
	back.pkey = fabric_answer_pkey(f, r.at, p->pkey);
	fabric_walk(f, &back, &r);
	traffic_way_set(&way->back, f, &r);
	way->has_faults = passage_has_faults(f, &way->there) || passage_has_faults(f, &way->back);
}

static struct way *make(struct ways *w)
{
	uint16_t places = w->places ? (uint16_t)(2 * w->places) : 8;
	struct way **all = w->ways < w->places ? w->way : realloc(w->way, places * sizeof(*all)), *way;

	if (!all)
		return NULL;
	w->places = w->ways < w->places ? w->places : places;
	w->way = all;
	way = malloc(sizeof(*way));
	if (way)
		w->way[w->ways++] = way;
	return way;
}

uint16_t ways_find(struct ways *w, uint64_t generation, const struct fabric *f, const struct walk_packet *p,
		   uint16_t own_lid)
{
	uint16_t *bucket = &w->bucket[p->dlid % WAYS_BUCKETS], number;
	struct way *way;

	if (w->generation != generation)
		ways_fini(w);
	w->generation = generation;
	for (number = *bucket; number; number = way->next) {
		way = w->way[number - 1];
		if (way->dlid == p->dlid && way->own_lid == own_lid && way->sl == p->sl && way->pkey == p->pkey &&
		    way->from == p->from)
			return number;
	}
	way = w->ways < WAYS_MOST ? make(w) : NULL;
	if (!way)
		return 0;
	fill(way, f, p, own_lid);
	way->next = *bucket;
	*bucket = w->ways;
	return w->ways;
}
