/* May memory of the program move into a memory file? What its mappings are: rights, stacks, and the kernel's flags of them. */
#ifndef WEFT_REMAP_MOVABLE_H
#define WEFT_REMAP_MOVABLE_H

#include "remap/remap.h"

/* Of whole pages. REMAP_DONE: it may, whatever of it is not in the files of `rm` already. pages: of pages_open. is_known: it has
 * moved before, and its flags have been looked at. The kernel is asked about the range's mappings alone, each a few times; but
 * all below them are read where it does not answer (Linux before 6.11), where one is a single page, or its flags are unusual. */
enum remap_verdict movable_judge(const struct remap *rm, int pages, struct range r, bool is_known);

#endif
