/* The processes that descend from this one, found in /proc. */
#ifndef WEFT_CLI_OFFSPRING_H
#define WEFT_CLI_OFFSPRING_H

#include <sys/types.h>

/* From now on the children of a descendant that ends become children of this process. */
void offspring_adopt(void);

/* Calls visit for each living descendant, parents before their children. */
void offspring_visit(void (*visit)(void *arg, pid_t pid), void *arg);

/* Kills all descendants but those that execute the file `spare`, and reaps them. Waits until they are gone, at most for some
 * seconds. The caller has adopted them. */
void offspring_end(const char *spare);

#endif
