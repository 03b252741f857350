/* Topologies as text: the format that ibnetdiscover prints and ibsim reads.
 *
 *	vendid=0x2c9
 *	switchguid=0x200001(200001)
 *	Switch  8 "S-0000000000200001"          # "s1" base port 0 lid 1 lmc 0
 *	[1]     "H-0000000000100000"[1](100001)         # "h1" lid 3 4xQDR
 *
 *	caguid=0x100000
 *	Ca      1 "H-0000000000100000"          # "h1"
 *	[1](100001)     "S-0000000000200001"[1]         # lid 3 lmc 0 "s1" lid 1 4xQDR
 *
 * In ibsim's files ids are any text, comments and settings may be missing, and the options w=, s= and e= have the bits of
 * LinkWidthEnabled, LinkSpeedEnabled and LinkSpeedExtEnabled. A link that one end names is a link. */
#ifndef WEFT_FABRIC_TOPOLOGY_FILE_H
#define WEFT_FABRIC_TOPOLOGY_FILE_H

#include "fabric/fabric.h"

struct topology_fault {
	unsigned line;		/* from 1; 0: of the file as a whole */
	char text[240];		/* what is wrong, and what is expected */
};

/* Fills an empty topology, LIDs included: those that the text does not tell are chosen. 0; -ENOMEM; -EINVAL: see `fault`. In
 * both cases the topology is to be ended by topology_fini(). */
int topology_parse(struct topology *t, const char *text, size_t bytes, struct topology_fault *fault);

/* Prints all of a fabric, piece by piece. What it prints, topology_parse() reads; reading and printing it again gives the same
 * text. */
void topology_print(const struct fabric *f, void (*put)(void *to, const char *text), void *to);

#endif
