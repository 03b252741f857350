/* Starting weftd from inside a program, when one that was killed has left its directory. */
#ifndef WEFT_HOST_STARTER_H
#define WEFT_HOST_STARTER_H

/* Returns once a weftd serves the directory, or somebody else is about to start one: then it comes soon or never. -errno: none
 * can be started from here (another user's or another network namespace's directory, no weftd next to this library). Blocks. */
int starter_start(const char *dir);

#endif
