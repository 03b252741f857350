/* What the environment says, read once per process: WEFT_DIR, WEFT_NODE, WEFT_DEVICES, WEFT_PATH, WEFT_IMPAIR,
 * WEFT_TRACE, WEFT_PROFILE, WEFT_REMAP, WEFT_ENGINE, WEFT_STATS, WEFT_LOG, and WEFT_BUGS for control/bugs. */
#ifndef WEFT_RUNTIME_CONFIG_H
#define WEFT_RUNTIME_CONFIG_H

#include "ib/ib.h"
#include "impair/impair.h"

#include <stdbool.h>

struct config {
	char dir[96];		/* WEFT_DIR: the daemon's runtime directory; empty: none */
	char node[80];		/* WEFT_NODE: a host of the fabric, by name, or NAME:PORT; empty: at none */
	char path[16];		/* WEFT_PATH: "packet", "wire": forced; "direct", "auto", empty: direct where possible */
	char devices[256];	/* WEFT_DEVICES: comma-separated names; empty: all */
	char impair[IMPAIR_TEXT];	/* WEFT_IMPAIR: impair/impair.h; empty: none */
	unsigned long long remap_bytes;	/* WEFT_REMAP: regions from this size on are moved to where peers map them; 0: none */
	bool engine_apart;	/* WEFT_ENGINE: "thread": in the helper thread; "caller", empty: in calls that post and poll */
	char trace[512];	/* WEFT_TRACE: the file, absolute; empty: none */
	char stats[128];	/* WEFT_STATS: the file, absolute; empty: none */
	struct ib_options transport;	/* WEFT_PROFILE */
};

/* Read at the first call; sets up the log too. Any thread. */
const struct config *config_get(void);

#endif
