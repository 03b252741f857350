/* One InfiniBand transport packet in host order, and its two wire forms: LRH-first (InfiniBand link layer) and
 * IP-first (RoCEv2, no Ethernet header); and whole Ethernet frames, which are payload to us (their headers: ether.h).
 * Only packet_parse sees raw bytes; build(parse(x)) == x for every accepted x.
 * IBA vol. 1, chapters 5, 7, 8, 9 and annex A17. */
#ifndef WEFT_WIRE_PACKET_H
#define WEFT_WIRE_PACKET_H

#include "base/psn.h"
#include "wire/ether.h"
#include "wire/opcode.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/uio.h>

enum packet_form {
	PACKET_IB,	/* LRH [GRH] BTH ... payload ICRC; the VCRC is the link's */
	PACKET_ROCE,	/* IPv4 or IPv6, UDP 4791, BTH ... payload ICRC */
	PACKET_ETHERNET,	/* any frame without its FCS, all of it payload */
};

#define MESSAGE_MAX_BYTES (1u << 31)	/* IBA 9.7.2 */
enum { HELD_WORDS = 4, HELD_BITS = 64 * HELD_WORDS };	/* our choice: HELDETH speaks of four default windows */
enum { ATOMIC_BYTES = 8 };		/* IBA 9.4.5: the word of an atomic operation; of an atomic write too */

enum {
	PACKET_MAX_HEADER = 8 + 40 + 12 + 96,	/* LRH + GRH + BTH + extended headers: an upper bound for both forms */
	PACKET_MAX_PAYLOAD = 4096,
	PACKET_MAX_ETHERNET = ETHER_BYTES + ETHER_TAG_BYTES + PACKET_MAX_PAYLOAD,
	PACKET_MAX_BYTES = PACKET_MAX_HEADER + PACKET_MAX_PAYLOAD + 4 /* + pad <= 3 */ + 4,
};

/* Where a frame came from, as the host tells places apart: the other end of a channel, or the network. One number stands for one
 * place as long as the adapter lives. */
typedef uint32_t origin_t;
#define ORIGIN_NONE UINT32_MAX		/* no frame's */
#define ORIGIN_NETWORK (UINT32_MAX - 1)	/* other hosts: their processes are not told apart */
#define ORIGIN_OWNER (UINT32_MAX - 2)	/* who has QP1 of the host's ports */

/* Where the packet goes and comes from: one of LRH(+GRH) and IP. */
struct packet_path {
	uint16_t slid, dlid;	/* PACKET_IB */
	uint8_t sl;		/* service level, LRH */
	uint8_t vl;		/* virtual lane, LRH: a switch's choice, outside the ICRC */
	bool has_grh;		/* PACKET_IB: a GRH follows the LRH. PACKET_ROCE: always true */
	bool is_ipv4;		/* PACKET_ROCE: both GIDs are ::ffff:a.b.c.d */
	uint8_t tclass;
	uint8_t hop_limit;
	uint32_t flow_label;
	uint8_t sgid[16], dgid[16];
	uint16_t udp_sport;	/* PACKET_ROCE */
	uint16_t udp_checksum;	/* PACKET_ROCE: 0 is none, the rule (A17.3.1); as received, not checked: the ICRC is stronger */
	uint16_t ip_id;		/* PACKET_ROCE, IPv4 */
	bool ip_may_fragment;	/* PACKET_ROCE, IPv4: DF is off. Fragments themselves are refused */
};

/* Bits that a receiver ignores. Kept only so that a parsed packet is rebuilt to the same bytes; zero in what we send, but
 * for bth7, which may be BTH_SELECTIVE, and bth6, of BTH_MARKS. */
struct packet_reserved {
	uint8_t lrh2, lrh5, bth6, bth7, deth, xrceth;
	uint32_t feth;
	uint8_t pad[3];		/* the pad bytes */
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
	struct { uint64_t held[HELD_WORDS]; uint8_t repeats; psn_t repeated; } heldeth;	/* ours: ib/loss.h, ib/reorder.h */
	uint32_t imm;		/* as on the wire, read big-endian */
	uint32_t ieth_rkey;
	struct { uint8_t placement, selectivity; } feth;	/* FLUSH, IBA 1.5: 4-bit PLT, 2-bit SEL */
	struct packet_reserved resv;

	/* Borrowed. After parse one element pointing into the frame; before build any gather list. */
	const struct iovec *payload;
	unsigned payload_iovs;
	uint32_t payload_bytes;
	struct iovec payload_one;	/* what parse points payload at */
};

enum packet_error {
	PACKET_OK = 0,
	PACKET_SHORT,		/* ends before its headers do, or before its length says */
	PACKET_BAD_FORM,	/* LNH, next header, IP options or fragment, protocol, port or header checksum */
	PACKET_BAD_OPCODE,	/* no such row */
	PACKET_BAD_LENGTH,	/* more bytes than PktLen, the IP or UDP length say; pad or payload against the row's rule */
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

/* Bytes of the headers before the BTH; not of whole Ethernet frames. */
size_t packet_path_bytes(enum packet_form form, const struct packet_path *path);

/* Bytes of the headers alone (everything before the payload). */
size_t packet_header_bytes(const struct packet *p);

/* Builds the whole frame, payload gathered, pad zeroed, ICRC computed. `room` must be >= packet_bytes(p), opcode must have
 * a row and the gather list hold payload_bytes. Returns the bytes written (0 after a weft_bug_on). */
size_t packet_build(const struct packet *p, void *frame, size_t room);

/* Only what packet_header_bytes counts, into at most PACKET_MAX_HEADER bytes. Returns the same number (0 after a weft_bug_on). */
size_t packet_build_header(const struct packet *p, void *header);
/* Only the IP and UDP headers of a RoCE packet that has `bytes` bytes with them; and back, whatever follows them. *header_bytes
 * and *path are set on PACKET_OK. */
void packet_build_path(const struct packet_path *path, void *header, size_t bytes);
enum packet_error packet_parse_path(struct packet_path *path, const void *frame, size_t bytes, size_t *header_bytes);

/* One line, without newline, for traces and golden tests: path, opcode, every header field that is not 0 under the name it
 * has above, and the payload's length and CRC-32. Cut to room like snprintf; returns the length it needs. */
int packet_dump(const struct packet *p, char *text, size_t room);

const char *packet_error_name(enum packet_error e);

#endif
