/* Devices: the list, their names, opening, importing and closing a context. */
#include "abi/verbs/object.h"
#include "runtime/runtime.h"

#include <endian.h>
#include <stdio.h>
#include <stdlib.h>

static struct ibv_device devices[CA_DEVICES];	/* as the program sees them; they outlive every list */
static pthread_mutex_t naming = PTHREAD_MUTEX_INITIALIZER;

static void name_device(struct ibv_device *d, const struct ca_device *dev, int index)
{
	d->node_type = IBV_NODE_CA;
	d->transport_type = IBV_TRANSPORT_IB;
	snprintf(d->name, sizeof(d->name), "%s", dev->name);
	snprintf(d->dev_name, sizeof(d->dev_name), "uverbs%d", index);
	snprintf(d->dev_path, sizeof(d->dev_path), "%s/class/infiniband_verbs/%s", ibv_get_sysfs_path(), d->dev_name);
	snprintf(d->ibdev_path, sizeof(d->ibdev_path), "%s/class/infiniband/%s", ibv_get_sysfs_path(), d->name);
}

/* A process without a daemon has no devices, which is no error. */
ABI_EXPORT struct ibv_device **ibv_get_device_list(int *num_devices)
{
	struct ibv_device **list = calloc(CA_DEVICES + 1, sizeof(*list));
	struct runtime *rt;
	int n = 0;

	if (num_devices)
		*num_devices = 0;
	if (!list)
		return fail(-ENOMEM);
	rt = runtime_get();
	for (int i = 0; rt && i < runtime_ca(rt)->devices; i++) {
		if (!runtime_device_visible(rt, i) || runtime_ca(rt)->dev[i].port_num != CA_PORT)
			continue;
		pthread_mutex_lock(&naming);
		if (!devices[i].name[0])
			name_device(&devices[i], &runtime_ca(rt)->dev[i], i);
		pthread_mutex_unlock(&naming);
		list[n++] = &devices[i];
	}
	if (num_devices)
		*num_devices = n;
	return list;
}

ABI_EXPORT void ibv_free_device_list(struct ibv_device **list)
{
	free(list);
}

ABI_EXPORT const char *ibv_get_device_name(struct ibv_device *device)
{
	return device->name;
}

/* Which of ours it is, or -1: Debian's providers may bring devices of their own. */
static int index_of(const struct ibv_device *device)
{
	return device >= devices && device < devices + CA_DEVICES ? (int)(device - devices) : -1;
}

ABI_EXPORT int ibv_get_device_index(struct ibv_device *device)
{
	return index_of(device);
}

ABI_EXPORT __be64 ibv_get_device_guid(struct ibv_device *device)
{
	struct runtime *rt = runtime_get();
	int i = index_of(device);

	return rt && i >= 0 && i < runtime_ca(rt)->devices ? htobe64(runtime_ca(rt)->dev[i].guid) : 0;
}

ABI_EXPORT struct ibv_context *ibv_open_device(struct ibv_device *device)
{
	struct runtime *rt = runtime_get();
	int i = index_of(device);
	struct abi_context *ctx;
	int err;

	if (!rt)
		return NULL;
	if (i < 0 || i >= runtime_ca(rt)->devices)
		return fail(-ENODEV);
	err = runtime_call(rt, &runtime_ca(rt)->dev[i], FAULT_open_device, NULL);
	if (err < 0)
		return fail(err);
	ctx = context_create(rt, device, &runtime_ca(rt)->dev[i]);
	return ctx ? &ctx->vctx.context : NULL;
}
