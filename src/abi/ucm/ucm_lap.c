/* A second path for the QP of a connection, where its peer wants one. The REQ may offer it (IBA 12.6.5): then the program's QP
 * gets it with the other attributes that connecting brings (ucm_qp.c). Or a LAP comes later (IBA 12.8): rdma_cm has no call for
 * either side of that, as Linux's has none, and the QP gets the path without its program's doing. It waits for the peer to be
 * armed. A program whose QP has gone over tells the conversation by rdma_notify. */
#include "abi/ucm/ucm_state.h"

#include "runtime/entry.h"
#include "runtime/runtime.h"
#include "verbs/qp.h"

#include <string.h>

static bool is_of(const struct qp *qp, const struct cm_id *cm)
{
	return qp && !qp_is_datagram(qp) && qp->dev->index == cm->path.device && qp->attr.dest_qp_num == cm->remote_qpn;
}

enum cm_apr_status ucm_own_end(const struct ca_device *dev, const struct cm_path *path, struct ibv_ah_attr *ah)
{
	uint16_t bits = (uint16_t)((1u << dev->lmc) - 1);
	int index = device_gid_index(dev, path->sgid);

	if (!device_has(dev, DEVICE_GRH_REQUIRED)) {
		ah->src_path_bits = (uint8_t)(path->slid & bits);
		return (path->slid & ~bits) == dev->lid ? CM_APR_SUCCESS : CM_APR_INVALID_LID;
	}
	ah->is_global = 1;
	ah->grh.sgid_index = (uint8_t)(index < 0 ? 0 : index);
	return index < 0 ? CM_APR_INVALID_GID : CM_APR_SUCCESS;
}

enum cm_apr_status ucm_load_path(struct ca *ca, const struct cm_id *cm, wtime now)
{
	const struct cm_path *path = &cm->alternate;
	struct ibv_qp_attr attr = {
		.path_mig_state = IBV_MIG_REARM, .alt_timeout = path->ack_timeout,
		.alt_ah_attr = { .sl = path->sl, .dlid = path->dlid, .grh = {
			.flow_label = path->flow_label, .hop_limit = path->hop_limit, .traffic_class = path->tclass } },
	};
	struct qp *qp = qp_find(ca, cm->local_qpn);
	enum cm_apr_status status;
	int mask = IBV_QP_ALT_PATH;

	if (!is_of(qp, cm))
		return CM_APR_REJECT;
	status = ucm_own_end(qp->dev, path, &attr.alt_ah_attr);
	if (status != CM_APR_SUCCESS)
		return status;
	attr.alt_port_num = attr.alt_ah_attr.port_num = qp->dev->port_num;
	memcpy(attr.alt_ah_attr.grh.dgid.raw, path->dgid, 16);
	attr.alt_pkey_index = qp->attr.pkey_index;
	if (qp->attr.path_mig_state == IBV_MIG_MIGRATED)
		mask |= IBV_QP_PATH_MIG_STATE;
	return qp_modify(qp, now, &attr, mask) < 0 ? CM_APR_REJECT : CM_APR_SUCCESS;
}

void ucm_answer_lap(struct cm_id *cm)
{
	wtime now = runtime_enter(ucm.rt);
	enum cm_apr_status status = ucm_load_path(runtime_ca(ucm.rt), cm, now);

	runtime_leave(ucm.rt);
	cm_apr(cm, (uint8_t)status, NULL, 0);
}
