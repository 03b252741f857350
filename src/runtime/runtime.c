#include "runtime/runtime.h"

#include "base/log.h"
#include "control/devices.h"
#include "control/limits.h"
#include "peers/devices.h"
#include "runtime/attach.h"
#include "runtime/config.h"
#include "runtime/entry.h"
#include "runtime/process.h"
#include "runtime/state.h"

#include <errno.h>
#include <string.h>

struct runtime *runtime_peek(void)
{
	return atomic_load_explicit(&process.own, memory_order_acquire);
}

/* Once: programs look for devices again and again. */
static void complain(int err)
{
	bool done = process.has_complained;

	process.has_complained = true;
	if (!done && !*config_get()->dir)
		log_line(LOG_ERROR, "no devices: WEFT_DIR is not set; start the program with weft run");
	else if (!done)
		log_line(LOG_ERROR, "no devices: cannot attach to weftd in %s: %s%s; see weft doctor", config_get()->dir,
			 strerror(-err), limits_advice(-err));
}

/* With process.attaching. NULL with *err = -errno. */
static struct runtime *add(const struct config *config, int *err)
{
	struct runtime *rt = runtime_attach(config, err);

	if (!rt)
		return NULL;
	atomic_store(&rt->next, atomic_load(&process.runtimes));
	atomic_store(&process.runtimes, rt);
	return rt;
}

static void drop(struct runtime *rt)
{
	struct runtime *_Atomic *at = &process.runtimes;
	struct runtime *other;

	while ((other = atomic_load(at)) && other != rt)
		at = &other->next;
	if (other)
		atomic_store(at, atomic_load(&rt->next));
}

struct runtime *runtime_get(void)
{
	struct runtime *rt = runtime_peek();
	int err = 0;

	if (rt)
		return rt;
	fork_watch();
	pthread_mutex_lock(&process.attaching);
	rt = runtime_peek();
	if (!rt) {
		rt = add(config_get(), &err);
		atomic_store_explicit(&process.own, rt, memory_order_release);
		if (!rt)
			complain(err);
	}
	pthread_mutex_unlock(&process.attaching);
	if (!rt)
		errno = -err;
	return rt;
}

struct runtime *runtime_open(const struct config *config)
{
	struct runtime *rt;
	int err;

	fork_watch();
	pthread_mutex_lock(&process.attaching);
	rt = add(config, &err);
	pthread_mutex_unlock(&process.attaching);
	if (!rt)
		errno = -err;
	return rt;
}

void runtime_close(struct runtime *rt)
{
	pthread_mutex_lock(&process.attaching);
	drop(rt);
	if (runtime_peek() == rt)
		atomic_store(&process.own, NULL);
	pthread_mutex_unlock(&process.attaching);
	runtime_detach(rt);
}

struct ca *runtime_ca(struct runtime *rt)
{
	return &rt->ca;
}

struct counters runtime_counters(struct runtime *rt)
{
	struct counters now = ca_counters(&rt->ca);

	roce_socket_count(&rt->peers, &now);
	return now;
}

bool runtime_device_visible(const struct runtime *rt, int device)
{
	struct control_table t = { .devices = (uint32_t)rt->ca.devices };
	unsigned named;

	for (int i = 0; i < rt->ca.devices; i++)
		memcpy(t.device[i].name, rt->ca.dev[i].name, PAGE_NAME);
	control_devices_listed(rt->config->devices, &t, &named);
	return device >= 0 && device < rt->ca.devices && named >> rt->ca.dev[device].device & 1;
}

void runtime_set_events(struct runtime *rt, const struct runtime_events *events)
{
	runtime_enter_briefly(rt);
	rt->events = events;
	runtime_leave(rt);
}

int runtime_group_mlid(struct runtime *rt, int device, const uint8_t gid[16], uint16_t *mlid)
{
	return group_mlid(rt->peers.page, device, gid, mlid);
}

enum node_owner runtime_find_address(const struct runtime *rt, const uint8_t address[16], uint8_t gid[16])
{
	return node_find_address(&rt->peers.node, address, gid);
}

bool runtime_own_address(const struct runtime *rt, uint8_t address[16])
{
	return node_own_address(&rt->peers.node, address);
}

uint32_t runtime_slot(const struct runtime *rt)
{
	return rt->peers.slot;
}
