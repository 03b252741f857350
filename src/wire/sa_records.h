/* Records of subnet administration as tables of their components, by which a component mask is matched (IBA 15.2.5, 15.4.4). */
#ifndef WEFT_WIRE_SA_RECORDS_H
#define WEFT_WIRE_SA_RECORDS_H

#include "wire/sa_records.def"

#include <stdbool.h>
#include <stdint.h>

enum sa_record_attribute {
#define RECORD(NAME, attribute, bytes, parts) SA_##NAME##_RECORD_ID = attribute,
	SA_RECORDS(RECORD)
#undef RECORD
	SA_CLASS_PORT_INFO = 0x01, SA_NOTICE = 0x02, SA_INFORM_INFO = 0x03, SA_MULTI_PATH_RECORD_ID = 0x3a,
};

enum {
	SA_RECORD_MOST = 176,		/* bytes of the longest */
	SA_HEAD = 56,			/* bytes of a MAD before its first record (15.2.1.1, table 185) */
};

/* 15.2.3, table 191: of the class, in the upper half of a MAD's status */
enum sa_status {
	SA_NO_RESOURCES = 0x100, SA_REQUEST_INVALID = 0x200, SA_NO_RECORDS = 0x300, SA_TOO_MANY_RECORDS = 0x400,
	SA_GID_INVALID = 0x500, SA_COMPONENTS_MISSING = 0x600, SA_DENIED = 0x700,
};

/* Of the whole MAD (table 185) */
#define SA_KEY 36, 0, 64
#define SA_ATTRIBUTE_OFFSET 44, 0, 16
#define SA_MASK 48, 0, 64

struct sa_record {
	uint16_t attribute, bytes;
	uint8_t parts;
	const uint16_t *bits;		/* of each component */
};

/* NULL: there is no such record. */
const struct sa_record *sa_record_find(uint16_t attribute);
/* Have all components of the mask in the record the value that they have in `wanted`? Bits of the mask without a component count
 * for nothing. Both are as long as the record. */
bool sa_record_matches(const struct sa_record *r, uint64_t mask, const uint8_t *wanted, const uint8_t *record);

#endif
