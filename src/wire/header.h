/* Every header of a packet on one page: the specifications' tables as field lists. F(member of struct packet, byte, bit from
 * the msb, width) makes parsing, building and printing, so that they cannot disagree. Members `resv.*` are the reserved
 * fields, which a receiver ignores (IBA 9.2: "ignored on receive") and a sender leaves 0, but for BTH_SELECTIVE and BTH_MARKS. */
#ifndef WEFT_WIRE_HEADER_H
#define WEFT_WIRE_HEADER_H

#include "wire/field.h"
#include "wire/opcode.h"

enum {
	LRH_BYTES = 8, GRH_BYTES = 40, BTH_BYTES = 12, ICRC_BYTES = 4,
	IPV4_BYTES = 20, IPV6_BYTES = 40, UDP_BYTES = 8,
	LNH_LOCAL = 2, LNH_GLOBAL = 3,	/* IBA 7.7.5: BTH follows; GRH and BTH follow */
	NEXT_HEADER_BTH = 0x1b,		/* IBA 8.3: NxtHdr */
	PROTOCOL_UDP = 17,
	ROCE_PORT = 4791,		/* A17.3.1.2 */
};

/* IBA 7.7, figure 20: Local Route Header */
#define LRH_LVER	0, 4, 4
#define LRH_LNH		1, 6, 2
#define LRH_PKTLEN	4, 5, 11	/* 4 byte words from the LRH to the ICRC */
#define LRH_FIELDS(F)			\
	F(path.vl,	0, 0, 4)	\
	F(path.sl,	1, 0, 4)	\
	F(resv.lrh2,	1, 4, 2)	\
	F(path.dlid,	2, 0, 16)	\
	F(resv.lrh5,	4, 0, 5)	\
	F(path.slid,	6, 0, 16)

/* IBA 8.3, figure 24: Global Route Header, which is RFC 8200's IPv6 header */
#define IPV6_VERSION	0, 0, 4
#define IPV6_PAYLOAD	4, 0, 16
#define IPV6_NEXT	6, 0, 8
#define IPV6_FIELDS(F)			\
	F(path.tclass,	0, 4, 8)	\
	F(path.flow_label, 1, 4, 20)	\
	F(path.hop_limit, 7, 0, 8)
enum { IPV6_SOURCE = 8, IPV6_DESTINATION = 24 };

/* RFC 3168, 5: the two low bits of the traffic class */
enum { ECN_BITS = 3, ECN_ECT0 = 2, ECN_CE = 3 };

/* RFC 791, 3.1 */
#define IPV4_VERSION	0, 0, 4
#define IPV4_IHL	0, 4, 4
#define IPV4_LENGTH	2, 0, 16
#define IPV4_IDENTIFICATION 4, 0, 16
#define IPV4_FRAGMENT	6, 0, 16	/* flags and offset */
#define IPV4_PROTOCOL	9, 0, 8
#define IPV4_CHECKSUM	10, 0, 16
#define IPV4_FIELDS(F)			\
	F(path.tclass,	1, 0, 8)	\
	F(path.ip_id,	4, 0, 16)	\
	F(path.hop_limit, 8, 0, 8)
enum { IPV4_ID = 4, IPV4_SOURCE = 12, IPV4_DESTINATION = 16, IPV4_DF = 0x4000 };

/* RFC 768 */
#define UDP_SPORT	0, 0, 16
#define UDP_DPORT	2, 0, 16
#define UDP_LENGTH	4, 0, 16
#define UDP_FIELDS(F)			\
	F(path.udp_sport, 0, 0, 16)	\
	F(path.udp_checksum, 6, 0, 16)

/* IBA 9.2, figure 28: Base Transport Header */
#define BTH_OPCODE	0, 0, 8
#define BTH_PAD		1, 2, 2
#define BTH_TVER	1, 4, 4
#define BTH_DEST_QPN	5, 0, 24
#define BTH_FIELDS(F)			\
	F(solicited,	1, 0, 1)	\
	F(migrated,	1, 1, 1)	\
	F(pkey,		2, 0, 16)	\
	F(fecn,		4, 0, 1)	\
	F(becn,		4, 1, 1)	\
	F(resv.bth6,	4, 2, 6)	\
	F(dest_qpn,	5, 0, 24)	\
	F(ack_requested, 8, 0, 1)	\
	F(resv.bth7,	8, 1, 7)	\
	F(psn,		9, 0, 24)

/* What resv.bth7 says of its sender, if anything; our choice, the letter s: ib/loss.h. Another form of HELDETH takes another
 * value, so that who knows only one is a stranger to who knows the other. W was for 64 bits, w for peers that repeat no part of a
 * READ. */
enum { BTH_SELECTIVE = 0x73 };

/* Or that, and by which of its paths a request goes: BTH_SELECTIVE by the first, this and the number from 1 on by another. A
 * response says by which it goes, of those that requests came by. Ours: ib/spread.h. */
enum { BTH_BY_PATH = 0x78, BTH_PATH_NUMBER = 7, BTH_PATHS = 8 };

/* -1: its sender does not repeat selectively, as far as it says. */
static inline int bth_path(uint8_t bth7)
{
	if (bth7 == BTH_SELECTIVE)
		return 0;
	return (bth7 & ~BTH_PATH_NUMBER) == BTH_BY_PATH && bth7 != BTH_BY_PATH ? bth7 & BTH_PATH_NUMBER : -1;
}

static inline bool bth_is_selective(uint8_t bth7)
{
	return bth_path(bth7) >= 0;
}

static inline uint8_t bth_by_path(unsigned number)
{
	return (uint8_t)(number ? BTH_BY_PATH | number : BTH_SELECTIVE);
}

/* The payload of WEFT_PATH_PROBE and of its answer. The answer's number is the probe's, which nobody can guess. The sender has
 * `addresses` addresses at `address`, of those that it is reached by on this port; GIDs of 16 bytes. Responses to what comes by
 * the probe's path have a source port that differs in the bits `variant`. Ours: ib/spread.h. */
enum { PATH_ADDRESSES = 4, PATH_PROBE_ADDRESS = 8, PATH_PROBE_BYTES = PATH_PROBE_ADDRESS + PATH_ADDRESSES * 16 };
#define PATH_PROBE_NUMBER	0, 0, 32
#define PATH_PROBE_ADDRESSES	4, 0, 8
#define PATH_PROBE_VARIANT	5, 0, 8

/* What resv.bth6 of a response holds to such a peer: how many of its requests came marked, modulo 64. Ours: ib/pace.h. */
enum { BTH_MARKS = 0x3f };

/* IBA 9.3: the extended transport headers */
#define DETH_FIELDS(F)			\
	F(deth.qkey,	0, 0, 32)	\
	F(resv.deth,	4, 0, 8)	\
	F(deth.src_qpn,	5, 0, 24)
#define XRCETH_FIELDS(F)		\
	F(resv.xrceth,	0, 0, 8)	\
	F(xrceth.srqn,	1, 0, 24)
#define FETH_FIELDS(F)			\
	F(resv.feth,	0, 0, 26)	\
	F(feth.selectivity, 3, 2, 2)	\
	F(feth.placement, 3, 4, 4)
#define RETH_FIELDS(F)			\
	F(reth.va,	0, 0, 64)	\
	F(reth.rkey,	8, 0, 32)	\
	F(reth.length,	12, 0, 32)
#define ATOMICETH_FIELDS(F)		\
	F(atomiceth.va,	0, 0, 64)	\
	F(atomiceth.rkey, 8, 0, 32)	\
	F(atomiceth.swap_add, 12, 0, 64) \
	F(atomiceth.compare, 20, 0, 64)
#define AETH_FIELDS(F)			\
	F(aeth.syndrome, 0, 0, 8)	\
	F(aeth.msn,	1, 0, 24)
/* Ours. held, bit i of its 256: the packet of PSN + 1 + i is, where PSN is the BTH's, of the last packet executed; so bit 0 is
 * never set. The words have the lowest bits first.
 * repeats: how many packets have come twice, modulo 256; repeated: the last one's PSN. */
#define HELDETH_FIELDS(F)		\
	F(heldeth.held[0], 0, 0, 64)	\
	F(heldeth.held[1], 8, 0, 64)	\
	F(heldeth.held[2], 16, 0, 64)	\
	F(heldeth.held[3], 24, 0, 64)	\
	F(heldeth.repeats, 32, 0, 8)	\
	F(heldeth.repeated, 33, 0, 24)
#define ATOMICACKETH_FIELDS(F)		\
	F(atomicack,	0, 0, 64)
#define IMM_FIELDS(F)			\
	F(imm,		0, 0, 32)
#define IETH_FIELDS(F)			\
	F(ieth_rkey,	0, 0, 32)

/* H(x, bit in the opcode's row, bytes, field list), in the order they have on the wire. */
#define EXTENDED_HEADERS(H, x)		\
	H(x, HDR_XRCETH, 4, XRCETH_FIELDS)		\
	H(x, HDR_DETH, 8, DETH_FIELDS)		\
	H(x, HDR_FETH, 4, FETH_FIELDS)		\
	H(x, HDR_RETH, 16, RETH_FIELDS)		\
	H(x, HDR_ATOMICETH, 28, ATOMICETH_FIELDS)	\
	H(x, HDR_AETH, 4, AETH_FIELDS)		\
	H(x, HDR_HELDETH, 36, HELDETH_FIELDS)	\
	H(x, HDR_ATOMICACKETH, 8, ATOMICACKETH_FIELDS) \
	H(x, HDR_IMM, 4, IMM_FIELDS)		\
	H(x, HDR_IETH, 4, IETH_FIELDS)

#endif
