/* Memory files, sized with respect for the process's limits. */
#ifndef WEFT_LINK_MEMFILE_H
#define WEFT_LINK_MEMFILE_H

#include <stddef.h>

/* As ftruncate; but what RLIMIT_FSIZE forbids is -EFBIG, where the kernel would end the program by SIGXFSZ. 0 or -errno. */
int memfile_resize(int fd, size_t bytes);

#endif
