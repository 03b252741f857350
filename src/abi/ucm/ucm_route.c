/* From IP addresses to devices and GIDs. weft1's GIDs are the host's addresses (RoCEv2: the address itself, IPv4 mapped), and
 * other hosts are reached by weft1 as the kernel routes their addresses; loop-back addresses stand for the first GID of their
 * family. When the user only wants to see weft0, every address of this host is weft0's LID, as if it had an IPoIB interface with
 * all of them. In a fabric each host has an address of its own (fabric/host.h), is reached by weft0, and has none of these. */
#include "abi/ucm/ucm_state.h"
#include "runtime/entry.h"
#include "runtime/requests.h"
#include "runtime/runtime.h"

#include <errno.h>
#include <string.h>

enum {
	/* What Linux's rdma_cm takes for RoCE, which has no path records: 0.27 s. Kernels up to 6.1 took 18. */
	PATH_LIFE = 16,
	HOP_LIMIT = 64,
	RATE_100_GBPS = 16,		/* enum ibv_rate; our choice, nothing paces by it */
};

void ucm_devices(struct ucm_device devices[CA_DEVICES])
{
	struct ca *ca = runtime_ca(ucm.rt);

	memset(devices, 0, CA_DEVICES * sizeof(*devices));
	runtime_enter(ucm.rt);
	for (int i = 0; i < ca->devices && i < CA_DEVICES; i++) {
		devices[i].dev = ca->dev[i];
		devices[i].visible = runtime_device_visible(ucm.rt, i);
	}
	runtime_leave(ucm.rt);
}

void ucm_device(int device, struct ca_device *dev)
{
	runtime_enter(ucm.rt);
	*dev = runtime_ca(ucm.rt)->dev[device];
	runtime_leave(ucm.rt);
}

static bool is_mapped_ipv4(const uint8_t gid[16])
{
	return IN6_IS_ADDR_V4MAPPED((const struct in6_addr *)gid);
}

/* Does a connection of this family read well with this GID? */
static bool gid_fits(const struct ca_gid *gid, int family)
{
	if (!gid->valid)
		return false;
	if (family == AF_INET)
		return is_mapped_ipv4(gid->raw);
	if (family == AF_INET6)
		return !is_mapped_ipv4(gid->raw);
	return true;
}

static bool device_default(const struct ca_device *dev, int family, uint8_t gid[16])
{
	for (int i = 0; i < CA_GIDS; i++)
		if (gid_fits(&dev->gid[i], family)) {
			memcpy(gid, dev->gid[i].raw, 16);
			return true;
		}
	return false;
}

bool ucm_device_has_addresses(const struct ca_device *dev)
{
	return device_has(dev, DEVICE_IP_GIDS);
}

int ucm_route_default(const struct ucm_device *devices, int family, int *device, uint8_t gid[16])
{
	static const struct { bool has_addresses, fits; } tries[] = { { true, true }, { true, false }, { false, false } };

	for (int t = 0; t < 3; t++) {
		for (int i = 0; i < CA_DEVICES; i++) {
			if (!devices[i].visible || ucm_device_has_addresses(&devices[i].dev) != tries[t].has_addresses ||
			    !device_default(&devices[i].dev, tries[t].fits ? family : 0, gid))
				continue;
			*device = i;
			return 0;
		}
	}
	return -ENODEV;
}

static bool is_loopback(int family, const uint8_t gid[16])
{
	if (is_mapped_ipv4(gid))
		return gid[12] == IN_LOOPBACKNET;
	return family == AF_INET6 && IN6_IS_ADDR_LOOPBACK((const struct in6_addr *)gid);
}

/* The visible device that is at the process's port of a fabric, if it is at one, or UCM_NO_DEVICE. */
static int device_of_fabric(const struct ucm_device *devices)
{
	for (int i = 0; i < CA_DEVICES; i++) {
		if (devices[i].visible && device_has(&devices[i].dev, DEVICE_LIDS))
			return i;
	}
	return UCM_NO_DEVICE;
}

/* That port of it which has this GID. */
static int device_with_gid(const struct ucm_device *devices, const uint8_t gid[16])
{
	for (int i = 0; i < CA_DEVICES; i++) {
		if (devices[i].visible && device_has(&devices[i].dev, DEVICE_LIDS) &&
		    device_gid_index(&devices[i].dev, gid) >= 0)
			return i;
	}
	return UCM_NO_DEVICE;
}

int ucm_route_fabric(const struct ucm_device *devices, const struct sockaddr_storage *addr, int *device, uint8_t sgid[16],
		     uint8_t dgid[16])
{
	uint8_t wanted[16];
	int at = device_of_fabric(devices);

	/* which of its ports, where the program has chosen one */
	if (*device != UCM_NO_DEVICE && device_has(&devices[*device].dev, DEVICE_LIDS))
		at = *device;
	ucm_addr_gid(addr, wanted);
	if (at == UCM_NO_DEVICE || runtime_find_address(ucm.rt, wanted, dgid) != NODE_OTHERS)
		return -ENODEV;
	*device = at;
	memcpy(sgid, devices[at].dev.gid[0].raw, 16);
	return 0;
}

int ucm_route_local(const struct ucm_device *devices, const struct sockaddr_storage *addr, int *device, uint8_t gid[16])
{
	bool is_host_address = false;
	uint8_t wanted[16];

	ucm_addr_gid(addr, wanted);
	if (device_of_fabric(devices) != UCM_NO_DEVICE) {
		enum node_owner owner = runtime_find_address(ucm.rt, wanted, gid);

		*device = owner == NODE_OWN ? device_with_gid(devices, gid) : UCM_NO_DEVICE;
		if (owner != NODE_ELSEWHERE)
			return *device == UCM_NO_DEVICE ? -ENODEV : 0;
	}
	if (is_loopback(addr->ss_family, wanted))
		return ucm_route_default(devices, addr->ss_family, device, gid);
	for (int i = CA_DEVICES; i-- > 0;) {
		if (device_gid_index(&devices[i].dev, wanted) < 0)
			continue;
		is_host_address = device_has(&devices[i].dev, DEVICE_IP_GIDS);
		if (!devices[i].visible)
			continue;
		memcpy(gid, wanted, 16);
		*device = i;
		return 0;
	}
	/* it would be that of each host of a fabric, and lead nobody to another one */
	if (!is_host_address || runtime_has_own_address(ucm.rt))
		return -ENODEV;
	return ucm_route_default(devices, 0, device, gid);
}

/* The device by which other hosts are reached: the first that has addresses of this one. */
static int device_of_hosts(const struct ucm_device *devices)
{
	int i = 0;

	while (i < CA_DEVICES && !(devices[i].dev.protocol && ucm_device_has_addresses(&devices[i].dev)))
		i++;
	return i < CA_DEVICES && devices[i].visible ? i : -ENETUNREACH;
}

int ucm_route_remote(const struct ucm_device *devices, const uint8_t dgid[16], struct ucm_way *way)
{
	int device = device_of_hosts(devices), error;

	if (device < 0 || (way->device != UCM_NO_DEVICE && way->device != device))
		return -ENETUNREACH;
	way->device = device;
	error = runtime_way_to(ucm.rt, dgid, way->sgid, &way->mtu);
	if (error)
		return error;
	return device_gid_index(&devices[device].dev, way->sgid) < 0 ? -ENETUNREACH : 0;
}

void ucm_route_expect(const struct sockaddr_storage *src)
{
	struct ca *ca = runtime_ca(ucm.rt);
	uint8_t gid[16];

	ucm_addr_gid(src, gid);
	for (int i = 0; i < ca->devices && !is_loopback(src->ss_family, gid); i++)
		if (device_has(&ca->dev[i], DEVICE_IP_GIDS) && runtime_device_visible(ucm.rt, i))
			runtime_await_wire(ucm.rt, &ca->dev[i]);
}

void ucm_route_fill(struct ucm_id *id, const struct ca_device *dev)
{
	uint16_t lid = device_has(dev, DEVICE_LIDS) ? dev->lid : 0xffff;	/* if any, both ends are on this host */

	id->path = (struct cm_path){
		.device = id->device, .pkey = dev->pkey[0], .mtu = dev->active_mtu, .ack_timeout = PATH_LIFE + 1,
		.rate = RATE_100_GBPS, .hop_limit = device_has(dev, DEVICE_GRH_REQUIRED) ? HOP_LIMIT : 0,
		.slid = lid, .dlid = lid,
	};
	memcpy(id->path.sgid, id->sgid, 16);
	memcpy(id->path.dgid, id->dgid, 16);
}

int ucm_route_find(struct ucm_id *id, uint32_t timeout_ms)
{
	struct control_msg msg = { .type = CTL_PATH, .a = id->path.pkey, .c = timeout_ms };
	int error;

	memcpy(msg.gid, id->sgid, 16);
	memcpy(msg.dgid, id->dgid, 16);
	ucm_unlock_and_send();
	error = runtime_request(ucm.rt, &msg);
	ucm_lock();
	if (error)
		return error;
	id->path.dlid = (uint16_t)(msg.a >> ROUTE_DLID);
	id->path.slid = (uint16_t)(msg.a >> ROUTE_SLID);
	id->path.pkey = (uint16_t)(msg.b >> ROUTE_PKEY);
	id->path.mtu = msg.b >> ROUTE_MTU & 7;
	id->path.rate = msg.b >> ROUTE_RATE & 63;
	id->path.sl = msg.c >> ROUTE_SL & 15;
	id->path.flow_label = msg.c >> ROUTE_FLOW_LABEL & 0xfffff;
	id->path.tclass = (uint8_t)(msg.service >> ROUTE_TCLASS);
	id->path.hop_limit = (uint8_t)(msg.service >> ROUTE_HOP_LIMIT);
	id->path.ack_timeout = (uint8_t)((msg.service >> ROUTE_LIFE & 31) + 1);
	return 0;
}
