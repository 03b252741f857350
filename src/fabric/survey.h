/* What the forwarding tables of a fabric come to: the path from every host port to every LID of another.
 *
 * The mapping must be private to the caller: a survey reads peers several times, and relies on each reading being what
 * fabric_open() checked. */
#ifndef WEFT_FABRIC_SURVEY_H
#define WEFT_FABRIC_SURVEY_H

#include "fabric/walk.h"

struct survey {
	uint64_t paths, reached;
	uint64_t lost;			/* end at a port that leads nowhere, or at a node whose LID it is not */
	uint64_t looping;		/* pass more than SWITCHES_MOST switches */
	uint64_t links;			/* of all paths that reach */
	unsigned longest;		/* links of the longest of them */
	uint32_t bad_port;		/* where a path begins that does not reach, or PORT_NONE */
	uint16_t bad_lid;		/* and where it should end */
	uint32_t *load;			/* owned: by port, paths that leave by it */
	bool has_credit_loop;		/* packets on these paths may wait for each other's buffers in a circle */
};

/* 0 or -ENOMEM. What it fills is released by survey_fini(). The tables must not change meanwhile. */
int survey(struct survey *s, const struct fabric *f);
void survey_fini(struct survey *s);

#endif
