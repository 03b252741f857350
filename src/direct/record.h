/* Direct messages as records of a channel between two processes, in host order: a head of 16 bytes, what the opcode's row
 * says of its headers, and the payload or where it is. A small send is one line of the ring. */
#ifndef WEFT_DIRECT_RECORD_H
#define WEFT_DIRECT_RECORD_H

#include "base/copy_few.h"
#include "base/qpn.h"
#include "direct/rma.h"
#include "wire/opcode.h"

#include <string.h>

/* What every record begins with. */
struct record_head {
	uint32_t dest;		/* opcode << 24 | QPN */
	uint32_t src;		/* flags << 24 | QPN */
	uint32_t psn, received;	/* RC's SEND ONLY: what is promised << 24 | PSN, receives and size */
};

enum {
	RECORD_PROMISE = 24,	/* the shift */
	RECORD_MAX_BYTES = 8192,	/* of a record; the writer's longest payload fits with all heads */
	RECORD_HEAD_BYTES = sizeof(struct record_head),
	RECORD_SOLICITED = 1,	/* of the flags */
};

/* What stands before the payload, by opcode: the head and what the opcode's row adds. */
extern const uint8_t record_heads[256];

/* Bytes of the record. At most RECORD_MAX_BYTES, if an eager payload has at most DIRECT_EAGER_MAX. */
size_t record_bytes_elsewhere(const struct direct_message *m);
static inline size_t record_bytes(const struct direct_message *m)
{
	return m->payload == PAYLOAD_EAGER ? record_heads[m->opcode] + (size_t)m->bytes : record_bytes_elsewhere(m);
}
static inline struct record_head record_head(uint32_t opcode, uint32_t flags, uint32_t dest_qpn, uint32_t src_qpn, psn_t psn,
					      psn_t received)
{
	return (struct record_head){ opcode << 24 | dest_qpn, flags << 24 | src_qpn, psn, received };
}

/* Writes them. */
void record_build(const struct direct_message *m, void *record);
/* As record_build, of a short message (direct_ops.send_short), which has no fields of its own. */
static inline void record_build_short(void *record, uint32_t dest_qpn, uint32_t src_qpn, psn_t psn, psn_t received,
				       struct direct_promise promise, const void *data, uint32_t bytes, bool solicited)
{
	const struct record_head head = record_head(OPCODE_RC_SEND_ONLY, solicited ? RECORD_SOLICITED : 0, dest_qpn, src_qpn,
						    (uint32_t)promise.receives << RECORD_PROMISE | psn,
						    (uint32_t)promise.size << RECORD_PROMISE | received);

	memcpy(record, &head, sizeof(head));
	copy_few((uint8_t *)record + RECORD_HEAD_BYTES, data, bytes);
}
/* A record as record_build_short makes it. */
struct record_short {
	uint32_t dest_qpn, src_qpn;
	psn_t psn, received;
	struct direct_promise promise;
	const void *data;
	uint32_t bytes;
	bool solicited;
};
/* Reads a record's head once, as others may change it meanwhile. False: it is not a short one, if any. */
static inline bool record_parse_short(struct record_short *m, const void *record, size_t bytes)
{
	const volatile struct record_head *from = record;
	struct record_head head;

	if (bytes <= RECORD_HEAD_BYTES || bytes > RECORD_MAX_BYTES)
		return false;
	head = *from;
	if (head.dest >> 24 != OPCODE_RC_SEND_ONLY || head.src >> 24 > RECORD_SOLICITED ||
	    head.received >> RECORD_PROMISE > PROMISE_SIZE)
		return false;
	*m = (struct record_short){
		.dest_qpn = head.dest & QPN_MASK, .src_qpn = head.src & QPN_MASK, .psn = head.psn & PSN_MASK,
		.received = head.received & PSN_MASK,
		.promise = { (uint8_t)(head.psn >> RECORD_PROMISE), (uint8_t)(head.received >> RECORD_PROMISE) },
		.data = (const uint8_t *)record + RECORD_HEAD_BYTES, .bytes = (uint32_t)(bytes - RECORD_HEAD_BYTES),
		.solicited = head.src >> 24,
	};
	return true;
}
/* The first bytes of a record: does it begin as a datagram's, whose payload then is what follows the fields before it? */
static inline bool record_is_datagram(const void *record)
{
	struct record_head head;

	memcpy(&head, record, sizeof(head));
	return (head.dest >> 24 | 1) == OPCODE_UD_SEND_ONLY_IMM;
}
/* Reads a record that nobody changes any more. m->iov points to `iov`, the payload into the record. False: no message. */
bool record_parse(struct direct_message *m, const void *record, size_t bytes, struct iovec iov[DIRECT_IOVS]);

/* Copies from `offset` on of what the list names in the memory that the mover reaches, as many bytes as `to` holds. */
bool record_pull(const struct direct_message *m, uint32_t offset, const struct rma_mover *mover, void *peer,
		  const struct iovec *to, unsigned tos);

#endif
