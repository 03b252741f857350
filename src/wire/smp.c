/* A parser, builder and dump for each field list. */
#include "wire/smp.h"

#include "wire/field.h"
#include "wire/text.h"

#define GET(type, member, ...) m->member = (type)wire_get(at, __VA_ARGS__);
#define GET_BYTES(member, byte, bytes) memcpy(m->member, at + (byte), bytes);
#define PUT(type, member, ...) wire_put(at, m->member, __VA_ARGS__);
#define PUT_BYTES(member, byte, bytes) memcpy(at + (byte), m->member, bytes);
#define DUMP(type, member, byte, bit, width) text_field(t, #member, m->member);
#define DUMP_BYTES(member, byte, bytes) text_bytes(t, #member, m->member, bytes);

void smp_head_get(struct smp_head *m, const uint8_t at[MAD_BYTES])
{
	SMP_FIELDS(GET, GET_BYTES)
}

void smp_head_put(const struct smp_head *m, uint8_t at[MAD_BYTES])
{
	SMP_FIELDS(PUT, PUT_BYTES)
}

static void head_dump(const struct smp_head *m, struct text *t)
{
	SMP_FIELDS(DUMP, DUMP_BYTES)
}

#define ACCESSORS(NAME, member, code)								\
	void smp_##member##_get(struct smp_##member *m, const uint8_t at[SMP_DATA_BYTES])	\
	{											\
		NAME##_FIELDS(GET, GET_BYTES)							\
	}											\
	void smp_##member##_put(const struct smp_##member *m, uint8_t at[SMP_DATA_BYTES])	\
	{											\
		memset(at, 0, SMP_DATA_BYTES);							\
		NAME##_FIELDS(PUT, PUT_BYTES)							\
	}											\
	static void member##_dump(const uint8_t *at, struct text *t)				\
	{											\
		struct smp_##member all, *m = &all;						\
												\
		smp_##member##_get(m, at);							\
		NAME##_FIELDS(DUMP, DUMP_BYTES)							\
	}

SMP_ATTRIBUTES(ACCESSORS)

const char *smp_attribute_name(unsigned attribute)
{
	switch (attribute) {
#define NAME_OF(NAME, member, code) case code: return #NAME;
	SMP_ATTRIBUTES(NAME_OF)
#undef NAME_OF
	case SMP_GUID_INFO: return "GUID_INFO";
	case SMP_PKEY_TABLE: return "PKEY_TABLE";
	case SMP_SL2VL: return "SL2VL";
	case SMP_VLARB: return "VLARB";
	case SMP_LFT: return "LFT";
	case SMP_RANDOM_TABLE: return "RANDOM_TABLE";
	case SMP_MFT: return "MFT";
	case SMP_SM_INFO: return "SM_INFO";
	case SMP_VENDOR_DIAG: return "VENDOR_DIAG";
	case SMP_LED_INFO: return "LED_INFO";
	case SMP_MLNX_PORT_INFO: return "MLNX_PORT_INFO";
	}
	return "?";
}

int smp_dump(const uint8_t mad[MAD_BYTES], char *text, size_t room)
{
	struct text t = { text, room, 0 };
	struct mad_header h;
	struct smp_head s;

	mad_header_parse(&h, mad);
	smp_head_get(&s, mad);
	if (h.mgmt_class != MAD_CLASS_SUBN_DIRECTED) {
		memset(s.initial_path, 0, sizeof(s.initial_path));
		memset(s.return_path, 0, sizeof(s.return_path));
		s.is_return = 0;
		s.smp_status = h.status;
		s.hop_pointer = s.hop_count = 0;
		s.dr_slid = s.dr_dlid = 0;
	}
	text_add(&t, "SMP %s", smp_attribute_name(h.attr_id));
	text_field(&t, "mgmt_class", h.mgmt_class);
	text_field(&t, "method", h.method);
	text_field(&t, "tid", h.tid);
	text_field(&t, "attr_modifier", h.attr_modifier);
	head_dump(&s, &t);
	switch (h.attr_id) {
#define DUMP_ATTRIBUTE(NAME, member, code) case code: member##_dump(mad + SMP_DATA, &t); break;
	SMP_ATTRIBUTES(DUMP_ATTRIBUTE)
#undef DUMP_ATTRIBUTE
	default:
		text_bytes(&t, "data", mad + SMP_DATA, SMP_DATA_BYTES);
	}
	return (int)t.length;
}
