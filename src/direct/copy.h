/* Executing a request on memory that we can address: our own, or another process's that we mapped. */
#ifndef WEFT_DIRECT_COPY_H
#define WEFT_DIRECT_COPY_H

#include "verbs/direct.h"

/* All r->bytes (not 0) from `memory` on are there. The last byte of a write becomes visible last; atomics are the CPU's,
 * and what else must exclude them is the caller's to see to. False: an atomic on a word that is not aligned. */
bool copy_execute(void *memory, struct direct_request *r);
/* A write of one piece, bytes > 0. */
void copy_write(uint8_t *to, const uint8_t *from, size_t bytes);
/* As many bytes from `from` on as the list takes. */
void copy_scatter(const struct iovec *iov, unsigned iovs, const uint8_t *from);

#endif
