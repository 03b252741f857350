/* A host is the attachment of a process to weftd: session, adapter, the one lock, the pump and its helper thread. Everything
 * that enters the channel adapter does so between host_enter and host_leave. */
#ifndef WEFT_RUNTIME_HOST_H
#define WEFT_RUNTIME_HOST_H

#include "control/protocol.h"
#include "mgmt/gmp.h"
#include "verbs/ca.h"

struct config;
struct host;

/* The process's host, attaching to weftd on the first call. NULL with errno: ENODEV no weftd (weft run keeps one for the
 * programs it starts), EPROTO another version. Blocks. After fork the child attaches anew. */
struct host *host_get(void);

/* One more, beside host_get's: another device to its peers, in the same weftd or another. config: borrowed. NULL with errno as
 * there. Blocks. */
struct host *host_open(const struct config *config);
/* Leaves weftd and frees it. None of its objects is left, no thread is inside, verbs do not use it (host_get), and this is no
 * forked child, which has forgotten it. Blocks. */
void host_close(struct host *h);

/* host_get's without attaching: NULL when there is none. */
struct host *host_peek(void);

struct ca *host_ca(struct host *h);
/* The adapter's counters with those of the link to other hosts, which costs a system call. Under the lock. */
struct counters host_counters(struct host *h);

/* Which devices the user wants to see: WEFT_DEVICES is read here. */
bool host_device_visible(const struct host *h, int device);

/* Enters the adapter: takes the lock; returns `now`, one value for the whole entry. Each way of entering ends with host_leave. */
wtime host_enter(struct host *h);
/* As host_enter, to post sends: `now` may be what was told last, unless somebody reads timestamps; packets that leave have the
 * right time. The clock costs as much as all else of posting a small write. */
wtime host_enter_post(struct host *h);
/* As host_enter_post, when only receives are posted: nothing follows from them before something arrives. */
wtime host_enter_receive(struct host *h);
/* For a moment, in which nothing is sent, completed or told, and that needs no time: the lock and nothing else. */
void host_enter_briefly(struct host *h);
/* As host_enter, and takes in what arrived: for poll_cq and other calls of a program that polls. Cheap when idle: one
 * load per watched channel, and the time of an earlier entry. A program that takes frames in this way again and again is
 * trusted to, so that its helper thread need not be woken. May yield the CPU after many polls in vain. */
wtime host_enter_poll(struct host *h);
/* After host_enter_poll, before host_leave: this thread found completions, so its poll was not in vain. */
void host_poll_found(void);

/* Leaves it, however it was entered: sends what became ready, raises events, wakes peers, releases the lock. */
void host_leave(struct host *h);
/* The same for a thread of the host's own, which has set ca.runs_apart. */
void host_leave_apart(struct host *h);

/* The CQ has nothing: does what was put off. True: completions have come of it, perhaps here. */
bool host_look_again(struct host *h);

/* Outside the lock: an engine that runs apart takes over what was posted, and what can complete at once has completed. Blocks for
 * 200 ms at most. */
void host_run_engine(struct host *h);

/* Only under the lock and before sleeping on a completion or event fd: the helper thread takes over at once. */
void host_will_sleep(struct host *h);

/* Between host_enter and host_leave: sleeps until `events` is not empty, with the lock given back, and takes in by itself what
 * peers send meanwhile, without the helper thread's help. 0: there are some, none of them announced (below); -EINTR: a signal's
 * handler ended it; -EAGAIN: they are announced, or this thread cannot be the sleeper now: it shall sleep on what announces them;
 * -ECANCELED: forgotten. The caller has cancellation disabled, and cancel_state is what it was: in its sleep the thread can be
 * cancelled then. */
int host_wait(struct host *h, const struct list *events, int cancel_state);
/* An event was raised. False: it must be announced. True: the sleeper looks at once. Under the lock. */
bool host_wake_sleeper(struct host *h, const struct list *events);
/* They are going, whoever waits for them. Under the lock. */
void host_forget_events(struct host *h, const struct list *events);

/* Call-backs for objects' events, set before any object exists; borrowed. Called under the lock. */
struct host_events {
	void (*cq_event)(struct cq *cq);
	void (*async_event)(enum ibv_event_type type, void *object);
};
void host_set_events(struct host *h, const struct host_events *events);

/* Operations that may join a multicast group, as attaching and flow rules, wait for weftd outside the lock:
 *     host_join_begin(h);
 *     do { host_enter(h); err = operation; host_leave(h); } while (host_join(h, &err));
 *     host_join_end(h); */
void host_join_begin(struct host *h);
bool host_join(struct host *h, int *err);
void host_join_end(struct host *h);
/* Before a QP is destroyed, outside the lock: what it has posted and what waits for a channel leaves first, if the channel comes
 * soon. Programs that send datagrams do not wait for their completions. */
void host_flush_qp(struct host *h, struct qp *qp);
/* Before QPs are made, outside the lock: enough numbers for some hundred, if weftd has them. */
void host_reserve_numbers(struct host *h);
int host_request(struct host *h, struct control_msg *msg);	/* blocks for the answer; 0 or -errno of `status` */
int host_post(struct host *h, const struct control_msg *msg);	/* no answer wanted */
/* To QP1 of a port. May be lost, as a datagram. */
void host_send_gmp(struct host *h, const struct gmp *gmp);
/* Nobody listens where a connection was asked for: says once which other weftds its listener may be at. */
void host_tell_missing(struct host *h);
/* What comes to QP1 and CTL_PEER_GONE go here, from the helper thread (without the lock), and timers through host_cm_deadline. */
struct host_cm {
	void (*mad)(void *cm, wtime now, const struct gmp *gmp);
	void (*peer_gone)(void *cm, wtime now, uint32_t slot);
	wtime (*expire)(void *cm, wtime now);	/* runs what is due; returns the next deadline */
	void *cm;
};
void host_set_cm(struct host *h, const struct host_cm *cm);
void host_cm_kick(struct host *h);	/* the deadline became earlier */
/* Outside the lock: what comes from other hosts from now on is received, if weftd says soon that it can be. dev: strangers may
 * send first to a QP of this device, or NULL. Blocks for 1 s at most. */
void host_await_wire(struct host *h, const struct ca_device *dev);
/* Outside the lock: the way to another host's address. A zero sgid is set to the address of this host that it leaves by, *mtu
 * (enum ibv_mtu) to what it carries at most. -ENETUNREACH: there is no way, or weftd refuses it, which the program's user is
 * told. Blocks for 1 s at most. */
int host_way_to(struct host *h, const uint8_t dgid[16], uint8_t sgid[16], uint8_t *mtu);
uint32_t host_slot(const struct host *h);
/* 0 and the MLID of a group this host knows, or -ENOENT. Any thread. */
int host_group_mlid(struct host *h, int device, const uint8_t gid[16], uint16_t *mlid);

#endif
