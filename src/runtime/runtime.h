/* A runtime is the attachment of a process to weftd: session, adapter, the one lock, the pump and its helper thread. Everything
 * that enters the channel adapter does so between runtime_enter and runtime_leave. */
#ifndef WEFT_RUNTIME_RUNTIME_H
#define WEFT_RUNTIME_RUNTIME_H

#include "control/protocol.h"
#include "mgmt/gmp.h"
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

/* Enters the adapter: takes the lock; returns `now`, one value for the whole entry. Every way in ends with runtime_leave. */
wtime runtime_enter(struct runtime *rt);
/* As runtime_enter, to post sends: `now` may be what was told last, unless somebody reads timestamps; packets that leave have the
 * right time. The clock costs as much as all else of posting a small write. */
wtime runtime_enter_post(struct runtime *rt);
/* As runtime_enter_post, when only receives are posted: nothing follows from them before something arrives. */
wtime runtime_enter_receive(struct runtime *rt);
/* For a moment, in which nothing is sent, completed or told, and that needs no time: the lock and nothing else. */
void runtime_enter_briefly(struct runtime *rt);
/* As runtime_enter, and takes in what arrived: for poll_cq and other calls of a program that polls. Cheap when idle: one
 * load per watched channel, and the time of an earlier entry. A program that takes frames in this way again and again is
 * trusted to, so that its helper thread need not be woken. May yield the CPU after many polls in vain. */
wtime runtime_enter_poll(struct runtime *rt);
/* The same in two steps, for a program that polls a CQ. True: what waits there already may be taken before runtime_take_in, or
 * instead of it; in some polls it may not, so that what arrives is never put off for long. */
bool runtime_enter_reap(struct runtime *rt);
wtime runtime_take_in(struct runtime *rt);
/* After runtime_enter_poll, before runtime_leave: this thread found completions, so its poll was not in vain. */
void runtime_poll_found(void);

/* Leaves it, however it was entered: sends what became ready, raises events, wakes peers, releases the lock. */
void runtime_leave(struct runtime *rt);
/* The same for a thread of the runtime's own, which has set ca.memory_may_go. */
void runtime_leave_helper(struct runtime *rt);

/* The CQ has nothing: does what was put off. True: completions have come of it, perhaps here. */
bool runtime_look_again(struct runtime *rt);

/* Outside the lock: an engine that runs apart takes over what was posted, and what can complete at once has completed. Blocks for
 * 200 ms at most. */
void runtime_run_engine(struct runtime *rt);

/* Only under the lock and before sleeping on a completion or event fd: the helper thread takes over at once. */
void runtime_will_sleep(struct runtime *rt);

/* Between runtime_enter and runtime_leave: sleeps until `events` is not empty, with the lock given back, and takes in by itself
 * what peers send meanwhile, without the helper thread's help. 0: there are some, none of them announced (below); -EINTR: a
 * signal's handler ended it; -EAGAIN: they are announced, or this thread cannot be the sleeper now: it shall sleep on what
 * announces them; -ECANCELED: forgotten. The caller has cancellation disabled, and cancel_state is what it was: in its sleep the
 * thread can be cancelled then. */
int runtime_wait(struct runtime *rt, const struct list *events, int cancel_state);
/* An event was raised. False: it must be announced. True: the sleeper looks at once. Under the lock. */
bool runtime_wake_sleeper(struct runtime *rt, const struct list *events);
/* The list of events is about to be destroyed: its sleeper ends with -ECANCELED. Under the lock. */
void runtime_forget_events(struct runtime *rt, const struct list *events);

/* Call-backs for objects' events, set before any object exists; borrowed. Called under the lock. */
struct runtime_events {
	void (*cq_event)(struct cq *cq);
	void (*async_event)(enum ibv_event_type type, void *object);
	bool (*is_open)(const struct ca_device *dev);
	/* Calls of this runtime can fail on demand from now on, or no more (runtime/device_faults.h). */
	void (*calls_changed)(struct runtime *rt);
};
void runtime_set_events(struct runtime *rt, const struct runtime_events *events);

/* Operations that may join a multicast group, as attaching and flow rules, wait for weftd outside the lock:
 *     runtime_join_begin(rt);
 *     do { runtime_enter(rt); err = operation; runtime_leave(rt); } while (runtime_join(rt, &err));
 *     runtime_join_end(rt); */
void runtime_join_begin(struct runtime *rt);
bool runtime_join(struct runtime *rt, int *err);
void runtime_join_end(struct runtime *rt);
/* Before a QP is destroyed, outside the lock: what it has posted and what waits for a channel leaves first, if the channel comes
 * soon. Programs that send datagrams do not wait for their completions. */
void runtime_flush_qp(struct runtime *rt, struct qp *qp);
/* Before QPs are made, outside the lock: enough numbers for some hundred, if weftd has them. */
void runtime_reserve_numbers(struct runtime *rt);
int runtime_request(struct runtime *rt, struct control_msg *msg);	/* blocks for the answer; 0 or -errno of `status` */
int runtime_post(struct runtime *rt, const struct control_msg *msg);	/* no answer wanted */
/* To QP1 of a port. May be lost, as a datagram. */
void runtime_send_gmp(struct runtime *rt, const struct gmp *gmp);
/* Nobody listens where a connection was asked for: says once which other weftds its listener may be at. */
void runtime_tell_missing(struct runtime *rt);
/* What comes to QP1 and CTL_PEER_GONE go here, from the helper thread, without the lock, and timers by runtime_cm_deadline. */
struct runtime_cm {
	void (*mad)(void *cm, wtime now, const struct gmp *gmp);
	void (*peer_gone)(void *cm, wtime now, uint32_t slot);
	wtime (*expire)(void *cm, wtime now);	/* runs what is due; returns the next deadline */
	void *cm;
};
void runtime_set_cm(struct runtime *rt, const struct runtime_cm *cm);
void runtime_cm_kick(struct runtime *rt);	/* the deadline became earlier */
/* Outside the lock: what comes from other hosts from now on is received, if weftd says soon that it can be. dev: strangers may
 * send first to a QP of this device, or NULL. Blocks for 1 s at most. */
void runtime_await_wire(struct runtime *rt, const struct ca_device *dev);
/* Outside the lock: the way to another host's address. A zero sgid is set to the address of this host that it leaves by, *mtu
 * (enum ibv_mtu) to what it carries at most. -ENETUNREACH: there is no way, or weftd refuses it, which the program's user is
 * told. Blocks for 1 s at most. */
int runtime_way_to(struct runtime *rt, const uint8_t dgid[16], uint8_t sgid[16], uint8_t *mtu);
uint32_t runtime_slot(const struct runtime *rt);
/* 0 and the MLID of a group this runtime knows, or -ENOENT. Any thread. */
int runtime_group_mlid(struct runtime *rt, int device, const uint8_t gid[16], uint16_t *mlid);

#endif
