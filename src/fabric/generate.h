/* Topologies of a kind and a size: their nodes, links, names (s1, s2 ... h1, h2 ...) and GUIDs follow from the kind and its
 * parameters alone. */
#ifndef WEFT_FABRIC_GENERATE_H
#define WEFT_FABRIC_GENERATE_H

#include "fabric/topology.h"

#include <stddef.h>

/* A kind of topology, and what its parameters are, for people. The list ends with a NULL name. */
struct generate_kind {
	const char *name, *summary, *parameters;
};
extern const struct generate_kind generate_kinds[];

/* Fills an empty topology, LIDs included. `settings` of NAME=VALUE each. 0; -ENOMEM; -EINVAL: `why` tells. In both cases the
 * topology is to be ended by topology_fini(). */
int generate(struct topology *t, const char *kind, unsigned settings, char *const setting[], char *why, size_t room);

#endif
