#include "wire/sa_records.h"

#include <stddef.h>
#include <string.h>

#define PART(bits) bits,
#define RECORD(NAME, attribute, bytes, parts) static const uint16_t NAME##_bits[] = { parts(PART) };
SA_RECORDS(RECORD)
#undef RECORD

static const struct sa_record records[] = {
#define RECORD(NAME, attribute, bytes, parts) { attribute, bytes, sizeof(NAME##_bits) / sizeof(NAME##_bits[0]), NAME##_bits },
	SA_RECORDS(RECORD)
#undef RECORD
};

const struct sa_record *sa_record_find(uint16_t attribute)
{
	for (size_t i = 0; i < sizeof(records) / sizeof(records[0]); i++) {
		if (records[i].attribute == attribute)
			return &records[i];
	}
	return NULL;
}

static bool same_bits(const uint8_t *a, const uint8_t *b, unsigned from, unsigned bits)
{
	if (!(from % 8) && !(bits % 8))
		return !memcmp(a + from / 8, b + from / 8, bits / 8);
	for (unsigned i = from; i < from + bits; i++) {
		if ((a[i / 8] ^ b[i / 8]) >> (7 - i % 8) & 1)
			return false;
	}
	return true;
}

bool sa_record_matches(const struct sa_record *r, uint64_t mask, const uint8_t *wanted, const uint8_t *record)
{
	unsigned from = 0;

	for (unsigned i = 0; i < r->parts; from += r->bits[i++]) {
		if (mask >> i & 1 && !same_bits(wanted, record, from, r->bits[i]))
			return false;
	}
	return true;
}
