/* What an id knows of itself: QUERY with its three options and the older QUERY_ROUTE. */
#include "abi/ucm/ucm_state.h"

#include <endian.h>
#include <errno.h>
#include <infiniband/sa.h>
#include <string.h>

enum { SELECT_EXACTLY = 2, REVERSIBLE = 1 };	/* IBA 15.2.5.16: PathRecord */

/* What librdmacm takes as "find the device by its GUID": our device numbers are not its indices. */
#define NO_INDEX UINT32_MAX

/* The device's own words on an id, in network order. */
struct device_facts {
	uint64_t node_guid;
	uint16_t pkey;
	uint8_t port_num;
};

static bool facts_of(const struct ucm_id *id, struct device_facts *facts)
{
	struct ca_device dev;

	if (id->device == UCM_NO_DEVICE)
		return false;
	ucm_device(id->device, &dev);
	facts->node_guid = htobe64(dev.guid);
	facts->pkey = htobe16(dev.pkey[0]);
	facts->port_num = dev.port_num;
	return true;
}

static void put_facts(const struct ucm_id *id, struct rdma_ucm_query_addr_resp *resp)
{
	struct device_facts facts;

	resp->ibdev_index = NO_INDEX;
	if (!facts_of(id, &facts))
		return;
	resp->node_guid = facts.node_guid;
	resp->port_num = facts.port_num;
	resp->pkey = facts.pkey;
}

static int reply(uint64_t response, const void *resp, size_t bytes, uint32_t out_bytes)
{
	return ucm_copy_out(response, resp, bytes < out_bytes ? bytes : out_bytes);
}

static int query_addr(const struct ucm_id *id, const struct ucm_call *call, uint64_t response)
{
	struct rdma_ucm_query_addr_resp resp = { 0 };

	if (call->out_bytes < offsetof(struct rdma_ucm_query_addr_resp, ibdev_index))
		return -ENOSPC;
	resp.src_size = (uint16_t)ucm_addr_bytes(&id->src);
	memcpy(&resp.src_addr, &id->src, resp.src_size);
	resp.dst_size = (uint16_t)ucm_addr_bytes(&id->dst);
	memcpy(&resp.dst_addr, &id->dst, resp.dst_size);
	put_facts(id, &resp);
	return reply(response, &resp, sizeof(resp), call->out_bytes);
}

static void put_gid(void *to, const struct ucm_id *id, const struct sockaddr_storage *addr, const uint8_t gid[16], uint16_t pkey)
{
	struct sockaddr_ib sib = { .sib_family = AF_IB, .sib_pkey = pkey };

	if (addr->ss_family == AF_IB) {
		memcpy(&sib, addr, sizeof(sib));
	} else {
		memcpy(&sib.sib_addr, gid, 16);
		sib.sib_sid = htobe64(ucm_addr_service(id, addr));
	}
	memcpy(to, &sib, sizeof(sib));
}

static int query_gid(const struct ucm_id *id, const struct ucm_call *call, uint64_t response)
{
	struct rdma_ucm_query_addr_resp resp = { 0 };

	if (call->out_bytes < offsetof(struct rdma_ucm_query_addr_resp, ibdev_index))
		return -ENOSPC;
	put_facts(id, &resp);
	resp.src_size = resp.dst_size = sizeof(struct sockaddr_ib);
	put_gid(&resp.src_addr, id, &id->src, id->sgid, resp.pkey);
	put_gid(&resp.dst_addr, id, &id->dst, id->dgid, resp.pkey);
	return reply(response, &resp, sizeof(resp), call->out_bytes);
}

/* Half of its ACK timeout, IBA 12.7.34; 0 where a path has none. */
static uint8_t life_of(const struct cm_path *path)
{
	return path->ack_timeout ? path->ack_timeout - 1 : 0;
}

static void put_path_record(struct ibv_path_record *record, const struct ucm_id *id, const struct cm_path *path)
{
	*record = (struct ibv_path_record){
		.service_id = htobe64(ucm_addr_service(id, &id->dst)),
		.dlid = htobe16(path->dlid), .slid = htobe16(path->slid),
		.flowlabel_hoplimit = htobe32(path->flow_label << 8 | path->hop_limit),
		.tclass = path->tclass,
		.reversible_numpath = IBV_PATH_RECORD_REVERSIBLE | 1,
		.pkey = htobe16(path->pkey),
		.qosclass_sl = htobe16(path->sl),
		.mtu = SELECT_EXACTLY << 6 | path->mtu,
		.rate = SELECT_EXACTLY << 6 | path->rate,
		.packetlifetime = (uint8_t)(SELECT_EXACTLY << 6 | life_of(path)),
	};
	memcpy(record->dgid.raw, path->dgid, 16);
	memcpy(record->sgid.raw, path->sgid, 16);
}

static int query_path(const struct ucm_id *id, const struct ucm_call *call, uint64_t response)
{
	struct {	/* struct rdma_ucm_query_path_resp with two paths */
		uint32_t num_paths, reserved;
		struct ibv_path_data data[2];
	} resp = { .num_paths = id->paths };
	size_t bytes = sizeof(struct rdma_ucm_query_path_resp);

	if (call->out_bytes < bytes)
		return -ENOSPC;
	for (uint32_t i = 0; i < id->paths && bytes + sizeof(resp.data[i]) <= call->out_bytes; i++) {
		resp.data[i].flags = IB_PATH_GMP | IB_PATH_PRIMARY | IB_PATH_BIDIRECTIONAL;	/* as Linux says of all */
		put_path_record(&resp.data[i].path, id, i ? &id->alternate : &id->path);
		bytes += sizeof(resp.data[i]);
	}
	return ucm_copy_out(response, &resp, bytes);
}

int ucm_query(const struct ucm_call *call)
{
	const struct rdma_ucm_query *in = call->in;
	struct ucm_id *id;
	int error = ucm_id_lock(call->file, in->id, &id);

	if (error)
		return error;
	switch (in->option) {
	case RDMA_USER_CM_QUERY_ADDR:
		error = query_addr(id, call, in->response);
		break;
	case RDMA_USER_CM_QUERY_PATH:
		error = query_path(id, call, in->response);
		break;
	case RDMA_USER_CM_QUERY_GID:
		error = query_gid(id, call, in->response);
		break;
	default:
		error = -ENOSYS;
	}
	ucm_unlock_and_send();
	return error;
}

static void put_user_path(struct ib_user_path_rec *to, const struct cm_path *path)
{
	*to = (struct ib_user_path_rec){
		.dlid = htobe16(path->dlid), .slid = htobe16(path->slid), .flow_label = htobe32(path->flow_label),
		.reversible = REVERSIBLE, .mtu = path->mtu, .pkey = htobe16(path->pkey), .hop_limit = path->hop_limit,
		.traffic_class = path->tclass, .numb_path = 1, .sl = path->sl, .mtu_selector = SELECT_EXACTLY,
		.rate_selector = SELECT_EXACTLY, .rate = path->rate, .packet_life_time_selector = SELECT_EXACTLY,
		.packet_life_time = life_of(path),
	};
	memcpy(to->dgid, path->dgid, 16);
	memcpy(to->sgid, path->sgid, 16);
}

static void fill_route(const struct ucm_id *id, struct rdma_ucm_query_route_resp *resp)
{
	struct device_facts facts;

	memcpy(&resp->src_addr, &id->src, sizeof(resp->src_addr));
	memcpy(&resp->dst_addr, &id->dst, sizeof(resp->dst_addr));
	resp->ibdev_index = NO_INDEX;
	if (!facts_of(id, &facts))
		return;
	resp->node_guid = facts.node_guid;
	resp->port_num = facts.port_num;
	resp->num_paths = id->paths;
	for (uint32_t i = 0; i < id->paths; i++)
		put_user_path(&resp->ib_route[i], i ? &id->alternate : &id->path);
	if (id->paths)
		return;
	memcpy(resp->ib_route[0].dgid, id->dgid, 16);
	memcpy(resp->ib_route[0].sgid, id->sgid, 16);
	resp->ib_route[0].pkey = facts.pkey;
}

int ucm_query_route(const struct ucm_call *call)
{
	const struct rdma_ucm_query *in = call->in;
	struct rdma_ucm_query_route_resp resp = { 0 };
	struct ucm_id *id;
	int error;

	if (call->out_bytes < offsetof(struct rdma_ucm_query_route_resp, ibdev_index))
		return -ENOSPC;
	error = ucm_id_lock(call->file, in->id, &id);
	if (error)
		return error;
	fill_route(id, &resp);
	error = reply(in->response, &resp, sizeof(resp), call->out_bytes);
	ucm_unlock_and_send();
	return error;
}
