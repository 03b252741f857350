/* The synthetic /sys and /dev tree of this weftd, from the fabric page: RUNDIR_TREE of the runtime directory, and
 * beside it trees of some devices, for programs that are to see no other. The same for programs at a place of the fabric
 * (fabric/host.h). */
#ifndef WEFT_WEFTD_TREE_H
#define WEFT_WEFTD_TREE_H

#include "fabric/fabric.h"
#include "fabric/page.h"
#include "weftd/rundir.h"

/* That of all devices, and those of some that are there. 0 or -errno, logged. */
int tree_write(const struct rundir *dir, const struct fabric_page *page);
/* That of the devices of these bits, if it is missing. */
int tree_write_some(const struct rundir *dir, const struct fabric_page *page, uint32_t which);
/* How many devices programs at this place have: those of the page, and behind them one for each further adapter of a host.
 * host_is_place(f, place). */
uint32_t tree_devices(const struct fabric_page *page, const struct fabric *f, uint32_t place);
/* One tree for programs at this place: of all devices (which = 0), or of those of these bits. host_is_place(f, place). */
int tree_write_place(const struct rundir *dir, const struct fabric_page *page, const struct fabric *f, uint32_t place,
		     uint32_t which);
/* Writes again what a subnet manager has changed of the place's ports, in such a tree that is there. What fails is logged. */
void tree_refresh_place(const struct rundir *dir, const struct fabric_page *page, const struct fabric *f, uint32_t place,
			uint32_t which);
bool tree_has_place(const struct rundir *dir, uint32_t place, uint32_t which);
/* Each place that has trees, once for each tree. */
void tree_visit_places(const struct rundir *dir, void (*visit)(void *arg, uint32_t place, uint32_t which), void *arg);

/* All of them. False when something in them was not made by weft, and stays. */
bool tree_remove(const struct rundir *dir);
/* Those of places. */
bool tree_remove_places(const struct rundir *dir);

#endif
