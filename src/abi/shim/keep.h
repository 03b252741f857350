/* Keeps weft run's variables for programs that are started with an environment without them: by env -i, by a launcher that clears
 * it, or by an LD_PRELOAD of its own. An environment that has WEFT_ROOT empty, or WEFT_ROOT without an LD_PRELOAD, was made so by
 * intent and stays as it is.
 * Invariant: nothing here allocates, locks or calls the system, for children of fork and vfork call it before their exec. */
#ifndef WEFT_ABI_SHIM_KEEP_H
#define WEFT_ABI_SHIM_KEEP_H

#include <stddef.h>

/* Room for an environment that is completed; 0 entries: it stays as it is. */
struct keep_room {
	size_t entries, bytes;
};

/* What envp (NULL: empty) lacks. */
struct keep_room keep_measure(char *const *envp);

/* Completes envp in list and text, which have the measured room and live as long as the result. Returns list. */
char **keep_complete(char *const *envp, char **list, char *text);

#endif
