/* The ids: created by command or by an incoming request, named by small numbers that are given away again as late as
 * possible, ended with whatever the state of their conversation asks for. */
#include "abi/ucm/ucm_state.h"

#include "control/clock.h"

#include <errno.h>
#include <stdlib.h>

bool ucm_is_ud(const struct ucm_id *id)
{
	return id->qp_type == IBV_QPT_UD;
}

int ucm_id_find(const struct ucm_file *file, uint32_t number, struct ucm_id **id)
{
	struct ucm_id *found = table_get(&ucm.ids, number);

	if (!found)
		return -ENOENT;
	if (found->file != file)
		return -EINVAL;
	*id = found;
	return 0;
}

int ucm_id_lock(const struct ucm_file *file, uint32_t number, struct ucm_id **id)
{
	int error;

	ucm_lock();
	error = ucm_id_find(file, number, id);
	if (error)
		ucm_unlock_and_send();
	return error;
}

int ucm_id_create(struct ucm_id **created)
{
	struct ucm_id *id = calloc(1, sizeof(*id));
	int error;

	if (!id)
		return -ENOMEM;
	error = table_insert(&ucm.ids, id, &id->number);
	if (error) {
		free(id);
		return error;
	}
	id->refs = 1;
	id->device = UCM_NO_DEVICE;
	id->psn = (psn_t)rand_u64(&ucm.cm.rand) & PSN_MASK;
	list_init(&id->mcasts);
	*created = id;
	return 0;
}

void ucm_id_join(struct ucm_id *id, struct ucm_file *file)
{
	id->file = file;
	list_append(&file->ids, &id->of_file);
}

void ucm_id_get(struct ucm_id *id)
{
	id->refs++;
}

void ucm_id_put(struct ucm_id *id)
{
	if (--id->refs == 0)
		free(id);
}

uint32_t ucm_id_destroy(struct ucm_id *id)
{
	uint32_t reported;
	struct ucm_mcast *mcast;

	id->destroyed = true;
	table_remove(&ucm.ids, id->number);
	while ((mcast = list_first_entry(&id->mcasts, struct ucm_mcast, node)))
		ucm_mcast_leave(mcast);
	ucm_events_drop(id);
	list_remove(&id->of_file);
	id->file = NULL;
	if (id->cm)
		cm_id_destroy(id->cm, clock_now());
	id->cm = NULL;
	ucm_port_release(id);
	reported = id->events_reported;
	ucm_id_put(id);
	return reported;
}

static int qp_type_of(const struct rdma_ucm_create_id *in, uint8_t *qp_type)
{
	switch (in->ps) {
	case RDMA_PS_TCP:
		*qp_type = IBV_QPT_RC;
		return 0;
	case RDMA_PS_UDP:
	case RDMA_PS_IPOIB:
		*qp_type = IBV_QPT_UD;
		return 0;
	case RDMA_PS_IB:
		*qp_type = in->qp_type;
		return 0;
	default:
		return -EINVAL;
	}
}

int ucm_create_id(const struct ucm_call *call)
{
	const struct rdma_ucm_create_id *in = call->in;
	struct rdma_ucm_create_id_resp resp;
	struct ucm_id *id;
	uint8_t qp_type;
	int error;

	if (call->out_bytes < sizeof(resp))
		return -ENOSPC;
	error = qp_type_of(in, &qp_type);
	if (error)
		return error;
	ucm_lock();
	error = call->file->closed ? -EBADF : ucm_id_create(&id);
	if (error)
		goto unlock;
	id->uid = in->uid;
	id->ps = in->ps;
	id->qp_type = qp_type;
	resp.id = id->number;
	error = ucm_copy_out(in->response, &resp, sizeof(resp));
	ucm_id_join(id, call->file);
	if (error)
		ucm_id_destroy(id);
unlock:
	ucm_unlock_and_send();
	return error;
}

int ucm_destroy_id(const struct ucm_call *call)
{
	const struct rdma_ucm_destroy_id *in = call->in;
	struct rdma_ucm_destroy_id_resp resp;
	struct ucm_id *id;
	int error;

	if (call->out_bytes < sizeof(resp))
		return -ENOSPC;
	error = ucm_id_lock(call->file, in->id, &id);
	if (error)
		return error;
	resp.events_reported = ucm_id_destroy(id);
	error = ucm_copy_out(in->response, &resp, sizeof(resp));
	ucm_unlock_and_send();
	return error;
}
