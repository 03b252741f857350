/* The engine's consumer: what comes to QP1 for the communication manager becomes events of ids, what the engine wants to say
 * goes to QP1 of its peer's port once the lock is given up. Which events a user sees, with what status and private data, is as
 * Linux's rdma_cm tells them. */
#include "abi/ucm/ucm_state.h"

#include "runtime/cm.h"
#include "runtime/requests.h"
#include "runtime/runtime.h"
#include "wire/addr.h"

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

static void send_posts(struct runtime *rt, struct list *posts)
{
	struct list_node *n;

	while ((n = list_pop(posts))) {
		struct post *post = container_of(n, struct post, node);

		runtime_post(rt, &post->msg);
		free(post);
	}
}

static bool deadline_moved(void)
{
	wtime deadline = cm_deadline(&ucm.cm);

	if (deadline >= ucm.cm_deadline)
		return false;
	ucm.cm_deadline = deadline;
	return true;
}

void ucm_unlock_and_send(void)
{
	enum { BATCH = 8 };		/* our choice: what is reasonable on a stack */
	struct gmp batch[BATCH];
	struct runtime *rt = ucm.rt;
	bool moved = rt && deadline_moved();
	struct list posts;
	int n;

	do {
		list_init(&posts);
		if (rt)
			list_splice(&posts, &ucm.posts);
		for (n = 0; rt && n < BATCH && cm_output(&ucm.cm, &batch[n]);)
			n++;
		pthread_mutex_unlock(&ucm.lock);
		send_posts(rt, &posts);
		for (int i = 0; i < n; i++)
			runtime_send_gmp(rt, &batch[i]);
		if (n == BATCH)
			pthread_mutex_lock(&ucm.lock);
	} while (n == BATCH);
	if (moved)
		runtime_cm_kick(rt);
}

/* ---- requests ---- */

struct request {
	struct cm_id *cm;
	const uint8_t *private_data;
	uint32_t private_bytes;
	struct cma_header header;
	bool has_header;
};

static bool qp_types_match(const struct ucm_id *listener, const struct cm_id *cm)
{
	return !listener->qp_type || listener->qp_type == cm->qp_type;
}

static void header_gid(const struct request *request, const uint8_t address[16], uint8_t gid[16])
{
	if (request->header.ip_version == 4)
		gid_from_ipv4(gid, address + 12);
	else
		memcpy(gid, address, 16);
}

/* What rdma_cm's header says was asked for. Of another host it must be where the packet came: no stranger reaches who listens at
 * a loop-back address, nor at another one than he can send to. In a fabric it is not the address of another host. */
static bool asks_for_its_way(const struct request *request)
{
	uint8_t asked[16], gid[16];

	header_gid(request, request->header.destination, asked);
	if (request->cm->peer_is_here)
		return runtime_find_address(ucm.rt, asked, gid) < NODE_OTHERS;
	return memcmp(asked, request->cm->to.sgid, 16) == 0;
}

/* Is this what the listener was bound to? An IPv6 wildcard takes IPv4 too unless it is AFONLY. */
static bool address_matches(const struct ucm_id *listener, const struct request *request)
{
	const struct sockaddr_storage *src = &listener->src;
	uint8_t bound[16];

	if (src->ss_family == AF_IB)
		return true;
	if (!request->has_header || !asks_for_its_way(request))
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

/* The GIDs of a datagram's ends are in no message: they are those of the packet, and the address that was asked for is ours. */
static int set_sidr_path(struct cm_id *cm, const struct request *request, const struct ucm_device *devices)
{
	struct sockaddr_storage dst = { 0 };
	int device = cm->path.device;

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
	id->alternate = cm->alternate;
	id->paths = cm->alternate_is == CM_ALTERNATE_OFFERED ? 2 : 1;
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
	ucm_request_queued(event);
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

uint32_t ucm_requester(const struct cm_id *cm)
{
	if (cm->peer_is_here)
		return CM_ID_SLOT(cm->remote_id);
	return PAGE_SLOTS + (uint32_t)(siphash(&ucm.key, cm->to.dgid, 16) % UCM_STRANGERS);
}

/* Of other hosts each leaves as much room as it takes, at its listener and in all, but for the few that anybody may have. */
static bool may_queue(const struct ucm_id *listener, const struct cm_id *cm)
{
	uint32_t queued = ucm.unreported[ucm_requester(cm)], room = ucm.max_backlog - ucm.unreported[UCM_ALL_STRANGERS];

	if (!listener->backlog)
		return false;
	if (cm->peer_is_here)
		return queued < ucm.max_backlog;
	if (listener->backlog < room)
		room = listener->backlog;
	return room && (queued < room || queued < UCM_STRANGERS_FEW);
}

/* Packets of a connection with another host go where its MADs come from: nobody turns them on a third host. */
static bool leads_back(const struct cm_id *cm)
{
	return cm->peer_is_here || (memcmp(cm->path.dgid, cm->to.dgid, 16) == 0 && memcmp(cm->path.sgid, cm->to.sgid, 16) == 0);
}

/* The program sees where the header says that it is from, and may admit by it: of another host that is where it comes from. */
static bool says_where_from(const struct ucm_id *listener, const struct request *request)
{
	uint8_t said[16], gid[16];

	if (listener->src.ss_family == AF_IB)
		return true;
	header_gid(request, request->header.source, said);
	if (request->cm->peer_is_here) {
		enum node_owner owner = runtime_find_address(ucm.rt, said, gid);

		return owner == NODE_ELSEWHERE ||
		       (owner != NODE_NOBODYS && !memcmp(gid, request->cm->to.dgid, sizeof(gid)));
	}
	return memcmp(said, request->cm->to.dgid, 16) == 0;
}

/* What a REQ offers beside its path must begin at an address of ours. 0, or why it is refused: Linux's rdma_cm does that, too. */
static uint16_t judge_alternate(const struct ca_device *dev, const struct cm_id *cm)
{
	struct ibv_ah_attr ah;

	if (cm->alternate_is != CM_ALTERNATE_OFFERED)
		return 0;
	switch (ucm_own_end(dev, &cm->alternate, &ah)) {
	case CM_APR_SUCCESS:
		return 0;
	case CM_APR_INVALID_LID:
		return CM_REJ_INVALID_ALT_LID;
	default:
		return CM_REJ_INVALID_ALT_GID;
	}
}

static void requested(wtime now, const struct cm_event *event)
{
	const struct cm_msg *msg = &event->msg;
	bool is_ud = event->type == CM_EVENT_SIDR_REQ;
	struct request request = { .cm = event->id,
				   .private_data = is_ud ? msg->sidr_req.private_data : msg->req.private_data,
				   .private_bytes = is_ud ? sizeof(msg->sidr_req.private_data) : sizeof(msg->req.private_data) };
	struct ucm_device devices[CA_DEVICES];
	struct ucm_id *listener;
	uint16_t reason;

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
	if (!leads_back(event->id) || !says_where_from(listener, &request) ||
	    device_gid_index(&devices[event->id->path.device].dev, event->id->path.sgid) < 0) {
		refuse(event->id, now, CM_REJ_INVALID_GID);
		return;
	}
	reason = judge_alternate(&devices[event->id->path.device].dev, event->id);
	if (!reason && cm_end_stale(event->id, now))
		reason = CM_REJ_STALE_CONNECTION;
	if (reason) {
		refuse(event->id, now, reason);
		return;
	}
	/* a full backlog is not a refusal: as in Linux the peer asks again */
	if (!may_queue(listener, event->id) || offer(listener, &request, msg))
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

static void told(wtime now, const struct cm_event *event)
{
	struct ucm_id *id = event->id->user;

	if (event->type == CM_EVENT_REQ || event->type == CM_EVENT_SIDR_REQ) {
		requested(now, event);
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
		if (!event->msg.rej.local_comm_id && event->msg.rej.reason == CM_REJ_INVALID_SERVICE_ID)
			runtime_tell_missing(ucm.rt);
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
	case CM_EVENT_LAP:
		ucm_answer_lap(event->id);
		break;
	case CM_EVENT_TIMEWAIT_EXIT:
		if (id->state == UCM_DISCONNECT)
			ucm_event_post(id, UCM_EVENT_TIMEWAIT_EXIT, 0);
		break;
	case CM_EVENT_SIDR_REP:
		if (event->msg.sidr_rep.status == CM_SIDR_UNSUPPORTED)
			runtime_tell_missing(ucm.rt);
		sidr_answered(id, &event->msg.sidr_rep);
		break;
	default:
		break;
	}
}

/* ---- the runtime's call-backs, in its helper thread ---- */

static void mad_arrived(void *cm, wtime now, const struct gmp *gmp)
{
	struct cm_event event;

	(void)cm;
	ucm_lock();
	if (ucm.rt && cm_input(&ucm.cm, now, gmp, &event))
		told(now, &event);
	ucm_unlock_and_send();
}

static void peer_gone(void *cm, wtime now, uint32_t slot)
{
	struct cm_event event;

	(void)cm;
	ucm_lock();
	if (ucm.rt)
		cm_peer_gone(&ucm.cm, slot);
	while (ucm.rt && cm_next_gone(&ucm.cm, now, &event))
		told(now, &event);
	ucm_unlock_and_send();
}

static wtime expire(void *cm, wtime now)
{
	struct cm_event event;
	wtime deadline = WTIME_NEVER;

	(void)cm;
	ucm_lock();
	if (ucm.rt) {
		while (cm_expire(&ucm.cm, now, &event))
			told(now, &event);
		deadline = ucm.cm_deadline = cm_deadline(&ucm.cm);
	}
	ucm_unlock_and_send();
	return deadline;
}

/* weftd ends it when this process has ended. */
static void noted(const struct cm_id *id, bool is_connected)
{
	struct control_msg msg = {
		.type = is_connected ? CTL_CONN : CTL_UNCONN, .a = id->local_id, .b = id->remote_id, .slot = id->local_qpn,
		.c = id->remote_qpn, .device = (uint32_t)id->path.device,
		.service = (uint64_t)id->path.pkey << CONN_PKEY | (uint64_t)id->path.ack_timeout << CONN_ACK_TIMEOUT |
			   (uint64_t)id->to.tclass << CONN_TCLASS | (uint64_t)id->to.hop_limit << CONN_HOP_LIMIT |
			   (id->to.flow_label & CONN_FLOW_LABEL),
	};

	memcpy(msg.gid, id->to.sgid, sizeof(msg.gid));
	memcpy(msg.dgid, id->to.dgid, sizeof(msg.dgid));
	ucm_post(&msg);
}

int ucm_cm_open(struct runtime *rt)
{
	struct cm_config config = { .slot = runtime_slot(rt), .max_ids = UCM_MAX_IDS, .note = noted };
	struct ca *ca = runtime_ca(rt);
	int error;

	for (int i = 0; i < ca->devices; i++)
		config.ca_guid[i] = ca->dev[i].guid;
	if (getrandom(&ucm.key, sizeof(ucm.key), 0) != sizeof(ucm.key))
		return -EIO;
	config.key = &ucm.key;
	error = cm_init(&ucm.cm, &config);
	if (error)
		return error;
	ucm.cm_deadline = WTIME_NEVER;
	runtime_set_cm(rt, &(struct runtime_cm){ .mad = mad_arrived, .peer_gone = peer_gone, .expire = expire });
	return 0;
}
