/* Subnet management packets: MADs of QP0, their directed routes and their attributes in host order (IBA chapter 14). */
#ifndef WEFT_WIRE_SMP_H
#define WEFT_WIRE_SMP_H

#include "wire/mad.h"
#include "wire/smp_fields.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
	SMP_CLASS_VERSION = 1,
	SMP_DATA = 64, SMP_DATA_BYTES = 64,	/* the attribute in the MAD */
	SMP_HOPS_MOST = 63,			/* 14.2.1.2: entry 0 of a path is not used */
	LID_PERMISSIVE = 0xffff,		/* 4.1.3 */
};

/* 14.2.5, table 123; SMP_NOTICE ... of SMP_ATTRIBUTES besides */
enum smp_attribute {
#define ATTRIBUTE(NAME, member, code) SMP_##NAME = code,
	SMP_ATTRIBUTES(ATTRIBUTE)
#undef ATTRIBUTE
	SMP_GUID_INFO = 0x0014, SMP_PKEY_TABLE = 0x0016, SMP_SL2VL = 0x0017, SMP_VLARB = 0x0018, SMP_LFT = 0x0019,
	SMP_RANDOM_TABLE = 0x001a, SMP_MFT = 0x001b, SMP_SM_INFO = 0x0020, SMP_VENDOR_DIAG = 0x0030, SMP_LED_INFO = 0x0031,
	SMP_MLNX_PORT_INFO = 0xff90,	/* extended port info, of Mellanox */
};

#define MEMBER(type, member, byte, bit, width) type member;
#define BYTES(member, byte, bytes) uint8_t member[bytes];
struct smp_head { SMP_FIELDS(MEMBER, BYTES) };
struct smp_node_description { NODE_DESCRIPTION_FIELDS(MEMBER, BYTES) };
struct smp_node_info { NODE_INFO_FIELDS(MEMBER, BYTES) };
struct smp_switch_info { SWITCH_INFO_FIELDS(MEMBER, BYTES) };
struct smp_port_info { PORT_INFO_FIELDS(MEMBER, BYTES) };
struct smp_notice { NOTICE_FIELDS(MEMBER, BYTES) };
#undef MEMBER
#undef BYTES

/* Of a whole MAD. Bytes that no field has stay. */
void smp_head_get(struct smp_head *h, const uint8_t mad[MAD_BYTES]);
void smp_head_put(const struct smp_head *h, uint8_t mad[MAD_BYTES]);

/* Of an attribute: `at` are its 64 bytes. Reserved bits are ignored, and built as 0. */
#define ACCESS(NAME, member, code)									\
	void smp_##member##_get(struct smp_##member *m, const uint8_t at[SMP_DATA_BYTES]);		\
	void smp_##member##_put(const struct smp_##member *m, uint8_t at[SMP_DATA_BYTES]);
SMP_ATTRIBUTES(ACCESS)
#undef ACCESS

/* "NODE_INFO", or "?" */
const char *smp_attribute_name(unsigned attribute);

/* One line, as packet_dump: header, route and every field of the attribute that is not 0; arrays in hexadecimal. */
int smp_dump(const uint8_t mad[MAD_BYTES], char *text, size_t room);

#endif
