/* A link carries whole frames of one form towards a destination QP's process: one table of operations for the
 * shared-memory channel now, UDP, raw Ethernet and TCP later. Not thread-safe: the host's lock is held. */
#ifndef WEFT_LINK_LINK_H
#define WEFT_LINK_LINK_H

#include "direct/news.h"
#include "wire/packet.h"

#include <stdatomic.h>
#include <stdbool.h>

struct link;

/* What crosses a link is a frame of one of the packet forms or, between two processes of one host, a whole message. */
enum { LINK_MESSAGE = 15, LINK_MESSAGE_BYTES = 8192, LINK_SHORT_BYTES = 56 };

struct link_ops {
	const char *name;
	/* Room for one more frame or message? When not, the peer will ring our wake fd once there is. */
	bool (*room)(struct link *l);
	/* Builds the packet straight into the link's memory. False: no room (nothing sent). */
	bool (*send)(struct link *l, const struct packet *p);
	/* As send, with a frame that is built already, or spoilt on purpose; 0 < bytes <= PACKET_MAX_BYTES. */
	bool (*send_frame)(struct link *l, enum packet_form form, const void *frame, size_t bytes);
	/* Memory for a message of 0 < bytes <= LINK_MESSAGE_BYTES, 8-byte aligned, and off it goes. NULL: no room. */
	void *(*reserve)(struct link *l, size_t bytes);
	void (*commit)(struct link *l, size_t bytes);
	/* Makes what was sent visible and wakes the peer if it sleeps: once per batch. */
	void (*flush)(struct link *l);
	/* The next frame or message, valid until the next is received, or NULL. *kind (an enum packet_form, or LINK_MESSAGE) and
	 * *bytes are set; both were range-checked. It is in private memory: the peer cannot change it any more. */
	const void *(*receive)(struct link *l, unsigned *kind, size_t *bytes);
	/* Lets the peer use the room of what was received, and wakes it if it waits for that: once per batch, and now and then
	 * when nothing came. */
	void (*release)(struct link *l);
	/* Before the owner sleeps: true when it may (nothing arrived meanwhile, and no room came for which it waits); the
	 * peer then wakes it in that way, or by its eventfd when it knows no other. After: awake. */
	bool (*may_sleep)(struct link *l, enum news_wake how);
	void (*awake)(struct link *l);
	/* As may_sleep, before the owner no longer looks at this link: the peer then rings that bell of its news, and the
	 * owner looks again (awake). False too when the peer cannot ring. */
	bool (*may_rest)(struct link *l, uint32_t bell);
	void (*close)(struct link *l);
};

struct link {
	const struct link_ops *ops;
	const _Atomic uint32_t *arrival;	/* not 0 when something waits to be received; the link keeps it right */
	void *line;	/* where the next message goes if it is short; NULL: ask `reserve`; the link keeps it right */
	bool broken;	/* the peer broke the link's rules: nothing moves any more, it should be closed */
};

/* Is a frame or message waiting? Changes nothing, and costs one load: programs ask it all the time. */
static inline bool link_pending(const struct link *l)
{
	return !l->broken && atomic_load_explicit(l->arrival, memory_order_acquire) != 0;
}

/* ops->reserve, at once for a message as short as most are. */
static inline void *link_reserve(struct link *l, size_t bytes)
{
	return l->line && bytes - 1 < LINK_SHORT_BYTES ? l->line : l->ops->reserve(l, bytes);
}

#endif
