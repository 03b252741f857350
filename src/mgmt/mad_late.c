#include "mgmt/mad_late.h"

#include <stdlib.h>
#include <string.h>

static uint16_t *count_of(struct mad_clients *c, uint32_t from)
{
	return &c->late_from[from % MAD_LATE_PLACES];
}

void mad_late_put(struct mad_clients *c, enum mad_fate fate, uint32_t from, const struct mad_coming *at,
		  const uint8_t mad[MAD_BYTES])
{
	struct mad_late *l;

	if (*count_of(c, from) >= MAD_LATE || timer_heap_reserve(&c->late, c->late.count + 1))
		return;
	l = calloc(1, sizeof(*l));
	if (!l)
		return;
	l->fate = fate;
	l->from = from;
	l->at = *at;
	memcpy(l->mad, mad, MAD_BYTES);
	timer_heap_insert(&c->late, &l->timer, at->due);
	++*count_of(c, from);
}

struct mad_late *mad_late_take(struct mad_clients *c, wtime now)
{
	struct timer_heap_node *n = timer_heap_min(&c->late);
	struct mad_late *l = n && n->at <= now ? container_of(n, struct mad_late, timer) : NULL;

	if (!l)
		return NULL;
	timer_heap_remove(&c->late, &l->timer);
	--*count_of(c, l->from);
	return l;
}

void mad_late_fini(struct mad_clients *c)
{
	struct mad_late *l;

	while ((l = mad_late_take(c, WTIME_NEVER)))
		free(l);
	timer_heap_fini(&c->late);
}
