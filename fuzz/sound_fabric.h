/* A sound fabric to begin with. */
#ifndef WEFT_FUZZ_SOUND_FABRIC_H
#define WEFT_FUZZ_SOUND_FABRIC_H

#include "fuzz.h"

#include "fabric/generate.h"
#include "fabric/route.h"

/* Of weft fabric make, open, without routes and not yet active; its switches have tables of at least so many LIDs. Returns its
 * mapping, which the caller frees. */
static inline uint8_t *sound_fabric(const char *kind, unsigned n, char *const settings[], uint32_t lids, struct fabric *f,
				    size_t *bytes)
{
	struct topology t;
	uint8_t *mapping;
	char why[300];

	topology_init(&t);
	REQUIRE(!generate(&t, kind, n, settings, why, sizeof(why)));
	t.lids = t.lids < lids ? lids : t.lids;
	*bytes = fabric_bytes(&t);
	mapping = calloc(1, *bytes);
	REQUIRE(mapping);
	fabric_format(mapping, &t);
	topology_fini(&t);
	REQUIRE(!fabric_open(f, mapping, *bytes, why, sizeof(why)));
	return mapping;
}

/* A torus with its routes. */
static inline uint8_t *torus_make_lids(char *size, char *hosts, uint32_t lids, struct fabric *f, size_t *bytes)
{
	uint8_t *mapping = sound_fabric("torus", 2, (char *[]){ size, hosts }, lids, f, bytes);

	REQUIRE(!fabric_route(f, ROUTE_MIN_HOP));
	return mapping;
}

static inline uint8_t *torus_make(char *size, char *hosts, struct fabric *f, size_t *bytes)
{
	return torus_make_lids(size, hosts, 0, f, bytes);
}

#endif
