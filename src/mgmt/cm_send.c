/* The consumer's calls: each checks the state, fills one message, and says what answers it. Private data fills up with
 * zeroes to the message's fixed length, as IBA 12.6 has it. */
#include "mgmt/cm_id.h"
#include "base/qpn.h"
#include "mgmt/cm_send.h"

#include <errno.h>
#include <infiniband/verbs.h>
#include <string.h>

/* Our choices: longer than a busy host takes to answer, and than it takes for what was asked before. */
static const wtime FIRST_WAIT = 64 * WTIME_MS, FIRST_WAIT_EACH = WTIME_MS / 4;

static struct gmp *next_out(struct cm *cm)
{
	if (cm->out_count == CM_OUTS) {	/* the caller pulls after every entry; what is lost is repeated */
		cm->counters.out_dropped++;
		return NULL;
	}
	return &cm->out[(cm->out_first + cm->out_count++) % CM_OUTS];
}

static void out_mad(struct cm_id *id, const uint8_t mad[MAD_BYTES])
{
	struct gmp *out = next_out(id->cm);

	if (!out)
		return;
	*out = (struct gmp){ .device = id->path.device, .pkey = id->path.pkey, .path = id->to };
	memcpy(out->mad, mad, MAD_BYTES);
}

/* LAP and what answers it are a transaction of their own, as Linux's ib_cm has it. */
static uint64_t tid_of(const struct cm_id *id, const struct cm_msg *msg)
{
	bool is_alt = msg->attribute == CM_LAP || msg->attribute == CM_APR ||
		      (msg->attribute == CM_MRA && msg->mra.message == CM_ANSWERS_OTHER);

	return is_alt ? id->alt_tid : id->tid;
}

void cm_send(struct cm_id *id, struct cm_msg *msg)
{
	uint8_t mad[MAD_BYTES];

	msg->tid = tid_of(id, msg);
	cm_build(msg, mad);
	out_mad(id, mad);
}

void cm_send_again(struct cm_id *id)
{
	out_mad(id, id->mad);
}

void cm_send_kept(struct cm_id *id, struct cm_msg *msg)
{
	msg->tid = tid_of(id, msg);
	cm_build(msg, id->mad);
	out_mad(id, id->mad);
}

void cm_send_until_answered(struct cm_id *id, wtime now, struct cm_msg *msg)
{
	cm_send_kept(id, msg);
	id->tries_left = id->cm->max_retries;
	id->period = cm_time(id->cm->response_timeout) + cm_path_time(id);
	id->wait = wtime_min(FIRST_WAIT + id->cm->timers.count * FIRST_WAIT_EACH, id->period);
	cm_set_timer(id, now + id->wait);
}

void cm_send_back(struct cm *cm, const struct gmp *in, const struct cm_msg *msg)
{
	struct gmp *out = next_out(cm);

	if (!out)
		return;
	*out = (struct gmp){ .device = in->device, .pkey = in->pkey, .path = gmp_path_back(&in->path) };
	cm_build(msg, out->mad);
}

static int put_private(uint8_t *to, size_t room, const void *from, uint32_t bytes)
{
	if (bytes > room)
		return -EINVAL;
	if (bytes)
		memcpy(to, from, bytes);
	return 0;
}

/* A GRH on each device: it is what tells the receiver of a SIDR_REQ the GIDs of its ends. */
struct packet_path cm_mad_path(const struct cm_path *path)
{
	struct packet_path to = { .slid = path->slid, .dlid = path->dlid, .sl = path->sl, .has_grh = true, .tclass = path->tclass,
				  .hop_limit = path->hop_limit, .flow_label = path->flow_label };

	memcpy(to.sgid, path->sgid, 16);
	memcpy(to.dgid, path->dgid, 16);
	return to;
}

void cm_put_path(struct cm_req_path *to, const struct cm_path *path)
{
	*to = (struct cm_req_path){
		.local_lid = path->slid, .remote_lid = path->dlid, .flow_label = path->flow_label & 0xfffff,
		.packet_rate = path->rate & 0x3f, .tclass = path->tclass, .hop_limit = path->hop_limit, .sl = path->sl & 15,
		.subnet_local = path->hop_limit <= 1, .ack_timeout = path->ack_timeout & 31,
	};
	memcpy(to->local_gid, path->sgid, 16);
	memcpy(to->remote_gid, path->dgid, 16);
}

static uint8_t transport_of(uint8_t qp_type)
{
	switch (qp_type) {
	case IBV_QPT_UC:
		return CM_TRANSPORT_UC;
	case IBV_QPT_XRC_SEND:
		return CM_TRANSPORT_EXTENDED;
	default:
		return CM_TRANSPORT_RC;
	}
}

static uint8_t at_most_7(uint8_t count)
{
	return count < 7 ? count : 7;
}

int cm_req(struct cm_id *id, wtime now, uint64_t service_id, const struct cm_path *path, const struct cm_param *param)
{
	struct cm_msg msg = { .attribute = CM_REQ, .attr_modifier = param->ece_options };
	struct cm_req *req = &msg.req;
	bool is_xrc = param->qp_type == IBV_QPT_XRC_SEND;

	if (id->state != CM_IDLE || (param->alternate && param->alternate->device != path->device) ||
	    put_private(req->private_data, sizeof(req->private_data), param->private_data, param->private_bytes))
		return -EINVAL;
	id->service_id = service_id;
	id->path = *path;
	id->to = cm_mad_path(path);
	id->qp_type = param->qp_type;
	id->local_qpn = param->qpn & QPN_MASK;
	id->rq_psn = param->psn & PSN_MASK;
	id->responder_resources = param->responder_resources;
	id->initiator_depth = param->initiator_depth;
	id->retry_count = at_most_7(param->retry_count);
	list_remove(&id->symmetric);
	if (param->symmetric)
		list_append(&id->cm->symmetric, &id->symmetric);
	req->local_comm_id = id->local_id;
	req->service_id = service_id;
	req->local_ca_guid = id->cm->ca_guid[path->device];
	req->local_qpn = id->local_qpn;
	req->initiator_depth = param->initiator_depth;
	req->remote_cm_response_timeout = req->local_cm_response_timeout = id->cm->response_timeout;
	req->transport = transport_of(param->qp_type);
	req->extended_transport = is_xrc ? CM_EXTENDED_XRC : 0;
	req->flow_control = param->flow_control;
	req->starting_psn = id->rq_psn;
	req->pkey = path->pkey;
	req->path_mtu = path->mtu & 15;
	req->max_cm_retries = id->cm->max_retries;
	req->vendor_id = param->ece_vendor & 0xffffff;
	/* A14: an XRC initiator answers nothing, so these have no meaning */
	if (!is_xrc) {
		req->responder_resources = param->responder_resources;
		req->retry_count = id->retry_count;
		req->rnr_retry_count = at_most_7(param->rnr_retry_count);
		req->srq = param->srq;
	}
	cm_put_path(&req->primary, path);
	id->alternate_is = param->alternate ? CM_ALTERNATE_OFFERED : CM_ALTERNATE_NONE;
	if (param->alternate) {
		id->alternate = *param->alternate;
		cm_put_path(&req->alternate, param->alternate);
	}
	id->state = CM_REQ_SENT;
	cm_send_until_answered(id, now, &msg);
	return 0;
}

int cm_rep(struct cm_id *id, wtime now, const struct cm_param *param)
{
	struct cm_msg msg = { .attribute = CM_REP, .attr_modifier = param->ece_options };
	struct cm_rep *rep = &msg.rep;

	if (id->state != CM_REQ_RECEIVED ||
	    put_private(rep->private_data, sizeof(rep->private_data), param->private_data, param->private_bytes))
		return -EINVAL;
	id->local_qpn = param->qpn & QPN_MASK;
	id->rq_psn = param->psn & PSN_MASK;
	id->responder_resources = param->responder_resources;
	id->initiator_depth = param->initiator_depth;
	rep->local_comm_id = id->local_id;
	rep->remote_comm_id = id->remote_id;
	rep->starting_psn = id->rq_psn;
	rep->responder_resources = param->responder_resources;
	rep->target_ack_delay = 0;
	rep->failover_accepted = CM_FAILOVER_ACCEPTED;	/* who cannot load the path of a REQ rejects the REQ */
	if (id->alternate_is == CM_ALTERNATE_OFFERED)
		id->alternate_is = CM_ALTERNATE_AGREED;
	rep->local_ca_guid = id->cm->ca_guid[id->path.device];
	rep->rnr_retry_count = at_most_7(param->rnr_retry_count);
	rep->vendor_id_high = (uint8_t)(param->ece_vendor >> 16);
	rep->vendor_id_middle = (uint8_t)(param->ece_vendor >> 8);
	rep->vendor_id_low = (uint8_t)param->ece_vendor;
	if (id->qp_type == IBV_QPT_XRC_RECV) {	/* A14: the target's number stands where an EE context's would */
		rep->local_eecn = id->local_qpn;
		rep->srq = 1;
	} else {
		rep->local_qpn = id->local_qpn;
		rep->initiator_depth = param->initiator_depth;
		rep->flow_control = param->flow_control;
		rep->srq = param->srq;
	}
	id->state = CM_REP_SENT;
	cm_note(id);
	cm_send_until_answered(id, now, &msg);
	return 0;
}

void cm_send_rtu(struct cm_id *id)
{
	struct cm_msg msg = { .attribute = CM_RTU, .rtu = { .local_comm_id = id->local_id, .remote_comm_id = id->remote_id } };

	cm_send(id, &msg);
}

int cm_rtu(struct cm_id *id, wtime now)
{
	(void)now;
	if (id->state != CM_REP_RECEIVED)
		return -EINVAL;
	id->state = CM_ESTABLISHED;
	cm_send_rtu(id);
	return 0;
}

void cm_send_rej(struct cm_id *id, enum cm_answered answered, uint16_t reason, const void *private_data, uint32_t bytes)
{
	struct cm_msg msg = { .attribute = CM_REJ, .rej = { .local_comm_id = id->local_id, .remote_comm_id = id->remote_id,
							    .message = answered, .reason = reason } };

	put_private(msg.rej.private_data, sizeof(msg.rej.private_data), private_data, bytes);
	cm_send_kept(id, &msg);
}

int cm_rej(struct cm_id *id, wtime now, uint16_t reason, const void *private_data, uint32_t bytes)
{
	if (bytes > sizeof((struct cm_rej){ 0 }.private_data))
		return -EINVAL;
	switch (id->state) {
	case CM_REQ_SENT:
	case CM_MRA_REQ_RECEIVED:
		cm_enter_idle(id);
		cm_send_rej(id, CM_ANSWERS_REQ, reason, private_data, bytes);
		return 0;
	case CM_REQ_RECEIVED:
		id->state = CM_REQ_REJECTED;
		cm_send_rej(id, CM_ANSWERS_REQ, reason, private_data, bytes);
		return 0;
	case CM_REP_RECEIVED:
	case CM_REP_SENT:
	case CM_MRA_REP_RECEIVED:
		cm_send_rej(id, id->state == CM_REP_RECEIVED ? CM_ANSWERS_REP : CM_ANSWERS_OTHER, reason, private_data, bytes);
		cm_enter_timewait(id, now);
		return 0;
	default:
		return -EINVAL;
	}
}

void cm_send_mra(struct cm_id *id, enum cm_answered answered)
{
	struct cm_msg msg = { .attribute = CM_MRA, .mra = { .local_comm_id = id->local_id, .remote_comm_id = id->remote_id,
							    .message = answered, .service_timeout = CM_MRA_TIMEOUT } };

	if (answered == CM_ANSWERS_REP)
		msg.mra.service_timeout = CM_MRA_REP_TIMEOUT;
	cm_send(id, &msg);
}

int cm_dreq(struct cm_id *id, wtime now)
{
	struct cm_msg msg = { .attribute = CM_DREQ, .dreq = { .local_comm_id = id->local_id, .remote_comm_id = id->remote_id,
							      .remote_qpn = id->remote_qpn } };

	if (id->state != CM_ESTABLISHED)
		return -EINVAL;
	id->state = CM_DREQ_SENT;
	cm_send_until_answered(id, now, &msg);
	return 0;
}

int cm_drep(struct cm_id *id, wtime now)
{
	struct cm_msg msg = { .attribute = CM_DREP, .drep = { .local_comm_id = id->local_id, .remote_comm_id = id->remote_id } };

	if (id->state != CM_DREQ_RECEIVED)
		return -EINVAL;
	cm_send(id, &msg);
	cm_enter_timewait(id, now);
	return 0;
}

int cm_established(struct cm_id *id)
{
	if (id->state == CM_ESTABLISHED)
		return -EISCONN;
	if (id->state != CM_REP_SENT && id->state != CM_MRA_REP_RECEIVED)
		return -EINVAL;
	id->state = CM_ESTABLISHED;
	cm_set_timer(id, WTIME_NEVER);
	return 0;
}

int cm_sidr_req(struct cm_id *id, wtime now, uint64_t service_id, const struct cm_path *path, const void *private_data,
		uint32_t bytes)
{
	struct cm_msg msg = { .attribute = CM_SIDR_REQ };

	if (id->state != CM_IDLE ||
	    put_private(msg.sidr_req.private_data, sizeof(msg.sidr_req.private_data), private_data, bytes))
		return -EINVAL;
	id->service_id = service_id;
	id->path = *path;
	id->to = cm_mad_path(path);
	id->qp_type = IBV_QPT_UD;
	msg.sidr_req.request_id = id->local_id;
	msg.sidr_req.pkey = path->pkey;
	msg.sidr_req.service_id = service_id;
	id->state = CM_SIDR_REQ_SENT;
	cm_send_until_answered(id, now, &msg);
	return 0;
}

int cm_sidr_rep(struct cm_id *id, wtime now, uint8_t status, const struct cm_param *param)
{
	struct cm_msg msg = { .attribute = CM_SIDR_REP, .attr_modifier = param->ece_options };

	(void)now;
	if (id->state != CM_SIDR_REQ_RECEIVED ||
	    put_private(msg.sidr_rep.private_data, sizeof(msg.sidr_rep.private_data), param->private_data, param->private_bytes))
		return -EINVAL;
	msg.sidr_rep.request_id = id->remote_id;
	msg.sidr_rep.status = status;
	msg.sidr_rep.service_id = id->service_id;
	if (status == CM_SIDR_VALID) {
		msg.sidr_rep.qpn = param->qpn & QPN_MASK;
		msg.sidr_rep.qkey = param->qkey;
	}
	id->state = CM_SIDR_REP_SENT;
	cm_send_kept(id, &msg);
	return 0;
}
