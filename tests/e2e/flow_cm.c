#include "flow_cm.h"

#include <arpa/inet.h>
#include <errno.h>
#include <infiniband/sa.h>
#include <rdma/rdma_cma.h>
#include <string.h>

enum { PORT = 7471, PATIENCE_MS = 2000 };

/* The next event, which must be this one; its id, or NULL. */
static struct rdma_cm_id *expect(struct flow_cm *cm, enum rdma_cm_event_type type)
{
	struct rdma_cm_event *event;
	struct rdma_cm_id *id = NULL;

	if (rdma_get_cm_event(cm->channel, &event))
		return NULL;
	if (event->event == type)
		id = event->id;
	else
		errno = event->status < 0 ? -event->status : EPROTO;
	rdma_ack_cm_event(event);
	return id;
}

static int to_state(struct flow_cm *cm, struct ibv_qp *qp, enum ibv_qp_state state)
{
	struct ibv_qp_attr attr = { .qp_state = state };
	int mask;

	if (rdma_init_qp_attr(cm->id, &attr, &mask))
		return -1;
	if (state == IBV_QPS_RTR)
		attr.min_rnr_timer = 12;
	errno = ibv_modify_qp(qp, &attr, mask);
	return errno ? -1 : 0;
}

static int ready(struct flow_cm *cm, struct ibv_qp *qp)
{
	return to_state(cm, qp, IBV_QPS_RTR) || to_state(cm, qp, IBV_QPS_RTS) ? -1 : 0;
}

static int serve(struct flow_cm *cm, struct ibv_qp *qp)
{
	struct sockaddr_in any = { .sin_family = AF_INET, .sin_port = htons(PORT) };
	struct rdma_conn_param param = { .qp_num = qp->qp_num, .responder_resources = 4, .initiator_depth = 4,
					 .rnr_retry_count = 7 };

	if (rdma_create_id(cm->channel, &cm->listener, NULL, RDMA_PS_TCP) ||
	    rdma_bind_addr(cm->listener, (struct sockaddr *)&any) || rdma_listen(cm->listener, 1))
		return -1;
	cm->id = expect(cm, RDMA_CM_EVENT_CONNECT_REQUEST);
	if (!cm->id || rdma_set_option(cm->id, RDMA_OPTION_ID, RDMA_OPTION_ID_ACK_TIMEOUT, &cm->ack_timeout, 1) ||
	    to_state(cm, qp, IBV_QPS_INIT) || ready(cm, qp) || rdma_accept(cm->id, &param))
		return -1;
	return expect(cm, RDMA_CM_EVENT_ESTABLISHED) ? 0 : -1;
}

static int set_paths(struct flow_cm *cm)
{
	struct ibv_path_data data[2] = {
		{ .flags = IBV_PATH_FLAG_GMP | IBV_PATH_FLAG_PRIMARY | IBV_PATH_FLAG_BIDIRECTIONAL },
		{ .flags = IBV_PATH_FLAG_ALTERNATE | IBV_PATH_FLAG_BIDIRECTIONAL },
	};

	data[0].path.sgid = cm->id->route.addr.addr.ibaddr.sgid;
	data[0].path.dgid = cm->id->route.addr.addr.ibaddr.dgid;
	data[1].path.sgid = cm->alternate[0];
	data[1].path.dgid = cm->alternate[1];
	for (int i = 0; i < 2; i++)
		data[i].path.flowlabel_hoplimit = htobe32(64);
	return rdma_set_option(cm->id, RDMA_OPTION_IB, RDMA_OPTION_IB_PATH, data, sizeof(data));
}

static int ask(struct flow_cm *cm, struct ibv_qp *qp)
{
	struct sockaddr_in to = { .sin_family = AF_INET, .sin_port = htons(PORT) };
	struct rdma_conn_param param = { .qp_num = qp->qp_num, .responder_resources = 4, .initiator_depth = 4,
					 .retry_count = 7, .rnr_retry_count = 7 };

	if (inet_pton(AF_INET, cm->server, &to.sin_addr) != 1 || rdma_create_id(cm->channel, &cm->id, NULL, RDMA_PS_TCP) ||
	    rdma_resolve_addr(cm->id, NULL, (struct sockaddr *)&to, PATIENCE_MS) || !expect(cm, RDMA_CM_EVENT_ADDR_RESOLVED) ||
	    rdma_set_option(cm->id, RDMA_OPTION_ID, RDMA_OPTION_ID_ACK_TIMEOUT, &cm->ack_timeout, 1) ||
	    set_paths(cm) || !expect(cm, RDMA_CM_EVENT_ROUTE_RESOLVED) || rdma_connect(cm->id, &param) ||
	    !expect(cm, RDMA_CM_EVENT_CONNECT_RESPONSE))
		return -1;
	return to_state(cm, qp, IBV_QPS_INIT) || ready(cm, qp) || rdma_establish(cm->id) ? -1 : 0;
}

int flow_cm_connect(struct flow_cm *cm, struct ibv_qp *qp)
{
	cm->channel = rdma_create_event_channel();
	if (!cm->channel)
		return -1;
	return cm->is_server ? serve(cm, qp) : ask(cm, qp);
}

int flow_cm_migrated(struct flow_cm *cm)
{
	return rdma_notify(cm->id, IBV_EVENT_PATH_MIG);
}

int flow_cm_part(struct flow_cm *cm)
{
	if (rdma_disconnect(cm->id) || !expect(cm, RDMA_CM_EVENT_DISCONNECTED))
		return -1;
	rdma_disconnect(cm->id);
	rdma_destroy_id(cm->id);
	if (cm->listener)
		rdma_destroy_id(cm->listener);
	rdma_destroy_event_channel(cm->channel);
	return 0;
}
