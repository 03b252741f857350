/* A runtime is the attachment of a process to weftd: session, adapter, the one lock, the pump and its helper thread. What enters
 * the channel adapter does so between runtime_enter and runtime_leave (runtime/entry.h). */
#ifndef WEFT_RUNTIME_RUNTIME_H
#define WEFT_RUNTIME_RUNTIME_H

#include "peers/node.h"
#include "verbs/ca.h"

struct config;
struct runtime;

/* The process's runtime, attaching to weftd on the first call. NULL with errno: ENODEV no weftd (weft run keeps one for the
 * programs it starts), EPROTO another version. Blocks. After fork the child attaches anew. */
struct runtime *runtime_get(void);

/* One more, beside runtime_get's: another device to its peers, in the same weftd or another. config: borrowed. NULL with errno as
 * there. Blocks. */
struct runtime *runtime_open(const struct config *config);
/* Leaves weftd and frees it. None of its objects is left, no thread is inside, verbs do not use it (runtime_get), and this is no
 * forked child, which has forgotten it. Blocks. */
void runtime_close(struct runtime *rt);

/* runtime_get's without attaching: NULL when there is none. */
struct runtime *runtime_peek(void);

struct ca *runtime_ca(struct runtime *rt);
/* The adapter's counters with those of the link to other hosts, which costs a system call. Under the lock. */
struct counters runtime_counters(struct runtime *rt);

/* Which devices the user wants to see: WEFT_DEVICES is read here. */
bool runtime_device_visible(const struct runtime *rt, int device);

/* Call-backs for objects' events, set before any object exists; borrowed. Called under the lock. */
struct runtime_events {
	void (*cq_event)(struct cq *cq);
	void (*async_event)(enum ibv_event_type type, void *object);
	bool (*is_open)(const struct ca_device *dev);
	/* Calls of this runtime can fail on demand from now on, or no more (runtime/device_faults.h). */
	void (*calls_changed)(struct runtime *rt);
};
void runtime_set_events(struct runtime *rt, const struct runtime_events *events);

/* Whose address in a fabric, and the process's own there (peers/node.h). Any thread. */
enum node_owner runtime_find_address(const struct runtime *rt, const uint8_t address[16], uint8_t gid[16]);
bool runtime_own_address(const struct runtime *rt, uint8_t address[16]);
static inline bool runtime_has_own_address(const struct runtime *rt)
{
	uint8_t own[16];

	return runtime_own_address(rt, own);
}

uint32_t runtime_slot(const struct runtime *rt);
/* 0 and the MLID of a group this runtime knows, or -ENOENT. Any thread. */
int runtime_group_mlid(struct runtime *rt, int device, const uint8_t gid[16], uint16_t *mlid);

#endif
