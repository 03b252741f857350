/* Messages of the communication manager in host order (IBA chapter 12), and the header that the kernels' rdma_cm puts at
 * the start of a request's private data. The members are in cm_fields.h. */
#ifndef WEFT_WIRE_CM_H
#define WEFT_WIRE_CM_H

#include "wire/cm_fields.h"
#include "wire/mad.h"

#include <stdbool.h>
#include <stddef.h>

enum { CM_CLASS_VERSION = 2 };

/* CM_REQ ... CM_APR: the attribute id */
enum cm_attribute {
#define ATTRIBUTE(NAME, member, code) CM_##NAME = code,
	CM_MESSAGES(ATTRIBUTE)
#undef ATTRIBUTE
};

#define MEMBER(type, member, byte, bit, width) type member;
#define BYTES(member, byte, bytes) uint8_t member[bytes];

/* A path as REQ and LAP tell it; mgmt has its own idea of one. */
struct cm_req_path { CM_PATH_FIELDS(MEMBER, BYTES) };

struct cm_req { CM_REQ_FIELDS(MEMBER, BYTES) struct cm_req_path primary, alternate; };
struct cm_mra { CM_MRA_FIELDS(MEMBER, BYTES) };
struct cm_rej { CM_REJ_FIELDS(MEMBER, BYTES) };
struct cm_rep { CM_REP_FIELDS(MEMBER, BYTES) };
struct cm_rtu { CM_RTU_FIELDS(MEMBER, BYTES) };
struct cm_dreq { CM_DREQ_FIELDS(MEMBER, BYTES) };
struct cm_drep { CM_DREP_FIELDS(MEMBER, BYTES) };
struct cm_sidr_req { CM_SIDR_REQ_FIELDS(MEMBER, BYTES) };
struct cm_sidr_rep { CM_SIDR_REP_FIELDS(MEMBER, BYTES) };
struct cm_lap { CM_LAP_FIELDS(MEMBER, BYTES) struct cm_req_path alternate; };
struct cm_apr { CM_APR_FIELDS(MEMBER, BYTES) };

#undef MEMBER
#undef BYTES

/* Which member of the union is valid says attribute. The other fields of the MAD header are the same in all of CM. */
struct cm_msg {
	enum cm_attribute attribute;
	uint64_t tid;
	uint16_t status;
	uint32_t attr_modifier;		/* the ECE options of REQ and REP (IBA 1.4, 12.6.5), else 0 */
	union {
#define UNION(NAME, member, code) struct cm_##member member;
		CM_MESSAGES(UNION)
#undef UNION
	};
};

/* IBA 12.6.6: which message a REJ or MRA answers */
enum cm_answered { CM_ANSWERS_REQ = 0, CM_ANSWERS_REP = 1, CM_ANSWERS_OTHER = 2 /* REJ: none; MRA: LAP */ };

/* IBA 12.6.5: REQ.transport; XRC is EXTENDED with extended_transport 1 (A14) */
enum cm_transport {
	CM_TRANSPORT_RC = 0, CM_TRANSPORT_UC = 1, CM_TRANSPORT_RD = 2, CM_TRANSPORT_EXTENDED = 3, CM_EXTENDED_XRC = 1,
};

/* IBA 12.6.8: REP.failover_accepted, what becomes of the alternate path of the REQ */
enum cm_failover { CM_FAILOVER_ACCEPTED = 0, CM_FAILOVER_UNSUPPORTED, CM_FAILOVER_REFUSED };

/* IBA 12.6.7.2, table 109 */
enum cm_rej_reason {
	CM_REJ_NO_QP = 1, CM_REJ_NO_EEC, CM_REJ_NO_RESOURCES, CM_REJ_TIMEOUT, CM_REJ_UNSUPPORTED, CM_REJ_INVALID_COMM_ID,
	CM_REJ_INVALID_COMM_INSTANCE, CM_REJ_INVALID_SERVICE_ID, CM_REJ_INVALID_TRANSPORT, CM_REJ_STALE_CONNECTION,
	CM_REJ_NO_RDC, CM_REJ_INVALID_GID, CM_REJ_INVALID_LID, CM_REJ_INVALID_SL, CM_REJ_INVALID_TCLASS,
	CM_REJ_INVALID_HOP_LIMIT, CM_REJ_INVALID_PACKET_RATE, CM_REJ_INVALID_ALT_GID, CM_REJ_INVALID_ALT_LID,
	CM_REJ_INVALID_ALT_SL, CM_REJ_INVALID_ALT_TCLASS, CM_REJ_INVALID_ALT_HOP_LIMIT, CM_REJ_INVALID_ALT_PACKET_RATE,
	CM_REJ_PORT_CM_REDIRECT, CM_REJ_PORT_REDIRECT, CM_REJ_INVALID_MTU, CM_REJ_INSUFFICIENT_RESPONDER_RESOURCES,
	CM_REJ_CONSUMER, CM_REJ_RNR_RETRY_INVALID, CM_REJ_DUPLICATE_COMM_ID, CM_REJ_INVALID_CLASS_VERSION,
	CM_REJ_INVALID_FLOW_LABEL, CM_REJ_INVALID_ALT_FLOW_LABEL,
};

/* IBA 12.11.2, table 121 */
enum cm_sidr_status {
	CM_SIDR_VALID = 0, CM_SIDR_UNSUPPORTED, CM_SIDR_REJECT, CM_SIDR_NO_QP, CM_SIDR_REDIRECT, CM_SIDR_UNSUPPORTED_VERSION,
};

/* IBA 12.8.2, table 117 */
enum cm_apr_status {
	CM_APR_SUCCESS = 0, CM_APR_INVALID_COMM_ID, CM_APR_UNSUPPORTED, CM_APR_REJECT, CM_APR_REDIRECT, CM_APR_IS_CURRENT,
	CM_APR_INVALID_QPN, CM_APR_INVALID_LID, CM_APR_INVALID_GID, CM_APR_INVALID_FLOW_LABEL, CM_APR_INVALID_TCLASS,
	CM_APR_INVALID_HOP_LIMIT, CM_APR_INVALID_PACKET_RATE, CM_APR_INVALID_SL,
};

/* True and *msg when the MAD is a CM message: base version 1, class 7, class version 2, method Send, a known attribute. Reserved
 * bits are ignored. Values are not judged. Otherwise false and *msg is unspecified. */
bool cm_parse(struct cm_msg *msg, const uint8_t mad[MAD_BYTES]);

/* Builds all 256 bytes; reserved bits are 0. */
void cm_build(const struct cm_msg *msg, uint8_t mad[MAD_BYTES]);

/* The communication ids that a message names; for SIDR the request id. 0: it names none. */
struct cm_ids {
	uint32_t sender, receiver;
};
struct cm_ids cm_ids_of(const struct cm_msg *msg);

/* One line, as packet_dump: every field that is not 0. */
int cm_dump(const struct cm_msg *msg, char *text, size_t room);

/* "REQ", or "?" */
const char *cm_name(unsigned attribute);

/* ---- rdma_cm's own header, in front of the user's private data of REQ and SIDR_REQ: annex A11 (RDMA IP CM service) ---- */

enum { CMA_BYTES = 36, CMA_VERSION = 0 };

/* An IPv4 address is in the last 4 bytes, the others are 0. */
#define CMA_FIELDS(F, B)			\
	F(uint8_t, version, 0, 0, 8)		\
	F(uint8_t, ip_version, 1, 0, 4)		\
	F(uint16_t, port, 2, 0, 16)		\
	B(source, 4, 16)			\
	B(destination, 20, 16)

struct cma_header {
#define MEMBER(type, member, byte, bit, width) type member;
#define BYTES(member, byte, bytes) uint8_t member[bytes];
	CMA_FIELDS(MEMBER, BYTES)
#undef MEMBER
#undef BYTES
};

/* False when the version is not 0 or the IP version neither 4 nor 6. */
bool cma_parse(struct cma_header *h, const uint8_t *private_data);
void cma_build(const struct cma_header *h, uint8_t *private_data);

/* Service ids of rdma_cm: 0x00000000 01ss pppp, ss the IP protocol that the port space stands for (A11.2). */
#define CMA_SERVICE_ID(port_space, port) ((uint64_t)(port_space) << 16 | (uint16_t)(port))

#endif
