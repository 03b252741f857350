/* Services that ports announce (IBA 15.2.5.14): one for each id, GID and partition, for as long as its lease. */
#include "sm/sa_query.h"

#include "base/array.h"
#include "wire/field.h"

#include <string.h>

enum { BYTES = 176, AT_GID = 8, AT_KEY = 32, KEY_BYTES = 16, LEASE_FOR_EVER = -1, ID = 0, GID = 1, LEASE = 4 };

#define S_PKEY 24, 0, 16
#define S_LEASE 28, 0, 32	/* seconds */

static struct sa_service *find(const struct sm *s, const uint8_t *record)
{
	for (uint32_t i = 0; i < s->sa->services; i++) {
		/* id, GID and P_Key stand side by side */
		if (!memcmp(s->sa->service[i].record, record, 26))
			return &s->sa->service[i];
	}
	return NULL;
}

/* C15-0.1.14: a key is shown to the trusted alone. */
static void answer(struct sa_query *q, const uint8_t *of)
{
	uint8_t record[BYTES];

	memcpy(record, of, BYTES);
	if (!q->is_trusted)
		memset(record + AT_KEY, 0, KEY_BYTES);
	sa_answer(q, record, BYTES);
}

/* Who knows the key finds the service by it. */
static void emit(struct sa_query *q, const struct sa_service *service)
{
	uint8_t record[BYTES];

	memcpy(record, service->record, BYTES);
	if (service->ends != WTIME_NEVER)
		wire_put(record, service->ends > q->now ? (service->ends - q->now) / WTIME_S : 0, S_LEASE);
	if (sa_record_matches(q->record, q->mask, q->wanted, record))
		answer(q, record);
}

void sa_find_services(struct sa_query *q)
{
	for (uint32_t i = 0; i < q->s->sa->services && !q->status; i++) {
		const struct sa_service *service = &q->s->sa->service[i];
		uint16_t pkey = (uint16_t)wire_get(service->record, S_PKEY);

		if (!pkey || sa_has_pkey(q->s, q->from, pkey))
			emit(q, service);
	}
}

/* By its GUID: osmtest gives no prefix. */
static bool is_own(const struct sa_query *q)
{
	uint64_t guid;

	memcpy(&guid, q->wanted + AT_GID + 8, sizeof(guid));
	return be64toh(guid) == q->s->net.port[q->from].guid;
}

/* 15.4.1.1: a port speaks of its own services, in its partitions: the P_Key counts, wanted or not, as it is what is kept. */
static bool may_change(const struct sa_query *q)
{
	uint16_t pkey = (uint16_t)wire_get(q->wanted, S_PKEY);

	if (pkey && !sa_has_pkey(q->s, q->from, pkey))
		return false;
	return q->is_trusted || is_own(q);
}

/* One port leaves others theirs. */
static bool has_room(const struct sa_query *q)
{
	const struct sa *sa = q->s->sa;
	uint32_t own = 0;

	for (uint32_t i = 0; i < sa->services && !q->is_trusted; i++)
		own += !memcmp(sa->service[i].record + AT_GID + 8, q->wanted + AT_GID + 8, 8);
	return sa->services < SA_SERVICES && own < SA_OF_ONE;
}

void sa_set_service(struct sa_query *q)
{
	struct sa *sa = q->s->sa;
	struct sa_service *service = find(q->s, q->wanted);
	uint32_t lease = (uint32_t)wire_get(q->wanted, S_LEASE);

	if (!sa_wants(q, ID) || !sa_wants(q, GID))
		q->status = SA_COMPONENTS_MISSING;
	else if (!may_change(q))
		q->status = SA_REQUEST_INVALID;
	else if (!service && (!has_room(q) ||
			      array_reserve(&sa->service, &sa->services_room, sa->services + 1, sizeof(*sa->service))))
		q->status = SA_NO_RESOURCES;
	if (q->status)
		return;
	if (!sa_wants(q, LEASE))
		lease = (uint32_t)LEASE_FOR_EVER;
	if (!service)
		service = &sa->service[sa->services++];
	memcpy(service->record, q->wanted, BYTES);
	wire_put(service->record, lease, S_LEASE);
	service->ends = lease == (uint32_t)LEASE_FOR_EVER ? WTIME_NEVER : q->now + lease * WTIME_S;
	answer(q, q->wanted);
}

void sa_delete_service(struct sa_query *q)
{
	struct sa_service *service = find(q->s, q->wanted);

	if (!service) {
		q->status = SA_NO_RECORDS;
		return;
	}
	if (!may_change(q)) {
		q->status = SA_REQUEST_INVALID;
		return;
	}
	answer(q, q->wanted);
	*service = q->s->sa->service[--q->s->sa->services];
}

void sa_services_expire(struct sm *s, wtime now)
{
	for (uint32_t i = s->sa->services; i-- > 0;) {
		if (s->sa->service[i].ends <= now)
			s->sa->service[i] = s->sa->service[--s->sa->services];
	}
}

wtime sa_services_deadline(const struct sm *s)
{
	wtime next = WTIME_NEVER;

	for (uint32_t i = 0; i < s->sa->services; i++)
		next = wtime_min(next, s->sa->service[i].ends);
	return next;
}
