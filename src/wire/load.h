/* What a message weighs on links: its packets and their words of 4 bytes from the LRH, on Ethernet from the IP header, to the
 * ICRC, as ports count them (PortXmitData, IBA 16.1.3.5), without anybody making the packets. */
#ifndef WEFT_WIRE_LOAD_H
#define WEFT_WIRE_LOAD_H

#include "wire/header.h"
#include "wire/opcode.h"

enum { LOAD_WORD = 4 };

struct wire_load {
	uint64_t packets, words;
};

/* Bytes of a packet with so many of extended headers and of payload, which is padded. */
static inline uint64_t load_packet_bytes(size_t path_bytes, unsigned header_bytes, uint64_t bytes)
{
	return path_bytes + BTH_BYTES + header_bytes + (bytes + LOAD_WORD - 1) / LOAD_WORD * LOAD_WORD + ICRC_BYTES;
}

/* A message with `bytes` bytes of payload in packets of at most mtu_bytes, each with path_bytes before its BTH
 * (packet_path_bytes); trailer: HDR_IMM, HDR_IETH or 0. The service has the operation; with one packet if the operation has no
 * others. */
struct wire_load load_of_message(enum opcode_service service, enum opcode_op op, unsigned trailer, uint64_t bytes,
				 uint32_t mtu_bytes, size_t path_bytes);

/* What a responder of a reliable service sends back for a request of this operation and of so many bytes, in one acknowledgement
 * or the packets of one response. */
struct wire_load load_of_answer(enum opcode_service service, enum opcode_op op, uint64_t bytes, uint32_t mtu_bytes,
				size_t path_bytes);

#endif
