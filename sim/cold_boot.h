/* A subnet is switched on: weft's manager, at its first switch, finds it, gives LIDs, writes tables and brings all links up,
 * while datagrams are lost. Then its last switch dies, and the manager leads around it. Virtual time; the same seed gives the
 * same. */
#ifndef WEFT_SIM_COLD_BOOT_H
#define WEFT_SIM_COLD_BOOT_H

#include "mad_net.h"

struct cold_boot {
	struct mad_net net;
	/* called after each of some hundred events, for people who wait; NULL: nobody is */
	void (*progress)(void *arg, const struct mad_net *net);
	void *progress_arg;
};

/* Of one part: the boot, or the death of a switch. */
struct cold_boot_part {
	uint64_t mads;			/* that the manager has sent */
	wtime took;			/* until the tables are as they are to be */
	bool is_up;			/* they are */
};

/* f may be written, and stays open longer. Aborts without memory, as all that follows. */
void cold_boot_init(struct cold_boot *b, struct fabric *f, uint64_t seed, uint32_t loss_ppm);
void cold_boot_fini(struct cold_boot *b);

void cold_boot_begin(struct cold_boot *b, struct cold_boot_part *part);
/* False: there is no switch but the first, and nothing is done. */
bool cold_boot_kill(struct cold_boot *b, struct cold_boot_part *part);
/* Nodes of which every port that has a link is active, and that have a LID. */
uint32_t cold_boot_active(const struct cold_boot *b);
/* By the tables of the fabric every host that is there reaches every other one, and there are two. Looks at all paths. */
bool cold_boot_reaches(const struct cold_boot *b);

#endif
