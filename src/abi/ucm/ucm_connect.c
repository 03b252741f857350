/* Connecting, listening, accepting, rejecting and disconnecting: Linux's rdma_cm states in front of the engine's. */
#include "abi/ucm/ucm_state.h"

#include "control/clock.h"

#include <errno.h>
#include <string.h>

enum {
	PRIVATE_ROOM = CMA_BYTES + RDMA_MAX_PRIVATE_DATA,
	REJ_VENDOR_OPTION = 35,		/* IBA 1.4: vendor option not supported; librdmacm's rdma_reject_ece */
};

/* rdma_cm's header, then the user's bytes. Returns how many. */
static uint32_t put_private(const struct ucm_id *id, const struct rdma_ucm_conn_param *conn, uint8_t data[PRIVATE_ROOM])
{
	struct cma_header header = { .version = CMA_VERSION, .port = ucm_addr_port(&id->src) };
	uint32_t bytes = 0;

	if (id->src.ss_family != AF_IB) {
		header.ip_version = id->src.ss_family == AF_INET ? 4 : 6;
		ucm_addr_gid(&id->src, header.source);
		ucm_addr_gid(&id->dst, header.destination);
		if (header.ip_version == 4) {
			memset(header.source, 0, 12);
			memset(header.destination, 0, 12);
		}
		cma_build(&header, data);
		bytes = CMA_BYTES;
	}
	memcpy(data + bytes, conn->private_data, conn->private_data_len);
	return bytes + conn->private_data_len;
}

static struct cm_param param_of(const struct ucm_id *id, const struct rdma_ucm_conn_param *conn, const struct rdma_ucm_ece *ece)
{
	return (struct cm_param){
		.qp_type = id->qp_type, .qpn = conn->qp_num, .psn = id->psn,
		.responder_resources = conn->responder_resources, .initiator_depth = conn->initiator_depth,
		.retry_count = conn->retry_count, .rnr_retry_count = conn->rnr_retry_count,
		.flow_control = conn->flow_control != 0, .srq = conn->srq != 0,
		.ece_vendor = ece->vendor_id, .ece_options = ece->attr_mod,
	};
}

uint32_t ucm_qkey(const struct ucm_id *id)
{
	if (id->qkey)
		return id->qkey;
	return id->ps == RDMA_PS_IPOIB ? UCM_IPOIB_QKEY : UCM_UDP_QKEY;
}

static int connect_now(struct ucm_id *id, const struct rdma_ucm_connect *in)
{
	uint64_t service = ucm_addr_service(id, &id->dst);
	uint8_t data[PRIVATE_ROOM];
	struct cm_param param = param_of(id, &in->conn_param, &in->ece);
	int error;

	param.private_data = data;
	param.private_bytes = put_private(id, &in->conn_param, data);
	param.alternate = id->paths == 2 ? &id->alternate : NULL;
	id->cm = cm_id_create(&ucm.cm, id);
	if (!id->cm)
		return -ENOMEM;
	if (id->ack_timeout)	/* 0, no timeout, is for this side's QP alone, as in Linux */
		id->path.ack_timeout = id->ack_timeout;
	if (ucm_is_ud(id))
		error = cm_sidr_req(id->cm, clock_now(), service, &id->path, data, param.private_bytes);
	else
		error = cm_req(id->cm, clock_now(), service, &id->path, &param);
	if (error) {
		cm_drop(id->cm);
		id->cm = NULL;
		return error;
	}
	id->state = UCM_CONNECT;
	return 0;
}

int ucm_connect(const struct ucm_call *call)
{
	const struct rdma_ucm_connect *in = call->in;
	struct ucm_id *id;
	int error;

	if (!in->conn_param.valid)
		return -EINVAL;
	error = ucm_id_lock(call->file, in->id, &id);
	if (error)
		return error;
	error = id->state == UCM_ROUTE_RESOLVED ? connect_now(id, in) : -EINVAL;
	ucm_unlock_and_send();
	return error;
}

static int listen_now(struct ucm_id *id, uint32_t backlog)
{
	struct sockaddr_storage any = { .ss_family = AF_INET };
	int error;

	if (id->state == UCM_IDLE) {
		error = ucm_addr_bind(id, &any);
		if (error)
			return error;
	}
	if (id->state != UCM_ADDR_BOUND)
		return -EINVAL;
	id->backlog = (int32_t)backlog > 0 && backlog < ucm.max_backlog ? backlog : ucm.max_backlog;
	/* before weftd knows, for the first request may be here before its answer */
	id->state = UCM_LISTEN;
	error = ucm_port_listen(id);
	if (error)
		id->state = UCM_ADDR_BOUND;
	return error;
}

int ucm_listen(const struct ucm_call *call)
{
	const struct rdma_ucm_listen *in = call->in;
	struct ucm_id *id;
	int error = ucm_id_lock(call->file, in->id, &id);

	if (error)
		return error;
	ucm_id_get(id);
	error = listen_now(id, in->backlog);
	ucm_id_put(id);
	ucm_unlock_and_send();
	return error;
}

static int accept_datagram(struct ucm_id *id, const struct rdma_ucm_accept *in)
{
	struct cm_param param = param_of(id, &in->conn_param, &in->ece);

	if (id->src.ss_family == AF_IB && in->conn_param.qkey)
		id->qkey = in->conn_param.qkey;
	param.qkey = ucm_qkey(id);
	param.private_data = in->conn_param.private_data;
	param.private_bytes = in->conn_param.private_data_len;
	return cm_sidr_rep(id->cm, clock_now(), CM_SIDR_VALID, &param);
}

static int accept_connection(struct ucm_id *id, const struct rdma_ucm_accept *in)
{
	struct cm_param param = param_of(id, &in->conn_param, &in->ece);

	if (!in->conn_param.valid)
		return cm_rtu(id->cm, clock_now());
	param.private_data = in->conn_param.private_data;
	param.private_bytes = in->conn_param.private_data_len;
	return cm_rep(id->cm, clock_now(), &param);
}

int ucm_accept(const struct ucm_call *call)
{
	const struct rdma_ucm_accept *in = call->in;
	struct ucm_id *id;
	int error = ucm_id_lock(call->file, in->id, &id);

	if (error)
		return error;
	error = -EINVAL;
	if (id->state != UCM_CONNECT || !id->cm)
		goto unlock;
	error = ucm_is_ud(id) ? accept_datagram(id, in) : accept_connection(id, in);
	if (error)	/* as Linux: an accept that fails refuses */
		cm_rej(id->cm, clock_now(), CM_REJ_CONSUMER, NULL, 0);
	else if (in->conn_param.valid)
		id->uid = in->uid;
unlock:
	ucm_unlock_and_send();
	return error;
}

int ucm_reject(const struct ucm_call *call)
{
	const struct rdma_ucm_reject *in = call->in;
	uint16_t reason = in->reason ? in->reason : CM_REJ_CONSUMER;
	struct ucm_id *id;
	int error;

	if (reason != CM_REJ_CONSUMER && reason != REJ_VENDOR_OPTION)
		return -EINVAL;
	error = ucm_id_lock(call->file, in->id, &id);
	if (error)
		return error;
	if (!id->cm)
		error = -EINVAL;
	else if (ucm_is_ud(id))
		error = cm_sidr_rep(id->cm, clock_now(), CM_SIDR_REJECT, &(struct cm_param){
			.private_data = in->private_data, .private_bytes = in->private_data_len });
	else
		error = cm_rej(id->cm, clock_now(), reason, in->private_data, in->private_data_len);
	ucm_unlock_and_send();
	return error;
}

int ucm_disconnect(const struct ucm_call *call)
{
	const struct rdma_ucm_disconnect *in = call->in;
	struct ucm_id *id;
	int error = ucm_id_lock(call->file, in->id, &id);

	if (error)
		return error;
	/* starts it or answers the peer's; when it is over already there is nothing to say, and no error either */
	if (!id->cm)
		error = -EINVAL;
	else if (cm_dreq(id->cm, clock_now()))
		cm_drep(id->cm, clock_now());
	ucm_unlock_and_send();
	return error;
}

int ucm_notify(const struct ucm_call *call)
{
	const struct rdma_ucm_notify *in = call->in;
	struct ucm_id *id;
	int error = ucm_id_lock(call->file, in->id, &id);

	if (error)
		return error;
	error = id->cm && in->event == IBV_EVENT_COMM_EST ? cm_established(id->cm) :
		id->cm && in->event == IBV_EVENT_PATH_MIG ? cm_migrated(id->cm) : -EINVAL;
	if (!error && in->event == IBV_EVENT_COMM_EST)
		error = ucm_event_post(id, UCM_EVENT_ESTABLISHED, 0);
	ucm_unlock_and_send();
	return error;
}
