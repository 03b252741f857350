/* What the ports of this process's devices carry for it, and what it counts there, in the file that weftd gives: fabric/loads.h.
 * At a port of a fabric weft0's is counted there (peers/node.h) and not here. Under the lock. */
#ifndef WEFT_PEERS_LOADS_H
#define WEFT_PEERS_LOADS_H

struct peers;

/* Takes this file in place of the last, and closes the descriptor; -1: all stays as it is. */
void loads_take(struct peers *ps, int fd);
/* The adapter's devices count in the file. */
void loads_point(struct peers *ps);
/* No device counts any more. */
void loads_end(struct peers *ps);

#endif
