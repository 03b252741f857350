/* Memory files: sized with respect for the process's limits, and of a fixed size where other processes map them, as a file that
 * became shorter would kill whoever maps it with a signal. */
#ifndef WEFT_LINK_MEMFILE_H
#define WEFT_LINK_MEMFILE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Our choice, for stretches of addresses whose pages come with use: several hundred of peers fit into the 47 bits of an address
 * space. */
static const uint64_t MEMFILE_STRETCH_MOST = 256ull << 30;

/* As ftruncate; but what RLIMIT_FSIZE forbids is -EFBIG, where the kernel would end the program by SIGXFSZ. 0 or -errno. */
int memfile_resize(int fd, size_t bytes);

/* A new one whose size nobody can change any more. The descriptor, closed by exec, or -errno. */
int memfile_create_fixed(const char *name, size_t bytes);

/* Will the file have `least` bytes as long as anybody maps it? For files that another process made; not only by weft. */
bool memfile_is_fixed(int fd, size_t least);

/* Moves the descriptor away from the low numbers that programs count on. The new one, or fd where there is none. */
int memfile_move_away(int fd);

#endif
