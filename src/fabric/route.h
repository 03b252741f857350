/* Forwarding tables without a subnet manager: each switch gets, for each LID, the port that leads there.
 *
 * The mapping must be private to the caller: these functions read peers and states several times, and rely on each reading being
 * what fabric_open() checked. A mapping that another process may write is walked only (walk.h). */
#ifndef WEFT_FABRIC_ROUTE_H
#define WEFT_FABRIC_ROUTE_H

#include "fabric/fabric.h"

/* MIN_HOP: every path is a shortest one. Paths may wait for each other's buffers in a circle where links form rings.
 * UP_DOWN: no path goes up again after it went down, seen from the switch in the middle or the one farthest from that, so no such
 * circle can be; paths may be longer. Both spread the LIDs of hosts evenly over the ports that are equally good, and those of one
 * port over as many of them as there are. */
enum route_engine { ROUTE_MIN_HOP, ROUTE_UP_DOWN, ROUTE_ENGINES };
/* AUTO: MIN_HOP where that cannot deadlock, UP_DOWN where it could. The others: one of them in any topology. */
enum route_choice { ROUTE_AUTO, ROUTE_ALWAYS_MIN_HOP, ROUTE_ALWAYS_UP_DOWN, ROUTE_CHOICES };

const char *route_engine_name(enum route_engine engine);
const char *route_choice_name(enum route_choice choice);

/* Writes the LFT of every switch; LIDs that cannot be reached lead nowhere. 0 or -ENOMEM. */
int fabric_route(struct fabric *f, enum route_engine engine);

/* As fabric_route(), where the LFTs lead somewhere already: a port that is as good as others stays the one that leads to a LID.
 * may_move: unless it would carry more than an eighth above the least loaded of them (our choice: a switch that comes back gets
 * its share again, and who begins anew leaves all as it is), or leads to another LID of the same port, which a port that is as
 * good does not. Without it no entry changes that may stay.
 *
 * ranks: of each node, for UP_DOWN: the place of a switch in the order by which links lead up, from 1 on, as an earlier call
 * has written it; 0: it has none yet. A switch that is missing for a while keeps its own. So where one dies the others stay
 * above each other as they were, but for those that it alone was above; and when it comes back the order is the old one.
 * Where most switches have none, all get new ones. */
int fabric_route_again(struct fabric *f, enum route_engine engine, bool may_move, uint32_t *ranks);

/* Every host port, and port 0 of every switch, becomes a member of a multicast group, whose packets follow a tree of shortest
 * paths. 0; -ENOMEM; -EINVAL: no MLID that the tables have. */
int fabric_route_group(struct fabric *f, uint32_t mlid);

/* Makes every link that is up active, as a subnet manager does when the tables are written. */
void fabric_activate(struct fabric *f);

#endif
