/* Whole messages as records of a channel between two processes, in host order: a head of 16 bytes, what the opcode's row
 * says of its headers, and the payload or where it is. A small send is one line of the ring. */
#ifndef WEFT_DIRECT_MESSAGE_H
#define WEFT_DIRECT_MESSAGE_H

#include "direct/direct.h"
#include "wire/opcode.h"

#include <string.h>

/* What every record begins with. */
struct message_head {
	uint32_t dest;		/* opcode << 24 | QPN */
	uint32_t src;		/* flags << 24 | QPN */
	uint32_t psn, received;
};

enum {
	MESSAGE_MAX_BYTES = 8192,	/* of a record; the writer's longest payload fits with all heads */
	MESSAGE_HEAD_BYTES = sizeof(struct message_head),
};

/* What stands before the payload, by opcode: the head and what the opcode's row adds. */
extern const uint8_t message_heads[256];

/* Bytes of the record, at most MESSAGE_MAX_BYTES if what it carries does. */
size_t message_bytes_elsewhere(const struct direct_message *m);
static inline size_t message_bytes(const struct direct_message *m)
{
	return m->payload == PAYLOAD_CARRIED ? message_heads[m->opcode] + (size_t)m->bytes : message_bytes_elsewhere(m);
}
/* Writes them. */
void message_build(const struct direct_message *m, void *record);
/* As message_build, of a plain message (direct_ops.send_plain), which has neither flags nor fields of its own. */
static inline void message_build_plain(void *record, uint32_t dest_qpn, uint32_t src_qpn, psn_t psn, psn_t received,
				       const void *data, uint32_t bytes)
{
	const struct message_head head = {
		.dest = (uint32_t)OPCODE_RC_SEND_ONLY << 24 | dest_qpn, .src = src_qpn, .psn = psn, .received = received,
	};

	memcpy(record, &head, sizeof(head));
	memcpy((uint8_t *)record + MESSAGE_HEAD_BYTES, data, bytes);
}
/* Reads a record that nobody changes any more. m->iov points to `iov`, the payload into the record. False: no message. */
bool message_parse(struct direct_message *m, const void *record, size_t bytes, struct iovec iov[DIRECT_IOVS]);

/* Copies from `offset` on of what the list names in the memory that the mover reaches, as many bytes as `to` holds. */
bool message_pull(const struct direct_message *m, uint32_t offset, const struct direct_mover *mover, void *peer,
		  const struct iovec *to, unsigned tos);

#endif
