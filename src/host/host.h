/* The process's side of weft: attaching to weftd, the one lock, the clock, the pump and its helper thread. The only
 * place with threads and clocks besides link. Everything that enters the channel adapter does so between host_enter and
 * host_leave. */
#ifndef WEFT_HOST_HOST_H
#define WEFT_HOST_HOST_H

#include "host/control.h"
#include "verbs/ca.h"

struct host;

/* The process's host, attaching to weftd on the first call. NULL with errno: ENODEV no weftd (weft run keeps one for the
 * programs it starts), EPROTO another version. Blocks. After fork the child attaches anew. */
struct host *host_get(void);

/* The attached host without attaching: NULL when there is none. */
struct host *host_peek(void);

struct ca *host_ca(struct host *h);

/* Which devices the user wants to see: WEFT_DEVICES is read here. */
bool host_device_visible(const struct host *h, int device);

/* Enters the adapter: takes the lock; returns `now`, one value for the whole entry. */
wtime host_enter(struct host *h);
/* As host_enter, to post: `now` may be what was told last, unless somebody reads timestamps; packets that leave have the
 * right time. The clock costs as much as all else of posting a small write. */
wtime host_enter_post(struct host *h);
/* Leaves after host_enter_post when only receives were posted: nothing follows from them before something arrives. */
void host_leave_receives(struct host *h);
/* Leaves it: sends what became ready, raises events, wakes peers, releases the lock. */
void host_leave(struct host *h);

/* For a moment, in which nothing is sent, completed or told, and that needs no time: the lock and nothing else. */
void host_enter_briefly(struct host *h);
void host_leave_briefly(struct host *h);

/* As host_enter, and takes in what arrived: for poll_cq and other calls of a program that polls. Cheap when idle: one
 * load per open channel, and the time of an earlier entry. A program that takes frames in this way again and again is
 * trusted to, so that its helper thread need not be woken. May yield the CPU after many polls in vain. */
wtime host_enter_poll(struct host *h);

/* The CQ has nothing: does what was put off. True: completions have come of it, perhaps here. */
bool host_look_again(struct host *h);

/* Leaves after host_enter_poll, when nothing was posted in between. found: completions, so that this was not in vain. */
void host_leave_poll(struct host *h, bool found);

/* Only under the lock and before sleeping on a completion or event fd: the helper thread takes over at once. */
void host_will_sleep(struct host *h);

/* Between host_enter and host_leave: sleeps until `events` is not empty, with the lock given back, and takes in by itself what
 * peers send meanwhile, without the helper thread's help. 0: there are some, none of them announced (below); -EINTR: a signal's
 * handler ended it; -EAGAIN: they are announced, or this thread cannot watch now: it shall sleep on what announces them;
 * -ECANCELED: forgotten. The caller has cancellation disabled, and cancel_state is what it was: in its sleep the thread can be
 * cancelled then. */
int host_watch(struct host *h, const struct list *events, int cancel_state);
/* An event was raised. False: it must be announced. True: the watcher looks at once. Under the lock. */
bool host_tell_watcher(struct host *h, const struct list *events);
/* They are going, whoever waits for them. Under the lock. */
void host_forget_events(struct host *h, const struct list *events);

/* Call-backs for objects' events, set once by the ABI before any object exists. Called under the lock. */
struct host_events {
	void (*cq_event)(struct cq *cq);
	void (*async_event)(enum ibv_event_type type, void *object);
};
void host_set_events(const struct host_events *events);

/* Connection management: messages to and from other processes through weftd. Not under the lock. */
int host_request(struct host *h, struct control_msg *msg);	/* blocks for the answer; 0 or -errno of `status` */
int host_post(struct host *h, const struct control_msg *msg);	/* no answer wanted */
/* CTL_MAD and CTL_PEER_GONE go here, from the helper thread (without the lock), and timers through host_cm_deadline. */
struct host_cm {
	void (*mad)(void *cm, wtime now, const struct control_msg *msg);
	void (*peer_gone)(void *cm, wtime now, uint32_t slot);
	wtime (*expire)(void *cm, wtime now);	/* runs what is due; returns the next deadline */
	void *cm;
};
void host_set_cm(struct host *h, const struct host_cm *cm);
void host_cm_kick(struct host *h);	/* the deadline became earlier */
uint32_t host_slot(const struct host *h);
/* 0 and the MLID of a group this host knows, or -ENOENT. Any thread. */
int host_group_mlid(struct host *h, int device, const uint8_t gid[16], uint16_t *mlid);

wtime host_now(void);

#endif
