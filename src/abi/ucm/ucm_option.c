/* Options of an id. Linux has no GET_OPTION and neither has this. */
#include "abi/ucm/ucm_state.h"

#include <endian.h>
#include <errno.h>
#include <infiniband/sa.h>
#include <string.h>

static int set_reuseaddr(struct ucm_id *id, bool reuse)
{
	if (id->state != UCM_IDLE && (!reuse || id->state == UCM_LISTEN))
		return -EINVAL;
	id->reuseaddr = reuse;
	return 0;
}

static int set_afonly(struct ucm_id *id, bool afonly)
{
	if (id->state != UCM_IDLE && id->state != UCM_ADDR_BOUND)
		return -EINVAL;
	id->afonly = afonly;
	return 0;
}

static int set_ack_timeout(struct ucm_id *id, uint8_t timeout)
{
	if ((id->qp_type != IBV_QPT_RC && id->qp_type != IBV_QPT_XRC_SEND) || timeout > 31)
		return -EINVAL;
	id->ack_timeout = timeout;
	id->has_timeout = true;
	return 0;
}

static int set_of_id(struct ucm_id *id, uint32_t name, const void *value, uint32_t bytes)
{
	uint8_t byte = 0;
	int number = 0;

	if (bytes == sizeof(number))
		memcpy(&number, value, sizeof(number));
	else if (bytes == sizeof(byte))
		memcpy(&byte, value, sizeof(byte));
	switch (name) {
	case RDMA_OPTION_ID_TOS:
		if (bytes != sizeof(byte))
			return -EINVAL;
		id->tos = byte;
		return 0;
	case RDMA_OPTION_ID_REUSEADDR:
		return bytes == sizeof(number) ? set_reuseaddr(id, number != 0) : -EINVAL;
	case RDMA_OPTION_ID_AFONLY:
		return bytes == sizeof(number) ? set_afonly(id, number != 0) : -EINVAL;
	case RDMA_OPTION_ID_ACK_TIMEOUT:
		return bytes == sizeof(byte) ? set_ack_timeout(id, byte) : -EINVAL;
	default:
		return -ENOSYS;
	}
}

/* A path that the user asked some SA service for: it must be between the addresses that were resolved. */
static int set_path(struct ucm_id *id, const struct ibv_path_data *data, uint32_t bytes)
{
	const struct ibv_path_record *record;
	uint32_t count = bytes / sizeof(*data), i = 0;

	if (bytes % sizeof(*data))
		return -EINVAL;
	while (i < count && data[i].flags != (IB_PATH_GMP | IB_PATH_PRIMARY | IB_PATH_BIDIRECTIONAL))
		i++;
	if (i == count || id->state != UCM_ADDR_RESOLVED)
		return -EINVAL;
	record = &data[i].path;
	if (memcmp(record->dgid.raw, id->dgid, 16) || memcmp(record->sgid.raw, id->sgid, 16))
		return -EINVAL;
	id->path.sl = be16toh(record->qosclass_sl) & 15;
	id->path.tclass = record->tclass;
	id->path.flow_label = be32toh(record->flowlabel_hoplimit) >> 8 & 0xfffff;
	id->paths = 1;
	id->state = UCM_ROUTE_RESOLVED;
	return ucm_event_post(id, UCM_EVENT_ROUTE_RESOLVED, 0);
}

int ucm_set_option(const struct ucm_call *call)
{
	const struct rdma_ucm_set_option *in = call->in;
	struct ibv_path_data value[UCM_MAX_OPTION / sizeof(struct ibv_path_data)] = { 0 };
	struct ucm_id *id;
	int error;

	if (in->optlen > sizeof(value))
		return -EINVAL;
	error = ucm_id_lock(call->file, in->id, &id);
	if (error)
		return error;
	error = ucm_copy_in(value, in->optval, in->optlen);
	if (error)
		goto unlock;
	if (in->level == RDMA_OPTION_ID)
		error = set_of_id(id, in->optname, value, in->optlen);
	else if (in->level == RDMA_OPTION_IB && in->optname == RDMA_OPTION_IB_PATH)
		error = set_path(id, value, in->optlen);
	else
		error = -ENOSYS;
unlock:
	ucm_unlock_and_send();
	return error;
}

int ucm_get_option(const struct ucm_call *call)
{
	(void)call;
	return -ENOSYS;
}
