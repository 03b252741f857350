/* Multicast: from an IP group to an MGID, joined through weftd, which knows the members and gives out MLIDs. The mapping is
 * Linux's: on RoCEv2 the address itself (IPv4 mapped), on InfiniBand IPoIB's (RFC 4391, 4) with rdma_cm's own signature. */
#include "abi/ucm/ucm_state.h"

#include "runtime/requests.h"
#include "wire/addr.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

bool ucm_addr_is_multicast(const struct sockaddr_storage *addr)
{
	switch (addr->ss_family) {
	case AF_INET:
		return IN_MULTICAST(ntohl(((const struct sockaddr_in *)addr)->sin_addr.s_addr));
	case AF_INET6:
		return IN6_IS_ADDR_MULTICAST(&((const struct sockaddr_in6 *)addr)->sin6_addr);
	case AF_IB:
		return ((const struct sockaddr_ib *)addr)->sib_addr.sib_raw[0] == 0xff;
	default:
		return false;
	}
}

static bool is_ib_mgid(const uint8_t a[16])
{
	return a[0] == 0xff && (a[1] & 0xf0) == 0x10 && a[2] == 0xa0 && a[3] == 0x1b;
}

static void mgid_ib(const struct ucm_id *id, const struct sockaddr_storage *addr, uint16_t pkey, uint8_t mgid[16])
{
	uint8_t raw[16], scope;

	ucm_addr_gid(addr, raw);
	memcpy(mgid, raw, 16);
	if (addr->ss_family == AF_IB || (addr->ss_family == AF_INET6 && is_ib_mgid(raw)))
		return;
	scope = addr->ss_family == AF_INET6 ? raw[1] & 15 : 2;	/* link-local, as IPoIB's broadcast group */
	memset(mgid, 0, 16);
	mgid[0] = 0xff;
	mgid[1] = 0x10 | scope;
	mgid[2] = addr->ss_family == AF_INET ? 0x40 : 0x60;	/* RFC 4391, 4: 0x401b, 0x601b */
	mgid[3] = id->ps == RDMA_PS_UDP ? 0x01 : 0x1b;		/* rdma_cm's signature: not IPoIB's own groups */
	mgid[4] = (uint8_t)(pkey >> 8);
	mgid[5] = (uint8_t)pkey;
	if (addr->ss_family == AF_INET) {
		memcpy(mgid + 12, raw + 12, 4);
		mgid[12] &= 15;
	} else {
		memcpy(mgid + 6, raw + 6, 10);
	}
}

void ucm_mgid(const struct ucm_id *id, const struct ca_device *dev, const struct sockaddr_storage *addr, uint8_t mgid[16])
{
	if (device_has(dev, DEVICE_LIDS))
		mgid_ib(id, addr, dev->pkey[0], mgid);
	else
		ucm_addr_gid(addr, mgid);
}

/* What a subnet administration says of a group counts; elsewhere the id's own Q_Key does. */
static struct ucm_event *joined_event(struct ucm_mcast *mcast, const struct ca_device *dev, const struct control_msg *group)
{
	struct ucm_id *id = mcast->id;
	struct ucm_event *event = ucm_event_new(id, UCM_EVENT_MULTICAST_JOIN, 0);
	struct rdma_ucm_ud_param *ud;
	int index = device_gid_index(dev, id->sgid);

	if (!event)
		return NULL;
	event->mcast = mcast;
	event->resp.uid = mcast->uid;
	event->resp.id = mcast->number;
	ud = &event->resp.param.ud;
	ud->qp_num = MULTICAST_QPN;
	ud->qkey = group->c;
	ud->ah_attr.is_global = 1;
	ud->ah_attr.port_num = dev->port_num;
	ud->ah_attr.dlid = (uint16_t)group->b;
	ud->ah_attr.sl = group->b >> 16 & 15;
	ud->ah_attr.grh.sgid_index = index < 0 ? 0 : (uint8_t)index;
	ud->ah_attr.grh.hop_limit = device_has(dev, DEVICE_IP_GIDS) ? 64 : 1;
	ud->ah_attr.grh.traffic_class = id->tos;
	memcpy(ud->ah_attr.grh.dgid, mcast->mgid, 16);
	return event;
}

static int mcast_create(struct ucm_id *id, uint64_t uid, uint32_t service, const uint8_t mgid[16], struct ucm_mcast **created)
{
	struct ucm_mcast *mcast;
	int error;

	if (id->mcast_count >= UCM_MAX_MCASTS_PER_ID)
		return -ENOMEM;
	mcast = calloc(1, sizeof(*mcast));
	if (!mcast)
		return -ENOMEM;
	error = table_insert(&ucm.mcasts, mcast, &mcast->number);
	if (error) {
		free(mcast);
		return error;
	}
	mcast->id = id;
	mcast->uid = uid;
	mcast->device = id->device;
	mcast->service = service;
	memcpy(mcast->mgid, mgid, 16);
	list_append(&id->mcasts, &mcast->node);
	id->mcast_count++;
	*created = mcast;
	return 0;
}

static struct control_msg membership(int device, uint32_t service, const uint8_t mgid[16], bool joins)
{
	struct control_msg msg = { .type = CTL_MCAST, .device = (uint32_t)device, .a = joins, .service = service };

	memcpy(msg.gid, mgid, 16);
	return msg;
}

void ucm_mcast_leave(struct ucm_mcast *mcast)
{
	struct control_msg msg = membership(mcast->device, mcast->service, mcast->mgid, false);

	ucm_post(&msg);
	if (mcast->id->file)
		ucm_events_drop_mcast(mcast);
	table_remove(&ucm.mcasts, mcast->number);
	list_remove(&mcast->node);
	mcast->id->mcast_count--;
	free(mcast);
}

/* Asks weftd, the lock given up meanwhile. On success the id is still there. */
static int ask(struct ucm_id *id, uint32_t service, const uint8_t mgid[16], struct control_msg *group)
{
	struct control_msg msg = membership(id->device, service, mgid, true);
	int error;

	msg.c = ucm_qkey(id);
	ucm_unlock_and_send();
	error = runtime_request(ucm.rt, &msg);
	ucm_lock();
	if (error)
		return error;
	*group = msg;
	if (!id->destroyed)
		return 0;
	msg = membership((int)msg.device, service, mgid, false);
	ucm_post(&msg);
	return -EINVAL;
}

/* In place of the any-address, for which Linux has the subnet administration make a group: one that nobody else has. Its MGID,
 * taken for an IPv6 address, stands for itself, so that others join by what the event says. */
static void choose_group(struct sockaddr_storage *addr)
{
	struct sockaddr_in6 group = { .sin6_family = AF_INET6 };
	uint64_t random[2] = { rand_u64(&ucm.cm.rand), rand_u64(&ucm.cm.rand) };

	memcpy(&group.sin6_addr, random, sizeof(random));
	group.sin6_addr.s6_addr[0] = 0xff;
	group.sin6_addr.s6_addr[1] = 0x12;	/* RFC 4291, 2.7: transient, link-local */
	memcpy(addr, &group, sizeof(group));
}

static int join_now(struct ucm_id *id, const struct rdma_ucm_join_mcast *in, struct sockaddr_storage *addr)
{
	const uint32_t service = in->join_flags == RDMA_MC_JOIN_FLAG_SENDONLY_FULLMEMBER ? MCAST_SENDS : MCAST_OF_PORT;
	struct ucm_device devices[CA_DEVICES];
	const struct ca_device *dev;
	struct rdma_ucm_create_id_resp resp;
	struct ucm_mcast *mcast;
	struct ucm_event *event;
	struct control_msg group;
	uint8_t mgid[16];
	int error;

	if (!ucm_is_ud(id) || (id->state != UCM_ADDR_BOUND && id->state != UCM_ADDR_RESOLVED) || id->device == UCM_NO_DEVICE ||
	    !(ucm_addr_is_multicast(addr) || ucm_addr_is_any(addr)))
		return -EINVAL;
	if (ucm_addr_is_any(addr))
		choose_group(addr);
	ucm_devices(devices);
	dev = &devices[id->device].dev;
	ucm_mgid(id, dev, addr, mgid);
	error = ask(id, service, mgid, &group);
	if (error)
		return error;
	error = mcast_create(id, in->uid, service, mgid, &mcast);
	if (error) {
		struct control_msg msg = membership(id->device, service, mgid, false);

		ucm_post(&msg);
		return error;
	}
	resp.id = mcast->number;
	error = ucm_copy_out(in->response, &resp, sizeof(resp));
	if (error)
		goto leave;
	event = joined_event(mcast, dev, &group);
	error = -ENOMEM;
	if (!event)
		goto leave;
	ucm_event_queue(event);
	return 0;

leave:
	ucm_mcast_leave(mcast);
	return error;
}

static int join(const struct ucm_call *call, const struct rdma_ucm_join_mcast *in)
{
	struct sockaddr_storage addr;
	struct ucm_id *id;
	int error;

	if (call->out_bytes < sizeof(struct rdma_ucm_create_id_resp))
		return -ENOSPC;
	memcpy(&addr, &in->addr, sizeof(addr));
	if (!in->addr_size || in->addr_size != ucm_addr_bytes(&addr) || in->join_flags >= RDMA_MC_JOIN_FLAG_RESERVED)
		return -EINVAL;
	error = ucm_id_lock(call->file, in->id, &id);
	if (error)
		return error;
	ucm_id_get(id);
	error = join_now(id, in, &addr);
	ucm_id_put(id);
	ucm_unlock_and_send();
	return error;
}

int ucm_join_mcast(const struct ucm_call *call)
{
	return join(call, call->in);
}

int ucm_join_ip_mcast(const struct ucm_call *call)
{
	const struct rdma_ucm_join_ip_mcast *in = call->in;
	struct rdma_ucm_join_mcast full = { .response = in->response, .uid = in->uid, .id = in->id,
					    .join_flags = RDMA_MC_JOIN_FLAG_FULLMEMBER };

	memcpy(&full.addr, &in->addr, sizeof(in->addr));
	full.addr_size = in->addr.sin6_family == AF_INET ? sizeof(struct sockaddr_in) : sizeof(in->addr);
	return join(call, &full);
}

int ucm_leave_mcast(const struct ucm_call *call)
{
	const struct rdma_ucm_destroy_id *in = call->in;
	struct rdma_ucm_destroy_id_resp resp;
	struct ucm_mcast *mcast;
	int error = -ENOENT;

	if (call->out_bytes < sizeof(resp))
		return -ENOSPC;
	ucm_lock();
	mcast = table_get(&ucm.mcasts, in->id);
	if (!mcast)
		goto unlock;
	error = -EINVAL;
	if (mcast->id->file != call->file)
		goto unlock;
	resp.events_reported = mcast->events_reported;
	ucm_mcast_leave(mcast);
	error = ucm_copy_out(in->response, &resp, sizeof(resp));
unlock:
	ucm_unlock_and_send();
	return error;
}
