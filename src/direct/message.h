/* Whole messages as records of a channel between two processes, in host order: a head of 16 bytes, what the opcode's row
 * says of its headers, and the payload or where it is. A small send is one line of the ring. */
#ifndef WEFT_DIRECT_MESSAGE_H
#define WEFT_DIRECT_MESSAGE_H

#include "direct/direct.h"

enum { MESSAGE_MAX_BYTES = 8192 };	/* of a record; the writer's longest payload fits with all heads */

/* Bytes of the record, at most MESSAGE_MAX_BYTES if what it carries does. */
size_t message_bytes(const struct direct_message *m);
/* Writes them. */
void message_build(const struct direct_message *m, void *record);
/* Reads a record that nobody changes any more. m->iov points to `iov`, the payload into the record. False: no message. */
bool message_parse(struct direct_message *m, const void *record, size_t bytes, struct iovec iov[DIRECT_IOVS]);

/* Copies from `offset` on of what the list names in the memory that the mover reaches, as many bytes as `to` holds. */
bool message_pull(const struct direct_message *m, uint32_t offset, const struct direct_mover *mover, void *peer,
		  const struct iovec *to, unsigned tos);

#endif
