#include "mgmt/mad_sources.h"

#include <stdbool.h>
#include <stdlib.h>

enum { FIRST_PLACES = 64 };

uint32_t mad_sources_of(const struct mad_sources *s, uint16_t lid)
{
	return s ? s->of[lid % MAD_SOURCES] : 0;
}

static bool grow(struct mad_sources *s)
{
	uint32_t places = s->places ? 2 * s->places : FIRST_PLACES;
	uint16_t *lid = malloc(places * sizeof(*lid));

	if (!lid)
		return false;
	for (uint32_t i = 0; i < s->count; i++)
		lid[i] = s->lid[(s->first + i) % s->places];
	free(s->lid);
	s->lid = lid;
	s->first = 0;
	s->places = places;
	return true;
}

void mad_sources_add(struct mad_sources **s, uint16_t lid)
{
	if (!*s)
		*s = calloc(1, sizeof(**s));
	if (!*s || ((*s)->count == (*s)->places && !grow(*s)))
		return;
	(*s)->lid[((*s)->first + (*s)->count++) % (*s)->places] = lid;
	(*s)->of[lid % MAD_SOURCES]++;
}

void mad_sources_take(struct mad_sources *s)
{
	if (!s || !s->count)
		return;
	s->of[s->lid[s->first] % MAD_SOURCES]--;
	s->first = (s->first + 1) % s->places;
	s->count--;
}

void mad_sources_free(struct mad_sources *s)
{
	if (s)
		free(s->lid);
	free(s);
}
