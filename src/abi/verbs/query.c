/* What the adapter says about itself: device, port, GID and P_Key tables, the clock. */
#include "abi/verbs/object.h"

#include "control/clock.h"
#include "runtime/entry.h"

#include <endian.h>

enum {
	SUBNET_TIMEOUT = 18,	/* 4.096 us * 2^18, OpenSM's default */
	VL0_ONLY = 1,		/* VLCap */
};

ABI_EXPORT int ibv_query_device(struct ibv_context *context, struct ibv_device_attr *attr)
{
	int err = context_call(to_context(context), FAULT_query_device);

	if (err == 0)
		*attr = to_context(context)->dev->attr.orig_attr;
	return answer(err);
}

/* A program built against an older or a newer header has a struct of another size. */
static void copy_out(void *to, size_t room, const void *from, size_t bytes)
{
	memset(to, 0, room);
	memcpy(to, from, room < bytes ? room : bytes);
}

int query_device_ex(struct ibv_context *context, const struct ibv_query_device_ex_input *input, struct ibv_device_attr_ex *attr,
		    size_t bytes)
{
	int err = context_call(to_context(context), FAULT_query_device);

	if (err < 0)
		return -err;
	if (input && input->comp_mask)
		return EINVAL;
	if (bytes < sizeof(attr->orig_attr))
		return EINVAL;
	copy_out(attr, bytes, &to_context(context)->dev->attr, sizeof(*attr));
	return 0;
}

static void fill_port(const struct ca_device *dev, struct ibv_port_attr *attr)
{
	bool has_lids = device_has(dev, DEVICE_LIDS);

	*attr = (struct ibv_port_attr){
		.state = dev->port_state, .max_mtu = dev->max_mtu, .active_mtu = dev->active_mtu,
		.gid_tbl_len = CA_GIDS, .pkey_tbl_len = dev->pkeys, .max_msg_sz = MESSAGE_MAX_BYTES,
		.port_cap_flags = IBV_PORT_CM_SUP | (has_lids ? IBV_PORT_SYS_IMAGE_GUID_SUP | IBV_PORT_AUTO_MIGR_SUP : 0) |
				  (device_has(dev, DEVICE_IP_GIDS) ? IBV_PORT_IP_BASED_GIDS : 0),
		.lid = has_lids ? dev->lid : 0, .sm_lid = has_lids ? dev->sm_lid : 0, .lmc = has_lids ? dev->lmc : 0,
		.sm_sl = has_lids ? dev->sm_sl : 0, .max_vl_num = VL0_ONLY, .subnet_timeout = SUBNET_TIMEOUT,
		.active_width = dev->width, .active_speed = dev->speed, .phys_state = dev->phys_state,
		.link_layer = dev->protocol->link_layer,
		.flags = device_has(dev, DEVICE_GRH_REQUIRED) ? IBV_QPF_GRH_REQUIRED : 0,
	};
}

int query_port_ex(struct ibv_context *context, uint8_t port_num, struct ibv_port_attr *attr, size_t bytes)
{
	struct abi_context *ctx = to_context(context);
	int err = context_call(ctx, FAULT_query_port);
	const struct ca_device *port;
	struct ibv_port_attr full;

	if (err < 0)
		return -err;
	port = device_port(ctx->dev, port_num);
	if (!port)
		return EINVAL;
	runtime_enter(ctx->rt);
	fill_port(port, &full);
	runtime_leave(ctx->rt);
	copy_out(attr, bytes, &full, sizeof(full));
	return 0;
}

/* The struct behind this symbol ended before port_cap_flags2 (rdma-core 18). */
ABI_EXPORT int ibv_query_port(struct ibv_context *context, uint8_t port_num, struct _compat_ibv_port_attr *attr)
{
	return query_port_ex(context, port_num, (struct ibv_port_attr *)attr, offsetof(struct ibv_port_attr, port_cap_flags2));
}

static int gid_entry(struct abi_context *ctx, uint32_t port_num, uint32_t index, struct ibv_gid_entry *entry)
{
	const struct ca_device *port = device_port(ctx->dev, port_num);
	struct ca_gid gid;

	if (!port || index >= CA_GIDS)
		return EINVAL;
	runtime_enter(ctx->rt);
	gid = port->gid[index];
	runtime_leave(ctx->rt);
	if (!gid.valid)
		return ENODATA;
	*entry = (struct ibv_gid_entry){ .gid_index = index, .port_num = port_num, .gid_type = gid.type,
					 .ndev_ifindex = gid.ndev_ifindex };
	memcpy(entry->gid.raw, gid.raw, sizeof(gid.raw));
	return 0;
}

ABI_EXPORT int _ibv_query_gid_ex(struct ibv_context *context, uint32_t port_num, uint32_t gid_index, struct ibv_gid_entry *entry,
				 uint32_t flags, size_t entry_size)
{
	struct ibv_gid_entry full;
	int err;

	if (flags)
		return EINVAL;
	err = gid_entry(to_context(context), port_num, gid_index, &full);
	if (err == 0)
		copy_out(entry, entry_size, &full, sizeof(full));
	return err;
}

ABI_EXPORT ssize_t _ibv_query_gid_table(struct ibv_context *context, struct ibv_gid_entry *entries, size_t max_entries,
					uint32_t flags, size_t entry_size)
{
	struct ibv_gid_entry full;
	size_t n = 0;

	if (flags)
		return -EINVAL;
	for (uint32_t i = 0; i < to_context(context)->dev->ports * (uint32_t)CA_GIDS; i++) {
		if (gid_entry(to_context(context), CA_PORT + i / CA_GIDS, i % CA_GIDS, &full))
			continue;
		if (n == max_entries)
			return -EINVAL;
		copy_out((char *)entries + n++ * entry_size, entry_size, &full, sizeof(full));
	}
	return (ssize_t)n;
}

/* An empty entry reads as zeroes here. */
ABI_EXPORT int ibv_query_gid(struct ibv_context *context, uint8_t port_num, int index, union ibv_gid *gid)
{
	struct ibv_gid_entry entry = { 0 };
	int err = gid_entry(to_context(context), port_num, (uint32_t)index, &entry);

	if (err && err != ENODATA) {
		errno = err;
		return -1;
	}
	*gid = entry.gid;
	return 0;
}

/* As the kernel's sysfs spells the types: 0 for IB and RoCE v1, 1 for RoCE v2. */
ABI_EXPORT int ibv_query_gid_type(struct ibv_context *context, uint8_t port_num, unsigned int index, int *type);
int ibv_query_gid_type(struct ibv_context *context, uint8_t port_num, unsigned int index, int *type)
{
	struct ibv_gid_entry entry = { 0 };
	int err = gid_entry(to_context(context), port_num, index, &entry);

	if (err && err != ENODATA) {
		errno = err;
		return -1;
	}
	*type = entry.gid_type == IBV_GID_TYPE_ROCE_V2;
	return 0;
}

/* Programs of rdma-core 33 ask for it in the private node of that release. */
ABI_EXPORT __typeof__(ibv_query_gid_type) query_gid_type_33;
int query_gid_type_33(struct ibv_context *context, uint8_t port_num, unsigned int index, int *type)
{
	return ibv_query_gid_type(context, port_num, index, type);
}
__asm__(".symver query_gid_type_33,ibv_query_gid_type@IBVERBS_PRIVATE_33");

ABI_EXPORT int ibv_query_pkey(struct ibv_context *context, uint8_t port_num, int index, __be16 *pkey)
{
	const struct ca_device *port = device_port(to_context(context)->dev, port_num);

	if (!port || index < 0 || index >= port->pkeys) {
		errno = EINVAL;
		return -1;
	}
	*pkey = htobe16(port->pkey[index]);
	return 0;
}

ABI_EXPORT int ibv_get_pkey_index(struct ibv_context *context, uint8_t port_num, __be16 pkey)
{
	__be16 at;

	for (int i = 0; ibv_query_pkey(context, port_num, i, &at) == 0; i++)
		if (at == pkey)
			return i;
	return -1;
}

/* The clock that completions are stamped with. */
int query_rt_values(struct ibv_context *context, struct ibv_values_ex *values)
{
	wtime now = clock_now();

	if (values->comp_mask & ~(uint32_t)IBV_VALUES_MASK_RAW_CLOCK)
		return EINVAL;
	if (values->comp_mask & IBV_VALUES_MASK_RAW_CLOCK)
		values->raw_clock = (struct timespec){ .tv_sec = (time_t)(now / WTIME_S), .tv_nsec = (long)(now % WTIME_S) };
	return 0;
}
