/* LD_PRELOAD as programs of weft run have it: sanitizers first, as they insist; then weft's libraries; then what it had. The
 * dynamic loader knows libibverbs.so.1 by its soname from then on, so a program gets weft's wherever it looks for one: with
 * DT_RPATH, with another LD_LIBRARY_PATH, by dlopen. */
#ifndef WEFT_CLI_PRELOAD_H
#define WEFT_CLI_PRELOAD_H

#include <stdbool.h>
#include <stddef.h>

/* Is this file, of any folder, the run-time library of a sanitizer of GCC or clang? */
bool preload_is_sanitizer(const char *file);

/* Writes the value for a process that has old (NULL: none) to text, of so much room. The libraries of the folder come once,
 * also if old has them. 0 or -ENAMETOOLONG. */
int preload_join(const char *old, const char *folder, bool with_heap, char *text, size_t room);

/* Sets this process's LD_PRELOAD so. 0 or -errno. */
int preload_set(const char *folder, bool with_heap);

#endif
