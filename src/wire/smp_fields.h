/* The tables of IBA chapters 14 and 13.4.8 as field lists: F(type, member, byte, bit from the msb, width), B(member, byte,
 * bytes). Bytes of attributes count from the attribute's begin. From one list come struct, parser, builder and dump. */
#ifndef WEFT_WIRE_SMP_FIELDS_H
#define WEFT_WIRE_SMP_FIELDS_H

/* 14.2.1.1 and 14.2.1.2: what SMPs have behind the common header; the paths are of the directed route only. Of the whole MAD. */
#define SMP_FIELDS(F, B)				\
	F(uint8_t, is_return, 4, 0, 1)			\
	F(uint16_t, smp_status, 4, 1, 15)		\
	F(uint8_t, hop_pointer, 6, 0, 8)		\
	F(uint8_t, hop_count, 7, 0, 8)			\
	F(uint64_t, m_key, 24, 0, 64)			\
	F(uint16_t, dr_slid, 32, 0, 16)			\
	F(uint16_t, dr_dlid, 34, 0, 16)			\
	B(initial_path, 128, 64)			\
	B(return_path, 192, 64)

/* 14.2.5.2 */
#define NODE_DESCRIPTION_FIELDS(F, B)			\
	B(text, 0, 64)

/* 14.2.5.3 */
#define NODE_INFO_FIELDS(F, B)				\
	F(uint8_t, base_version, 0, 0, 8)		\
	F(uint8_t, class_version, 1, 0, 8)		\
	F(uint8_t, node_type, 2, 0, 8)			\
	F(uint8_t, ports, 3, 0, 8)			\
	F(uint64_t, system_guid, 4, 0, 64)		\
	F(uint64_t, node_guid, 12, 0, 64)		\
	F(uint64_t, port_guid, 20, 0, 64)		\
	F(uint16_t, partition_cap, 28, 0, 16)		\
	F(uint16_t, device_id, 30, 0, 16)		\
	F(uint32_t, revision, 32, 0, 32)		\
	F(uint8_t, local_port, 36, 0, 8)		\
	F(uint32_t, vendor_id, 37, 0, 24)

/* 14.2.5.4 */
#define SWITCH_INFO_FIELDS(F, B)			\
	F(uint16_t, linear_cap, 0, 0, 16)		\
	F(uint16_t, random_cap, 2, 0, 16)		\
	F(uint16_t, multicast_cap, 4, 0, 16)		\
	F(uint16_t, linear_top, 6, 0, 16)		\
	F(uint8_t, default_port, 8, 0, 8)		\
	F(uint8_t, default_multicast_primary, 9, 0, 8)	\
	F(uint8_t, default_multicast_other, 10, 0, 8)	\
	F(uint8_t, life_time, 11, 0, 5)			\
	F(uint8_t, port_state_change, 11, 5, 1)		\
	F(uint8_t, optimized_sl2vl, 11, 6, 2)		\
	F(uint16_t, lids_per_port, 12, 0, 16)		\
	F(uint16_t, enforcement_cap, 14, 0, 16)		\
	F(uint8_t, enforce_in_cap, 16, 0, 1)		\
	F(uint8_t, enforce_out_cap, 16, 1, 1)		\
	F(uint8_t, filter_in_cap, 16, 2, 1)		\
	F(uint8_t, filter_out_cap, 16, 3, 1)		\
	F(uint8_t, enhanced_port0, 16, 4, 1)		\
	F(uint16_t, multicast_top, 18, 0, 16)

/* 14.2.5.6 */
#define PORT_INFO_FIELDS(F, B)				\
	F(uint64_t, m_key, 0, 0, 64)			\
	F(uint64_t, prefix, 8, 0, 64)			\
	F(uint16_t, lid, 16, 0, 16)			\
	F(uint16_t, sm_lid, 18, 0, 16)			\
	F(uint32_t, capabilities, 20, 0, 32)		\
	F(uint16_t, diag_code, 24, 0, 16)		\
	F(uint16_t, m_key_lease, 26, 0, 16)		\
	F(uint8_t, local_port, 28, 0, 8)		\
	F(uint8_t, width_enabled, 29, 0, 8)		\
	F(uint8_t, width_supported, 30, 0, 8)		\
	F(uint8_t, width_active, 31, 0, 8)		\
	F(uint8_t, speed_supported, 32, 0, 4)		\
	F(uint8_t, state, 32, 4, 4)			\
	F(uint8_t, phys_state, 33, 0, 4)		\
	F(uint8_t, down_default, 33, 4, 4)		\
	F(uint8_t, m_key_protect, 34, 0, 2)		\
	F(uint8_t, lmc, 34, 5, 3)			\
	F(uint8_t, speed_active, 35, 0, 4)		\
	F(uint8_t, speed_enabled, 35, 4, 4)		\
	F(uint8_t, mtu, 36, 0, 4)			\
	F(uint8_t, sm_sl, 36, 4, 4)			\
	F(uint8_t, vl_cap, 37, 0, 4)			\
	F(uint8_t, init_type, 37, 4, 4)			\
	F(uint8_t, vl_high_limit, 38, 0, 8)		\
	F(uint8_t, vlarb_high_cap, 39, 0, 8)		\
	F(uint8_t, vlarb_low_cap, 40, 0, 8)		\
	F(uint8_t, init_type_reply, 41, 0, 4)		\
	F(uint8_t, mtu_cap, 41, 4, 4)			\
	F(uint8_t, vl_stall, 42, 0, 3)			\
	F(uint8_t, hoq_life, 42, 3, 5)			\
	F(uint8_t, operational_vls, 43, 0, 4)		\
	F(uint8_t, enforce_in, 43, 4, 1)		\
	F(uint8_t, enforce_out, 43, 5, 1)		\
	F(uint8_t, filter_in, 43, 6, 1)			\
	F(uint8_t, filter_out, 43, 7, 1)		\
	F(uint16_t, m_key_violations, 44, 0, 16)	\
	F(uint16_t, pkey_violations, 46, 0, 16)		\
	F(uint16_t, qkey_violations, 48, 0, 16)		\
	F(uint8_t, guid_cap, 50, 0, 8)			\
	F(uint8_t, reregister, 51, 0, 1)		\
	F(uint8_t, trap_suppression, 51, 1, 2)		\
	F(uint8_t, subnet_timeout, 51, 3, 5)		\
	F(uint8_t, response_time, 52, 3, 5)		\
	F(uint8_t, phy_errors, 53, 0, 4)		\
	F(uint8_t, overrun_errors, 53, 4, 4)		\
	F(uint16_t, credit_hint, 54, 0, 16)		\
	F(uint32_t, round_trip, 57, 0, 24)		\
	F(uint16_t, capabilities2, 60, 0, 16)		\
	F(uint8_t, ext_active, 62, 0, 4)		\
	F(uint8_t, ext_supported, 62, 4, 4)		\
	F(uint8_t, ext_enabled, 63, 3, 5)

/* 13.4.8.2 and 14.2.5.1: a trap's attribute; data_details as the trap's number says. */
#define NOTICE_FIELDS(F, B)				\
	F(uint8_t, is_generic, 0, 0, 1)			\
	F(uint8_t, type, 0, 1, 7)			\
	F(uint32_t, producer, 1, 0, 24)			\
	F(uint16_t, trap_number, 4, 0, 16)		\
	F(uint16_t, issuer_lid, 6, 0, 16)		\
	F(uint8_t, toggle, 8, 0, 1)			\
	F(uint16_t, count, 8, 1, 15)			\
	B(data_details, 10, 54)

/* Attributes that are structs: NAME, member, attribute id. The others are arrays. */
#define SMP_ATTRIBUTES(A)				\
	A(NOTICE, notice, 0x0002)			\
	A(NODE_DESCRIPTION, node_description, 0x0010)	\
	A(NODE_INFO, node_info, 0x0011)			\
	A(SWITCH_INFO, switch_info, 0x0012)		\
	A(PORT_INFO, port_info, 0x0015)

#endif
