/* Subnet administration (IBA 15.2): what its MADs have behind the common header and RMPP's, and the record of a member of a
 * multicast group, and of a path. Bytes count from the MAD's
 * begin. */
#ifndef WEFT_WIRE_SA_H
#define WEFT_WIRE_SA_H

#include "wire/mad.h"

enum { SA_CLASS_VERSION = 2, SA_PATH_RECORD = 0x35, SA_MCMEMBER_RECORD = 0x38 };	/* 15.2.5.1 */

/* RespTimeValue of the ClassPortInfo of weft's administrations (13.4.8.1): 4.096 us * 2^16, 268 ms; our choice, which programs
 * that share processors keep. */
enum { SA_RESPONSE_TIME = 16 };

/* 15.2.2.1 */
enum sa_method {
	SA_GET_TABLE = 0x12, SA_GET_TRACE_TABLE = 0x13, SA_GET_MULTI = 0x14, SA_DELETE = 0x15, SA_GET_TABLE_RESP = 0x92,
	SA_GET_MULTI_RESP = 0x94, SA_DELETE_RESP = 0x95,
};

/* 15.2.5.17: F(type, member, byte, bit from the msb, width). */
#define SA_MCMEMBER_FIELDS(F)			\
	F(uint64_t, mask, 48, 0, 64)		\
	F(uint32_t, qkey, 88, 0, 32)		\
	F(uint16_t, mlid, 92, 0, 16)		\
	F(uint8_t, mtu, 94, 2, 6)		\
	F(uint8_t, tclass, 95, 0, 8)		\
	F(uint16_t, pkey, 96, 0, 16)		\
	F(uint8_t, sl, 100, 0, 4)		\
	F(uint32_t, flow_label, 100, 4, 20)	\
	F(uint8_t, hop_limit, 103, 0, 8)	\
	F(uint8_t, join_state, 104, 4, 4)

enum sa_mcmember_mask {
	SA_MC_MGID = 1 << 0, SA_MC_PORT_GID = 1 << 1, SA_MC_QKEY = 1 << 2, SA_MC_TCLASS = 1 << 6, SA_MC_PKEY = 1 << 7,
	SA_MC_SL = 1 << 12, SA_MC_FLOW_LABEL = 1 << 13, SA_MC_JOIN_STATE = 1 << 16,
};

enum { SA_FULL_MEMBER = 1, SA_SEND_ONLY_FULL_MEMBER = 8 };	/* JoinState */

struct sa_mcmember {
	uint8_t mgid[16], port_gid[16];
#define MEMBER(type, member, byte, bit, width) type member;
	SA_MCMEMBER_FIELDS(MEMBER)
#undef MEMBER
};

/* 15.2.5.16 */
#define SA_PATH_FIELDS(F)			\
	F(uint64_t, mask, 48, 0, 64)		\
	F(uint16_t, dlid, 96, 0, 16)		\
	F(uint16_t, slid, 98, 0, 16)		\
	F(uint32_t, flow_label, 100, 4, 20)	\
	F(uint8_t, hop_limit, 103, 0, 8)	\
	F(uint8_t, tclass, 104, 0, 8)		\
	F(uint8_t, reversible, 105, 0, 1)	\
	F(uint8_t, count, 105, 1, 7)		\
	F(uint16_t, pkey, 106, 0, 16)		\
	F(uint8_t, sl, 109, 4, 4)		\
	F(uint8_t, mtu, 110, 2, 6)		\
	F(uint8_t, rate, 111, 2, 6)		\
	F(uint8_t, life, 112, 2, 6)

enum sa_path_mask {
	SA_PATH_DGID = 1 << 2, SA_PATH_SGID = 1 << 3, SA_PATH_REVERSIBLE = 1 << 11, SA_PATH_COUNT = 1 << 12,
	SA_PATH_PKEY = 1 << 13,
};

struct sa_path {
	uint8_t dgid[16], sgid[16];
#define MEMBER(type, member, byte, bit, width) type member;
	SA_PATH_FIELDS(MEMBER)
#undef MEMBER
};

void sa_path_get(struct sa_path *p, const uint8_t mad[MAD_BYTES]);
/* As sa_mcmember_put. */
void sa_path_put(const struct sa_path *p, uint8_t mad[MAD_BYTES]);

void sa_mcmember_get(struct sa_mcmember *m, const uint8_t mad[MAD_BYTES]);
/* All of the MAD behind its common header. */
void sa_mcmember_put(const struct sa_mcmember *m, uint8_t mad[MAD_BYTES]);

#endif
