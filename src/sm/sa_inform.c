/* Subscriptions to notices, and the reports that subscribers get (IBA 13.4.8.3, 13.4.11): traps of ports, and what the SA notices
 * by itself: ports that come and go, groups that are made and end (traps 64 to 67). A report is sent again until it is answered;
 * whoever does not answer is subscribed no more. */
#include "sm/sa_query.h"

#include "base/array.h"
#include "mgmt/gmp.h"
#include "sm/reply.h"
#include "wire/field.h"

#include <stdlib.h>
#include <string.h>

enum {
	INFO_BYTES = 36, RECORD_BYTES = 64, AT_INFO = 24,	/* InformInfo in its record */
	NOTICE_BYTES = 80,			/* with the GID of the issuer */
	AT_ISSUER_GID = 64, AT_DETAILS_GID = 16,
	LIDS_ALL = 0xffff, TYPES_ALL = 0xffff, TRAPS_ALL = 0xffff, PRODUCERS_ALL = 0xffffff,
	TRAP_BAD_KEY = 256, TRAP_BAD_KEY_LAST = 259,
	TRAP_PORT_HERE = 64, TRAP_PORT_GONE, TRAP_GROUP_MADE, TRAP_GROUP_GONE,	/* table 131 */
	SUBNET_MANAGEMENT = 3, PRODUCER_MANAGER = 4,	/* Notice.Type, ProducerType */
	REPORTS_MOST = 8192, TRIES = 3,		/* our choices: under way in all; of one */
};

#define REPORT_NS WTIME_S			/* our choice: that a report's answer is awaited */
#define ROOM_NS (10 * WTIME_MS)			/* our choice: until one that found no room is looked at again */

/* Of InformInfo, table 121 */
#define I_LID_BEGIN 16, 0, 16
#define I_LID_END 18, 0, 16
#define I_IS_GENERIC 22, 0, 8
#define I_SUBSCRIBE 23, 0, 8
#define I_TYPE 24, 0, 16
#define I_TRAP 26, 0, 16
#define I_QPN 28, 0, 24
#define I_PRODUCER 33, 0, 24
/* Of a notice, table 120 */
#define N_IS_GENERIC 0, 0, 1
#define N_TYPE 0, 1, 7
#define N_PRODUCER 1, 0, 24
#define N_TRAP 4, 0, 16
#define N_ISSUER_LID 6, 0, 16
#define N_DETAILS_GUID 24, 0, 64		/* of the GID in its details */

/* ---- subscribing ---- */

static uint32_t find(const struct sm *s, const uint8_t gid[16], const uint8_t *info)
{
	uint32_t i = 0;

	for (; i < s->sa->subscriptions; i++) {
		const uint8_t *record = s->sa->subscription[i].record;

		/* Subscribe is no part of what is subscribed to */
		if (!memcmp(record, gid, 16) && !memcmp(record + AT_INFO, info, 23) &&
		    !memcmp(record + AT_INFO + 24, info + 24, INFO_BYTES - 24))
			break;
	}
	return i;
}

/* C15-0.2-1.16: of keys that were wrong the trusted hear. */
static bool is_for_trusted(unsigned trap)
{
	return trap >= TRAP_BAD_KEY && trap <= TRAP_BAD_KEY_LAST;
}

/* One port leaves others theirs. */
static bool has_room(const struct sa_query *q, const uint8_t gid[16])
{
	const struct sa *sa = q->s->sa;
	uint32_t own = 0;

	for (uint32_t i = 0; i < sa->subscriptions && !q->is_trusted; i++)
		own += !memcmp(sa->subscription[i].record, gid, 16);
	return sa->subscriptions < SA_SUBSCRIPTIONS && own < SA_OF_ONE;
}

static void add(struct sa_query *q, const uint8_t gid[16])
{
	struct sa *sa = q->s->sa;
	struct sa_subscription *sub;

	if (!has_room(q, gid) ||
	    array_reserve(&sa->subscription, &sa->subscriptions_room, sa->subscriptions + 1, sizeof(*sa->subscription))) {
		q->status = SA_NO_RESOURCES;
		return;
	}
	sub = &sa->subscription[sa->subscriptions++];
	*sub = (struct sa_subscription){ .remote = q->letter->remote, .is_trusted = q->is_trusted };
	memcpy(sub->record, gid, 16);
	memcpy(sub->record + AT_INFO, q->wanted, INFO_BYTES);
}

/* Its port may have another LID by now. */
static void renew(const struct sa_query *q, struct sa_subscription *sub)
{
	sub->remote = q->letter->remote;
	sub->is_trusted |= q->is_trusted;
}

/* Reports name the subscription by its place. */
static void drop(struct sm *s, uint32_t i)
{
	struct sa *sa = s->sa;
	uint32_t last = --sa->subscriptions;

	for (uint32_t r = sa->reports; r-- > 0;) {
		if (sa->report[r].subscription == i)
			sa->report[r] = sa->report[--sa->reports];
	}
	for (uint32_t r = 0; r < sa->reports; r++) {
		if (sa->report[r].subscription == last)
			sa->report[r].subscription = i;
	}
	sa->subscription[i] = sa->subscription[last];
}

/* o13-14.1.1: who subscribes to a port's notices shares a partition with it. */
static bool may_hear(const struct sa_query *q)
{
	static const uint8_t none[16];
	uint32_t lid = (uint32_t)wire_get(q->wanted, I_LID_BEGIN), end = (uint32_t)wire_get(q->wanted, I_LID_END);
	uint32_t port;

	if (memcmp(q->wanted, none, 16) != 0) {
		port = sa_port_of_gid(q->s, q->wanted);
		return port != PORT_NONE && sa_shares(q->s, q->from, port);
	}
	if (lid == LIDS_ALL)
		return true;
	for (end = end ? end : lid; lid < LIDS && lid <= end; lid++) {
		port = net_port_of_lid(&q->s->net, lid);
		if (port != PORT_NONE && !sa_shares(q->s, q->from, port))
			return false;
	}
	return lid <= LIDS;
}

void sa_subscribe(struct sa_query *q)
{
	unsigned subscribe = (unsigned)wire_get(q->wanted, I_SUBSCRIBE);
	unsigned trap = (unsigned)wire_get(q->wanted, I_TRAP);
	uint8_t gid[16];
	uint32_t i;

	sa_write_gid(q->s, q->from, gid);
	/* who subscribes hears by the QP that asks; who ends it says which that was */
	if (subscribe)
		wire_put(q->wanted, q->letter->remote.qpn & 0xffffff, I_QPN);
	i = find(q->s, gid, q->wanted);
	if (subscribe && !q->is_trusted && is_for_trusted(trap))
		q->status = SA_REQUEST_INVALID;
	if (q->status || subscribe > 1 || (subscribe && !may_hear(q)) || (!subscribe && i == q->s->sa->subscriptions)) {
		q->status = SA_REQUEST_INVALID;
		return;
	}
	if (!subscribe)
		drop(q->s, i);
	else if (i == q->s->sa->subscriptions)
		add(q, gid);
	else
		renew(q, &q->s->sa->subscription[i]);
	if (!q->status)
		sa_answer(q, q->wanted, INFO_BYTES);
}

void sa_find_subscriptions(struct sa_query *q)
{
	for (uint32_t i = 0; i < q->s->sa->subscriptions && !q->status; i++) {
		uint8_t record[RECORD_BYTES];
		uint32_t port;

		memcpy(record, q->s->sa->subscription[i].record, sizeof(record));
		port = sa_port_of_gid(q->s, record);
		if (!sa_shares(q->s, q->from, port))
			continue;
		/* C15-0.2-1.16 */
		if (!q->is_trusted)
			memset(record + AT_INFO + 28, 0, 3);
		sa_emit(q, record);
	}
}

/* ---- reports ---- */

static bool is_wanted(const uint8_t *info, const uint8_t *notice)
{
	static const uint8_t none[16];
	unsigned lid = (unsigned)wire_get(notice, N_ISSUER_LID), begin = (unsigned)wire_get(info, I_LID_BEGIN);
	unsigned end = (unsigned)wire_get(info, I_LID_END), type = (unsigned)wire_get(info, I_TYPE);
	unsigned trap = (unsigned)wire_get(info, I_TRAP);
	uint8_t producer[3];

	memcpy(producer, info + 33, sizeof(producer));
	if (wire_get(info, I_IS_GENERIC) != wire_get(notice, N_IS_GENERIC) ||
	    (type != TYPES_ALL && type != wire_get(notice, N_TYPE)) || (trap != TRAPS_ALL && trap != wire_get(notice, N_TRAP)))
		return false;
	if (memcmp(producer, "\xff\xff\xff", 3) != 0 && memcmp(producer, notice + 1, 3) != 0)
		return false;
	if (memcmp(info, none, 16) != 0)
		return !memcmp(info, notice + AT_ISSUER_GID, 16);
	return begin == LIDS_ALL || (lid >= begin && lid <= (end ? end : begin));
}

/* What a notice is about: a port, or a group. */
struct subject {
	unsigned trap;			/* 0: one that the specification has not */
	uint32_t port;
	const struct mcast_group *group;
};

/* A port that is gone keeps its place (net.h). */
static struct subject subject_of(struct sm *s, const uint8_t *notice)
{
	struct subject about = { .trap = wire_get(notice, N_IS_GENERIC) ? (unsigned)wire_get(notice, N_TRAP) : 0 };

	if (about.trap == TRAP_PORT_HERE || about.trap == TRAP_PORT_GONE)
		about.port = net_port_of_guid(&s->net, wire_get(notice, N_DETAILS_GUID));
	else
		about.port = net_port_of_lid(&s->net, (uint32_t)wire_get(notice, N_ISSUER_LID));
	if (about.trap == TRAP_GROUP_MADE || about.trap == TRAP_GROUP_GONE)
		about.group = groups_find(s, notice + AT_DETAILS_GID);
	return about;
}

/* o13-17.1.1: who shares no partition with what a notice is about does not hear of it, as queries do not show it either. */
static bool may_be_told(const struct sm *s, const struct sa_subscription *sub, const struct subject *about)
{
	uint32_t port = sa_port_of_gid(s, sub->record);

	if (port == PORT_NONE || (is_for_trusted(about->trap) && !sub->is_trusted))
		return false;
	if (about->trap == TRAP_GROUP_MADE || about->trap == TRAP_GROUP_GONE)
		return about->group && sa_has_pkey(s, port, about->group->pkey);
	return sa_shares(s, port, about->port);
}

/* What is not sent is no try. Reports leave half of the room to answers. */
static void send(struct sm *s, wtime now, struct sa_report *r)
{
	const struct sa_subscription *sub = &s->sa->subscription[r->subscription];
	struct mad_letter l = { .agent = SM_AGENT_SA, .timeout_ms = REPORT_NS / WTIME_MS, .remote = sub->remote };
	const struct mad_header h = {
		.base_version = MAD_BASE_VERSION, .mgmt_class = MAD_CLASS_SA, .class_version = SA_CLASS_VERSION,
		.method = MAD_REPORT, .tid = ++s->sa->last_tid, .attr_id = SA_NOTICE,
	};
	uint32_t qpn = (uint32_t)(sub->record[AT_INFO + 28] << 16 | sub->record[AT_INFO + 29] << 8 | sub->record[AT_INFO + 30]);
	uint8_t *mad;

	l.remote.qpn = qpn ? qpn : GSI_QPN;
	l.remote.qkey = GSI_QKEY;
	mad = s->replies < REPLIES_MOST / 2 ? reply_add(s, &l, MAD_BYTES) : NULL;
	r->deadline = now + (mad ? REPORT_NS : ROOM_NS);
	if (!mad)
		return;
	r->tid = h.tid;
	r->tries++;
	memset(mad, 0, MAD_BYTES);
	mad_header_build(&h, mad);
	memcpy(mad + SA_HEAD, r->notice, NOTICE_BYTES);
}

static void tell(struct sm *s, wtime now, const uint8_t notice[NOTICE_BYTES])
{
	const struct subject about = subject_of(s, notice);
	struct sa *sa = s->sa;

	for (uint32_t i = 0; i < sa->subscriptions; i++) {
		const struct sa_subscription *sub = &sa->subscription[i];
		struct sa_report *r;

		if (!is_wanted(sub->record + AT_INFO, notice) || !may_be_told(s, sub, &about) || sa->reports == REPORTS_MOST ||
		    array_reserve(&sa->report, &sa->reports_room, sa->reports + 1, sizeof(*sa->report)))
			continue;
		r = &sa->report[sa->reports++];
		*r = (struct sa_report){ .subscription = i };
		memcpy(r->notice, notice, NOTICE_BYTES);
		send(s, now, r);
	}
}

void sa_notice(struct sm *s, wtime now, const uint8_t notice[SMP_DATA_BYTES])
{
	uint32_t port = net_port_of_lid(&s->net, (uint32_t)wire_get(notice, N_ISSUER_LID));
	uint8_t whole[NOTICE_BYTES] = { 0 };

	memcpy(whole, notice, SMP_DATA_BYTES);
	if (port != PORT_NONE)
		sa_write_gid(s, port, whole + AT_ISSUER_GID);
	tell(s, now, whole);
}

static void tell_of(struct sm *s, wtime now, unsigned trap, const uint8_t gid[16])
{
	uint8_t notice[NOTICE_BYTES] = { 0 };

	if (!s->sa->subscriptions || s->net.own == PORT_NONE)
		return;
	notice[0] = 0x80 | SUBNET_MANAGEMENT;
	notice[3] = PRODUCER_MANAGER;
	wire_put(notice, trap, N_TRAP);
	wire_put(notice, s->net.port[s->net.own].lid, N_ISSUER_LID);
	memcpy(notice + AT_DETAILS_GID, gid, 16);
	sa_write_gid(s, s->net.own, notice + AT_ISSUER_GID);
	tell(s, now, notice);
}

void sa_group_changed(struct sm *s, wtime now, const uint8_t mgid[16], bool is_made)
{
	tell_of(s, now, is_made ? TRAP_GROUP_MADE : TRAP_GROUP_GONE, mgid);
}

/* A port is gone: what it was in, and what it wanted to hear, goes with it. The port may not notice, where a link between
 * switches was down: its clients register anew when it is back (14.4.11). */
static void end_of(struct sm *s, wtime now, uint32_t port)
{
	uint8_t gid[16];

	sa_write_gid(s, port, gid);
	for (uint32_t i = s->sa->subscriptions; i-- > 0;) {
		if (!memcmp(s->sa->subscription[i].record, gid, 16))
			drop(s, i);
	}
	sa_groups_end_of(s, now, port);
	s->net.port[port].is_new = true;
	tell_of(s, now, TRAP_PORT_GONE, gid);
}

static bool reserve(struct sm *s)
{
	uint8_t *was;

	if (s->sa->ports >= s->net.ports)
		return true;
	was = realloc(s->sa->was_here, s->net.ports);
	if (!was)
		return false;
	memset(was + s->sa->ports, 0, s->net.ports - s->sa->ports);
	s->sa->was_here = was;
	s->sa->ports = s->net.ports;
	return true;
}

static bool is_in(const struct sm *s, uint32_t port)
{
	return s->net.port[port].lid && net_is_here(&s->net, port);
}

/* A port that is gone may have the GUID of one that is here since: it ends before that one begins. */
void sa_net_changed(struct sm *s, wtime now)
{
	uint8_t gid[16];

	if (!s->sa->has_groups)
		sa_groups_begin(s);
	s->sa->has_groups = true;
	if (!reserve(s))
		return;
	for (uint32_t port = 0; port < s->net.ports; port++) {
		if (!s->sa->was_here[port] || is_in(s, port))
			continue;
		s->sa->was_here[port] = false;
		end_of(s, now, port);
	}
	for (uint32_t port = 0; port < s->net.ports; port++) {
		if (s->sa->was_here[port] || !is_in(s, port))
			continue;
		s->sa->was_here[port] = true;
		sa_write_gid(s, port, gid);
		tell_of(s, now, TRAP_PORT_HERE, gid);
	}
}

void sa_report_answered(struct sm *s, const struct mad_letter *letter)
{
	struct mad_header h;

	mad_header_parse(&h, letter->data);
	for (uint32_t i = 0; i < s->sa->reports && !letter->status && h.method == MAD_REPORT_RESP; i++) {
		if ((uint32_t)s->sa->report[i].tid != (uint32_t)h.tid)
			continue;
		s->sa->report[i] = s->sa->report[--s->sa->reports];
		return;
	}
}

void sa_reports_expire(struct sm *s, wtime now)
{
	for (uint32_t i = 0; i < s->sa->reports; i++) {
		struct sa_report *r = &s->sa->report[i];

		if (r->deadline > now)
			continue;
		if (r->tries < TRIES) {
			send(s, now, r);
			continue;
		}
		/* other reports of the same subscriber go too */
		drop(s, r->subscription);
		i = UINT32_MAX;
	}
}

wtime sa_reports_deadline(const struct sm *s)
{
	wtime next = WTIME_NEVER;

	for (uint32_t i = 0; i < s->sa->reports; i++)
		next = wtime_min(next, s->sa->report[i].deadline);
	return next;
}
