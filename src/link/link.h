/* A link carries whole frames: to one process of this host, over the shared-memory channel (link/shm.h); to any address of a
 * network, over UDP (link/udp.h). What only one of them can do besides is told there. The pump drives all links of a host alike
 * (link/links.h, runtime/pump.c). Not thread-safe: the runtime's lock is held. */
#ifndef WEFT_LINK_LINK_H
#define WEFT_LINK_LINK_H

#include "base/list.h"
#include "wire/packet.h"

#include <stdatomic.h>
#include <stdbool.h>

struct channel;
struct link;

/* A frame's kind is its device's index, which is the same at both ends (fabric/page.h), and the form of its packet. Two devices
 * may have one form. */
enum { LINK_FORM_BITS = 4, LINK_DEVICES = 16 };

static inline unsigned link_kind(unsigned device, enum packet_form form)
{
	return device << LINK_FORM_BITS | (unsigned)form;
}

static inline unsigned link_device(unsigned kind)
{
	return kind >> LINK_FORM_BITS;
}

static inline enum packet_form link_form(unsigned kind)
{
	return (enum packet_form)(kind & ((1 << LINK_FORM_BITS) - 1));
}

struct link_ops {
	const char *name;
	/* For how many more frames of any length is there room? When for none, the link wakes its owner once there is. */
	unsigned (*room)(struct link *l);
	/* Sends packets of this device to one destination, perhaps by several paths, in order; their payload is looked at no
	 * more afterwards. How many: those behind found no room. A broken link has none. */
	unsigned (*send)(struct link *l, unsigned device, const struct packet *const p[], unsigned n);
	/* One frame that is built already, or spoilt on purpose; 0 < bytes <= PACKET_MAX_BYTES. False: no room. */
	bool (*send_frame)(struct link *l, unsigned kind, const void *frame, size_t bytes);
	/* Makes what was sent visible and wakes its receiver if that sleeps: once per batch. */
	void (*flush)(struct link *l);
	/* The next frame, valid until the next is received, or NULL. *kind (link_kind, or what else the link carries) and
	 * *bytes are set; bytes and the form were range-checked, the device was not. It is in private memory: nobody can change
	 * it any more. */
	const void *(*receive)(struct link *l, unsigned *kind, size_t *bytes);
	/* Gives back the room of what was received: once per batch, and now and then when nothing came. */
	void (*release)(struct link *l);
	/* Asks whether something arrived, and sets *arrival if so. May be a system call, which is then made no oftener than once
	 * in a microsecond when nothing came or went for a while. NULL: *arrival tells by itself. */
	void (*look)(struct link *l);
	/* Before the owner sleeps: true when it may (nothing arrived meanwhile, and no room came for which it waits). What
	 * arrives wakes it by its futex, where the link can, else by event_fd, else by the descriptor that the other end got.
	 * After: awake. */
	bool (*may_sleep)(struct link *l, bool by_futex);
	void (*awake)(struct link *l);
	/* event_fd was readable: it is no more, until something else arrives after may_sleep. Only of a link that has one. */
	void (*take_event)(struct link *l);
	void (*close)(struct link *l);
	/* In a forked child, where the link's memory is not: frees the rest, and looks at nothing of it. */
	void (*forget)(struct link *l);
};

struct link {
	const struct link_ops *ops;
	const _Atomic uint32_t *arrival;	/* not 0 when something may wait to be received; the link keeps it right */
	bool broken;	/* the other end broke the link's rules: nothing moves any more, it should be closed */
	int event_fd;	/* owned by the link: readable when the sleeping owner is to wake; -1: it has none */
	/* of its host: */
	uint32_t number;	/* from 1 on, given by links_add to one link and never to another; 0: it was not added */
	struct channel *channel;	/* borrowed: whose messages it carries besides frames; NULL: frames only */
	origin_t origin;		/* of what it delivers; not 0, which is weftd */
	struct list_node watched;	/* in links.watched: each poll looks at it; or it rests */
	struct list_node dirty;		/* in links.dirty: sent since the last flush */
	struct list_node acks_owed;	/* in links.acks_owed: messages of it were executed since the last flush */
	unsigned idle;			/* looks in vain */
	bool waiting;			/* a QP found no room */
};

/* Does anything wait to be received? Changes nothing, and costs one load: programs ask it all the time. */
static inline bool link_pending(const struct link *l)
{
	return !l->broken && atomic_load_explicit(l->arrival, memory_order_acquire) != 0;
}

#endif
