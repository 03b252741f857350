/* One parser, builder and dump a message, each made from the message's field list, and the table that finds them. */
#include "wire/cm.h"

#include "wire/field.h"
#include "wire/text.h"

#define GET(type, member, ...) m->member = (type)wire_get(at, __VA_ARGS__);
#define GET_BYTES(member, byte, bytes) memcpy(m->member, at + (byte), bytes);
#define PUT(type, member, ...) wire_put(at, m->member, __VA_ARGS__);
#define PUT_BYTES(member, byte, bytes) memcpy(at + (byte), m->member, bytes);
#define DUMP(type, member, byte, bit, width) text_field(t, #member, m->member);
#define DUMP_BYTES(member, byte, bytes) text_bytes(t, #member, m->member, bytes);

/* Makes NAME_get, NAME_put and NAME_dump of a field list. */
#define ACCESSORS(name, NAME_FIELDS)							\
	static void name##_get(struct cm_##name *m, const uint8_t *at)			\
	{										\
		NAME_FIELDS(GET, GET_BYTES)						\
	}										\
	static void name##_put(const struct cm_##name *m, uint8_t *at)			\
	{										\
		NAME_FIELDS(PUT, PUT_BYTES)						\
	}										\
	static void name##_dump(const struct cm_##name *m, struct text *t)		\
	{										\
		NAME_FIELDS(DUMP, DUMP_BYTES)						\
	}

ACCESSORS(req_path, CM_PATH_FIELDS)
ACCESSORS(req, CM_REQ_FIELDS)
ACCESSORS(mra, CM_MRA_FIELDS)
ACCESSORS(rej, CM_REJ_FIELDS)
ACCESSORS(rep, CM_REP_FIELDS)
ACCESSORS(rtu, CM_RTU_FIELDS)
ACCESSORS(dreq, CM_DREQ_FIELDS)
ACCESSORS(drep, CM_DREP_FIELDS)
ACCESSORS(sidr_req, CM_SIDR_REQ_FIELDS)
ACCESSORS(sidr_rep, CM_SIDR_REP_FIELDS)
ACCESSORS(lap, CM_LAP_FIELDS)
ACCESSORS(apr, CM_APR_FIELDS)

static void lap_path_get(struct cm_req_path *m, const uint8_t *at)
{
	CM_LAP_PATH_FIELDS(GET, GET_BYTES)
}

static void lap_path_put(const struct cm_req_path *m, uint8_t *at)
{
	CM_LAP_PATH_FIELDS(PUT, PUT_BYTES)
}

bool cm_parse(struct cm_msg *msg, const uint8_t mad[MAD_BYTES])
{
	const uint8_t *at = mad + MAD_HEADER_BYTES;
	struct mad_header h;

	mad_header_parse(&h, mad);
	if (h.base_version != MAD_BASE_VERSION || h.mgmt_class != MAD_CLASS_CM || h.class_version != CM_CLASS_VERSION ||
	    h.method != MAD_SEND)
		return false;
	*msg = (struct cm_msg){ .attribute = h.attr_id, .tid = h.tid, .status = h.status, .attr_modifier = h.attr_modifier };
	switch (h.attr_id) {
#define PARSE(NAME, member, code) case code: member##_get(&msg->member, at); break;
	CM_MESSAGES(PARSE)
	default:
		return false;
	}
	if (h.attr_id == CM_REQ) {
		req_path_get(&msg->req.primary, at + CM_REQ_PRIMARY);
		req_path_get(&msg->req.alternate, at + CM_REQ_ALTERNATE);
	} else if (h.attr_id == CM_LAP) {
		lap_path_get(&msg->lap.alternate, at + CM_LAP_ALTERNATE);
	}
	return true;
}

void cm_build(const struct cm_msg *msg, uint8_t mad[MAD_BYTES])
{
	const struct mad_header h = {
		.base_version = MAD_BASE_VERSION, .mgmt_class = MAD_CLASS_CM, .class_version = CM_CLASS_VERSION,
		.method = MAD_SEND, .status = msg->status, .tid = msg->tid, .attr_id = msg->attribute,
		.attr_modifier = msg->attr_modifier,
	};
	uint8_t *at = mad + MAD_HEADER_BYTES;

	memset(mad, 0, MAD_BYTES);
	mad_header_build(&h, mad);
	switch (msg->attribute) {
#define BUILD(NAME, member, code) case code: member##_put(&msg->member, at); break;
	CM_MESSAGES(BUILD)
	}
	if (msg->attribute == CM_REQ) {
		req_path_put(&msg->req.primary, at + CM_REQ_PRIMARY);
		req_path_put(&msg->req.alternate, at + CM_REQ_ALTERNATE);
	} else if (msg->attribute == CM_LAP) {
		lap_path_put(&msg->lap.alternate, at + CM_LAP_ALTERNATE);
	}
}

struct cm_ids cm_ids_of(const struct cm_msg *msg)
{
#define BOTH(NAME, member) case CM_##NAME: return (struct cm_ids){ msg->member.local_comm_id, msg->member.remote_comm_id };
	switch (msg->attribute) {
	BOTH(MRA, mra)
	BOTH(REJ, rej)
	BOTH(REP, rep)
	BOTH(RTU, rtu)
	BOTH(DREQ, dreq)
	BOTH(DREP, drep)
	BOTH(LAP, lap)
	BOTH(APR, apr)
	case CM_REQ:
		return (struct cm_ids){ .sender = msg->req.local_comm_id };
	case CM_SIDR_REQ:
		return (struct cm_ids){ .sender = msg->sidr_req.request_id };
	case CM_SIDR_REP:
		return (struct cm_ids){ .receiver = msg->sidr_rep.request_id };
	}
#undef BOTH
	return (struct cm_ids){ 0 };
}

const char *cm_name(unsigned attribute)
{
	switch (attribute) {
#define NAME_OF(NAME, member, code) case code: return #NAME;
	CM_MESSAGES(NAME_OF)
	}
	return "?";
}

int cm_dump(const struct cm_msg *msg, char *text, size_t room)
{
	struct text t = { text, room, 0 };

	text_add(&t, "CM %s", cm_name(msg->attribute));
	text_field(&t, "tid", msg->tid);
	text_field(&t, "status", msg->status);
	text_field(&t, "attr_modifier", msg->attr_modifier);
	switch (msg->attribute) {
#define DUMP_MESSAGE(NAME, member, code) case code: member##_dump(&msg->member, &t); break;
	CM_MESSAGES(DUMP_MESSAGE)
	}
	if (msg->attribute == CM_REQ) {
		text_add(&t, " primary:");
		req_path_dump(&msg->req.primary, &t);
		text_add(&t, " alternate:");
		req_path_dump(&msg->req.alternate, &t);
	} else if (msg->attribute == CM_LAP) {
		text_add(&t, " alternate:");
		req_path_dump(&msg->lap.alternate, &t);
	}
	return (int)t.length;
}

bool cma_parse(struct cma_header *m, const uint8_t *at)
{
	CMA_FIELDS(GET, GET_BYTES)
	return m->version == CMA_VERSION && (m->ip_version == 4 || m->ip_version == 6);
}

void cma_build(const struct cma_header *m, uint8_t *at)
{
	memset(at, 0, CMA_BYTES);
	CMA_FIELDS(PUT, PUT_BYTES)
}
