/* The tables of IBA chapter 12 as field lists: F(type, member, byte, bit from the msb, width), B(member, byte, bytes). Bytes
 * count from behind the MAD header, as in the specification. From one list come struct, parser, builder and dump. */
#ifndef WEFT_WIRE_CM_FIELDS_H
#define WEFT_WIRE_CM_FIELDS_H

/* The primary path of table 106 at byte 52, the alternate at byte 96. "local" is the side that sends the REQ. */
enum { CM_REQ_PRIMARY = 52, CM_REQ_ALTERNATE = 96 };
#define CM_PATH_FIELDS(F, B)				\
	F(uint16_t, local_lid, 0, 0, 16)		\
	F(uint16_t, remote_lid, 2, 0, 16)		\
	B(local_gid, 4, 16)				\
	B(remote_gid, 20, 16)				\
	F(uint32_t, flow_label, 36, 0, 20)		\
	F(uint8_t, packet_rate, 39, 2, 6)		\
	F(uint8_t, tclass, 40, 0, 8)			\
	F(uint8_t, hop_limit, 41, 0, 8)			\
	F(uint8_t, sl, 42, 0, 4)			\
	F(uint8_t, subnet_local, 42, 4, 1)		\
	F(uint8_t, ack_timeout, 43, 0, 5)

/* The same members where table 115 has them, from byte 20 of the LAP on. */
enum { CM_LAP_ALTERNATE = 20 };
#define CM_LAP_PATH_FIELDS(F, B)			\
	F(uint16_t, local_lid, 0, 0, 16)		\
	F(uint16_t, remote_lid, 2, 0, 16)		\
	B(local_gid, 4, 16)				\
	B(remote_gid, 20, 16)				\
	F(uint32_t, flow_label, 36, 0, 20)		\
	F(uint8_t, tclass, 39, 0, 8)			\
	F(uint8_t, hop_limit, 40, 0, 8)			\
	F(uint8_t, packet_rate, 41, 2, 6)		\
	F(uint8_t, sl, 42, 0, 4)			\
	F(uint8_t, subnet_local, 42, 4, 1)		\
	F(uint8_t, ack_timeout, 43, 0, 5)

/* Table 106; the paths stand between `extended_transport` and `sap_supported` */
#define CM_REQ_FIELDS(F, B)				\
	F(uint32_t, local_comm_id, 0, 0, 32)		\
	F(uint32_t, vendor_id, 5, 0, 24)		\
	F(uint64_t, service_id, 8, 0, 64)		\
	F(uint64_t, local_ca_guid, 16, 0, 64)		\
	F(uint32_t, local_qkey, 28, 0, 32)		\
	F(uint32_t, local_qpn, 32, 0, 24)		\
	F(uint8_t, responder_resources, 35, 0, 8)	\
	F(uint32_t, local_eecn, 36, 0, 24)		\
	F(uint8_t, initiator_depth, 39, 0, 8)		\
	F(uint32_t, remote_eecn, 40, 0, 24)		\
	F(uint8_t, remote_cm_response_timeout, 43, 0, 5)	\
	F(uint8_t, transport, 43, 5, 2)			\
	F(uint8_t, flow_control, 43, 7, 1)		\
	F(uint32_t, starting_psn, 44, 0, 24)		\
	F(uint8_t, local_cm_response_timeout, 47, 0, 5)	\
	F(uint8_t, retry_count, 47, 5, 3)		\
	F(uint16_t, pkey, 48, 0, 16)			\
	F(uint8_t, path_mtu, 50, 0, 4)			\
	F(uint8_t, rdc_exists, 50, 4, 1)		\
	F(uint8_t, rnr_retry_count, 50, 5, 3)		\
	F(uint8_t, max_cm_retries, 51, 0, 4)		\
	F(uint8_t, srq, 51, 4, 1)			\
	F(uint8_t, extended_transport, 51, 5, 3)	\
	F(uint8_t, sap_supported, 139, 5, 1)		\
	B(private_data, 140, 92)

/* Table 107 */
#define CM_MRA_FIELDS(F, B)				\
	F(uint32_t, local_comm_id, 0, 0, 32)		\
	F(uint32_t, remote_comm_id, 4, 0, 32)		\
	F(uint8_t, message, 8, 0, 2)			\
	F(uint8_t, service_timeout, 9, 0, 5)		\
	B(private_data, 10, 222)

/* Table 108 */
#define CM_REJ_FIELDS(F, B)				\
	F(uint32_t, local_comm_id, 0, 0, 32)		\
	F(uint32_t, remote_comm_id, 4, 0, 32)		\
	F(uint8_t, message, 8, 0, 2)			\
	F(uint8_t, info_length, 9, 0, 7)		\
	F(uint16_t, reason, 10, 0, 16)			\
	B(info, 12, 72)					\
	B(private_data, 84, 148)

/* Table 110 */
#define CM_REP_FIELDS(F, B)				\
	F(uint32_t, local_comm_id, 0, 0, 32)		\
	F(uint32_t, remote_comm_id, 4, 0, 32)		\
	F(uint32_t, local_qkey, 8, 0, 32)		\
	F(uint32_t, local_qpn, 12, 0, 24)		\
	F(uint8_t, vendor_id_high, 15, 0, 8)		\
	F(uint32_t, local_eecn, 16, 0, 24)		\
	F(uint8_t, vendor_id_middle, 19, 0, 8)		\
	F(uint32_t, starting_psn, 20, 0, 24)		\
	F(uint8_t, vendor_id_low, 23, 0, 8)		\
	F(uint8_t, responder_resources, 24, 0, 8)	\
	F(uint8_t, initiator_depth, 25, 0, 8)		\
	F(uint8_t, target_ack_delay, 26, 0, 5)		\
	F(uint8_t, failover_accepted, 26, 5, 2)		\
	F(uint8_t, flow_control, 26, 7, 1)		\
	F(uint8_t, rnr_retry_count, 27, 0, 3)		\
	F(uint8_t, srq, 27, 3, 1)			\
	F(uint64_t, local_ca_guid, 28, 0, 64)		\
	B(private_data, 36, 196)

/* Table 111 */
#define CM_RTU_FIELDS(F, B)				\
	F(uint32_t, local_comm_id, 0, 0, 32)		\
	F(uint32_t, remote_comm_id, 4, 0, 32)		\
	B(private_data, 8, 224)

/* Table 112 */
#define CM_DREQ_FIELDS(F, B)				\
	F(uint32_t, local_comm_id, 0, 0, 32)		\
	F(uint32_t, remote_comm_id, 4, 0, 32)		\
	F(uint32_t, remote_qpn, 8, 0, 24)		\
	B(private_data, 12, 220)

/* Table 113 */
#define CM_DREP_FIELDS(F, B)				\
	F(uint32_t, local_comm_id, 0, 0, 32)		\
	F(uint32_t, remote_comm_id, 4, 0, 32)		\
	B(private_data, 8, 224)

/* Table 115; the path stands before the private data */
#define CM_LAP_FIELDS(F, B)				\
	F(uint32_t, local_comm_id, 0, 0, 32)		\
	F(uint32_t, remote_comm_id, 4, 0, 32)		\
	F(uint32_t, remote_qpn, 12, 0, 24)		\
	F(uint8_t, remote_cm_response_timeout, 15, 0, 5)	\
	B(private_data, 64, 168)

/* Table 116 */
#define CM_APR_FIELDS(F, B)				\
	F(uint32_t, local_comm_id, 0, 0, 32)		\
	F(uint32_t, remote_comm_id, 4, 0, 32)		\
	F(uint8_t, info_length, 8, 0, 8)		\
	F(uint8_t, status, 9, 0, 8)			\
	B(info, 12, 72)					\
	B(private_data, 84, 148)

/* Table 119 */
#define CM_SIDR_REQ_FIELDS(F, B)			\
	F(uint32_t, request_id, 0, 0, 32)		\
	F(uint16_t, pkey, 4, 0, 16)			\
	F(uint64_t, service_id, 8, 0, 64)		\
	B(private_data, 16, 216)

/* Table 120 */
#define CM_SIDR_REP_FIELDS(F, B)			\
	F(uint32_t, request_id, 0, 0, 32)		\
	F(uint8_t, status, 4, 0, 8)			\
	F(uint8_t, info_length, 5, 0, 8)		\
	F(uint32_t, qpn, 8, 0, 24)			\
	F(uint64_t, service_id, 12, 0, 64)		\
	F(uint32_t, qkey, 20, 0, 32)			\
	B(info, 24, 72)					\
	B(private_data, 96, 136)

/* M(ATTRIBUTE, member of the union in struct cm_msg, code): IBA 12.6 to 12.9, 12.11; codes of table 104 */
#define CM_MESSAGES(M)			\
	M(REQ, req, 0x10)		\
	M(MRA, mra, 0x11)		\
	M(REJ, rej, 0x12)		\
	M(REP, rep, 0x13)		\
	M(RTU, rtu, 0x14)		\
	M(DREQ, dreq, 0x15)		\
	M(DREP, drep, 0x16)		\
	M(SIDR_REQ, sidr_req, 0x17)	\
	M(SIDR_REP, sidr_rep, 0x18)	\
	M(LAP, lap, 0x19)		\
	M(APR, apr, 0x1a)

#endif
