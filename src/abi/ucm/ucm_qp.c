/* INIT_QP_ATTR: which attributes a QP needs in INIT, RTR and RTS, from what the conversation agreed on. The masks are those of
 * Linux's ib_cm; which engine states allow them is one table. */
#include "abi/ucm/ucm_state.h"

#include <errno.h>
#include <string.h>

/* The engine's states in which both QP numbers and PSNs are known, or at least ours (INIT). */
static bool knows_peer(const struct cm_id *cm)
{
	switch (cm->state) {
	case CM_REQ_RECEIVED:
	case CM_REP_RECEIVED:
	case CM_REP_SENT:
	case CM_MRA_REP_RECEIVED:
	case CM_ESTABLISHED:
		return true;
	default:
		return false;
	}
}

static bool is_connecting(const struct cm_id *cm)
{
	return knows_peer(cm) || cm->state == CM_REQ_SENT || cm->state == CM_MRA_REQ_RECEIVED;
}

/* Constant. */
static uint8_t port_num(const struct ucm_id *id)
{
	return runtime_ca(ucm.rt)->dev[id->device].port_num;
}

static void ah_attr_of(const struct ucm_id *id, const struct cm_path *path, struct ib_uverbs_ah_attr *attr)
{
	struct ibv_ah_attr own = { 0 };
	struct ca_device dev;

	memset(attr, 0, sizeof(*attr));
	ucm_device(id->device, &dev);
	ucm_own_end(&dev, path, &own);	/* an address that is gone meanwhile is as the first */
	attr->port_num = dev.port_num;
	attr->sl = path->sl;
	attr->grh.sgid_index = own.grh.sgid_index;
	attr->src_path_bits = own.src_path_bits;
	if (!device_has(&dev, DEVICE_GRH_REQUIRED)) {	/* one subnet: the LID is the whole address */
		attr->dlid = path->dlid;
		return;
	}
	attr->is_global = 1;
	memcpy(attr->grh.dgid, path->dgid, 16);
	attr->grh.flow_label = path->flow_label;
	attr->grh.hop_limit = path->hop_limit;
	attr->grh.traffic_class = path->tclass;
}

void ucm_ah_attr(const struct ucm_id *id, struct ib_uverbs_ah_attr *attr)
{
	ah_attr_of(id, &id->path, attr);
}

bool ucm_has_alternate(const struct cm_id *cm)
{
	if (cm->alternate_is == CM_ALTERNATE_OFFERED)	/* the REP that accepts it comes when the QP has it */
		return cm->state == CM_REQ_RECEIVED;
	return cm->alternate_is == CM_ALTERNATE_AGREED;
}

/* Before there is a conversation, and for datagrams always: what any QP of this id starts with. */
static void attr_unconnected(const struct ucm_id *id, struct ib_uverbs_qp_attr *attr)
{
	attr->port_num = port_num(id);
	attr->qp_attr_mask = IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT;
	if (ucm_is_ud(id)) {
		attr->qkey = ucm_qkey(id);
		attr->qp_attr_mask |= IBV_QP_QKEY;
	} else {
		attr->qp_attr_mask |= IBV_QP_ACCESS_FLAGS;
	}
}

static int attr_init(const struct ucm_id *id, struct ib_uverbs_qp_attr *attr)
{
	if (!is_connecting(id->cm))
		return -EINVAL;
	attr->qp_attr_mask = IBV_QP_STATE | IBV_QP_ACCESS_FLAGS | IBV_QP_PKEY_INDEX | IBV_QP_PORT;
	attr->qp_access_flags = IBV_ACCESS_REMOTE_WRITE;
	if (id->cm->responder_resources)
		attr->qp_access_flags |= IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC;
	attr->port_num = port_num(id);
	return 0;
}

static int attr_rtr(const struct ucm_id *id, struct ib_uverbs_qp_attr *attr)
{
	const struct cm_id *cm = id->cm;

	if (!knows_peer(cm))
		return -EINVAL;
	attr->qp_attr_mask = IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN;
	ucm_ah_attr(id, &attr->ah_attr);
	attr->path_mtu = id->path.mtu;
	attr->dest_qp_num = cm->remote_qpn;
	attr->rq_psn = id->psn;
	if (cm->qp_type == IBV_QPT_RC || cm->qp_type == IBV_QPT_XRC_RECV) {
		attr->qp_attr_mask |= IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER;
		attr->max_dest_rd_atomic = cm->responder_resources;
	}
	if (ucm_has_alternate(cm)) {
		attr->qp_attr_mask |= IBV_QP_ALT_PATH;
		ah_attr_of(id, &cm->alternate, &attr->alt_ah_attr);
		attr->alt_port_num = port_num(id);
		attr->alt_timeout = cm->alternate.ack_timeout;
	}
	return 0;
}

static int attr_rts(const struct ucm_id *id, struct ib_uverbs_qp_attr *attr)
{
	const struct cm_id *cm = id->cm;
	bool is_requester = cm->qp_type == IBV_QPT_RC || cm->qp_type == IBV_QPT_XRC_SEND;

	if (!knows_peer(cm))
		return -EINVAL;
	attr->qp_attr_mask = IBV_QP_STATE | IBV_QP_SQ_PSN;
	attr->sq_psn = cm->sq_psn;
	if (is_requester) {
		attr->qp_attr_mask |= IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY | IBV_QP_MAX_QP_RD_ATOMIC;
		attr->retry_cnt = cm->retry_count;
		attr->rnr_retry = cm->rnr_retry_count;
		attr->max_rd_atomic = cm->initiator_depth;
	}
	if (is_requester || cm->qp_type == IBV_QPT_XRC_RECV) {
		attr->qp_attr_mask |= IBV_QP_TIMEOUT;
		attr->timeout = id->has_timeout ? id->ack_timeout : id->path.ack_timeout;
	}
	if (ucm_has_alternate(cm)) {
		attr->qp_attr_mask |= IBV_QP_PATH_MIG_STATE;
		attr->path_mig_state = IBV_MIG_REARM;
	}
	return 0;
}

static int fill(const struct ucm_id *id, uint32_t state, struct ib_uverbs_qp_attr *attr)
{
	if (id->device == UCM_NO_DEVICE)
		return -EINVAL;
	if (!id->cm || ucm_is_ud(id)) {
		attr_unconnected(id, attr);
		return 0;
	}
	switch (state) {
	case IBV_QPS_INIT:
		return attr_init(id, attr);
	case IBV_QPS_RTR:
		return attr_rtr(id, attr);
	case IBV_QPS_RTS:
		return attr_rts(id, attr);
	default:
		return -EINVAL;
	}
}

int ucm_init_qp_attr(const struct ucm_call *call)
{
	const struct rdma_ucm_init_qp_attr *in = call->in;
	struct ib_uverbs_qp_attr attr = { .qp_state = in->qp_state, .cur_qp_state = in->qp_state };
	struct ucm_id *id;
	int error;

	if (call->out_bytes < sizeof(attr))
		return -ENOSPC;
	if (in->qp_state > IBV_QPS_ERR)
		return -EINVAL;
	error = ucm_id_lock(call->file, in->id, &id);
	if (error)
		return error;
	error = fill(id, in->qp_state, &attr);
	if (!error)
		error = ucm_copy_out(in->response, &attr, sizeof(attr));
	ucm_unlock_and_send();
	return error;
}
