/* Pairs of LIDs between ports of this process and those of others, as the subnet administration names them: asked of weftd
 * (CTL_PATHS), which answers by mail, and kept by the two ends. What is kept counts until another answer comes. It is asked again
 * where a port's LID, LMC or subnet manager is another one, where the manager asks ports to register again, and where routes have
 * changed, as by a sweep: at once while fewer pairs are known than the LMC allows or after SA_PATHS_PAUSE, and once more when
 * routes have not changed for that time, as an answer in the midst of a sweep may be that of before. */
#ifndef WEFT_PEERS_SA_PATHS_H
#define WEFT_PEERS_SA_PATHS_H

#include "control/protocol.h"
#include "verbs/ca.h"

struct peers;

enum { SA_PATHS_MOST = 4096 };			/* our choice: who has more peers goes by one path to the others */
#define SA_PATHS_PAUSE WTIME_S			/* our choices */
#define SA_PATHS_PATIENCE (5 * WTIME_S)		/* without an answer it is asked again */

struct sa_path_row;

struct sa_paths {
	struct sa_path_row *row;	/* owned */
	uint32_t rows, places;
	uint64_t answers;		/* that changed routes */
	uint64_t change;		/* of routes: the last one that was seen */
	wtime again_at;			/* when it is asked once more */
};

void sa_paths_fini(struct sa_paths *s);

/* As ca_ops.lid_paths. */
unsigned sa_paths_find(struct peers *ps, const struct ca_device *dev, uint16_t pkey, const struct packet_path *path,
		       const struct route *r, struct lid_pair pair[LID_PATHS]);
/* Asks once more for what was found before routes changed, when they have not changed for a while. When to look again. */
wtime sa_paths_ask_again(struct peers *ps, wtime now);
/* An answer of weftd, whose text has so many bytes. True: pairs are others than they were, or nobody answered, so routes are to
 * be asked again: devices_forget_routes(). */
bool sa_paths_take(struct peers *ps, const struct control_msg *answer, const void *text, uint32_t bytes);

#endif
