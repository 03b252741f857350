/* Management datagrams: 256 bytes, the first 24 a header common to all classes (IBA 13.4.3, table 111). */
#ifndef WEFT_WIRE_MAD_H
#define WEFT_WIRE_MAD_H

#include <stdint.h>

enum { MAD_BYTES = 256, MAD_HEADER_BYTES = 24, MAD_BASE_VERSION = 1 };

/* IBA 13.4.4, table 112 */
enum mad_class {
	MAD_CLASS_SUBN_LID = 0x01, MAD_CLASS_SUBN_DIRECTED = 0x81, MAD_CLASS_SA = 0x03, MAD_CLASS_PERF = 0x04,
	MAD_CLASS_BM = 0x05, MAD_CLASS_DEVICE = 0x06, MAD_CLASS_CM = 0x07, MAD_CLASS_SNMP = 0x08,
};

/* IBA 13.4.5, table 113 */
enum mad_method {
	MAD_GET = 0x01, MAD_SET = 0x02, MAD_SEND = 0x03, MAD_TRAP = 0x05, MAD_REPORT = 0x06, MAD_TRAP_REPRESS = 0x07,
	MAD_GET_RESP = 0x81, MAD_REPORT_RESP = 0x86,
};

/* IBA 13.4.7, table 115: of the status field; the low two bits are flags: the MAD was discarded, for who got it is busy, which is
 * no error; redirection */
enum { MAD_STATUS_BUSY = 1 };
enum mad_status {
	MAD_STATUS_BAD_VERSION = 0x04, MAD_STATUS_BAD_METHOD = 0x08, MAD_STATUS_BAD_ATTRIBUTE = 0x0c, MAD_STATUS_BAD_VALUE = 0x1c,
};
enum { MAD_RESPONSE = 0x80 };	/* in a method: IBA 13.4.5 */

/* F(type, member, byte, bit, width) */
#define MAD_HEADER_FIELDS(F)			\
	F(uint8_t, base_version, 0, 0, 8)	\
	F(uint8_t, mgmt_class, 1, 0, 8)		\
	F(uint8_t, class_version, 2, 0, 8)	\
	F(uint8_t, method, 3, 0, 8)		\
	F(uint16_t, status, 4, 0, 16)		\
	F(uint16_t, class_specific, 6, 0, 16)	\
	F(uint64_t, tid, 8, 0, 64)		\
	F(uint16_t, attr_id, 16, 0, 16)		\
	F(uint32_t, attr_modifier, 20, 0, 32)

struct mad_header {
#define MEMBER(type, member, byte, bit, width) type member;
	MAD_HEADER_FIELDS(MEMBER)
#undef MEMBER
};

/* Never fails: which values are right is the class's to say. The reserved bytes are ignored, and built as 0. */
void mad_header_parse(struct mad_header *h, const uint8_t mad[MAD_BYTES]);
void mad_header_build(const struct mad_header *h, uint8_t mad[MAD_BYTES]);

/* Makes a Get's or Set's response of a request: its method and status, and the bit that turns a directed route around. All else
 * stays. */
void mad_respond(uint8_t mad[MAD_BYTES], enum mad_status status);

#endif
