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
	id->afonly_is_set = true;
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

static const struct ibv_path_record *record_of(const struct ibv_path_data *data, uint32_t count, uint32_t flags)
{
	for (uint32_t i = 0; i < count; i++)
		if (data[i].flags == flags)
			return &data[i].path;
	return NULL;
}

static void take_record(struct cm_path *path, const struct ibv_path_record *record)
{
	path->sl = be16toh(record->qosclass_sl) & 15;
	path->tclass = record->tclass;
	path->flow_label = be32toh(record->flowlabel_hoplimit) >> 8 & 0xfffff;
}

/* To another host of a fabric, as ucm_route_find() would have found it. */
static int take_way(struct ucm_id *id, const struct ibv_path_record *record)
{
	uint8_t mtu = record->mtu & 0x3f;

	if (!record->dlid || mtu < IBV_MTU_256 || mtu > IBV_MTU_4096)
		return -EINVAL;
	id->path.dlid = be16toh(record->dlid);
	id->path.slid = be16toh(record->slid);
	id->path.pkey = be16toh(record->pkey);
	id->path.mtu = mtu;
	id->path.rate = record->rate & 0x3f;
	id->path.ack_timeout = (uint8_t)((record->packetlifetime & 0x1f) + 1);
	return 0;
}

/* Between any two addresses, of which one is ours. */
static int set_alternate(struct ucm_id *id, const struct ibv_path_record *record)
{
	struct ucm_device devices[CA_DEVICES];
	struct ibv_ah_attr ah;

	ucm_devices(devices);
	id->alternate = id->path;
	take_record(&id->alternate, record);
	id->alternate.slid = be16toh(record->slid);
	id->alternate.dlid = be16toh(record->dlid);
	memcpy(id->alternate.sgid, record->sgid.raw, 16);
	memcpy(id->alternate.dgid, record->dgid.raw, 16);
	return ucm_own_end(&devices[id->device].dev, &id->alternate, &ah) == CM_APR_SUCCESS ? 0 : -EINVAL;
}

/* Paths that the user asked some SA service for: the primary one must be between the addresses that were resolved. Of the others
 * Linux takes none; here the first that is alternate is offered to the peer. */
static int set_path(struct ucm_id *id, const struct ibv_path_data *data, uint32_t bytes)
{
	uint32_t count = bytes / sizeof(*data);
	const struct ibv_path_record *record = record_of(data, count, IB_PATH_GMP | IB_PATH_PRIMARY | IB_PATH_BIDIRECTIONAL);
	const struct ibv_path_record *alternate = record_of(data, count, IB_PATH_ALTERNATE | IB_PATH_BIDIRECTIONAL);

	if (bytes % sizeof(*data) || !record || id->state != UCM_ADDR_RESOLVED)
		return -EINVAL;
	if (memcmp(record->dgid.raw, id->dgid, 16) || memcmp(record->sgid.raw, id->sgid, 16))
		return -EINVAL;
	take_record(&id->path, record);
	if (!id->path.dlid && take_way(id, record))
		return -EINVAL;
	if (alternate && set_alternate(id, alternate) < 0)
		return -EINVAL;
	id->paths = alternate ? 2 : 1;
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
