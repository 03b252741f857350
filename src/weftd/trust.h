/* Who may have whose memory. Whoever has the memory file of a process can change all of it, so that weftd hands it, the share
 * and memory files to those alone to whom ptrace(2) would give the same; all others exchange packets. */
#ifndef WEFT_WEFTD_TRUST_H
#define WEFT_WEFTD_TRUST_H

#include "weftd/hub.h"

/* When a process began, as /proc/PID/stat tells it; 0: it cannot be seen from here. */
uint64_t trust_start(pid_t pid);

/* It has ended, or is about to, and its connection is not closed yet: nobody can be allowed anything of it any more. */
bool trust_is_ending(const struct client *c);

/* Is it the same user, who is told apart from others? */
bool trust_same_user(const struct client *a, const struct client *b);

/* May each of the two, as things are now, trace the other: the same user and group, user namespace and PID namespace,
 * capabilities, both dumpable, and no security module against it? Reads /proc; does not block. */
bool trust_allows(const struct hub *h, const struct client *a, const struct client *b);

#endif
