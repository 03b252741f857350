/* What the environment says, read once per process: WEFT_DIR, WEFT_DEVICES, WEFT_PATH, WEFT_IMPAIR,
 * WEFT_TRACE, WEFT_PROFILE, WEFT_REMAP, WEFT_LOG. */
#ifndef WEFT_HOST_CONFIG_H
#define WEFT_HOST_CONFIG_H

#include "ib/ib.h"

#include <stdbool.h>

struct config {
	char dir[96];		/* WEFT_DIR: the daemon's runtime directory; empty: none */
	char path[16];		/* WEFT_PATH: "packet" forces packets; "direct", "auto", empty: direct where possible */
	char devices[256];	/* WEFT_DEVICES: comma-separated names; empty: all */
	char impair[512];	/* WEFT_IMPAIR: link/impair.h; empty: none */
	unsigned long long remap_bytes;	/* WEFT_REMAP: regions from this size on are moved to where peers map them; 0: none */
	char trace[512];	/* WEFT_TRACE: the file, absolute; empty: none */
	struct ib_options transport;	/* WEFT_PROFILE */
};

/* Read at the first call; sets up the log too. Any thread. */
const struct config *config_get(void);

/* Is this name in the comma-separated list, or the list empty? */
bool config_lists(const char *list, const char *name);

#endif
