/* Ids and their end: creation under the quota, the two hashes, timers, and what destroying says to the peer. The timers in
 * prose: a REQ, REP, DREQ or SIDR_REQ is repeated every id->period until its answer comes or tries_left is used up; at first it
 * is repeated sooner, after 64, 128, 256 ms and so on, as a lost message should not cost seconds; an MRA stretches the current
 * period; timewait lasts the path's ACK timeout, which is twice its packet lifetime (cm_path_time). */
#include "mgmt/cm_id.h"
#include "mgmt/cm_send.h"

#include <errno.h>
#include <infiniband/verbs.h>
#include <stdlib.h>
#include <string.h>

enum {
	RESPONSE_TIMEOUT = 20,	/* 4.3 s, and 15 retries: what Linux's rdma_cm uses */
	MAX_RETRIES = 15,
};

int cm_init(struct cm *cm, const struct cm_config *config)
{
	*cm = (struct cm){ .slot = config->slot, .max_ids = config->max_ids, .note = config->note,
			   .response_timeout = RESPONSE_TIMEOUT, .max_retries = MAX_RETRIES };
	memcpy(cm->ca_guid, config->ca_guid, sizeof(cm->ca_guid));
	if (config->key)
		rand_key(&cm->rand, config->key);
	else
		rand_seed(&cm->rand, config->seed);
	cm->remote_key.k0 = rand_u64(&cm->rand);
	cm->remote_key.k1 = rand_u64(&cm->rand);
	timer_heap_init(&cm->timers);
	list_init(&cm->all);
	list_init(&cm->symmetric);
	list_init(&cm->gone);
	cm->out = calloc(CM_OUTS, sizeof(*cm->out));
	return cm->out ? 0 : -ENOMEM;
}

static uint32_t bucket(uint32_t id)
{
	return (id ^ id >> CM_SLOT_SHIFT) % CM_BUCKETS;
}

/* Peers with one id at different ports are few: the id alone finds the bucket. */
static struct cm_id **remote_bucket(struct cm *cm, uint32_t id)
{
	return &cm->by_remote[siphash_word(&cm->remote_key, id) % CM_BUCKETS];
}

struct cm_id *cm_find_local(struct cm *cm, uint32_t local_id)
{
	struct cm_id *id = cm->by_local[bucket(local_id)];

	while (id && id->local_id != local_id)
		id = id->next_local;
	return id;
}

/* The peer's end may have gone over to the alternate path before ours, or not yet: then its MADs come by the other one. */
static bool is_by_alternate(const struct cm_id *id, const struct gmp *in)
{
	struct packet_path path;

	if (id->alternate_is < CM_ALTERNATE_AGREED)
		return false;
	path = cm_mad_path(&id->alternate);
	return gmp_path_is_from(&in->path, &path);
}

bool cm_is_from(const struct cm_id *id, const struct gmp *in)
{
	return id->path.device == in->device && (gmp_path_is_from(&in->path, &id->to) || is_by_alternate(id, in));
}

struct cm_id *cm_find_remote(struct cm *cm, uint32_t remote_id, const struct gmp *in)
{
	struct cm_id *id = *remote_bucket(cm, remote_id);

	while (id && (id->remote_id != remote_id || !cm_is_from(id, in)))
		id = id->next_remote;
	return id;
}

bool cm_knows(struct cm *cm, uint32_t local_id)
{
	return cm_find_local(cm, local_id) != NULL;
}

static void unhash_local(struct cm_id *id)
{
	struct cm_id **at = &id->cm->by_local[bucket(id->local_id)];

	while (*at && *at != id)
		at = &(*at)->next_local;
	if (*at)
		*at = id->next_local;
}

static void unhash_remote(struct cm_id *id)
{
	struct cm_id **at = remote_bucket(id->cm, id->remote_id);

	while (*at && *at != id)
		at = &(*at)->next_remote;
	if (*at)
		*at = id->next_remote;
}

static struct cm_id **qpn_bucket(struct cm *cm, uint32_t qpn)
{
	return &cm->by_qpn[siphash_word(&cm->remote_key, qpn) % CM_BUCKETS];
}

static void unhash_qpn(struct cm_id *id)
{
	struct cm_id **at = qpn_bucket(id->cm, id->remote_qpn);

	while (*at && *at != id)
		at = &(*at)->next_qpn;
	if (*at)
		*at = id->next_qpn;
}

void cm_set_remote_qpn(struct cm_id *id, uint32_t qpn)
{
	struct cm_id **head = qpn_bucket(id->cm, qpn);

	unhash_qpn(id);
	id->remote_qpn = qpn;
	id->next_qpn = *head;
	*head = id;
}

/* IBA 12.9.8.3.1: a QP is a number and the GUID of its adapter. */
static bool has_same_qp(const struct cm_id *a, const struct cm_id *b)
{
	return a->remote_qpn == b->remote_qpn && a->remote_ca_guid == b->remote_ca_guid;
}

struct cm_id *cm_find_connected(const struct cm_id *id)
{
	struct gmp in = { .device = id->path.device, .path = gmp_path_back(&id->to) };
	struct cm_id *old = *qpn_bucket(id->cm, id->remote_qpn);

	while (old && (old->state != CM_ESTABLISHED || !has_same_qp(old, id) || !cm_is_from(old, &in)))
		old = old->next_qpn;
	return old;
}

static void enter_peer(struct cm_id *id, uint32_t remote_id, const struct packet_path *to)
{
	struct cm_id **head = remote_bucket(id->cm, remote_id);

	unhash_remote(id);
	id->remote_id = remote_id;
	id->to = *to;
	id->next_remote = *head;
	*head = id;
}

void cm_set_peer(struct cm_id *id, uint32_t remote_id, const struct gmp *in)
{
	struct packet_path back = gmp_path_back(&in->path);

	enter_peer(id, remote_id, &back);
	id->peer_is_here = in->is_from_here;
}

/* Random, so that nobody can speak into a conversation that he cannot see. */
static uint32_t fresh_id(struct cm *cm)
{
	uint32_t n;

	do
		n = cm->slot << CM_SLOT_SHIFT | (uint32_t)rand_below(&cm->rand, 1u << CM_SLOT_SHIFT);
	while (!n || cm_find_local(cm, n));
	return n;
}

static struct cm_id *create(struct cm *cm, uint32_t local_id)
{
	struct cm_id *id, **head;

	if (cm->ids >= cm->max_ids) {
		cm->counters.over_quota++;
		return NULL;
	}
	if (timer_heap_reserve(&cm->timers, cm->ids + 1))
		return NULL;
	id = calloc(1, sizeof(*id));
	if (!id)
		return NULL;
	id->cm = cm;
	id->local_id = local_id ? local_id : fresh_id(cm);
	id->tid = rand_u64(&cm->rand);
	head = &cm->by_local[bucket(id->local_id)];
	id->next_local = *head;
	*head = id;
	list_append(&cm->all, &id->all);
	cm->ids++;
	return id;
}

struct cm_id *cm_id_create(struct cm *cm, void *user)
{
	struct cm_id *id = create(cm, 0);

	if (id)
		id->user = user;
	return id;
}

void cm_set_timer(struct cm_id *id, wtime at)
{
	struct timer_heap *h = &id->cm->timers;

	if (at == WTIME_NEVER)
		timer_heap_remove(h, &id->timer);
	else if (timer_heap_contains(&id->timer))
		timer_heap_update(h, &id->timer, at);
	else
		timer_heap_insert(h, &id->timer, at);
}

struct cm_id *cm_adopt(struct cm *cm, const struct cm_connection *connection)
{
	struct cm_id *id = create(cm, connection->local_id);

	if (!id)
		return NULL;
	id->state = CM_ESTABLISHED;
	id->path.device = connection->device;
	id->path.pkey = connection->pkey;
	id->path.ack_timeout = connection->ack_timeout;
	id->local_qpn = connection->local_qpn;
	cm_set_remote_qpn(id, connection->remote_qpn);
	enter_peer(id, connection->remote_id, &connection->to);
	return id;
}

/* Must a DREQ end it? */
static bool is_connected(const struct cm_id *id)
{
	switch (id->state) {
	case CM_REP_SENT:
	case CM_MRA_REP_RECEIVED:
	case CM_REP_RECEIVED:
	case CM_ESTABLISHED:
	case CM_DREQ_SENT:
		return true;
	default:
		return false;
	}
}

static void note(struct cm_id *id, bool connected)
{
	if (!id->cm->note || connected == id->is_noted)
		return;
	id->is_noted = connected;
	id->cm->note(id, connected);
}

void cm_note(struct cm_id *id)
{
	note(id, is_connected(id) && id->remote_id && !id->peer_is_here);
}

void cm_note_again(struct cm_id *id)
{
	note(id, false);
	cm_note(id);
}

void cm_enter_timewait(struct cm_id *id, wtime now)
{
	id->state = CM_TIMEWAIT;
	cm_note(id);
	cm_set_timer(id, now + cm_path_time(id));
}

void cm_enter_idle(struct cm_id *id)
{
	id->state = CM_IDLE;
	cm_note(id);
	cm_set_timer(id, WTIME_NEVER);
}

void cm_drop(struct cm_id *id)
{
	note(id, false);
	cm_set_timer(id, WTIME_NEVER);
	unhash_local(id);
	unhash_remote(id);
	unhash_qpn(id);
	list_remove(&id->all);
	list_remove(&id->symmetric);
	list_remove(&id->gone);
	id->cm->ids--;
	id->cm->orphans -= id->is_orphan;
	free(id);
}

/* Nobody hears of it any more. False: there are enough. */
static bool let_go(struct cm_id *id)
{
	if (id->cm->orphans >= id->cm->max_ids / 4)
		return false;
	id->user = NULL;
	id->is_orphan = true;
	id->cm->orphans++;
	return true;
}

void cm_id_destroy(struct cm_id *id, wtime now)
{
	switch (id->state) {
	case CM_REQ_SENT:
	case CM_MRA_REQ_RECEIVED:
		cm_send_rej(id, CM_ANSWERS_REQ, CM_REJ_TIMEOUT, NULL, 0);
		break;
	case CM_REQ_RECEIVED:
		cm_send_rej(id, CM_ANSWERS_REQ, CM_REJ_CONSUMER, NULL, 0);
		break;
	case CM_REP_SENT:
	case CM_MRA_REP_RECEIVED:
		cm_send_rej(id, CM_ANSWERS_OTHER, CM_REJ_CONSUMER, NULL, 0);
		break;
	case CM_REP_RECEIVED:
		cm_send_rej(id, CM_ANSWERS_REP, CM_REJ_CONSUMER, NULL, 0);
		break;
	case CM_ESTABLISHED:
		/* a target serves whoever has opened it: as Linux's cm_destroy_id() */
		if (id->qp_type == IBV_QPT_XRC_RECV)
			break;
		cm_dreq(id, now);
		if (let_go(id))
			return;
		break;
	case CM_DREQ_SENT:
		if (let_go(id))
			return;
		break;
	case CM_DREQ_RECEIVED:
		cm_drep(id, now);
		break;
	case CM_SIDR_REQ_RECEIVED:
		cm_sidr_rep(id, now, CM_SIDR_REJECT, &(struct cm_param){ 0 });
		break;
	default:
		break;
	}
	cm_drop(id);
}

void cm_fini(struct cm *cm)
{
	struct cm_id *id;

	cm->note = NULL;
	while ((id = list_first_entry(&cm->all, struct cm_id, all)))
		cm_drop(id);
	timer_heap_fini(&cm->timers);
	free(cm->out);
	cm->out = NULL;
}

wtime cm_deadline(const struct cm *cm)
{
	const struct timer_heap_node *first = timer_heap_min(&cm->timers);

	return first ? first->at : WTIME_NEVER;
}

bool cm_output(struct cm *cm, struct gmp *out)
{
	if (!cm->out_count)
		return false;
	*out = cm->out[cm->out_first];
	cm->out_first = (cm->out_first + 1) % CM_OUTS;
	cm->out_count--;
	return true;
}

const char *cm_state_name(enum cm_state state)
{
	static const char *const names[] = {
		[CM_IDLE] = "IDLE", [CM_REQ_SENT] = "REQ_SENT", [CM_MRA_REQ_RECEIVED] = "MRA_REQ_RECEIVED",
		[CM_REQ_RECEIVED] = "REQ_RECEIVED", [CM_REP_SENT] = "REP_SENT", [CM_MRA_REP_RECEIVED] = "MRA_REP_RECEIVED",
		[CM_REP_RECEIVED] = "REP_RECEIVED", [CM_ESTABLISHED] = "ESTABLISHED", [CM_DREQ_SENT] = "DREQ_SENT",
		[CM_DREQ_RECEIVED] = "DREQ_RECEIVED", [CM_TIMEWAIT] = "TIMEWAIT", [CM_SIDR_REQ_SENT] = "SIDR_REQ_SENT",
		[CM_SIDR_REQ_RECEIVED] = "SIDR_REQ_RECEIVED", [CM_SIDR_REP_SENT] = "SIDR_REP_SENT",
		[CM_REQ_REJECTED] = "REQ_REJECTED",
	};

	return (unsigned)state < sizeof(names) / sizeof(names[0]) ? names[state] : "?";
}
