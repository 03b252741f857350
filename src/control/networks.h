/* The networks of this machine: the runtime directories in which a weftd can be seen, so that whoever does not find a peer can
 * say where the peer may be. */
#ifndef WEFT_CONTROL_NETWORKS_H
#define WEFT_CONTROL_NETWORKS_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

/* Is there a socket of a weftd of this user (its owner's directory) in dir? */
bool networks_is_served(const char *dir, uid_t uid);

/* Calls visit for each usual directory (/run/weft, /run/user/UID/weft, /tmp/weft-UID) that has a weftd's socket and is not
 * `own`. Directories that this user may not enter are told too. Reads directories; never waits for a weftd. */
void networks_visit(const char *own, void (*visit)(void *arg, const char *dir, uid_t owner), void *arg);

/* The same as text: "/tmp/weft-0 (user 0), /run/weft (user 0)", cut to room. False: there is none. */
bool networks_describe(const char *own, char *to, size_t room);

/* Logs that the network in `own` has no `what` ("QP 0x012345"): an error that names the other networks, where the peer may be;
 * without others no more than information. */
void networks_tell_missing(const char *own, const char *what);

#endif
