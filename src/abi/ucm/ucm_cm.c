/* The engine's consumer: what arrives for the communication manager becomes events of ids, what the engine wants to say goes
 * to weftd once the lock is given up. Which events a user sees, with what status and private data, is as Linux's rdma_cm
 * tells them. */
#include "abi/ucm/ucm_state.h"

#include <endian.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

/* For weftd, once the lock is given up. */
struct post {
	struct list_node node;
	struct control_msg msg;
};

void ucm_post(const struct control_msg *msg)
{
	struct post *post = calloc(1, sizeof(*post));

	if (!post)	/* weftd cleans up after the process */
		return;
	post->msg = *msg;
	list_append(&ucm.posts, &post->node);
}

static bool next_message(struct control_msg *msg)
{
	struct post *post = list_first_entry(&ucm.posts, struct post, node);
	struct cm_out out;

	if (post) {
		*msg = post->msg;
		list_remove(&post->node);
		free(post);
		return true;
	}
	if (!cm_output(&ucm.cm, &out))
		return false;
	*msg = (struct control_msg){
		.type = CTL_MAD, .slot = out.slot, .device = (uint32_t)out.device, .service = out.service_id,
	};
	memcpy(msg->gid, out.sgid, 16);
	memcpy(msg->dgid, out.dgid, 16);
	memcpy(msg->mad, out.mad, sizeof(msg->mad));
	return true;
}

static bool deadline_moved(void)
{
	wtime deadline = cm_deadline(&ucm.cm);

	if (deadline >= ucm.cm_deadline)
		return false;
	ucm.cm_deadline = deadline;
	return true;
}

void ucm_unlock(void)
{
	enum { BATCH = 8 };		/* our choice: what is reasonable on a stack */
	struct control_msg batch[BATCH];
	struct host *host = ucm.host;
	bool moved = host && deadline_moved();
	int n;

	do {
		for (n = 0; host && n < BATCH && next_message(&batch[n]);)
			n++;
		pthread_mutex_unlock(&ucm.lock);
		for (int i = 0; i < n; i++)
			host_post(host, &batch[i]);
		if (n == BATCH)
			pthread_mutex_lock(&ucm.lock);
	} while (n == BATCH);
	if (moved)
		host_cm_kick(host);
}

/* ---- requests ---- */

struct request {
	struct cm_id *cm;
	const struct control_msg *from;
	const uint8_t *private_data;
	uint32_t private_bytes;
	struct cma_header header;
	bool has_header;
};

static bool qp_types_match(const struct ucm_id *listener, const struct cm_id *cm)
{
	return !listener->qp_type || listener->qp_type == cm->qp_type;
}

/* Is this what the listener was bound to? An IPv6 wildcard takes IPv4 too unless it is AFONLY. */
static bool address_matches(const struct ucm_id *listener, const struct request *request)
{
	const struct sockaddr_storage *src = &listener->src;
	uint8_t bound[16];

	if (src->ss_family == AF_IB)
		return true;
	if (!request->has_header)
		return false;
	if (ucm_addr_is_any(src) && !listener->afonly)
		return true;
	if (request->header.ip_version != (src->ss_family == AF_INET ? 4 : 6))
		return false;
	if (ucm_addr_is_any(src))
		return true;
	if (src->ss_family == AF_INET)
		return memcmp(&((const struct sockaddr_in *)src)->sin_addr, request->header.destination + 12, 4) == 0;
	ucm_addr_gid(src, bound);
	return memcmp(bound, request->header.destination, 16) == 0;
}

static struct ucm_id *find_listener(const struct request *request)
{
	uint64_t service = request->cm->service_id;

	list_for_each(port, &ucm.ports[service % UCM_PORT_BUCKETS], struct ucm_port, node) {
		if (port->service != service)
			continue;
		list_for_each(id, &port->ids, struct ucm_id, of_port)
			if (id->state == UCM_LISTEN && qp_types_match(id, request->cm) && address_matches(id, request) &&
			    (id->device == UCM_NO_DEVICE || id->device == request->cm->path.device))
				return id;
	}
	return NULL;
}

static void set_address(struct sockaddr_storage *to, const struct request *request, const uint8_t addr[16], uint16_t port)
{
	struct sockaddr_in *in4 = (struct sockaddr_in *)to;
	struct sockaddr_in6 *in6 = (struct sockaddr_in6 *)to;

	if (request->header.ip_version == 4) {
		in4->sin_family = AF_INET;
		in4->sin_port = htobe16(port);
		memcpy(&in4->sin_addr, addr + 12, 4);
	} else {
		in6->sin6_family = AF_INET6;
		in6->sin6_port = htobe16(port);
		memcpy(&in6->sin6_addr, addr, 16);
	}
}

static void set_ib_address(struct sockaddr_storage *to, const uint8_t gid[16], uint16_t pkey, uint64_t service)
{
	struct sockaddr_ib sib = { .sib_family = AF_IB, .sib_pkey = htobe16(pkey), .sib_sid = htobe64(service),
				   .sib_sid_mask = htobe64(UINT64_MAX) };

	memcpy(&sib.sib_addr, gid, 16);
	memcpy(to, &sib, sizeof(sib));
}

/* The GIDs of a datagram's ends are in no message: they are the address asked for and whoever sent it. */
static int set_sidr_path(struct cm_id *cm, const struct request *request, const struct ucm_device *devices)
{
	struct sockaddr_storage dst = { 0 };
	int device = cm->path.device;

	memcpy(cm->path.dgid, request->from->gid, 16);
	memcpy(cm->path.sgid, request->from->dgid, 16);
	if (!request->has_header)
		return 0;
	set_address(&dst, request, request->header.destination, 0);
	return ucm_route_local(devices, &dst, &device, cm->path.sgid);
}

static int make_id(struct ucm_id *listener, const struct request *request, struct ucm_id **fresh)
{
	struct cm_id *cm = request->cm;
	struct ucm_id *id;
	int error = ucm_id_create(&id);

	if (error)
		return error;
	id->ps = listener->ps;
	id->qp_type = cm->qp_type;
	id->state = UCM_CONNECT;
	id->device = cm->path.device;
	id->tos = listener->tos;
	id->ack_timeout = listener->ack_timeout;
	id->has_timeout = listener->has_timeout;
	memcpy(id->sgid, cm->path.sgid, 16);
	memcpy(id->dgid, cm->path.dgid, 16);
	id->path = cm->path;
	id->paths = 1;
	id->psn = cm->rq_psn;		/* Linux numbers both directions alike, so its peers must */
	if (listener->src.ss_family == AF_IB) {
		set_ib_address(&id->src, id->sgid, cm->path.pkey, cm->service_id);
		set_ib_address(&id->dst, id->dgid, cm->path.pkey, 0);
	} else {
		set_address(&id->src, request, request->header.destination, (uint16_t)cm->service_id);
		set_address(&id->dst, request, request->header.source, request->header.port);
	}
	id->cm = cm;
	cm->user = id;
	*fresh = id;
	return 0;
}

static void put_ece(struct rdma_ucm_event_resp *resp, uint32_t vendor, uint32_t options)
{
	resp->ece.vendor_id = vendor;
	resp->ece.attr_mod = options;
}

static void put_req(struct rdma_ucm_event_resp *resp, const struct cm_msg *msg)
{
	const struct cm_req *req = &msg->req;

	resp->param.conn.qp_num = req->local_qpn;
	resp->param.conn.srq = req->srq;
	resp->param.conn.responder_resources = req->initiator_depth;
	resp->param.conn.initiator_depth = req->responder_resources;
	resp->param.conn.flow_control = req->flow_control;
	resp->param.conn.retry_count = req->retry_count;
	resp->param.conn.rnr_retry_count = req->rnr_retry_count;
	put_ece(resp, req->vendor_id, msg->attr_modifier);
}

/* A request for the listener: queues CONNECT_REQUEST with a new id. */
static int offer(struct ucm_id *listener, const struct request *request, const struct cm_msg *msg)
{
	uint32_t skip = listener->src.ss_family == AF_IB ? 0 : CMA_BYTES;
	const uint8_t *data = request->private_data + skip;
	uint32_t bytes = request->private_bytes - skip;
	struct ucm_event *event = ucm_event_new(listener, UCM_EVENT_CONNECT_REQUEST, 0);
	int error;

	if (!event)
		return -ENOMEM;
	error = make_id(listener, request, &event->fresh);
	if (error) {
		free(event);
		return error;
	}
	event->resp.id = event->fresh->number;
	if (msg->attribute == CM_REQ) {
		put_req(&event->resp, msg);
		memcpy(event->resp.param.conn.private_data, data, bytes);
		event->resp.param.conn.private_data_len = (uint8_t)bytes;
	} else {
		memcpy(event->resp.param.ud.private_data, data, bytes);
		event->resp.param.ud.private_data_len = (uint8_t)bytes;
	}
	listener->backlog--;
	ucm_event_queue(event);
	return 0;
}

static void refuse(struct cm_id *cm, wtime now, uint16_t reason)
{
	if (cm->state == CM_SIDR_REQ_RECEIVED)
		cm_sidr_rep(cm, now, CM_SIDR_UNSUPPORTED, &(struct cm_param){ 0 });
	else
		cm_rej(cm, now, reason, NULL, 0);
	cm_drop(cm);
}

static void requested(wtime now, const struct cm_event *event, const struct control_msg *from)
{
	const struct cm_msg *msg = &event->msg;
	bool is_ud = event->type == CM_EVENT_SIDR_REQ;
	struct request request = { .cm = event->id, .from = from,
				   .private_data = is_ud ? msg->sidr_req.private_data : msg->req.private_data,
				   .private_bytes = is_ud ? sizeof(msg->sidr_req.private_data) : sizeof(msg->req.private_data) };
	struct ucm_device devices[CA_DEVICES];
	struct ucm_id *listener;

	request.has_header = cma_parse(&request.header, request.private_data);
	listener = find_listener(&request);
	if (!listener) {
		refuse(event->id, now, CM_REJ_INVALID_SERVICE_ID);
		return;
	}
	ucm_devices(devices);
	if (is_ud && set_sidr_path(event->id, &request, devices)) {
		refuse(event->id, now, CM_REJ_INVALID_GID);
		return;
	}
	if (ucm_gid_index(&devices[event->id->path.device].dev, event->id->path.sgid) < 0) {
		refuse(event->id, now, CM_REJ_INVALID_GID);
		return;
	}
	/* a full backlog is not a refusal: as in Linux the peer asks again */
	if (!listener->backlog || offer(listener, &request, msg))
		cm_drop(event->id);
}

/* ---- the rest of a conversation ---- */

static void post_conn(struct ucm_id *id, enum ucm_event_type type, int status, const void *private_data, uint32_t bytes,
		      const struct cm_msg *rep)
{
	struct ucm_event *event = ucm_event_new(id, type, status);
	struct rdma_ucm_conn_param *conn;

	if (!event)
		return;
	conn = &event->resp.param.conn;
	if (rep) {
		conn->qp_num = id->cm->remote_qpn;
		conn->srq = rep->rep.srq;
		conn->responder_resources = rep->rep.initiator_depth;
		conn->initiator_depth = rep->rep.responder_resources;
		conn->flow_control = rep->rep.flow_control;
		conn->rnr_retry_count = rep->rep.rnr_retry_count;
		put_ece(&event->resp, (uint32_t)rep->rep.vendor_id_high << 16 | rep->rep.vendor_id_middle << 8 |
				      rep->rep.vendor_id_low, rep->attr_modifier);
	}
	if (bytes)
		memcpy(conn->private_data, private_data, bytes);
	conn->private_data_len = (uint8_t)bytes;
	ucm_event_queue(event);
}

static void sidr_answered(struct ucm_id *id, const struct cm_sidr_rep *rep)
{
	bool valid = rep->status == CM_SIDR_VALID;
	struct ucm_event *event = ucm_event_new(id, valid ? UCM_EVENT_ESTABLISHED : UCM_EVENT_UNREACHABLE, rep->status);
	struct rdma_ucm_ud_param *ud;

	if (!event)
		return;
	ud = &event->resp.param.ud;
	memcpy(ud->private_data, rep->private_data, sizeof(rep->private_data));
	ud->private_data_len = sizeof(rep->private_data);
	if (valid) {
		id->qkey = rep->qkey;
		ud->qp_num = rep->qpn;
		ud->qkey = rep->qkey;
		ucm_ah_attr(id, &ud->ah_attr);
	}
	ucm_event_queue(event);
}

static void disconnected(struct ucm_id *id, int status)
{
	id->state = UCM_DISCONNECT;
	ucm_event_post(id, UCM_EVENT_DISCONNECTED, status);
}

static void told(wtime now, const struct cm_event *event, const struct control_msg *from)
{
	struct ucm_id *id = event->id->user;

	if (event->type == CM_EVENT_REQ || event->type == CM_EVENT_SIDR_REQ) {
		requested(now, event, from);
		return;
	}
	if (!id || (id->state != UCM_CONNECT && event->type != CM_EVENT_TIMEWAIT_EXIT))
		return;
	switch (event->type) {
	case CM_EVENT_REP:
		post_conn(id, UCM_EVENT_CONNECT_RESPONSE, 0, event->msg.rep.private_data, sizeof(event->msg.rep.private_data),
			  &event->msg);
		break;
	case CM_EVENT_RTU:
		post_conn(id, UCM_EVENT_ESTABLISHED, 0, NULL, 0, NULL);
		break;
	case CM_EVENT_REJ:
		post_conn(id, UCM_EVENT_REJECTED, event->msg.rej.reason, event->msg.rej.private_data,
			  sizeof(event->msg.rej.private_data), NULL);
		break;
	case CM_EVENT_DREQ:
	case CM_EVENT_DREP:
		disconnected(id, 0);
		break;
	case CM_EVENT_DREQ_LOST:
		disconnected(id, -ETIMEDOUT);
		break;
	case CM_EVENT_UNREACHABLE:
		ucm_event_post(id, UCM_EVENT_UNREACHABLE, -ETIMEDOUT);
		break;
	case CM_EVENT_TIMEWAIT_EXIT:
		if (id->state == UCM_DISCONNECT)
			ucm_event_post(id, UCM_EVENT_TIMEWAIT_EXIT, 0);
		break;
	case CM_EVENT_SIDR_REP:
		sidr_answered(id, &event->msg.sidr_rep);
		break;
	default:
		break;
	}
}

/* ---- the host's call-backs, in its helper thread ---- */

static void mad_arrived(void *cm, wtime now, const struct control_msg *msg)
{
	struct cm_event event;
	bool has_event;

	(void)cm;
	ucm_lock();
	if (!ucm.host || msg->device >= CA_DEVICES) {
		ucm_unlock();
		return;
	}
	if (!msg->status)
		has_event = cm_input(&ucm.cm, now, (int)msg->device, msg->slot, msg->mad, sizeof(msg->mad), &event);
	else	/* a slow receiver is a lost message: it is repeated */
		has_event = msg->status != EAGAIN && cm_returned(&ucm.cm, now, msg->mad, sizeof(msg->mad), &event);
	if (has_event)
		told(now, &event, msg);
	ucm_unlock();
}

static void peer_gone(void *cm, wtime now, uint32_t slot)
{
	struct cm_event event;

	(void)cm;
	ucm_lock();
	while (ucm.host && cm_peer_gone(&ucm.cm, now, slot, &event))
		told(now, &event, NULL);
	ucm_unlock();
}

static wtime expire(void *cm, wtime now)
{
	struct cm_event event;
	wtime deadline = WTIME_NEVER;

	(void)cm;
	ucm_lock();
	if (ucm.host) {
		while (cm_expire(&ucm.cm, now, &event))
			told(now, &event, NULL);
		deadline = ucm.cm_deadline = cm_deadline(&ucm.cm);
	}
	ucm_unlock();
	return deadline;
}

int ucm_cm_open(struct host *host)
{
	struct cm_config config = { .slot = host_slot(host), .max_ids = UCM_MAX_IDS };
	struct ca *ca = host_ca(host);
	int error;

	for (int i = 0; i < CA_DEVICES; i++)
		config.ca_guid[i] = ca->dev[i].guid;
	if (getrandom(&config.seed, sizeof(config.seed), 0) != sizeof(config.seed))
		return -EIO;
	error = cm_init(&ucm.cm, &config);
	if (error)
		return error;
	ucm.cm_deadline = WTIME_NEVER;
	host_set_cm(host, &(struct host_cm){ .mad = mad_arrived, .peer_gone = peer_gone, .expire = expire });
	return 0;
}
