/* A host for the rdma_cm device alone: two devices, a clock that stands still, and a weftd that grants what is asked. The test
 * that includes it defines runtime_send_gmp, where messages of the communication manager go. */
#ifndef WEFT_TESTS_UNIT_UCM_HOST_H
#define WEFT_TESTS_UNIT_UCM_HOST_H

#include "abi/ucm/ucm_state.h"

#include "control/clock.h"
#include "runtime/cm.h"
#include "runtime/entry.h"
#include "runtime/requests.h"
#include "runtime/runtime.h"
#include "verbs/qp_table.h"

#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

enum { SLOT = 5, LISTENS = 16 };

struct runtime {
	struct ca ca;
	struct runtime_cm cm;
	bool visible[CA_DEVICES];
	uint64_t listens[LISTENS];
	int ports, groups, senders, next_port, strangers;
	int requests;			/* for ports */
	bool is_in_fabric;
	int path_error;			/* what weftd answers who asks for a path */
	struct control_msg asked;	/* the last CTL_PATH */
	void (*meanwhile)(void);	/* before weftd answers a request */
	wtime now;
	pthread_mutex_t lock;
};

static struct runtime fake = { .lock = PTHREAD_MUTEX_INITIALIZER };

static void fake_gid(int device, int index, const uint8_t *raw, enum ibv_gid_type type)
{
	struct ca_gid *gid = &fake.ca.dev[device].gid[index];

	memcpy(gid->raw, raw, 16);
	gid->valid = true;
	gid->type = type;
}

/* The devices without GIDs. */
static void fake_devices(void)
{
	static struct ca_device devices[2];

	fake.ca.devices = 2;
	if (!fake.ca.by_number.place && qp_table_init(&fake.ca.by_number) < 0)
		abort();
	fake.ca.dev = devices;
	fake.ca.dev[0] = (struct ca_device){ .name = "weft0", .protocol = &protocol_ib, .guid = 0x10, .lid = 3,
					     .active_mtu = IBV_MTU_4096, .pkeys = 1, .pkey = { 0xffff },
					     .port_num = 1, .ports = 1 };
	fake.ca.dev[1] = (struct ca_device){ .name = "weft1", .protocol = &protocol_roce_v2, .guid = 0x11,
					     .index = 1, .device = 1, .port_num = 1, .ports = 1,
					     .active_mtu = IBV_MTU_1024, .pkeys = 1, .pkey = { 0xffff } };
	fake.visible[0] = fake.visible[1] = true;
}

struct runtime *runtime_get(void)
{
	return &fake;
}

struct ca *runtime_ca(struct runtime *rt)
{
	return &rt->ca;
}

bool runtime_device_visible(const struct runtime *rt, int device)
{
	return rt->visible[device];
}

wtime runtime_enter(struct runtime *rt)
{
	pthread_mutex_lock(&rt->lock);
	return rt->now;
}

void runtime_leave(struct runtime *rt)
{
	pthread_mutex_unlock(&rt->lock);
}

uint32_t runtime_slot(const struct runtime *rt)
{
	return SLOT;
}

wtime clock_now(void)
{
	return fake.now;
}

void runtime_set_cm(struct runtime *rt, const struct runtime_cm *cm)
{
	rt->cm = *cm;
}

void runtime_cm_kick(struct runtime *rt)
{
}

void runtime_tell_missing(struct runtime *rt)
{
}

/* Strangers may send from now on. */
void runtime_await_wire(struct runtime *rt, const struct ca_device *dev)
{
	rt->strangers += dev == &rt->ca.dev[1];
}

/* Of a fabric: host 2 is this one, by the first GID of its device, and there are hosts up to 9. */
static const uint8_t host_2[16] = { [10] = 0xff, 0xff, 127, 1, 0, 2 }, gid_host_8[16] = { 0xfe, 0x80, [8] = 2, [15] = 8 };

enum node_owner runtime_find_address(const struct runtime *rt, const uint8_t address[16], uint8_t gid[16])
{
	uint8_t host = address[15];

	if (!rt->is_in_fabric || memcmp(address, host_2, 14) != 0)
		return NODE_ELSEWHERE;
	if (host > 9)
		return NODE_NOBODYS;
	memcpy(gid, host == 2 ? rt->ca.dev[0].gid[0].raw : gid_host_8, 16);
	if (host != 2)
		gid[15] = host;
	return host == 2 ? NODE_OWN : NODE_OTHERS;
}

bool runtime_own_address(const struct runtime *rt, uint8_t address[16])
{
	memcpy(address, host_2, 16);
	return rt->is_in_fabric;
}

/* Other hosts are in the network 10.7.0.0/16, which packets leave for by 10.1.2.3. */
int runtime_way_to(struct runtime *rt, const uint8_t dgid[16], uint8_t sgid[16], uint8_t *mtu)
{
	static const uint8_t network[14] = { [10] = 0xff, 0xff, 10, 7 };
	static const uint8_t own[16] = { [10] = 0xff, 0xff, 10, 1, 2, 3 };

	if (rt->meanwhile)
		rt->meanwhile();
	if (memcmp(dgid, network, sizeof(network)) != 0)
		return -ENETUNREACH;
	memcpy(sgid, own, 16);
	*mtu = IBV_MTU_512;
	return 0;
}

static inline bool listens(uint64_t service)
{
	for (int i = 0; i < LISTENS; i++)
		if (fake.listens[i] == service)
			return true;
	return false;
}

static void replace(uint64_t from, uint64_t to)
{
	for (int i = 0; i < LISTENS; i++)
		if (fake.listens[i] == from) {
			fake.listens[i] = to;
			return;
		}
}

/* One port, or several in a row. */
static void grant_port(struct runtime *rt, struct control_msg *msg)
{
	uint32_t more = msg->b;
	uint64_t row = 0;

	msg->b = msg->c = 0;
	rt->ports++;
	if (msg->service & 0xffff)
		return;
	msg->service |= (uint64_t)(40000 + rt->next_port++ % 20000);
	if (!more)
		return;
	row = 1ull << msg->service % CONTROL_PORT_ROW;
	for (; more && (40000 + rt->next_port % 20000) % CONTROL_PORT_ROW; more--, rt->ports++)
		row |= 1ull << (40000 + rt->next_port++ % 20000) % CONTROL_PORT_ROW;
	control_set_port_row(msg, row);
}

static int grant(struct runtime *rt, struct control_msg *msg)
{
	switch (msg->type) {
	case CTL_PORT:
		rt->requests++;
		grant_port(rt, msg);
		return 0;
	case CTL_LISTEN:
		replace(0, msg->service);
		return 0;
	case CTL_MCAST:
		rt->groups++;
		rt->senders += msg->service == MCAST_SENDS;
		msg->b = msg->device ? 0 : 0xc123;
		return 0;
	case CTL_PATH:
		rt->asked = *msg;
		msg->a = 8u << ROUTE_DLID | 3u << ROUTE_SLID;
		msg->b = 0x8001u << ROUTE_PKEY | IBV_MTU_2048 << ROUTE_MTU | IBV_RATE_40_GBPS << ROUTE_RATE;
		msg->c = 0x12345u << ROUTE_FLOW_LABEL | 5u << ROUTE_SL;
		msg->service = 7u << ROUTE_TCLASS | 1u << ROUTE_HOP_LIMIT | 18u << ROUTE_LIFE;
		return rt->path_error;
	default:
		return -EINVAL;
	}
}

int runtime_request(struct runtime *rt, struct control_msg *msg)
{
	int error;

	if (rt->meanwhile)
		rt->meanwhile();
	pthread_mutex_lock(&rt->lock);
	error = grant(rt, msg);
	pthread_mutex_unlock(&rt->lock);
	return error;
}

static void note(struct runtime *rt, const struct control_msg *msg)
{
	if (msg->type == CTL_MCAST) {
		rt->groups--;
		rt->senders -= msg->service == MCAST_SENDS;
	}
	if (msg->type == CTL_UNPORT)
		rt->ports -= control_port_row(msg) ? __builtin_popcountll(control_port_row(msg)) : 1;
	else if (msg->type == CTL_UNLISTEN)
		replace(msg->service, 0);
}

int runtime_post(struct runtime *rt, const struct control_msg *msg)
{
	pthread_mutex_lock(&rt->lock);
	note(rt, msg);
	pthread_mutex_unlock(&rt->lock);
	return 0;
}

#endif
