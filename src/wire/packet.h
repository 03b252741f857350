/* One InfiniBand transport packet in host order, and its two wire forms: LRH-first (InfiniBand link layer) and
 * IP-first (RoCEv2, no Ethernet header). Only packet_parse sees raw bytes; build(parse(x)) == x for every accepted x.
 * IBA vol. 1, chapters 5, 7, 8, 9 and annex A17. */
#ifndef WEFT_WIRE_PACKET_H
#define WEFT_WIRE_PACKET_H

#include "base/psn.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/uio.h>

enum packet_form {
	PACKET_IB,	/* LRH [GRH] BTH ... payload ICRC; the VCRC is the link's */
	PACKET_ROCE,	/* IPv4 or IPv6, UDP 4791, BTH ... payload ICRC */
};

enum {
	PACKET_MAX_HEADER = 8 + 40 + 12 + 96,	/* LRH + GRH + BTH + extended headers: an upper bound for both forms */
	PACKET_MAX_PAYLOAD = 4096,
	PACKET_MAX_BYTES = PACKET_MAX_HEADER + PACKET_MAX_PAYLOAD + 4 /* + pad <= 3 */ + 4,
};

/* Where the packet goes and comes from: one of LRH(+GRH) and IP. */
struct packet_path {
	uint16_t slid, dlid;	/* PACKET_IB */
	uint8_t sl;		/* service level, LRH */
	bool has_grh;		/* PACKET_IB: a GRH follows the LRH. PACKET_ROCE: always true */
	bool is_ipv4;		/* PACKET_ROCE: both GIDs are ::ffff:a.b.c.d */
	uint8_t tclass;
	uint8_t hop_limit;
	uint32_t flow_label;
	uint8_t sgid[16], dgid[16];
	uint16_t udp_sport;	/* PACKET_ROCE */
	uint16_t ip_id;		/* PACKET_ROCE, IPv4 */
};

struct packet {
	enum packet_form form;
	struct packet_path path;

	/* BTH */
	uint8_t opcode;		/* row of the opcode table (wire/opcode.h) */
	bool solicited;
	bool migrated;		/* MigReq */
	uint8_t pad;		/* 0..3, derived from payload_bytes on build */
	uint16_t pkey;
	uint32_t dest_qpn;
	bool ack_requested;
	psn_t psn;
	bool fecn, becn;

	/* extended headers; valid as the opcode's row says */
	struct { uint32_t qkey, src_qpn; } deth;
	struct { uint32_t srqn; } xrceth;
	struct { uint64_t va; uint32_t rkey, length; } reth;
	struct { uint64_t va; uint32_t rkey; uint64_t swap_add, compare; } atomiceth;
	struct { uint8_t syndrome; uint32_t msn; } aeth;
	uint64_t atomicack;	/* original value */
	uint32_t imm;		/* as on the wire, read big-endian */
	uint32_t ieth_rkey;
	struct { uint8_t placement, selectivity; } feth;	/* FLUSH, IBA 1.5: 4-bit PLT, 2-bit SEL */

	/* Borrowed. After parse one element pointing into the frame; before build any gather list. */
	const struct iovec *payload;
	unsigned payload_iovs;
	uint32_t payload_bytes;
	struct iovec payload_one;	/* what parse points payload at */
};

enum packet_error {
	PACKET_OK = 0,
	PACKET_SHORT,		/* ends before its headers or its length says */
	PACKET_BAD_FORM,	/* LNH, IP version, protocol, port or header checksum */
	PACKET_BAD_OPCODE,	/* no such row */
	PACKET_BAD_LENGTH,	/* PktLen/IP length, pad or payload against the row's rule */
	PACKET_BAD_ICRC,
	PACKET_BAD_VERSION,	/* LVer, TVer, IPVer */
};

/* Parses one frame of `bytes` bytes. On PACKET_OK *p is filled and p->payload points at p->payload_one, which points
 * into the frame (p must not be copied without repointing it: use packet_copy). Otherwise *p is unspecified.
 * With check_icrc the ICRC is verified. */
enum packet_error packet_parse(struct packet *p, enum packet_form form, const void *frame, size_t bytes, bool check_icrc);

void packet_copy(struct packet *to, const struct packet *from);

/* Bytes packet_build will write: headers, payload, pad and ICRC. */
size_t packet_bytes(const struct packet *p);

/* Bytes of the headers alone (everything before the payload). */
size_t packet_header_bytes(const struct packet *p);

/* Builds the whole frame, payload gathered, pad zeroed, ICRC computed. `room` must be >= packet_bytes(p).
 * Returns the bytes written. */
size_t packet_build(const struct packet *p, void *frame, size_t room);

/* One line in the style of the golden dumps, for traces and tests; returns what snprintf would. */
int packet_dump(const struct packet *p, char *text, size_t room);

const char *packet_error_name(enum packet_error e);

/* IBA 9.2 opcode row facts by code; NULL for a code without a row. */
#include "wire/opcode.h"

#endif
