/* A host for the rdma_cm device alone: two devices, a clock that stands still, and a weftd that grants what is asked. The test
 * that includes it defines host_send_gmp, where messages of the communication manager go. */
#ifndef WEFT_TESTS_UNIT_UCM_HOST_H
#define WEFT_TESTS_UNIT_UCM_HOST_H

#include "abi/ucm/ucm_state.h"

#include "control/clock.h"

#include <errno.h>
#include <pthread.h>
#include <string.h>

enum { SLOT = 5, LISTENS = 16 };

struct host {
	struct ca ca;
	struct host_cm cm;
	bool visible[CA_DEVICES];
	uint64_t listens[LISTENS];
	int ports, groups, next_port, strangers;
	void (*meanwhile)(void);	/* before weftd answers a request */
	wtime now;
	pthread_mutex_t lock;
};

static struct host fake = { .lock = PTHREAD_MUTEX_INITIALIZER };

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
	fake.ca.dev = devices;
	fake.ca.dev[0] = (struct ca_device){ .name = "weft0", .protocol = &protocol_ib, .guid = 0x10, .lid = 3,
					     .active_mtu = IBV_MTU_4096, .pkey = { 0xffff } };
	fake.ca.dev[1] = (struct ca_device){ .name = "weft1", .protocol = &protocol_roce_v2, .guid = 0x11,
					     .active_mtu = IBV_MTU_1024, .pkey = { 0xffff } };
	fake.visible[0] = fake.visible[1] = true;
}

struct host *host_get(void)
{
	return &fake;
}

struct ca *host_ca(struct host *h)
{
	return &h->ca;
}

bool host_device_visible(const struct host *h, int device)
{
	return h->visible[device];
}

wtime host_enter(struct host *h)
{
	pthread_mutex_lock(&h->lock);
	return h->now;
}

void host_leave(struct host *h)
{
	pthread_mutex_unlock(&h->lock);
}

uint32_t host_slot(const struct host *h)
{
	return SLOT;
}

wtime clock_now(void)
{
	return fake.now;
}

void host_set_cm(struct host *h, const struct host_cm *cm)
{
	h->cm = *cm;
}

void host_cm_kick(struct host *h)
{
}

void host_tell_missing(struct host *h)
{
}

/* Strangers may send from now on. */
void host_await_wire(struct host *h, const struct ca_device *dev)
{
	h->strangers += dev == &h->ca.dev[1];
}

/* Other hosts are in the network 10.7.0.0/16, which packets leave for by 10.1.2.3. */
int host_way_to(struct host *h, const uint8_t dgid[16], uint8_t sgid[16], uint8_t *mtu)
{
	static const uint8_t network[14] = { [10] = 0xff, 0xff, 10, 7 };
	static const uint8_t own[16] = { [10] = 0xff, 0xff, 10, 1, 2, 3 };

	if (h->meanwhile)
		h->meanwhile();
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

static int grant(struct host *h, struct control_msg *msg)
{
	switch (msg->type) {
	case CTL_PORT:
		if (!(msg->service & 0xffff))
			msg->service |= (uint64_t)(40000 + h->next_port++ % 20000);
		h->ports++;
		return 0;
	case CTL_LISTEN:
		replace(0, msg->service);
		return 0;
	case CTL_MCAST:
		h->groups++;
		msg->b = msg->device ? 0 : 0xc123;
		return 0;
	default:
		return -EINVAL;
	}
}

int host_request(struct host *h, struct control_msg *msg)
{
	int error;

	if (h->meanwhile)
		h->meanwhile();
	pthread_mutex_lock(&h->lock);
	error = grant(h, msg);
	pthread_mutex_unlock(&h->lock);
	return error;
}

static void note(struct host *h, const struct control_msg *msg)
{
	if (msg->type == CTL_UNPORT)
		h->ports--;
	else if (msg->type == CTL_UNLISTEN)
		replace(msg->service, 0);
	else if (msg->type == CTL_MCAST)
		h->groups--;
}

int host_post(struct host *h, const struct control_msg *msg)
{
	pthread_mutex_lock(&h->lock);
	note(h, msg);
	pthread_mutex_unlock(&h->lock);
	return 0;
}

#endif
