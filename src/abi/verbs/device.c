/* Devices: the list, their names, opening, importing and closing a context. */
#include "abi/verbs/object.h"

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
	struct host *host;
	int n = 0;

	if (num_devices)
		*num_devices = 0;
	if (!list)
		return fail(-ENOMEM);
	host = host_get();
	for (int i = 0; host && i < host_ca(host)->devices; i++) {
		if (!host_device_visible(host, i))
			continue;
		pthread_mutex_lock(&naming);
		if (!devices[i].name[0])
			name_device(&devices[i], &host_ca(host)->dev[i], i);
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
	struct host *host = host_get();
	int i = index_of(device);

	return host && i >= 0 && i < host_ca(host)->devices ? htobe64(host_ca(host)->dev[i].guid) : 0;
}

ABI_EXPORT struct ibv_context *ibv_open_device(struct ibv_device *device)
{
	struct host *host = host_get();
	int i = index_of(device);
	struct abi_context *ctx;

	if (!host)
		return NULL;
	if (i < 0 || i >= host_ca(host)->devices)
		return fail(-ENODEV);
	ctx = context_create(host, device, &host_ca(host)->dev[i]);
	return ctx ? &ctx->vctx.context : NULL;
}
