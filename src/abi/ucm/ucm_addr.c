/* Addresses: binding an id to one of this host and resolving where another one is. Everything is known in the process, but
 * for what weftd is asked, for whose answer the command waits: so the events that tell of it are queued before the command
 * returns. */
#include "abi/ucm/ucm_state.h"

#include "wire/addr.h"

#include <endian.h>
#include <errno.h>
#include <string.h>

/* rdma/rdma_cma.h: RDMA_IB_IP_PS_MASK and RDMA_IB_IP_PORT_MASK, the parts of a service id made of a port */
#define SERVICE_SPACE_MASK 0xffffffffffff0000ull
#define SERVICE_PORT_MASK 0xffffull

static const struct sockaddr_in *in4(const struct sockaddr_storage *addr)
{
	return (const struct sockaddr_in *)addr;
}

static const struct sockaddr_in6 *in6(const struct sockaddr_storage *addr)
{
	return (const struct sockaddr_in6 *)addr;
}

static const struct sockaddr_ib *ib(const struct sockaddr_storage *addr)
{
	return (const struct sockaddr_ib *)addr;
}

size_t ucm_addr_bytes(const struct sockaddr_storage *addr)
{
	switch (addr->ss_family) {
	case AF_INET:
		return sizeof(struct sockaddr_in);
	case AF_INET6:
		return sizeof(struct sockaddr_in6);
	case AF_IB:
		return sizeof(struct sockaddr_ib);
	default:
		return 0;
	}
}

bool ucm_addr_is_any(const struct sockaddr_storage *addr)
{
	static const uint8_t zero[16];

	switch (addr->ss_family) {
	case AF_INET:
		/* NOLINTNEXTLINE(clang-analyzer-core.UndefinedBinaryOperatorResult) ; the whole storage is initialised */
		return in4(addr)->sin_addr.s_addr == INADDR_ANY;
	case AF_INET6:
		return IN6_IS_ADDR_UNSPECIFIED(&in6(addr)->sin6_addr);
	case AF_IB:
		return memcmp(&ib(addr)->sib_addr, zero, 16) == 0;
	default:
		return true;
	}
}

bool ucm_addr_same(const struct sockaddr_storage *a, const struct sockaddr_storage *b)
{
	if (a->ss_family != b->ss_family)
		return false;
	switch (a->ss_family) {
	case AF_INET:
		return in4(a)->sin_addr.s_addr == in4(b)->sin_addr.s_addr;
	case AF_INET6:
		return memcmp(&in6(a)->sin6_addr, &in6(b)->sin6_addr, 16) == 0;
	default:
		return memcmp(&ib(a)->sib_addr, &ib(b)->sib_addr, 16) == 0;
	}
}

void ucm_addr_gid(const struct sockaddr_storage *addr, uint8_t gid[16])
{
	memset(gid, 0, 16);
	if (ucm_addr_is_any(addr))
		return;
	switch (addr->ss_family) {
	case AF_INET:
		gid_from_ipv4(gid, &in4(addr)->sin_addr);
		return;
	case AF_INET6:
		memcpy(gid, &in6(addr)->sin6_addr, 16);
		return;
	default:
		memcpy(gid, &ib(addr)->sib_addr, 16);
	}
}

uint16_t ucm_addr_port(const struct sockaddr_storage *addr)
{
	switch (addr->ss_family) {
	case AF_INET:
		return be16toh(in4(addr)->sin_port);
	case AF_INET6:
		return be16toh(in6(addr)->sin6_port);
	case AF_IB:
		return (uint16_t)(be64toh(ib(addr)->sib_sid) & be64toh(ib(addr)->sib_sid_mask) & SERVICE_PORT_MASK);
	default:
		return 0;
	}
}

uint64_t ucm_addr_service(const struct ucm_id *id, const struct sockaddr_storage *addr)
{
	if (addr->ss_family == AF_IB)
		return be64toh(ib(addr)->sib_sid);
	return (uint64_t)id->ps << 16 | ucm_addr_port(addr);
}

void ucm_addr_set_port(struct sockaddr_storage *addr, uint16_t port)
{
	struct sockaddr_ib *sib = (struct sockaddr_ib *)addr;

	switch (addr->ss_family) {
	case AF_INET:
		((struct sockaddr_in *)addr)->sin_port = htobe16(port);
		break;
	case AF_INET6:
		((struct sockaddr_in6 *)addr)->sin6_port = htobe16(port);
		break;
	case AF_IB:
		sib->sib_sid = htobe64((be64toh(sib->sib_sid) & SERVICE_SPACE_MASK) | port);
		sib->sib_sid_mask = htobe64(UINT64_MAX);
		break;
	}
}

/* The port space that an AF_IB service id stands for; only those made of a port space are known, as in Linux. */
static int service_space(const struct ucm_id *id, struct sockaddr_storage *addr)
{
	static const uint16_t spaces[] = { RDMA_PS_IB, RDMA_PS_TCP, RDMA_PS_UDP };
	struct sockaddr_ib *sib = (struct sockaddr_ib *)addr;
	uint64_t mask = be64toh(sib->sib_sid_mask) & SERVICE_SPACE_MASK, service = be64toh(sib->sib_sid) & mask;

	for (size_t i = 0; i < sizeof(spaces) / sizeof(spaces[0]); i++) {
		uint64_t space = (uint64_t)spaces[i] << 16;

		if ((id->ps != RDMA_PS_IB && id->ps != spaces[i]) || service != (space & mask))
			continue;
		sib->sib_sid = htobe64(space | ucm_addr_port(addr));
		sib->sib_sid_mask = htobe64(UINT64_MAX);
		return 0;
	}
	return -EPROTONOSUPPORT;
}

/* A link-local address means nothing without its interface. */
static bool lacks_scope(const struct sockaddr_storage *addr)
{
	/* NOLINTNEXTLINE(clang-analyzer-core.UndefinedBinaryOperatorResult) ; the whole storage is initialised */
	return addr->ss_family == AF_INET6 && IN6_IS_ADDR_LINKLOCAL(&in6(addr)->sin6_addr) && !in6(addr)->sin6_scope_id;
}

/* As Linux, nothing leaves the host from there. */
static bool is_loopback(const struct sockaddr_storage *addr)
{
	if (addr->ss_family == AF_INET)
		return be32toh(in4(addr)->sin_addr.s_addr) >> 24 == IN_LOOPBACKNET;
	return addr->ss_family == AF_INET6 && IN6_IS_ADDR_LOOPBACK(&in6(addr)->sin6_addr);
}

/* As Linux has it, such an address is no device's: a server of libfabric binds to it, and tells its clients to come there if it
 * is one's. Of several devices it then takes the first, which is that of a fabric's hosts; without a fabric it may not be that
 * of other hosts, so it stays the one that leads to this host; so it does of a device that leads nowhere else, and for
 * datagrams, whose rsockets want a device as soon as they are bound. In a fabric the others of 127.0.0.0/8 are hosts. */
static bool is_no_devices(const struct ucm_id *id, const struct sockaddr_storage *addr, const struct ucm_device *devices)
{
	unsigned visible = 0;

	if (id->ps == RDMA_PS_UDP || !is_loopback(addr) ||
	    (addr->ss_family == AF_INET && be32toh(in4(addr)->sin_addr.s_addr) != INADDR_LOOPBACK))
		return false;
	for (int i = 0; i < CA_DEVICES; i++)
		visible += devices[i].visible;
	return runtime_has_own_address(ucm.rt) || (visible == 1 && ucm_device_has_addresses(&devices[id->device].dev));
}

int ucm_addr_bind(struct ucm_id *id, const struct sockaddr_storage *src)
{
	struct ucm_device devices[CA_DEVICES];
	int error = 0;

	if (!ucm_addr_bytes(src))
		return -EAFNOSUPPORT;
	if (id->state != UCM_IDLE || lacks_scope(src))
		return -EINVAL;
	if (!ucm_addr_is_any(src)) {
		ucm_devices(devices);
		error = ucm_route_local(devices, src, &id->device, id->sgid);
		if (error)
			return src->ss_family == AF_IB ? error : -EADDRNOTAVAIL;
		if (is_no_devices(id, src, devices)) {
			id->device = UCM_NO_DEVICE;
			memset(id->sgid, 0, sizeof(id->sgid));
		}
	}
	id->src = *src;
	if (src->ss_family == AF_INET && !id->afonly_is_set)
		id->afonly = true;	/* as Linux has it: 0.0.0.0 takes no IPv6 */
	if (src->ss_family == AF_IB)
		error = service_space(id, &id->src);
	if (!error) {
		id->state = UCM_ADDR_BOUND;	/* before the lock is given up: a second bind must fail */
		error = ucm_port_bind(id);
	}
	if (error) {
		id->state = UCM_IDLE;
		id->device = UCM_NO_DEVICE;
		memset(&id->src, 0, sizeof(id->src));
	}
	return error;
}

static int bind_command(const struct ucm_call *call, uint32_t number, const struct sockaddr_storage *src)
{
	struct ucm_id *id;
	int error = ucm_id_lock(call->file, number, &id);

	if (error)
		return error;
	ucm_id_get(id);
	error = ucm_addr_bind(id, src);
	ucm_id_put(id);
	ucm_unlock_and_send();
	return error;
}

int ucm_bind_ip(const struct ucm_call *call)
{
	const struct rdma_ucm_bind_ip *in = call->in;
	struct sockaddr_storage src = { 0 };

	memcpy(&src, &in->addr, sizeof(in->addr));
	return bind_command(call, in->id, &src);
}

/* A sockaddr of a command: its length must be its family's. */
static int take_addr(struct sockaddr_storage *to, const void *from, uint16_t bytes)
{
	memcpy(to, from, sizeof(*to));
	if (bytes != ucm_addr_bytes(to) || !bytes)
		return -EINVAL;
	memset((uint8_t *)to + bytes, 0, sizeof(*to) - bytes);
	return 0;
}

int ucm_bind(const struct ucm_call *call)
{
	const struct rdma_ucm_bind *in = call->in;
	struct sockaddr_storage src;
	int error = take_addr(&src, &in->addr, in->addr_size);

	if (error || in->reserved)
		return -EINVAL;
	return bind_command(call, in->id, &src);
}

/* The source that a destination on this host has when none was chosen: the destination itself, as Linux routes it. */
static void choose_source(struct ucm_id *id, const struct sockaddr_storage *dst, bool is_here)
{
	uint16_t port = ucm_addr_port(&id->src);
	uint8_t own[16];

	if (!ucm_addr_is_any(&id->src))
		return;
	if (dst->ss_family == AF_IB) {
		memcpy(&((struct sockaddr_ib *)&id->src)->sib_addr, id->sgid, 16);
	} else if (!ucm_addr_is_multicast(dst) && is_here) {
		id->src = *dst;
		ucm_addr_set_port(&id->src, port);
	} else if (dst->ss_family == AF_INET && IN6_IS_ADDR_V4MAPPED((struct in6_addr *)id->sgid)) {
		memcpy(&((struct sockaddr_in *)&id->src)->sin_addr, id->sgid + 12, 4);
	} else if (dst->ss_family == AF_INET && runtime_own_address(ucm.rt, own)) {
		memcpy(&((struct sockaddr_in *)&id->src)->sin_addr, own + 12, 4);
	} else if (dst->ss_family == AF_INET6) {
		memcpy(&((struct sockaddr_in6 *)&id->src)->sin6_addr, id->sgid, 16);
	}
}

/* A wildcard as destination is this host. */
static void name_this_host(struct sockaddr_storage *dst)
{
	if (!ucm_addr_is_any(dst))
		return;
	if (dst->ss_family == AF_INET)
		((struct sockaddr_in *)dst)->sin_addr.s_addr = htobe32(INADDR_LOOPBACK);
	else if (dst->ss_family == AF_INET6)
		((struct sockaddr_in6 *)dst)->sin6_addr = in6addr_loopback;
}

/* As Linux, a device that nobody chose is the one that the destination is reached by. */
static int set_device(struct ucm_id *id, int device, const uint8_t sgid[16])
{
	if (id->device == UCM_NO_DEVICE) {
		id->device = device;
		memcpy(id->sgid, sgid, 16);
	}
	return id->device == device ? 0 : -ENETUNREACH;
}

/* Asks the kernel and weftd, the lock given up meanwhile. */
static int route_to_other_host(struct ucm_id *id, const struct sockaddr_storage *dst, const struct ucm_device *devices)
{
	struct ucm_way way = { .device = id->device };
	uint8_t dgid[16];
	int error;

	if (is_loopback(&id->src))
		return -ENETUNREACH;
	ucm_addr_gid(dst, dgid);
	if (id->device != UCM_NO_DEVICE)
		memcpy(way.sgid, id->sgid, 16);
	ucm_unlock_and_send();
	error = ucm_route_remote(devices, dgid, &way);
	ucm_lock();
	if (id->destroyed || id->state != UCM_ADDR_BOUND)
		return -EINVAL;
	if (!error)
		error = set_device(id, way.device, way.sgid);
	if (error)
		return error;
	memcpy(id->dgid, dgid, 16);
	id->dst = *dst;
	choose_source(id, dst, false);
	ucm_route_fill(id, &devices[way.device].dev);
	if (way.mtu < id->path.mtu)
		id->path.mtu = way.mtu;
	return 0;
}

/* Its path is asked for when the route is resolved. */
static int route_in_fabric(struct ucm_id *id, const struct sockaddr_storage *dst, const struct ucm_device *devices)
{
	uint8_t sgid[16], dgid[16];
	int device = id->device, error = ucm_route_fabric(devices, dst, &device, sgid, dgid);

	if (!error)
		error = set_device(id, device, sgid);
	if (error)
		return error;
	memcpy(id->dgid, dgid, 16);
	id->dst = *dst;
	choose_source(id, dst, false);
	ucm_route_fill(id, &devices[device].dev);
	id->path.dlid = 0;
	return 0;
}

/* Finds the destination's GID and, when the id has none yet, its device and source. */
static int route(struct ucm_id *id, const struct sockaddr_storage *dst)
{
	struct ucm_device devices[CA_DEVICES];
	uint8_t dgid[16];
	int device, error = 0;

	ucm_devices(devices);
	/* groups, and wildcards, which stand for this host itself, are reached through any device */
	if (!ucm_addr_is_any(dst) && !ucm_addr_is_multicast(dst)) {
		error = ucm_route_local(devices, dst, &device, dgid);
	} else if (id->device != UCM_NO_DEVICE) {
		device = id->device;
		memcpy(dgid, id->sgid, 16);
	} else {
		error = ucm_route_default(devices, dst->ss_family, &device, dgid);
	}
	if (error == -ENODEV) {
		error = route_in_fabric(id, dst, devices);
		return error == -ENODEV ? route_to_other_host(id, dst, devices) : error;
	}
	if (!error)
		error = set_device(id, device, dgid);
	if (error)
		return error;
	if (ucm_addr_is_multicast(dst))
		ucm_mgid(id, &devices[device].dev, dst, dgid);
	memcpy(id->dgid, dgid, 16);
	id->dst = *dst;
	name_this_host(&id->dst);
	choose_source(id, &id->dst, true);
	ucm_route_fill(id, &devices[device].dev);
	return 0;
}

static int resolve(struct ucm_id *id, const struct sockaddr_storage *src, const struct sockaddr_storage *dst)
{
	struct sockaddr_storage any = { .ss_family = dst->ss_family };
	int error = 0;

	if (!ucm_addr_bytes(dst))
		return -EAFNOSUPPORT;
	if (id->state == UCM_IDLE) {
		if (dst->ss_family == AF_IB) {	/* any service id of this id's port space */
			((struct sockaddr_ib *)&any)->sib_sid = htobe64((uint64_t)id->ps << 16);
			((struct sockaddr_ib *)&any)->sib_sid_mask = htobe64(SERVICE_SPACE_MASK);
		}
		error = ucm_addr_bind(id, src->ss_family ? src : &any);
	}
	if (error)
		return error;
	if (id->state != UCM_ADDR_BOUND || id->src.ss_family != dst->ss_family)
		return -EINVAL;
	error = route(id, dst);
	if (id->destroyed || id->state != UCM_ADDR_BOUND)
		return -EINVAL;
	if (error)
		return ucm_event_post(id, UCM_EVENT_ADDR_ERROR, error);
	id->state = UCM_ADDR_RESOLVED;
	return ucm_event_post(id, UCM_EVENT_ADDR_RESOLVED, 0);
}

static int resolve_command(const struct ucm_call *call, uint32_t number, const struct sockaddr_storage *src,
			   const struct sockaddr_storage *dst)
{
	struct ucm_id *id;
	int error = ucm_id_lock(call->file, number, &id);

	if (error)
		return error;
	ucm_id_get(id);
	error = resolve(id, src, dst);
	ucm_id_put(id);
	ucm_unlock_and_send();
	return error;
}

int ucm_resolve_ip(const struct ucm_call *call)
{
	const struct rdma_ucm_resolve_ip *in = call->in;
	struct sockaddr_storage src = { 0 }, dst = { 0 };

	memcpy(&src, &in->src_addr, sizeof(in->src_addr));
	memcpy(&dst, &in->dst_addr, sizeof(in->dst_addr));
	return resolve_command(call, in->id, &src, &dst);
}

int ucm_resolve_addr(const struct ucm_call *call)
{
	const struct rdma_ucm_resolve_addr *in = call->in;
	struct sockaddr_storage src = { 0 }, dst;

	if (in->reserved || take_addr(&dst, &in->dst_addr, in->dst_size))
		return -EINVAL;
	if (in->src_size && take_addr(&src, &in->src_addr, in->src_size))
		return -EINVAL;
	return resolve_command(call, in->id, &src, &dst);
}

static int resolve_route(struct ucm_id *id, uint32_t timeout_ms)
{
	int error = 0;

	if (id->state != UCM_ADDR_RESOLVED)
		return -EINVAL;
	if (!id->path.dlid)
		error = ucm_route_find(id, timeout_ms);
	else
		id->path.tclass = id->tos;
	if (id->destroyed || id->state != UCM_ADDR_RESOLVED)
		return -EINVAL;
	if (error)
		return ucm_event_post(id, UCM_EVENT_ROUTE_ERROR, error);
	error = ucm_event_post(id, UCM_EVENT_ROUTE_RESOLVED, 0);
	if (!error) {
		id->state = UCM_ROUTE_RESOLVED;
		id->paths = 1;
	}
	return error;
}

int ucm_resolve_route(const struct ucm_call *call)
{
	const struct rdma_ucm_resolve_route *in = call->in;
	struct ucm_id *id;
	int error = ucm_id_lock(call->file, in->id, &id);

	if (error)
		return error;
	ucm_id_get(id);
	error = resolve_route(id, in->timeout_ms);
	ucm_id_put(id);
	ucm_unlock_and_send();
	return error;
}
