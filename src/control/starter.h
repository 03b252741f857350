/* Starting weftd from inside a program: to serve, when one that was killed has left its directory, or to clean up. */
#ifndef WEFT_CONTROL_STARTER_H
#define WEFT_CONTROL_STARTER_H

/* Returns once a weftd serves the directory, or somebody else is about to start one: then it comes soon or never. -errno: none
 * can be started from here (another user's or another network namespace's directory, no weftd next to this library). Blocks. */
int starter_start(const char *dir);

/* For a process that ends and whose weftd has left: once it has ended, what that weftd kept for it is removed, if nobody else
 * needs it. Returns at once. */
void starter_sweep(const char *dir);

#endif
