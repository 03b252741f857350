/* The synthetic /sys and /dev tree of this weftd, in DIR/root, from the fabric page. */
#ifndef WEFT_WEFTD_TREE_H
#define WEFT_WEFTD_TREE_H

#include "fabric/page.h"
#include "weftd/rundir.h"

int tree_write(const struct rundir *dir, const struct fabric_page *page);
void tree_remove(const struct rundir *dir);

#endif
