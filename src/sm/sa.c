/* A row for each attribute and what can be done with it. Answers are made of what handlers find. */
#include "sm/sa.h"

#include "base/array.h"
#include "sm/reply.h"
#include "sm/sa_long.h"
#include "sm/sa_query.h"
#include "wire/field.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

enum {
	RMPP_VERSION = 1, RMPP_TYPE_DATA = 1, RMPP_ACTIVE = 1,		/* 13.6.2.1 */
	ANSWERS = 1 << 7,
};

int sa_init(struct sm *s)
{
	s->sa = calloc(1, sizeof(*s->sa));
	if (!s->sa)
		return -ENOMEM;
	list_init(&s->sa->long_answers);
	return 0;
}

void sa_fini(struct sm *s)
{
	if (!s->sa)
		return;
	sa_long_leave(s);
	free(s->sa->service);
	free(s->sa->subscription);
	free(s->sa->report);
	free(s->sa->was_here);
	free(s->sa);
	s->sa = NULL;
}

/* ---- what is shared by the attributes ---- */

void sa_answer(struct sa_query *q, const uint8_t *record, uint32_t bytes)
{
	uint32_t room = q->room;

	if (q->bytes + bytes > q->most) {
		q->status = SA_NO_RESOURCES;
		return;
	}
	if (array_reserve(&q->out, &q->room, q->bytes + bytes, 1)) {
		q->room = room;
		q->status = SA_NO_RESOURCES;
		return;
	}
	memcpy(q->out + q->bytes, record, bytes);
	q->bytes += bytes;
	q->each = bytes;
	q->count++;
}

void sa_emit(struct sa_query *q, const uint8_t *record)
{
	if (!q->status && sa_record_matches(q->record, q->mask, q->wanted, record))
		sa_answer(q, record, q->record->bytes);
}

uint16_t sa_common_pkey(const struct sm *s, uint32_t a, uint32_t b)
{
	const uint16_t *mine = s->net.port[a].pkeys, *theirs = s->net.port[b].pkeys;

	/* what could not be read is as hardware begins with (10.9.2) */
	if (!mine || !theirs)
		return PKEY_DEFAULT;
	for (unsigned i = 0; i < NET_PKEYS; i++) {
		for (unsigned k = 0; mine[i] & ~PKEY_FULL && k < NET_PKEYS; k++) {
			if (!((mine[i] ^ theirs[k]) & ~PKEY_FULL) && (mine[i] | theirs[k]) & PKEY_FULL)
				return mine[i] | PKEY_FULL;
		}
	}
	return 0;
}

bool sa_shares(const struct sm *s, uint32_t a, uint32_t b)
{
	return a == b || (a != PORT_NONE && b != PORT_NONE && sa_common_pkey(s, a, b));
}

uint16_t sa_own_pkey(const struct sm *s, uint32_t port)
{
	uint16_t pkey = sa_common_pkey(s, port, port);

	for (unsigned i = 0; !pkey && i < NET_PKEYS; i++) {
		if (s->net.port[port].pkeys[i] & ~PKEY_FULL)
			pkey = s->net.port[port].pkeys[i];
	}
	return pkey;
}

/* Its P_Key of this partition, a full one if it has both; 0: it is no member. */
static uint16_t membership(const struct sm *s, uint32_t port, uint16_t pkey)
{
	const uint16_t *pkeys = s->net.port[port].pkeys;
	uint16_t found = 0;

	if (!pkeys)
		return (pkey | PKEY_FULL) == PKEY_DEFAULT ? PKEY_DEFAULT : 0;
	for (unsigned i = 0; i < NET_PKEYS; i++) {
		if (pkey & ~PKEY_FULL && !((pkeys[i] ^ pkey) & ~PKEY_FULL))
			found |= pkeys[i];
	}
	return found;
}

bool sa_has_pkey(const struct sm *s, uint32_t port, uint16_t pkey)
{
	return membership(s, port, pkey);
}

bool sa_shares_pkey(const struct sm *s, uint32_t a, uint32_t b, uint16_t pkey)
{
	uint16_t mine = membership(s, a, pkey), theirs = membership(s, b, pkey);

	return mine && theirs && (a == b || (mine | theirs) & PKEY_FULL);
}

void sa_write_gid(const struct sm *s, uint32_t port, uint8_t gid[16])
{
	uint64_t prefix = htobe64(s->config.prefix), guid = htobe64(s->net.port[port].guid);

	memcpy(gid, &prefix, 8);
	memcpy(gid + 8, &guid, 8);
}

uint32_t sa_port_of_gid(const struct sm *s, const uint8_t gid[16])
{
	uint64_t prefix, guid;
	uint32_t port;

	memcpy(&prefix, gid, 8);
	memcpy(&guid, gid + 8, 8);
	if (be64toh(prefix) != s->config.prefix && be64toh(prefix) != PREFIX_DEFAULT)
		return PORT_NONE;
	port = net_port_of_guid(&s->net, be64toh(guid));
	return port != PORT_NONE && net_is_here(&s->net, port) ? port : PORT_NONE;
}

/* ---- what the SA is capable of ---- */

/* 13.4.8.1, table 119, and 15.2.2, table 188 */
static void find_class_info(struct sa_query *q)
{
	enum {
		CAPABILITIES = 1 << 1 | 1 << 9 | 1 << 10 | 1 << 13,
		/* whole PortInfoRecords, extended speeds, full members that only send, 2x, HDR */
		CAPABILITIES_2 = 1 << 6 | 1 << 7 | 1 << 12 | 1 << 13 | 1 << 15,
	};
	uint8_t info[72] = { 0 };

	wire_put(info, MAD_BASE_VERSION, 0, 0, 8);
	wire_put(info, SA_CLASS_VERSION, 1, 0, 8);
	wire_put(info, CAPABILITIES, 2, 0, 16);
	wire_put(info, CAPABILITIES_2, 4, 0, 27);
	wire_put(info, SA_RESPONSE_TIME, 7, 3, 5);
	wire_put(info, 1, 32, 0, 32);		/* RedirectQP: QP1 */
	wire_put(info, 0x80010000, 36, 0, 32);	/* its Q_Key: 10.2.5 */
	wire_put(info, 0x80010000, 68, 0, 32);
	sa_answer(q, info, sizeof(info));
}

static const struct row {
	uint16_t attribute;
	bool is_of_lid;			/* its first component is the LID of a port, by which it is known */
	sa_handler *find, *set, *remove;
} rows[] = {
	{ SA_CLASS_PORT_INFO, false, find_class_info, NULL, NULL },
	{ SA_INFORM_INFO, false, NULL, sa_subscribe, NULL },
	{ SA_NODE_RECORD_ID, true, sa_find_nodes, NULL, NULL },
	{ SA_PORT_INFO_RECORD_ID, true, sa_find_ports, NULL, NULL },
	{ SA_SL2VL_RECORD_ID, true, sa_find_sl2vls, NULL, NULL },
	{ SA_VLARB_RECORD_ID, true, sa_find_vlarbs, NULL, NULL },
	{ SA_SWITCH_INFO_RECORD_ID, true, sa_find_switches, NULL, NULL },
	{ SA_LFT_RECORD_ID, true, sa_find_lfts, NULL, NULL },
	{ SA_MFT_RECORD_ID, true, sa_find_mfts, NULL, NULL },
	{ SA_SM_INFO_RECORD_ID, true, sa_find_managers, NULL, NULL },
	{ SA_LINK_RECORD_ID, true, sa_find_links, NULL, NULL },
	{ SA_GUID_INFO_RECORD_ID, true, sa_find_guids, sa_set_guids, sa_delete_guids },
	{ SA_SERVICE_RECORD_ID, false, sa_find_services, sa_set_service, sa_delete_service },
	{ SA_PKEY_RECORD_ID, true, sa_find_pkeys, NULL, NULL },
	{ SA_PATH_RECORD_ID, false, sa_find_paths, NULL, NULL },
	{ SA_MCMEMBER_RECORD_ID, false, sa_find_members, sa_set_member, sa_delete_member },
	{ SA_MULTI_PATH_RECORD_ID, false, sa_find_multi_paths, NULL, NULL },
	{ SA_INFORM_RECORD_ID, false, sa_find_subscriptions, NULL, NULL },
};

static sa_handler *handler_of(const struct row *row, uint8_t method)
{
	switch (method) {
	case MAD_GET:
	case SA_GET_TABLE:
		return row->attribute == SA_MULTI_PATH_RECORD_ID ? NULL : row->find;
	case SA_GET_MULTI:
		return row->attribute == SA_MULTI_PATH_RECORD_ID ? row->find : NULL;
	case MAD_SET:
		return row->set;
	case SA_DELETE:
		return row->remove;
	}
	return NULL;
}

/* With an LMC a port may be asked for by any of its LIDs, and its records have the first one. */
static void take_first_lid(struct sa_query *q, unsigned component, uint8_t *lid)
{
	uint32_t port = net_port_of_lid(&q->s->net, (uint32_t)wire_get(lid, 0, 0, 16));

	if (sa_wants(q, component) && port != PORT_NONE)
		wire_put(lid, q->s->net.port[port].lid, 0, 0, 16);
}

static void take_first_lids(struct sa_query *q)
{
	enum { LID = 0, TO_LID = 3 };	/* of most records; and of LinkRecord */

	take_first_lid(q, LID, q->wanted);
	if (q->head.attr_id == SA_LINK_RECORD_ID)
		take_first_lid(q, TO_LID, q->wanted + 4);
}

static sa_handler *find_handler(struct sa_query *q)
{
	q->status = MAD_STATUS_BAD_ATTRIBUTE;
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		sa_handler *handler = handler_of(&rows[i], q->head.method);

		if (rows[i].attribute != q->head.attr_id)
			continue;
		q->status = handler ? 0 : MAD_STATUS_BAD_METHOD;
		q->record = sa_record_find(q->head.attr_id);
		if (rows[i].is_of_lid)
			take_first_lids(q);
		return handler;
	}
	return NULL;
}

/* ---- the answer ---- */

static uint8_t response_of(uint8_t method)
{
	return method == MAD_SET ? MAD_GET_RESP : method | ANSWERS;
}

static bool is_table(uint8_t method)
{
	return method == SA_GET_TABLE || method == SA_GET_MULTI;
}

enum { ENOUGH_OF_ONE = 2 * MAD_BYTES };	/* two records of any attribute: who wants one is told of more, not of how many */

/* 15.4.4: of a Get there is one record. */
static void judge(struct sa_query *q)
{
	if (q->status || is_table(q->head.method))
		return;
	if (q->count > 1)
		q->status = SA_TOO_MANY_RECORDS;
	else if (q->is_paused)
		q->status = SA_NO_RESOURCES;
	else if (!q->count)
		q->status = SA_NO_RECORDS;
}

/* rest: what follows, or NULL. */
static void respond(struct sa_query *q, struct mad_source *rest)
{
	const struct mad_letter to = { .agent = SM_AGENT_SA, .remote = q->letter->remote };
	bool is_refused = q->status, segments = !is_refused && is_table(q->head.method);
	uint32_t data = is_refused ? 0 : q->bytes, bytes = SA_HEAD + data, each = rest ? q->record->bytes : q->each;
	uint8_t *mad;

	/* what has no segments is one MAD */
	if (!segments && bytes < MAD_BYTES)
		bytes = MAD_BYTES;
	mad = reply_add(q->s, &to, bytes);
	if (!mad) {
		if (rest)
			rest->end(rest);
		return;
	}
	if (rest)
		reply_follow(mad, rest);
	memset(mad, 0, bytes);
	q->head.method = response_of(q->head.method);
	/* o15-0.2.7: paths are what it gives */
	if (q->head.attr_id == SA_MULTI_PATH_RECORD_ID)
		q->head.attr_id = SA_PATH_RECORD_ID;
	q->head.status = q->status;
	mad_header_build(&q->head, mad);
	wire_put(mad, q->mask, SA_MASK);
	wire_put(mad, data || rest ? each / 8 : 0, SA_ATTRIBUTE_OFFSET);
	if (segments) {
		wire_put(mad, RMPP_VERSION, 24, 0, 8);
		wire_put(mad, RMPP_TYPE_DATA, 25, 0, 8);
		wire_put(mad, RMPP_ACTIVE, 26, 5, 3);
	}
	if (data)
		memcpy(mad + SA_HEAD, q->out, data);
	else if (is_refused)
		memcpy(mad + SA_HEAD, q->letter->data + SA_HEAD, MAD_BYTES - SA_HEAD);
}

/* 15.3: of requests SubnAdmGetMulti alone has segments. */
static bool has_too_many_segments(const struct sa_query *q)
{
	return q->letter->bytes > MAD_BYTES && q->head.method != SA_GET_MULTI;
}

/* C15-0.1.3: only the master answers. Until it has found all, it is busy (13.4.7). False: nothing is said. */
static bool begin(struct sa_query *q)
{
	struct sm *s = q->s;
	uint64_t key = wire_get(q->letter->data, SA_KEY);

	if (s->state != SM_MASTER)
		return false;
	if (key && key != s->config.key) {
		s->counters.wrong_keys++;
		return false;
	}
	q->is_trusted = key;
	q->mask = wire_get(q->letter->data, SA_MASK);
	memcpy(q->wanted, q->letter->data + SA_HEAD, MAD_BYTES - SA_HEAD);
	q->from = net_port_of_lid(&s->net, q->letter->remote.lid);
	if (!s->sa->has_groups)
		q->status = MAD_STATUS_BUSY;
	else if (q->head.class_version != SA_CLASS_VERSION || q->head.base_version != MAD_BASE_VERSION)
		q->status = MAD_STATUS_BAD_VERSION;
	else if (q->from == PORT_NONE || !net_is_here(&s->net, q->from) || has_too_many_segments(q))
		q->status = SA_REQUEST_INVALID;
	return true;
}

static void answer(struct sm *s, wtime now, const struct mad_letter *letter, const struct mad_header *head)
{
	bool may_pause = is_table(head->method);
	struct sa_query q = { .s = s, .now = now, .letter = letter, .head = *head, .most = SA_ANSWER_MOST - SA_HEAD,
			      .enough = may_pause ? s->config.at_once : ENOUGH_OF_ONE,
			      .steps_most = may_pause || s->net.ports < SA_STEPS_AT_ONCE ? SA_STEPS_AT_ONCE : s->net.ports + 1 };
	struct mad_source *rest = NULL;
	sa_handler *handler = NULL;

	if (!begin(&q))
		return;
	s->counters.queries++;
	s->counters.sets += head->method == MAD_SET || head->method == SA_DELETE;
	if (!q.status) {
		handler = find_handler(&q);
		if (handler)
			handler(&q);
		judge(&q);
	}
	if (!q.status && q.is_paused) {
		rest = sa_long_begin(&q, handler);
		q.status = rest ? 0 : SA_NO_RESOURCES;
	}
	s->counters.refused += q.status != 0;
	respond(&q, rest);
	free(q.out);
}

/* A request by RMPP ends with its last field; what the record has beyond is zero. False: it is no request. */
static bool make_whole(struct mad_letter *letter, uint8_t data[MAD_BYTES])
{
	if (letter->bytes < SA_HEAD)
		return false;
	if (letter->bytes < MAD_BYTES) {
		memcpy(data, letter->data, letter->bytes);
		memset(data + letter->bytes, 0, MAD_BYTES - letter->bytes);
		letter->data = data;
		letter->bytes = MAD_BYTES;
	}
	return true;
}

void sa_put_off(struct sm *s, wtime now, const struct mad_letter *letter)
{
	struct mad_letter l = *letter;
	uint8_t data[MAD_BYTES];
	struct sa_query q = { .s = s, .now = now, .letter = &l };

	if (!make_whole(&l, data) || s->state != SM_MASTER)
		return;
	mad_header_parse(&q.head, l.data);
	if (!begin(&q))
		return;
	q.status = q.status ? q.status : MAD_STATUS_BUSY;
	s->counters.queries++;
	s->counters.refused++;
	respond(&q, NULL);
}

uint8_t *sa_gather(struct sm *s, wtime now, uint16_t lid, uint16_t attribute, uint32_t most, uint32_t *bytes)
{
	enum { PATH_SLID = 5, AT_SLID = 42 };
	struct sa_query q = { .s = s, .now = now, .head = { .method = SA_GET_TABLE, .attr_id = attribute }, .most = UINT32_MAX,
			      .enough = most + 1, .steps_most = UINT32_MAX };
	sa_handler *handler = s->sa->has_groups ? find_handler(&q) : NULL;

	q.from = net_port_of_lid(&s->net, lid);
	if (!handler || !q.record || q.from == PORT_NONE || !net_is_here(&s->net, q.from))
		return NULL;
	if (attribute == SA_PATH_RECORD_ID) {
		q.mask = 1 << PATH_SLID;
		wire_put(q.wanted + AT_SLID, lid, 0, 0, 16);
	}
	handler(&q);
	*bytes = q.bytes;
	/* none is an answer too */
	if (!q.status && !q.out)
		q.out = calloc(1, 1);
	if (!q.status)
		return q.out;
	free(q.out);
	return NULL;
}

void sa_input(struct sm *s, wtime now, const struct mad_letter *letter)
{
	struct mad_letter l = *letter;
	uint8_t data[MAD_BYTES];
	struct mad_header h;

	if (!make_whole(&l, data))
		return;
	mad_header_parse(&h, l.data);
	if (l.status || h.method & MAD_RESPONSE)
		sa_report_answered(s, &l);
	else
		answer(s, now, &l, &h);
}

void sa_expire(struct sm *s, wtime now)
{
	sa_services_expire(s, now);
	sa_reports_expire(s, now);
}

wtime sa_deadline(const struct sm *s)
{
	return wtime_min(sa_services_deadline(s), sa_reports_deadline(s));
}
