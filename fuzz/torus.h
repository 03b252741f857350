/* A sound fabric to begin with. */
#ifndef WEFT_FUZZ_TORUS_H
#define WEFT_FUZZ_TORUS_H

#include "fuzz.h"

#include "fabric/generate.h"
#include "fabric/route.h"

/* A torus with its routes, open and not yet active; its switches have tables of at least so many LIDs. Returns its mapping, which
 * the caller frees. */
static inline uint8_t *torus_make_lids(char *size, char *hosts, uint32_t lids, struct fabric *f, size_t *bytes)
{
	char *settings[] = { size, hosts }, why[300];
	struct topology t;
	uint8_t *mapping;

	topology_init(&t);
	REQUIRE(!generate(&t, "torus", 2, settings, why, sizeof(why)));
	t.lids = t.lids < lids ? lids : t.lids;
	*bytes = fabric_bytes(&t);
	mapping = calloc(1, *bytes);
	REQUIRE(mapping);
	fabric_format(mapping, &t);
	topology_fini(&t);
	REQUIRE(!fabric_open(f, mapping, *bytes, why, sizeof(why)) && !fabric_route(f, ROUTE_MIN_HOP));
	return mapping;
}

static inline uint8_t *torus_make(char *size, char *hosts, struct fabric *f, size_t *bytes)
{
	return torus_make_lids(size, hosts, 0, f, bytes);
}

#endif
