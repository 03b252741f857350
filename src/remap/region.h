/* What the same-host path keeps of a region or window of this process, at mr->direct. */
#ifndef WEFT_REMAP_REGION_H
#define WEFT_REMAP_REGION_H

#include "base/ranges.h"
#include "verbs/mr.h"

/* What has become of its memory. */
enum remap_verdict {
	REMAP_OFF,
	REMAP_DONE,
	REMAP_SMALL,
	REMAP_SHARED,
	REMAP_FILE,
	REMAP_STACK,
	REMAP_RIGHTS,
	REMAP_LOCKED,
	REMAP_FORK,
	REMAP_WATCHED,
	REMAP_NEIGHBOUR,
	REMAP_MANY,
	REMAP_FAR,
	REMAP_TAKEN,
	REMAP_SYSTEM,
};

struct region {
	uint32_t published;	/* its handle in the share; 0: others cannot use it */
	bool is_mapped;		/* published, and in a file that others may map */
	enum remap_verdict placed;	/* in a memory file of ours, or why not */
	struct range_node pages;	/* by its address, among the regions that others use */
};

/* NULL: others never could use it. */
static inline struct region *region_of(const struct mr *mr)
{
	return mr->direct;
}

#endif
