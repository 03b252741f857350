/* The network's side: one function a message, each a list of the states in which it means something (IBA 12.9.5 to 12.9.8).
 * In any other state it is a duplicate or late: answered again where the peer may still need the answer, else dropped. A
 * message counts only from the port that the conversation is with, and only with its ids and its transaction id. On this host
 * weftd sees to it that the sender's id is the sender's own (weftd/qp1.c). */
#include "mgmt/cm_id.h"
#include "mgmt/cm_send.h"

#include <infiniband/verbs.h>
#include <string.h>

struct arrival {
	struct cm *cm;
	wtime now;
	const struct gmp *gmp;
	const struct cm_msg *msg;
};

static bool is_from_peer(const struct arrival *in, const struct cm_id *id, uint32_t remote_id)
{
	return id->remote_id == remote_id && cm_is_from(id, in->gmp);
}

/* The conversation that a message names by both ids. */
static struct cm_id *conversation(const struct arrival *in, uint32_t local_id, uint32_t remote_id)
{
	struct cm_id *id = cm_find_local(in->cm, local_id);

	return id && is_from_peer(in, id, remote_id) ? id : NULL;
}

/* Once the peer has told its id, nobody else speaks in its place. */
static bool is_peer(const struct arrival *in, const struct cm_id *id, uint32_t remote_id)
{
	return !id->remote_id || is_from_peer(in, id, remote_id);
}

static bool unexpected(const struct arrival *in)
{
	in->cm->counters.unexpected++;
	return false;
}

static bool duplicate(const struct arrival *in)
{
	in->cm->counters.duplicates++;
	return false;
}

/* An orphan ends with what its consumer would have been told. */
static bool tell(struct cm_event *event, enum cm_event_type type, struct cm_id *id)
{
	if (id->is_orphan) {
		cm_drop(id);
		return false;
	}
	event->type = type;
	event->id = id;
	return true;
}

static void refuse(const struct arrival *in, enum cm_answered answered, uint32_t remote_id, uint16_t reason)
{
	struct cm_msg msg = { .attribute = CM_REJ, .tid = in->msg->tid,
			      .rej = { .remote_comm_id = remote_id, .message = answered, .reason = reason } };

	cm_send_back(in->cm, in->gmp, &msg);
}

bool cm_answer_stray(const struct cm_msg *msg, struct cm_msg *answer)
{
	*answer = (struct cm_msg){ .tid = msg->tid };
	switch (msg->attribute) {
	case CM_REQ:
		answer->attribute = CM_REJ;
		answer->rej = (struct cm_rej){ .remote_comm_id = msg->req.local_comm_id, .message = CM_ANSWERS_REQ,
					       .reason = CM_REJ_INVALID_SERVICE_ID };
		return true;
	case CM_REP:
		answer->attribute = CM_REJ;
		answer->rej = (struct cm_rej){ .remote_comm_id = msg->rep.local_comm_id, .message = CM_ANSWERS_REP,
					       .reason = CM_REJ_INVALID_COMM_ID };
		return true;
	case CM_DREQ:
		answer->attribute = CM_DREP;
		answer->drep = (struct cm_drep){ .local_comm_id = msg->dreq.remote_comm_id,
						 .remote_comm_id = msg->dreq.local_comm_id };
		return true;
	case CM_LAP:
		answer->attribute = CM_APR;
		answer->apr = (struct cm_apr){ .local_comm_id = msg->lap.remote_comm_id, .remote_comm_id = msg->lap.local_comm_id,
					       .status = CM_APR_INVALID_COMM_ID };
		return true;
	case CM_SIDR_REQ:
		answer->attribute = CM_SIDR_REP;
		answer->sidr_rep = (struct cm_sidr_rep){ .request_id = msg->sidr_req.request_id, .status = CM_SIDR_UNSUPPORTED,
							 .service_id = msg->sidr_req.service_id };
		return true;
	default:
		return false;
	}
}

static void answer_stray(const struct arrival *in)
{
	struct cm_msg answer;

	if (cm_answer_stray(in->msg, &answer))
		cm_send_back(in->cm, in->gmp, &answer);
}

static bool req_again(const struct arrival *in, struct cm_id *id)
{
	if (id->state == CM_REQ_RECEIVED)
		cm_send_mra(id, CM_ANSWERS_REQ);
	else if (id->state == CM_REP_SENT || id->state == CM_MRA_REP_RECEIVED || id->state == CM_REQ_REJECTED)
		cm_send_again(id);
	return duplicate(in);
}

/* Our own symmetric open towards the sender of this REQ, if there is one. */
static struct cm_id *crossing(const struct arrival *in)
{
	const struct cm_req *req = &in->msg->req;

	list_for_each(id, &in->cm->symmetric, struct cm_id, symmetric)
		if ((id->state == CM_REQ_SENT || id->state == CM_MRA_REQ_RECEIVED) &&
		    id->service_id == req->service_id && id->path.device == in->gmp->device &&
		    id->local_id != req->local_comm_id &&
		    memcmp(id->path.dgid, req->primary.local_gid, 16) == 0 &&
		    memcmp(id->path.sgid, req->primary.remote_gid, 16) == 0)
			return id;
	return NULL;
}

/* IBA 12.10.4: the greater CA GUID, then the greater QPN, stays active; the communication ids decide between equals. */
static bool stays_active(const struct cm_id *id, const struct cm_req *req)
{
	uint64_t guid = id->cm->ca_guid[id->path.device];

	if (guid != req->local_ca_guid)
		return guid > req->local_ca_guid;
	if (id->local_qpn != req->local_qpn)
		return id->local_qpn > req->local_qpn;
	return id->local_id > req->local_comm_id;
}

static bool qp_type_of(const struct cm_req *req, uint8_t *qp_type)
{
	switch (req->transport) {
	case CM_TRANSPORT_RC:
		*qp_type = IBV_QPT_RC;
		return true;
	case CM_TRANSPORT_UC:
		*qp_type = IBV_QPT_UC;
		return true;
	case CM_TRANSPORT_EXTENDED:
		*qp_type = IBV_QPT_XRC_RECV;
		return req->extended_transport == CM_EXTENDED_XRC;
	default:
		return false;
	}
}

/* A QP with the timeout 0 waits for ever (IBA 9.7.6.1.3): no peer makes ours do so. Linux's ib_cm takes it for 1, too. */
struct cm_path cm_path_seen_here(const struct cm_req_path *from)
{
	struct cm_path path = {
		.slid = from->remote_lid, .dlid = from->local_lid, .sl = from->sl, .tclass = from->tclass,
		.hop_limit = from->hop_limit, .rate = from->packet_rate, .flow_label = from->flow_label,
		.ack_timeout = from->ack_timeout ? from->ack_timeout : 1,
	};

	memcpy(path.sgid, from->remote_gid, 16);
	memcpy(path.dgid, from->local_gid, 16);
	return path;
}

/* IBA 12.6.5: all of it is 0 where there is none. */
static bool offers_alternate(const struct cm_req *req)
{
	static const struct cm_req_path none;

	return req->alternate.local_lid || memcmp(req->alternate.local_gid, none.local_gid, sizeof(none.local_gid)) != 0;
}

static void take_req(struct cm_id *id, const struct arrival *in, uint8_t qp_type)
{
	const struct cm_req *req = &in->msg->req;

	cm_set_peer(id, req->local_comm_id, in->gmp);
	cm_set_timer(id, WTIME_NEVER);
	id->state = CM_REQ_RECEIVED;
	id->tid = in->msg->tid;
	id->service_id = req->service_id;
	id->qp_type = qp_type;
	cm_set_remote_qpn(id, req->local_qpn);
	id->remote_ca_guid = req->local_ca_guid;
	id->sq_psn = req->starting_psn;
	/* each side's initiator is the other side's responder */
	id->responder_resources = req->initiator_depth;
	id->initiator_depth = req->responder_resources;
	id->retry_count = req->retry_count;
	id->rnr_retry_count = req->rnr_retry_count;
	id->path = cm_path_seen_here(&req->primary);
	id->path.device = in->gmp->device;
	id->path.pkey = req->pkey;
	id->path.mtu = req->path_mtu;
	id->alternate_is = offers_alternate(req) ? CM_ALTERNATE_OFFERED : CM_ALTERNATE_NONE;
	if (id->alternate_is == CM_ALTERNATE_OFFERED)
		id->alternate = cm_alternate_seen_here(id, &req->alternate);
}

bool cm_end_stale(struct cm_id *id, wtime now)
{
	struct cm_id *old = id->remote_qpn ? cm_find_connected(id) : NULL;

	if (!old)
		return false;
	id->cm->counters.stale++;
	cm_dreq(old, now);
	return true;
}

static bool input_req(const struct arrival *in, struct cm_event *event)
{
	const struct cm_req *req = &in->msg->req;
	struct cm_id *id = cm_find_remote(in->cm, req->local_comm_id, in->gmp);
	uint8_t qp_type;

	if (!req->local_comm_id)	/* IBA 12.6.5: it is the name of the sender's conversation */
		return unexpected(in);
	if (id)
		return req_again(in, id);
	if (!qp_type_of(req, &qp_type)) {
		refuse(in, CM_ANSWERS_REQ, req->local_comm_id, CM_REJ_INVALID_TRANSPORT);
		return unexpected(in);
	}
	id = crossing(in);
	if (id && stays_active(id, req))
		return duplicate(in);
	if (!id)
		id = cm_id_create(in->cm, NULL);
	if (!id)
		return false;
	take_req(id, in, qp_type);
	return tell(event, CM_EVENT_REQ, id);
}

static bool input_mra(const struct arrival *in)
{
	const struct cm_mra *mra = &in->msg->mra;
	struct cm_id *id = cm_find_local(in->cm, mra->remote_comm_id);

	if (!id || !mra->local_comm_id || !is_peer(in, id, mra->local_comm_id))
		return unexpected(in);
	if (mra->message == CM_ANSWERS_OTHER ? !cm_take_lap_mra(id, in->msg) : in->msg->tid != id->tid)
		return unexpected(in);
	if (mra->message == CM_ANSWERS_REQ && (id->state == CM_REQ_SENT || id->state == CM_MRA_REQ_RECEIVED)) {
		cm_set_peer(id, mra->local_comm_id, in->gmp);
		id->state = CM_MRA_REQ_RECEIVED;
	} else if (mra->message == CM_ANSWERS_REP && (id->state == CM_REP_SENT || id->state == CM_MRA_REP_RECEIVED)) {
		id->state = CM_MRA_REP_RECEIVED;
	} else if (mra->message != CM_ANSWERS_OTHER) {
		return unexpected(in);
	}
	id->wait = id->period;
	cm_set_timer(id, in->now + cm_time(mra->service_timeout) + cm_path_time(id));
	return false;
}

static bool rep_again(const struct arrival *in, struct cm_id *id)
{
	if (id->state == CM_ESTABLISHED)
		cm_send_rtu(id);
	else if (id->state == CM_REP_RECEIVED)
		cm_send_mra(id, CM_ANSWERS_REP);
	return duplicate(in);
}

static bool input_rep(const struct arrival *in, struct cm_event *event)
{
	const struct cm_rep *rep = &in->msg->rep;
	struct cm_id *id = cm_find_local(in->cm, rep->remote_comm_id);

	if (!id || in->msg->tid != id->tid) {
		answer_stray(in);
		return unexpected(in);
	}
	if (!rep->local_comm_id || !is_peer(in, id, rep->local_comm_id))
		return unexpected(in);
	if (id->state != CM_REQ_SENT && id->state != CM_MRA_REQ_RECEIVED)
		return rep_again(in, id);
	cm_set_peer(id, rep->local_comm_id, in->gmp);
	cm_set_timer(id, WTIME_NEVER);
	id->state = CM_REP_RECEIVED;
	cm_set_remote_qpn(id, id->qp_type == IBV_QPT_XRC_SEND ? rep->local_eecn : rep->local_qpn);
	id->remote_ca_guid = rep->local_ca_guid;
	id->sq_psn = rep->starting_psn;
	id->initiator_depth = rep->responder_resources;
	id->responder_resources = rep->initiator_depth;
	id->rnr_retry_count = rep->rnr_retry_count;
	if (id->alternate_is == CM_ALTERNATE_OFFERED)
		id->alternate_is = rep->failover_accepted == CM_FAILOVER_ACCEPTED ? CM_ALTERNATE_AGREED : CM_ALTERNATE_NONE;
	cm_note(id);
	return tell(event, CM_EVENT_REP, id);
}

static bool input_rtu(const struct arrival *in, struct cm_event *event)
{
	struct cm_id *id = conversation(in, in->msg->rtu.remote_comm_id, in->msg->rtu.local_comm_id);

	if (!id || (id->state != CM_REP_SENT && id->state != CM_MRA_REP_RECEIVED))
		return unexpected(in);
	id->state = CM_ESTABLISHED;
	cm_set_timer(id, WTIME_NEVER);
	return tell(event, CM_EVENT_RTU, id);
}

/* Is the listener given a little more time? Our choice: 5, 10, 20 ... 160 ms. */
static bool wait_for_listener(struct cm_id *id, wtime now)
{
	enum { RETURNS = 6 };

	if (id->returns == RETURNS)
		return false;
	cm_set_timer(id, now + (5 * WTIME_MS << id->returns++));
	return true;
}

/* Before the connection is established one side may lack an id: who rejects our REQ or REP may never have had one of its own,
 * who gives up its REQ may not know ours. */
static bool lacks_an_id(const struct cm_id *id)
{
	switch (id->state) {
	case CM_REQ_SENT:
	case CM_MRA_REQ_RECEIVED:
	case CM_REQ_RECEIVED:
	case CM_REP_SENT:
	case CM_MRA_REP_RECEIVED:
		return true;
	default:
		return false;
	}
}

static struct cm_id *rejected(const struct arrival *in)
{
	const struct cm_rej *rej = &in->msg->rej;
	struct cm_id *id = rej->remote_comm_id ? cm_find_local(in->cm, rej->remote_comm_id) :
						 cm_find_remote(in->cm, rej->local_comm_id, in->gmp);

	if (!id || in->msg->tid != id->tid)
		return NULL;
	if ((!rej->remote_comm_id || !rej->local_comm_id) && !lacks_an_id(id))
		return NULL;
	return is_peer(in, id, rej->local_comm_id ? rej->local_comm_id : id->remote_id) ? id : NULL;
}

/* Who had a listener has an id too. */
static bool nobody_listens(const struct cm_rej *rej)
{
	return !rej->local_comm_id && rej->reason == CM_REJ_INVALID_SERVICE_ID;
}

static bool input_rej(const struct arrival *in, struct cm_event *event)
{
	struct cm_id *id = rejected(in);

	if (!id)
		return unexpected(in);
	switch (id->state) {
	case CM_REQ_SENT:
		if (nobody_listens(&in->msg->rej) && wait_for_listener(id, in->now))
			return false;
		cm_enter_idle(id);
		break;
	case CM_MRA_REQ_RECEIVED:
	case CM_REQ_RECEIVED:
		cm_enter_idle(id);
		break;
	case CM_REP_SENT:
	case CM_MRA_REP_RECEIVED:
	case CM_REP_RECEIVED:
	case CM_ESTABLISHED:
	case CM_DREQ_SENT:
		cm_enter_timewait(id, in->now);
		break;
	default:
		return unexpected(in);
	}
	return tell(event, CM_EVENT_REJ, id);
}

static bool input_dreq(const struct arrival *in, struct cm_event *event)
{
	const struct cm_dreq *dreq = &in->msg->dreq;
	struct cm_id *id = conversation(in, dreq->remote_comm_id, dreq->local_comm_id);

	if (!id) {
		answer_stray(in);
		return unexpected(in);
	}
	if (dreq->remote_qpn != id->local_qpn)
		return unexpected(in);
	switch (id->state) {
	case CM_REP_SENT:
	case CM_MRA_REP_RECEIVED:
	case CM_ESTABLISHED:
	case CM_DREQ_SENT:
		if (id->is_orphan)
			answer_stray(in);
		id->state = CM_DREQ_RECEIVED;
		cm_note(id);
		cm_set_timer(id, WTIME_NEVER);
		return tell(event, CM_EVENT_DREQ, id);
	case CM_TIMEWAIT:
		answer_stray(in);
		return duplicate(in);
	default:
		return duplicate(in);
	}
}

static bool input_drep(const struct arrival *in, struct cm_event *event)
{
	struct cm_id *id = conversation(in, in->msg->drep.remote_comm_id, in->msg->drep.local_comm_id);

	if (!id || (id->state != CM_DREQ_SENT && id->state != CM_DREQ_RECEIVED))
		return unexpected(in);
	cm_enter_timewait(id, in->now);
	return tell(event, CM_EVENT_DREP, id);
}

static bool input_sidr_req(const struct arrival *in, struct cm_event *event)
{
	const struct cm_sidr_req *req = &in->msg->sidr_req;
	struct cm_id *id = cm_find_remote(in->cm, req->request_id, in->gmp);

	if (id) {
		if (id->state == CM_SIDR_REP_SENT)
			cm_send_again(id);
		return duplicate(in);
	}
	id = cm_id_create(in->cm, NULL);
	if (!id)
		return false;
	cm_set_peer(id, req->request_id, in->gmp);
	id->state = CM_SIDR_REQ_RECEIVED;
	id->tid = in->msg->tid;
	id->service_id = req->service_id;
	id->qp_type = IBV_QPT_UD;
	id->path = (struct cm_path){ .device = in->gmp->device, .pkey = req->pkey, .slid = id->to.slid, .dlid = id->to.dlid };
	memcpy(id->path.sgid, id->to.sgid, 16);
	memcpy(id->path.dgid, id->to.dgid, 16);
	return tell(event, CM_EVENT_SIDR_REQ, id);
}

static bool input_sidr_rep(const struct arrival *in, struct cm_event *event)
{
	struct cm_id *id = cm_find_local(in->cm, in->msg->sidr_rep.request_id);

	if (!id || id->state != CM_SIDR_REQ_SENT || in->msg->tid != id->tid)
		return unexpected(in);
	if (in->msg->sidr_rep.status == CM_SIDR_UNSUPPORTED && wait_for_listener(id, in->now))
		return false;
	cm_set_remote_qpn(id, in->msg->sidr_rep.qpn);
	id->remote_qkey = in->msg->sidr_rep.qkey;
	cm_enter_idle(id);
	return tell(event, CM_EVENT_SIDR_REP, id);
}

/* Before the connection is established, and after it, the peer hears nothing of it, or that there is none. */
static bool input_lap(const struct arrival *in, struct cm_event *event)
{
	struct cm_id *id = conversation(in, in->msg->lap.remote_comm_id, in->msg->lap.local_comm_id);

	if (!id || id->state == CM_TIMEWAIT) {
		answer_stray(in);
		return unexpected(in);
	}
	if (id->state != CM_ESTABLISHED)
		return unexpected(in);
	switch (cm_take_lap(id, in->gmp, in->msg)) {
	case CM_LAP_TAKEN:
		return tell(event, CM_EVENT_LAP, id);
	case CM_LAP_AGAIN:
		return duplicate(in);
	default:
		return unexpected(in);
	}
}

static bool input_apr(const struct arrival *in, struct cm_event *event)
{
	struct cm_id *id = conversation(in, in->msg->apr.remote_comm_id, in->msg->apr.local_comm_id);

	if (!id || id->state != CM_ESTABLISHED || !cm_take_apr(id, in->msg))
		return unexpected(in);
	return tell(event, CM_EVENT_APR, id);
}

static bool dispatch(const struct arrival *in, struct cm_event *event)
{
	switch (in->msg->attribute) {
	case CM_REQ:
		return input_req(in, event);
	case CM_MRA:
		return input_mra(in);
	case CM_REJ:
		return input_rej(in, event);
	case CM_REP:
		return input_rep(in, event);
	case CM_RTU:
		return input_rtu(in, event);
	case CM_DREQ:
		return input_dreq(in, event);
	case CM_DREP:
		return input_drep(in, event);
	case CM_SIDR_REQ:
		return input_sidr_req(in, event);
	case CM_SIDR_REP:
		return input_sidr_rep(in, event);
	case CM_LAP:
		return input_lap(in, event);
	case CM_APR:
		return input_apr(in, event);
	default:
		return unexpected(in);
	}
}

bool cm_input(struct cm *cm, wtime now, const struct gmp *in, struct cm_event *event)
{
	cm->counters.received++;
	if (!cm_parse(&event->msg, in->mad)) {
		cm->counters.malformed++;
		return false;
	}
	return dispatch(&(struct arrival){ cm, now, in, &event->msg }, event);
}

/* What the peer's CM would have said of its process's end. */
static bool say_rejected(struct cm_event *event, struct cm_id *id, uint16_t reason)
{
	event->msg = (struct cm_msg){ .attribute = CM_REJ, .rej = { .remote_comm_id = id->local_id, .reason = reason } };
	return tell(event, CM_EVENT_REJ, id);
}

static bool one_gone(struct cm_id *id, wtime now, struct cm_event *event)
{
	switch (id->state) {
	case CM_MRA_REQ_RECEIVED:
	case CM_REQ_RECEIVED:
		cm_enter_idle(id);
		return say_rejected(event, id, CM_REJ_CONSUMER);
	case CM_REP_SENT:
	case CM_MRA_REP_RECEIVED:
	case CM_REP_RECEIVED:
		cm_enter_timewait(id, now);
		return say_rejected(event, id, CM_REJ_CONSUMER);
	case CM_ESTABLISHED:
	case CM_DREQ_SENT:
		cm_enter_timewait(id, now);
		event->msg = (struct cm_msg){ .attribute = CM_DREQ };
		return tell(event, CM_EVENT_DREQ, id);
	case CM_DREQ_RECEIVED:
		cm_enter_timewait(id, now);
		return false;
	default:
		return false;
	}
}

static void ask_again(struct cm *cm)
{
	list_for_each(id, &cm->all, struct cm_id, all)
		if (!id->remote_id && (id->state == CM_REQ_SENT || id->state == CM_SIDR_REQ_SENT))
			cm_send_again(id);
}

void cm_peer_gone(struct cm *cm, uint32_t slot)
{
	list_for_each(id, &cm->all, struct cm_id, all)
		if (id->remote_id && id->peer_is_here && CM_ID_SLOT(id->remote_id) == slot && !list_linked(&id->gone))
			list_append(&cm->gone, &id->gone);
	ask_again(cm);
}

bool cm_next_gone(struct cm *cm, wtime now, struct cm_event *event)
{
	struct list_node *n;

	while ((n = list_pop(&cm->gone)))
		if (one_gone(container_of(n, struct cm_id, gone), now, event))
			return true;
	return false;
}

/* No answer came to what id->mad holds, and it was sent often enough. */
static bool give_up(struct cm_id *id, wtime now, struct cm_event *event)
{
	id->cm->counters.timeouts++;
	switch (id->state) {
	case CM_REQ_SENT:
	case CM_MRA_REQ_RECEIVED:
		cm_send_rej(id, CM_ANSWERS_REQ, CM_REJ_TIMEOUT, NULL, 0);
		cm_enter_idle(id);
		return tell(event, CM_EVENT_UNREACHABLE, id);
	case CM_REP_SENT:
	case CM_MRA_REP_RECEIVED:
		cm_send_rej(id, CM_ANSWERS_OTHER, CM_REJ_TIMEOUT, NULL, 0);
		cm_enter_idle(id);
		return tell(event, CM_EVENT_UNREACHABLE, id);
	case CM_SIDR_REQ_SENT:
		cm_enter_idle(id);
		return tell(event, CM_EVENT_UNREACHABLE, id);
	case CM_DREQ_SENT:
		cm_enter_timewait(id, now);
		return tell(event, CM_EVENT_DREQ_LOST, id);
	case CM_ESTABLISHED:
		cm_give_up_lap(id);
		return tell(event, CM_EVENT_LAP_LOST, id);
	case CM_TIMEWAIT:
		cm_enter_idle(id);
		return tell(event, CM_EVENT_TIMEWAIT_EXIT, id);
	default:
		weft_bug_on(!"a timer in a state without one");
		cm_enter_idle(id);
		return false;
	}
}

/* False: it was sent often enough. */
static bool try_again(struct cm_id *id, wtime now)
{
	if (id->state == CM_TIMEWAIT || (id->wait == id->period && !id->tries_left))
		return false;
	if (id->wait == id->period)
		id->tries_left--;
	id->wait = wtime_min(2 * id->wait, id->period);
	id->cm->counters.retries++;
	cm_set_timer(id, now + id->wait);
	cm_send_again(id);
	return true;
}

bool cm_expire(struct cm *cm, wtime now, struct cm_event *event)
{
	struct timer_heap_node *first;

	while ((first = timer_heap_min(&cm->timers)) && first->at <= now && cm->out_count < CM_OUTS) {
		struct cm_id *id = container_of(first, struct cm_id, timer);

		if (!try_again(id, now) && give_up(id, now, event))
			return true;
	}
	return false;
}
